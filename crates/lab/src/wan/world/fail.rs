//! Nodes that stop, come back, and slow down.

use super::super::faults::Way;
use super::super::node::benches;
use super::super::{Clients, Hardware, Observer};
use super::{Flight, Mark, World};
use crate::net::OutageKind;
use crate::pending::{Class, Pending};
use cavy_core::Instant;
use cavy_core::family::Node;
use cavy_core::family::message::{Input, Talker, Via};

impl<M, F, C, H, P, O> World<'_, M, F, C, H, P, O>
where
    M: Talker,
    M::Timer: core::hash::Hash,
    F: FnMut(Node) -> M,
    C: Clients<M::Protocol>,
    H: Hardware<M::Protocol>,
    P: Pending,
    O: Observer<M>,
{
    /// Twice the index of an outage, one more for its end.
    pub(super) fn outage(&mut self, number: usize) {
        let outage = self.setup.faults.outages[number / 2];
        let begins = number.is_multiple_of(2);
        match (outage.kind, begins) {
            (OutageKind::Crash, true) => self.crash(outage.host),
            (OutageKind::Wipe, true) => {
                self.crash(outage.host);
                self.hosts[outage.host.0 as usize].log.wipe();
            }
            (OutageKind::Crash | OutageKind::Wipe, false) => self.come_back(outage.host),
            (OutageKind::Freeze, true) => {
                let thread = &mut self.hosts[outage.host.0 as usize].thread;
                thread.frozen_until = thread.frozen_until.max(outage.until.as_ns());
            }
            (OutageKind::Freeze, false) => {
                let thread = &mut self.hosts[outage.host.0 as usize].thread;
                if thread.frozen_until > self.now {
                    return;
                }
                if std::mem::take(&mut thread.ended_late) {
                    self.handled(outage.host);
                }
                self.go_on(outage.host);
            }
        }
    }

    /// Twice the index of a slow time, one more for its end.
    pub(super) fn pace(&mut self, number: usize) {
        let node = self.setup.faults.slow[number / 2].node;
        let now = Instant::from_ns(self.now);
        let speed = self.setup.faults.speed(node, now);
        self.work(node, |benches, out| benches.pace(speed, now, out));
    }

    fn crash(&mut self, node: Node) {
        let now = Instant::from_ns(self.now);
        let host = &mut self.hosts[node.0 as usize];
        let Some(machine) = host.fall() else { return };
        self.parts.observer.crashes(now, node, &machine);
        self.trail.fold(now, (Mark::Crashed as u64) << 56 | u64::from(node.0));
        let gone = host.log.tear(&mut self.disk_rng);
        host.log.torn = gone > 0;
        self.counts.records_lost += gone;
        self.lives[node.0 as usize] += 1;
        // What the node's kernel had not got rid of dies with it: on about half of its channels
        // some of what was sent last, so that of a message to many only some receivers get theirs.
        let (site, nodes) = (host.site, &self.setup.nodes);
        for (to, lane) in host.lanes.iter_mut() {
            let one_way = self.setup.link(site, nodes[to as usize]).one_way.as_ns();
            if self.fault_rng.below(2) == 0 {
                lane.cut_since = self.now.saturating_sub(1 + self.fault_rng.below(one_way + 1));
                lane.cut_until = self.now;
            }
        }
    }

    fn come_back(&mut self, node: Node) {
        if self.hosts[node.0 as usize].machine.is_some() {
            return;
        }
        let has = self.parts.hardware.processors(node);
        let benches = benches(self.setup, node, has, Instant::from_ns(self.now));
        let host = &mut self.hosts[node.0 as usize];
        (host.machine, host.benches) = (Some((self.make)(node)), benches);
        for peer in (0..self.hosts.len() as u32).map(Node).filter(|peer| *peer != node) {
            let mine = *self.hosts[node.0 as usize].lanes.get(peer.0);
            let theirs = *self.hosts[peer.0 as usize].lanes.get(node.0);
            // Nothing was ever sent either way, so there is nothing to break.
            if mine.last.max(theirs.last) == 0 && mine.session.max(theirs.session) == 0 {
                continue;
            }
            let session = mine.session.max(theirs.session) + 1;
            self.hosts[node.0 as usize].lanes.get(peer.0).session = session;
            let way = Way {
                from: Some(node),
                from_site: self.hosts[node.0 as usize].site,
                to: Some(peer),
                to_site: self.hosts[peer.0 as usize].site,
                via: Some(Via::Channel),
            };
            if let Some((at, _)) = self.on_channel(&way, self.now, node, peer) {
                self.fly(at, Class::Arrival, Flight::Hello { from: node, to: peer, session });
            }
        }
        self.start(node);
        let torn = self.hosts[node.0 as usize].log.torn;
        let log: Vec<_> = self.hosts[node.0 as usize].log.records.iter().cloned().collect();
        for (entry, record) in log {
            self.hear(node, Input::Replay { entry, record });
        }
        self.hear(node, Input::Recovered { torn });
        let now = Instant::from_ns(self.now);
        if let Some(machine) = &self.hosts[node.0 as usize].machine {
            self.parts.observer.is_back(now, node, machine);
        }
    }
}
