//! Plays scripts.

#[path = "words.rs"]
mod words;

use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Message, Seen};
use cavy_core::family::stream::{Connection, Effect, Input, Unreachable};
use cavy_core::laws::packet::Stage;
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_tcp::{
    BackoffReset, Config, Congestion, DelayedAck, Ecn, Flags, Floor, Keepalive, Planted, Rack,
    RtoConfig, Segment, Stack, Undo, Why,
};
use std::collections::VecDeque;
use std::path::Path;
pub use words::Script;
use words::{Places, flags, greeting, number, range, span};

const PEER: Node = Node(1);
const PEER_PORT: u16 = 50_000;

struct Left {
    at: Instant,
    segment: Segment,
    length: u32,
}

struct Player {
    config: Config,
    planted: Option<Planted>,
    stage: Option<Stage<Stack>>,
    left: VecDeque<Left>,
    /// Effects that were looked at as they came; scripts take them from the stage by name.
    heard: usize,
    connection: Option<Connection>,
    passive: bool,
    wrap: bool,
    /// First numbers: ours once a SYN left, and the peer's.
    own_isn: Option<u32>,
    peer_isn: u32,
    port: u16,
    loud: bool,
}

/// All scripts beside this file.
pub fn all_of_this_room() -> Vec<Script> {
    Script::all_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts"))
}

/// Plays a script; the error says which line was not as it says. What the machine asserts itself
/// is an error as well.
pub fn play_with(script: &Script, planted: Option<Planted>, loud: bool) -> Result<(), String> {
    let played = std::panic::catch_unwind(|| play_planted(script, planted, loud));
    played.unwrap_or_else(|_| Err("the machine's own check failed".to_string()))
}

fn play_planted(script: &Script, planted: Option<Planted>, loud: bool) -> Result<(), String> {
    let mut player = Player {
        config: Config::reference(RtoConfig::FINE),
        planted,
        stage: None,
        left: VecDeque::new(),
        heard: 0,
        connection: None,
        passive: false,
        wrap: false,
        own_isn: None,
        peer_isn: 0x1000_0000,
        port: 0,
        loud,
    };
    for (number, line) in &script.lines {
        if loud {
            println!("{} {number}: {line}", script.name);
        }
        player.line(line).map_err(|why| format!("line {number}, `{line}`: {why}"))?;
    }
    Ok(())
}

impl Player {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let first = words.next().ok_or("an empty line")?;
        let rest: Vec<&str> = words.collect();
        let arg = rest.first().copied();
        if let Some(time) = first.strip_prefix('+') {
            return self.pass(span(time)?);
        }
        match first {
            "set" => return self.set(&rest),
            "<" => return self.inject(&rest),
            ">" => return self.expect(&rest),
            "!" => return self.told(&rest, true),
            "!no" => return self.told(&rest, false),
            "skip" => {
                self.left.clear();
                return Ok(());
            }
            "established" | "accepted" => return self.greet(first == "accepted", &rest),
            "count" => return self.count(&rest),
            "state" => {
                let want = number(rest.get(1).copied())?;
                let have = self.stage()?.machine.connections();
                return if have == want { Ok(()) } else { Err(format!("there are {have}")) };
            }
            _ => {}
        }
        let connection = self.connection;
        let of = || connection.ok_or("there is no connection".to_string());
        let input = match first {
            "listen" => {
                self.passive = true;
                Input::Listen { port: 80, backlog: arg.map_or(Ok(8), |n| number(Some(n)))? }
            }
            "open" => Input::Open { ticket: 1, to: PEER, port: 80 },
            "write" => Input::Write { connection: of()?, bytes: number(arg)?, whole: false },
            "whole" => Input::Write { connection: of()?, bytes: number(arg)?, whole: true },
            "took" => Input::Took { connection: of()?, bytes: number(arg)? },
            "shut" => Input::Shut { connection: of()? },
            "close" => Input::Close { connection: of()? },
            "abort" => Input::Abort { connection: of()? },
            "icmp" => {
                let seq: u32 = number(rest.get(1).copied())?;
                let (source, destination) = self.ports();
                let own = self.own_isn.unwrap_or(0);
                let header = Segment::new(source, destination, own.wrapping_add(seq), Flags::ACK);
                let why = Unreachable::TooLong { mtu_bytes: number(arg)? };
                Input::Unreachable { to: PEER, header, why }
            }
            other => return Err(format!("`{other}` is no such line")),
        };
        self.stage()?.input(input);
        self.settle()
    }

    /// A handshake that takes 10 ms, after which nothing is left to look at.
    fn greet(&mut self, accepted: bool, rest: &[&str]) -> Result<(), String> {
        for line in greeting(accepted, rest) {
            self.line(&line)?;
        }
        self.left.clear();
        self.told(&["opened"], true)
    }

    fn set(&mut self, rest: &[&str]) -> Result<(), String> {
        if self.stage.is_some() {
            return Err("too late: something happened already".to_string());
        }
        let value = rest.get(1).copied().ok_or("a value is missing")?;
        let config = &mut self.config;
        let yes = value == "on";
        match rest[0] {
            "base" => {
                *config = match value {
                    "reference" => Config::reference(RtoConfig::FINE),
                    "stock" => Config::reference(RtoConfig::STOCK),
                    "fine" => Config::fine(Congestion::NewReno),
                    "linux" => Config::linux(Congestion::NewReno),
                    other => return Err(format!("`{other}` is no base")),
                }
            }
            "mss" => config.mss_bytes = number(Some(value))?,
            "window" => config.initial_window = number(Some(value))?,
            "buffer" => config.receive_buffer_bytes = number(Some(value))?,
            "dupthresh" => config.dupthresh = number(Some(value))?,
            "sack" => config.sack = yes,
            "reno" => config.reno = yes,
            "halves_window" => config.halves_window = yes,
            "limited" => config.limited_transmit = yes,
            "slow_start" => config.slow_start = yes,
            "idle_restart" => config.idle_restart = yes,
            "nagle" => config.nagle = yes,
            "prr" => config.prr = yes,
            "strict" => config.strict_stamps = yes,
            "cubic" => config.congestion = Congestion::Cubic,
            "ecn" => {
                config.ecn = match value {
                    "classic" => Ecn::Classic,
                    "dctcp" => Ecn::Dctcp,
                    _ => Ecn::Off,
                }
            }
            "stamps" => config.stamps = if value == "off" { None } else { Some(span(value)?) },
            "rack" => {
                config.rack = match value {
                    "fine" => Some(Rack { probe: false, ..Rack::FINE }),
                    "probe" => Some(Rack::FINE),
                    "jiffies" => Some(Rack::JIFFIES),
                    _ => None,
                }
            }
            "undo" => {
                config.undo = match value {
                    "eifel" => Undo { eifel: true, ..Undo::NONE },
                    "frto" => Undo { frto: true, ..Undo::NONE },
                    "dsack" => Undo { dsack: true, ..Undo::NONE },
                    "all" => Undo::ALL,
                    _ => Undo::NONE,
                }
            }
            "delack" => {
                config.delayed_ack = match value {
                    "off" => DelayedAck::Off,
                    "linux" => DelayedAck::LINUX,
                    time => DelayedAck::Fixed(span(time)?),
                }
            }
            "keepalive" => {
                let at = |n: usize| rest.get(n).copied().ok_or("a time is missing".to_string());
                config.keepalive = Some(Keepalive {
                    idle: span(value)?,
                    interval: span(at(2)?)?,
                    probes: number(rest.get(3).copied())?,
                    octet: rest.get(4) == Some(&"octet"),
                });
            }
            "rto_min" => config.rto.min = span(value)?,
            "rto_init" => config.rto.init = span(value)?,
            "rto_max" => config.rto.max = span(value)?,
            "floor" => {
                config.rto.floor = if value == "variance" { Floor::Variance } else { Floor::Whole };
            }
            "forget" => config.rto.backoff_reset = BackoffReset::Timestamp,
            "persist" => config.persist_min = span(value)?,
            "challenge" => config.challenge_interval = span(value)?,
            "retries" => config.give_up_retries = number(Some(value))?,
            "give_up" => config.give_up_after = span(value)?,
            "handshake" => config.handshake_retries = number(Some(value))?,
            "time_wait" => config.time_wait = span(value)?,
            "peer_isn" => self.peer_isn = number(Some(value))?,
            "wrap" => self.wrap = yes,
            other => return Err(format!("`{other}` is no parameter")),
        }
        Ok(())
    }

    fn stage(&mut self) -> Result<&mut Stage<Stack>, String> {
        if self.stage.is_none() {
            let mut seed = 1;
            if self.wrap {
                // A seed whose first number is close below 2^32.
                let near = |seed: &u64| {
                    Stream::keyed(*seed, 0, Purpose::Machine).bits() as u32 > u32::MAX - 3_000
                };
                seed = (0..20_000_000).find(near).ok_or("no seed wraps")?;
            }
            let config = Config { planted: self.planted, ..self.config };
            self.stage = Some(Stage::new(Stack::new(config)?, Instant::ZERO, seed));
        }
        self.stage.as_mut().ok_or("no host".to_string())
    }

    /// Takes in what a step came to, and all packets that may leave after it.
    fn settle(&mut self) -> Result<(), String> {
        loop {
            self.listen()?;
            let packet = self.stage()?.pull();
            self.listen()?;
            let Some(packet) = packet else { return Ok(()) };
            let (segment, length) = (packet.header, packet.payload.length_bytes);
            if segment.flags.has(Flags::SYN) {
                self.own_isn.get_or_insert(segment.seq);
            }
            self.port = if self.passive { 80 } else { segment.source };
            let at = self.stage()?.now;
            if self.loud {
                println!("      {at:?} left {segment:?} with {length}");
            }
            self.left.push_back(Left { at, segment, length });
        }
    }

    /// Looks at effects that are new.
    fn listen(&mut self) -> Result<(), String> {
        let (from, loud) = (self.heard, self.loud);
        let stage = self.stage()?;
        let mut named = None;
        for effect in &stage.effects[from..] {
            if let Effect::Opening { connection, .. } | Effect::Opened { connection, .. } = effect {
                named = Some(*connection);
            }
            if loud {
                println!("      {:?} {effect:?}", stage.now);
            }
        }
        self.heard = stage.effects.len();
        self.connection = named.or(self.connection);
        Ok(())
    }

    fn pass(&mut self, time: Span) -> Result<(), String> {
        let until = self.stage()?.now + time;
        let mut steps = 0;
        while self.stage()?.timers.values().any(|&at| at <= until) {
            steps += 1;
            if steps > 1_000_000 {
                return Err("timers go on and on".to_string());
            }
            self.stage()?.expire_next();
            self.settle()?;
        }
        self.stage()?.now = until;
        Ok(())
    }

    fn ports(&self) -> (u16, u16) {
        if self.passive { (80, PEER_PORT) } else { (self.port, 80) }
    }

    fn inject(&mut self, rest: &[&str]) -> Result<(), String> {
        let (destination, source) = self.ports();
        let told = Places {
            own_isn: self.own_isn.unwrap_or(0),
            peer_isn: self.peer_isn,
            source,
            destination,
            first: self.left.front().and_then(|one| one.segment.stamps),
            last: self.left.back().and_then(|one| one.segment.stamps),
        }
        .segment(rest)?;
        let offset_bytes = told.segment.seq.wrapping_sub(self.peer_isn);
        let length_bytes = told.length;
        let payload = Extent { message: Message(0), offset_bytes, length_bytes };
        let seen = Seen { marked: told.marked, ..Seen::default() };
        let input = Input::Rx { from: PEER, header: told.segment, payload, seen };
        self.stage()?.input(input);
        self.settle()
    }

    fn expect(&mut self, rest: &[&str]) -> Result<(), String> {
        if rest == ["nothing"] {
            return match self.left.front() {
                None => Ok(()),
                Some(left) => Err(format!("left: {}", self.words(left))),
            };
        }
        let left = self.left.pop_front().ok_or("nothing left")?;
        let said = self.words(&left);
        let wrong = |what: &str| Err(format!("{what} differs; left: {said}"));
        let (own, peer) = (self.own_isn.unwrap_or(0), self.peer_isn);
        let (want, any) = flags(rest.first().copied().unwrap_or(""))?;
        let mask = if want.has(Flags::PSH) { 0xdf } else { 0xd7 };
        if !any && left.segment.flags.0 & mask != want.0 & mask {
            return wrong("flags");
        }
        if let Some(word) = rest.get(1).filter(|word| **word != "*") {
            let (seq, length) = range(word)?;
            let have = left.segment.seq.wrapping_sub(own);
            if have != seq && left.segment.seq != seq {
                return wrong("seq");
            }
            if left.length != length {
                return wrong("length");
            }
        }
        let mut words = rest.iter().skip(2).copied();
        while let Some(word) = words.next() {
            if let Some(at) = word.strip_prefix('@') {
                if left.at != Instant::ZERO + span(at)? {
                    return wrong("time");
                }
                continue;
            }
            let stamps = left.segment.stamps;
            let same = match word {
                "ack" => left.segment.ack.wrapping_sub(peer) == number::<u32>(words.next())?,
                "win" => left.segment.window == number(words.next())?,
                "mss" => left.segment.mss == Some(number(words.next())?),
                "ws" => left.segment.scale == Some(number(words.next())?),
                "sackok" => left.segment.sack_permitted,
                "ect" => left.segment.ect,
                "noect" => !left.segment.ect,
                "nosackok" => !left.segment.sack_permitted,
                "nows" => left.segment.scale.is_none(),
                "nots" => stamps.is_none(),
                "nosack" => left.segment.sacks.blocks().is_empty(),
                "ts" => {
                    let echo = number(words.next())?;
                    stamps.is_some_and(|stamps| stamps.echo == echo)
                }
                "sack" => {
                    let relative = |&(left, right): &(u32, u32)| {
                        format!("{}-{}", left.wrapping_sub(peer), right.wrapping_sub(peer))
                    };
                    let have: Vec<String> =
                        left.segment.sacks.blocks().iter().map(relative).collect();
                    have.join(",") == words.next().unwrap_or("")
                }
                other => return Err(format!("`{other}` is no part of a segment")),
            };
            if !same {
                return wrong(word);
            }
        }
        Ok(())
    }

    fn words(&self, left: &Left) -> String {
        let seq = left.segment.seq.wrapping_sub(self.own_isn.unwrap_or(0));
        let ack = left.segment.ack.wrapping_sub(self.peer_isn);
        let blocks = left.segment.sacks.blocks().iter();
        let blocks: Vec<_> = blocks
            .map(|b| (b.0.wrapping_sub(self.peer_isn), b.1.wrapping_sub(self.peer_isn)))
            .collect();
        format!(
            "{:?} {:?} {seq}:{} ack {ack} win {} {:?} sack {blocks:?}",
            left.at,
            left.segment.flags,
            seq.wrapping_add(left.length),
            left.segment.window,
            left.segment.stamps
        )
    }

    fn told(&mut self, rest: &[&str], wanted: bool) -> Result<(), String> {
        let name = rest.first().copied().unwrap_or("");
        let arg = rest.get(1).copied();
        let matches = |effect: &Effect<Why>| match (name, *effect) {
            ("opened", Effect::Opened { .. }) | ("finished", Effect::Finished { .. }) => true,
            ("readable", Effect::Readable { to, .. })
            | ("released", Effect::Released { to, .. }) => {
                arg.is_none_or(|n| number(Some(n)) == Ok(to))
            }
            ("ended", Effect::Ended { why, .. }) => {
                arg.is_none_or(|name| format!("{why:?}") == name)
            }
            _ => false,
        };
        let effects = &mut self.stage()?.effects;
        match (effects.iter().position(matches), wanted) {
            (Some(place), true) => {
                effects.remove(place);
                self.heard -= 1;
                Ok(())
            }
            (None, false) => Ok(()),
            (Some(_), false) => Err(format!("it was told: {effects:?}")),
            (None, true) => Err(format!("it was not told: {effects:?}")),
        }
    }

    fn count(&mut self, rest: &[&str]) -> Result<(), String> {
        let want: u64 = number(rest.get(1).copied())?;
        let counts = *self.stage()?.machine.counts();
        let have = match rest.first().copied().unwrap_or("") {
            "timeouts" => counts.timeouts(),
            "whole" => counts.timeouts_whole,
            "tail" => counts.timeouts_tail,
            "again" => counts.timeouts_again,
            "retransmitted" => counts.retransmitted,
            "recoveries" => counts.fast_recoveries,
            "probes" => counts.probes,
            "spurious" => counts.spurious,
            "undone" => counts.undone,
            "stale" => counts.stale,
            "unanswered" => counts.unanswered,
            "dropped" => counts.dropped,
            "marks" => counts.marks,
            "reductions" => counts.marked_reductions,
            "cookies" => counts.cookies,
            other => return Err(format!("`{other}` is no counter")),
        };
        if have == want { Ok(()) } else { Err(format!("it is {have}")) }
    }
}
