//! What the lab says of the same messages on a network of the same shape `[homa 7.6]`.

use super::arrivals::{ANSWER_BYTES, Arrivals, Demand, PACKET_BYTES};
use super::peers;
use super::slowdown::{Tally, Time, ideal_us, network};
use crate::args::HomaPeer;
use crate::faults::Fault;
use crate::testbed::Plan;
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_homa::{Config, Homa};
use cavy_lab::net::traffic::{OpenTraffic, Submission, Traffic};
use cavy_lab::net::{self, Done, Ideal, Observer, PS_PER_NS, Ps, Setup};
use cavy_lab::pending::Heap4;
use cavy_report::model::{Cell, Table};

/// The same messages, with short answers.
struct ShortAnswers(OpenTraffic);

impl Traffic for ShortAnswers {
    fn next(&mut self, host: Node, now: Ps) -> Option<Submission> {
        self.0.next(host, now)
    }

    fn answer_bytes(&mut self, _: u32) -> u32 {
        ANSWER_BYTES
    }
}

/// Keeps the time of every message that counts.
struct Watch<'a> {
    ideal: &'a Ideal,
    tally: Tally,
}

impl<M: ?Sized, H> Observer<M, H> for Watch<'_> {
    fn finished(&mut self, done: &Done) {
        if done.counted {
            let us = (done.at - done.submitted_at) as f64 / PS_PER_NS as f64 / 1e3;
            let bytes = done.length_bytes;
            let slowdown = us / ideal_us(self.ideal, bytes);
            self.tally.times.push(Time { bytes, us, slowdown, own: None });
        }
    }
}

/// What sending or receiving one packet takes in software: a quarter of an idle round trip of the
/// shortest message, for which the buckets that are the testbed's links take no time.
pub fn software(idle: Span) -> Span {
    Span::from_ns(idle.as_ns() / 4)
}

/// What the lab predicts.
#[derive(Clone, Debug, Default)]
pub struct Predicted {
    /// Times of messages.
    pub tally: Tally,
    /// Full packets' worth of payload that was sent again.
    pub sent_again: u64,
}

/// What the lab predicts for a Homa.
pub fn predict(
    peer: HomaPeer,
    demand: &Demand,
    arrivals: &Arrivals,
    plan: &Plan,
    software: Span,
    ideal: &Ideal,
) -> Result<Predicted, Fault> {
    let mut network = network(plan, software)?;
    network.burst_bytes = Some(Plan::BURST_BYTES);
    let mut setup = Setup::new(network, arrivals.seed, arrivals.length, demand.bins.clone());
    setup.warmup = arrivals.warmup;
    setup.drain = Span::from_ms(5_000);
    setup.check().map_err(|error| Fault::new(error.to_string()))?;
    // The lab's network card asks for one packet at a time.
    let config = Config { pacing: None, ..peers::config(peer, plan, demand.tuning())? };
    Homa::new(&config).map_err(|error| Fault::new(error.to_string()))?;
    let make = |_| Homa::new(&config).unwrap_or_else(|error| unreachable!("made before: {error}"));
    let traffic = ShortAnswers(demand.traffic(plan.hosts, arrivals.seed)?);
    let mut watch = Watch { ideal, tally: Tally::default() };
    let report = net::run(&setup, make, traffic, &mut Heap4::new(), &mut watch);
    let sent_again = report.retransmitted_bytes / u64::from(PACKET_BYTES);
    Ok(Predicted { tally: watch.tally, sent_again })
}

/// One bin, measured and predicted.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// The longest message.
    pub up_to_bytes: u32,
    /// Messages measured.
    pub messages: usize,
    /// Measured and predicted median, in microseconds.
    pub p50: Option<(f64, f64)>,
    /// The same of the 99th percentile.
    pub p99: Option<(f64, f64)>,
}

/// The prediction's error, relative to what was measured.
pub fn error((measured, predicted): (f64, f64)) -> f64 {
    (predicted - measured) / measured
}

/// Compares bin by bin.
pub fn compare(demand: &Demand, measured: &Tally, predicted: &Tally) -> Vec<Compared> {
    let bin = |(bin, &up_to_bytes): (usize, &u32)| {
        let at = |tally: &Tally, ratio| {
            tally.quantile(|bytes| demand.bins.of(bytes) == bin, |time| Some(time.us), ratio)
        };
        let both = |ratio| at(measured, ratio).0.zip(at(predicted, ratio).0);
        let messages = at(measured, 0.5).1;
        Compared { up_to_bytes, messages, p50: both(0.5), p99: both(0.99) }
    };
    demand.bins.ends().iter().enumerate().map(bin).collect()
}

/// As a table.
pub fn table(
    peer: HomaPeer,
    demand: &Demand,
    compared: &[Compared],
    sent_again: (u64, u64),
) -> Table {
    let columns = [
        "up to (B)",
        "messages",
        "p50 measured (us)",
        "p50 predicted (us)",
        "error (%)",
        "p99 measured (us)",
        "p99 predicted (us)",
        "error (%)",
    ];
    let row = |one: &Compared| {
        let mut row = vec![Cell::Number(one.up_to_bytes.into()), Cell::Number(one.messages as f64)];
        for pair in [one.p50, one.p99] {
            match pair {
                Some(pair) => row.extend([pair.0, pair.1, 100.0 * error(pair)].map(Cell::Number)),
                None => row.extend((0..3).map(|_| Cell::Missing("n/a".to_string()))),
            }
        }
        row
    };
    Table {
        id: format!("bridge-{}-{}", demand.id(), peer.name()),
        title: format!(
            "{}: {} measured, and predicted by the lab with the same messages; packets sent again: {} \
             measured, {} predicted",
            demand.label(),
            peer.label(),
            sent_again.0,
            sent_again.1
        ),
        columns: columns.map(str::to_string).to_vec(),
        rows: compared.iter().map(row).collect(),
    }
}
