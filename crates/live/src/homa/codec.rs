//! Homa as a protocol that endpoints speak: the Linux module's packets, and what is its own beyond
//! what the packet family says.

use super::{CallError, Options};
use crate::packet::{Codec, HEAD_BYTES, Parsed, Ports, Protocol, Receipt, Refusal, Terms};
use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Input, Message};
use cavy_homa::packet::{Acks, Header, Kind, Layout};
use cavy_homa::wire::{DATA_BYTES, Dialect, HEADER_MAX_BYTES, PROTOCOL, Repr, View, WireError};
use cavy_homa::{Config, Homa, Timer, Why, packet, wire};

const _: () = assert!(HEADER_MAX_BYTES == HEAD_BYTES);

impl Protocol for Config {
    type Codec = Linux;
    type Counters = cavy_homa::Counters;

    const IP_PROTOCOL: Option<u8> = Some(PROTOCOL);

    fn codec(&self) -> Linux {
        Linux { dialect: Dialect::of(self) }
    }

    fn terms(&self) -> Terms {
        Terms {
            message_max_bytes: self.message_max_bytes,
            empty_messages: self.empty_messages,
            peers: self.limits.peers,
            refusals: self.refusals,
        }
    }

    fn outcome(&self, why: Why) -> CallError {
        match why {
            Why::Empty => CallError::Empty,
            Why::TooLong => CallError::TooLong { most: self.message_max_bytes },
            Why::NoRoom | Why::Name => CallError::Full,
            Why::Overloaded => CallError::Overloaded,
            Why::Unanswered => CallError::Unanswered,
            Why::Timeout | Why::Unacknowledged | Why::Forgotten => CallError::Silent,
        }
    }

    fn refusal(&self, to: Node, question: Message, refusal: Refusal) -> Input<Header> {
        let refusal = match refusal {
            Refusal::Overloaded => packet::Refusal::Overloaded,
            Refusal::Unanswered => packet::Refusal::Unanswered,
        };
        Input::Answer { to, question, length_bytes: refusal.length_bytes() }
    }

    fn counters(machine: &Homa) -> cavy_homa::Counters {
        *machine.counters()
    }

    fn exchange_count(machine: &Homa) -> usize {
        machine.exchange_count()
    }

    fn is_patient(timer: Timer) -> bool {
        timer == Timer::Tick
    }

    fn packet_bytes(&self) -> usize {
        let payload = self.unscheduled_packet_bytes.max(self.scheduled_packet_bytes) as usize;
        // A peer may send fuller packets than this endpoint does.
        (payload + DATA_BYTES).max(9_000)
    }

    fn check_live(&self) -> Result<(), (&'static str, String)> {
        self.check().map_err(|error| ("config", error.to_string()))?;
        let field = |name, right: bool, must: &str| match right {
            true => Ok(()),
            false => Err((name, must.to_string())),
        };
        let linux = self.layout == Layout::Linux;
        field("config.layout", linux, "it must be Linux, the only one that has bytes")?;
        field("config.answers", self.answers, "it must be true: all messages are answered")?;
        field("config.recovery", self.recovery.is_some(), "it must be set: networks lose")
    }

    fn settled(options: &Options) -> Options {
        super::options::settled(options)
    }
}

/// Packets as the Linux module writes them ([homa 7.2]).
#[derive(Clone, Copy, Debug)]
pub struct Linux {
    pub(super) dialect: Dialect,
}

impl Codec for Linux {
    type Header = Header;
    type Malformed = [u64; WireError::KINDS];

    fn parse<'a>(&self, bytes: &'a [u8]) -> Result<Parsed<'a, Header>, usize> {
        let view = View::new(bytes).map_err(WireError::kind)?;
        let repr = Repr::parse(&view, &self.dialect).map_err(WireError::kind)?;
        let message_bytes = match repr.kind {
            Kind::Data(data) => Some(data.message_bytes),
            _ => None,
        };
        let wire::Ports { source, destination } = repr.ports;
        Ok(Parsed {
            ports: Ports { source, destination },
            header: repr.header(),
            extent: repr.extent,
            message_bytes,
            payload: view.payload(),
        })
    }

    fn emit(
        &self,
        ports: Ports,
        header: &Header,
        extent: &Extent,
        to: &mut [u8; HEAD_BYTES],
    ) -> usize {
        repr(ports, header, extent).emit(&self.dialect, to)
    }

    fn quoted(&self, quote: &[u8]) -> Option<(Message, u16)> {
        let view = View::new(quote).ok()?;
        Some((Message(view.sender_id()), view.destination_port()))
    }

    fn proven(&self, packet: &Parsed<'_, Header>) -> Option<u64> {
        let name = packet.extent.message.0;
        match packet.header.kind {
            Kind::Ack(_) | Kind::Grant { .. } | Kind::Resend { .. } => Some(name),
            Kind::Data(data) if data.ack != 0 => Some(name.wrapping_add_signed(data.ack.into())),
            _ => None,
        }
    }

    fn receipts(
        &self,
        bytes: &[u8],
        packet: &Parsed<'_, Header>,
        tell: &mut dyn FnMut(Receipt<Header>),
    ) {
        if !matches!(packet.header.kind, Kind::Data(_) | Kind::Ack(_)) {
            return;
        }
        let Ok(view) = View::new(bytes) else { return };
        let repr = repr(packet.ports, &packet.header, &packet.extent);
        let header = Header { kind: Kind::Ack(Acks::default()), ..packet.header };
        for (id, port) in view.acknowledged() {
            tell(Receipt { id, port, is_read: repr.acknowledges(id), header });
        }
    }
}

fn repr(Ports { source, destination }: Ports, header: &Header, extent: &Extent) -> Repr {
    let ports = wire::Ports { source, destination };
    Repr { ports, kind: header.kind, extent: *extent }
}
