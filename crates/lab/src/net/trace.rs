//! A run, packet by packet, for people and for other tools.
//!
//! [`TextTrace`] writes a line for each thing that happens, fields separated by one space:
//!
//! ```text
//! 12465.200 send 3>17 m1048576 0+1442 p7 r9328 w1538
//! ```
//!
//! Time in nanoseconds with three decimals, what happened, sender and receiver, message, first byte
//! and length, level, rank, bytes on the wire. What happens is `send` (left a transport), `wire` (a
//! port begins to send it), `queue` (joins the queue of a port), `trim`, `lose`, and `take`
//! (reaches a transport). `wire`, `queue` and `trim` end with the port, as in `h3>s0` for host 3 to
//! switch 0, and `queue` with the bytes that wait there now; a mark of congestion is a last field
//! `ce`. Lines about messages have the message and its length instead: `submit`, `done`, `fail`.
//!
//! [`Capture`] writes pcapng, which Wireshark opens: Ethernet, IPv4 and UDP headers with the level
//! in the upper three bits of the type of service, and the length the packet would have. There is
//! no payload in the lab, so each packet is cut after these 42 bytes. Hosts are 10.0.x.y by number.
//! Packets of a network without IP (`Framing::RAW_ETHERNET`) are written with these headers in
//! place of their own.
//!
//! Both are observers: a run without them pays nothing. What cannot be written is kept as an error
//! until [`TextTrace::finish`] or [`Capture::finish`], and nothing more is written.

use super::clock::{PS_PER_NS, Ps};
use super::network::Framing;
use super::observer::{Done, Loss, Observer};
use super::packets::InFlight;
use super::topology::{Egress, Place};
use cavy_core::family::Node;
use cavy_core::family::packet::Message;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

/// Writes a line for each thing that happens to a packet.
#[derive(Debug)]
pub struct TextTrace<W> {
    out: W,
    error: Option<io::Error>,
}

impl<W: Write> TextTrace<W> {
    /// A trace into `out`, which should be buffered.
    pub fn new(out: W) -> Self {
        TextTrace { out, error: None }
    }

    /// The end: what was written to, or the first error.
    pub fn finish(mut self) -> io::Result<W> {
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }

    fn line(&mut self, at: Ps, what: fmt::Arguments<'_>) {
        if self.error.is_none() {
            let (ns, ps) = (at / PS_PER_NS, at % PS_PER_NS);
            self.error = writeln!(self.out, "{ns}.{ps:03} {what}").err();
        }
    }

    fn packet<H: Copy>(
        &mut self,
        at: Ps,
        verb: &str,
        packet: &InFlight<H>,
        more: fmt::Arguments<'_>,
    ) {
        let payload = packet.payload();
        let marked = if packet.seen().marked { " ce" } else { "" };
        self.line(
            at,
            format_args!(
                "{verb} {}>{} m{} {}+{} p{} r{} w{}{more}{marked}",
                packet.from().0,
                packet.to().0,
                payload.message.0,
                payload.offset_bytes,
                payload.length_bytes,
                packet.priority(),
                packet.rank(),
                packet.wire_bytes(),
            ),
        );
    }
}

/// A port as `h3>s0`.
struct Port<'a>(&'a Egress);

impl fmt::Display for Port<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |f: &mut fmt::Formatter<'_>, place| match place {
            Place::Host(host) => write!(f, "h{host}"),
            Place::Switch(switch) => write!(f, "s{switch}"),
        };
        place(f, self.0.from)?;
        f.write_str(">")?;
        place(f, self.0.to)
    }
}

impl<M: ?Sized, H: Copy, W: Write> Observer<M, H> for TextTrace<W> {
    fn submitted(&mut self, from: Node, to: Node, message: Message, length_bytes: u32, at: Ps) {
        self.line(at, format_args!("submit {}>{} m{} {length_bytes}", from.0, to.0, message.0));
    }
    fn sent(&mut self, packet: &InFlight<H>, at: Ps) {
        self.packet(at, "send", packet, format_args!(""));
    }
    fn began(&mut self, port: &Egress, packet: &InFlight<H>, at: Ps, _: Ps) {
        self.packet(at, "wire", packet, format_args!(" {}", Port(port)));
    }
    fn queued(&mut self, port: &Egress, packet: &InFlight<H>, waiting_bytes: u64, at: Ps) {
        self.packet(at, "queue", packet, format_args!(" {} {waiting_bytes}", Port(port)));
    }
    fn trimmed(&mut self, port: &Egress, packet: &InFlight<H>, at: Ps) {
        self.packet(at, "trim", packet, format_args!(" {}", Port(port)));
    }
    fn lost(&mut self, packet: &InFlight<H>, why: Loss, at: Ps) {
        let why = match why {
            Loss::Full => "full",
            Loss::Fault => "fault",
            Loss::Down => "down",
        };
        self.packet(at, "lose", packet, format_args!(" {why}"));
    }
    fn received(&mut self, packet: &InFlight<H>, at: Ps) {
        self.packet(at, "take", packet, format_args!(""));
    }
    fn failed(&mut self, at_host: Node, peer: Node, message: Message, at: Ps) {
        self.line(at, format_args!("fail {}>{} m{}", at_host.0, peer.0, message.0));
    }
    fn finished(&mut self, done: &Done) {
        let Done { from, to, number, length_bytes, at, .. } = *done;
        self.line(at, format_args!("done {}>{} n{number} {length_bytes}", from.0, to.0));
    }
}

/// Bytes of a packet that are written: Ethernet, IPv4, UDP.
const SNAP_BYTES: usize = 14 + 20 + 8;

/// Writes the packets that reach transports, as captured at their receivers.
pub struct Capture<W: Write> {
    writer: Result<PcapNgWriter<W>, PcapError>,
    framing: Framing,
    port: u16,
}

impl<W: Write> Capture<W> {
    /// A capture into `out`, which should be buffered. `port` is the UDP port on both sides.
    pub fn new(out: W, framing: Framing, port: u16) -> Self {
        let mut capture = Capture { writer: PcapNgWriter::new(out), framing, port };
        capture.block(|writer| {
            let interface = InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: SNAP_BYTES as u32,
                // Times are 10^-9 s.
                options: vec![InterfaceDescriptionOption::IfTsResol(9)],
            };
            writer.write_pcapng_block(interface)
        });
        capture
    }

    /// The end: what was written to, or the first error.
    pub fn finish(self) -> Result<W, PcapError> {
        self.writer.map(PcapNgWriter::into_inner)
    }

    fn block(&mut self, write: impl FnOnce(&mut PcapNgWriter<W>) -> Result<usize, PcapError>) {
        if let Ok(writer) = &mut self.writer
            && let Err(error) = write(writer)
        {
            self.writer = Err(error);
        }
    }
}

impl<W: Write> fmt::Debug for Capture<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("port", &self.port).finish_non_exhaustive()
    }
}

impl<M: ?Sized, H: Copy, W: Write> Observer<M, H> for Capture<W> {
    fn received(&mut self, packet: &InFlight<H>, at: Ps) {
        // Preamble, gap and check are not captured.
        let ip_bytes = packet.wire_bytes().saturating_sub(self.framing.ethernet_bytes).max(28);
        let mut data = [0u8; SNAP_BYTES];
        headers(&mut data, packet, ip_bytes as u16, self.port);
        self.block(|writer| {
            writer.write_pcapng_block(EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_nanos(at / PS_PER_NS),
                original_len: ip_bytes + 14,
                data: Cow::Borrowed(&data),
                options: vec![],
            })
        });
    }
}

/// Ethernet, IPv4 with a right checksum, and UDP without one, which IPv4 allows.
fn headers<H: Copy>(data: &mut [u8; SNAP_BYTES], packet: &InFlight<H>, ip_bytes: u16, port: u16) {
    let address = |node: Node| [10, 0, (node.0 >> 8) as u8, node.0 as u8];
    let (from, to) = (address(packet.from()), address(packet.to()));
    data[..2].copy_from_slice(&[0x02, 0x00]);
    data[2..6].copy_from_slice(&to);
    data[6..8].copy_from_slice(&[0x02, 0x00]);
    data[8..12].copy_from_slice(&from);
    data[12..14].copy_from_slice(&[0x08, 0x00]);
    let seen = packet.seen();
    let (ip, udp) = data[14..].split_at_mut(20);
    // Congestion experienced: the lowest two bits.
    ip[..2].copy_from_slice(&[0x45, packet.priority() << 5 | if seen.marked { 3 } else { 0 }]);
    ip[2..4].copy_from_slice(&ip_bytes.to_be_bytes());
    ip[6..10].copy_from_slice(&[0x40, 0x00, 64, 17]);
    ip[12..16].copy_from_slice(&from);
    ip[16..20].copy_from_slice(&to);
    let words = ip.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    udp[..2].copy_from_slice(&port.to_be_bytes());
    udp[2..4].copy_from_slice(&port.to_be_bytes());
    udp[4..6].copy_from_slice(&(ip_bytes - 20).to_be_bytes());
}
