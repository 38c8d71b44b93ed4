//! A packet as the machine understands it, from bytes and to bytes.

use super::{ACKS_MAX, DATA_BYTES, HEADER_MAX_BYTES, Type, View, WireError};
use crate::config::Config;
use crate::cutoffs::{Cutoffs, LEVELS_MAX};
use crate::packet::{Acks, Data, Flags, Header, Kind, Layout, Published, Refusal, name_difference};
use cavy_core::family::packet::{Extent, Message};

/// The ports of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ports {
    /// Of whoever sends it.
    pub source: u16,
    /// Of whom it is for.
    pub destination: u16,
}

impl Ports {
    /// The same for a packet that goes back.
    #[must_use]
    pub const fn reversed(self) -> Ports {
        Ports { source: self.destination, destination: self.source }
    }
}

/// What both sides must agree on beside the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dialect {
    /// Levels of the network.
    pub levels: u8,
    /// The longest message: the bound of the lowest unscheduled level.
    pub message_max_bytes: u32,
    /// Say in DATA how much waits behind it ([homa 8.2] point 5). The byte is one that the module
    /// leaves zero and does not read.
    pub says_backlog: bool,
    /// Tell a refusal from UNKNOWN, by a byte that the module leaves zero and does not read.
    pub says_refusals: bool,
}

impl Dialect {
    /// That of a machine with this configuration.
    pub fn of(config: &Config) -> Dialect {
        Dialect {
            levels: config.levels,
            message_max_bytes: config.message_max_bytes,
            says_backlog: config.informed.is_some(),
            says_refusals: config.refusals,
        }
    }
}

/// A packet without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Repr {
    /// Its ports.
    pub ports: Ports,
    /// What it says.
    pub kind: Kind,
    /// Which bytes of which message follow; names the exchange as its sender does.
    pub extent: Extent,
}

/// Bit of the first pad byte of DATA: the asking side expects incast ([homa 2.10]).
const INCAST_BIT: u8 = 1;
/// First unused byte of UNKNOWN: the question is refused and was not carried out.
const OVERLOADED: u8 = 1;
/// The same: it is refused, and may have been.
const UNANSWERED: u8 = 2;

impl Repr {
    /// The header for the machine.
    pub fn header(&self) -> Header {
        Header { layout: Layout::Linux, kind: self.kind }
    }

    /// Reads `view`. A question is always one that is answered: the format has no other messages.
    ///
    /// # Errors
    /// All of [`WireError`] but those of [`View::new`].
    pub fn parse(view: &View<'_>, dialect: &Dialect) -> Result<Repr, WireError> {
        let ports = Ports { source: view.source_port(), destination: view.destination_port() };
        let name = Message(view.sender_id());
        let bare = |kind| Repr {
            ports,
            kind,
            extent: Extent { message: name, offset_bytes: 0, length_bytes: 0 },
        };
        Ok(match view.kind() {
            Type::Data => Repr {
                kind: Kind::Data(parse_data(view, name, ports, dialect)),
                extent: Extent {
                    message: name,
                    offset_bytes: view.data_offset_bytes(),
                    length_bytes: u32::try_from(view.payload().len()).unwrap_or(u32::MAX),
                },
                ports,
            },
            Type::Grant => bare(Kind::Grant {
                offset_bytes: view.offset_bytes(),
                priority: view.grant_priority(),
            }),
            Type::Resend => bare(Kind::Resend {
                offset_bytes: view.offset_bytes(),
                length_bytes: view.resend_bytes(),
                priority: view.resend_priority(),
            }),
            Type::Unknown => bare(match (dialect.says_refusals, view.mark()) {
                (true, OVERLOADED) => Kind::Refused(Refusal::Overloaded),
                (true, UNANSWERED) => Kind::Refused(Refusal::Unanswered),
                _ => Kind::Unknown,
            }),
            Type::Busy => bare(Kind::Busy),
            Type::NeedAck => bare(Kind::NeedAck),
            Type::Cutoffs => bare(Kind::Cutoffs(parse_cutoffs(view, dialect)?)),
            Type::Ack => bare(Kind::Ack(parse_acks(view, name, ports)?)),
            Type::Freeze => return Err(WireError::Freeze),
        })
    }

    /// Does it say to the machine that the exchange of this name may be forgotten?
    pub fn acknowledges(&self, id: u64) -> bool {
        let name = self.extent.message.0;
        let named = |&difference: &i32| {
            difference != 0 && name.wrapping_add_signed(difference.into()) == id
        };
        match self.kind {
            Kind::Ack(Acks(others)) => name == id || others.iter().any(named),
            Kind::Data(data) => !self.extent.message.is_answer() && named(&data.ack),
            _ => false,
        }
    }

    /// Writes the header into the beginning of `to`; its length. The payload follows it.
    pub fn emit(&self, dialect: &Dialect, to: &mut [u8; HEADER_MAX_BYTES]) -> usize {
        let kind = self.wire_type();
        let length = kind.header_bytes();
        *to = [0; HEADER_MAX_BYTES];
        let mut put = Put { to };
        let name = self.extent.message.0;
        put.bytes(0, self.ports.source.to_be_bytes());
        put.bytes(2, self.ports.destination.to_be_bytes());
        put.bytes(11, [kind as u8]);
        // Lengths of headers in words, in the high half: what TCP's receive offload looks at.
        put.bytes(12, [if kind == Type::Data { (DATA_BYTES as u8 / 4) << 4 } else { 0x50 }]);
        // What the module writes for its disguise as TCP, and ignores under its own protocol
        // number.
        put.bytes(13, [0x06]);
        put.bytes(18, 0xb97d_u16.to_be_bytes());
        put.bytes(20, name.to_be_bytes());
        match self.kind {
            Kind::Data(data) => self.emit_data(&data, dialect, &mut put),
            Kind::Grant { offset_bytes, priority } => {
                put.bytes(28, offset_bytes.to_be_bytes());
                put.bytes(32, [priority]);
            }
            Kind::Resend { offset_bytes, length_bytes, priority } => {
                put.bytes(28, offset_bytes.to_be_bytes());
                put.bytes(32, length_bytes.to_be_bytes());
                put.bytes(36, [priority]);
            }
            Kind::Cutoffs(published) => {
                let cutoffs = published.cutoffs(dialect.levels);
                let bounds = cutoffs_by_level(cutoffs, dialect.message_max_bytes);
                for (level, bound) in bounds.into_iter().enumerate() {
                    put.bytes(28 + 4 * level, bound.to_be_bytes());
                }
                put.bytes(60, published.version.to_be_bytes());
            }
            Kind::Ack(Acks(others)) => {
                let others = others.into_iter().filter(|&other| other != 0);
                let others = others.map(|other| name.wrapping_add_signed(other.into()));
                // The header ends its own exchange already; the draft's readers look at the list
                // alone.
                let mut count = 0_u16;
                for id in core::iter::once(name).chain(others) {
                    let at = 30 + 10 * usize::from(count);
                    put.bytes(at, id.to_be_bytes());
                    put.bytes(at + 8, self.ports.destination.to_be_bytes());
                    count += 1;
                }
                put.bytes(28, count.to_be_bytes());
            }
            Kind::Refused(refusal) if dialect.says_refusals => {
                let mark = match refusal {
                    Refusal::Overloaded => OVERLOADED,
                    Refusal::Unanswered => UNANSWERED,
                };
                put.bytes(8, [mark]);
            }
            Kind::Busy | Kind::Unknown | Kind::Refused(_) | Kind::NeedAck => {}
        }
        length
    }

    fn wire_type(&self) -> Type {
        match self.kind {
            Kind::Data(_) => Type::Data,
            Kind::Grant { .. } => Type::Grant,
            Kind::Resend { .. } => Type::Resend,
            Kind::Busy => Type::Busy,
            Kind::Unknown | Kind::Refused(_) => Type::Unknown,
            Kind::Cutoffs(_) => Type::Cutoffs,
            Kind::NeedAck => Type::NeedAck,
            Kind::Ack(_) => Type::Ack,
        }
    }

    fn emit_data(&self, data: &Data, dialect: &Dialect, put: &mut Put<'_>) {
        let offset = self.extent.offset_bytes;
        put.bytes(4, offset.to_be_bytes());
        put.bytes(28, data.message_bytes.to_be_bytes());
        put.bytes(32, data.incoming_bytes.to_be_bytes());
        if data.ack != 0 {
            let id = self.extent.message.0.wrapping_add_signed(data.ack.into());
            put.bytes(36, id.to_be_bytes());
            put.bytes(44, self.ports.destination.to_be_bytes());
        }
        put.bytes(46, data.cutoffs_version.to_be_bytes());
        put.bytes(48, [u8::from(data.flags.has(Flags::RETRANSMIT))]);
        put.bytes(49, [if data.flags.has(Flags::INCAST) { INCAST_BIT } else { 0 }]);
        put.bytes(50, [if dialect.says_backlog { data.backlog } else { 0 }]);
        put.bytes(52, u32::MAX.to_be_bytes());
    }
}

/// Places for bytes in a header. What does not fit is left out; nothing that is written here does
/// not.
struct Put<'a> {
    to: &'a mut [u8; HEADER_MAX_BYTES],
}

impl Put<'_> {
    #[inline]
    fn bytes<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        if let Some(place) = self.to.get_mut(at..at + N) {
            place.copy_from_slice(&bytes);
        }
    }
}

fn parse_data(view: &View<'_>, name: Message, ports: Ports, dialect: &Dialect) -> Data {
    // An acknowledgement for another port of this host, or too far away to be told: NEED_ACK will
    // ask.
    let ack = view.piggybacked_ack().filter(|&(_, port)| port == ports.destination);
    let ack = ack.and_then(|(id, _)| name_difference(id, name.0));
    let [marks, backlog, _] = view.pad();
    Data {
        message_bytes: view.message_bytes(),
        incoming_bytes: view.incoming_bytes(),
        ack: ack.unwrap_or(0),
        cutoffs_version: view.data_cutoffs_version(),
        backlog: if dialect.says_backlog { backlog } else { 0 },
        flags: Flags::default()
            .and(Flags::RETRANSMIT, view.is_retransmit())
            .and(Flags::ASKS, !name.is_answer())
            .and(Flags::INCAST, marks & INCAST_BIT != 0),
    }
}

/// What an ACK ends beside the exchange of its header, which it ends in any case ([homa 2.12]): the
/// first four it lists for this port, as differences of names. What is left out here, whoever owns
/// the endpoint finds in [`View::acknowledged`].
fn parse_acks(view: &View<'_>, name: Message, ports: Ports) -> Result<Acks, WireError> {
    if usize::from(view.ack_count()) > ACKS_MAX {
        return Err(WireError::Acks);
    }
    let mut others = Acks::default();
    let ids = view.acknowledged().filter(|&(_, port)| port == ports.destination).map(|(id, _)| id);
    let differences = ids.filter_map(|id| name_difference(id, name.0));
    for (place, difference) in others.0.iter_mut().zip(differences) {
        *place = difference;
    }
    Ok(others)
}

/// From the longest message of each level to bounds with the topmost level first. The module takes
/// the highest level whose bound is not below the length, and level 0 when there is none.
///
/// The machine has room for six bounds: of eight different levels, the lowest two become one.
fn parse_cutoffs(view: &View<'_>, dialect: &Dialect) -> Result<Published, WireError> {
    let version = view.cutoffs_version();
    if version == 0 {
        return Err(WireError::Version);
    }
    let by_level = view.cutoffs();
    let levels = usize::from(dialect.levels.clamp(1, LEVELS_MAX));
    let mut bounds = [0; 6];
    let mut count = 0;
    let mut least = 0;
    let downwards = by_level.get(1..levels).unwrap_or(&[]).iter().rev();
    for (place, &bound) in bounds.iter_mut().zip(downwards) {
        if bound >= dialect.message_max_bytes {
            break;
        }
        least = bound.max(least);
        *place = least;
        count += 1;
    }
    let cutoffs = Cutoffs::new(dialect.levels, bounds.get(..count).unwrap_or(&[]));
    Ok(Published::new(&cutoffs.unwrap_or(Cutoffs::none(dialect.levels)), version))
}

/// From bounds with the topmost level first to the longest message of each level.
fn cutoffs_by_level(cutoffs: Option<Cutoffs>, message_max_bytes: u32) -> [u32; 8] {
    let mut by_level = [0; 8];
    let Some(cutoffs) = cutoffs else { return by_level };
    let bounds = cutoffs.bounds().iter().map(|&bound| bound.min(message_max_bytes));
    let bounds = bounds.chain(core::iter::once(message_max_bytes));
    let levels = usize::from(cutoffs.levels());
    for (place, bound) in by_level[..levels.min(8)].iter_mut().rev().zip(bounds) {
        *place = bound;
    }
    by_level
}
