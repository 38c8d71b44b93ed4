//! Backup coordinators: a replica that has held something prepared for long finds out what became
//! of the attempt, or decides it, so that what a front leaves behind when it fails is not held for
//! ever `[dast 3.2]`.
//!
//! Whether a shard is fine with an attempt at a timestamp is decided by its replicas as by Paxos.
//! The front has the least ballot, [`FIRST`], and goes fast: what all replicas of a shard have
//! prepared is decided, and so is what a majority was told to finalize. A backup takes a greater
//! ballot, hears a majority of each shard, and takes what may have been decided for decided. An
//! attempt takes place when all its shards are fine with one timestamp.
//!
//! **Only commits bind.** An abort is no more than a replica's word that it has dropped the
//! attempt, so a front may abort and begin anew without asking anybody. Three rules follow:
//!
//! - That a front dropped an attempt, or has begun the next, counts as an answer of its ballot:
//!   it wins over what was finalized, and not over what a backup had accepted since.
//! - Replicas that have promised a backup an attempt take no later one of the same transaction
//!   until that one is over.
//! - What a front finalized and then dropped may have been dropped where the backup does not hear
//!   it, and something else may have been prepared there. So whoever is to accept that its shard is
//!   fine must have checked the attempt and held it since, or checks it now. Where it is in the way
//!   of something committed it cannot have been decided; where it is in the way of something
//!   prepared, that is waited for.

use super::Tapir;
use super::coord::Finishing;
use super::message::{Attempt, Ballot, End, FIRST, Message, Part, Record, State};
use super::versions::Late;
use crate::txn::{Shard, Ts};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::{Instant, Span};

/// Ends that one message carries.
const ENDS: usize = 256;

/// What a replica has promised and accepted of one attempt.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Acceptor {
    pub promised: Ballot,
    /// Fine at this timestamp, or not.
    pub accepted: Option<(Ballot, Option<Ts>)>,
    /// The shards of the attempt, where a backup has said them, and when it last did.
    pub asked: Option<(Arc<[Shard]>, Instant)>,
}

/// An attempt that this replica wants to see ended.
pub(super) struct Trial {
    ballot: Ballot,
    shards: Arc<[Shard]>,
    states: BTreeMap<Node, State>,
    parts: BTreeMap<Shard, Arc<Part>>,
    /// The timestamp that is proposed, and who has accepted it, a bit for each replica.
    at: Option<Ts>,
    settled: BTreeMap<Shard, u32>,
    since: Instant,
}

/// Commits that some replica of the shard may not have prepared. Whoever says the end of them may
/// fail before it has told all, so those who know tell the others of their shard, many at once.
#[derive(Default)]
pub(super) struct Ends {
    all: VecDeque<(u64, End)>,
    said: u64,
    /// Up to which each replica of the shard has heard them.
    heard: BTreeMap<Node, u64>,
    next: Instant,
}

impl Tapir {
    /// Begins to look after whatever has been prepared for long.
    pub(super) fn look_after(&mut self) {
        let Some(after) = self.config.backup_after else { return };
        if self.shard.is_none() {
            return;
        }
        let (now, index) = (self.station.now, self.config.layout.index_of(self.station.me));
        // One replica of a shard is before the others, so that they do not outbid each other.
        let wait = after + Span::from_ns(after.as_ns() / 2 * u64::from(index));
        self.trials.retain(|_, trial| now.since(trial.since) < wait);
        let mut late: Vec<(Attempt, Arc<[Shard]>)> = Vec::new();
        for (attempt, since) in &mut self.held_since {
            if now.since(*since) >= wait
                && !self.trials.contains_key(attempt)
                && let Some(part) = self.rows.part(*attempt)
            {
                *since = now;
                late.push((*attempt, part.shards.clone()));
            }
        }
        // What was promised to a backup that has failed.
        for (attempt, own) in &mut self.acceptors {
            let held = self.held_since.contains_key(attempt) || self.over.contains_key(attempt);
            if let Some((shards, since)) = &mut own.asked
                && !held
                && now.since(*since) >= wait
                && !self.trials.contains_key(attempt)
            {
                *since = now;
                late.push((*attempt, shards.clone()));
            }
        }
        for (attempt, shards) in late {
            self.begin_trial(attempt, shards);
        }
        if now >= self.ends.next {
            self.ends.next = now + after;
            self.say_ends();
        }
    }

    fn begin_trial(&mut self, attempt: Attempt, shards: Arc<[Shard]>) {
        let promised = self.acceptors.get(&attempt).map_or(FIRST, |own| own.promised);
        let ballot = Ballot { round: promised.round + 1, node: self.station.me.0 };
        let trial = Trial {
            ballot,
            shards: shards.clone(),
            states: BTreeMap::new(),
            parts: BTreeMap::new(),
            at: None,
            settled: BTreeMap::new(),
            since: self.station.now,
        };
        self.trials.insert(attempt, trial);
        for node in self.replicas_of(&shards) {
            self.send(node, Message::AskState { attempt, ballot, shards: shards.clone() });
        }
    }

    fn replicas_of(&self, shards: &[Shard]) -> Vec<Node> {
        let layout = self.config.layout;
        shards.iter().flat_map(|shard| layout.replicas_of(*shard)).collect()
    }

    /// This replica promises the attempt to a backup, and says what it knows.
    pub(super) fn ask_state(
        &mut self,
        from: Node,
        attempt: Attempt,
        ballot: Ballot,
        shards: Arc<[Shard]>,
    ) {
        let now = self.station.now;
        let own = self.acceptors.entry(attempt).or_default();
        if ballot <= own.promised {
            return;
        }
        own.promised = ballot;
        own.asked = Some((shards.clone(), now));
        let accepted = own.accepted;
        self.station.record(Record::Promised { attempt, ballot, shards });
        let over = self.over.get(&attempt).copied();
        let later = Attempt { round: attempt.round + 1, ..attempt };
        let later = later..=Attempt { round: u32::MAX, ..attempt };
        let superseded = self.over.range(later.clone()).next().is_some()
            || self.held_since.range(later).next().is_some();
        // By the front, which has the least ballot, or by whoever was accepted last.
        let dropped = over == Some(None) || superseded;
        let state = State {
            over: over.flatten(),
            prepared: self.rows.prepared_at(attempt),
            accepted: accepted.filter(|(by, _)| *by > FIRST || !dropped),
            dropped,
            part: self.rows.part(attempt).cloned(),
        };
        self.station.send_stored(from, Message::TellState { attempt, ballot, state });
    }

    pub(super) fn told_state(
        &mut self,
        from: Node,
        attempt: Attempt,
        ballot: Ballot,
        state: State,
    ) {
        let layout = self.config.layout;
        let Some(trial) = self.trials.get_mut(&attempt) else { return };
        if trial.ballot != ballot || trial.at.is_some() {
            return;
        }
        if let (Some(part), Some(shard)) = (&state.part, layout.shard_of(from)) {
            trial.parts.insert(shard, part.clone());
        }
        let over = state.over;
        trial.states.insert(from, state);
        if let Some(at) = over {
            self.end_trial(attempt, Some(at));
            return;
        }
        let heard = |shard: &Shard| {
            let all = layout.replicas_of(*shard);
            all.filter(|node| trial.states.contains_key(node)).count() as u32
        };
        if trial.shards.iter().any(|shard| heard(shard) < layout.majority()) {
            return;
        }
        let values: BTreeSet<Option<Ts>> = trial
            .shards
            .iter()
            .map(|shard| {
                let states = layout.replicas_of(*shard).filter_map(|node| trial.states.get(&node));
                may_be_decided(&states.collect::<Vec<_>>())
            })
            .collect();
        let one = values.first().copied().flatten().filter(|_| values.len() == 1);
        let Some(at) = one else {
            self.end_trial(attempt, None);
            return;
        };
        trial.at = Some(at);
        trial.settled = trial.shards.iter().map(|shard| (*shard, 0)).collect();
        let parts: Vec<(Shard, Arc<Part>)> =
            trial.parts.iter().map(|(shard, part)| (*shard, part.clone())).collect();
        for (shard, part) in parts {
            for node in layout.replicas_of(shard) {
                self.send(node, Message::Settle { attempt, ballot, at, part: part.clone() });
            }
        }
    }

    /// This replica accepts that its shard is fine, if it has found it so itself.
    pub(super) fn accept(
        &mut self,
        from: Node,
        attempt: Attempt,
        ballot: Ballot,
        at: Ts,
        part: Arc<Part>,
    ) {
        if self.acceptors.get(&attempt).is_some_and(|own| ballot < own.promised) {
            return;
        }
        if !matches!(self.over.get(&attempt), Some(Some(_))) {
            let holds = self.rows.prepared_at(attempt) == Some(at);
            if !holds || self.unchecked.contains(&attempt) {
                match self.rows.check_late(attempt, at, &part) {
                    Late::Fine => {}
                    // Somebody else is prepared here, and will be over one day.
                    Late::Unknown => return,
                    Late::Never => {
                        self.station.send_stored(from, Message::Refused { attempt, ballot });
                        return;
                    }
                }
                self.over.remove(&attempt);
                self.hold(attempt, at, part);
                self.unchecked.remove(&attempt);
            }
            let own = self.acceptors.entry(attempt).or_default();
            (own.promised, own.accepted) = (ballot, Some((ballot, Some(at))));
            self.station.record(Record::Accepted { attempt, ballot, at });
        }
        self.station.send_stored(from, Message::Settled { attempt, ballot });
    }

    pub(super) fn settled(&mut self, from: Node, attempt: Attempt, ballot: Ballot) {
        let layout = self.config.layout;
        let Some(trial) = self.trials.get_mut(&attempt) else { return };
        let (Some(at), Some(shard)) = (trial.at, layout.shard_of(from)) else { return };
        if trial.ballot != ballot {
            return;
        }
        if let Some(mask) = trial.settled.get_mut(&shard) {
            *mask |= 1 << layout.index_of(from);
        }
        if trial.settled.values().all(|mask| mask.count_ones() >= layout.majority()) {
            self.end_trial(attempt, Some(at));
        }
    }

    /// Something that it cannot stand beside was committed, so it was not decided.
    pub(super) fn refused(&mut self, attempt: Attempt, ballot: Ballot) {
        if self.trials.get(&attempt).is_some_and(|trial| trial.ballot == ballot) {
            self.end_trial(attempt, None);
        }
    }

    /// Tells every replica, as the front would have.
    fn end_trial(&mut self, attempt: Attempt, at: Option<Ts>) {
        let Some(trial) = self.trials.remove(&attempt) else { return };
        let (mut parts, ballot) = (trial.parts, trial.ballot);
        if at.is_none() {
            // Those who have nothing of it have promised it all the same.
            for shard in trial.shards.iter() {
                parts.entry(*shard).or_default();
            }
        }
        let left = parts.keys().flat_map(|shard| self.config.layout.replicas_of(*shard));
        let left: BTreeSet<Node> = left.collect();
        if left.is_empty() {
            // It took place, and whoever knows what of it is this shard's will say so.
            return;
        }
        let retry_at = self.station.now + self.config.retry_after;
        self.finishing.insert(attempt, Finishing { at, ballot, parts, left, retry_at });
        self.say_end(attempt);
    }

    /// A commit that some replica of this shard may not have prepared.
    pub(super) fn keep_end(&mut self, attempt: Attempt, at: Ts, part: &Arc<Part>) {
        let accepted = self.acceptors.get(&attempt).and_then(|own| own.accepted);
        if self.config.backup_after.is_none() || !matches!(accepted, Some((_, Some(_)))) {
            return;
        }
        // Numbers go on after a crash, whatever was told before it.
        self.ends.said = self.station.now.as_ns().max(self.ends.said + 1);
        self.ends.all.push_back((self.ends.said, End { attempt, at, part: part.clone() }));
    }

    /// Tells the others of this shard the ends that they have not said they know.
    fn say_ends(&mut self) {
        let Some(shard) = self.shard else { return };
        let others = self.config.layout.replicas_of(shard).filter(|n| *n != self.station.me);
        let others: Vec<Node> = others.collect();
        let heard = |node: &Node| self.ends.heard.get(node).copied().unwrap_or(0);
        let all = others.iter().map(heard).min().unwrap_or(0);
        while self.ends.all.front().is_some_and(|(number, _)| *number <= all) {
            self.ends.all.pop_front();
        }
        for node in others {
            let heard = self.ends.heard.get(&node).copied().unwrap_or(0);
            let new = self.ends.all.iter().filter(|(number, _)| *number > heard).take(ENDS);
            let new: Vec<(u64, End)> = new.cloned().collect();
            let Some((upto, _)) = new.last() else { continue };
            let upto = *upto;
            let ends = new.into_iter().map(|(_, end)| end).collect();
            self.send(node, Message::Ends { upto, ends });
        }
    }

    pub(super) fn hear_ends(&mut self, from: Node, upto: u64, ends: Vec<End>) {
        for End { attempt, at, part } in ends {
            self.finish(attempt, Some(at), FIRST, &part);
        }
        self.station.send_stored(from, Message::EndsHeard { upto });
    }

    pub(super) fn ends_heard(&mut self, from: Node, upto: u64) {
        let heard = self.ends.heard.entry(from).or_default();
        *heard = upto.max(*heard);
    }
}

/// At which timestamp a shard may have decided that it is fine, by the words of a majority.
fn may_be_decided(states: &[&State]) -> Option<Ts> {
    let accepted = || states.iter().filter_map(|state| state.accepted);
    let last = accepted().map(|(ballot, _)| ballot).max().unwrap_or(FIRST);
    let dropped = last == FIRST && states.iter().any(|state| state.dropped);
    let mut values = accepted().filter(|(ballot, _)| *ballot == last).map(|(_, value)| value);
    if dropped || values.clone().any(|value| value.is_none()) {
        return None;
    }
    if let Some(first) = values.next() {
        // A front that finalized at two timestamps has gone on to the greater one.
        return values.chain([first]).flatten().max();
    }
    // Perhaps the silent ones have prepared it too, and the front went fast.
    let first = states.first()?.prepared;
    first.filter(|_| states.iter().all(|state| state.prepared == first))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Ts = Ts { t: 5, k: 0, n: 1 };
    const LATER: Ts = Ts { t: 9, k: 0, n: 1 };
    const BACKUP: Ballot = Ballot { round: 1, node: 2 };

    fn state(prepared: Option<Ts>, accepted: Option<(Ballot, Option<Ts>)>) -> State {
        State { over: None, prepared, accepted, dropped: false, part: None }
    }

    #[test]
    fn clause_3_2_what_may_have_been_decided_is_taken_for_decided() {
        let nothing = state(None, None);
        let prepared = state(Some(AT), None);
        let finalized = state(Some(AT), Some((FIRST, Some(AT))));
        let finalized_later = state(Some(LATER), Some((FIRST, Some(LATER))));
        let settled = state(Some(AT), Some((BACKUP, Some(AT))));
        let refused = state(None, Some((BACKUP, None)));
        let dropped = State { dropped: true, ..state(None, None) };
        for (heard, expected) in [
            // The third may have prepared it, too; or it cannot have been all.
            ([&prepared, &prepared], Some(AT)),
            ([&prepared, &nothing], None),
            ([&prepared, &state(Some(LATER), None)], None),
            // A majority was told to finalize it, perhaps.
            ([&finalized, &nothing], Some(AT)),
            ([&finalized, &finalized_later], Some(LATER)),
            // Its front has dropped it, and does not go back; what a backup settled stays so.
            ([&finalized, &dropped], None),
            ([&prepared, &dropped], None),
            ([&settled, &dropped], Some(AT)),
            ([&settled, &nothing], Some(AT)),
            ([&settled, &finalized_later], Some(AT)),
            ([&finalized, &refused], None),
        ] {
            assert_eq!(may_be_decided(&heard), expected, "{heard:?}");
            let turned = [heard[1], heard[0]];
            assert_eq!(may_be_decided(&turned), expected, "{turned:?}");
        }
    }
}
