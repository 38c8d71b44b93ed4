//! What the lab says of the same messages on a network of the same shape `[homa 7.6]`.

use super::arrivals::{ANSWER_BYTES, Arrivals, Demand, FRAME_MAX_BYTES, PACKET_BYTES};
use super::peers;
use super::slowdown::{Tally, Time, ideal_us, network};
use super::trial::Round;
use crate::args::HomaPeer;
use crate::faults::Fault;
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_homa::Homa;
use cavy_lab::net::traffic::{OpenTraffic, Submission, Traffic};
use cavy_lab::net::{self, Done, Ideal, Observer, PS_PER_NS, Ps, Setup};
use cavy_lab::pending::Heap4;
use cavy_lab::statistics::quantile::beyond;
use cavy_report::model::{Cell, Table};
use cavy_testbed::Plan;

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

/// What software takes in one run.
#[derive(Clone, Debug)]
pub struct Software {
    /// To send a packet on the idle network, the way through the kernel to the other end's socket
    /// included.
    pub send: Span,
    /// Until a thread looks at what has come.
    pub wakes: Vec<Span>,
    /// What sending takes longer in the run.
    pub sends: Vec<Span>,
}

impl Software {
    /// As it was measured; `None` where the run has not said how long its threads kept things
    /// waiting.
    ///
    /// On the idle network links of the testbed, which are buckets, take no time for one short
    /// packet. Its message waits for a thread three times, when it is submitted, asked and
    /// answered, and is sent twice.
    pub fn of(round: &Round) -> Option<Software> {
        let lag = round.lag.as_ref()?;
        let sending_ns = round.idle_median.as_ns().saturating_sub(3 * lag.looked.idle_p50_ns);
        Some(Software {
            send: Span::from_ns(sending_ns / 2),
            wakes: lag.looked.beyond(0),
            sends: lag.sent.beyond(lag.sent.idle_p50_ns),
        })
    }
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
    software: &Software,
    ideal: &Ideal,
) -> Result<Predicted, Fault> {
    let mut network = network(plan, software.send)?;
    network.burst_bytes = Some(Plan::BURST_BYTES);
    network.wakes.clone_from(&software.wakes);
    network.sends.clone_from(&software.sends);
    // The system takes what the endpoint paces.
    network.hosts.nic_packets = Plan::HOST_QUEUE_BYTES as u32 / FRAME_MAX_BYTES;
    let mut setup = Setup::new(network, arrivals.seed, arrivals.length, demand.bins.clone());
    setup.warmup = arrivals.warmup;
    setup.drain = Span::from_ms(5_000);
    setup.check().map_err(|error| Fault::new(error.to_string()))?;
    let config = peers::config(peer, plan, demand.tuning())?;
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
pub struct ComparedBin {
    /// The longest message.
    pub up_to_bytes: u32,
    /// Messages measured.
    pub messages: u64,
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
pub fn compare(demand: &Demand, measured: &Tally, predicted: &Tally) -> Vec<ComparedBin> {
    let bin = |(bin, &up_to_bytes): (usize, &u32)| {
        let at = |tally: &Tally, ratio| {
            tally.quantile(|bytes| demand.bins.of(bytes) == bin, |time| Some(time.us), ratio)
        };
        let both = |ratio| at(measured, ratio).0.zip(at(predicted, ratio).0);
        let messages = at(measured, 0.5).1;
        ComparedBin { up_to_bytes, messages, p50: both(0.5), p99: both(0.99) }
    };
    demand.bins.ends().iter().enumerate().map(bin).collect()
}

/// As a table.
pub fn table(
    peer: HomaPeer,
    demand: &Demand,
    compared: &[ComparedBin],
    sent_again: (u64, u64),
) -> Table {
    let columns = [
        "up to (B)",
        "messages",
        "beyond p99",
        "p50 measured (us)",
        "p50 predicted (us)",
        "error (%)",
        "p99 measured (us)",
        "p99 predicted (us)",
        "error (%)",
    ];
    let row = |one: &ComparedBin| {
        let counts =
            [one.messages, beyond(one.messages, 0.99)].map(|count| Cell::Number(count as f64));
        let mut row = vec![Cell::Number(one.up_to_bytes.into())];
        row.extend(counts);
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
            "{}: {} measured, and predicted by the lab with the same messages; packets sent again: \
             {} measured, {} predicted",
            demand.label(),
            peer.label(),
            sent_again.0,
            sent_again.1
        ),
        columns: columns.map(str::to_string).to_vec(),
        rows: compared.iter().map(row).collect(),
    }
}
