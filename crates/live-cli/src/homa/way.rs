//! From what was typed to an endpoint's options.

use super::typed::{PollingName, Way};
use crate::faults::{FAILED, Fault};
use crate::terminal;
use cavy_core::Span;
use cavy_homa::cutoffs::Cutoffs;
use cavy_live::homa::options::SERVER_PORT;
use cavy_live::homa::{Client, Key, OpenError, Options, Peer, Polling, Recording};
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

impl Way {
    /// The server there.
    pub fn peer(&self, at: SocketAddr) -> Peer {
        Peer { at, port: self.port.unwrap_or(SERVER_PORT) }
    }

    /// An endpoint's options, to be bound at `bind`.
    pub fn options(&self, bind: SocketAddr) -> Result<Options, Fault> {
        if self.raw && bind.is_ipv6() {
            return Err(Fault::new("--raw carries IPv4 only, and the address is one of IPv6")
                .hint("leave --raw out: UDP carries both"));
        }
        let mut options = if self.raw { Options::raw(bind.ip()) } else { Options::udp(bind) };
        if let Some(port) = self.port {
            options.server_port = port;
        }
        if let Some(mbps) = self.link_mbps {
            options.config.link_bits_per_s = u64::from(mbps) * 1_000_000;
        }
        if let Some(bytes) = self.unscheduled_bytes {
            options.config.unscheduled_bytes = bytes;
        }
        if let Some(levels) = self.levels {
            let config = &mut options.config;
            // Half of them for unscheduled bytes, as the module has it; one level serves both.
            let unscheduled = levels.div_ceil(2);
            let own = config.own_cutoffs.fewer(levels, unscheduled);
            config.own_cutoffs = own.unwrap_or_else(|| Cutoffs::none(levels));
            let others = config.cutoffs.fewer(levels, config.cutoffs.unscheduled_levels());
            config.cutoffs = others.unwrap_or_else(|| Cutoffs::none(levels));
            config.levels = levels;
            config.scheduled_levels = (levels / 2).max(1);
        }
        options.polling = match self.polling {
            Some(PollingName::Block) => Polling::Block,
            Some(PollingName::Spin) => Polling::Spin,
            Some(PollingName::Hybrid) => Polling::Hybrid(Span::from_us(20)),
            None => options.polling,
        };
        if let Some(key) = self.key()? {
            options = options.sealed(key);
        }
        Ok(match self.mtu {
            Some(mtu_bytes) => options.with_mtu(mtu_bytes),
            None => options,
        })
    }

    fn key(&self) -> Result<Option<Key>, Fault> {
        let Some(file) = &self.key_file else { return Ok(None) };
        let (name, mut text) = (file.display(), String::new());
        // A little more than a key, so that a file that is something else is not read in full.
        let read = std::fs::File::open(file).and_then(|f| f.take(200).read_to_string(&mut text));
        read.map_err(|error| Fault::new(format!("cannot read --key-file {name}: {error}")))?;
        let key = Key::from_hex(&text);
        let key = key.ok_or_else(|| {
            Fault::new(format!("--key-file {name} does not hold 64 hexadecimal digits"))
                .hint("make one with `openssl rand -hex 32 > FILE`, the same for both ends")
        })?;
        Ok(Some(key))
    }

    /// What packets travel in, as the options call it.
    pub fn carrier(&self) -> &'static str {
        if self.raw { "raw" } else { "udp" }
    }
}

/// Any port of an address that reaches `to`.
pub fn any_for(to: SocketAddr) -> SocketAddr {
    let ip = match to.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(ip, 0)
}

/// An endpoint, or why there is none.
pub fn opened<T>(result: Result<T, OpenError>) -> Result<T, Fault> {
    result.map_err(|error| {
        let wrong_input = matches!(error, OpenError::Option { .. });
        let fault = Fault::new(error.to_string());
        if wrong_input { fault } else { fault.code(FAILED) }
    })
}

/// Says what has become of the recording of an endpoint that was shut down. False when it is not
/// complete.
pub fn say_recording(asking: &Client) -> bool {
    match asking.recording() {
        Recording::Off => true,
        Recording::Complete(summary) => {
            terminal::talk(&format!("recorded {} steps", summary.inputs));
            true
        }
        Recording::Running => {
            terminal::talk("error: the recording is not complete");
            false
        }
        Recording::Stopped(why) => {
            terminal::talk(&format!("error: the recording stopped before its end: {why}"));
            false
        }
    }
}
