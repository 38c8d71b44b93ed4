//! One step of a machine of the packet family, and how a line says it.

use super::Words;
use crate::record::Summary;
use crate::record::lines::{Entry, Fields, hex, unhex};
use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Input, Message, Seen};
use cavy_core::{Cx, Digest, Instant, Out, Packet, Room, Transmit};
use std::hash::Hash;
use std::io::Write as _;

/// Later times are damage: 146 years leave room to add spans.
const TIME_MAX_NS: u64 = u64::MAX >> 2;

/// Something that an endpoint does with its machine, whose packets have the header `H` and whose
/// timers are `T`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<H, T> {
    /// Starts it.
    Start,
    /// Tells it that something happened.
    Input(Input<H>),
    /// Tells it that a timer came due.
    Expire(T),
    /// Asks for the packet to send now.
    Pull,
}

impl<H, T> Step<H, T> {
    /// Lets `machine` take the step. Endpoints and replays do it here, in the same way.
    #[inline]
    pub fn take<M>(self, machine: &mut M, cx: &mut Cx<'_, M::Effect, T>) -> Option<Packet<H>>
    where
        M: Transmit<Header = H, Input = Input<H>, Timer = T>,
    {
        match self {
            Step::Start => machine.start(cx),
            Step::Input(input) => machine.handle(input, cx),
            Step::Expire(timer) => machine.expire(timer, cx),
            Step::Pull => return machine.pull(Room { packets: 1, bytes: u32::MAX }, cx),
        }
        None
    }
}

/// Folds what a machine answered to a step.
#[inline]
pub(in crate::record) fn fold<E: Hash, T: Hash, H: Hash>(
    digest: &mut Digest,
    at: Instant,
    outs: &[Out<E, T>],
    pulled: Option<&Packet<H>>,
) {
    digest.fold(at.as_ns());
    for out in outs {
        digest.fold_value(out);
    }
    if let Some(packet) = pulled {
        digest.fold_value(packet);
    }
}

/// A line of a recording between its header and its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::record) enum Line<H, T> {
    Step(Instant, Step<H, T>),
    /// What all steps until now come to. The sum of the lines before is added as it is written.
    Mark(Instant, Summary),
}

/// A line that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::record) struct Read<H, T> {
    pub(in crate::record) line: Line<H, T>,
    /// Of the lines before; marks have it.
    pub(in crate::record) sum: Option<u64>,
}

impl<H: Words> Entry for Line<H, H::Timer> {
    fn write(&self, line: &mut Vec<u8>, sum: u64) {
        // Memory takes all that is written.
        let _ = match self {
            Line::Step(at, step) => write_step(line, at.as_ns(), step),
            Line::Mark(at, Summary { inputs, digest }) => {
                let (at, digest, sum) = (at.as_ns(), hex(*digest), hex(sum));
                write!(line, "[{at},\"mark\",{inputs},\"{digest}\",\"{sum}\"]")
            }
        };
    }
}

fn write_step<H: Words>(
    to: &mut Vec<u8>,
    at: u64,
    step: &Step<H, H::Timer>,
) -> std::io::Result<()> {
    match step {
        Step::Start => write!(to, "[{at},\"start\"]"),
        Step::Pull => write!(to, "[{at},\"pull\"]"),
        Step::Expire(timer) => match H::timer(*timer) {
            (word, None) => write!(to, "[{at},\"{word}\"]"),
            (word, Some(number)) => write!(to, "[{at},\"{word}\",{number}]"),
        },
        Step::Input(Input::Submit { to: node, message, length_bytes, .. }) => {
            write!(to, "[{at},\"call\",{},{},{length_bytes}]", node.0, message.0)
        }
        Step::Input(Input::Answer { to: node, question, length_bytes }) => {
            write!(to, "[{at},\"answer\",{},{},{length_bytes}]", node.0, question.0)
        }
        Step::Input(Input::Cancel { message }) => write!(to, "[{at},\"cancel\",{}]", message.0),
        Step::Input(Input::Rx { from, header, payload, .. }) => {
            header.write(to, at, *from, payload)
        }
    }
}

/// Reads a line.
pub(in crate::record) fn parse<H: Words>(text: &[u8]) -> Result<Read<H, H::Timer>, String> {
    let mut fields = Fields::of(text)?;
    let at = Instant::from_ns(fields.number("time", TIME_MAX_NS)?);
    let word = fields.next().ok_or("the step's name is missing")?;
    let word = word.as_str().ok_or_else(|| format!("the step's name is {word}"))?;
    if word == "mark" {
        let inputs = fields.number("steps", u64::MAX)?;
        let digest = fingerprint(&mut fields, "digest")?;
        let sum = Some(fingerprint(&mut fields, "sum")?);
        fields.end()?;
        return Ok(Read { line: Line::Mark(at, Summary { inputs, digest }), sum });
    }
    let step = match H::timer_of(word, &mut fields)? {
        Some(timer) => Step::Expire(timer),
        None => parse_step(word, &mut fields)?,
    };
    fields.end()?;
    Ok(Read { line: Line::Step(at, step), sum: None })
}

fn fingerprint(fields: &mut Fields, what: &str) -> Result<u64, String> {
    let value = fields.next().ok_or_else(|| format!("{what} is missing"))?;
    unhex(what, value.as_str().ok_or_else(|| format!("{what} is {value}"))?)
}

fn parse_step<H: Words>(word: &str, fields: &mut Fields) -> Result<Step<H, H::Timer>, String> {
    Ok(match word {
        "start" => Step::Start,
        "pull" => Step::Pull,
        "call" => Step::Input(Input::Submit {
            to: node(fields)?,
            message: name(fields)?,
            length_bytes: fields.small("length", 32)?,
            asks: true,
        }),
        "answer" => Step::Input(Input::Answer {
            to: node(fields)?,
            question: name(fields)?,
            length_bytes: fields.small("length", 32)?,
        }),
        "cancel" => Step::Input(Input::Cancel { message: name(fields)? }),
        _ => Step::Input(parse_packet(word, fields)?),
    })
}

fn parse_packet<H: Words>(word: &str, fields: &mut Fields) -> Result<Input<H>, String> {
    if !H::PACKETS.contains(&word) {
        let word: String = word.chars().take(40).collect();
        return Err(format!("there is no step {word:?}"));
    }
    let from = node(fields)?;
    let mut payload = Extent { message: name(fields)?, offset_bytes: 0, length_bytes: 0 };
    let header = H::parse(word, &mut payload, fields)?;
    Ok(Input::Rx { from, header, payload, seen: Seen::default() })
}

fn node(fields: &mut Fields) -> Result<Node, String> {
    fields.small("peer", 32).map(Node)
}

fn name(fields: &mut Fields) -> Result<Message, String> {
    fields.number("name", u64::MAX).map(Message)
}
