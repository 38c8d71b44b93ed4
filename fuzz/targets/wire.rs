//! A packet, read and written again in each dialect. What is accepted says the same when it is
//! written and read once more; what is not is refused, never fatal.
//!
//! Included by the fuzzer `wire` and by the replay of its corpus, `crates/homa/tests/corpus.rs`.

use cavy_homa::packet::{Acks, Kind};
use cavy_homa::wire::{Dialect, HEADER_MAX_BYTES, Repr, View};

/// Reads `bytes` in every dialect.
pub fn run(bytes: &[u8]) {
    let Ok(view) = View::new(bytes) else { return };
    for levels in 0..=9 {
        for (message_max_bytes, says) in [(1_000_000, false), (1, true), (u32::MAX, true)] {
            let dialect =
                Dialect { levels, message_max_bytes, says_backlog: says, says_refusals: says };
            if let Ok(repr) = Repr::parse(&view, &dialect) {
                again(&view, &repr, &dialect);
            }
        }
    }
}

fn again(view: &View<'_>, repr: &Repr, dialect: &Dialect) {
    let mut header = [0xff; HEADER_MAX_BYTES];
    let length = repr.emit(dialect, &mut header);
    assert_eq!(length, view.kind().header_bytes());
    assert!(header[length..].iter().all(|&byte| byte == 0), "more was written than said");
    let written = [&header[..length], view.payload()].concat();
    let second = View::new(&written).expect("what is written is whole");
    assert_eq!(second.kind(), view.kind());
    let read = Repr::parse(&second, dialect).expect("what was accepted is accepted again");
    match (repr.kind, read.kind) {
        // A difference of nothing is none; and of two cut-offs in one level, one is left.
        (Kind::Ack(Acks(first)), Kind::Ack(Acks(second))) => {
            let named =
                |acks: [i32; 4]| acks.into_iter().filter(|&ack| ack != 0).collect::<Vec<_>>();
            assert_eq!(named(first), named(second));
            assert_eq!(repr.extent, read.extent);
        }
        (Kind::Cutoffs(first), Kind::Cutoffs(second)) => {
            assert_eq!(first.version, second.version);
            assert_eq!(first.cutoffs(dialect.levels), second.cutoffs(dialect.levels));
        }
        _ => assert_eq!(*repr, read),
    }
    assert_eq!(repr.ports, read.ports);
}
