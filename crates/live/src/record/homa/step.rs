//! One step of the machine, and how a line says it.

use crate::record::Summary;
use crate::record::lines::{Entry, Fields, hex, unhex};
use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Input, Message, Seen};
use cavy_core::{Cx, Digest, Instant, Machine as _, Out, Packet, Room, Transmit as _};
use cavy_homa::cutoffs::LEVELS_MAX;
use cavy_homa::packet::{Acks, Data, Flags, Header, Kind, Layout, Published, Refusal};
use cavy_homa::{Cutoffs, Homa, Timer, Why};
use std::io::Write as _;

/// Later times are damage: 146 years leave room to add spans.
const TIME_MAX_NS: u64 = u64::MAX >> 2;

/// Something that an endpoint does with its machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Starts it.
    Start,
    /// Tells it that something happened.
    Input(Input<Header>),
    /// Tells it that a timer came due.
    Expire(Timer),
    /// Asks for the packet to send now.
    Pull,
}

impl Step {
    /// Lets `machine` take the step. Endpoints and replays do it here, in the same way.
    #[inline]
    pub fn take(
        self,
        machine: &mut Homa,
        cx: &mut Cx<'_, Effect<Why>, Timer>,
    ) -> Option<Packet<Header>> {
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
pub(super) fn fold(
    digest: &mut Digest,
    at: Instant,
    outs: &[Out<Effect<Why>, Timer>],
    pulled: Option<&Packet<Header>>,
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
pub(super) enum Line {
    Step(Instant, Step),
    /// What all steps until now come to. The sum of the lines before is added as it is written.
    Mark(Instant, Summary),
}

/// A line that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Read {
    pub(super) line: Line,
    /// Of the lines before; marks have it.
    pub(super) sum: Option<u64>,
}

impl Entry for Line {
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

fn write_step(to: &mut Vec<u8>, at: u64, step: &Step) -> std::io::Result<()> {
    match step {
        Step::Start => write!(to, "[{at},\"start\"]"),
        Step::Pull => write!(to, "[{at},\"pull\"]"),
        Step::Expire(timer) => write!(to, "[{at},\"{}\"]", timer_word(*timer)),
        Step::Input(Input::Submit { to: node, message, length_bytes, .. }) => {
            write!(to, "[{at},\"call\",{},{},{length_bytes}]", node.0, message.0)
        }
        Step::Input(Input::Answer { to: node, question, length_bytes }) => {
            write!(to, "[{at},\"answer\",{},{},{length_bytes}]", node.0, question.0)
        }
        Step::Input(Input::Cancel { message }) => write!(to, "[{at},\"cancel\",{}]", message.0),
        Step::Input(Input::Rx { from, header, payload, .. }) => {
            let (from, name) = (from.0, payload.message.0);
            match header.kind {
                Kind::Data(data) => write_data(to, at, from, payload, &data),
                Kind::Grant { offset_bytes, priority } => {
                    write!(to, "[{at},\"grant\",{from},{name},{offset_bytes},{priority}]")
                }
                Kind::Resend { offset_bytes: offset, length_bytes: length, priority } => {
                    write!(to, "[{at},\"resend\",{from},{name},{offset},{length},{priority}]")
                }
                Kind::Busy => write!(to, "[{at},\"busy\",{from},{name}]"),
                Kind::Unknown => write!(to, "[{at},\"unknown\",{from},{name}]"),
                Kind::Refused(Refusal::Overloaded) => {
                    write!(to, "[{at},\"overloaded\",{from},{name}]")
                }
                Kind::Refused(Refusal::Unanswered) => {
                    write!(to, "[{at},\"unanswered\",{from},{name}]")
                }
                Kind::NeedAck => write!(to, "[{at},\"need_ack\",{from},{name}]"),
                Kind::Ack(Acks([a, b, c, d])) => {
                    write!(to, "[{at},\"ack\",{from},{name},{a},{b},{c},{d}]")
                }
                Kind::Cutoffs(published) => {
                    write!(to, "[{at},\"cutoffs\",{from},{name},{}", published.version)?;
                    // As they come from a packet they are in order.
                    let cutoffs = published.cutoffs(LEVELS_MAX);
                    for bound in cutoffs.iter().flat_map(Cutoffs::bounds) {
                        write!(to, ",{bound}")?;
                    }
                    to.write_all(b"]")
                }
            }
        }
    }
}

fn write_data(
    to: &mut Vec<u8>,
    at: u64,
    from: u32,
    extent: &Extent,
    data: &Data,
) -> std::io::Result<()> {
    let Extent { message: Message(name), offset_bytes, length_bytes } = extent;
    let Data { message_bytes, incoming_bytes, ack, cutoffs_version, backlog, flags } = data;
    write!(
        to,
        "[{at},\"data\",{from},{name},{offset_bytes},{length_bytes},{message_bytes},\
         {incoming_bytes},{ack},{cutoffs_version},{backlog},{}]",
        flags.0
    )
}

fn timer_word(timer: Timer) -> &'static str {
    match timer {
        Timer::Tick => "tick",
        Timer::Pace => "pace",
        Timer::Grant => "space",
        Timer::Quick => "quick",
    }
}

/// Reads a line.
pub(super) fn parse(text: &[u8]) -> Result<Read, String> {
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
    let step = match Timer::ALL.into_iter().find(|&timer| timer_word(timer) == word) {
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

fn parse_step(word: &str, fields: &mut Fields) -> Result<Step, String> {
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

fn node(fields: &mut Fields) -> Result<Node, String> {
    fields.small("peer", 32).map(Node)
}

fn name(fields: &mut Fields) -> Result<Message, String> {
    fields.number("name", u64::MAX).map(Message)
}

fn difference(fields: &mut Fields) -> Result<i32, String> {
    let value = fields.next().ok_or("a difference of names is missing")?;
    let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
    number.ok_or_else(|| format!("a difference of names is {value}; it must have 32 bits"))
}

fn parse_packet(word: &str, fields: &mut Fields) -> Result<Input<Header>, String> {
    const PACKETS: [&str; 10] = [
        "data",
        "grant",
        "resend",
        "busy",
        "unknown",
        "overloaded",
        "unanswered",
        "need_ack",
        "ack",
        "cutoffs",
    ];
    if !PACKETS.contains(&word) {
        let word: String = word.chars().take(40).collect();
        return Err(format!("there is no step {word:?}"));
    }
    let from = node(fields)?;
    let mut payload = Extent { message: name(fields)?, offset_bytes: 0, length_bytes: 0 };
    let kind = match word {
        "data" => {
            payload.offset_bytes = fields.small("offset", 32)?;
            payload.length_bytes = fields.small("length", 32)?;
            Kind::Data(Data {
                message_bytes: fields.small("message length", 32)?,
                incoming_bytes: fields.small("incoming", 32)?,
                ack: difference(fields)?,
                cutoffs_version: fields.small("version", 16)?,
                backlog: fields.small("backlog", 8)?,
                flags: Flags(fields.small("flags", 8)?),
            })
        }
        "grant" => Kind::Grant {
            offset_bytes: fields.small("offset", 32)?,
            priority: fields.small("level", 8)?,
        },
        "resend" => Kind::Resend {
            offset_bytes: fields.small("offset", 32)?,
            length_bytes: fields.small("length", 32)?,
            priority: fields.small("level", 8)?,
        },
        "busy" => Kind::Busy,
        "unknown" => Kind::Unknown,
        "overloaded" => Kind::Refused(Refusal::Overloaded),
        "unanswered" => Kind::Refused(Refusal::Unanswered),
        "need_ack" => Kind::NeedAck,
        "ack" => Kind::Ack(Acks([
            difference(fields)?,
            difference(fields)?,
            difference(fields)?,
            difference(fields)?,
        ])),
        _ => Kind::Cutoffs(parse_cutoffs(fields)?),
    };
    let header = Header { layout: Layout::Linux, kind };
    Ok(Input::Rx { from, header, payload, seen: Seen::default() })
}

fn parse_cutoffs(fields: &mut Fields) -> Result<Published, String> {
    /// A packet has no room for more.
    const BOUNDS_MAX: usize = 6;
    let version = fields.small("version", 16)?;
    let mut bounds = Vec::with_capacity(BOUNDS_MAX);
    while let Some(value) = fields.next() {
        let bound = value.as_u64().filter(|&bound| bound < 1 << 24 && bounds.len() < BOUNDS_MAX);
        let bound = bound.ok_or_else(|| format!("bound {value} of cut-offs"))?;
        bounds.push(bound as u32);
    }
    let cutoffs = Cutoffs::new(LEVELS_MAX, &bounds).ok_or("cut-offs are not in order")?;
    Ok(Published::new(&cutoffs, version))
}
