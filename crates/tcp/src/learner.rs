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
//! A faster rate is remembered for ever: if the link becomes slower, it looks as if others were
//! there.

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

/// What is known of the way to a host.
#[derive(Clone, Debug)]
pub(crate) struct Learner {
    mss: u64,
    room: u32,
    starting: bool,
    round: Round,
    /// The most octets a second in a round, and those of the last one.
    fastest: u64,
    rate: u64,
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

impl Learner {
    pub fn new(mss: u16) -> Learner {
        Learner {
            mss: mss.into(),
            room: ROOM_MIN,
            starting: true,
            round: Round::default(),
            fastest: 0,
            rate: 0,
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
            self.end_round(now.since(at));
            self.round.at = Some(now);
        }
    }

    fn end_round(&mut self, took: Span) {
        let Round { octets, queues, leasts, samples, pressed, filled, .. } =
            core::mem::take(&mut self.round);
        let per = |sum: Span| Span::from_ns(sum.as_ns() / samples);
        let (queue, least) = (per(queues), per(leasts));
        self.trip = least + queue;
        if !pressed || filled {
            return;
        }
        let rate = octets.saturating_mul(1_000_000_000) / took.as_ns();
        self.rate = rate;
        self.fastest = self.fastest.max(rate);
        self.calm = self.calm.min(queue);
        let four = Span::from_ns(4 * self.mss * 1_000_000_000 / self.fastest.max(1));
        let target = (least + self.calm).max(four);
        // What a round trip holds at this rate, with that queue.
        let both = (least + target).as_ns();
        let holds = (u128::from(self.fastest) * u128::from(both) / 1_000_000_000) as u64;
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

    fn is_alone(&self) -> bool {
        self.rate >= self.fastest / 8 * 7
    }

    /// Something was lost.
    pub fn lost(&mut self, now: Instant) {
        self.losses += 1;
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
