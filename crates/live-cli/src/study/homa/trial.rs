//! One run of one peer: the same messages for all, in turns.

use super::arrivals::{ANSWER_BYTES, Arrivals, Demand, FRAME_MAX_BYTES};
use super::books::{Books, End};
use super::lag::Lag;
use super::peers::{self, Rig};
use crate::args::HomaPeer;
use crate::faults::{Fault, INTERRUPTED};
use cavy_core::{Instant, Span};
use cavy_lab::statistics::quantile;
use cavy_live::homa;
use cavy_live::load::machine::{Machine, scheduling_here};
use cavy_live::load::{Wait, clock};
use cavy_testbed::Testbed;
use cavy_trials::health::{Health, Lateness, Moment};
use cavy_trials::weather::Weather;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long a run waits for the last answers.
const PATIENCE: Span = Span::from_ms(5_000);
/// How long an idle message may take.
const IDLE_PATIENCE: Span = Span::from_ms(3_000);
/// The generator spins for so much before each message at most: the kernel works for up to a fifth
/// of a millisecond on what came in before it lets anybody run ...
const SPIN_MAX: Span = Span::from_us(250);
/// ... and for this part of the time between two.
const SPIN_PART: u64 = 5;
/// Length of a message that is one short packet, whose round trip takes nothing but software.
const PING_BYTES: u32 = 100;
/// Below this length messages are measured often on the idle network.
const SHORT_BYTES: u32 = 10_000;
/// How often.
const SHORT_TIMES: usize = 5;
/// A generator may be later than a packet's time for this share of messages `[homa 7.6]` ...
pub const LATE_RATIO_MAX: f64 = 0.001;
/// ... or later than this part of the short half's P99. Latencies count from the time a message was
/// due, so lateness is in them: a packet's time matters to a tail of a few packets, and not to one
/// of hundreds.
pub const LATE_PART_MAX: f64 = 0.01;
/// What other machines may take `[homa 7.6]`.
pub const STEAL_RATIO_MAX: f64 = 0.01;
/// What may be taken of the processors `[homa 7.6]`.
pub const BUSY_RATIO_MAX: f64 = 0.7;

/// A message that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Its length.
    pub bytes: u32,
    /// From the time it was due to its answer.
    pub latency: Span,
}

/// One run.
pub struct Round {
    /// Who.
    pub peer: HomaPeer,
    /// Which seed.
    pub repetition: usize,
    /// Messages after the warm-up that were answered.
    pub samples: Vec<Sample>,
    /// Lengths of those that were not.
    pub unanswered: Vec<u32>,
    /// The least time of each length on the idle network.
    pub idle: BTreeMap<u32, Span>,
    /// The median of a message that is one short packet there.
    pub idle_median: Span,
    /// Of the generator.
    pub lateness: Lateness,
    /// Of the machine and the network.
    pub health: Health,
    /// Of the hosts' threads, where the peer says it.
    pub lag: Option<Lag>,
    /// Jitter around the run, and how the generator was scheduled.
    pub weather: Weather,
}

impl Round {
    /// Why its tails should not be believed.
    pub fn doubts(&self) -> Vec<&'static str> {
        let doubt = |is: bool, what| is.then_some(what);
        let late = self.lateness.late_ratio > LATE_RATIO_MAX
            && self.lateness.p999_us > LATE_PART_MAX * self.short_p99_us();
        [
            doubt(late, "late"),
            doubt(self.health.steal_ratio > STEAL_RATIO_MAX, "stolen"),
            doubt(self.health.contended_ratio() > BUSY_RATIO_MAX, "busy"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// P99 of the shorter half of the messages that were answered; 0 without any.
    fn short_p99_us(&self) -> f64 {
        let mut lengths: Vec<u32> = self.samples.iter().map(|sample| sample.bytes).collect();
        lengths.sort_unstable();
        let Some(median) = quantile::of_sorted(&lengths, 0.5) else { return 0.0 };
        let short = self.samples.iter().filter(|sample| sample.bytes <= median);
        let mut times: Vec<Span> = short.map(|sample| sample.latency).collect();
        times.sort_unstable();
        quantile::of_sorted(&times, 0.99).map_or(0.0, Span::as_us)
    }
}

/// What all runs of a study share.
pub struct Manner<'a> {
    /// Length of the jitter probes.
    pub probe: Span,
    /// Becomes true when the user has had enough.
    pub stop: &'a AtomicBool,
}

/// Runs `peer` on `arrivals`.
pub fn run(
    manner: &Manner<'_>,
    testbed: &mut Testbed,
    peer: HomaPeer,
    demand: &Demand,
    (repetition, arrivals): (usize, &Arrivals),
) -> Result<Round, Fault> {
    let rig = peers::start(peer, testbed, demand.tuning())?;
    let idle = idle(&*rig, demand);
    let begun = rig.lag();
    let mut machine = Machine::before(manner.probe);
    let before = Moment::look(testbed, rig.sent_again().unwrap_or(0))?;
    let books = Books::new(arrivals.all.len());
    let (start, late, senders) = send(&*rig, arrivals, &books, manner.stop)?;
    machine.senders = senders;
    let end = clock::now() + PATIENCE;
    while books.ended() < arrivals.all.len() as u64 && clock::now() < end {
        Wait::Sleep.until(clock::now() + Span::from_ms(2));
    }
    let health = Moment::look(testbed, rig.sent_again().unwrap_or(0))?.since(&before);
    let lag = Lag::of(idle.lag, [begun, rig.lag()]);
    machine.after(manner.probe);
    let (mut samples, mut unanswered) = (Vec::new(), Vec::new());
    for (index, one) in arrivals.all.iter().enumerate() {
        if one.at < arrivals.warmup {
            continue;
        }
        match books.end(index) {
            End::Answered(at) => {
                samples.push(Sample { bytes: one.bytes, latency: at.since(start + one.at) });
            }
            End::Failed | End::Open => unanswered.push(one.bytes),
        }
    }
    let packet =
        Span::from_ns(u64::from(FRAME_MAX_BYTES) * 8_000_000_000 / testbed.plan().link_bits_per_s);
    let lateness = Lateness::of(late, packet);
    Ok(Round {
        peer,
        repetition,
        samples,
        unanswered,
        idle: idle.least,
        idle_median: idle.median,
        lateness,
        health,
        lag,
        weather: Weather::of(&machine),
    })
}

/// Sends all messages when they are due, before whatever else wants a core; when that began, and
/// how late each was, and how the kernel scheduled the sender.
fn send(
    rig: &dyn Rig,
    arrivals: &Arrivals,
    books: &std::sync::Arc<Books>,
    stop: &AtomicBool,
) -> Result<(Instant, Vec<u64>, &'static str), Fault> {
    // On a thread of its own, so that nothing that is started later goes first as well. Without the
    // right to it, it is an ordinary thread, and lateness says so.
    let first = || {
        clock::go_first();
        send_on_time(rig, arrivals, books, stop)
            .map(|(start, late)| (start, late, scheduling_here()))
    };
    std::thread::scope(|scope| scope.spawn(first).join())
        .unwrap_or_else(|_| Err(Fault::new("the generator panicked")))
}

fn send_on_time(
    rig: &dyn Rig,
    arrivals: &Arrivals,
    books: &std::sync::Arc<Books>,
    stop: &AtomicBool,
) -> Result<(Instant, Vec<u64>), Fault> {
    clock::sharpen_timers();
    let bytes = peers::messages(ANSWER_BYTES);
    // Part of the wait is spun, but little of a core, which the hosts share: a thread that runs
    // already is not kept waiting for the kernel to finish somebody's packets.
    let mean_ns = arrivals.length.as_ns() / arrivals.all.len().max(1) as u64;
    let spin = Span::from_ns(mean_ns / SPIN_PART).min(SPIN_MAX);
    let start = clock::now() + Span::from_ms(20);
    let mut late = Vec::with_capacity(arrivals.all.len());
    for (index, one) in arrivals.all.iter().enumerate() {
        let due = start + one.at;
        let now = Wait::Hybrid.until_with(due, spin);
        late.push(now.since(due).as_ns());
        let message = bytes.slice(..one.bytes as usize);
        rig.send(one.from, one.to, message, books.ticket(index));
        if index % 256 == 0 && stop.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
    }
    Ok((start, late))
}

/// What to say after Ctrl-C.
pub fn interrupted() -> Fault {
    Fault::new("interrupted: nothing is judged").code(INTERRUPTED)
}

/// What messages take on the idle network, one at a time.
struct Idle {
    /// The least time of each length.
    least: BTreeMap<u32, Span>,
    /// The median of a message that is one short packet.
    median: Span,
    /// What the peer said of its threads before and after those messages.
    lag: [Option<homa::Lag>; 2],
}

fn idle(rig: &dyn Rig, demand: &Demand) -> Idle {
    let bytes = peers::messages(ANSWER_BYTES);
    let one = |length: u32| {
        let books = Books::new(1);
        let start = clock::now();
        rig.send(0, 1, bytes.slice(..length as usize), books.ticket(0));
        let end = start + IDLE_PATIENCE;
        loop {
            match books.end(0) {
                End::Answered(at) => return Some(at.since(start)),
                End::Failed => return None,
                End::Open if clock::now() > end => return None,
                End::Open => Wait::Sleep.until(clock::now() + Span::from_us(50)),
            };
        }
    };
    let mut least = BTreeMap::new();
    // The first ones open windows and meet cold caches.
    for _ in 0..10 {
        one(PING_BYTES);
    }
    let before = rig.lag();
    let mut short: Vec<Span> = (0..30).filter_map(|_| one(PING_BYTES)).collect();
    let lag = [before, rig.lag()];
    short.sort();
    for (length, _) in demand.sizes.steps() {
        let times = if length < SHORT_BYTES { SHORT_TIMES } else { 1 };
        if let Some(time) = (0..times).filter_map(|_| one(length)).min() {
            least.insert(length, time);
        }
    }
    let median = quantile::of_sorted(&short, 0.5).unwrap_or(Span::ZERO);
    Idle { least, median, lag }
}

#[cfg(test)]
mod tests {
    #![allow(non_snake_case)]
    use super::*;

    fn late_by(lateness_us: f64, latency: Span) -> Round {
        Round {
            peer: HomaPeer::Homa,
            repetition: 0,
            samples: vec![Sample { bytes: 8, latency }; 200],
            unanswered: Vec::new(),
            idle: BTreeMap::new(),
            idle_median: Span::ZERO,
            lateness: Lateness { late_ratio: 0.002, p999_us: lateness_us, ..Lateness::default() },
            health: Health::default(),
            lag: None,
            weather: Weather::default(),
        }
    }

    #[test]
    fn clause_7_6_lateness_is_a_doubt_where_it_is_much_of_the_tail() {
        assert!(late_by(200.0, Span::from_us(60_000)).doubts().is_empty());
        assert_eq!(late_by(200.0, Span::from_us(500)).doubts(), ["late"]);
    }
}
