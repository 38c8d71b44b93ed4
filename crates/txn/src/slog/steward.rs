//! Stewards: a region's log, and the global order.

use super::message::{Batch, Item, Items, Message, Record};
use super::{Config, Slog, Timer};
use crate::raft::{Act, Raft, Rpc};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::{Instant, Span};

/// Entries that are sent to one who has missed them, at a time.
const CATCH_UP: u64 = 200;

/// What a steward has beside what every node has.
pub(super) struct Steward {
    log: Raft<Batch>,
    /// How far the region's log is delivered, and how far the global order is in it.
    applied: u64,
    global: u64,
    /// What the leader has proposed of the global order.
    proposed: u64,
    leading: bool,
    buffer: Vec<Item>,
    /// Entries of the global order that are not in the log.
    globals: BTreeMap<u64, Items>,

    order: Option<Raft<Items>>,
    ordered: u64,
    order_buffer: Vec<Item>,
    batch_armed: bool,
}

impl Steward {
    /// The term of the region's log.
    pub fn term(&self) -> u64 {
        self.log.term()
    }

    pub fn new(config: &Config, me: Node) -> Steward {
        let layout = config.layout;
        let members: Vec<Node> = layout.stewards_of(layout.region_of_node(me)).collect();
        let orderers = config.orderers();
        let away = match config.orderer {
            super::Orderer::Regions => config.orderers_away,
            super::Orderer::FirstRegion => Span::ZERO,
        };
        Steward {
            log: Raft::new(me, &members, config.leader_late),
            applied: 0,
            global: 0,
            proposed: 0,
            leading: false,
            buffer: Vec::new(),
            globals: BTreeMap::new(),
            order: orderers
                .contains(&me)
                .then(|| Raft::new(me, &orderers, away + config.leader_late)),
            ordered: 0,
            order_buffer: Vec::new(),
            batch_armed: false,
        }
    }
}

impl Slog {
    fn arm_batch(&mut self) {
        let (now, batch) = (self.station.now.as_ns(), self.config.batch.as_ns().max(1));
        let Some(steward) = &mut self.steward else { return };
        if !steward.batch_armed {
            steward.batch_armed = true;
            let due = (now / batch + 1) * batch;
            self.station.arm(Timer::Batch, Instant::from_ns(due));
        }
    }

    /// A transaction for the region's log.
    pub(super) fn sequence(&mut self, item: Item) {
        let Some(steward) = &mut self.steward else { return };
        if steward.log.leads() {
            steward.buffer.push(item);
            self.arm_batch();
        } else if let Some(leader) = steward.log.leader().filter(|to| *to != self.station.me) {
            self.send(leader, Message::Submit(item));
        }
    }

    /// A transaction for the global order.
    pub(super) fn order(&mut self, item: Item) {
        let me = self.station.me;
        let Some(steward) = &mut self.steward else { return };
        let Some(order) = &steward.order else { return };
        if order.leads() {
            steward.order_buffer.push(item);
            self.arm_batch();
        } else if let Some(leader) = order.leader().filter(|to| *to != me) {
            self.send(leader, Message::Order(item));
        }
    }

    /// What came since the last batch is proposed, of the global order what is next.
    pub(super) fn batch_is_due(&mut self) {
        let (layout, region) = (self.config.layout, self.region);
        let Some(steward) = &mut self.steward else { return };
        steward.batch_armed = false;
        if let Some(order) = &mut steward.order {
            let items = core::mem::take(&mut steward.order_buffer);
            if order.leads() && !items.is_empty() {
                order.propose(items.into());
            }
        }
        if !steward.leading {
            // Whoever asked asks again.
            steward.buffer.clear();
            return;
        }
        let mut items = core::mem::take(&mut steward.buffer);
        let before = steward.proposed;
        while let Some(next) = steward.globals.get(&(steward.proposed + 1)) {
            let here = |item: &&Item| {
                item.txn.shards().iter().any(|shard| layout.region_of(*shard) == region)
            };
            items.extend(next.iter().filter(here).cloned());
            steward.proposed += 1;
        }
        if !items.is_empty() || steward.proposed > before {
            let global = steward.proposed;
            steward.log.propose(Batch { items: items.into(), global });
        }
    }

    pub(super) fn hear_sequence(&mut self, from: Node, rpc: Rpc<Batch>) {
        let (now, random) = (self.station.now, self.station.random);
        if let Some(steward) = &mut self.steward {
            steward.log.hear(from, rpc, now, random);
        }
    }

    pub(super) fn hear_agree(&mut self, from: Node, rpc: Rpc<Items>) {
        let (now, random) = (self.station.now, self.station.random);
        if let Some(order) = self.steward.as_mut().and_then(|steward| steward.order.as_mut()) {
            order.hear(from, rpc, now, random);
        }
    }

    pub(super) fn tick_logs(&mut self) {
        let (now, random) = (self.station.now, self.station.random);
        let Some(steward) = &mut self.steward else { return };
        steward.log.tick(now, random);
        if let Some(order) = &mut steward.order {
            order.tick(now, random.rotate_left(32));
        }
    }

    pub(super) fn broken(&mut self, peer: Node) {
        let Some(steward) = &mut self.steward else { return };
        steward.log.broken(peer);
        if let Some(order) = &mut steward.order {
            order.broken(peer);
        }
    }

    pub(super) fn replay(&mut self, record: Record) {
        let Some(steward) = &mut self.steward else { return };
        match record {
            Record::Sequence(durable) => steward.log.replay(durable),
            Record::Agree(durable) => {
                if let Some(order) = &mut steward.order {
                    order.replay(durable);
                }
            }
        }
    }

    pub(super) fn recovered(&mut self) {
        if let Some(steward) = &mut self.steward {
            steward.log.recovered();
            if let Some(order) = &mut steward.order {
                order.recovered();
            }
        } else {
            self.ask_for_log();
        }
    }

    /// Carries out what the logs want, and delivers what is chosen. False when nothing is left.
    pub(super) fn logs_move(&mut self) -> bool {
        let (layout, region) = (self.config.layout, self.region);
        let Some(steward) = &mut self.steward else { return false };
        let leads = steward.log.leads_surely();
        if steward.applied < steward.log.chosen() {
            steward.applied += 1;
            let index = steward.applied;
            let batch = steward.log.entry(index).cloned();
            if let Some(batch) = &batch {
                steward.global = steward.global.max(batch.global);
                let global = steward.global;
                steward.globals.retain(|place, _| *place > global);
            }
            if leads {
                let items = batch.map_or_else(Items::default, |batch| batch.items);
                let message = Message::Deliver { index, items, leads };
                self.send_all(layout.replicas_in(region), &message);
            }
            return true;
        }
        if let Some(order) = &steward.order
            && steward.ordered < order.chosen()
        {
            steward.ordered += 1;
            let index = steward.ordered;
            if order.leads() {
                let items = order.entry(index).cloned().unwrap_or_default();
                let regions = (0..layout.regions).map(crate::layout::Region);
                let all: Vec<Node> = regions.flat_map(|r| layout.stewards_of(r)).collect();
                self.send_all(all, &Message::Ordered { index, items, leads: true });
            }
            return true;
        }
        if leads != steward.leading {
            steward.leading = leads;
            steward.proposed = steward.global;
            if leads {
                // The one before may not have told what was chosen last.
                let upto = steward.applied;
                for index in upto.saturating_sub(20).max(1)..=upto {
                    let Some(steward) = &self.steward else { break };
                    let batch = steward.log.entry(index).cloned();
                    let items = batch.map_or_else(Items::default, |batch| batch.items);
                    let message = Message::Deliver { index, items, leads };
                    self.send_all(layout.replicas_in(region), &message);
                }
                self.arm_batch();
            }
            return true;
        }
        steward.log.flush();
        let mut moved = false;
        for act in steward.log.take() {
            moved = true;
            match act {
                Act::Send(to, rpc) => self.station.send(to, Message::Sequence(rpc)),
                Act::SendStored(to, rpc) => {
                    self.station.send_stored(to, Message::Sequence(rpc));
                }
                Act::Store(durable) => self.station.record(Record::Sequence(durable)),
            }
        }
        if let Some(order) = &mut steward.order {
            order.flush();
            for act in order.take() {
                moved = true;
                match act {
                    Act::Send(to, rpc) => self.station.send(to, Message::Agree(rpc)),
                    Act::SendStored(to, rpc) => self.station.send_stored(to, Message::Agree(rpc)),
                    Act::Store(durable) => self.station.record(Record::Agree(durable)),
                }
            }
        }
        moved
    }

    /// An entry of the global order.
    pub(super) fn ordered(&mut self, index: u64, items: Items) {
        let Some(steward) = &mut self.steward else { return };
        if index > steward.global {
            steward.globals.insert(index, items);
            self.arm_batch();
        }
    }

    /// Asks the orderers for what did not come.
    pub(super) fn ask_for_order(&mut self) {
        let Some(steward) = &self.steward else { return };
        let mut next = steward.global + 1;
        while steward.globals.contains_key(&next) {
            next += 1;
        }
        if steward.leading {
            let orderers = self.config.orderers();
            self.send_all(orderers, &Message::FetchOrdered { from: next });
        }
        // A batch that was due while nobody led.
        self.arm_batch();
    }

    pub(super) fn fetch_ordered(&mut self, to: Node, from: u64) {
        let Some(order) = self.steward.as_ref().and_then(|steward| steward.order.as_ref()) else {
            return;
        };
        let upto = order.chosen().min(from.saturating_add(CATCH_UP));
        let entry = |index| (index, order.entry(index).cloned().unwrap_or_default());
        let all: Vec<(u64, Items)> = (from.max(1)..=upto).map(entry).collect();
        for (index, items) in all {
            self.send(to, Message::Ordered { index, items, leads: false });
        }
    }

    pub(super) fn fetch(&mut self, to: Node, from: u64) {
        let Some(steward) = &self.steward else { return };
        let upto = steward.log.chosen().min(from.saturating_add(CATCH_UP));
        let entry = |index| {
            let batch = steward.log.entry(index);
            (index, batch.map_or_else(Items::default, |batch| batch.items.clone()))
        };
        let all: Vec<(u64, Items)> = (from.max(1)..=upto).map(entry).collect();
        for (index, items) in all {
            self.send(to, Message::Deliver { index, items, leads: false });
        }
    }
}
