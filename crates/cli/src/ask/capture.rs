//! What a capture of packets says: answers that stop for a timer, hosts that answer at once, short
//! messages beside long ones.
//!
//! Headers of Ethernet, IP and TCP are read here, in a hundred lines: what is wanted of them is six
//! fields.

use super::{Answers, evidence, question};
use cavy_lab::statistics::quantile;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, TsResolution};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Silence before a segment is sent again that only a timer explains, in ns.
const SILENCE_NS: u64 = 150_000_000;
/// Segments that must have been sent again so, to be no accident.
const REPEATS_MIN: u64 = 3;
/// Answers that begin within this time arrive at once, in ns.
const AT_ONCE_NS: u64 = 2_000_000;
/// So many answers at once are the many of the question.
const MANY: usize = 10;
/// Messages that a host must have received before their sizes are compared.
const MESSAGES_MIN: usize = 100;
/// Sizes that differ by as much are short and long.
const LONGER: f64 = 100.0;

/// One end of a connection.
type End = (IpAddr, u16);

/// What is kept of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    at_ns: u64,
    from: End,
    to: End,
    seq: u32,
    octets: u32,
}

/// Does the file begin as captures do?
pub fn is_capture(head: &[u8]) -> bool {
    const MAGIC: [[u8; 4]; 5] = [
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0x0a, 0x0d, 0x0d, 0x0a],
    ];
    head.get(..4).is_some_and(|head| MAGIC.iter().any(|magic| magic == head))
}

/// Looks at a capture; a sentence about what was in it.
///
/// # Errors
/// A sentence without the name of the file.
pub fn look(bytes: &[u8], shown: &str, answers: &mut Answers) -> Result<String, String> {
    let (segments, other) = read(bytes)?;
    if segments.is_empty() {
        return Err(format!("it has no TCP segments that can be read, and {other} other packets"));
    }
    let mut found = Found::default();
    for segment in &segments {
        found.take(segment);
    }
    let connections = found.connections();
    found.note(shown, answers);
    let others = if other == 0 { String::new() } else { format!("; {other} other packets") };
    Ok(format!("{shown}: {} TCP segments of {connections} connections{others}", segments.len()))
}

/// The TCP segments of a capture, by time, and how many packets are something else.
fn read(bytes: &[u8]) -> Result<(Vec<Segment>, usize), String> {
    let broken = |error: pcap_file::PcapError| format!("it cannot be read as a capture: {error}");
    let (mut segments, mut other) = (Vec::new(), 0);
    let mut push = |link: DataLink, at_ns: u64, data: &[u8]| match segment(link, at_ns, data) {
        Some(one) => segments.push(one),
        None => other += 1,
    };
    if bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) {
        let mut reader = PcapNgReader::new(bytes).map_err(broken)?;
        let mut clocks: Vec<(DataLink, f64)> = Vec::new();
        while let Some(block) = reader.next_block() {
            // A capture that was cut off ends in the middle of a block.
            let Ok(block) = block else { break };
            match block {
                Block::InterfaceDescription(one) => {
                    let grain = one.options.into_iter().find_map(|option| match option {
                        InterfaceDescriptionOption::IfTsResol(grain) => Some(grain),
                        _ => None,
                    });
                    clocks.push((one.linktype, tick_ns(grain.unwrap_or(6))));
                }
                Block::EnhancedPacket(one) => {
                    let Some((link, tick)) = clocks.get(one.interface_id as usize) else {
                        continue;
                    };
                    // The reader gives ticks, whatever their length, as nanoseconds.
                    let at_ns = one.timestamp.as_nanos() as f64 * tick;
                    push(*link, at_ns as u64, &one.data);
                }
                _ => {}
            }
        }
    } else {
        let mut reader = PcapReader::new(bytes).map_err(broken)?;
        let link = reader.header().datalink;
        let tick_ns: u64 = match reader.header().ts_resolution {
            TsResolution::MicroSecond => 1_000,
            TsResolution::NanoSecond => 1,
        };
        // Unchecked: the reader refuses packets that were longer than what was kept of them, and
        // captures of headers have nothing else.
        while let Some(Ok(one)) = reader.next_raw_packet() {
            let at_ns = u64::from(one.ts_sec) * 1_000_000_000 + u64::from(one.ts_frac) * tick_ns;
            push(link, at_ns, &one.data);
        }
    }
    segments.sort_by_key(|one| one.at_ns);
    Ok((segments, other))
}

/// Nanoseconds of a tick of pcapng: a power of ten, or of two where the top bit is set.
fn tick_ns(grain: u8) -> f64 {
    match grain & 0x80 {
        0 => 1e9 / 10f64.powi(i32::from(grain)),
        _ => 1e9 / 2f64.powi(i32::from(grain & 0x7f)),
    }
}

/// A TCP segment in a packet.
fn segment(link: DataLink, at_ns: u64, data: &[u8]) -> Option<Segment> {
    let word = |at: usize| Some(u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?]));
    let mut start = match link {
        DataLink::ETHERNET => 14,
        DataLink::LINUX_SLL => 16,
        DataLink::LINUX_SLL2 => 20,
        DataLink::NULL | DataLink::LOOP => 4,
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => 0,
        _ => return None,
    };
    if link == DataLink::ETHERNET {
        // Tags of virtual networks.
        while matches!(word(start - 2)?, 0x8100 | 0x88a8) {
            start += 4;
        }
    }
    let ip = data.get(start..)?;
    let half = |at: usize| Some(u16::from_be_bytes([*ip.get(at)?, *ip.get(at + 1)?]));
    let (from, to, tcp_at, end) = match ip.first()? >> 4 {
        4 => {
            let head = usize::from(ip[0] & 15) * 4;
            // Of fragments, the later ones have no ports.
            if *ip.get(9)? != 6 || half(6)? & 0x1fff != 0 {
                return None;
            }
            let four = |at: usize| -> Option<IpAddr> {
                let four: [u8; 4] = ip.get(at..at + 4)?.try_into().ok()?;
                Some(Ipv4Addr::from(four).into())
            };
            // A card that cuts segments itself shows a length of 0.
            let end = match half(2)? {
                0 => ip.len(),
                length => usize::from(length),
            };
            (four(12)?, four(16)?, head, end)
        }
        6 => {
            if *ip.get(6)? != 6 {
                return None;
            }
            let sixteen = |at: usize| -> Option<IpAddr> {
                let sixteen: [u8; 16] = ip.get(at..at + 16)?.try_into().ok()?;
                Some(Ipv6Addr::from(sixteen).into())
            };
            let end = match half(4)? {
                0 => ip.len(),
                length => 40 + usize::from(length),
            };
            (sixteen(8)?, sixteen(24)?, 40, end)
        }
        _ => return None,
    };
    let tcp = ip.get(tcp_at..)?;
    let port = |at: usize| Some(u16::from_be_bytes([*tcp.get(at)?, *tcp.get(at + 1)?]));
    let seq = u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?);
    let head = usize::from(tcp.get(12)? >> 4) * 4;
    let octets = end.checked_sub(tcp_at + head)?;
    Some(Segment {
        at_ns,
        from: (from, port(0)?),
        to: (to, port(2)?),
        seq,
        octets: u32::try_from(octets).ok()?,
    })
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// The sequence number behind the greatest octet that was sent.
    next: u32,
    /// When octets were sent last.
    sent_ns: u64,
    /// What is being sent, until the other side sends something.
    message: Option<Message>,
}

/// Octets that go one way without an answer between them.
#[derive(Clone, Copy, Debug)]
struct Message {
    began_ns: u64,
    octets: u64,
    /// When the message began that it answers.
    asked_ns: Option<u64>,
}

#[derive(Debug, Default)]
struct Found {
    flows: BTreeMap<(End, End), Flow>,
    /// Silences of at least [`SILENCE_NS`] before octets that were sent before, in us.
    silences_us: Vec<f64>,
    /// Times from the first octet of a question to the last octet of its answer, in us.
    answers_us: Vec<f64>,
    /// By receiving host: answers that began within [`AT_ONCE_NS`], and the most there were.
    arriving: BTreeMap<IpAddr, VecDeque<(u64, End)>>,
    at_once: usize,
    /// Octets of the messages that a host received.
    sizes: BTreeMap<IpAddr, Vec<f64>>,
}

impl Found {
    fn connections(&self) -> usize {
        let both = |(from, to): &(End, End)| (*from.min(to), *from.max(to));
        self.flows.keys().map(both).collect::<BTreeSet<_>>().len()
    }

    fn take(&mut self, segment: &Segment) {
        if segment.octets == 0 {
            return;
        }
        let (key, back) = ((segment.from, segment.to), (segment.to, segment.from));
        let end = segment.seq.wrapping_add(segment.octets);
        let fresh = Flow { next: segment.seq, sent_ns: segment.at_ns, message: None };
        let flow = self.flows.entry(key).or_insert(fresh);
        // Sequence numbers wrap: what is less than half of them behind is older.
        let older = |a: u32, b: u32| (a.wrapping_sub(b) as i32) < 0;
        let repeated = older(segment.seq, flow.next);
        let silence_ns = segment.at_ns.saturating_sub(flow.sent_ns);
        // A keepalive repeats one octet after long silence, and is no loss.
        if repeated && segment.octets > 1 && silence_ns >= SILENCE_NS {
            self.silences_us.push(silence_ns as f64 / 1e3);
        }
        if older(flow.next, end) {
            flow.next = end;
        }
        flow.sent_ns = segment.at_ns;
        let octets = if repeated { 0 } else { u64::from(segment.octets) };
        if let Some(message) = &mut flow.message {
            message.octets += octets;
            return;
        }
        // What the other side was sending ended before this began.
        let asked_ns = self.end(back);
        let message = Message { began_ns: segment.at_ns, octets, asked_ns };
        self.flows.entry(key).and_modify(|flow| flow.message = Some(message));
        let arriving = self.arriving.entry(segment.to.0).or_default();
        arriving.push_back((segment.at_ns, segment.from));
        while arriving.front().is_some_and(|(at, _)| segment.at_ns - at > AT_ONCE_NS) {
            arriving.pop_front();
        }
        let ends: BTreeSet<&End> = arriving.iter().map(|(_, from)| from).collect();
        self.at_once = self.at_once.max(ends.len());
    }

    /// Ends what is being sent one way, and says when it began.
    fn end(&mut self, key: (End, End)) -> Option<u64> {
        let (from, to) = key;
        let flow = self.flows.get_mut(&key)?;
        let message = flow.message.take()?;
        self.sizes.entry(to.0).or_default().push(message.octets as f64);
        // Servers have the lower port.
        if let Some(asked_ns) = message.asked_ns.filter(|_| from.1 < to.1) {
            self.answers_us.push(flow.sent_ns.saturating_sub(asked_ns) as f64 / 1e3);
        }
        Some(message.began_ns)
    }

    fn note(mut self, shown: &str, answers: &mut Answers) {
        for key in self.flows.keys().copied().collect::<Vec<_>>() {
            self.end(key);
        }
        self.silences_us.sort_by(f64::total_cmp);
        if let Some(asked) = question("stalls")
            && self.silences_us.len() as u64 >= REPEATS_MIN
            && let Some(median_us) = quantile::of_sorted(&self.silences_us, 0.5)
        {
            let median_ms = median_us / 1e3;
            let says = format!(
                "{shown}: {} segments were sent again after a silence, the median of which is \
                 {median_ms:.0} ms",
                self.silences_us.len()
            );
            answers.note(asked, true, says);
        }
        if !self.answers_us.is_empty() {
            let columns = vec![("times of answers".to_string(), self.answers_us)];
            evidence::latencies(&columns, shown, answers);
        }
        if let Some(asked) = question("fan_in") {
            let says = match self.at_once {
                1 => format!("{shown}: no two answers began within 2 ms"),
                most => format!("{shown}: up to {most} answers to one host began within 2 ms"),
            };
            answers.note(asked, self.at_once >= MANY, says);
        }
        if let Some(asked) = question("sizes") {
            let wide = self.sizes.values_mut().filter(|sizes| sizes.len() >= MESSAGES_MIN);
            let spread = wide.filter_map(|sizes| {
                sizes.sort_by(f64::total_cmp);
                let at = |p| quantile::of_sorted(sizes, p);
                Some((at(0.5)?.max(1.0), at(0.99)?))
            });
            let most = spread.max_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
            if let Some((median, long)) = most {
                let says = format!(
                    "{shown}: of the messages to one host the median has {median:.0} bytes and \
                     one in a hundred {long:.0} or more"
                );
                answers.note(asked, long >= LONGER * median, says);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const ASKER: End = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 4000);

    fn server(n: u8) -> End {
        (IpAddr::V4(Ipv4Addr::new(10, 0, 1, n)), 80)
    }

    fn sent(at_us: u64, from: End, to: End, seq: u32, octets: u32) -> Segment {
        Segment { at_ns: at_us * 1_000, from, to, seq, octets }
    }

    fn found(segments: &[Segment]) -> Answers {
        let mut found = Found::default();
        segments.iter().for_each(|one| found.take(one));
        let mut answers = Answers::default();
        found.note("x.pcap", &mut answers);
        answers
    }

    /// Blocks of `servers` answers at once, each of `octets`; every fourth is lost and sent again.
    fn blocks(servers: u8, octets: u32) -> Vec<Segment> {
        let mut all = Vec::new();
        let mut at = 0;
        for block in 0..20u32 {
            for n in 0..servers {
                all.push(sent(at + u64::from(n), ASKER, server(n), block * 100, 100));
                let answer =
                    sent(at + 200 + u64::from(n), server(n), ASKER, block * octets, octets);
                all.push(answer);
                if n % 4 == 0 {
                    all.push(Segment { at_ns: answer.at_ns + 201_000_000, ..answer });
                }
            }
            at += 300_000;
        }
        all.sort_by_key(|one| one.at_ns);
        all
    }

    #[test]
    fn answers_that_collide_are_seen() {
        let answers = found(&blocks(16, 30_000));
        let stalls = answers.of("stalls").expect("an answer");
        assert!(stalls.yes && stalls.says.contains("201 ms"), "{stalls:?}");
        let fan_in = answers.of("fan_in").expect("an answer");
        assert!(fan_in.yes && fan_in.says.contains("up to 16 answers"), "{fan_in:?}");
    }

    #[test]
    fn one_server_that_loses_nothing_is_neither() {
        let calm: Vec<Segment> = blocks(2, 30_000)
            .into_iter()
            .filter(|one| one.at_ns % 300_000_000 < 1_000_000)
            .collect();
        let answers = found(&calm);
        assert_eq!(answers.of("stalls"), None);
        assert_eq!(answers.of("fan_in").map(|one| one.yes), Some(false));
    }

    #[test]
    fn short_messages_beside_long_ones_are_seen() {
        let mut all = Vec::new();
        let (mut seq, mut at) = (0u32, 0);
        for n in 0..400u32 {
            let octets = if n % 20 == 0 { 900_000 } else { 400 };
            all.push(sent(at, ASKER, server(1), n * 50, 50));
            all.push(sent(at + 100, server(1), ASKER, seq, octets));
            seq = seq.wrapping_add(octets);
            at += 5_000;
        }
        let sizes = found(&all).of("sizes").expect("an answer").clone();
        assert!(sizes.yes && sizes.says.contains("the median has 400 bytes"), "{sizes:?}");
    }

    /// An Ethernet frame with a TCP segment.
    fn frame(from: u8, to: u8, seq: u32, octets: u16) -> Vec<u8> {
        let mut out = vec![0; 12];
        out.extend([0x08, 0x00, 0x45, 0]);
        out.extend((40 + octets).to_be_bytes());
        out.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
        out.extend([0, 80, 0x0f, 0xa0]);
        out.extend(seq.to_be_bytes());
        out.extend([0, 0, 0, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        out.resize(out.len() + usize::from(octets), 7);
        out
    }

    #[test]
    fn both_formats_are_read() {
        use pcap_file::pcap::{PcapPacket, PcapWriter};
        use pcap_file::pcapng::PcapNgWriter;
        use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
        use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;

        let data = frame(2, 1, 1000, 60);
        let mut old = PcapWriter::new(Vec::new()).expect("a vector");
        let at = Duration::from_micros(1_500_000);
        old.write_packet(&PcapPacket::new(at, data.len() as u32, &data)).expect("a vector");
        old.write_packet(&PcapPacket::new(at, 5, &data[..5])).expect("a vector");
        let mut old = old.into_writer();
        // Only headers were to be kept, and the packet was longer: 16 octets of the file's head and
        // 24 of the packet's come before these numbers.
        old[16..20].copy_from_slice(&96u32.to_be_bytes());
        old[36..40].copy_from_slice(&1514u32.to_be_bytes());

        let mut new = PcapNgWriter::new(Vec::new()).expect("a vector");
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: Vec::new(),
        };
        new.write_pcapng_block(interface).expect("a vector");
        // Without a stated grain ticks are microseconds.
        let ticks = Duration::from_nanos(1_500_000);
        new.write_pcapng_block(EnhancedPacketBlock {
            interface_id: 0,
            timestamp: ticks,
            original_len: data.len() as u32,
            data: data.as_slice().into(),
            options: Vec::new(),
        })
        .expect("a vector");
        let new = new.into_inner();

        for (bytes, others) in [(old, 1), (new, 0)] {
            assert!(is_capture(&bytes));
            let (segments, other) = read(&bytes).expect("a capture");
            assert_eq!(other, others);
            assert_eq!(segments.len(), 1);
            let one = segments[0];
            assert_eq!((one.at_ns, one.seq, one.octets), (1_500_000_000, 1000, 60));
            assert_eq!(one.to, (Ipv4Addr::new(10, 0, 0, 1).into(), 4000));
        }
        assert!(!is_capture(b"{\"a\":1}") && !is_capture(b"ab"));
        let cut = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0];
        assert!(look(&cut, "x", &mut Answers::default()).is_err());
    }

    #[test]
    fn ticks_have_their_length() {
        assert_eq!((tick_ns(6), tick_ns(9), tick_ns(0x80 | 10)), (1e3, 1.0, 1e9 / 1024.0));
    }
}
