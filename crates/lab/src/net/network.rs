//! What a network is made of besides its links: queues, buffers, delays, headers.

use super::topology::Topology;
use cavy_core::Span;
use std::fmt;

/// A network and how its parts behave.
#[derive(Clone, Debug)]
pub struct Network {
    /// Who is linked to whom.
    pub topology: Topology,
    /// In which order a switch's port sends.
    pub order: Order,
    /// Mark packets that meet at least this many bytes waiting at the port `[homa 3.6]`. With any
    /// order.
    pub mark_at_bytes: Option<u32>,
    /// What a switch can keep.
    pub buffer: Buffer,
    /// What of a packet takes room there.
    pub counting: Counting,
    /// Which of several shortest ways a packet takes.
    pub routing: Routing,
    /// From when the whole packet is in a switch to when it is in the queue of its port.
    pub switch_latency: Span,
    /// Delays and network cards of hosts.
    pub hosts: Hosts,
    /// Headers below the protocol.
    pub framing: Framing,
    /// Links as a kernel's token bucket makes them (Linux `htb`): what is sent is at the other end
    /// at once, and as long as it is less than so many bytes ahead of the rate, so is the next
    /// packet. `None`, and always in the source: a packet is there when its last bit is.
    pub burst_bytes: Option<u32>,
    /// How late the thread of a host may look at what has come for it: packets, messages to send,
    /// timers, and room at a full card. Each of these is as likely as the others, and is drawn by
    /// the first that comes to a host that has nothing; what comes before the thread looks is seen
    /// at the same time. Empty, and always in the source: it looks at once.
    pub wakes: Vec<Span>,
    /// What the thread of a host takes to send what came of one look, beyond `hosts.send`: each of
    /// these is as likely as the others. Packets of a host stay in order. Empty, and always in the
    /// source: nothing.
    pub sends: Vec<Span>,
}

impl Network {
    /// A network as the source simulated it, on `topology`: eight strict priorities, unlimited
    /// buffers, packets sprayed, 0.25 us a switch `[homa 4.4]`.
    pub fn new(topology: Topology) -> Network {
        Network {
            topology,
            order: Order::Levels,
            mark_at_bytes: None,
            buffer: Buffer::Unlimited,
            counting: Counting::default(),
            routing: Routing::Spray,
            switch_latency: Span::from_ns(250),
            hosts: Hosts::default(),
            framing: Framing::default(),
            burst_bytes: None,
            wakes: Vec::new(),
            sends: Vec::new(),
        }
    }

    /// Whether the values are in the ranges that the fields document.
    pub fn check(&self) -> Result<(), NetworkError> {
        if self.hosts.nic_packets == 0 {
            return Err(NetworkError::NicPackets);
        }
        let bytes = match self.buffer {
            Buffer::PerPortPackets { packets: 0 } => 0,
            Buffer::PerPortPackets { .. } | Buffer::Unlimited => {
                u64::from(self.framing.mtu_bytes) + 18
            }
            Buffer::PerPort { bytes } | Buffer::Shared { bytes, .. } => bytes,
        };
        if bytes < u64::from(self.framing.mtu_bytes) + 18 {
            return Err(NetworkError::Buffer { bytes, mtu_bytes: self.framing.mtu_bytes });
        }
        if let Buffer::Shared { alpha, .. } = self.buffer
            && !(alpha > 0.0 && alpha <= 1024.0)
        {
            return Err(NetworkError::Alpha { alpha });
        }
        if let Order::Trim { queue_bytes } = self.order
            && queue_bytes < self.framing.mtu_bytes + 18
        {
            return Err(NetworkError::Buffer {
                bytes: u64::from(queue_bytes),
                mtu_bytes: self.framing.mtu_bytes,
            });
        }
        if !(576..=9_000).contains(&self.framing.mtu_bytes) {
            return Err(NetworkError::Mtu { mtu_bytes: self.framing.mtu_bytes });
        }
        Ok(())
    }
}

/// The order in which a port of a switch sends what waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// First come, first served; levels mean nothing.
    Fifo,
    /// The highest of eight levels first, each first come first served.
    Levels,
    /// The packet of the smallest rank decides the flow, and the flow's earliest packet goes. When
    /// the buffer is full the largest rank is dropped, the latest of equals, which may be the
    /// packet that arrives `[homa 3.4]`.
    SmallestRank,
    /// NDP `[homa 3.8]`: `queue_bytes` for data and as many for headers; when data does not fit,
    /// the arriving or the newest waiting packet, by the toss of a coin, loses its payload. Ten
    /// headers are sent for one packet of data when both wait. Packets without payload go with the
    /// headers. A header that does not fit is dropped: nothing is returned to its sender.
    Trim {
        /// Room for data, and the same again for headers.
        queue_bytes: u32,
    },
}

/// What switches can keep, counted as [`Counting`] says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Buffer {
    /// Everything `[homa 4.4]`.
    Unlimited,
    /// So many bytes at each port.
    PerPort {
        /// At least one full frame.
        bytes: u64,
    },
    /// So many packets at each port, whatever their lengths.
    PerPortPackets {
        /// At least one.
        packets: u32,
    },
    /// One memory for all ports of a switch. A port may hold `alpha` times what is free (dynamic
    /// thresholds, Choudhury and Hahne).
    Shared {
        /// Of one switch; at least one full frame.
        bytes: u64,
        /// Above 0, at most 1024.
        alpha: f64,
    },
}

/// What of a packet takes room in a buffer. Simulators and switches differ, and a small buffer
/// holds one or two packets more or less by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counting {
    /// Bytes of a packet on the wire that take no room, such as preamble and gap.
    pub silent_bytes: u32,
    /// The packet that is being sent still takes room, until its last bit has left.
    pub sending: bool,
}

impl Counting {
    /// Every byte on the wire, and the packet that is being sent as well: the reference simulator
    /// of [incast 5.1].
    pub const EVERYTHING: Counting = Counting { silent_bytes: 0, sending: true };
}

impl Default for Counting {
    /// Frames without preamble and gap, and not the one being sent.
    fn default() -> Self {
        Counting { silent_bytes: Framing::SILENT_BYTES, sending: false }
    }
}

/// Which of several shortest ways a packet takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Routing {
    /// Each packet a random one `[homa 4.4]`.
    Spray,
    /// All packets of one message in one direction the same, by a hash `[homa 3.6]`.
    FlowHash,
}

/// Delays of a host and what its network card takes `[homa 4.4]`.
///
/// Delays but `receive_each` are pipelines: they add to the time of a packet and take no capacity.
/// All of a sender's delay lies behind the serialization at its card, which gives the same times on
/// the wire as delays before it, and lets the transport choose the packet as late as its own delay
/// allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hosts {
    /// Software, from the transport's choice of a packet to the card.
    pub send: Span,
    /// The card's own delay for a packet to be sent.
    pub think: Span,
    /// From when the whole packet has arrived to when the transport sees it.
    pub receive: Span,
    /// Time of the one thread that takes packets in, for each of them: unlike the delays this is a
    /// capacity, and the next packet waits. Zero where processors are not modeled.
    pub receive_each: Span,
    /// Packets the card takes ahead, the one being sent included; at least 1. With 1 the transport
    /// is asked for a packet only when the card is idle.
    pub nic_packets: u32,
}

impl Default for Hosts {
    fn default() -> Self {
        let half = Span::from_ns(500);
        Hosts { send: half, think: half, receive: half, receive_each: Span::ZERO, nic_packets: 1 }
    }
}

/// What the network below the protocol adds to a packet, in bytes `[homa 4.4]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Framing {
    /// Ethernet: header 14, check 4, preamble 8, gap 12.
    pub ethernet_bytes: u32,
    /// IPv4, and UDP for protocols above it; 0 where there is neither.
    pub ip_udp_bytes: u32,
    /// The shortest frame, with preamble and gap.
    pub frame_min_bytes: u32,
    /// The largest packet, from the IP header on: 576 to 9000.
    pub mtu_bytes: u32,
}

impl Framing {
    /// Preamble and gap: time on the wire that takes no room in a buffer.
    pub const SILENT_BYTES: u32 = 20;

    /// Bytes on the wire of a packet with so much protocol header and payload.
    #[inline]
    pub const fn wire_bytes(&self, header_and_payload_bytes: u32) -> u32 {
        let bytes = header_and_payload_bytes + self.ip_udp_bytes + self.ethernet_bytes;
        if bytes < self.frame_min_bytes { self.frame_min_bytes } else { bytes }
    }

    /// Protocol header and payload together are at most this long.
    pub const fn room_bytes(&self) -> u32 {
        self.mtu_bytes - self.ip_udp_bytes
    }
}

impl Default for Framing {
    fn default() -> Self {
        Framing { ethernet_bytes: 38, ip_udp_bytes: 28, frame_min_bytes: 84, mtu_bytes: 1500 }
    }
}

impl Framing {
    /// The same with nothing between IP and the protocol: UDP's 8 bytes less, as TCP has it.
    pub const fn without_udp(self) -> Framing {
        Framing { ip_udp_bytes: self.ip_udp_bytes.saturating_sub(8), ..self }
    }

    /// Packets as IP has them, without Ethernet: what the simulators of pFabric, pHost and PIAS put
    /// on their links `[homa 3.4, 3.5]`.
    pub const IP: Framing =
        Framing { ethernet_bytes: 0, ip_udp_bytes: 28, frame_min_bytes: 0, mtu_bytes: 1500 };

    /// Packets straight in Ethernet, without IP and UDP: RAMCloud on the cluster of the source,
    /// whose full packets carry 1470 bytes behind 30 of header `[homa 2.2]`.
    pub const RAW_ETHERNET: Framing =
        Framing { ethernet_bytes: 38, ip_udp_bytes: 0, frame_min_bytes: 84, mtu_bytes: 1500 };
}

/// Why a [`Network`] cannot be.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum NetworkError {
    /// `hosts.nic_packets` is zero.
    NicPackets,
    /// A buffer does not hold one full frame.
    Buffer {
        /// Its size.
        bytes: u64,
        /// The largest packet.
        mtu_bytes: u32,
    },
    /// `buffer.alpha` is out of range.
    Alpha {
        /// Its value.
        alpha: f64,
    },
    /// `framing.mtu_bytes` is out of range.
    Mtu {
        /// Its value.
        mtu_bytes: u32,
    },
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            NetworkError::NicPackets => {
                write!(f, "nic_packets is 0; a card takes at least 1 packet")
            }
            NetworkError::Buffer { bytes, mtu_bytes } => write!(
                f,
                "a buffer of {bytes} bytes does not hold a frame; give at least {} bytes",
                mtu_bytes + 18
            ),
            NetworkError::Alpha { alpha } => {
                write!(f, "alpha is {alpha}, must be above 0 and at most 1024; 1 is usual")
            }
            NetworkError::Mtu { mtu_bytes } => {
                write!(f, "mtu_bytes is {mtu_bytes}, must be from 576 to 9000")
            }
        }
    }
}

impl std::error::Error for NetworkError {}
