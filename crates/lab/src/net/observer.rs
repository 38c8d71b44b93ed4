//! What a run tells those who watch it. Every method does nothing by default and then costs
//! nothing.

use super::clock::Ps;
use super::faults::OutageKind;
use super::packets::{Delays, InFlight};
use super::topology::Egress;
use cavy_core::family::Node;
use cavy_core::family::packet::Message;

/// A message that arrived, or a question whose answer arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// Who submitted it.
    pub from: Node,
    /// Who received it, and answered if it was a question.
    pub to: Node,
    /// Its number among the messages of `from`, from 0.
    pub number: u64,
    /// Its length.
    pub length_bytes: u32,
    /// Length of the answer; zero when none was asked for.
    pub answer_bytes: u32,
    /// When the application submitted it, or meant to.
    pub submitted_at: Ps,
    /// When it had arrived.
    pub at: Ps,
    /// Time in queues of the packet that completed it.
    pub delays: Delays,
    /// Submitted after the warm-up, so part of the record.
    pub counted: bool,
    /// The class that its submission had.
    pub class: u16,
}

/// Why a packet is no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// No room in a buffer.
    Full,
    /// A rule about faults.
    Fault,
    /// Its receiver was down.
    Down,
}

/// Watches a run whose hosts run `M` and whose packets have headers `H`. Times are picoseconds.
pub trait Observer<M: ?Sized, H> {
    /// A host submits a message. `message` is what its transport calls it.
    fn submitted(
        &mut self,
        _from: Node,
        _to: Node,
        _message: Message,
        _length_bytes: u32,
        _at: Ps,
    ) {
    }
    /// A packet left a transport.
    fn sent(&mut self, _packet: &InFlight<H>, _at: Ps) {}
    /// A port begins to send a packet, which has left it at `until`.
    fn began(&mut self, _port: &Egress, _packet: &InFlight<H>, _at: Ps, _until: Ps) {}
    /// A packet joins the queue of a port, where so many bytes wait now.
    fn queued(&mut self, _port: &Egress, _packet: &InFlight<H>, _waiting_bytes: u64, _at: Ps) {}
    /// A switch cut off a packet's payload.
    fn trimmed(&mut self, _port: &Egress, _packet: &InFlight<H>, _at: Ps) {}
    /// A packet is lost.
    fn lost(&mut self, _packet: &InFlight<H>, _why: Loss, _at: Ps) {}
    /// A packet reaches the transport of its receiver, before the transport handles it.
    fn received(&mut self, _packet: &InFlight<H>, _at: Ps) {}
    /// A machine made a step (an input, a timer, or a packet pulled), and its effects were applied.
    fn stepped(&mut self, _host: Node, _machine: &M, _at: Ps) {}
    /// A transport says that a message arrived whole. `expected` is false when that was said
    /// before, or the message had failed.
    fn delivered(
        &mut self,
        _at_host: Node,
        _from: Node,
        _message: Message,
        _expected: bool,
        _at: Ps,
    ) {
    }
    /// A transport gives a message up.
    fn failed(&mut self, _at_host: Node, _peer: Node, _message: Message, _at: Ps) {}
    /// A message, or a question with its answer, ended well.
    fn finished(&mut self, _done: &Done) {}
    /// A host stops or is back.
    fn outage(&mut self, _host: Node, _kind: OutageKind, _begins: bool, _at: Ps) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl<M: ?Sized, H> Observer<M, H> for Unobserved {}

/// Two observers of the same run.
impl<M: ?Sized, H, A: Observer<M, H>, B: Observer<M, H>> Observer<M, H> for (&mut A, &mut B) {
    fn submitted(&mut self, from: Node, to: Node, message: Message, length_bytes: u32, at: Ps) {
        self.0.submitted(from, to, message, length_bytes, at);
        self.1.submitted(from, to, message, length_bytes, at);
    }
    fn sent(&mut self, packet: &InFlight<H>, at: Ps) {
        self.0.sent(packet, at);
        self.1.sent(packet, at);
    }
    fn began(&mut self, port: &Egress, packet: &InFlight<H>, at: Ps, until: Ps) {
        self.0.began(port, packet, at, until);
        self.1.began(port, packet, at, until);
    }
    fn queued(&mut self, port: &Egress, packet: &InFlight<H>, waiting_bytes: u64, at: Ps) {
        self.0.queued(port, packet, waiting_bytes, at);
        self.1.queued(port, packet, waiting_bytes, at);
    }
    fn trimmed(&mut self, port: &Egress, packet: &InFlight<H>, at: Ps) {
        self.0.trimmed(port, packet, at);
        self.1.trimmed(port, packet, at);
    }
    fn lost(&mut self, packet: &InFlight<H>, why: Loss, at: Ps) {
        self.0.lost(packet, why, at);
        self.1.lost(packet, why, at);
    }
    fn received(&mut self, packet: &InFlight<H>, at: Ps) {
        self.0.received(packet, at);
        self.1.received(packet, at);
    }
    fn stepped(&mut self, host: Node, machine: &M, at: Ps) {
        self.0.stepped(host, machine, at);
        self.1.stepped(host, machine, at);
    }
    fn delivered(&mut self, host: Node, from: Node, message: Message, expected: bool, at: Ps) {
        self.0.delivered(host, from, message, expected, at);
        self.1.delivered(host, from, message, expected, at);
    }
    fn failed(&mut self, host: Node, peer: Node, message: Message, at: Ps) {
        self.0.failed(host, peer, message, at);
        self.1.failed(host, peer, message, at);
    }
    fn finished(&mut self, done: &Done) {
        self.0.finished(done);
        self.1.finished(done);
    }
    fn outage(&mut self, host: Node, kind: OutageKind, begins: bool, at: Ps) {
        self.0.outage(host, kind, begins, at);
        self.1.outage(host, kind, begins, at);
    }
}
