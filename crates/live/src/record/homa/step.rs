//! How lines say Homa's packets and timers.

use crate::record::lines::Fields;
use crate::record::packet::Words;
use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Message};
use cavy_homa::cutoffs::LEVELS_MAX;
use cavy_homa::packet::{Acks, Data, Flags, Header, Kind, Layout, Published, Refusal};
use cavy_homa::{Cutoffs, Timer};
use std::io::Write as _;

const fn timer_word(timer: Timer) -> &'static str {
    match timer {
        Timer::Tick => "tick",
        Timer::Pace => "pace",
        Timer::Grant => "space",
        Timer::Quick => "quick",
    }
}

/// Each timer with its word: one more does not compile without one.
const TIMERS: [(Timer, &str); Timer::ALL.len()] = {
    let mut all = [(Timer::Tick, ""); Timer::ALL.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = (Timer::ALL[at], timer_word(Timer::ALL[at]));
        at += 1;
    }
    all
};

impl Words for Header {
    type Timer = Timer;

    const TIMERS: &'static [(Timer, &'static str)] = &TIMERS;
    const PACKETS: &'static [&'static str] = &[
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

    fn write(
        &self,
        to: &mut Vec<u8>,
        at: u64,
        Node(from): Node,
        payload: &Extent,
    ) -> std::io::Result<()> {
        let name = payload.message.0;
        match self.kind {
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

    fn parse(word: &str, payload: &mut Extent, fields: &mut Fields) -> Result<Self, String> {
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
        Ok(Header { layout: Layout::Linux, kind })
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

fn difference(fields: &mut Fields) -> Result<i32, String> {
    let value = fields.next().ok_or("a difference of names is missing")?;
    let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
    number.ok_or_else(|| format!("a difference of names is {value}; it must have 32 bits"))
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
