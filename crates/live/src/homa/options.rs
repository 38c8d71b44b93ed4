//! How an endpoint is set up.

use super::seal::{Key, SEAL_BYTES};
use cavy_core::Span;
use cavy_homa::Config;
use cavy_homa::config::Recovery;
use cavy_homa::packet::Layout;
use cavy_homa::wire::{CLIENT_PORT_MIN, DATA_BYTES};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// What packets travel in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// UDP: needs no right.
    Udp,
    /// IP with protocol number 146, as the Linux module: needs CAP_NET_RAW. IPv4 only.
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

/// A Homa socket of some host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer {
    /// Its address in the carrier. IP has no ports: over [`Carrier::Raw`] this one's port is not
    /// used.
    pub at: SocketAddr,
    /// Its Homa port.
    pub port: u16,
}

/// The port of a server whose options say nothing else.
pub const SERVER_PORT: u16 = 99;

impl From<SocketAddr> for Peer {
    /// The server at [`SERVER_PORT`] there.
    fn from(at: SocketAddr) -> Peer {
        Peer { at, port: SERVER_PORT }
    }
}

/// An endpoint's options. All fields are public; [`Options::udp`] and [`Options::raw`] are where to
/// start.
#[derive(Clone, Debug)]
pub struct Options {
    /// The protocol's own configuration. Set `link_bits_per_s` to the rate of the link: packets are
    /// paced by it.
    pub config: Config,
    /// What packets travel in.
    pub carrier: Carrier,
    /// Address to bind. Port 0 takes any that is free.
    pub bind: SocketAddr,
    /// How long packets of the network may be, IP's header included: 1,280 to 9,000 bytes. `None`
    /// takes what the interface with the bound address carries, as long as `config` has packets
    /// for 1,500. [`Options::with_mtu`] sets this and the packets of `config`.
    pub mtu_bytes: Option<u32>,
    /// Homa port that questions come to, 1 to 32,767.
    pub server_port: u16,
    /// Homa port to ask from, 32,768 and up. Over raw IP all endpoints of a host see all packets,
    /// so there 0 takes one that no other endpoint of the host has, and one that is taken is an
    /// error.
    pub client_port: u16,
    /// How the thread waits.
    pub polling: Polling,
    /// How long a call may take that does not say so itself.
    pub deadline: Span,
    /// Most calls under way; more end with [`CallError::Full`](crate::homa::CallError::Full).
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
    /// receives what it is sent; `None` for no limit, as the Linux module has it.
    pub unproven_ratio: Option<u32>,
    /// End a call with [`CallError::Unreachable`](crate::homa::CallError::Unreachable) when ICMP
    /// says that nobody listens there and the peer says nothing for so long; `None` leaves ICMP
    /// unread. Only a message that quotes the name of a call under way counts, which nobody can
    /// guess, and whatever the peer sends refutes it; so this must be longer than the wait between
    /// two complaints (`resend_wait_max_ticks` of the configuration).
    pub unreachable_after: Option<Span>,
    /// Seal packets with this key, and take none that is not ([`Options::sealed`]); `None` as the
    /// Linux module does, for which nothing is secret.
    pub key: Option<Key>,
    /// Measure how late the endpoint's thread is ([`Server::lag`](super::Server::lag),
    /// [`Client::lag`](super::Client::lag)): the system then says of each packet when it came.
    pub measure_lag: bool,
    /// Buffers of the socket, each way, as far as the system allows.
    pub socket_buffer_bytes: u32,
    /// Record every step of the machine to this file, for [`record::homa`](crate::record::homa):
    /// times, lengths and names of messages, no payload, no address and no key. What is in the file
    /// is replaced.
    pub record: Option<PathBuf>,
}

impl Options {
    /// UDP at `bind`: the configuration of the Linux module, with packets that fit 1,500 bytes, a
    /// server given up after a second of silence instead of a tenth, refusals, and complaints that
    /// grow rarer. The module does not speak UDP, so both ends are of this kind.
    pub fn udp(bind: SocketAddr) -> Options {
        let mut config = Config::linux();
        config.unscheduled_packet_bytes -= 8;
        config.scheduled_packet_bytes -= 8;
        config.overhead_bytes += 8;
        if let Some(recovery) = &mut config.recovery {
            // A process does not run for longer, now and then, than a kernel does.
            recovery.timeout_ticks = 1_000;
            recovery.remember_ticks = 2_000;
            patience(recovery);
            // Many who wait and ask every 5 ms whether they must would keep a busy server busier.
            // Shorter than `unreachable_after`, within which a peer must be asked.
            recovery.resend_wait_max_ticks = 50;
        }
        config.refusals = true;
        config.limits.exchanges = 1 << 16;
        config.limits.remembered = 1 << 16;
        config.limits.buffer_bytes = 256 << 20;
        config.limits.strangers = 1 << 14;
        Options {
            config,
            carrier: Carrier::Udp,
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

    /// IP with protocol number 146 at `bind`: packets as the Linux module sends them.
    pub fn raw(bind: IpAddr) -> Options {
        let mut config = Config { limits: Options::local().config.limits, ..Config::linux() };
        if let Some(recovery) = &mut config.recovery {
            patience(recovery);
        }
        let bind = SocketAddr::new(bind, 0);
        // Before the 100 ticks of silence that end a call as well.
        let unreachable_after = Some(Span::from_ms(50));
        let local = Options::local();
        Options { config, carrier: Carrier::Raw, bind, client_port: 0, unreachable_after, ..local }
    }

    /// UDP on the loopback address, at any port that is free.
    pub fn local() -> Options {
        Options::udp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0))
    }

    /// The same with sealed packets, which are no longer than the others: each carries
    /// [`SEAL_BYTES`] less of a message.
    #[must_use]
    pub fn sealed(mut self, key: Key) -> Options {
        let config = &mut self.config;
        let seal = SEAL_BYTES as u32;
        let less = |bytes: u32| bytes.saturating_sub(seal).max(1);
        config.unscheduled_packet_bytes = less(config.unscheduled_packet_bytes);
        config.scheduled_packet_bytes = less(config.scheduled_packet_bytes);
        config.overhead_bytes += seal;
        Options { key: Some(key), ..self }
    }

    /// The same with full packets for a network whose packets have `mtu_bytes`, IP's header
    /// included: 1,500, down to 1,280, up to 9,000 for jumbo frames.
    /// [`Client::bind`](super::Client::bind) and [`Server::bind`](super::Server::bind) do this by
    /// themselves with the MTU of the interface that has the address they bind, as long as `config`
    /// has packets for 1,500.
    #[must_use]
    pub fn with_mtu(mut self, mtu_bytes: u32) -> Options {
        let ip = if self.bind.is_ipv6() { 40 } else { 20 };
        let udp = if self.carrier == Carrier::Udp { 8 } else { 0 };
        let seal = if self.key.is_some() { SEAL_BYTES as u32 } else { 0 };
        let payload = mtu_bytes.saturating_sub(ip + udp + seal + DATA_BYTES as u32).max(1);
        self.config.unscheduled_packet_bytes = payload;
        self.config.scheduled_packet_bytes = payload;
        self.mtu_bytes = Some(mtu_bytes);
        self
    }

    /// What is left to be found out when an endpoint is opened: the MTU, and what memory is short
    /// of.
    pub(super) fn settled(&self) -> Options {
        let mut options = self.clone();
        let limits = &mut options.config.limits;
        limits.answer_bytes = limits.answer_bytes.min(self.answers_bytes_max);
        let usual = match self.carrier {
            Carrier::Udp => Options::udp(self.bind).config,
            Carrier::Raw => Config::linux(),
        };
        let seal = if self.key.is_some() { SEAL_BYTES as u32 } else { 0 };
        let config = &self.config;
        let untouched = config.unscheduled_packet_bytes + seal == usual.unscheduled_packet_bytes
            && config.scheduled_packet_bytes + seal == usual.scheduled_packet_bytes;
        let interface = || super::mtu::of(self.bind.ip()).filter(|_| untouched);
        match self.mtu_bytes.or_else(interface) {
            Some(mtu_bytes) => options.with_mtu(mtu_bytes),
            None => options,
        }
    }

    /// Bytes of the longest packet, with room to see that one is longer.
    pub(super) fn packet_bytes(&self) -> usize {
        const IP_HEADER_MAX_BYTES: usize = 60;
        let config = &self.config;
        let payload = config.unscheduled_packet_bytes.max(config.scheduled_packet_bytes) as usize;
        // A peer may send fuller packets than this endpoint does.
        (payload + DATA_BYTES + SEAL_BYTES).max(9_000) + IP_HEADER_MAX_BYTES + 1
    }

    /// Is every field in its range? Otherwise which is not, and what it must be.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let field = |name, right: bool, must: &str| match right {
            true => Ok(()),
            false => Err((name, must.to_string())),
        };
        let config = &self.config;
        config.check().map_err(|error| ("config", error.to_string()))?;
        let linux = config.layout == Layout::Linux;
        field("config.layout", linux, "it must be Linux, the only one that has bytes")?;
        field("config.answers", config.answers, "it must be true: all messages are answered")?;
        field("config.recovery", config.recovery.is_some(), "it must be set: networks lose")?;
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
            crate::record::homa::check(config).map_err(wrong)?;
        }
        Ok(())
    }
}

/// What both carriers have otherwise than the Linux module: an answer is kept until its client has
/// been silent for long, and its acknowledgement is asked for when it will not come by itself any
/// more, in the client's next question.
fn patience(recovery: &mut Recovery) {
    recovery.ack_ticks = 50;
    recovery.ack_wait_max_ticks = 400;
    recovery.answer_kept = Span::from_ms(10_000);
    recovery.stranger_kept = Span::from_ms(500);
}
