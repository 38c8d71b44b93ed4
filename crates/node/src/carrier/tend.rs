//! What nobody sends and time brings.

use super::{Carrier, INTRODUCTION, PULSE, Peer, Phase, SILENCE};
use crate::codec::Codec;
use crate::frame;
use crate::inbox::Event;
use cavy_core::family::Node;
use cavy_core::family::message::Talker;
use std::sync::atomic::Ordering::Relaxed;

impl<M, C> Carrier<M, C>
where
    M: Talker + 'static,
    C: Codec<M::Protocol>,
    Event<M>: Send,
{
    /// What time brings: dialing, pulses, acknowledgements, silence, cuts.
    pub(super) fn tend(&mut self) {
        let now = cavy_clock::now();
        let version = self.links.version();
        if version != self.links_seen {
            self.links_seen = version;
            for slot in 0..self.connections.len() {
                let peer = self.connections[slot].as_ref().and_then(|c| c.peer);
                if peer.is_some_and(|peer| self.links.is_cut(peer)) {
                    self.close(slot);
                } else if peer.is_some() {
                    self.handled(slot, |carrier| carrier.place(slot));
                }
            }
        }
        let me = self.options.me;
        let idle = |(node, peer): (&Node, &Peer)| {
            let due = *node < me && peer.up.is_none() && peer.dialing.is_none();
            (due && peer.redial_at <= now).then_some(*node)
        };
        let to_dial: Vec<Node> = self.peers.iter().filter_map(idle).collect();
        for node in to_dial {
            if !self.links.is_cut(node) {
                self.dial(node, now);
            }
        }
        for slot in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[slot] else { continue };
            if connection.phase != Phase::Up {
                if now.since(connection.since) > INTRODUCTION {
                    self.close(slot);
                }
                continue;
            }
            if connection.paused {
                self.handled(slot, |carrier| carrier.readable(slot, true));
                continue;
            }
            if now.since(connection.heard) > SILENCE {
                if connection.held {
                    // A machine in a long step makes no rounds.
                    self.handled(slot, |carrier| carrier.readable(slot, true));
                }
                let heard = self.connections[slot].as_ref().map(|connection| connection.heard);
                if heard.is_none_or(|heard| now.since(heard) > SILENCE) {
                    self.close(slot);
                    continue;
                }
            }
            let Some(connection) = &mut self.connections[slot] else { continue };
            let late = connection.acknowledge_at.is_some_and(|at| at <= now);
            if late || now.since(connection.spoke) > PULSE {
                let node = connection.peer;
                let peer = node.and_then(|node| self.peers.get(&node));
                let received = peer.map_or(0, |peer| peer.channel.received());
                connection.acknowledged = received;
                connection.acknowledge_at = None;
                connection.spoke = now;
                frame::pulse(&mut connection.output, received);
                self.handled(slot, |carrier| carrier.flush(slot));
            }
        }
        let kept: usize = self.peers.values().map(|peer| peer.channel.kept_bytes()).sum();
        self.figures.kept_bytes.store(kept as u64, Relaxed);
        let up = self.peers.values().filter(|peer| peer.up.is_some()).count();
        self.figures.peers_up.store(up as u64, Relaxed);
    }
}
