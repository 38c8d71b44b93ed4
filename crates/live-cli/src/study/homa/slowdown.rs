//! How much longer messages took than they must.

use super::arrivals::{ANSWER_BYTES, Demand};
use super::trial::Round;
use crate::faults::Fault;
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_lab::net::{Buffer, Hosts, Ideal, Network, Rate, Topology};
use cavy_lab::statistics::quantile::{BEYOND_MIN_IN_BIN, beyond, rank};
use cavy_testbed::Plan;
use std::collections::BTreeMap;

/// The lab's network of the same shape, whose hosts take `send` for each packet they send.
pub fn network(plan: &Plan, send: Span) -> Result<Network, Fault> {
    let wrong = |what: &str| Fault::new(format!("the lab has no such network: {what}"));
    let rate = Rate::new(plan.link_bits_per_s).ok_or_else(|| wrong("the rate of its links"))?;
    let star = Topology::star(plan.hosts.into(), rate, Span::ZERO);
    let mut network = Network::new(star.map_err(|error| wrong(&error.to_string()))?);
    network.switch_latency = Span::ZERO;
    network.buffer = Buffer::Unlimited;
    network.hosts = Hosts { send, think: Span::ZERO, receive: Span::ZERO, ..Hosts::default() };
    Ok(network)
}

/// One message's time, and how it compares.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// Length of the message.
    pub bytes: u32,
    /// From the time it was due to its answer.
    pub us: f64,
    /// Over the analytic ideal of the network.
    pub slowdown: f64,
    /// Over the transport's own least time for that length.
    pub own: Option<f64>,
}

/// Messages of one peer and one demand.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Those answered.
    pub times: Vec<Time>,
    /// Lengths of those not answered: slower than any.
    pub unanswered: Vec<u32>,
}

impl Tally {
    /// Of these runs.
    pub fn of<'a>(rounds: impl Iterator<Item = &'a Round>, ideal: &Ideal) -> Tally {
        let mut tally = Tally::default();
        for round in rounds {
            let mut least: BTreeMap<u32, Span> = round.idle.clone();
            for sample in &round.samples {
                let least = least.entry(sample.bytes).or_insert(sample.latency);
                *least = (*least).min(sample.latency);
            }
            tally.times.extend(round.samples.iter().map(|sample| {
                let best = ideal_us(ideal, sample.bytes);
                let own = least.get(&sample.bytes).map(|own| own.as_us());
                let us = sample.latency.as_us();
                let own = own.filter(|own| *own > 0.0).map(|own| us / own);
                Time { bytes: sample.bytes, us, slowdown: us / best, own }
            }));
            tally.unanswered.extend(&round.unanswered);
        }
        tally
    }

    /// The percentile of what `of` says, over messages whose length `chosen` likes, and how many
    /// they are. `None` with fewer than [`BEYOND_MIN_IN_BIN`] beyond it, or where it is one that
    /// was not answered.
    pub fn quantile(
        &self,
        chosen: impl Fn(u32) -> bool,
        of: impl Fn(&Time) -> Option<f64>,
        ratio: f64,
    ) -> (Option<f64>, u64) {
        let mut all: Vec<f64> =
            self.times.iter().filter(|time| chosen(time.bytes)).filter_map(of).collect();
        let lost = self.unanswered.iter().filter(|&&bytes| chosen(bytes)).count();
        all.sort_by(f64::total_cmp);
        let count = (all.len() + lost) as u64;
        let value = all.get(rank(count, ratio) as usize - 1).copied();
        (value.filter(|_| beyond(count, ratio) >= BEYOND_MIN_IN_BIN), count)
    }

    /// The slowdown of the shorter half.
    pub fn short(&self, demand: &Demand, ratio: f64) -> (Option<f64>, u64) {
        let short = demand.short_bytes();
        self.quantile(|bytes| bytes <= short, |time| Some(time.slowdown), ratio)
    }

    /// The slowdown of one bin, and how many messages it has.
    pub fn bin(&self, demand: &Demand, bin: usize, ratio: f64) -> (Option<f64>, u64) {
        self.quantile(|bytes| demand.bins.of(bytes) == bin, |time| Some(time.slowdown), ratio)
    }
}

/// The least time of a message and its answer.
pub fn ideal_us(ideal: &Ideal, bytes: u32) -> f64 {
    let picoseconds =
        ideal.time(Node(0), Node(1), bytes) + ideal.time(Node(1), Node(0), ANSWER_BYTES);
    picoseconds as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(us: impl Iterator<Item = u32>, lost: usize) -> Tally {
        let time = |us: u32| Time { bytes: 8, us: us.into(), slowdown: us.into(), own: None };
        Tally { times: us.map(time).collect(), unanswered: vec![8; lost] }
    }

    #[test]
    fn the_ideal_is_two_links_and_an_answer() {
        let ideal = Ideal::new(&network(&Plan::slow(6), Span::ZERO).unwrap());
        // Shortest frames: 84 bytes over two links of 100 Mb/s, there and back.
        assert!((ideal_us(&ideal, 8) - 4.0 * 6.72).abs() < 1e-6);
        // A full packet is stored and forwarded; the second follows on the last link.
        let two = ideal_us(&ideal, 2 * 1472) - 2.0 * 6.72;
        assert!((two - 3.0 * 123.04).abs() < 1e-6, "{two}");
    }

    #[test]
    fn what_was_not_answered_is_slower_than_all() {
        let slowdown =
            |tally: &Tally, ratio| tally.quantile(|_| true, |time| Some(time.slowdown), ratio).0;
        let all = tally(1..=1_000, 0);
        assert_eq!(slowdown(&all, 0.5), Some(500.0));
        assert_eq!(slowdown(&all, 0.99), Some(990.0));
        // Nine beyond are too few.
        assert_eq!(slowdown(&all, 0.991), None);
        // Twenty lost ones are the slowest two per cent.
        let lossy = tally(1..=980, 20);
        assert_eq!(slowdown(&lossy, 0.5), Some(500.0));
        assert_eq!(slowdown(&lossy, 0.99), None);
    }
}
