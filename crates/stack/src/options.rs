//! What can be chosen, and what a live host does where nobody chose.

use crate::Faults;
use cavy_core::Span;
use cavy_tcp::{
    BackoffReset, Config, Congestion, Floor, Keepalive, Rack, RtoConfig, Schedule, Undo,
};
use ipnet::Ipv4Net;
use std::net::Ipv4Addr;

/// The least timeout where nobody chooses another: above what threads and timers are late by on a
/// busy machine, and far below the kernel's 200 ms.
pub const FLOOR: Span = Span::from_us(500);
/// Timers of a process are never trusted to be finer.
const GRANULARITY_MIN: Span = Span::from_us(50);
/// The grain of timestamps on the wire; see [`Options::new`].
const STAMPS: Span = Span::from_us(100);
/// Headers of IPv4 and TCP.
const HEADERS_BYTES: u16 = 40;
/// The largest buffer whose window needs no shift.
const UNSCALED_BYTES: u32 = 65_535;
/// What Ethernet puts before a packet, which buffers of switches count too.
const ETHERNET_BYTES: u32 = 14;
/// An acknowledgement with timestamps, as buffers of switches count it.
const ACKNOWLEDGEMENT_BYTES: u32 = 20 + 32 + ETHERNET_BYTES;

/// What a stack is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The addresses that the process has.
    pub prefix: Ipv4Net,
    /// The kernel's own address on the device, from which its programs speak to the process; the
    /// last one of the prefix by default. It is not one of ours.
    pub kernel: Ipv4Addr,
    /// The device's name. One that root made for this user is taken; otherwise it is made, which
    /// takes `CAP_NET_ADMIN`. `None`: the kernel chooses.
    pub device: Option<String>,
    /// What the device carries; packets are no longer.
    pub mtu: u16,
    /// The TCP of each address. Its segments follow from the MTU.
    pub tcp: Config,
    /// What a connection keeps that the peer has not acknowledged; a writer waits beyond it.
    pub send_buffer_bytes: usize,
    /// Run the thread that has the timers before ordinary threads (`SCHED_FIFO`), where the system
    /// lets it.
    pub go_first: bool,
    /// With a schedule: a server that was asked and sends nothing for so long loses its turn, so
    /// that one that thinks does not keep others waiting.
    pub silence: Span,
    /// A bad network, to try things on.
    pub faults: Option<Faults>,
}

impl Options {
    /// The defaults for a prefix.
    ///
    /// Timestamps tick every 100 us. Those of Linux, 1 ms, cannot tell a segment from its
    /// repetition after a timeout of 500 us, so nothing could be undone. With 1 us the sign turns
    /// after 36 minutes, and a peer that remembers drops what an idle connection says then; with
    /// 100 us it takes 59 hours, and every two hours an octet keeps it fresh [incast 2.6].
    pub fn new(prefix: Ipv4Net) -> Options {
        let kernel = match prefix.prefix_len() {
            // The last is the broadcast address, but of the two smallest.
            0..=30 => Ipv4Addr::from_bits(prefix.broadcast().to_bits() - 1),
            _ => prefix.broadcast(),
        };
        Options {
            prefix,
            kernel,
            device: None,
            mtu: 1500,
            tcp: live(FLOOR),
            send_buffer_bytes: 1 << 20,
            go_first: true,
            silence: Span::from_ms(10),
            faults: None,
        }
    }

    /// All connections that this process opens share so many octets of the narrowest port before
    /// it: servers send in turn, and need not be changed ([incast 5.9]).
    pub fn schedule(&mut self, port_bytes: u32) {
        let packet = u32::from(self.mtu) + ETHERNET_BYTES;
        // Each segment may be the first of an answer, and the acknowledgement of its question
        // waits at the port beside it. In octets of packets as the machine counts them.
        let packets = (port_bytes / (packet + ACKNOWLEDGEMENT_BYTES)).max(1);
        let room_bytes = packets * u32::from(self.mtu);
        self.tcp.schedule = Some(Schedule { room_bytes: Some(room_bytes), foreign: true });
        self.tcp.receive_buffer_bytes = UNSCALED_BYTES;
    }

    /// The same, where nobody knows what the port keeps: it is learned.
    pub fn schedule_learned(&mut self) {
        self.tcp.schedule = Some(Schedule { room_bytes: None, foreign: true });
        self.tcp.receive_buffer_bytes = UNSCALED_BYTES;
    }

    /// The configuration of a machine on a device of this MTU, with timers that are so late.
    pub(crate) fn config(&self, late: Span) -> Config {
        let mut config = self.tcp;
        let rto = &mut config.rto;
        rto.granularity = rto.granularity.max(late);
        if let Some(rack) = &mut config.rack {
            rack.slack = rack.slack.max(late);
        }
        config.mss_bytes = config.mss_bytes.min(self.mtu - HEADERS_BYTES);
        config
    }
}

/// The TCP of a live host, with this floor of its timeout [incast 2.1].
pub fn live(floor: Span) -> Config {
    let rto = RtoConfig {
        min: floor,
        floor: Floor::Whole,
        max: Span::from_ms(120_000),
        init: Span::from_ms(1_000),
        granularity: GRANULARITY_MIN,
        tick: Span::ZERO,
        edge_only: false,
        // From 500 us to 120 s.
        backoff_max: 18,
        backoff_reset: BackoffReset::Timestamp,
        stretch_per_mille: 500,
        stretch_only_backed_off: true,
        weighted: true,
    };
    Config {
        rto,
        mss_bytes: 8960,
        stamps: Some(STAMPS),
        rack: Some(Rack { slack: GRANULARITY_MIN, ..Rack::FINE }),
        undo: Undo::ALL,
        receive_buffer_bytes: 1 << 20,
        keepalive: Some(Keepalive { octet: true, ..Keepalive::LINUX }),
        connections_max: 1 << 16,
        ..Config::fine(Congestion::Cubic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_the_last_address_that_a_host_may_have() {
        let kernel = |text: &str| Options::new(text.parse().expect("a prefix")).kernel.to_string();
        assert_eq!(kernel("10.77.2.0/24"), "10.77.2.254");
        assert_eq!(kernel("10.77.2.0/30"), "10.77.2.2");
        assert_eq!(kernel("10.77.2.0/31"), "10.77.2.1");
    }

    #[test]
    fn a_port_has_room_for_full_packets_and_as_many_acknowledgements() {
        let mut options = Options::new("10.0.0.0/24".parse().expect("a prefix"));
        for (port_bytes, packets) in [(3_100, 1), (32_000, 20), (64_000, 40), (256_000, 162)] {
            options.schedule(port_bytes);
            let schedule = options.tcp.schedule.expect("one");
            assert_eq!(schedule.room_bytes, Some(packets * 1500), "{port_bytes}");
            assert!(packets * (1514 + 66) <= port_bytes);
        }
        assert_eq!(options.config(Span::from_us(70)).check(), Ok(()));
        assert_eq!(options.config(Span::from_us(70)).rto.granularity, Span::from_us(70));
    }
}
