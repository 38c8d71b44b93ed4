//! Sealed packets: what `cavy_seal` does, on the packets of this room.

use super::carrier::{HEAD_BYTES, Outgoing};
use bytes::Bytes;
pub(crate) use cavy_seal::Opened;
pub use cavy_seal::{Key, SEAL_BYTES, WINDOW_PACKETS};
use cavy_seal::{PREFIX_BYTES, Packet};
use std::net::SocketAddr;

/// Seals and opens the packets of one endpoint.
pub(crate) type Seal = cavy_seal::Seal<Outgoing>;

impl Packet for Outgoing {
    fn to(&self) -> SocketAddr {
        self.to
    }

    fn parts(&self) -> [&[u8]; 2] {
        [self.header.get(..self.header_bytes).unwrap_or(&[]), &self.payload]
    }

    fn wrapped(self, prefix: &[u8; PREFIX_BYTES], sealed: Vec<u8>) -> Outgoing {
        let mut header = [0; HEAD_BYTES];
        header[..PREFIX_BYTES].copy_from_slice(prefix);
        Outgoing { header, header_bytes: PREFIX_BYTES, payload: Bytes::from(sealed), ..self }
    }

    fn own(to: SocketAddr, prefix: &[u8; PREFIX_BYTES], sealed: Vec<u8>) -> Outgoing {
        let header = [0; HEAD_BYTES];
        let bare = Outgoing {
            to,
            level: 7,
            control: true,
            header,
            header_bytes: 0,
            payload: Bytes::new(),
        };
        bare.wrapped(prefix, sealed)
    }
}
