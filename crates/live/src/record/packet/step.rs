//! One step of a machine of the packet family, and how a line says it.

use super::Words;
use crate::record::lines::Fields;
use crate::record::steps::Said;
use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Input, Message, Seen};
use cavy_core::{Cx, Instant, Packet, Room, Transmit};
use std::io::{self, Write as _};

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

impl<H: Words> Said for Step<H, H::Timer> {
    fn write(&self, to: &mut Vec<u8>, at: Instant) -> io::Result<()> {
        write_step(to, at.as_ns(), self)
    }

    fn read(word: &str, fields: &mut Fields) -> Result<Self, String> {
        match H::timer_of(word, fields)? {
            Some(timer) => Ok(Step::Expire(timer)),
            None => parse_step(word, fields),
        }
    }

    fn begins(&self) -> bool {
        *self == Step::Start
    }
}

fn write_step<H: Words>(to: &mut Vec<u8>, at: u64, step: &Step<H, H::Timer>) -> io::Result<()> {
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
