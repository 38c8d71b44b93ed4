//! A replica whose log keeps all that it must not forget (`durable`), and how it comes back with
//! it: alone, or together with all others after a power cut.
//!
//! **What is stored.** What this replica was told and kept ([`Record::Heard`]): entries, commits,
//! values, decisions, views, states of others. It is told again when the node comes back, by the
//! same rules, and nothing that it says meanwhile is sent. Now and then [`Record::Progress`] says
//! how far entries have run and what need not be kept, so that what was run is run again at once.
//! What replicas tell each other every few milliseconds is not stored.
//!
//! **What waits for the disk.** Whatever others rely on when this node has failed: that it has an
//! entry, a commit, a decision, a view, its state. What it says of its clock does not wait: the log
//! has a timestamp below which it may give any, some time ahead ([`RESERVED`]), and after a crash
//! it gives only later ones.
//!
//! **Coming back.** It begins another life that has what the earlier ones had in memory, and asks
//! to be let in with that ([`Status::Cold`]). Messages of its old channels are lost, and it does
//! not know what it coordinated. So a view follows that puts it in its own place: what anybody
//! knows of its transactions is put together there as if it had failed, and stewards tell again
//! which CRTs are pending.

use super::message::{Attempt, Body, Heard, Keeps, Record};
use super::view::{Brought, Status};
use super::{Dast, Out};
use crate::txn::Ts;
use alloc::boxed::Box;
use alloc::vec::Vec;
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_core::family::message::{Effect, Entry, Message as _};

/// Timestamps are given so far ahead of what the log reserves, and reserved anew when half of it is
/// left. A node that comes back at once is ahead of its wall clock by no more than that.
const RESERVED: Span = Span::from_ms(200);

/// What the log is known to have of this node's clock.
#[derive(Default)]
pub(super) struct Reservation {
    /// The last time that was asked for, or read.
    pub upto: u64,
    /// Those that are not stored yet, with their places in the log.
    asked: Vec<(u64, u64)>,
}

impl Dast {
    /// This replica keeps what it hears in its log.
    pub(super) fn keeps_log(&self) -> bool {
        self.config.durable && self.steward.is_none()
    }

    /// Stores a message that it was told, and has kept.
    pub(super) fn remember(&mut self, from: Node, body: impl FnOnce() -> Body) {
        if self.keeps_log() && !self.replaying {
            self.be_born();
            self.record(Record::Heard(Box::new(Heard { from, body: body() })));
        }
    }

    /// Sends what others rely on: when all that was stored before is on disk.
    pub(super) fn say_when_stored(&mut self, to: Node, body: Body) {
        if self.keeps_log() && !self.replaying && !self.config.bugs.say_unstored {
            self.send_after_store(self.appended, to, body);
        } else {
            self.send(to, body);
        }
    }

    /// The same to all of the region.
    pub(super) fn cast_when_stored(&mut self, body: Body) {
        if !self.keeps_log() {
            self.cast(body);
            return;
        }
        let others: Vec<Node> = self.everyone.iter().copied().filter(|n| *n != self.me).collect();
        for node in others {
            self.say_when_stored(node, body.clone());
        }
    }

    pub(super) fn send_after_store(&mut self, entry: u64, to: Node, body: Body) {
        if entry <= self.stored {
            self.send(to, body);
        } else {
            self.after_store.push_back((entry, to, body));
        }
    }

    /// The log has everything up to `upto`.
    pub(super) fn stored(&mut self, upto: Entry) {
        self.stored = upto.0;
        self.waits_for_disk = (self.appended > upto.0).then_some(self.now);
        while self.after_store.front().is_some_and(|(entry, ..)| *entry <= upto.0) {
            if let Some((_, to, body)) = self.after_store.pop_front() {
                self.send(to, body);
            }
        }
        if self.checkpoint > 0 && upto.0 >= self.checkpoint {
            let upto = Entry(self.checkpoint - 1);
            self.checkpoint = 0;
            self.out.push_back(Out::Effect(Effect::Trim { upto }));
        }
        if self.keeps_log() {
            let asked = &mut self.reservation.asked;
            let last = asked.iter().filter(|(entry, _)| *entry <= upto.0).map(|(_, t)| *t).max();
            asked.retain(|(entry, _)| *entry > upto.0);
            if let (Some(last), Some(most)) = (last, &mut self.clock.ceiling) {
                let first = *most == 0;
                *most = last.max(*most);
                if first {
                    self.begin_held();
                }
            }
        }
    }

    /// Its disk has stored nothing for so long that this node is as good as failed: it is full, or
    /// stands still. The node falls silent, so that the others go on without it, if they can: what
    /// it may say of its clock ends soon.
    pub(super) fn has_no_disk(&self) -> bool {
        let since = self.waits_for_disk.filter(|_| self.keeps_log());
        since.is_some_and(|since| self.now.since(since) >= self.config.fail_after)
    }

    /// So that after a crash it knows that it has lived.
    pub(super) fn be_born(&mut self) {
        if !self.born {
            self.born = true;
            self.record_life(if self.keeps_log() { Keeps::FromNow } else { Keeps::Nothing });
        }
    }

    fn record_life(&mut self, keeps: Keeps) -> u64 {
        self.record(Record::Life { life: self.life, keeps })
    }

    /// Reserves timestamps ahead of time, says how far this replica is, and now and then everything
    /// that it has.
    pub(super) fn look_after_log(&mut self) {
        if self.keeps_log() {
            self.reserve();
            if self.checkpoint == 0 {
                self.checkpoint();
            }
        }
    }

    fn reserve(&mut self) {
        let now = self.clock.physical(self.wall).max(self.clock.last().t);
        if self.reservation.upto >= now.saturating_add(RESERVED.as_ns() / 2) {
            return;
        }
        let upto = now.saturating_add(RESERVED.as_ns());
        self.reservation.upto = upto;
        let held = self.peers.iter().map(|peer| peer.held).collect();
        let (high, settled) = (self.high, self.settled);
        let entry = self.record(Record::Progress { clock: upto, high, settled, held });
        self.reservation.asked.push((entry, upto));
    }

    /// Gives up what it has, to be let in again as another.
    pub(super) fn leave(&mut self) {
        self.lose_state();
        self.given_up += 1;
        self.begin_life(self.life + 1, Keeps::FromNow);
        self.send_join();
    }

    /// A channel broke while it was coming in: it asks once more, with what its log has.
    pub(super) fn begin_again(&mut self) {
        if self.keeps_log() {
            self.wake();
        } else {
            self.leave();
        }
    }

    /// What went between this node and others is lost, and it cannot be spared.
    pub(super) fn come_again(&mut self, life: u64) {
        let is_in = !matches!(self.status, Status::Out | Status::Cold);
        if self.keeps_log() && life == self.life && is_in {
            self.wake();
        }
    }

    /// From the record on, whatever was known of this node in an earlier life counts no longer, but
    /// for what it has kept of it.
    fn begin_life(&mut self, life: u64, keeps: Keeps) {
        self.life = life;
        let keeps = if self.keeps_log() { keeps } else { Keeps::Nothing };
        if keeps != Keeps::All {
            self.since = life;
        }
        self.life_entry = self.record_life(keeps);
    }

    /// Asks to be let in. Not before the log knows of this life: it is never lived again.
    pub(super) fn send_join(&mut self) {
        if self.stored < self.life_entry {
            return;
        }
        let stewards: Vec<Node> = self.config.layout.stewards_of(self.region).collect();
        let (life, given_up) = (self.life, self.given_up);
        let brought = match self.status {
            Status::Cold => Brought { since: self.since, rows: self.has_rows },
            _ => Brought::nothing(life),
        };
        self.send_all(stewards, &Body::Join { life, given_up, brought });
    }

    /// One record of an earlier life.
    pub(super) fn replay(&mut self, record: Record) {
        self.born = true;
        self.replaying = true;
        self.log_bytes += record.wire_bytes();
        match record {
            Record::Life { life, keeps } => {
                self.kept = keeps != Keeps::Nothing;
                self.lived = true;
                match keeps {
                    Keeps::All => self.fall_asleep(),
                    // The first life is in the first view, with the rows that all begin with.
                    Keeps::FromNow if life > 1 => {
                        self.lose_state();
                        self.since = life;
                    }
                    Keeps::FromNow | Keeps::Nothing => {}
                }
                self.life = life;
            }
            Record::Vote { promised, accepted, chosen } => {
                self.steward_replays(promised, accepted.map(|accepted| *accepted), *chosen);
            }
            Record::Heard(heard) if self.keeps_log() && self.kept => {
                let Heard { from, body } = *heard;
                self.take(from, body);
            }
            Record::Progress { clock, high, settled, held } if self.keeps_log() && self.kept => {
                self.reservation.upto = self.reservation.upto.max(clock);
                self.run_again(high);
                for (peer, held) in self.peers.iter_mut().zip(held) {
                    peer.held = peer.held.max(held);
                    peer.recent = peer.recent.split_off(&held);
                }
                self.settle(settled);
            }
            Record::State(state) => {
                self.log_bytes = 0;
                (self.lived, self.kept) = (true, true);
                self.restore(*state);
            }
            Record::Heard(_) | Record::Progress { .. } => {}
        }
        self.replaying = false;
        self.local.clear();
        self.after_store.clear();
        // What it applies now is told, for checkers; everything else was said before.
        self.out.retain(|out| matches!(out, Out::Effect(Effect::Note(_))));
    }

    /// All up to `high` has run before, in the order of timestamps.
    fn run_again(&mut self, high: Ts) {
        if self.status != Status::Ready {
            return;
        }
        while let Some(first) = self.queue.first_entry()
            && first.key().0 <= high
        {
            let ((ts, _), queued) = first.remove_entry();
            self.clock.passed(ts);
            self.high = self.high.max(ts);
            self.begin_entry(ts, queued);
        }
        self.high = self.high.max(high);
    }

    /// The log was read: this node has lived before.
    pub(super) fn recovered(&mut self) {
        self.born = true;
        if self.steward.is_some() {
            self.steward_recovers();
        } else if self.keeps_log() && self.kept && self.status != Status::Out {
            self.wake();
        } else {
            // What it had in memory is lost. A log that is lost does not say how many lives there
            // were; each was longer than a millisecond.
            self.lose_state();
            let ms = self.wall.as_ns() / 1_000_000;
            let last = if self.lived { self.life } else { ms.max(1) };
            self.begin_life(last + 1, Keeps::FromNow);
        }
    }

    /// Begins another life with what the last one had.
    fn wake(&mut self) {
        self.fall_asleep();
        let reserved = self.reservation.upto;
        if reserved > 0 && !self.config.bugs.no_reservation {
            self.clock.passed(Ts { t: reserved + 1, k: 0, n: 0 });
        }
        self.checkpoint();
        self.begin_life(self.life + 1, Keeps::All);
        self.reserve();
        self.send_join();
    }

    /// It is nobody's peer any more, and has what it had.
    fn fall_asleep(&mut self) {
        if self.status == Status::Out {
            return;
        }
        self.has_rows |= self.status == Status::Ready;
        self.status = Status::Cold;
        self.installed = false;
        self.after_store.clear();
        self.snapshots.clear();
        self.lost.clear();
        self.joining.clear();
        self.givers.clear();
        self.state_given.clear();
        // What it was to do for others it is told again; what holds clocks, too.
        let held: Vec<Attempt> = self.clock.held_by().map(|(attempt, _)| attempt).collect();
        for attempt in held {
            if self.crts.get(&attempt).is_none_or(|crt| crt.txn.is_none()) {
                self.clock.let_go(attempt);
            }
        }
        self.crts.retain(|_, crt| crt.txn.is_some());
        self.coords.clear();
        self.unstable.clear();
        self.unheld.clear();
        self.held.clear();
        self.pulls.clear();
        self.orphan_decisions(self.me);
    }
}
