//! Datagrams: nothing is promised of them, so nothing is kept.

use super::{Carrier, DATAGRAM, INBOX, Sending};
use crate::codec::Codec;
use crate::frame;
use crate::inbox::Event;
use cavy_core::family::message::{Talker, Via};
use std::io;
use std::sync::atomic::Ordering::Relaxed;

impl<M, C> Carrier<M, C>
where
    M: Talker + 'static,
    C: Codec<M::Protocol>,
    Event<M>: Send,
{
    pub(super) fn send_datagram(&mut self, sending: &Sending) {
        let Some(peer) = self.peers.get(&sending.to) else { return };
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        let (me, stamp) = (self.options.me, cavy_clock::now());
        frame::datagram(&mut text, &self.options.key, me, sending.to, stamp, &sending.bytes);
        let fits = text.len() <= DATAGRAM && !self.links.is_cut(sending.to);
        let sent = fits && self.datagrams.send_to(&text, peer.address).is_ok();
        let counter =
            if sent { &self.figures.datagrams_sent } else { &self.figures.datagrams_lost };
        counter.fetch_add(1, Relaxed);
        self.scratch = text;
    }

    pub(super) fn read_datagrams(&mut self) {
        let mut chunk = std::mem::take(&mut self.chunk);
        loop {
            let length = match self.datagrams.recv_from(&mut chunk) {
                Ok((length, _)) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // An earlier datagram found nobody.
                Err(_) => continue,
            };
            let read = frame::read_datagram(&chunk[..length], &self.options.key, self.options.me);
            let word = read.and_then(|(from, stamp, text)| {
                let message = self.codec.read_message(text)?;
                Some((from, stamp, message))
            });
            let Some((from, stamp, message)) = word else {
                self.figures.datagrams_lost.fetch_add(1, Relaxed);
                continue;
            };
            let full = self.inbox.len() + self.events.len() > INBOX;
            let Some(peer) = self.peers.get_mut(&from).filter(|_| !full) else { continue };
            if self.links.is_cut(from) {
                continue;
            }
            self.figures.datagrams_received.fetch_add(1, Relaxed);
            let due = peer.due.datagram(self.links.way(from), stamp);
            let (arrived, via, session) = (cavy_clock::now(), Via::Datagram, 0);
            self.events.push(Event::Message { from, via, session, due, arrived, message });
        }
        self.chunk = chunk;
    }
}
