//! How many segments a schedule may have under way, where nobody says what the port holds
//! ([incast 8]).
//!
//! The receiver sees all that it needs. From a turn to its segment is a round trip; the least of a
//! connection is what it takes without a queue, and what others take longer is the queue. Octets
//! that arrive in a round are the rate. A gap is a loss, and so is what comes as late as a timer.
//!
//! Alone at the port, the queue is of its own making: as many segments are under way as a round
//! trip and a queue as long as that hold, and no loss is needed to find out how many these are. If
//! the port holds less, what was too much is remembered for a while.
//!
//! Beside others the queue is theirs as well, and who yields to it starves. It is theirs if the
//! round trip is long and the rate far below the best. Then the room grows by a segment a round
//! trip and is halved by a loss, as the window of one connection would. A loss costs a stock server
//! 200 ms where less than three segments follow it. So servers send one after the other there, each
//! with as much of the room as it can use; none of them sends in bursts; and what nothing follows
//! waits while the queue is nearly as long as losses found it.
//!
//! So the best rate says what the way is like without others, and is kept as BBR keeps the shortest
//! round trip, which says the same: for ten seconds at most after it was met last. BBR's maximum of
//! rates, over ten round trips, would be too short. It belongs to a sender that tries a faster rate
//! every eight of them, and here the rate is low for as long as others are there. Until a rate is
//! forgotten, a link that became slower looks as if others were there.
//!
//! A program on a busy machine sees packets late, and several at once. Then a round that begins in
//! the middle of such a batch looks faster than the link is, and one that a pause falls into looks
//! slower, as if others were there. Links as well send faster for a moment after a pause. So such a
//! host, [`Learner::of_batches`], takes no rate for true that is above what is under way over a
//! round trip, which has the pause in it, tells a rate from all rounds of 8 ms, and calls itself
//! alone if any of the last rates since a loss was fast.

use cavy_core::{Instant, Span};

/// Segments at the beginning, and at least.
const ROOM_MIN: u32 = 4;
/// More are of no use to anybody.
const ROOM_MAX: u32 = 1 << 20;
/// Arrivals of a round at least, so that a rate can be told.
const ROUND_MIN: u64 = 32;
/// Who comes so late was sent again.
const LATE: Span = Span::from_ms(100);
/// For how long too much is remembered at first, doubled each time it is too much again.
const REMEMBER: Span = Span::from_ms(1_000);
const REMEMBER_MAX: Span = Span::from_ms(64_000);
/// How long rounds must last together before they tell a rate, where packets come in batches. A
/// reader that stood still for a millisecond before them is an eighth of it.
const LONG: Span = Span::from_ms(8);
/// Rates of which the fastest says whether others are there.
const LATELY: usize = 8;

/// The best rate is that of this stretch and of the one before.
const STRETCH: Span = Span::from_ms(5_000);

/// What is known of the way to a host.
#[derive(Clone, Debug)]
pub(crate) struct Learner {
    mss: u64,
    room: u32,
    starting: bool,
    round: Round,
    /// The most octets a second in a round, lately, and those of the last one.
    fastest: Fastest,
    rate: u64,
    /// Where packets are seen in batches.
    batches: Option<Batches>,
    /// The least mean queue of a round: how much round trips vary without one.
    calm: Span,
    /// The queue that was met last, and a mean of those that losses met.
    queue: Span,
    full: Span,
    /// A round trip with its queue.
    trip: Span,
    /// Losses until then have the same cause.
    punished_until: Instant,
    /// What was too much, until when that counts, and for how long the next one will.
    ceiling: u32,
    ceiling_until: Instant,
    remember: Span,
    losses: u64,
}

/// The greatest of the rates of this stretch and of the one before. A stretch ends with the first
/// rate that is met when it is over, so that nothing is forgotten while nothing comes.
#[derive(Clone, Copy, Debug, Default)]
struct Fastest {
    begun: Instant,
    rate: u64,
    before: u64,
}

impl Fastest {
    fn meets(&mut self, rate: u64, now: Instant) {
        if now.since(self.begun) >= STRETCH {
            *self = Fastest { begun: now, rate: 0, before: self.rate };
        }
        self.rate = self.rate.max(rate);
    }

    fn rate(&self) -> u64 {
        self.rate.max(self.before)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    at: Option<Instant>,
    octets: u64,
    queues: Span,
    leasts: Span,
    samples: u64,
    /// Servers waited for a turn.
    pressed: bool,
    /// Gaps were filled, so that octets say nothing about the rate.
    filled: bool,
}

/// What a host that sees packets in batches knows of rates.
#[derive(Clone, Copy, Debug, Default)]
struct Batches {
    /// Rounds that are not enough yet to tell a rate, and how long they took.
    octets: u128,
    took: Span,
    /// The last rates, and how many there were.
    lately: [u64; LATELY],
    rounds: usize,
}

impl Learner {
    pub fn new(mss: u16) -> Learner {
        Learner {
            mss: mss.into(),
            room: ROOM_MIN,
            starting: true,
            round: Round::default(),
            fastest: Fastest::default(),
            rate: 0,
            batches: None,
            calm: Span::from_ns(u64::MAX),
            queue: Span::ZERO,
            full: Span::ZERO,
            trip: Span::ZERO,
            punished_until: Instant::ZERO,
            ceiling: ROOM_MAX,
            ceiling_until: Instant::ZERO,
            remember: REMEMBER,
            losses: 0,
        }
    }

    /// The same of a host that sees packets late and in batches.
    pub fn of_batches(self) -> Learner {
        Learner { batches: Some(Batches::default()), ..self }
    }

    /// Segments that may be under way.
    pub fn segments(&self) -> u32 {
        self.room
    }

    /// Does it share the port with others that fill it? Then losses come whatever it does, and
    /// servers should be ready for them: one after the other, with all of the room, so that three
    /// segments after a lost one tell of it; and without bursts.
    pub fn competes(&self) -> bool {
        self.losses > 0 && !self.is_alone()
    }

    /// Would what is sent now meet a port that is nearly full?
    pub fn is_danger(&self) -> bool {
        self.competes() && self.queue * 4 > self.full * 3
    }

    /// Somebody wants a turn, and there is no room.
    pub fn pressed(&mut self) {
        self.round.pressed = true;
    }

    /// Nothing is under way: what comes next begins a round.
    pub fn rested(&mut self) {
        self.round = Round::default();
    }

    /// A segment came a round trip after its turn. `first` includes what the server had to think.
    pub fn sample(&mut self, trip: Span, least: Span, first: bool) {
        if first {
            return;
        }
        self.queue = trip - least;
        let round = &mut self.round;
        round.queues += self.queue;
        round.leasts += least;
        round.samples += 1;
    }

    /// Octets came in order; `filled` if a gap was closed by them.
    pub fn arrived(&mut self, octets: u64, filled: bool, now: Instant) {
        let round = &mut self.round;
        let Some(at) = round.at else {
            round.at = Some(now);
            return;
        };
        round.octets += octets;
        round.filled |= filled;
        let whole = (2 * u64::from(self.room)).max(ROUND_MIN) * self.mss;
        if round.octets >= whole && now > at && round.samples > 0 {
            self.end_round(now.since(at), now);
            self.round.at = Some(now);
        }
    }

    fn end_round(&mut self, took: Span, now: Instant) {
        let Round { octets, queues, leasts, samples, pressed, filled, .. } =
            core::mem::take(&mut self.round);
        let per = |sum: Span| Span::from_ns(sum.as_ns() / samples);
        let (queue, least) = (per(queues), per(leasts));
        self.trip = least + queue;
        if !pressed || filled {
            return;
        }
        let rate = octets.saturating_mul(1_000_000_000) / took.as_ns();
        if self.batches.is_some() {
            self.batch(rate, took, now);
        } else {
            self.rate = rate;
            self.fastest.meets(rate, now);
        }
        let fastest = self.fastest.rate();
        self.calm = self.calm.min(queue);
        let four = Span::from_ns(4 * self.mss * 1_000_000_000 / fastest.max(1));
        let target = (least + self.calm).max(four);
        // What a round trip holds at this rate, with that queue.
        let both = (least + target).as_ns();
        let holds = (u128::from(fastest) * u128::from(both) / 1_000_000_000) as u64;
        let holds = (holds / self.mss + 1).min(ROOM_MAX.into()) as u32;
        let room = self.room;
        let trips = (octets / self.mss) as u32 / room;
        self.room = if self.starting {
            self.starting = holds > room + room / 4;
            (2 * room).min(holds).max(room)
        } else if queue <= target || !self.is_alone() {
            room + trips.max(1)
        } else {
            // As long a queue as it wants, without a loss.
            (self.ceiling_until, self.remember) = (Instant::ZERO, REMEMBER);
            room.min(holds.max(room - 1))
        };
        self.room = self.room.clamp(ROOM_MIN, self.ceiling);
    }

    /// A round of a host that sees packets in batches.
    fn batch(&mut self, rate: u64, took: Span, now: Instant) {
        let Some(batches) = &mut self.batches else { return };
        let under_way = u64::from(self.room) * self.mss;
        let rate = rate.min(under_way * 1_000_000_000 / self.trip.as_ns().max(1));
        batches.octets += u128::from(rate) * u128::from(took.as_ns()) / 1_000_000_000;
        batches.took += took;
        if batches.took >= LONG {
            let long = (batches.octets * 1_000_000_000 / u128::from(batches.took.as_ns())) as u64;
            (batches.octets, batches.took) = (0, Span::ZERO);
            batches.lately[batches.rounds % LATELY] = long;
            if batches.rounds == 0 {
                self.fastest = Fastest::default();
            }
            self.fastest.meets(long, now);
            batches.rounds += 1;
            self.rate = batches.lately.iter().copied().fold(long, u64::max);
        } else if batches.rounds == 0 {
            // Until there is better.
            self.rate = rate;
            self.fastest.meets(rate, now);
        }
    }

    fn is_alone(&self) -> bool {
        self.rate >= self.fastest.rate() / 8 * 7
    }

    /// Something was lost.
    pub fn lost(&mut self, now: Instant) {
        self.losses += 1;
        // What was fast before a loss says nothing about who is there now.
        self.batches = self.batches.map(|batches| Batches { lately: [0; LATELY], ..batches });
        // A mean of what losses met.
        let met = if self.full.is_zero() { self.queue } else { self.full };
        self.full = Span::from_ns((7 * met.as_ns() + self.queue.as_ns()) / 8);
        if now < self.punished_until {
            return;
        }
        self.punished_until = now + self.trip * 2;
        if self.is_alone() {
            // Tried again, and again too much: the next try is later. Else it is still settling.
            let again = self.ceiling_until > Instant::ZERO && now >= self.ceiling_until;
            self.remember =
                if again { (self.remember * 2).min(REMEMBER_MAX) } else { self.remember };
            self.ceiling = (self.room / 4 * 3).max(ROOM_MIN);
            self.ceiling_until = now + self.remember;
            self.room = self.ceiling;
        } else {
            self.room = (self.room / 2).max(ROOM_MIN);
        }
        self.starting = false;
    }

    /// Time passes.
    pub fn look(&mut self, now: Instant) {
        if now >= self.ceiling_until {
            self.ceiling = ROOM_MAX;
        }
    }

    pub fn is_late(trip: Span) -> bool {
        trip >= LATE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use cavy_core::{Purpose, Stream};

    const MSS: u64 = 1_448;
    const US: u64 = 1_000;

    /// Segments one after the other through a port, to a reader that stands still now and then.
    struct Way {
        learner: Learner,
        /// What the port sends a segment in, and how many it keeps.
        each_ns: u64,
        keeps: usize,
        /// How long the reader stands still, at most, in one read of fifty.
        pause_us: u64,
        /// Of 500 segments so many leave in no time.
        spurt: u64,
    }

    impl Way {
        /// Runs for so many segments; says how many were dropped, and the share of the link that
        /// was used.
        fn run(&mut self, segments: u64, seed: u64) -> (u64, f64) {
            let mut draws = Stream::keyed(seed, 0, Purpose::Test);
            // When each segment under way is at the reader, and when its turn began.
            let mut under_way: VecDeque<(u64, u64)> = VecDeque::new();
            let (mut now, mut free_at, mut dropped, mut came) = (0_u64, 0_u64, 0, 0);
            let mut sent = 0;
            let trip_ns = 100 * US;
            let least = Span::from_ns(trip_ns + self.each_ns);
            while came < segments {
                while (under_way.len() as u64) < u64::from(self.learner.segments()) {
                    let at = now + trip_ns / 2;
                    if free_at.saturating_sub(at) / self.each_ns >= self.keeps as u64 {
                        dropped += 1;
                        self.learner.lost(Instant::from_ns(now));
                        break;
                    }
                    sent += 1;
                    let each_ns = if sent % 500 < self.spurt { 0 } else { self.each_ns };
                    free_at = free_at.max(at) + each_ns;
                    under_way.push_back((free_at + trip_ns / 2, now));
                }
                self.learner.pressed();
                let Some(&(first, _)) = under_way.front() else { break };
                now = now.max(first);
                if draws.below(50) == 0 {
                    now += draws.below(self.pause_us * US + 1);
                }
                while let Some(&(_, turn)) = under_way.front().filter(|one| one.0 <= now) {
                    under_way.pop_front();
                    came += 1;
                    now += US;
                    let trip = Span::from_ns(now - turn).max(least);
                    let at = Instant::from_ns(now);
                    self.learner.look(at);
                    self.learner.sample(trip, least, false);
                    self.learner.arrived(MSS, false, at);
                }
            }
            (dropped, (came * self.each_ns) as f64 / now as f64)
        }
    }

    /// At 200 Mb/s, with a port of 32 kB.
    fn way(pause_us: u64, learner: Learner) -> Way {
        Way { learner, each_ns: 1_538 * 40, keeps: 20, pause_us, spurt: 0 }
    }

    /// Live, 32 segments come in 1.5 ms now and then, where the link takes 2.0 for them. Taken for
    /// a faster link this was remembered for ever: it looked as if others were there, and about 150
    /// segments were dropped.
    #[test]
    fn what_comes_faster_for_a_moment_is_not_taken_for_a_faster_link() {
        for (pause_us, least) in [(0, 1.0), (300, 1.0), (1_000, 0.9)] {
            for seed in 0..5 {
                let new = Learner::new(MSS as u16).of_batches();
                let mut spurts = Way { spurt: 8, ..way(pause_us, new) };
                let (dropped, used) = spurts.run(50_000, seed);
                assert!(dropped == 0 && used > least, "{pause_us} us: {dropped}, {used}");
                let link = 1_000_000_000 / spurts.each_ns * MSS;
                let fastest = spurts.learner.fastest.rate() as f64 / link as f64;
                assert!((1.0..8.0 / 7.0).contains(&fastest), "{pause_us} us: {fastest}");
            }
        }
    }

    #[test]
    fn the_best_rate_is_forgotten_between_five_and_ten_seconds_after_it_was_met() {
        let mut fastest = Fastest::default();
        // A rate of 9 until 12.0 s, of 5 from then on, and nothing from 14 s to 40 s.
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let steps = (0..14_000).chain(40_000..60_000).step_by(100);
        let mut known = steps.map(|ms| {
            fastest.meets(if ms < 12_000 { 9 } else { 5 }, at(ms));
            (ms, fastest.rate())
        });
        let forgotten = known.find(|(_, rate)| *rate == 5).expect("it is forgotten");
        // Stretches begin at 0, 5, 10 and 40 s. Those that nothing came in are none.
        assert_eq!(forgotten, (45_000, 5));
        assert!(known.all(|(_, rate)| rate == 5));
        // A faster one counts at once.
        fastest.meets(8, at(60_000));
        assert_eq!(fastest.rate(), 8);
    }

    #[test]
    fn a_reader_that_stands_still_does_not_take_its_own_batches_for_a_faster_link() {
        let new = || Learner::new(MSS as u16);
        for seed in 0..5 {
            let (dropped, used) = way(0, new()).run(20_000, seed);
            assert!(dropped == 0 && used > 0.98, "without pauses: {dropped}, {used}");
            let mut plain = way(1_000, new());
            let (plain_dropped, _) = plain.run(20_000, seed);
            let mut batches = way(1_000, new().of_batches());
            let (dropped, used) = batches.run(20_000, seed);
            assert!(plain_dropped > 50, "what it is for: {plain_dropped}");
            assert!(dropped < 5 && used > 0.85, "seed {seed}: {dropped}, {used}");
            let link = 1_000_000_000 / batches.each_ns * MSS;
            let fastest = batches.learner.fastest.rate() as f64 / link as f64;
            // Alone at seven eighths of it, so that the rate of the link itself counts as alone.
            assert!((0.95..8.0 / 7.0).contains(&fastest), "seed {seed}: {fastest}");
        }
    }
}
