//! Observers: wasted bandwidth, traces.

use crate::blast::{Blast, BlastHeader};
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_lab::net::trace::{Capture, TextTrace};
use cavy_lab::net::traffic::Listed;
use cavy_lab::net::{
    Bins, Framing, InFlight, Network, Observer, Ps, Rate, Setup, Submission, Topology, Waste, run,
};
use cavy_lab::pending::Wheel;
use pcap_file::DataLink;
use pcap_file::pcapng::{Block, PcapNgReader};

fn setup() -> Setup {
    let topology = Topology::star(3, Rate::gbps(10), Span::ZERO).unwrap();
    Setup::new(Network::new(topology), 1, Span::from_us(20), Bins::up_to(vec![]))
}

fn one(from: u32, to: u32, at: Ps, length_bytes: u32) -> (Node, Submission) {
    (Node(from), Submission { at, to: Node(to), length_bytes, asks: false, class: 0 })
}

/// Steps of a run and what `withheld` said of them.
fn wasted(
    setup: &Setup,
    list: Vec<(Node, Submission)>,
    withheld: fn(&Blast) -> bool,
) -> (f64, f64) {
    let mut waste = Waste::new(setup, withheld);
    let traffic = Listed::at_times(3, list);
    run(setup, |_| Blast::default(), traffic, &mut Wheel::new(), &mut waste);
    waste.shares()
}

#[test]
fn homa_5_5_idle_downlinks_count_while_their_receiver_withholds() {
    // Two packets of 1538 bytes to host 2 and one to host 1, in 20 us: 1230.4 ns each.
    let list = vec![one(0, 2, 0, 2_920), one(2, 1, 0, 1_460)];
    let share = 1_230.4 / 20_000.0;
    let (never, idle) = wasted(&setup(), list.clone(), |_| false);
    assert_eq!(never, 0.0);
    assert!((idle - (1.0 - share)).abs() < 1e-9, "{idle}");
    let (always, idle) = wasted(&setup(), list.clone(), |_| true);
    assert!((always - idle).abs() < 1e-9, "{always} {idle}");
    // Counting begins at the end of the warm-up, when the network is quiet already.
    let warm = Setup { warmup: Span::from_us(10), ..setup() };
    assert_eq!(wasted(&warm, list, |_| true), (1.0, 1.0));
}

#[test]
fn homa_5_5_what_counts_is_the_answer_of_the_receiver_at_the_time() {
    // Blast knows a message to be incomplete from its first packet to its last. The second message
    // comes between, from a far slower card, so host 2's downlink idles in the midst of it.
    use cavy_lab::net::{Link, Place};
    let link = |host, gb| Link {
        a: Place::Host(host),
        b: Place::Switch(0),
        rate: Rate::gbps(gb),
        back: Rate::gbps(gb),
        propagation: Span::ZERO,
    };
    let topology = Topology::new(3, 1, &[link(0, 1), link(1, 10), link(2, 10)]).unwrap();
    let setup = Setup::new(Network::new(topology), 1, Span::from_us(100), Bins::up_to(vec![]));
    let mut waste = Waste::new(&setup, |blast: &Blast| !blast.inbound.is_empty());
    let traffic = Listed::at_times(3, [one(0, 2, 0, 2_920)]);
    run(&setup, |_| Blast::default(), traffic, &mut Wheel::new(), &mut waste);
    // From the first packet's delivery (0.5 us after its end on the downlink) to the second's:
    // 12,304 ns, less what the downlink sends of the second.
    let wasted = waste.shares().0 * 3.0 * 100_000.0;
    assert!((wasted - (12_304.0 - 1_230.4)).abs() < 1e-6, "{wasted}");
}

#[test]
fn a_text_trace_has_a_line_for_each_thing_that_happens() {
    let mut trace = TextTrace::new(Vec::new());
    let list = [one(0, 2, 0, 1_460), one(1, 2, 0, 100)];
    run(&setup(), |_| Blast::default(), Listed::at_times(3, list), &mut Wheel::new(), &mut trace);
    let text = String::from_utf8(trace.finish().unwrap()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "0.000 submit 0>2 m0 1460");
    assert_eq!(lines[1], "0.000 send 0>2 m0 0+1460 p7 r1460 w1538");
    assert_eq!(lines[2], "0.000 wire 0>2 m0 0+1460 p7 r1460 w1538 h0>s0");
    assert_eq!(*lines.last().unwrap(), "4210.800 done 0>2 n0 1460");
    let verbs =
        |verb: &str| lines.iter().filter(|line| line.split(' ').nth(1) == Some(verb)).count();
    assert_eq!([verbs("send"), verbs("wire"), verbs("take"), verbs("done")], [2, 4, 2, 2]);
}

#[test]
fn a_capture_is_read_back_by_others() {
    let mut capture = Capture::new(Vec::new(), Framing::default(), 4_000);
    let list = [one(0, 2, 0, 1_460), one(1, 2, 0, 5)];
    run(&setup(), |_| Blast::default(), Listed::at_times(3, list), &mut Wheel::new(), &mut capture);
    let bytes = capture.finish().unwrap();
    let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(interface) => {
                assert_eq!((interface.linktype, interface.snaplen), (DataLink::ETHERNET, 42));
            }
            Block::EnhancedPacket(packet) => {
                packets.push((
                    packet.timestamp.as_nanos(),
                    packet.original_len,
                    packet.data.to_vec(),
                ));
            }
            other => panic!("{other:?}"),
        }
    }
    // The short one first: 5 bytes and headers are a packet of 45 from the IP header on.
    let lengths: Vec<u32> = packets.iter().map(|packet| packet.1).collect();
    assert_eq!(lengths, [14 + 46, 14 + 1_500]);
    assert_eq!(packets[1].0, 4_210);
    let data = &packets[1].2;
    assert_eq!(data[12..16], [0x08, 0x00, 0x45, 7 << 5]);
    assert_eq!((&data[26..30], &data[30..34]), (&[10, 0, 0, 0][..], &[10, 0, 0, 2][..]));
    let words =
        data[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    assert_eq!((sum & 0xFFFF) + (sum >> 16), 0xFFFF, "the checksum of the IP header");
    assert_eq!(data[34..40], [0x0F, 0xA0, 0x0F, 0xA0, 0x05, 0xC8]);
}

#[test]
fn two_observers_see_the_same() {
    #[derive(Default)]
    struct Count(u32);
    impl Observer<Blast, BlastHeader> for Count {
        fn received(&mut self, _: &InFlight<BlastHeader>, _: Ps) {
            self.0 += 1;
        }
    }
    let (mut a, mut b) = (Count::default(), Count::default());
    let traffic = Listed::at_times(3, [one(0, 2, 0, 2_920)]);
    run(&setup(), |_| Blast::default(), traffic, &mut Wheel::new(), &mut (&mut a, &mut b));
    assert_eq!((a.0, b.0), (2, 2));
}
