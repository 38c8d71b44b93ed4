//! Sealed packets in the hands of somebody without the key: what the fuzzer `sealed` runs, and the
//! replay of its corpus. He sees all packets, and can alter, cut, repeat and send them from
//! anywhere; what is opened was sealed for this life, is opened once, and he is never sent more
//! than he sent.

use super::*;
use std::collections::BTreeSet;

/// A packet that is nothing else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plain {
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

impl Packet for Plain {
    fn to(&self) -> SocketAddr {
        self.to
    }

    fn parts(&self) -> [&[u8]; 2] {
        self.bytes.split_at(self.bytes.len() / 2).into()
    }

    fn wrapped(self, prefix: &[u8; PREFIX_BYTES], sealed: Vec<u8>) -> Plain {
        Plain::own(self.to, prefix, sealed)
    }

    fn own(to: SocketAddr, prefix: &[u8; PREFIX_BYTES], sealed: Vec<u8>) -> Plain {
        Plain { to, bytes: [&prefix[..], &sealed].concat() }
    }
}

const KEY: Key = Key::new([7; 32]);
const PEERS: u32 = 4;

fn at(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + number % 6], 7_000))
}

/// A packet that was said, for which life of whom.
struct Said {
    bytes: Vec<u8>,
    to: usize,
}

struct Stage {
    ends: [Seal<Plain>; 2],
    lives: u8,
    now: Instant,
    said: Vec<Said>,
    /// What each end was honestly told in its present life and has not opened yet.
    owed: [BTreeSet<Vec<u8>>; 2],
    texts: u32,
}

impl Stage {
    fn new() -> Stage {
        let end = |life| Seal::with_life(&KEY, PEERS, [life; LIFE_BYTES]);
        let (ends, now) = ([end(1), end(2)], Instant::ZERO);
        Stage { ends, lives: 2, now, said: Vec::new(), owed: Default::default(), texts: 0 }
    }

    /// What an end wants sent goes to whoever watches.
    fn flush(&mut self, from: usize) -> usize {
        let mut length = 0;
        while let Some(packet) = self.ends[from].ready() {
            let bytes = packet.bytes;
            length += bytes.len();
            self.keep(bytes, 1 - from);
        }
        length
    }

    fn keep(&mut self, bytes: Vec<u8>, to: usize) {
        if self.said.len() < 64 {
            self.said.push(Said { bytes, to });
        }
    }

    fn say(&mut self, from: usize, length: u8) {
        self.texts += 1;
        let mut bytes = vec![3; COUNTER_BYTES + usize::from(length)];
        bytes[..4].copy_from_slice(&self.texts.to_be_bytes());
        let packet = Plain { to: at(1 - from as u8), bytes };
        self.owed[1 - from].insert(packet.bytes.clone());
        if let Some(sealed) = self.ends[from].seal(packet, self.now) {
            self.keep(sealed.bytes, 1 - from);
        }
        self.flush(from);
    }

    fn deliver(&mut self, to: usize, from: SocketAddr, packet: &[u8]) {
        let mut packet = packet.to_vec();
        let length = packet.len();
        if let Opened::Packet(within) = self.ends[to].open(from, &mut packet, self.now) {
            assert!(self.owed[to].remove(within), "never said to this life, or opened twice");
        }
        let held: usize = self.ends[to].contacts.values().map(|contact| contact.held.len()).sum();
        assert!(held <= HELD_MAX * PEERS as usize);
        let windows = self.ends[to].windows.len();
        assert!(windows.max(self.ends[to].contacts.len()) <= PEERS as usize);
        // What was kept for a peer whose life is known now is not the answer to this packet.
        let released = self.ends[to].ready.iter().any(|ready| ready.bytes.first() == Some(&DATA));
        let told = self.flush(to);
        assert!(released || told <= length, "{length} B came and {told} B went");
    }

    fn restart(&mut self, which: usize) {
        self.lives = self.lives.wrapping_add(1).max(3);
        self.ends[which] = Seal::with_life(&KEY, PEERS, [self.lives; LIFE_BYTES]);
        // What was sealed is lost; what still waits to be is not.
        let held = self.ends[1 - which].contacts.values().flat_map(|contact| &contact.held);
        let held: BTreeSet<Vec<u8>> = held.map(|packet| packet.bytes.clone()).collect();
        self.owed[which].retain(|text| held.contains(text));
    }
}

/// Two ends that share a key, and somebody between them who does what `script` says.
pub fn sealed(script: &[u8]) {
    let mut stage = Stage::new();
    let mut bytes = script.iter().copied();
    let mut next = move || bytes.next();
    for _ in 0..300 {
        let Some(what) = next() else { return };
        let mut more = || next().unwrap_or(0);
        let end = usize::from(what >> 7);
        match what % 8 {
            0 => stage.say(end, more()),
            1 => stage.now += Span::from_us(u64::from(more()) * 100),
            2 if more() > 200 => stage.restart(end),
            3 => {
                let forged: Vec<u8> = (0..more()).map(|_| more()).collect();
                stage.deliver(end, at(more()), &forged);
            }
            _ => {
                let (which, how, place, from) = (more(), more(), more(), more());
                let Some(said) = stage.said.get(usize::from(which) % stage.said.len().max(1))
                else {
                    continue;
                };
                let (mut packet, mut to) = (said.bytes.clone(), said.to);
                let place = usize::from(place) % packet.len().max(1);
                match how {
                    // As it is, where it should go; the rest is his own work.
                    0..100 => {}
                    100..160 => packet[place] ^= (how - 99).rotate_left(3),
                    160..190 => packet.truncate(place),
                    190..220 => to = 1 - to,
                    _ => packet.extend([how; 3]),
                }
                let from = if from < 128 { at(1 - to as u8) } else { at(from) };
                stage.deliver(to, from, &packet);
            }
        }
    }
}

#[cfg(test)]
mod replay {
    use std::path::Path;

    #[test]
    fn the_corpus_is_replayed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sealed");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).expect("the corpus") {
            let path = entry.expect("a file").path();
            let bytes = std::fs::read(&path).expect("it can be read");
            let run = std::panic::catch_unwind(|| super::sealed(&bytes));
            assert!(run.is_ok(), "{}", path.display());
            count += 1;
        }
        assert!(count >= 3, "{count}");
    }
}
