//! Who sends what to whom, and when.
//!
//! Message number n of a host has the same time, receiver and length whatever transport carries it
//! and whatever other hosts do: gaps, receivers and lengths come from three streams of each host,
//! and each message takes one number of each. Closed loops, where a message waits for an answer,
//! can only promise that for receiver and length.

use super::clock::Ps;
use cavy_core::family::Node;
use cavy_core::{Purpose, Stream};
use cavy_workload::sizes::{Sizes, Strata};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A message that an application submits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submission {
    /// When; the world submits it then, or now if that has passed.
    pub at: Ps,
    /// The receiver, another host.
    pub to: Node,
    /// Its length.
    pub length_bytes: u32,
    /// Is it a question?
    pub asks: bool,
    /// To which class of traffic it belongs: a number that the world only hands on.
    pub class: u16,
}

/// The applications of all hosts.
pub trait Traffic {
    /// The next message of `host`, or `None` if there is none for now. Asked at the start, after
    /// each submission, and when a message of a host that has none pending has ended.
    fn next(&mut self, host: Node, now: Ps) -> Option<Submission>;
    /// How long the answer to a question of `question_bytes` is.
    fn answer_bytes(&mut self, question_bytes: u32) -> u32 {
        question_bytes
    }
    /// A message of `host` ended: delivered, answered or failed.
    fn ended(&mut self, _host: Node) {}
}

/// How the gaps between the messages of a host are spread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Gaps {
    /// Exponential: a Poisson process `[homa 4.2]`.
    Poisson,
    /// Uniform around their mean with this coefficient of variation, from 0 to 0.57. The generator
    /// of the source's cluster measurements comes to about 0.01 `[homa 6]`.
    NearPeriodic {
        /// Standard deviation over mean.
        variation: f64,
    },
}

/// Whom a host sends to.
#[derive(Clone, PartialEq, Debug)]
pub enum Receivers {
    /// Any other host, all alike `[homa 4.2]`.
    Others,
    /// Any of these other than itself, all alike.
    Among(Range<u32>),
    /// Always the same one, a different one for each sender.
    Permutation,
    /// Some more likely than others.
    Weighted(Arc<Weights>),
}

/// How much each host sends to each other one, apart from how much all send together.
#[derive(Clone, PartialEq, Debug)]
pub struct Weights {
    /// For each sender, or for all alike, the sums of the receivers' weights up to each one.
    rows: Vec<Vec<f64>>,
    /// For each host, its share of all messages over that of the mean host.
    rates: Vec<f64>,
}

impl Weights {
    /// All of `hosts` hosts send alike, and host h receives in proportion to 1 / (h + 1) ^
    /// `exponent` (Zipf's law): 0 treats all alike. A host does not send to itself. `None` for
    /// fewer than 2 hosts, and for exponents outside 0 to 10.
    pub fn zipf(hosts: u32, exponent: f64) -> Option<Weights> {
        if hosts < 2 || !(0.0..=10.0).contains(&exponent) {
            return None;
        }
        let mut sum = 0.0;
        let weights = (0..hosts).map(|host| {
            sum += libm::pow(f64::from(host + 1), -exponent);
            sum
        });
        Some(Weights { rows: vec![weights.collect()], rates: vec![1.0; hosts as usize] })
    }

    /// What `hosts` hosts send each other: sender, receiver, and weight, a number of any unit from
    /// 0; those of one pair add up. `None` if nothing is sent, a weight is no such number, or a
    /// host is not there or sends to itself.
    pub fn matrix(hosts: u32, entries: &[(Node, Node, f64)]) -> Option<Weights> {
        let count = hosts as usize;
        let mut rows = vec![vec![0.0; count]; count];
        for &(from, to, weight) in entries {
            let is_there = from.0 < hosts && to.0 < hosts && from != to;
            if !(is_there && weight.is_finite() && weight >= 0.0) {
                return None;
            }
            rows[from.0 as usize][to.0 as usize] += weight;
        }
        for row in &mut rows {
            let mut sum = 0.0;
            for weight in row {
                sum += *weight;
                *weight = sum;
            }
        }
        let sums: Vec<f64> = rows.iter().map(|row| row.last().copied().unwrap_or(0.0)).collect();
        let mean = sums.iter().sum::<f64>() / count.max(1) as f64;
        let is_some = mean > 0.0 && mean.is_finite();
        is_some.then(|| Weights { rates: sums.iter().map(|sum| sum / mean).collect(), rows })
    }

    /// What the busiest link of a host carries in one direction, if the mean host sends 1.
    pub fn busiest(&self) -> f64 {
        let hosts = self.rates.len();
        let mut received = vec![0.0; hosts];
        for (from, rate) in self.rates.iter().enumerate() {
            let row = self.row(from);
            let own = weight(row, from);
            let all = row[hosts - 1] - own;
            if all > 0.0 {
                for (to, sum) in received.iter_mut().enumerate() {
                    *sum += if to == from { 0.0 } else { rate * weight(row, to) / all };
                }
            }
        }
        received.iter().chain(&self.rates).copied().fold(0.0, f64::max)
    }

    fn row(&self, from: usize) -> &[f64] {
        self.rows.get(from).unwrap_or(&self.rows[0])
    }

    /// The receiver that `unit`, from 0 excluded to 1, stands for.
    fn receiver(&self, from: u32, unit: f64) -> u32 {
        let (row, from) = (self.row(from as usize), from as usize);
        let own = weight(row, from);
        let mut at = unit * (row[row.len() - 1] - own);
        // The sender's own part is jumped over.
        if at > row[from] - own {
            at += own;
        }
        let to = row.partition_point(|&sum| sum < at).min(row.len() - 1);
        // Only rounding can lead to the sender itself.
        let next = if from + 1 < row.len() { from + 1 } else { from - 1 };
        (if to == from { next } else { to }) as u32
    }
}

/// The weight at a place of sums.
fn weight(sums: &[f64], place: usize) -> f64 {
    sums[place] - if place > 0 { sums[place - 1] } else { 0.0 }
}

/// Messages that come whether or not earlier ones have arrived.
#[derive(Clone, Debug)]
pub struct OpenLoop {
    /// Which hosts send.
    pub senders: Range<u32>,
    /// Whom they send to.
    pub receivers: Receivers,
    /// How long messages are.
    pub sizes: Sizes,
    /// Draw lengths in strata, in blocks of this many messages a host; `None` draws freely
    /// `[homa 4.4]`.
    pub block: Option<u32>,
    /// Messages per second of each sender, of the mean one where receivers are weighted; above 0.
    pub rate_per_s: f64,
    /// Gaps between them.
    pub gaps: Gaps,
    /// Are they questions? Answers are as long as questions `[homa 4.2]`.
    pub asks: bool,
    /// Their class.
    pub class: u16,
}

impl OpenLoop {
    /// Every host sends to every other, one-way, by Poisson processes of `rate_per_s` each.
    pub fn all_to_all(hosts: u32, sizes: Sizes, rate_per_s: f64) -> OpenLoop {
        OpenLoop {
            senders: 0..hosts,
            receivers: Receivers::Others,
            sizes,
            block: None,
            rate_per_s,
            gaps: Gaps::Poisson,
            asks: false,
            class: 0,
        }
    }

    /// The first `clients` hosts ask the next `servers`, which answer as much `[homa 4.5]`.
    pub fn echo(clients: u32, servers: u32, sizes: Sizes, rate_per_s: f64) -> OpenLoop {
        OpenLoop {
            senders: 0..clients,
            receivers: Receivers::Among(clients..clients + servers),
            asks: true,
            ..OpenLoop::all_to_all(clients, sizes, rate_per_s)
        }
    }

    /// The traffic among `hosts` hosts under `seed`.
    pub fn start(self, hosts: u32, seed: u64) -> Result<OpenTraffic, TrafficError> {
        if self.senders.is_empty() || self.senders.end > hosts {
            return Err(TrafficError::Senders { senders: self.senders, hosts });
        }
        if !(self.rate_per_s > 0.0 && self.rate_per_s <= 1e9) {
            return Err(TrafficError::Rate { rate_per_s: self.rate_per_s });
        }
        if let Gaps::NearPeriodic { variation } = self.gaps
            && !(0.0..=0.57).contains(&variation)
        {
            return Err(TrafficError::Variation { variation });
        }
        if let Receivers::Among(range) = &self.receivers
            && (range.end > hosts
                || range.is_empty()
                || (range.len() == 1 && self.senders.contains(&range.start)))
        {
            return Err(TrafficError::Receivers { receivers: range.clone(), hosts });
        }
        if let Receivers::Weighted(weights) = &self.receivers
            && weights.rates.len() != hosts as usize
        {
            return Err(TrafficError::Weights { found: weights.rates.len(), hosts });
        }
        let mean_gap = 1e12 / self.rate_per_s;
        let gap_of = |host: u32| match &self.receivers {
            Receivers::Weighted(weights) => mean_gap / weights.rates[host as usize],
            _ => mean_gap,
        };
        let strata =
            self.block.map(|block| Strata::new(seed ^ 0x5157, self.senders.len() as u32, block));
        let generators = (0..hosts)
            .map(|host| Generator {
                gaps: Stream::keyed(seed, host, Purpose::Arrivals),
                receivers: Stream::keyed(seed, host, Purpose::Destinations),
                sizes: Stream::keyed(seed, host, Purpose::Sizes),
                mean_gap: gap_of(host),
                at: 0.0,
                number: 0,
            })
            .collect();
        let permutation = permutation(hosts, &self.senders, seed);
        Ok(OpenTraffic { what: self, strata, generators, permutation })
    }
}

/// A cyclic order of the senders, drawn by `seed`; each sends to the next.
fn permutation(hosts: u32, senders: &Range<u32>, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = senders.clone().collect();
    let mut stream = Stream::keyed(seed, hosts, Purpose::Destinations);
    for i in (1..order.len()).rev() {
        order.swap(i, stream.below(i as u64 + 1) as usize);
    }
    let mut to: Vec<u32> = (0..hosts).map(|host| (host + 1) % hosts.max(1)).collect();
    if order.len() > 1 {
        for (i, &host) in order.iter().enumerate() {
            to[host as usize] = order[(i + 1) % order.len()];
        }
    }
    to
}

#[derive(Clone, Debug)]
struct Generator {
    gaps: Stream,
    receivers: Stream,
    sizes: Stream,
    /// Picoseconds; infinite for a host that sends nothing.
    mean_gap: f64,
    /// Picoseconds, with a fraction: exact to 2^-12 ps in the first 2 seconds.
    at: f64,
    number: u64,
}

/// [`OpenLoop`] as it runs.
#[derive(Clone, Debug)]
pub struct OpenTraffic {
    what: OpenLoop,
    strata: Option<Strata>,
    generators: Vec<Generator>,
    permutation: Vec<u32>,
}

impl Traffic for OpenTraffic {
    #[inline]
    fn next(&mut self, host: Node, _: Ps) -> Option<Submission> {
        if !self.what.senders.contains(&host.0) {
            return None;
        }
        let hosts = self.generators.len() as u32;
        let generator = &mut self.generators[host.0 as usize];
        if generator.mean_gap == f64::INFINITY {
            return None;
        }
        let unit = generator.gaps.unit();
        let gap = match self.what.gaps {
            Gaps::Poisson => -libm::log(unit),
            // The first comes anywhere within a period.
            Gaps::NearPeriodic { .. } if generator.number == 0 => unit,
            Gaps::NearPeriodic { variation } => 1.0 + variation * (unit - 0.5) * libm::sqrt(12.0),
        };
        generator.at += gap * generator.mean_gap;
        let bits = generator.sizes.bits();
        let unit = match &self.strata {
            None => ((bits >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64),
            Some(strata) => strata.unit(host.0 - self.what.senders.start, generator.number, bits),
        };
        generator.number += 1;
        let to = match &self.what.receivers {
            Receivers::Permutation => self.permutation[host.0 as usize],
            Receivers::Others => another(&(0..hosts), host.0, &mut generator.receivers),
            Receivers::Among(range) => another(range, host.0, &mut generator.receivers),
            Receivers::Weighted(weights) => weights.receiver(host.0, generator.receivers.unit()),
        };
        Some(Submission {
            at: generator.at as Ps,
            to: Node(to),
            length_bytes: self.what.sizes.at(unit),
            asks: self.what.asks,
            class: self.what.class,
        })
    }
}

/// One of `range` other than `not`.
#[inline]
fn another(range: &Range<u32>, not: u32, stream: &mut Stream) -> u32 {
    if !range.contains(&not) {
        return range.start + stream.below(u64::from(range.end - range.start)) as u32;
    }
    let to = range.start + stream.below(u64::from(range.end - range.start - 1)) as u32;
    if to >= not { to + 1 } else { to }
}

/// One client keeps so many questions under way to all other hosts in turn `[homa 5.10]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incast {
    /// Who asks.
    pub client: Node,
    /// How many hosts there are; all but the client answer.
    pub hosts: u32,
    /// Questions under way at a time.
    pub concurrent: u32,
    /// Length of a question.
    pub question_bytes: u32,
    /// Length of an answer.
    pub answer_bytes: u32,
    /// Questions in all; `u64::MAX` for no end.
    pub questions: u64,
}

impl Incast {
    /// The traffic.
    pub fn start(self) -> IncastTraffic {
        IncastTraffic { what: self, open: 0, asked: 0 }
    }
}

/// [`Incast`] as it runs.
#[derive(Clone, Copy, Debug)]
pub struct IncastTraffic {
    what: Incast,
    open: u32,
    asked: u64,
}

impl Traffic for IncastTraffic {
    fn next(&mut self, host: Node, now: Ps) -> Option<Submission> {
        let Incast { client, hosts, concurrent, question_bytes, questions, .. } = self.what;
        if host != client || self.open >= concurrent || self.asked >= questions {
            return None;
        }
        let other = (self.asked % u64::from(hosts.max(2) - 1)) as u32;
        self.open += 1;
        self.asked += 1;
        let to = Node(if other >= client.0 { other + 1 } else { other });
        Some(Submission { at: now, to, length_bytes: question_bytes, asks: true, class: 0 })
    }
    fn answer_bytes(&mut self, _: u32) -> u32 {
        self.what.answer_bytes
    }
    fn ended(&mut self, host: Node) {
        if host == self.what.client {
            self.open -= 1;
        }
    }
}

/// A list of messages: each at its time, or each when the one before it has ended.
#[derive(Clone, Debug)]
pub struct Listed {
    /// For each host, what it has still to submit.
    queues: Vec<VecDeque<Submission>>,
    /// Wait for the end of one before the next.
    sequential: bool,
    open: Vec<u32>,
}

impl Listed {
    /// Each message of `list` (sender and message) at its time.
    pub fn at_times(hosts: u32, list: impl IntoIterator<Item = (Node, Submission)>) -> Listed {
        let mut queues = vec![VecDeque::new(); hosts as usize];
        for (from, submission) in list {
            queues[from.0 as usize].push_back(submission);
        }
        for queue in &mut queues {
            queue.make_contiguous().sort_by_key(|submission| submission.at);
        }
        Listed { queues, sequential: false, open: vec![0; hosts as usize] }
    }

    /// Each message of a host when its last one has ended, but not before its time: the echo
    /// benchmark `[homa 5.3]`.
    pub fn in_turn(hosts: u32, list: impl IntoIterator<Item = (Node, Submission)>) -> Listed {
        Listed { sequential: true, ..Listed::at_times(hosts, list) }
    }
}

impl Traffic for Listed {
    fn next(&mut self, host: Node, now: Ps) -> Option<Submission> {
        let open = &mut self.open[host.0 as usize];
        if self.sequential && *open > 0 {
            return None;
        }
        let submission = self.queues[host.0 as usize].pop_front()?;
        *open += 1;
        Some(Submission { at: submission.at.max(now), ..submission })
    }
    fn ended(&mut self, host: Node) {
        let open = &mut self.open[host.0 as usize];
        *open = open.saturating_sub(1);
    }
}

/// Why there can be no such traffic.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum TrafficError {
    /// Nobody sends, or somebody who is not there.
    Senders {
        /// Who should.
        senders: Range<u32>,
        /// How many hosts there are.
        hosts: u32,
    },
    /// Nobody receives, or somebody who is not there, or only the sender itself.
    Receivers {
        /// Who should.
        receivers: Range<u32>,
        /// How many hosts there are.
        hosts: u32,
    },
    /// The rate is not above 0, or above a message a nanosecond.
    Rate {
        /// What it is.
        rate_per_s: f64,
    },
    /// Weights are of another number of hosts.
    Weights {
        /// Of how many.
        found: usize,
        /// How many hosts there are.
        hosts: u32,
    },
    /// The variation of gaps is out of range.
    Variation {
        /// What it is.
        variation: f64,
    },
}

impl fmt::Display for TrafficError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrafficError::Senders { senders, hosts } => {
                write!(f, "senders {senders:?} must be some of the {hosts} hosts 0..{hosts}")
            }
            TrafficError::Receivers { receivers, hosts } => write!(
                f,
                "receivers {receivers:?} must be some of the {hosts} hosts 0..{hosts}, and not \
                 only the sender"
            ),
            TrafficError::Rate { rate_per_s } => {
                write!(f, "rate_per_s is {rate_per_s}, must be above 0 and at most 1e9")
            }
            TrafficError::Weights { found, hosts } => {
                write!(f, "weights are of {found} hosts, and there are {hosts}")
            }
            TrafficError::Variation { variation } => {
                write!(f, "variation is {variation}, must be from 0 to 0.57")
            }
        }
    }
}

impl std::error::Error for TrafficError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of `hosts` hosts receives from `from`, of 200,000 messages.
    fn received(weights: &Weights, from: u32, hosts: usize) -> Vec<f64> {
        let mut stream = Stream::keyed(1, from, Purpose::Test);
        let mut counts = vec![0.0; hosts];
        for _ in 0..200_000 {
            counts[weights.receiver(from, stream.unit()) as usize] += 1.0 / 200_000.0;
        }
        counts
    }

    #[test]
    fn zipf_draws_by_rank_and_never_the_sender() {
        let weights = Weights::zipf(4, 1.0).expect("legal");
        // 1, 1/2, 1/3, 1/4 without that of the sender.
        let found = received(&weights, 1, 4);
        let all = 1.0 + 1.0 / 3.0 + 0.25;
        for (found, weight) in found.iter().zip([1.0, 0.0, 1.0 / 3.0, 0.25]) {
            assert!((found - weight / all).abs() < 0.005, "{found} for {weight}");
        }
        assert_eq!((received(&weights, 0, 4)[0], received(&weights, 3, 4)[3]), (0.0, 0.0));
        // The first host has 1 of 1 + 1/3 + 1/4 of what host 1 sends, and so on.
        let first: f64 = [0.5, 1.0 / 3.0, 0.25].iter().map(|own| 1.0 / (25.0 / 12.0 - own)).sum();
        assert!((weights.busiest() - first).abs() < 1e-12, "{}", weights.busiest());
        assert!((Weights::zipf(9, 0.0).expect("legal").busiest() - 1.0).abs() < 1e-12);
        assert_eq!([Weights::zipf(1, 1.0), Weights::zipf(4, -1.0)], [None, None]);
    }

    #[test]
    fn a_matrix_says_who_sends_how_much_to_whom() {
        let entry = |from, to, weight| (Node(from), Node(to), weight);
        let list = [entry(0, 2, 3.0), entry(1, 2, 2.0), entry(1, 0, 1.0), entry(1, 0, 1.0)];
        let weights = Weights::matrix(3, &list).expect("legal");
        let found = received(&weights, 1, 3);
        assert!((found[0] - 0.5).abs() < 0.005 && found[1] == 0.0, "{found:?}");
        assert_eq!(received(&weights, 0, 3)[..2], [0.0, 0.0]);
        // Means of 7/3: host 2 receives 5.
        assert!((weights.busiest() - 5.0 / (7.0 / 3.0)).abs() < 1e-12);
        let sizes = Sizes::constant(100).expect("a size");
        let open = OpenLoop {
            receivers: Receivers::Weighted(Arc::new(weights)),
            ..OpenLoop::all_to_all(3, sizes, 1e6)
        };
        let mut traffic = open.clone().start(3, 1).expect("legal");
        let sent = |host: u32, traffic: &mut OpenTraffic| {
            (0..)
                .take_while(|_| traffic.next(Node(host), 0).is_some_and(|s| s.at < 1 << 40))
                .count()
        };
        // In 1.1 s the mean host sends 1.1 million messages.
        let counts = [0, 1, 2].map(|host| sent(host, &mut traffic) as f64 / 1.099_511e6);
        for (found, expected) in counts.iter().zip([9.0 / 7.0, 12.0 / 7.0, 0.0]) {
            assert!((found - expected).abs() < 0.005, "{counts:?}");
        }
        assert!(matches!(open.start(4, 1), Err(TrafficError::Weights { found: 3, hosts: 4 })));
        for wrong in [entry(0, 0, 1.0), entry(0, 3, 1.0), entry(0, 1, -1.0), entry(0, 1, 0.0)] {
            assert_eq!(Weights::matrix(3, &[wrong]), None, "{wrong:?}");
        }
    }
}
