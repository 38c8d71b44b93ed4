//! What comes behind a FIN.

use cavy_core::Instant;
use cavy_core::family::packet::{Extent, Message, Seen};
use cavy_core::family::stream::{Effect, Input};
use cavy_core::laws::packet::Stage;
use cavy_tcp::{Config, Flags, RtoConfig, Segment, Stack};

/// A peer sends octets behind its own FIN, out of order, and then the FIN: they belong to nothing
/// and are forgotten. The stage asks the stack for its invariants after each step.
#[test]
fn incast_2_4_octets_behind_a_fin_are_forgotten() {
    let stack = Stack::new(Config::reference(RtoConfig::FINE)).expect("a legal configuration");
    let mut stage = Stage::new(stack, Instant::from_ns(1_000), 1);
    let receive = |stage: &mut Stage<Stack>, header: Segment, length_bytes: u32| {
        let payload = Extent { message: Message(0), offset_bytes: 0, length_bytes };
        stage.receive(1, header, payload, Seen::default());
        stage.pull_all()
    };
    stage.input(Input::Listen { port: 80, backlog: 4 });
    let mut syn = Segment::new(40_000, 80, 1_000, Flags::SYN);
    syn.window = 65_535;
    let answer = receive(&mut stage, syn, 0);
    let next = |seq| {
        let ack = answer[0].header.seq.wrapping_add(1);
        Segment { ack, window: 65_535, ..Segment::new(40_000, 80, seq, Flags::ACK) }
    };
    receive(&mut stage, next(1_001), 0);
    // Ten octets right behind where the FIN will be, and ten more behind a gap.
    receive(&mut stage, next(1_002), 10);
    receive(&mut stage, next(1_020), 10);
    let fin = next(1_001);
    let sent = receive(&mut stage, Segment { flags: Flags(fin.flags.0 | Flags::FIN.0), ..fin }, 0);
    let acked = sent.last().expect("the FIN is acknowledged").header;
    assert_eq!((acked.ack, acked.sacks.blocks().len()), (1_002, 0));
    let finished = |effect: &&Effect<_>| matches!(effect, Effect::Finished { .. });
    assert_eq!(stage.effects.iter().filter(finished).count(), 1);
}
