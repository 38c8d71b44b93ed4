//! A packet of IPv4, read and written again. What is accepted says the same when it is written and
//! read once more; what is not is refused, never fatal.
//!
//! Included by the fuzzer `tcp` and by the replay of its corpus, `crates/tcp/tests/wire.rs`.

use cavy_tcp::wire::{HEADERS_MAX_BYTES, Said, Writer, read};

/// Reads `bytes`.
pub fn run(bytes: &[u8]) {
    let Ok(packet) = read(bytes) else { return };
    assert!(packet.from != packet.to);
    let writer = Writer { from: packet.from, to: packet.to };
    match packet.said {
        Said::Tcp { segment, payload, .. } => {
            let mut headers = [0xff; HEADERS_MAX_BYTES];
            let (first, second) = payload.split_at(payload.len() / 2);
            let end = writer.headers(&mut headers, &segment, [first, second]);
            let again = [&headers[..end], payload].concat();
            let read_again = read(&again).expect("what is written is whole");
            let said = Said::Tcp { segment, payload, marked: false };
            assert_eq!((read_again.from, read_again.to), (packet.from, packet.to));
            assert_eq!(read_again.said, said);
        }
        Said::Echo(asked) => {
            let mut answer = vec![0xff; 24 + asked.len()];
            let end = writer.echo(&mut answer, asked).expect("there is room");
            assert_eq!(end, answer.len());
            assert_eq!(read(&answer).map(|read| read.said), Ok(Said::Other));
        }
        Said::Unreachable { .. } | Said::Other => {}
    }
}
