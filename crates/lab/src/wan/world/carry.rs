//! Messages: when they arrive, if they do.

use super::super::faults::Way;
use super::super::link::Order;
use super::super::{Clients, Hardware, Observer, Of, Site};
use super::{Flight, World};
use crate::net::{PS_PER_NS, Rate, What};
use crate::pending::{Class, Pending};
use cavy_core::Instant;
use cavy_core::family::Node;
use cavy_core::family::message::{Input, Message, Protocol, Talker, Via};

/// What rules make of one message.
pub(super) enum Fate {
    Pass,
    Lost,
    /// The way is closed until then.
    Closed {
        until: u64,
    },
    Late {
        by: u64,
    },
    Copied {
        after: u64,
    },
}

/// How long `bytes` take at `rate`, rounded up to a nanosecond.
fn sending(rate: Rate, bytes: u64) -> u64 {
    rate.time_long(bytes).div_ceil(PS_PER_NS)
}

/// Losses of one message in a row, at most: beyond that the odds are one.
const LOSSES_MAX: u32 = 64;

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
    pub(super) fn lose(&mut self, from: Node, to: Node, via: Via) {
        self.counts.lost += 1;
        self.parts.observer.lost(Instant::from_ns(self.now), from, to, via);
    }

    /// What the first rule that matches makes of a message.
    pub(super) fn fate(&mut self, way: &Way) -> Fate {
        if self.setup.faults.rules.is_empty() {
            return Fate::Pass;
        }
        let found = self.setup.faults.rules.iter().position(|r| r.which.matches(self.now, way));
        let Some(index) = found else { return Fate::Pass };
        self.matches[index] += 1;
        let rule = &self.setup.faults.rules[index];
        match rule.what {
            What::Lose(ratio) if self.fault_rng.chance(ratio) => Fate::Lost,
            What::LoseNth(nth) if self.matches[index] == nth => Fate::Lost,
            What::Down => Fate::Closed { until: rule.which.until.as_ns() },
            What::Duplicate { ratio, after } if self.fault_rng.chance(ratio) => {
                Fate::Copied { after: after.as_ns() }
            }
            What::Delay { ratio, by } if self.fault_rng.chance(ratio) => {
                Fate::Late { by: by.as_ns() }
            }
            _ => Fate::Pass,
        }
    }

    /// When a message of `bytes` is on its way, after card and link, if it goes now.
    fn leaves(&mut self, from: Node, sites: (Site, Site), bytes: u64) -> u64 {
        let mut at = self.now;
        if let Some(card) = self.setup.card {
            let host = &mut self.hosts[from.0 as usize];
            host.card_out = host.card_out.max(at) + sending(card, bytes);
            at = host.card_out;
        }
        if let Some(rate) = self.setup.link(sites.0, sites.1).rate {
            let pipe =
                usize::from(sites.0.0) * usize::from(self.setup.sites) + usize::from(sites.1.0);
            self.pipes[pipe] = self.pipes[pipe].max(at) + sending(rate, bytes);
            at = self.pipes[pipe];
        }
        at
    }

    pub(super) fn delay(&mut self, from: Site, to: Site) -> u64 {
        let link = self.setup.link(from, to);
        link.jitter.draw(link.one_way, &mut self.delay_rng)
    }

    /// When a message that nothing happens to arrives over its channel, if it goes now.
    pub(super) fn arrives(&mut self, from: Node, to: Node, bytes: u64) -> u64 {
        self.counts.messages += 1;
        self.counts.message_bytes += bytes;
        let sites = (self.hosts[from.0 as usize].site, self.hosts[to.0 as usize].site);
        let leaves = self.leaves(from, sites, bytes);
        self.in_order(from, to, leaves, sites).0
    }

    /// When what leaves at `leaves` arrives, behind what is before it on its channel, and in which
    /// session.
    fn in_order(&mut self, from: Node, to: Node, leaves: u64, sites: (Site, Site)) -> (u64, u32) {
        let mut at = leaves + self.delay(sites.0, sites.1);
        let lane = self.hosts[from.0 as usize].lanes.get(to.0);
        if self.setup.order == Order::PerPair {
            at = at.max(lane.last);
            lane.last = at;
        }
        (at, lane.session)
    }

    /// Puts a message on its way.
    pub(super) fn send(
        &mut self,
        from: Node,
        to: Node,
        via: Via,
        message: <Of<M> as Protocol>::Message,
    ) {
        let bytes = message.wire_bytes();
        self.counts.messages += 1;
        self.counts.message_bytes += bytes;
        let sites = (self.hosts[from.0 as usize].site, self.hosts[to.0 as usize].site);
        let way = Way {
            from: Some(from),
            from_site: sites.0,
            to: Some(to),
            to_site: sites.1,
            via: Some(via),
        };
        let leaves = self.leaves(from, sites, bytes);
        let sent = self.now;
        match via {
            Via::Datagram => {
                let mut at = leaves + self.delay(sites.0, sites.1);
                let flight = |message| Flight::Message {
                    from,
                    to,
                    via,
                    session: 0,
                    sent,
                    inside: false,
                    message,
                };
                match self.fate(&way) {
                    Fate::Lost | Fate::Closed { .. } => return self.lose(from, to, via),
                    Fate::Late { by } => at += by,
                    Fate::Copied { after } => {
                        self.fly(at + after, Class::Arrival, flight(message.clone()));
                    }
                    Fate::Pass => {}
                }
                self.fly(at, Class::Arrival, flight(message));
            }
            Via::Channel => {
                let Some((at, session)) = self.on_channel(&way, leaves, from, to) else {
                    return self.lose(from, to, via);
                };
                let inside = false;
                let flight = Flight::Message { from, to, via, session, sent, inside, message };
                self.fly(at, Class::Arrival, flight);
            }
        }
    }

    /// When what leaves at `leaves` arrives over the channel, and in which session; `None`: never.
    pub(super) fn on_channel(
        &mut self,
        way: &Way,
        leaves: u64,
        from: Node,
        to: Node,
    ) -> Option<(u64, u32)> {
        let (a, b) = (way.from_site, way.to_site);
        let round_trip =
            self.setup.link(a, b).one_way.as_ns() + self.setup.link(b, a).one_way.as_ns();
        let mut leaves = leaves;
        for _ in 0..LOSSES_MAX {
            match self.fate(way) {
                Fate::Lost => leaves += round_trip.max(1),
                Fate::Late { by } => {
                    leaves += by;
                    break;
                }
                Fate::Closed { until } => {
                    if until == u64::MAX {
                        return None;
                    }
                    if until - self.now > self.setup.patience.as_ns() {
                        let lane = self.hosts[from.0 as usize].lanes.get(to.0);
                        if lane.breaks_at != until {
                            lane.breaks_at = until;
                            self.fly(until, Class::Arrival, Flight::Break { a: from, b: to });
                        }
                        return None;
                    }
                    leaves = leaves.max(until);
                    break;
                }
                // A rule that loses one message in particular has had its match.
                Fate::Copied { .. } | Fate::Pass => break,
            }
        }
        Some(self.in_order(from, to, leaves, (a, b)))
    }

    pub(super) fn message_lands(&mut self, flight: Flight<Of<M>>) {
        let Flight::Message { from, to, via, session, sent, inside, message } = flight else {
            unreachable!("only messages land here")
        };
        if !inside {
            if self.lanes_break {
                let lane = self.hosts[from.0 as usize].lanes.get(to.0);
                if lane.cut_since < sent && sent <= lane.cut_until {
                    return self.lose(from, to, via);
                }
            }
            if let Some(card) = self.setup.card {
                let host = &mut self.hosts[to.0 as usize];
                host.card_in = host.card_in.max(self.now) + sending(card, message.wire_bytes());
                let (at, inside) = (host.card_in, true);
                let flight = Flight::Message { from, to, via, session, sent, inside, message };
                return self.fly(at, Class::Arrival, flight);
            }
        }
        let host = &mut self.hosts[to.0 as usize];
        if host.machine.is_none() {
            return self.lose(from, to, via);
        }
        if via == Via::Channel && self.lanes_break {
            let known = host.lanes.get(from.0);
            if session < known.session {
                return self.lose(from, to, via);
            }
            if session > known.session {
                // Out of order, so ahead of the word that says so.
                known.session = session;
                self.hear_break(to, from);
            }
        }
        let arrived = self.hosts[to.0 as usize].clock.monotonic(self.now);
        self.offer(to, Input::Rx { from, via, message, arrived });
    }

    pub(super) fn hear_break(&mut self, node: Node, peer: Node) {
        self.counts.broken += 1;
        self.offer(node, Input::Broken { peer });
    }

    pub(super) fn hello_lands(&mut self, from: Node, to: Node, session: u32) {
        let host = &mut self.hosts[to.0 as usize];
        if host.machine.is_none() || session <= host.lanes.get(from.0).session {
            return;
        }
        host.lanes.get(from.0).session = session;
        self.hear_break(to, from);
    }

    /// A cut was longer than channels bear.
    pub(super) fn breaks(&mut self, a: Node, b: Node) {
        let one = self.hosts[a.0 as usize].lanes.get(b.0).session;
        let other = self.hosts[b.0 as usize].lanes.get(a.0).session;
        let session = one.max(other) + 1;
        for (node, peer) in [(a, b), (b, a)] {
            let host = &mut self.hosts[node.0 as usize];
            host.lanes.get(peer.0).session = session;
            if host.machine.is_some() {
                self.hear_break(node, peer);
            }
        }
    }

    /// When something that is no message between nodes arrives; `None`: it is lost.
    pub(super) fn beside(&mut self, way: &Way) -> Option<u64> {
        let at = self.now + self.delay(way.from_site, way.to_site);
        match self.fate(way) {
            Fate::Lost | Fate::Closed { .. } => None,
            Fate::Late { by } => Some(at + by),
            Fate::Copied { .. } | Fate::Pass => Some(at),
        }
    }
}
