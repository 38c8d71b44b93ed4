//! What a recorded endpoint did, told by its replay.

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Input, Message};
use cavy_core::{Instant, Out, Packet, Span};
use cavy_homa::packet::{Header, Kind};
use cavy_homa::{Counters, Homa, Timer, Why};
use cavy_live::load::ledger::{Times, record, times};
use cavy_live::record::homa::{Step, Taken};
use std::collections::BTreeMap;

/// Packets by what they say, in the order of [`KINDS`].
pub type ByKind = [u64; KINDS.len()];

/// Names of packets.
pub const KINDS: [&str; 9] =
    ["DATA", "GRANT", "RESEND", "BUSY", "UNKNOWN", "REFUSED", "CUTOFFS", "NEED_ACK", "ACK"];

/// Levels of priority.
pub const LEVELS: usize = 8;

/// What a timer is called.
pub fn timer_name(timer: Timer) -> &'static str {
    match timer {
        Timer::Tick => "tick",
        Timer::Pace => "pace",
        Timer::Grant => "spaced grant",
        Timer::Quick => "quick repair",
    }
}

/// Most messages whose times are followed at once, so that memory is bounded whatever the file
/// says.
const OPEN_MAX: usize = 1 << 20;

/// What is sent at one level.
#[derive(Clone, Copy, Default)]
pub struct Level {
    /// DATA packets.
    pub data: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// All others.
    pub control: u64,
}

/// Which message: names of exchanges that this endpoint began are its own, others go with the peer.
type Name = (Option<Node>, Message);

/// Times that began and have not ended, and those that have.
pub struct Waits {
    open: BTreeMap<Name, Instant>,
    /// Those that ended.
    pub times: Times,
}

impl Waits {
    fn new() -> Waits {
        Waits { open: BTreeMap::new(), times: times() }
    }

    fn begin(&mut self, name: Name, at: Instant) {
        if self.open.len() < OPEN_MAX {
            self.open.insert(name, at);
        }
    }

    fn end(&mut self, name: Name, at: Instant) {
        if let Some(began) = self.open.remove(&name) {
            record(&mut self.times, at.since(began));
        }
    }

    fn forget(&mut self, name: Name) {
        self.open.remove(&name);
    }
}

/// What a replay shows of a run.
pub struct Story {
    /// When the first step was taken, and the last.
    pub from: Instant,
    /// When the last step was.
    pub until: Instant,
    /// Questions asked.
    pub calls: u64,
    /// Answers that came.
    pub answered: u64,
    /// Questions asked and not wanted any more.
    pub cancelled: u64,
    /// Messages that failed, and why.
    pub failed: BTreeMap<&'static str, u64>,
    /// Questions of others that came in whole.
    pub questions: u64,
    /// Questions of others that were answered or refused.
    pub answers: u64,
    /// Packets that came.
    pub received: ByKind,
    /// Packets that the machine gave.
    pub sent: ByKind,
    /// What was sent at each level, 0 lowest.
    pub levels: [Level; LEVELS],
    /// From a question to its answer.
    pub call_times: Waits,
    /// From a message to its first packet.
    pub first_packets: Waits,
    /// From a whole question to the application's answer.
    pub served: Waits,
    /// How late timers fired, as [`Timer::ALL`].
    pub late: [Times; Timer::ALL.len()],
    /// Pulls that gave no packet although bytes might be sent: the interface's queue was full.
    pub paced: u64,
    /// Time in which bytes that might be sent were not.
    pub sending: Span,
    /// Time in which a message could have been granted and was not.
    pub withholding: Span,
    /// Most bytes that might be sent and were not.
    pub backlog_max_bytes: u64,
    /// Most bytes that others might send here and that had not come.
    pub incoming_max_bytes: u64,
    /// Most exchanges at once.
    pub exchanges_max: usize,
    /// What the machine counted.
    pub counters: Counters,
    /// As the machine was after the step before.
    had_backlog: bool,
    withheld: bool,
    begun: bool,
}

impl Story {
    /// Nothing has happened.
    pub fn new() -> Story {
        Story {
            from: Instant::ZERO,
            until: Instant::ZERO,
            calls: 0,
            answered: 0,
            cancelled: 0,
            failed: BTreeMap::new(),
            questions: 0,
            answers: 0,
            received: ByKind::default(),
            sent: ByKind::default(),
            levels: [Level::default(); LEVELS],
            call_times: Waits::new(),
            first_packets: Waits::new(),
            served: Waits::new(),
            late: [(); Timer::ALL.len()].map(|()| times()),
            paced: 0,
            sending: Span::ZERO,
            withholding: Span::ZERO,
            backlog_max_bytes: 0,
            incoming_max_bytes: 0,
            exchanges_max: 0,
            counters: Counters::default(),
            had_backlog: false,
            withheld: false,
            begun: false,
        }
    }

    /// One step more.
    pub fn tell(&mut self, taken: &Taken<'_>) {
        let at = taken.at;
        self.pass(at, taken.machine);
        match taken.step {
            Step::Start => {}
            Step::Input(input) => self.input(at, &input),
            Step::Expire(timer) => {
                let place = Timer::ALL.iter().position(|&known| known == timer);
                if let (Some(place), Some(due)) = (place, taken.due) {
                    record(&mut self.late[place], at.since(due));
                }
            }
            Step::Pull => match taken.given {
                Some(packet) => self.packet(at, packet),
                None => self.paced += u64::from(self.had_backlog),
            },
        }
        for out in taken.outs {
            if let Out::Effect(effect) = out {
                self.effect(at, effect);
            }
        }
    }

    /// Time goes on; the machine is as it was until now.
    fn pass(&mut self, at: Instant, machine: &Homa) {
        if !std::mem::replace(&mut self.begun, true) {
            self.from = at;
            self.until = at;
        }
        let span = at.since(self.until);
        self.until = at;
        if self.had_backlog {
            self.sending += span;
        }
        if self.withheld {
            self.withholding += span;
        }
        self.had_backlog = machine.backlog_bytes() > 0;
        self.withheld = machine.is_withholding();
        self.backlog_max_bytes = self.backlog_max_bytes.max(machine.backlog_bytes());
        self.incoming_max_bytes = self.incoming_max_bytes.max(machine.incoming_bytes());
        self.exchanges_max = self.exchanges_max.max(machine.exchange_count());
        self.counters = *machine.counters();
    }

    fn input(&mut self, at: Instant, input: &Input<Header>) {
        match *input {
            Input::Rx { header, .. } => self.received[kind(&header)] += 1,
            Input::Submit { message, .. } => {
                self.calls += 1;
                self.call_times.begin((None, message), at);
                self.first_packets.begin((None, message), at);
            }
            Input::Answer { to, question, .. } => {
                self.answers += 1;
                self.served.end((Some(to), question), at);
                self.first_packets.begin((Some(to), question.answer()), at);
            }
            Input::Cancel { message } => {
                self.cancelled += 1;
                self.call_times.forget((None, message));
                self.first_packets.forget((None, message));
            }
        }
    }

    fn packet(&mut self, at: Instant, packet: &Packet<Header>) {
        self.sent[kind(&packet.header)] += 1;
        let level = &mut self.levels[usize::from(packet.priority).min(LEVELS - 1)];
        match packet.header.kind {
            Kind::Data(_) => {
                level.data += 1;
                level.bytes += u64::from(packet.payload.length_bytes);
                let message = packet.payload.message;
                self.first_packets.end((message.is_answer().then_some(packet.to), message), at);
            }
            _ => level.control += 1,
        }
    }

    fn effect(&mut self, at: Instant, effect: &Effect<Why>) {
        match *effect {
            Effect::Place { .. } | Effect::Released { .. } => {}
            Effect::Delivered { message, .. } if message.is_answer() => {
                self.answered += 1;
                self.call_times.end((None, message.question()), at);
            }
            Effect::Delivered { from, message, .. } => {
                self.questions += 1;
                self.served.begin((Some(from), message), at);
            }
            Effect::Failed { peer, message, why } => {
                *self.failed.entry(reason(why)).or_insert(0) += 1;
                self.call_times.forget((None, message));
                self.first_packets.forget((None, message));
                self.first_packets.forget((Some(peer), message));
                self.served.forget((Some(peer), message.question()));
            }
        }
    }
}

fn kind(header: &Header) -> usize {
    match header.kind {
        Kind::Data(_) => 0,
        Kind::Grant { .. } => 1,
        Kind::Resend { .. } => 2,
        Kind::Busy => 3,
        Kind::Unknown => 4,
        Kind::Refused(_) => 5,
        Kind::Cutoffs(_) => 6,
        Kind::NeedAck => 7,
        Kind::Ack(_) => 8,
    }
}

fn reason(why: Why) -> &'static str {
    match why {
        Why::Timeout => "the peer was silent",
        Why::Unacknowledged => "an answer was not acknowledged",
        Why::Forgotten => "the peer knows nothing of it",
        Why::Empty => "an empty message",
        Why::TooLong => "too long, or a question refused",
        Why::Overloaded => "the server had too much to do",
        Why::Unanswered => "the application gave no answer",
        Why::NoRoom => "no room",
        Why::Name => "a name out of place",
    }
}
