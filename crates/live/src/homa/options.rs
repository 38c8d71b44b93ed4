//! How an endpoint of Homa is set up: the configurations of the Linux module, and its packets.

use super::Options;
use crate::packet::mtu;
use crate::packet::seal::{Key, SEAL_BYTES};
use cavy_core::Span;
use cavy_homa::Config;
use cavy_homa::config::Recovery;
use cavy_homa::wire::DATA_BYTES;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub use crate::packet::options::{Carrier, Peer, Polling, SERVER_PORT};

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
        Options::new(config, Carrier::Udp, bind)
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
}

/// What is left to be found out when an endpoint is opened: the MTU, and what memory is short of.
pub(super) fn settled(of: &Options) -> Options {
    let mut options = of.clone();
    let limits = &mut options.config.limits;
    limits.answer_bytes = limits.answer_bytes.min(of.answers_bytes_max);
    let usual = match of.carrier {
        Carrier::Udp => Options::udp(of.bind).config,
        Carrier::Raw => Config::linux(),
    };
    let seal = if of.key.is_some() { SEAL_BYTES as u32 } else { 0 };
    let config = &of.config;
    let untouched = config.unscheduled_packet_bytes + seal == usual.unscheduled_packet_bytes
        && config.scheduled_packet_bytes + seal == usual.scheduled_packet_bytes;
    let interface = || mtu::of(of.bind.ip()).filter(|_| untouched);
    match of.mtu_bytes.or_else(interface) {
        Some(mtu_bytes) => options.with_mtu(mtu_bytes),
        None => options,
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
