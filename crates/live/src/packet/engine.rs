//! The machine's world: its names, its bytes and its clock.
//!
//! Commands, packets and timers become inputs of the machine; its effects become bytes in place and
//! calls that end. It knows no socket: the `driver` brings packets and takes them away.

use super::carrier::{HEAD_BYTES, Outgoing};
use super::client::{CallError, Done};
use super::counters::Counters;
use super::endpoint::{Command, Shared, refuse};
use super::exchanges::{Exchanges, Open};
use super::options::{Carrier, Options, Peer, Terms};
use super::peers::Peers;
use super::protocol::{Codec, Counted, CountersOf, Parsed, Ports, Protocol, Receipt, Refusal};
use super::recording::Records;
use super::seal::{Opened, Seal};
use super::server::{Handler, Question, QuestionName, Reply};
use crate::record::packet::{Configuration, Recorder, Step, TimerOf};
use crate::sync::{Arc, lock};
use bytes::Bytes;
use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Input, Message, Seen};
use cavy_core::stream::{Purpose, Stream};
use cavy_core::{Cx, Instant, Machine as _, Out, Outbox, Packet, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Bound;

pub(super) type StepOf<P> = Step<<P as Configuration>::Words, TimerOf<P>>;

/// How long an endpoint that closes with nothing left to do stays to acknowledge what it got.
const LINGER: Span = Span::from_ms(5);

/// How late a tick may be while packets wait. Whoever ticks on time with a full socket complains of
/// silence that it has not listened to; the complaints are answered, and the sockets never empty
/// again. With ten thousand calls at once this was sixty packets of Homa a call; ticks count as
/// they are handled ([homa 2.14] case 14), so a late one only makes everybody more patient.
const TICK_LATE: Span = Span::from_ms(20);

/// The machine, and what its names stand for.
pub(crate) struct Engine<P: Protocol> {
    pub(crate) options: Options<P>,
    terms: Terms,
    pub(crate) codec: P::Codec,
    pub(crate) machine: P::Machine,
    outbox: Outbox<Effect<P::Why>, TimerOf<P>>,
    /// What the last step asked for, while it is carried out.
    asked: Vec<Out<Effect<P::Why>, TimerOf<P>>>,
    rng: Stream,
    pub(crate) timers: BTreeMap<TimerOf<P>, Instant>,
    /// The machine had no packet, and nothing has happened since: it has none now.
    dry: bool,
    pub(crate) records: Records<P>,
    pub(crate) peers: Peers,
    pub(crate) exchanges: Exchanges,
    handler: Option<Handler>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: CountersOf<P>,
    /// The same as other threads see them.
    published: Counted<P>,
    pub(crate) seal: Option<Seal>,
    /// Questions for which there is no room.
    pub(crate) refused: Vec<QuestionName>,
    /// What a packet says of other exchanges, while it is told.
    receipts: Vec<Receipt<P::Words>>,
    /// Calls of which ICMP said that nobody listens there.
    pub(crate) suspects: BTreeMap<(Node, u64), Suspicion>,
    closing: Option<Closing>,
}

/// What ICMP said of a call under way: when it did, and until when the peer may show that somebody
/// listens there.
#[derive(Clone, Copy)]
pub(crate) struct Suspicion {
    since: Instant,
    until: Instant,
}

/// An endpoint that ends what it has begun, and takes nothing new.
struct Closing {
    /// All ends here, whatever is left.
    until: Instant,
    /// Questions that were arriving when it was told to close.
    welcome: BTreeSet<QuestionName>,
    /// Since when nothing is left.
    idle_since: Option<Instant>,
}

/// What a packet of so many bytes takes on the wire: with the headers of UDP, IP and Ethernet, its
/// checksum, and what lies between two frames. Short ones are filled up.
pub(crate) fn octets(v6: bool, carrier: Carrier, bytes: usize) -> usize {
    const FRAME_MIN: usize = 84;
    let ip = if v6 { 40 } else { 20 };
    let udp = if carrier == Carrier::Udp { 8 } else { 0 };
    (bytes + udp + ip + 38).max(FRAME_MIN)
}

impl<P: Protocol> Engine<P> {
    pub(crate) fn new(
        options: &Options<P>,
        handler: Option<Handler>,
        shared: Arc<Shared>,
        seed: u64,
        recorder: Option<Recorder<StepOf<P>>>,
    ) -> Result<Engine<P>, String> {
        let machine = options.config.build()?;
        let (terms, effects_max) = (options.config.terms(), machine.effects_max());
        let mut engine = Engine {
            terms,
            codec: options.config.codec(),
            outbox: Outbox::with_capacity(effects_max),
            asked: Vec::with_capacity(effects_max),
            machine,
            rng: Stream::keyed(seed, 0, Purpose::Machine),
            timers: BTreeMap::new(),
            dry: false,
            records: Records::new(recorder, shared.clone()),
            peers: Peers::new(terms.peers),
            exchanges: Exchanges::default(),
            handler,
            shared,
            counters: Counters::default(),
            published: Arc::default(),
            seal: None,
            refused: Vec::new(),
            receipts: Vec::new(),
            suspects: BTreeMap::new(),
            closing: None,
            options: options.clone(),
        };
        engine.step(None, Step::Start);
        Ok(engine)
    }

    /// What the endpoint has counted, as of a moment ago, for other threads.
    pub(crate) fn published(&self) -> Counted<P> {
        self.published.clone()
    }

    pub(crate) fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    /// One step of the machine, and all that it asks for.
    fn step(&mut self, arrived: Option<&Parsed<'_, P::Words>>, step: StepOf<P>) {
        self.dry = false;
        self.take(self.now(), step);
        self.settle(arrived);
    }

    /// The machine takes a step, which is recorded. What it asks for is in the outbox.
    fn take(&mut self, now: Instant, step: StepOf<P>) -> Option<Packet<P::Words>> {
        let mut cx = Cx::new(now, &mut self.rng, &mut self.outbox);
        let pulled = step.take(&mut self.machine, &mut cx);
        self.records.taken(now, step, self.outbox.entries(), pulled.as_ref());
        pulled
    }

    fn settle(&mut self, arrived: Option<&Parsed<'_, P::Words>>) {
        let mut asked = std::mem::take(&mut self.asked);
        asked.extend(self.outbox.drain());
        for out in asked.drain(..) {
            match out {
                Out::Arm(timer, at) => {
                    self.timers.insert(timer, at);
                }
                Out::Disarm(timer) => {
                    self.timers.remove(&timer);
                }
                Out::Effect(Effect::Place { from, extent }) => self.place(from, extent, arrived),
                Out::Effect(Effect::Delivered { from, message, .. }) => {
                    self.delivered(from, message);
                }
                Out::Effect(Effect::Failed { peer, message, why }) => {
                    self.failed(peer, message, why);
                }
                Out::Effect(Effect::Released { peer, message }) => {
                    if message.is_answer() {
                        self.forget_answer((peer, message.question().0));
                    }
                }
            }
        }
        self.asked = asked;
        while let Some(question) = self.refused.pop() {
            self.refuse(question, Refusal::Overloaded);
        }
    }

    fn place(&mut self, from: Node, extent: Extent, arrived: Option<&Parsed<'_, P::Words>>) {
        let Some((packet, length)) = arrived.and_then(|one| Some((one, one.message_bytes?))) else {
            return;
        };
        let start = extent.offset_bytes.wrapping_sub(packet.extent.offset_bytes) as usize;
        let end = start.saturating_add(extent.length_bytes as usize);
        if let Some(bytes) = packet.payload.get(start..end) {
            self.exchanges.place(from, extent, length as usize, bytes);
        }
    }

    fn delivered(&mut self, from: Node, message: Message) {
        // An empty message has no bytes to place.
        let bytes = self.exchanges.take_arrived(from, message).unwrap_or_default();
        if message.is_answer() {
            if let Some(done) = self.end_call(message.question().0) {
                self.counters.answered += 1;
                done.end(Ok(bytes));
            }
            return;
        }
        let question = (from, message.0);
        self.peers.begin(from);
        let (count, held) = self.exchanges.waiting();
        let full = count >= self.options.waiting_max as usize
            || held.saturating_add(bytes.len() as u64) > self.options.waiting_bytes_max;
        // Who asks now had better ask another server at once.
        let late =
            self.closing.as_ref().is_some_and(|closing| !closing.welcome.contains(&question));
        if full || late {
            self.refused.push(question);
        } else {
            self.exchanges.wait(question, bytes, self.shared.clock.now());
        }
    }

    fn failed(&mut self, peer: Node, message: Message, why: P::Why) {
        let mut error = self.options.config.outcome(why);
        if message.is_answer() {
            let unsent = matches!(error, CallError::Empty | CallError::TooLong { .. });
            self.counters.answers_failed += u64::from(!unsent);
            self.forget_answer((peer, message.question().0));
            return;
        }
        drop(self.exchanges.take_arrived(peer, message));
        if self.exchanges.call_peer(message.0) == Some(peer)
            && let Some(done) = self.end_call(message.0)
        {
            let gone = self.peers.get(peer).is_some_and(|entry| entry.unreachable);
            if error == CallError::Silent && gone {
                error = CallError::Unreachable;
            }
            done.end(Err(error));
        }
    }

    fn end_call(&mut self, id: u64) -> Option<Done> {
        let call = self.exchanges.end_call(id)?;
        self.suspects.remove(&(call.to, id));
        self.peers.end(call.to);
        Some(call.done)
    }

    fn forget_answer(&mut self, question: QuestionName) {
        if self.exchanges.drop_answer(question) {
            self.peers.end(question.0);
        }
    }

    /// Gives a question up: the machine says so, and remembers that it is over.
    fn refuse(&mut self, question: QuestionName, refusal: Refusal) {
        self.counters.refused += 1;
        self.peers.end(question.0);
        let input = self.options.config.refusal(question.0, Message(question.1), refusal);
        self.step(None, Step::Input(input));
    }

    pub(crate) fn obey(&mut self, command: Command) {
        match command {
            Command::Call { id, to, bytes, until, done } => {
                self.counters.calls += 1;
                if let Err((done, error)) = self.call(id, to, bytes, until, done) {
                    done.end(Err(error));
                }
            }
            Command::Cancel { id } => {
                if self.end_call(id).is_some() {
                    self.cancel(id);
                }
            }
            Command::Answer { question, answer } => {
                if !self.exchanges.handled(question) {
                    return;
                }
                let most = self.terms.message_max_bytes as usize;
                match answer {
                    Ok(bytes) if bytes.len() <= most => {
                        let length = bytes.len() as u32;
                        // Peers with questions here are not forgotten.
                        let Some(entry) = self.peers.get(question.0) else { return };
                        self.exchanges.keep_answer(question, entry.peer.at, bytes);
                        let (to, question) = (question.0, Message(question.1));
                        let input = Input::Answer { to, question, length_bytes: length };
                        self.step(None, Step::Input(input));
                    }
                    Ok(_) => self.refuse(question, Refusal::Unanswered),
                    Err(refusal) => self.refuse(question, refusal),
                }
            }
            Command::Close { until } => {
                let welcome = || self.exchanges.questions_arriving();
                let new = || Closing { until, welcome: welcome(), idle_since: None };
                let closing = self.closing.get_or_insert_with(new);
                closing.until = closing.until.min(until);
            }
        }
    }

    fn call(
        &mut self,
        id: u64,
        to: Peer,
        bytes: Bytes,
        until: Instant,
        done: Done,
    ) -> Result<(), (Done, CallError)> {
        let most = self.terms.message_max_bytes;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let wrong = if self.closing.is_some() {
            Some(CallError::Closed)
        } else if to.at.is_ipv4() != self.options.bind.is_ipv4() {
            Some(CallError::Family)
        } else if length > most {
            Some(CallError::TooLong { most })
        } else if length == 0 && !self.terms.empty_messages {
            Some(CallError::Empty)
        } else if self.exchanges.call_count() >= self.options.calls_max as usize {
            Some(CallError::Full)
        } else if until <= self.now() {
            Some(CallError::Deadline)
        } else {
            None
        };
        if let Some(error) = wrong {
            return Err((done, error));
        }
        let mut to = to;
        if self.options.carrier == Carrier::Raw {
            to.at.set_port(0);
        }
        let Some(node) = self.peers.node(to) else { return Err((done, CallError::Full)) };
        if let Some(entry) = self.peers.get_mut(node) {
            // Whom this host asks of its own accord, it may send to.
            entry.proven = true;
        }
        self.peers.begin(node);
        self.exchanges.begin_call(id, Open { to: node, bytes, since: self.now(), until, done });
        let message = Message(id);
        let input = Input::Submit { to: node, message, length_bytes: length, asks: true };
        self.step(None, Step::Input(input));
        Ok(())
    }

    fn cancel(&mut self, id: u64) {
        let input = Input::Cancel { message: Message(id) };
        self.step(None, Step::Input(input));
    }

    pub(crate) fn on_bytes(&mut self, from: SocketAddr, bytes: &mut [u8]) {
        let now = self.now();
        let Some(seal) = &mut self.seal else { return self.on_packet(from, bytes) };
        match seal.open(from, bytes, now) {
            Opened::Packet(bytes) => self.on_packet(from, bytes),
            Opened::Own => {}
            Opened::Unauthentic => self.counters.unauthentic += 1,
            Opened::Replayed => self.counters.replayed += 1,
        }
    }

    fn on_packet(&mut self, from: SocketAddr, bytes: &[u8]) {
        let packet = match self.codec.parse(bytes) {
            Ok(packet) => packet,
            Err(kind) => {
                if let Some(count) = self.counters.malformed.as_mut().get_mut(kind) {
                    *count += 1;
                }
                return;
            }
        };
        self.take_receipts(from, bytes, &packet);
        let name = packet.extent.message;
        // Who asks speaks to the port that answers, and the reverse ([homa 2.14] case 18).
        let here = match name.is_answer() {
            true => Some(self.options.client_port),
            false => self.handler.as_ref().map(|_| self.options.server_port),
        };
        if here != Some(packet.ports.destination) {
            self.counters.wrong_port += 1;
            return;
        }
        let Some(node) = self.peers.node(Peer { at: from, port: packet.ports.source }) else {
            self.counters.peers_full += 1;
            return;
        };
        let question = (node, name.question().0);
        let begins = packet.message_bytes.is_some() && !name.is_answer();
        let silent = self.closing.is_some() && !self.terms.refusals;
        if begins && silent && !self.exchanges.knows_question(question) {
            self.counters.refused += 1;
            return;
        }
        let proves = self.proves(node, &packet);
        self.heard(node, proves);
        if let Some(entry) = self.peers.get_mut(node) {
            entry.received(octets(from.is_ipv6(), self.options.carrier, bytes.len()));
        }
        let (header, payload) = (packet.header, packet.extent);
        let input = Input::Rx { from: node, header, payload, seen: Seen::default() };
        self.step(Some(&packet), Step::Input(input));
    }

    /// What the packet says about other exchanges than its own and the machine does not find in it.
    ///
    /// Homa's Linux module keeps acknowledgements for a host, not for a port of it: it puts them
    /// into any DATA to that host, of an answer too, and into an ACK from any of its ports, and
    /// says to which server each is ([homa 2.12]). Over raw IP every endpoint of this host sees
    /// the packet, whomever it is for.
    fn take_receipts(&mut self, from: SocketAddr, bytes: &[u8], packet: &Parsed<'_, P::Words>) {
        if self.handler.is_none() {
            return;
        }
        let port = self.options.server_port;
        let mut receipts = std::mem::take(&mut self.receipts);
        self.codec.receipts(bytes, packet, &mut |receipt| receipts.push(receipt));
        for receipt in receipts.drain(..).filter(|receipt| receipt.port == port) {
            let id = receipt.id & !1;
            let Some(node) = self.exchanges.answered_at(from, id) else { continue };
            let peer = Peer { at: from, port: packet.ports.source };
            if packet.ports.destination == port
                && receipt.is_read
                && self.peers.find(peer) == Some(node)
            {
                continue;
            }
            self.heard(node, true);
            let payload = Extent { message: Message(id), offset_bytes: 0, length_bytes: 0 };
            let (header, seen) = (receipt.header, Seen::default());
            self.step(None, Step::Input(Input::Rx { from: node, header, payload, seen }));
        }
        self.receipts = receipts;
    }

    /// Somebody lives there, and perhaps shows that he receives what is sent to him.
    fn heard(&mut self, node: Node, proves: bool) {
        while let Some((&of, _)) = self.suspects.range((node, 0)..=(node, u64::MAX)).next() {
            self.suspects.remove(&of);
        }
        if let Some(entry) = self.peers.get_mut(node) {
            entry.proven |= proves;
            entry.unreachable = false;
        }
    }

    /// ICMP says that nobody listens at `to`, to which a packet with this beginning was sent.
    ///
    /// Anybody can send ICMP, so what it quotes must name a call that is under way to that peer:
    /// names are drawn at random, and who has not seen a packet cannot say one ([homa 7.4]). Even
    /// then the peer has time to answer; the machine asks again meanwhile.
    pub(crate) fn on_undelivered(&mut self, to: SocketAddr, quote: &[u8]) {
        self.counters.unreachable += 1;
        let Some(after) = self.options.unreachable_after else { return };
        let Some((Message(id), port)) = self.codec.quoted(quote) else { return };
        let node = self.peers.find(Peer { at: to, port });
        let Some(node) = node.filter(|&node| self.exchanges.call_peer(id) == Some(node)) else {
            return;
        };
        self.counters.unreachable_known += 1;
        if let Some(entry) = self.peers.get_mut(node) {
            entry.unreachable = true;
        }
        let since = self.now();
        let suspicion = Suspicion { since, until: since + after };
        self.suspects.entry((node, id)).or_insert(suspicion);
    }

    /// Ends calls to peers of which nothing was heard since ICMP said of one of these calls that
    /// nobody listens there. The system sends little ICMP, so it counts for all calls to the peer
    /// that were under way by then; a younger one needs its own, and what was said of a call ends
    /// with it.
    fn expire_suspects(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((&(node, _), &suspicion)) =
            self.suspects.iter().find(|(_, suspicion)| suspicion.until <= now)
        {
            for id in self.exchanges.calls_of(node, suspicion.since) {
                if let Some(done) = self.end_call(id) {
                    done.end(Err(CallError::Unreachable));
                }
                self.cancel(id);
            }
            any = true;
        }
        any
    }

    /// Does this packet show that its sender receives what is sent to it: does it speak of an
    /// answer that was given to it?
    fn proves(&self, from: Node, packet: &Parsed<'_, P::Words>) -> bool {
        if self.seal.is_some() {
            // Sealed for this life, which was told to its address.
            return true;
        }
        if packet.extent.message.is_answer() {
            return false;
        }
        self.codec.proven(packet).is_some_and(|of| self.exchanges.has_answer((from, of)))
    }

    /// Lets timers and deadlines fire that are due.
    pub(crate) fn expire(&mut self, settled: bool) -> bool {
        let now = self.now();
        let patience = if settled { Span::ZERO } else { TICK_LATE };
        let mut any = false;
        // Each of them once, in their order; one that is armed for the past again fires in the next
        // round.
        let mut from = Bound::Unbounded;
        let due = |timer: TimerOf<P>, at: Instant| {
            at + if P::is_patient(timer) { patience } else { Span::ZERO } <= now
        };
        loop {
            let mut ahead = self.timers.range((from, Bound::Unbounded));
            let Some((&timer, _)) = ahead.find(|&(&timer, &at)| due(timer, at)) else { break };
            self.timers.remove(&timer);
            self.step(None, Step::Expire(timer));
            (any, from) = (true, Bound::Excluded(timer));
        }
        while let Some(id) = self.exchanges.overdue(now) {
            if let Some(done) = self.end_call(id) {
                done.end(Err(CallError::Deadline));
            }
            self.cancel(id);
            any = true;
        }
        any |= self.expire_waiting(now);
        any | self.expire_suspects(now)
    }

    /// Refuses questions that have waited too long for the handler.
    fn expire_waiting(&mut self, now: Instant) -> bool {
        let Some(after) = self.options.refused_after else { return false };
        let mut any = false;
        while self.exchanges.waiting_since().is_some_and(|since| since + after <= now) {
            if let Some(question) = self.exchanges.give_up_waiting() {
                self.refuse(question, Refusal::Overloaded);
            }
            any = true;
        }
        any
    }

    /// Gives waiting questions to the handler, as far as it takes them.
    pub(crate) fn hand_out(&mut self) -> bool {
        let mut any = false;
        let Options { handling_max, answers_bytes_max, .. } = self.options;
        while let Some((name, bytes)) = self.exchanges.handle_next(handling_max, answers_bytes_max)
        {
            any = true;
            self.counters.questions += 1;
            let reply = Reply::new(self.shared.clone(), name);
            // Peers with questions here are not forgotten.
            let from = self.peers.get(name.0).map(|entry| entry.peer);
            if let (Some(handler), Some(from)) = (&mut self.handler, from) {
                handler.answer(Question::new(from, bytes), reply);
            }
        }
        any
    }

    /// The next packet that may be sent.
    pub(crate) fn pull(&mut self) -> Option<Outgoing> {
        loop {
            if let Some(ready) = self.seal.as_mut().and_then(Seal::ready) {
                return Some(ready);
            }
            if self.dry {
                return None;
            }
            let now = self.now();
            let pulled = self.take(now, Step::Pull);
            self.dry = pulled.is_none();
            // Before the effects, which may say that these bytes are not needed any more.
            let outgoing = pulled.as_ref().and_then(|packet| self.outgoing(packet));
            let outgoing = outgoing.and_then(|packet| match &mut self.seal {
                Some(seal) => seal.seal(packet, now),
                None => Some(packet),
            });
            self.settle(None);
            if outgoing.is_some() || pulled.is_none() {
                return outgoing;
            }
        }
    }

    fn outgoing(&mut self, packet: &Packet<P::Words>) -> Option<Outgoing> {
        let extent = packet.payload;
        let entry = self.peers.get_mut(packet.to)?;
        let source = match extent.message.is_answer() {
            true => self.options.server_port,
            false => self.options.client_port,
        };
        let ports = Ports { source, destination: entry.peer.port };
        let mut header = [0; HEAD_BYTES];
        let header_bytes = self.codec.emit(ports, &packet.header, &extent, &mut header);
        let bytes = header_bytes + extent.length_bytes as usize;
        let octets = octets(entry.peer.at.is_ipv6(), self.options.carrier, bytes);
        if !entry.may_send(octets, self.options.unproven_ratio) {
            self.counters.withheld += 1;
            return None;
        }
        let (to, level) = (entry.peer.at, packet.priority);
        let payload = match extent.length_bytes {
            0 => Bytes::new(),
            length => {
                let bytes = self.exchanges.outgoing(packet.to, extent.message)?;
                let start = extent.offset_bytes as usize;
                let end = start.saturating_add(length as usize);
                (end <= bytes.len()).then(|| bytes.slice(start..end))?
            }
        };
        let control = extent.length_bytes == 0;
        Some(Outgoing { to, level, control, header, header_bytes, payload })
    }

    /// When the loop must look again, whatever happens.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        let timers = self.timers.values().copied();
        let closing = self.closing.as_ref().map(|closing| closing.until.min(self.now() + LINGER));
        let suspects = self.suspects.values().map(|suspicion| suspicion.until);
        let after = self.options.refused_after;
        let waiting = self.exchanges.waiting_since().zip(after).map(|(since, after)| since + after);
        let others = self.exchanges.next_deadline().into_iter().chain(self.records.next_time());
        timers.chain(others).chain(waiting).chain(suspects).chain(closing).min()
    }

    /// Is there nothing left to stay for?
    /// Ticks alone, which forget names of exchanges that are over, are no reason.
    pub(crate) fn is_over(&mut self, now: Instant) -> bool {
        let Some(closing) = &mut self.closing else { return false };
        if self.exchanges.are_over(&closing.welcome) {
            closing.idle_since.get_or_insert(now);
        } else {
            closing.idle_since = None;
        }
        now >= closing.until || closing.idle_since.is_some_and(|since| now.since(since) >= LINGER)
    }

    pub(crate) fn publish(&mut self) {
        self.counters.machine = P::counters(&self.machine);
        self.counters.exchanges = P::exchange_count(&self.machine) as u64;
        self.counters.messages = self.exchanges.message_count() as u64;
        self.counters.message_bytes = self.exchanges.held_bytes();
        self.counters.peers = self.peers.len() as u64;
        *lock(&self.published) = self.counters;
    }

    /// Ends all calls and takes no more.
    pub(crate) fn finish(&mut self) {
        for command in self.shared.close() {
            refuse(command);
        }
        for call in self.exchanges.take_calls() {
            call.done.end(Err(CallError::Closed));
        }
        self.publish();
        self.records.finish();
    }
}
