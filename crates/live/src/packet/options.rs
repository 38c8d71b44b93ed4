//! How an endpoint is set up.

use super::protocol::Protocol;
use super::seal::{Key, SEAL_BYTES};
use cavy_core::Span;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What packets travel in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// UDP: needs no right.
    Udp,
    /// IP with the protocol's own number, as Homa's Linux module: needs CAP_NET_RAW. IPv4 only.
    Raw,
}

/// How an endpoint's thread waits for packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Polling {
    /// Sleeps at once.
    Block,
    /// Looks for this long, then sleeps.
    Hybrid(Span),
    /// Never sleeps: takes a core.
    Spin,
}

/// A protocol's socket on some host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer {
    /// Its address in the carrier. IP has no ports: over [`Carrier::Raw`] this one's port is not
    /// used.
    pub at: SocketAddr,
    /// Its port in the protocol.
    pub port: u16,
}

/// Ports from here on are for asking; servers have those below.
pub const CLIENT_PORT_MIN: u16 = 0x8000;

/// The port of a server whose options say nothing else.
pub const SERVER_PORT: u16 = 99;

impl From<SocketAddr> for Peer {
    /// The server at [`SERVER_PORT`] there.
    fn from(at: SocketAddr) -> Peer {
        Peer { at, port: SERVER_PORT }
    }
}

/// What an endpoint must know of a protocol's bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The longest message.
    pub message_max_bytes: u32,
    /// May a message be empty?
    pub empty_messages: bool,
    /// Most peers that are known at once.
    pub peers: u32,
    /// Does the protocol say that a question is refused? An endpoint that closes is silent towards
    /// new ones otherwise.
    pub refusals: bool,
}

/// An endpoint's options. All fields are public; [`Options::new`] is where to start, for Homa
/// `udp` and `raw` ([`homa::Options`](crate::homa::Options)).
#[derive(Clone, Debug)]
pub struct Options<P> {
    /// The protocol's own configuration.
    pub config: P,
    /// What packets travel in.
    pub carrier: Carrier,
    /// Address to bind. Port 0 takes any that is free.
    pub bind: SocketAddr,
    /// How long packets of the network may be, IP's header included: 1,280 to 9,000 bytes. `None`
    /// leaves that to the protocol, which may take what the interface with the bound address
    /// carries.
    pub mtu_bytes: Option<u32>,
    /// Port that questions come to, 1 to 32,767.
    pub server_port: u16,
    /// Port to ask from, 32,768 and up. Over raw IP all endpoints of a host see all packets,
    /// so there 0 takes one that no other endpoint of the host has, and one that is taken is an
    /// error.
    pub client_port: u16,
    /// How the thread waits.
    pub polling: Polling,
    /// How long a call may take that does not say so itself.
    pub deadline: Span,
    /// Most calls under way; more end with [`CallError::Full`](super::CallError::Full).
    pub calls_max: u32,
    /// Most questions with the handler at once. Others wait: their clients are told BUSY.
    pub handling_max: u32,
    /// Most questions that wait for the handler; more are refused.
    pub waiting_max: u32,
    /// Most bytes of questions that wait for the handler.
    pub waiting_bytes_max: u64,
    /// Once the answers that are kept until they are acknowledged have so many bytes, the handler
    /// is given no more questions; they wait, and are refused like others that wait. Answers to
    /// those that it then has come on top.
    pub answers_bytes_max: u64,
    /// Refuse a question that has waited so long for the handler; `None` lets it wait. Clients do
    /// not say how long they are willing to wait: whoever is served by then should still want it.
    pub refused_after: Option<Span>,
    /// How many times the bytes that came from an address it is sent before it has shown that it
    /// receives what it is sent; `None` for no limit, as Homa's Linux module has it.
    pub unproven_ratio: Option<u32>,
    /// End a call with [`CallError::Unreachable`](super::CallError::Unreachable) when ICMP
    /// says that nobody listens there and the peer says nothing for so long; `None` leaves ICMP
    /// unread. Only a message that quotes the name of a call under way counts, which nobody can
    /// guess, and whatever the peer sends refutes it; so this must be longer than the wait between
    /// two complaints (`resend_wait_max_ticks` of the configuration).
    pub unreachable_after: Option<Span>,
    /// Seal packets with this key, and take none that is not; `None` as Homa's Linux module does,
    /// for which nothing is secret. Packets grow by [`SEAL_BYTES`].
    pub key: Option<Key>,
    /// Measure how late the endpoint's thread is ([`Server::lag`](super::Server::lag),
    /// [`Client::lag`](super::Client::lag)): the system then says of each packet when it came.
    pub measure_lag: bool,
    /// Buffers of the socket, each way, as far as the system allows.
    pub socket_buffer_bytes: u32,
    /// Record every step of the machine to this file, for
    /// [`record::packet`](crate::record::packet):
    /// times, lengths and names of messages, no payload, no address and no key. What is in the file
    /// is replaced.
    pub record: Option<PathBuf>,
}

impl<P: Protocol> Options<P> {
    /// UDP at `bind`, or another carrier, for a protocol of this configuration: at most 65,536
    /// calls and 256 MiB of messages of each kind, deadlines of 10 s.
    pub fn new(config: P, carrier: Carrier, bind: SocketAddr) -> Options<P> {
        Options {
            config,
            carrier,
            bind,
            mtu_bytes: None,
            server_port: SERVER_PORT,
            client_port: CLIENT_PORT_MIN,
            polling: Polling::Hybrid(Span::from_us(20)),
            deadline: Span::from_ms(10_000),
            calls_max: 1 << 16,
            handling_max: 1 << 10,
            waiting_max: 1 << 14,
            waiting_bytes_max: 256 << 20,
            answers_bytes_max: 256 << 20,
            refused_after: Some(Span::from_ms(1_000)),
            unproven_ratio: Some(1),
            unreachable_after: Some(Span::from_ms(100)),
            key: None,
            measure_lag: false,
            socket_buffer_bytes: 8 << 20,
            record: None,
        }
    }

    /// Bytes of the longest packet, with room to see that one is longer.
    pub(crate) fn packet_bytes(&self) -> usize {
        const IP_HEADER_MAX_BYTES: usize = 60;
        self.config.packet_bytes() + SEAL_BYTES + IP_HEADER_MAX_BYTES + 1
    }

    /// Is every field in its range? Otherwise which is not, and what it must be.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let field = |name, right: bool, must: &str| match right {
            true => Ok(()),
            false => Err((name, must.to_string())),
        };
        self.config.check_live()?;
        let known = self.carrier == Carrier::Udp || P::IP_PROTOCOL.is_some();
        field("carrier", known, "it must be Udp: the protocol has no number in IP")?;
        let servers = 1..CLIENT_PORT_MIN;
        field("server_port", servers.contains(&self.server_port), "it must be 1 to 32767")?;
        let right = self.client_port >= CLIENT_PORT_MIN || self.client_port == 0;
        field("client_port", right, "it must be 32768 or more, or 0 for any that is free")?;
        field("calls_max", self.calls_max > 0, "it must be at least 1")?;
        field("handling_max", self.handling_max > 0, "it must be at least 1")?;
        field("answers_bytes_max", self.answers_bytes_max > 0, "it must be at least 1")?;
        field("deadline", !self.deadline.is_zero(), "it must be longer than nothing")?;
        let after = self.unreachable_after.is_none_or(|after| !after.is_zero());
        field("unreachable_after", after, "it must be longer than nothing, or None")?;
        let after = self.refused_after.is_none_or(|after| !after.is_zero());
        field("refused_after", after, "it must be longer than nothing, or None")?;
        let mtu = self.mtu_bytes.is_none_or(|bytes| super::mtu::RANGE.contains(&bytes));
        field("mtu_bytes", mtu, "it must be 1280 to 9000, or None for the interface's")?;
        let v4 = self.bind.is_ipv4() || self.carrier == Carrier::Udp;
        field("bind", v4, "raw IP needs an IPv4 address; take UDP for IPv6")?;
        if self.record.is_some() {
            let wrong = |(name, must)| ("record", format!("config.{name}: {must}"));
            self.config.check_recorded().map_err(wrong)?;
        }
        Ok(())
    }
}
