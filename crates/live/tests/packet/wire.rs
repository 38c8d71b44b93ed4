//! What the small transport gives to be run live: its configuration, its bytes, and how recordings
//! say its packets.

use crate::turns::{MESSAGE_MAX_BYTES, Timer, Turns, Why, Word};
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Input, Message};
use cavy_live::packet::{
    CallError, Codec, Configuration, HEAD_BYTES, Parsed, Ports, Protocol, Refusal, Terms,
};
use cavy_live::record::packet::{Fields, Words};
use serde::{Deserialize, Serialize};
use std::io::{Result as IoResult, Write as _};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    pub piece_bytes: u32,
    pub tick_us: u64,
    pub patience_ticks: u32,
}

impl Configuration for Pace {
    type Machine = Turns;
    type Words = Word;
    type Why = Why;

    const MACHINE: &'static str = "turns";

    fn build(&self) -> Result<Turns, String> {
        match self.piece_bytes {
            0 => Err("piece_bytes is 0; it must be at least 1".to_string()),
            bytes => Ok(Turns::new(bytes, Span::from_us(self.tick_us), self.patience_ticks)),
        }
    }
}

impl Protocol for Pace {
    type Codec = Plain;
    type Counters = ();

    fn codec(&self) -> Plain {
        Plain
    }

    fn terms(&self) -> Terms {
        let message_max_bytes = MESSAGE_MAX_BYTES;
        Terms { message_max_bytes, empty_messages: false, peers: 16, refusals: false }
    }

    fn outcome(&self, why: Why) -> CallError {
        match why {
            Why::Silent => CallError::Silent,
            Why::Refused => CallError::Unanswered,
        }
    }

    fn refusal(&self, to: Node, question: Message, _: Refusal) -> Input<Word> {
        Input::Answer { to, question, length_bytes: 0 }
    }

    fn counters(_: &Turns) {}

    fn exchange_count(machine: &Turns) -> usize {
        machine.exchange_count()
    }
}

/// Ports, the word, the name, the place, the length of the whole: big endian, 21 bytes.
pub struct Plain;

impl Codec for Plain {
    type Header = Word;
    /// Too short; no such word.
    type Malformed = [u64; 2];

    fn parse<'a>(&self, bytes: &'a [u8]) -> Result<Parsed<'a, Word>, usize> {
        let (head, payload) = bytes.split_first_chunk::<21>().ok_or(0_usize)?;
        let number = |at: usize, bytes: usize| {
            head[at..at + bytes].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
        };
        let total = number(17, 4) as u32;
        let (header, message_bytes) = match head[4] {
            0 => (Word::Ask(total), Some(total)),
            1 => (Word::Fetch, None),
            2 => (Word::Got, None),
            3 => (Word::Tell(total), Some(total)),
            4 => (Word::Refuse, None),
            _ => return Err(1),
        };
        let payload = if message_bytes.is_some() { payload } else { &[] };
        let (message, offset_bytes) = (Message(number(5, 8)), number(13, 4) as u32);
        let extent = Extent { message, offset_bytes, length_bytes: payload.len() as u32 };
        let ports = Ports { source: number(0, 2) as u16, destination: number(2, 2) as u16 };
        Ok(Parsed { ports, header, extent, message_bytes, payload })
    }

    fn emit(&self, ports: Ports, word: &Word, extent: &Extent, to: &mut [u8; HEAD_BYTES]) -> usize {
        let (kind, total) = match *word {
            Word::Ask(total) => (0, total),
            Word::Fetch => (1, 0),
            Word::Got => (2, 0),
            Word::Tell(total) => (3, total),
            Word::Refuse => (4, 0),
        };
        to[0..2].copy_from_slice(&ports.source.to_be_bytes());
        to[2..4].copy_from_slice(&ports.destination.to_be_bytes());
        to[4] = kind;
        to[5..13].copy_from_slice(&extent.message.0.to_be_bytes());
        to[13..17].copy_from_slice(&extent.offset_bytes.to_be_bytes());
        to[17..21].copy_from_slice(&total.to_be_bytes());
        21
    }

    fn quoted(&self, quote: &[u8]) -> Option<(Message, u16)> {
        let packet = self.parse(quote).ok()?;
        Some((packet.extent.message, packet.ports.destination))
    }

    fn proven(&self, packet: &Parsed<'_, Word>) -> Option<u64> {
        (packet.header == Word::Fetch).then_some(packet.extent.message.0)
    }
}

impl Words for Word {
    type Timer = Timer;

    const TIMERS: &'static [(Timer, &'static str)] = &[(Timer::Tick, "tick")];
    fn timer(timer: Timer) -> (&'static str, Option<u64>) {
        match timer {
            Timer::Tick => ("tick", None),
            Timer::Again(peer) => ("again", Some(peer.into())),
        }
    }

    fn timer_of(word: &str, fields: &mut Fields) -> Result<Option<Timer>, String> {
        Ok(match word {
            "tick" => Some(Timer::Tick),
            "again" => Some(Timer::Again(fields.small("peer", 32)?)),
            _ => None,
        })
    }

    const PACKETS: &'static [&'static str] = &["ask", "fetch", "got", "tell", "refuse"];

    fn write(&self, to: &mut Vec<u8>, at: u64, from: Node, extent: &Extent) -> IoResult<()> {
        let (word, total) = match *self {
            Word::Ask(total) => ("ask", total),
            Word::Fetch => ("fetch", 0),
            Word::Got => ("got", 0),
            Word::Tell(total) => ("tell", total),
            Word::Refuse => ("refuse", 0),
        };
        let Extent { message, offset_bytes, length_bytes } = extent;
        let (from, name) = (from.0, message.0);
        write!(to, "[{at},\"{word}\",{from},{name},{offset_bytes},{length_bytes},{total}]")
    }

    fn parse(word: &str, payload: &mut Extent, fields: &mut Fields) -> Result<Word, String> {
        payload.offset_bytes = fields.small("offset", 32)?;
        payload.length_bytes = fields.small("length", 32)?;
        let total = fields.small("message length", 32)?;
        Ok(match word {
            "ask" => Word::Ask(total),
            "fetch" => Word::Fetch,
            "got" => Word::Got,
            "tell" => Word::Tell(total),
            _ => Word::Refuse,
        })
    }
}
