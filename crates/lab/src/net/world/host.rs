//! Hosts: applications, transports, timers and cards.

use super::super::clock::begin;
use super::super::messages::{Record, expects};
use super::super::observer::{Done, Loss};
use super::super::packets::{Delays, InFlight};
use super::*;
use cavy_core::family::packet::{Effect, Extent, Header as _, Message};
use cavy_core::{Out, Room};

impl<'a, M, F, T, P, O> World<'a, M, F, T, P, O>
where
    M: Transport,
    F: FnMut(Node) -> M,
    T: Traffic,
    P: Pending,
    O: Observer<M, M::Header>,
{
    fn host_slot(&self, host: Node) -> u32 {
        self.ports.len() as u32 + host.0
    }

    /// When `node` looks at what comes now: later while it is frozen, or while its thread wakes up.
    #[inline]
    fn looks_at(&mut self, node: Node) -> Ps {
        let wakes = &self.setup.network.wakes;
        let host = &mut self.hosts[node.0 as usize];
        if host.frozen_until > self.now || wakes.is_empty() {
            return host.frozen_until.max(self.now);
        }
        if host.looks_at < self.now {
            let drawn = host.thread_rng.below(wakes.len() as u64) as usize;
            host.looks_at = self.now + ps(wakes[drawn]);
        }
        host.looks_at
    }

    /// A card that was full has room.
    pub(super) fn offer(&mut self, node: Node) {
        let looks_at = self.looks_at(node);
        if looks_at > self.now {
            let slot = self.host_slot(node);
            return self.push(looks_at, Class::Completion, slot);
        }
        self.pull(node);
    }

    pub(super) fn start(&mut self, node: Node) {
        let host = &mut self.hosts[node.0 as usize];
        host.machine.start(cx!(self, host));
        self.after_step(node);
    }

    /// Asks the applications for the next message of `node`, if none is pending.
    #[inline]
    pub(super) fn fetch(&mut self, node: Node) {
        if self.hosts[node.0 as usize].next.is_some() {
            return;
        }
        if let Some(submission) = self.traffic.next(node, self.now) {
            self.await_submission(node, submission);
        }
    }

    #[inline]
    pub(super) fn await_submission(&mut self, node: Node, submission: Submission) {
        let at = submission.at.max(self.now);
        if at >= ps(self.setup.duration) {
            // It would be pending for ever; so will all that come after it.
            return;
        }
        let slot = self.host_slot(node);
        self.hosts[node.0 as usize].next = Some(submission);
        self.open += 1;
        self.push(at, Class::Arrival, slot);
    }

    /// The pending message of `node` is due.
    #[inline]
    pub(super) fn submit(&mut self, node: Node, slot: u32) {
        let looks_at = self.looks_at(node);
        if looks_at > self.now {
            return self.push(looks_at, Class::Arrival, slot);
        }
        let host = &mut self.hosts[node.0 as usize];
        let Some(submission) = host.next.take() else { return };
        self.open -= 1;
        if host.down || submission.to == node || submission.to.0 >= self.hosts.len() as u32 {
            self.message_counts.refused += 1;
            self.traffic.ended(node);
        } else {
            self.hand_over(node, submission);
        }
        self.fetch(node);
        self.end_when_quiet();
    }

    #[inline]
    fn hand_over(&mut self, node: Node, submission: Submission) {
        let Submission { at, to, length_bytes, asks, class } = submission;
        let host = &mut self.hosts[node.0 as usize];
        let record = Record {
            name: 0,
            from: node.0,
            to: to.0,
            length_bytes,
            answer_bytes: 0,
            submitted_at: at,
            number: host.submitted,
            left_bytes: length_bytes,
            sent_bytes: 0,
            asks,
            class,
            answering: false,
            orphaned: false,
            counted: at >= ps(self.setup.warmup),
        };
        let Some(message) = self.messages.insert(record) else {
            self.ended = Some(Ended::MessageLimit);
            return;
        };
        self.fold(Mark::Submitted, node, host_number(record.number, length_bytes));
        self.hosts[node.0 as usize].submitted += 1;
        self.message_counts.submitted += 1;
        self.open += 1;
        self.backlog.account(self.now);
        self.backlog.bytes += u64::from(length_bytes);
        self.observer.submitted(node, to, message, length_bytes, self.now);
        self.delays = Delays::default();
        self.handle(node, Input::Submit { to, message, length_bytes, asks });
    }

    /// A packet reaches the transport of its receiver.
    #[inline]
    pub(super) fn receive(&mut self, node: Node, index: u32) {
        let looks_at = self.looks_at(node);
        if looks_at > self.now {
            return self.push(looks_at, Class::Arrival, self.first_packet + index);
        }
        if self.hosts[node.0 as usize].down {
            return self.lose(index, Loss::Down);
        }
        let packet = *self.packets.get(index);
        self.packets.remove(index);
        self.counts.received += 1;
        self.delays = packet.delays();
        self.observer.received(&packet, self.now);
        let (from, payload) = (packet.from(), packet.payload());
        let word = u64::from(from.0) << 33 ^ payload.message.0 ^ u64::from(payload.offset_bytes);
        self.fold(Mark::Received, node, word);
        let header = *packet.header();
        self.handle(node, Input::Rx { from, header, payload, seen: packet.seen() });
    }

    /// An entry of the queue for the timers of `node` came up.
    pub(super) fn timer_is_due(&mut self, node: Node, slot: u32) {
        let host = &mut self.hosts[node.0 as usize];
        if host.timers.queued != self.now {
            return; // overtaken by an earlier entry
        }
        if host.timers.is_due(self.now) {
            let looks_at = self.looks_at(node);
            if looks_at > self.now {
                self.hosts[node.0 as usize].timers.queued = looks_at;
                return self.push(looks_at, Class::Timer, slot);
            }
        }
        let host = &mut self.hosts[node.0 as usize];
        if let Some(timer) = host.timers.take_due(self.now) {
            host.machine.expire(timer, cx!(self, host));
            self.delays = Delays::default();
            self.fold(Mark::Expired, node, 0);
            self.after_step(node);
        }
        let host = &mut self.hosts[node.0 as usize];
        if let Some(at) = host.timers.requeue() {
            host.timers.queued = at.max(self.now);
            self.push(at.max(self.now), Class::Timer, slot);
        }
    }

    #[inline]
    fn handle(&mut self, node: Node, input: Input<M::Header>) {
        let host = &mut self.hosts[node.0 as usize];
        host.machine.handle(input, cx!(self, host));
        self.after_step(node);
    }

    /// Carries out what a step asked for, lets applications answer, and offers the card's room.
    #[inline]
    fn after_step(&mut self, node: Node) {
        self.settle(node);
        while let Some((at, input)) = self.answers.pop_front() {
            let host = &mut self.hosts[at.0 as usize];
            host.machine.handle(input, cx!(self, host));
            self.settle(at);
        }
        self.pull(node);
    }

    /// Carries out what a step asked for, in order.
    #[inline]
    fn settle(&mut self, node: Node) {
        self.steps += 1;
        if !self.outbox.entries().is_empty() {
            self.apply_all(node);
        }
        let host = &self.hosts[node.0 as usize];
        if self.setup.check {
            host.machine.check();
        }
        self.observer.stepped(node, &host.machine, self.now);
    }

    fn apply_all(&mut self, node: Node) {
        let mut outbox = core::mem::replace(&mut self.outbox, Outbox::with_capacity(0));
        for out in outbox.drain() {
            match out {
                Out::Effect(effect) => self.apply(node, effect),
                Out::Arm(timer, at) => {
                    // A deadline that has passed means now, after what else happens now.
                    let at = begin(at).max(self.now);
                    if self.hosts[node.0 as usize].timers.arm(timer, at) {
                        let slot = self.host_slot(node);
                        self.push(at, Class::Timer, slot);
                    }
                }
                Out::Disarm(timer) => self.hosts[node.0 as usize].timers.disarm(timer),
            }
        }
        self.outbox = outbox;
    }

    #[inline]
    fn apply(&mut self, node: Node, effect: Effect<M::Why>) {
        match effect {
            Effect::Place { from, extent } => self.place(node, from, extent),
            Effect::Delivered { from, message, length_bytes } => {
                self.delivered(node, from, message, length_bytes);
            }
            Effect::Released { .. } => {}
            Effect::Failed { peer, message, .. } => self.failed(node, peer, message),
        }
    }

    #[inline]
    fn place(&mut self, node: Node, from: Node, extent: Extent) {
        let Some(record) = self.messages.get_mut(extent.message) else { return };
        if !expects(record, node, from, extent.message) {
            return;
        }
        let bytes = extent.length_bytes.min(record.left_bytes);
        record.left_bytes -= bytes;
        self.placed_bytes += u64::from(bytes);
        if !record.orphaned {
            self.backlog.account(self.now);
            self.backlog.bytes -= u64::from(bytes);
        }
        self.fold(Mark::Placed, node, extent.message.0 ^ u64::from(extent.offset_bytes));
    }

    fn delivered(&mut self, node: Node, from: Node, message: Message, length_bytes: u32) {
        let now = self.now;
        let record = self.messages.get_mut(message);
        let record = record.filter(|record| expects(record, node, from, message)).copied();
        self.observer.delivered(node, from, message, record.is_some(), now);
        self.fold(Mark::Delivered, node, message.0);
        let Some(record) = record else {
            self.message_counts.unexpected += 1;
            return self.answer_again(node, from, message);
        };
        // Transports that place nothing have delivered all the same.
        let whole = Extent { message, offset_bytes: 0, length_bytes: record.left_bytes };
        if record.left_bytes > 0 {
            self.place(node, from, whole);
        }
        if record.asks && !message.is_answer() {
            return self.answer(node, from, message, length_bytes);
        }
        self.messages.remove(message.question());
        if record.orphaned {
            return;
        }
        self.message_counts.finished += 1;
        let done = Done {
            from: Node(record.from),
            to: Node(record.to),
            number: record.number,
            length_bytes: record.length_bytes,
            answer_bytes: record.answer_bytes,
            submitted_at: record.submitted_at,
            at: now,
            delays: self.delays,
            counted: record.counted,
            class: record.class,
        };
        self.recorder.record(&done);
        self.observer.finished(&done);
        self.end_message(done.from);
    }

    /// The application of `node` answers a question at once.
    fn answer(&mut self, node: Node, to: Node, question: Message, question_bytes: u32) {
        let length_bytes = self.traffic.answer_bytes(question_bytes);
        let Some(record) = self.messages.get_mut(question) else { return };
        record.answering = true;
        record.answer_bytes = length_bytes;
        record.left_bytes = length_bytes;
        record.sent_bytes = 0;
        if !record.orphaned {
            self.backlog.account(self.now);
            self.backlog.bytes += u64::from(length_bytes);
        }
        self.answers.push_back((node, Input::Answer { to, question, length_bytes }));
    }

    /// A question came a second time, as it may under a transport that carries out questions at
    /// least once: the application cannot tell and answers again.
    fn answer_again(&mut self, node: Node, to: Node, question: Message) {
        let record = self.messages.get_mut(question).copied();
        let again = |record: &Record| {
            record.asks && record.answering && (record.from, record.to) == (to.0, node.0)
        };
        if let Some(record) = record.filter(|record| !question.is_answer() && again(record)) {
            let length_bytes = record.answer_bytes;
            self.answers.push_back((node, Input::Answer { to, question, length_bytes }));
        }
    }

    fn failed(&mut self, node: Node, peer: Node, message: Message) {
        self.observer.failed(node, peer, message, self.now);
        self.fold(Mark::Failed, node, message.0);
        let Some(record) = self.messages.get_mut(message).copied() else { return };
        if record.from != node.0 {
            self.message_counts.abandoned += 1;
            return;
        }
        self.messages.remove(message.question());
        if record.orphaned {
            return;
        }
        self.message_counts.failed += 1;
        self.backlog.account(self.now);
        self.backlog.bytes -= u64::from(record.left_bytes);
        self.end_message(node);
    }

    fn end_message(&mut self, from: Node) {
        self.open -= 1;
        self.traffic.ended(from);
        self.fetch(from);
        self.end_when_quiet();
    }

    /// Takes packets from a transport as long as its card has room and it has any.
    #[inline]
    pub(super) fn pull(&mut self, node: Node) {
        let most = self.setup.network.hosts.nic_packets;
        loop {
            let host = &mut self.hosts[node.0 as usize];
            if host.at_card >= most || host.down || host.frozen_until > self.now {
                return;
            }
            let room = Room { packets: most - host.at_card, bytes: self.framing.room_bytes() };
            let packet = host.machine.pull(room, cx!(self, host));
            if packet.is_some() || !self.outbox.entries().is_empty() {
                self.settle(node);
            }
            let Some(packet) = packet else { return };
            self.send(node, &packet);
        }
    }

    #[inline]
    fn send(&mut self, node: Node, packet: &cavy_core::Packet<M::Header>) {
        let carried = packet.header.wire_bytes() + packet.payload.length_bytes;
        assert!(
            carried <= self.framing.room_bytes() && packet.to != node,
            "host {} sends {carried} bytes to host {}: at most {}, and not to itself",
            node.0,
            packet.to.0,
            self.framing.room_bytes()
        );
        let wire_bytes = self.framing.wire_bytes(carried);
        let priority = packet.priority.min(7);
        self.counts.sent += 1;
        self.level_bytes[usize::from(priority)] += u64::from(wire_bytes);
        if packet.payload.length_bytes > 0 {
            self.count_payload(node, packet.payload);
        }
        let extent = packet.payload;
        self.fold(Mark::Sent, node, extent.message.0 ^ u64::from(extent.offset_bytes));
        if self.packets.live() >= self.setup.packets_max {
            self.ended = Some(Ended::PacketLimit);
        }
        let index = self.packets.insert(InFlight::new(node, packet, wire_bytes, priority));
        self.observer.sent(self.packets.get(index), self.now);
        self.hosts[node.0 as usize].at_card += 1;
        let port = node.0;
        self.forward(port, index);
        let state = &mut self.ports[port as usize];
        if !state.armed {
            // The card says when it has sent this, so that the transport is asked again.
            state.armed = true;
            let free_at = state.free_at(self.now);
            self.push(free_at, Class::Completion, port);
        }
    }

    /// Counts payload that leaves a transport, and how much of it had left before.
    #[inline]
    fn count_payload(&mut self, node: Node, extent: Extent) {
        let bytes = u64::from(extent.length_bytes);
        self.payload_bytes += bytes;
        let end = extent.offset_bytes.saturating_add(extent.length_bytes);
        let again = match self.messages.get_mut(extent.message) {
            Some(record) if extent.message.is_answer() == record.answering => {
                let before = record.sent_bytes;
                record.sent_bytes = before.max(end);
                bytes - u64::from(end.saturating_sub(before)).min(bytes)
            }
            // It ended already, so its receiver had it all.
            _ => bytes,
        };
        if again > 0 {
            self.retransmitted_bytes += again;
            self.retransmitted_by_host[node.0 as usize] += again;
        }
    }
}

fn host_number(number: u64, length_bytes: u32) -> u64 {
    number ^ u64::from(length_bytes) << 32
}
