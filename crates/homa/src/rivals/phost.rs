//! pHost: receivers hand out tokens, one for each packet ([homa 3.5]).
//!
//! A sender announces a message with an RTS. The receiver issues one token in each full-packet time
//! t, to the message with the fewest packets left, and a sender whose port is idle spends the token
//! of the message with the fewest packets left. A token lives 1.5 t. A message of at most eight
//! packets brings its tokens along, valid for 8 t + 1.5 t; a longer one waits for its first token
//! (so the published code; the pHost paper gives every message tokens for the first round trip). A
//! message that has more than eight tokens unanswered gets no more until 25 t have passed. When
//! tokens for all packets are out, the receiver waits 9 t (or, for a message that brought its own,
//! twice its packets times t) and begins again with those that are missing.
//!
//! t is the time of a full packet on the wire, Ethernet included: the source's simulator has no
//! Ethernet overhead, and pacing by 1500 bytes would issue 2.5 % more than the link carries.
//!
//! Repair, which the source does not need because it loses no small packet: a sender that hears
//! nothing announces its message again, waiting twice as long each time; the answer says that the
//! message is known, or delivered. A message whose tokens seem to be spent in vain is served on
//! after the same waits, so lost tokens and lost packets look alike.

use super::alarm::Alarm;
use super::dctcp::ATTEMPTS_MIN;
use super::endpoint::{
    About, ConfigError, EndCx, Endpoint, FRAME_BYTES, HEADER_BYTES, LEVEL_TOP, Met, PAYLOAD_BYTES,
    Rival, Timer, Why, machine, require, require_span, wire_time,
};
use super::flows::Reuse;
use super::least::Least;
use super::received::Received;
use super::selective;
use alloc::collections::VecDeque;
use cavy_core::family::Node;
use cavy_core::family::packet::{self, Extent, Message, Seen};
use cavy_core::{Instant, Packet, Room, Span};

/// Parameters of pHost. Times in packets are multiples of a full packet's time on the wire.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// Rate of the host's link, which paces tokens, in bits per second. 10 Gb/s.
    pub link_bits_per_s: u64,
    /// A full packet on that link, with what the layers below add, 1500 to 9000. [`FRAME_BYTES`].
    pub frame_bytes: u32,
    /// A message of at most so many packets brings its tokens along, 0 to 64. 8.
    pub free_tokens_packets: u32,
    /// Tokens of a message that may be unanswered, 1 to 1000. 8.
    pub window_packets: u32,
    /// Life of a token, in packet times. 1.5.
    pub token_life_packets: f64,
    /// Wait before tokens are issued again, in packet times. 9.
    pub reissue_packets: f64,
    /// Wait before unanswered tokens are forgiven, in packet times. 25.
    pub forgive_packets: f64,
    /// Messages of at most so many bytes have the middle level, longer ones the lowest. Eight full
    /// packets.
    pub short_bytes: u32,
    /// First wait before an RTS is repeated; doubled each time, up to 64 times. 200 us.
    pub announce: Span,
    /// A message fails when the receiver was silent for this long, and several announcements. 1 s.
    pub patience: Span,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            link_bits_per_s: 10_000_000_000,
            frame_bytes: FRAME_BYTES,
            free_tokens_packets: 8,
            window_packets: 8,
            token_life_packets: 1.5,
            reissue_packets: 9.0,
            forgive_packets: 25.0,
            short_bytes: 8 * PAYLOAD_BYTES,
            announce: Span::from_us(200),
            patience: Span::from_ms(1_000),
        }
    }
}

impl Config {
    /// Are all values in their ranges?
    pub fn check(&self) -> Result<(), ConfigError> {
        let rate = self.link_bits_per_s;
        let rate_ok = (1_000..=10_000_000_000_000).contains(&rate);
        require("link_bits_per_s", rate as f64, rate_ok, "1e3 to 1e13")?;
        let frame = self.frame_bytes;
        require("frame_bytes", f64::from(frame), (1500..=9000).contains(&frame), "1500 to 9000")?;
        let free = self.free_tokens_packets;
        require("free_tokens_packets", f64::from(free), free <= 64, "0 to 64")?;
        let window = self.window_packets;
        let window_ok = (1..=1000).contains(&window);
        require("window_packets", f64::from(window), window_ok, "1 to 1000")?;
        for (name, value) in [
            ("token_life_packets", self.token_life_packets),
            ("reissue_packets", self.reissue_packets),
            ("forgive_packets", self.forgive_packets),
        ] {
            require(name, value, (1.0..=1e6).contains(&value), "1 to 1e6")?;
        }
        require_span("announce", self.announce)?;
        require_span("patience", self.patience)
    }

    /// Time of a full packet on the wire.
    pub fn packet_time(&self) -> Span {
        wire_time(self.frame_bytes, self.link_bits_per_s)
    }

    fn times(&self, packets: f64) -> Span {
        Span::from_ns(libm::round(self.packet_time().as_ns() as f64 * packets) as u64)
    }
}

/// The packets of pHost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Header {
    /// Announces a message.
    Rts {
        /// The message.
        about: About,
        /// It was announced before: an answer is wanted.
        again: bool,
    },
    /// To an RTS that was repeated: the message is known.
    Known,
    /// Allows to send the packet at the payload's offset.
    Token {
        /// Packets the receiver has not got.
        left: u32,
        /// The receiver's number of this token.
        number: u16,
    },
    /// Carries payload, by a token the message brought along.
    Free(About),
    /// Carries payload, by a token.
    Data {
        /// The message.
        about: About,
        /// The token's number.
        token: u16,
    },
    /// The whole message is there.
    Done,
    /// From the sender: its application took the message back.
    Cancel,
    /// From the receiver: the message was given up.
    Refuse,
}

impl packet::Header for Header {
    fn wire_bytes(&self) -> u32 {
        HEADER_BYTES
    }
}

#[derive(Clone, Copy, Debug)]
struct Token {
    packet: u32,
    expires: Instant,
    number: Option<u16>,
}

/// A message being sent.
#[derive(Clone, Debug, Default)]
pub struct Sending {
    /// In the order in which they expire.
    tokens: VecDeque<Token>,
    /// Packets the receiver has not got, as far as we were told.
    left: u32,
    announced: u32,
    heard: Instant,
    alarm: Alarm,
}

impl Reuse for Sending {
    fn reuse(&mut self) {
        self.tokens.clear();
        self.announced = 0;
        self.alarm.clear();
    }
}

/// A message being received.
#[derive(Clone, Debug, Default)]
pub struct Receiving {
    /// Tokens issued, and the number after the highest one that came back with a packet.
    issued: u32,
    used: u32,
    /// Tokens are out, in this round, for the missing packets below.
    round: u32,
    alarm: Alarm,
    waits: Wait,
}

/// What a message that gets no tokens waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Wait {
    #[default]
    Nothing,
    /// Unanswered tokens to be forgiven.
    Forgiving,
    /// The end of a round.
    Round,
}

impl Reuse for Receiving {
    fn reuse(&mut self) {
        self.issued = 0;
        self.used = 0;
        self.round = 0;
        self.alarm.clear();
        self.waits = Wait::Nothing;
    }
}

impl Receiving {
    /// The next packet to issue a token for in this round.
    fn next_missing(&self, received: &Received, packets: u32) -> Option<u32> {
        let mut number = self.round.max(received.next());
        while number < packets && received.contains(number) {
            number += 1;
        }
        (number < packets).then_some(number)
    }
}

/// The pHost of one node.
#[derive(Clone, Debug)]
pub struct PHost {
    config: Config,
    end: Endpoint<Header, Sending, Receiving>,
    /// Messages with tokens, by packets left, then age.
    rich: Least<(u32, u64)>,
    /// Messages that may be issued a token, by packets missing, then slot.
    hungry: Least<(u32, u32)>,
    pace: Alarm,
    /// No token before.
    next_token: Instant,
}

impl PHost {
    /// A node without messages.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(PHost {
            config,
            end: Endpoint::new(config.patience),
            rich: Least::default(),
            hungry: Least::default(),
            pace: Alarm::default(),
            next_token: Instant::ZERO,
        })
    }

    /// Messages under way and what is remembered of others.
    pub fn remembered(&self) -> usize {
        self.end.remembered()
    }

    fn is_free(&self, packets: u32) -> bool {
        packets <= self.config.free_tokens_packets
    }

    fn announce(&mut self, slot: u32, cx: &mut EndCx<'_>) {
        let Some((to, message)) = self.end.outgoing.key(slot) else { return };
        let about = self.end.about(slot);
        let sending = &mut self.end.outgoing[slot].state;
        let wait = self.config.announce.saturating_mul(1 << sending.announced.min(6));
        let again = sending.announced > 0;
        sending.announced += 1;
        sending.alarm.set(cx.now() + wait, Timer::Outgoing(slot), cx);
        self.end.control(to, message, Header::Rts { about, again }, LEVEL_TOP);
    }

    fn announce_again(&mut self, slot: u32, cx: &mut EndCx<'_>) {
        let sending = &mut self.end.outgoing[slot].state;
        let silence = cx.now().since(sending.heard);
        if sending.announced > ATTEMPTS_MIN && silence >= self.config.patience {
            self.rich.remove(slot);
            self.end.fail(slot, Why::Silent, cx);
        } else {
            self.announce(slot, cx);
        }
    }

    /// The receiver of the message in `slot` is alive.
    fn heard(&mut self, slot: u32, cx: &mut EndCx<'_>) {
        let sending = &mut self.end.outgoing[slot].state;
        sending.heard = cx.now();
        let wait = self.config.announce.saturating_mul(1 << sending.announced.min(6));
        sending.alarm.set(cx.now() + wait, Timer::Outgoing(slot), cx);
    }

    fn token(&mut self, slot: u32, packet: u32, (left, number): (u32, u16), cx: &mut EndCx<'_>) {
        let flow = &mut self.end.outgoing[slot];
        if packet >= flow.packets {
            return;
        }
        let expires = cx.now() + self.config.times(self.config.token_life_packets);
        let sending = &mut flow.state;
        sending.left = left;
        // Expired ones leave here too, so that a message that is never its turn keeps few.
        while sending.tokens.front().is_some_and(|token| token.expires < cx.now()) {
            sending.tokens.pop_front();
        }
        // Free tokens live longer than those issued after them.
        let at = sending.tokens.iter().position(|token| token.expires > expires);
        let token = Token { packet, expires, number: Some(number) };
        sending.tokens.insert(at.unwrap_or(sending.tokens.len()), token);
        sending.announced = 1;
        self.rich.set(slot, (left, flow.birth));
        self.heard(slot, cx);
    }

    /// What is known of the message in `slot` changed: may it have a token, or what does it wait
    /// for?
    fn consider(&mut self, slot: u32, cx: &mut EndCx<'_>) {
        let config = self.config;
        let flow = &mut self.end.incoming[slot];
        let missing = flow.missing();
        let receiving = &mut flow.state;
        let wait = if receiving.next_missing(&flow.received, flow.packets).is_none() {
            // A message that brought its tokens has had no round of ours before.
            let own = receiving.issued == 0;
            let packets = if own { 2.0 * f64::from(flow.packets) } else { config.reissue_packets };
            Some((Wait::Round, packets))
        } else if receiving.issued - receiving.used > config.window_packets {
            Some((Wait::Forgiving, config.forgive_packets))
        } else {
            None
        };
        let Some((wait, packets)) = wait else {
            receiving.waits = Wait::Nothing;
            receiving.alarm.clear();
            self.hungry.set(slot, (missing, slot));
            self.schedule(cx);
            return;
        };
        // The end of a round is counted from its last token, forgiveness from the last packet.
        if receiving.waits != Wait::Round || wait != Wait::Round {
            receiving.waits = wait;
            let due = cx.now() + config.times(packets);
            receiving.alarm.set(due, Timer::Incoming(slot), cx);
        }
        self.hungry.remove(slot);
    }

    /// A message waited long enough.
    fn waited(&mut self, slot: u32, cx: &mut EndCx<'_>) {
        let receiving = &mut self.end.incoming[slot].state;
        receiving.used = receiving.issued;
        if receiving.waits == Wait::Round {
            receiving.round = 0;
        }
        receiving.waits = Wait::Nothing;
        self.consider(slot, cx);
    }

    /// Sees to it that the next token goes out in time.
    fn schedule(&mut self, cx: &mut EndCx<'_>) {
        if self.hungry.is_empty() || self.pace.is_set() {
            return;
        }
        if cx.now() >= self.next_token {
            self.issue(cx);
        }
        if !self.hungry.is_empty() {
            self.pace.set(self.next_token, Timer::Pace, cx);
        }
    }

    /// One token, to the message with the fewest packets missing.
    fn issue(&mut self, cx: &mut EndCx<'_>) {
        let Some(slot) = self.hungry.peek() else { return };
        let Some((from, message)) = self.end.incoming.key(slot) else { return };
        let flow = &mut self.end.incoming[slot];
        let left = flow.missing();
        let Some(packet) = flow.state.next_missing(&flow.received, flow.packets) else { return };
        let number = flow.state.issued as u16;
        flow.state.issued += 1;
        flow.state.round = packet + 1;
        self.next_token = cx.now() + self.config.packet_time();
        let header = Header::Token { left, number };
        self.end.control_at(from, message, packet, header, LEVEL_TOP);
        // Only a message that may have no more leaves the queue; the pace of the others stays.
        let receiving = &self.end.incoming[slot].state;
        let over = receiving.issued - receiving.used > self.config.window_packets;
        let round_over = {
            let flow = &self.end.incoming[slot];
            flow.state.next_missing(&flow.received, flow.packets).is_none()
        };
        if over || round_over {
            self.consider(slot, cx);
        }
    }

    fn announced(
        &mut self,
        from: Node,
        about: About,
        message: Message,
        again: bool,
        cx: &mut EndCx<'_>,
    ) {
        let known = self.end.incoming.find((from, message)).is_some();
        let answer = match self.end.meet(from, message, about, cx) {
            Met::Open(slot) => {
                if !known {
                    self.begin(slot, cx);
                }
                if !again {
                    return;
                }
                Header::Known
            }
            Met::Delivered => Header::Done,
            Met::Refused => Header::Refuse,
            Met::Nonsense => return,
        };
        self.end.control(from, message, answer, LEVEL_TOP);
    }

    /// A message is new here: one that brought its tokens waits for them, another one gets some.
    fn begin(&mut self, slot: u32, cx: &mut EndCx<'_>) {
        let packets = self.end.incoming[slot].packets;
        if self.is_free(packets) {
            self.end.incoming[slot].state.round = packets;
        }
        self.consider(slot, cx);
    }

    fn data(
        &mut self,
        (from, about): (Node, About),
        payload: Extent,
        token: Option<u16>,
        cx: &mut EndCx<'_>,
    ) {
        let message = payload.message;
        let Some(number) = self.end.number(about, payload) else { return };
        let known = self.end.incoming.find((from, message)).is_some();
        match self.end.meet(from, message, about, cx) {
            Met::Open(slot) => {
                if !known {
                    self.begin(slot, cx);
                }
                self.end.place(slot, number, cx);
                if self.end.incoming[slot].missing() == 0 {
                    self.hungry.remove(slot);
                    self.end.deliver(slot, cx);
                    self.end.control(from, message, Header::Done, LEVEL_TOP);
                    return;
                }
                if let Some(token) = token {
                    self.end.incoming[slot].state.spent(token);
                }
                self.consider(slot, cx);
            }
            Met::Delivered => self.end.control(from, message, Header::Done, LEVEL_TOP),
            Met::Refused => self.end.control(from, message, Header::Refuse, LEVEL_TOP),
            Met::Nonsense => {}
        }
    }

    fn level(&self, length_bytes: u32) -> u8 {
        if length_bytes <= self.config.short_bytes { LEVEL_TOP - 1 } else { 0 }
    }
}

impl Receiving {
    /// A packet came that spent this token: it and those before it are answered.
    fn spent(&mut self, number: u16) {
        let behind = (self.issued as u16).wrapping_sub(number);
        if behind > 0 && u32::from(behind) <= self.issued {
            self.used = self.used.max(self.issued - u32::from(behind) + 1);
        }
    }
}

machine!(PHost, Header);

impl Rival for PHost {
    type Header = Header;
    type Sending = Sending;
    type Receiving = Receiving;

    fn end(&mut self) -> &mut Endpoint<Header, Sending, Receiving> {
        &mut self.end
    }

    fn submit(&mut self, to: Node, message: Message, length_bytes: u32, cx: &mut EndCx<'_>) {
        let Some(slot) = self.end.open(to, message, length_bytes, cx) else { return };
        let flow = &mut self.end.outgoing[slot];
        let packets = flow.packets;
        flow.state.left = packets;
        flow.state.heard = cx.now();
        if packets <= self.config.free_tokens_packets {
            let life = f64::from(self.config.free_tokens_packets) + self.config.token_life_packets;
            let expires = cx.now() + self.config.times(life);
            let token = |packet| Token { packet, expires, number: None };
            flow.state.tokens.extend((0..packets).map(token));
            self.rich.set(slot, (packets, flow.birth));
        }
        self.announce(slot, cx);
    }

    fn received(
        &mut self,
        (from, header): (Node, Header),
        payload: Extent,
        seen: Seen,
        cx: &mut EndCx<'_>,
    ) {
        let message = payload.message;
        let sent = self.end.outgoing.find((from, message));
        match (header, sent) {
            (Header::Free(_) | Header::Data { .. }, _) if seen.trimmed => {}
            (Header::Free(about), _) => self.data((from, about), payload, None, cx),
            (Header::Data { about, token }, _) => {
                self.data((from, about), payload, Some(token), cx);
            }
            (Header::Rts { about, again }, _) => self.announced(from, about, message, again, cx),
            (Header::Token { left, number }, Some(slot)) => {
                self.token(slot, payload.offset_bytes / PAYLOAD_BYTES, (left, number), cx);
            }
            (Header::Known, Some(slot)) => self.heard(slot, cx),
            (Header::Done, Some(slot)) => {
                self.rich.remove(slot);
                self.end.release(slot, cx);
            }
            (Header::Refuse, Some(slot)) => {
                self.rich.remove(slot);
                self.end.fail(slot, Why::Refused, cx);
            }
            (Header::Cancel, _) => {
                if let Some(slot) = self.end.incoming.find((from, message)) {
                    self.hungry.remove(slot);
                    self.end.cancelled(slot, cx);
                }
            }
            _ => {}
        }
    }

    fn cancel(&mut self, message: Message, cx: &mut EndCx<'_>) {
        if let Some(slot) = self.end.named(message) {
            self.rich.remove(slot);
            selective::take_back(&mut self.end, slot, (Header::Cancel, LEVEL_TOP), cx);
        }
    }

    fn due(&mut self, timer: Timer, cx: &mut EndCx<'_>) {
        match timer {
            Timer::Outgoing(slot) => {
                if self.end.outgoing[slot].state.alarm.came(timer, cx) {
                    self.announce_again(slot, cx);
                }
            }
            Timer::Incoming(slot) => {
                if self.end.incoming[slot].state.alarm.came(timer, cx) {
                    self.waited(slot, cx);
                }
            }
            Timer::Pace => {
                if self.pace.came(timer, cx) {
                    self.schedule(cx);
                }
            }
            Timer::Sweep => {
                let hungry = &mut self.hungry;
                self.end.sweep(cx, |slot| hungry.remove(slot));
            }
        }
    }

    fn next_data(&mut self, room: Room, cx: &mut EndCx<'_>) -> Option<Packet<Header>> {
        while let Some(slot) = self.rich.peek() {
            let now = cx.now();
            let flow = &mut self.end.outgoing[slot];
            while flow.state.tokens.front().is_some_and(|token| token.expires < now) {
                flow.state.tokens.pop_front();
            }
            let Some(&token) = flow.state.tokens.front() else {
                self.rich.remove(slot);
                continue;
            };
            let length_bytes = flow.length_bytes;
            if !self.end.fits(slot, token.packet, room) {
                return None;
            }
            let flow = &mut self.end.outgoing[slot];
            flow.state.tokens.pop_front();
            if token.number.is_none() {
                flow.state.left = flow.state.left.saturating_sub(1).max(1);
                self.rich.set(slot, (flow.state.left, flow.birth));
            }
            if self.end.outgoing[slot].state.tokens.is_empty() {
                self.rich.remove(slot);
            }
            let about = self.end.about(slot);
            let header = match token.number {
                Some(token) => Header::Data { about, token },
                None => Header::Free(about),
            };
            return Some(self.end.packet(slot, token.packet, header, self.level(length_bytes), 0));
        }
        None
    }

    fn verify(&self) {
        for (slot, _) in self.end.outgoing.iter() {
            let sending = &self.end.outgoing[slot].state;
            assert!(sending.alarm.is_set(), "a sender waits for ever");
            assert!(sending.tokens.is_empty() || self.rich.contains(slot), "an idle token");
        }
        let mut hungry = 0;
        for (slot, _) in self.end.incoming.iter() {
            let receiving = &self.end.incoming[slot].state;
            let waits = receiving.waits != Wait::Nothing;
            assert_eq!(waits, receiving.alarm.is_set(), "a wait without end");
            assert_eq!(waits, !self.hungry.contains(slot), "a message nobody serves");
            assert!(receiving.used <= receiving.issued);
            hungry += usize::from(!waits);
        }
        assert_eq!(hungry, self.hungry.len(), "tokens for a message that is over");
        assert!(hungry == 0 || self.pace.is_set(), "no next token is planned");
    }
}
