//! Driving servers over TCP: HTTP/1.1, RESP, and services without a protocol of their own; with
//! the feature `tls` also encrypted.
//!
//! The sender writes a request straight to a connection with room and goes on; one receiver thread
//! for each client waits for answers on all its connections. A request that comes when no
//! connection has room waits in the client, and its latency counts all the same.

mod client;
mod http;
mod lane;
mod link;
mod raw;
mod resp;
#[cfg(feature = "tls")]
mod tls;

pub use client::{Client, ClientOptions, ConnectError};
pub use http::Http;
pub use raw::Raw;
pub use resp::Resp;
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsError, TlsFault, Trust};

use crate::load::target::Outcome;

/// Longest answer that is read.
pub const REPLY_BYTES_MAX: usize = 64 << 20;

/// A protocol in which one connection answers in the order of its requests.
pub trait Protocol: Send + Sync {
    /// The bytes of a request of type `kind`.
    fn request(&self, kind: u16) -> &[u8];

    /// Looks for the whole answer to a request of type `kind` at the beginning of `bytes`.
    fn reply(&self, kind: u16, bytes: &[u8]) -> Reply;

    /// What `bytes`, a whole reply that is no answer or the beginning of something unknown, say to
    /// a reader: a status and the beginning of a text.
    fn complaint(&self, bytes: &[u8]) -> String;
}

/// The beginning of what a server sent, as text on one line.
fn beginning(bytes: &[u8]) -> String {
    const MOST: usize = 120;
    let shown = &bytes[..bytes.len().min(MOST)];
    let text = String::from_utf8_lossy(shown);
    let line = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    let more = if bytes.len() > MOST { " ..." } else { "" };
    format!("{}{more}", line.trim())
}

/// What the beginning of what was received is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Not a whole answer yet.
    Partial,
    /// An answer.
    Whole {
        /// Its length in bytes.
        length: usize,
        /// What it says.
        outcome: Outcome,
        /// The server will close the connection.
        close: bool,
    },
    /// Nothing that this protocol knows.
    Broken,
}
