//! Agents in the hands of a stranger: what the fuzzer `agent` runs, the replay of its corpus, and
//! the test of a million datagrams.
//!
//! He knows all addresses and the format. He sends anything, from any address, at any time; he has
//! a copy of each datagram two seconds after it was delivered, and can say it again, send it back
//! or to others, cut and alter it. He does not take datagrams away, and is nobody whom the agents
//! probe. Whatever he does, the agents' state is the same to the bit as without him, and nobody is
//! sent more than was sent in his name.
//!
//! Who has datagrams as they travel stands on the path: without a key he can answer before the one
//! who was asked; with one he can show one holder's first packets to another.

use crate::options::Options;
use crate::wire::{Datagram, Told};
use crate::world::World;
use cavy_coords::agent::Ignored;
use cavy_coords::wire::Said;
use cavy_coords::{Config, Coordinate, Point};
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_seal::Key;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

const AGENTS: usize = 3;
const PLACES: [(f64, f64); AGENTS] = [(51.5, -0.1), (35.7, 139.7), (-33.9, 151.2)];
/// Datagrams of which he keeps a copy.
const COPIES: usize = 2_048;
/// How late he has his copies: a probe is over by then.
const LATE: Span = Span::from_ms(2_000);
/// How long the agents run.
const LENGTH: Span = Span::from_ms(60_000);
/// Datagrams that he sends between two that agents receive, at most.
const AT_ONCE: usize = 1_000;

fn address(agent: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1 + agent as u8], 7_946))
}

/// What an agent is, as far as predictions go: the coordinate's bits, updates, and what the machine
/// did not take.
type State = ([u64; 5], u32, Ignored, Vec<Option<u64>>);

struct Copy {
    at: Instant,
    bytes: Vec<u8>,
    from: SocketAddr,
    to: usize,
}

struct Stage {
    agents: Vec<World>,
    now: Instant,
    /// Datagrams under way, by time of arrival and order of sending.
    under_way: BTreeMap<(Instant, u64), (usize, SocketAddr, Vec<u8>)>,
    sent: u64,
    copies: VecDeque<Copy>,
}

impl Stage {
    fn new(sealed: bool) -> Stage {
        let now = Instant::from_ns(1_000_000_000);
        let agent = |number: usize| {
            let (latitude, longitude) = PLACES[number];
            let others = (0..AGENTS).filter(|other| *other != number).map(address);
            let mut options = Options::new(address(number)).at(latitude, longitude).seeds(others);
            options.every = Some(Span::from_ms(700));
            options.gossip_every = 2;
            options.key = sealed.then(|| Key::new([9; 32]));
            let secret = [number as u8 + 1; 32];
            let own = vec![address(number).ip()];
            let world = World::new(&options, address(number).port(), own, &secret, None, now);
            world.expect("random numbers")
        };
        let agents = (0..AGENTS).map(agent).collect();
        Stage { agents, now, under_way: BTreeMap::new(), sent: 0, copies: VecDeque::new() }
    }

    /// Half of the round trip, which no two pairs share.
    fn one_way(a: usize, b: usize) -> Span {
        Span::from_ms(40 + 25 * (a + b) as u64)
    }

    /// What agents have to say goes on its way.
    fn flush(&mut self) {
        for from in 0..AGENTS {
            while let Some(packet) = self.agents[from].pull(self.now) {
                let Some(to) = (0..AGENTS).find(|to| address(*to) == packet.to) else { continue };
                self.sent += 1;
                let at = self.now + Stage::one_way(from, to);
                self.under_way.insert((at, self.sent), (to, address(from), packet.bytes));
            }
        }
    }

    /// Goes on to the next thing that happens; false at the end.
    fn next(&mut self, end: Instant) -> bool {
        let arrives = self.under_way.keys().next().map(|(at, _)| *at);
        let due = self.agents.iter().filter_map(World::next_time).min();
        let Some(at) = arrives.into_iter().chain(due).min().filter(|at| *at <= end) else {
            return false;
        };
        self.now = self.now.max(at);
        while let Some(entry) = self.under_way.first_entry().filter(|e| e.key().0 <= self.now) {
            let (to, from, bytes) = entry.remove();
            if self.copies.len() >= COPIES {
                self.copies.pop_front();
            }
            self.agents[to].on_datagram(from, &mut bytes.clone(), self.now, self.now);
            self.copies.push_back(Copy { at: self.now, bytes, from, to });
        }
        for agent in &mut self.agents {
            agent.expire(self.now);
            agent.check();
            while let Some((entry, _)) = agent.take_kept() {
                agent.stored(entry, self.now);
            }
            while agent.take_measured().is_some() {}
        }
        self.flush();
        true
    }

    /// The stranger sends; what comes of it goes no farther than whoever he named as the sender,
    /// and is no longer than what he sent.
    fn strange(&mut self, to: usize, from: SocketAddr, bytes: &[u8]) {
        let agent = &mut self.agents[to];
        agent.on_datagram(from, &mut bytes.to_vec(), self.now, self.now);
        let mut told = 0;
        while let Some(packet) = agent.pull(self.now) {
            assert_eq!(packet.to, from, "somebody else is sent something");
            told += packet.bytes.len();
            if let Some(victim) = (0..AGENTS).find(|victim| address(*victim) == packet.to) {
                self.sent += 1;
                let at = self.now + Stage::one_way(to, victim);
                let key = (at, self.sent);
                self.under_way.insert(key, (victim, address(to), packet.bytes));
            }
        }
        assert!(told <= bytes.len(), "{} B came and {told} B went", bytes.len());
        agent.check();
    }

    fn acquainted(&self) -> bool {
        let others = |a: usize| (0..AGENTS).filter(move |b| *b != a).map(address);
        (0..AGENTS).all(|a| others(a).all(|b| self.agents[a].is_acquainted(b)))
    }

    fn states(&self) -> Vec<State> {
        let state = |(number, agent): (usize, &World)| {
            let own = agent.agent().coordinate().copied();
            let own = own.expect("it began with a place");
            let [x, y, z] = own.position.vector();
            let bits = [x, y, z, own.height_ms, own.error].map(f64::to_bits);
            let others = (0..AGENTS).filter(|other| *other != number);
            let said = others.map(|other| agent.predict_ms(address(other), self.now));
            let said = said.map(|ms| ms.map(f64::to_bits)).collect();
            (bits, agent.agent().updates(), agent.agent().ignored(), said)
        };
        self.agents.iter().enumerate().map(state).collect()
    }
}

/// How the agents end without anybody.
fn undisturbed(sealed: bool) -> Vec<State> {
    let mut stage = Stage::new(sealed);
    let end = stage.now + LENGTH;
    stage.flush();
    while stage.next(end) {}
    let states = stage.states();
    assert!(states.iter().all(|(_, updates, ..)| *updates > 100), "{states:?}");
    for agent in &stage.agents {
        assert!(agent.counters.gossip > 0 && agent.counters.feedback > 0, "{:?}", agent.counters);
    }
    states
}

/// Runs a stranger who does what `more` says, until it says no more or `most` datagrams were sent,
/// and to the end without him; how many he sent.
pub fn disturbed(sealed: bool, mut more: impl FnMut() -> Option<u64>, most: usize) -> usize {
    let mut stage = Stage::new(sealed);
    let end = stage.now + LENGTH;
    stage.flush();
    let (mut sent, mut speaks) = (0, true);
    let steps = 2_000;
    let at_once = most.div_ceil(steps).clamp(1, AT_ONCE);
    while stage.next(end) {
        // Until sealed agents know each other's lives he could make them known sooner, which is
        // true and yet changes when they are first probed.
        if !stage.acquainted() {
            continue;
        }
        for _ in 0..at_once {
            let Some(draw) = more().filter(|_| speaks && sent < most) else {
                speaks = false;
                break;
            };
            let (to, from, bytes) = forge(&stage, draw, &mut more);
            stage.strange(to, from, &bytes);
            sent += 1;
        }
    }
    assert_eq!(stage.states(), undisturbed(sealed), "after {sent} datagrams, sealed: {sealed}");
    sent
}

/// A datagram of his: to whom, as if from whom, and what.
fn forge(
    stage: &Stage,
    draw: u64,
    more: &mut impl FnMut() -> Option<u64>,
) -> (usize, SocketAddr, Vec<u8>) {
    let [how, to, from, place, a, b, c, d] = draw.to_le_bytes();
    let place = usize::from(u16::from_le_bytes([place, d]));
    let to = usize::from(to) % AGENTS;
    let from = match from % 4 {
        // An agent, or one that is probed by nobody.
        0..3 if usize::from(from % 4) != to => address(usize::from(from % 4)),
        _ => SocketAddr::from(([203, 0, 113, from], 7_946)),
    };
    let his = stage.copies.partition_point(|copy| copy.at + LATE <= stage.now);
    let copy = (his > 0).then(|| &stage.copies[place % his]);
    match (how % 12, copy) {
        // Said again, as it was; sent back to whom it came from; to another one.
        (0, Some(copy)) => (copy.to, copy.from, copy.bytes.clone()),
        (1, Some(copy)) => {
            let back = (0..AGENTS).find(|agent| address(*agent) == copy.from);
            (back.unwrap_or(to), address(copy.to), copy.bytes.clone())
        }
        (2, Some(copy)) => (to, from, copy.bytes.clone()),
        // Cut, longer, altered.
        (3, Some(copy)) => {
            let length = usize::from(a) % (copy.bytes.len() + 1);
            (copy.to, copy.from, copy.bytes[..length].to_vec())
        }
        (4, Some(copy)) => (copy.to, copy.from, [&copy.bytes[..], &[a, b]].concat()),
        (5 | 6, Some(copy)) => {
            let mut bytes = copy.bytes.clone();
            let at = usize::from(u16::from_le_bytes([a, b])) % bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= c.max(1);
            }
            (copy.to, copy.from, bytes)
        }
        // Made up, in the format.
        (7..=10, _) => {
            let (nonce, token) = (more().unwrap_or(0), more().unwrap_or(0));
            (to, from, made_up(how, nonce, token, [a, b, c, d]).bytes())
        }
        _ => {
            let mut bytes = vec![0; usize::from(a)];
            for chunk in bytes.chunks_mut(8) {
                let draw = more().unwrap_or(0).to_le_bytes();
                chunk.copy_from_slice(&draw[..chunk.len()]);
            }
            (to, from, bytes)
        }
    }
}

fn made_up(how: u8, nonce: u64, token: u64, [a, b, c, d]: [u8; 4]) -> Datagram {
    let place = Point::from_degrees(f64::from(a) - 90.0, f64::from(b)).unwrap_or_else(|| {
        Point::from_vector([1.0, 0.0, 0.0]).unwrap_or_else(|| unreachable!("it has a direction"))
    });
    let said = Said::of(&Coordinate::at(place, 0, &Config::default()));
    let told = Told { said, updates: 9, reach: Default::default() };
    let space = u16::from(d == 0);
    let short = u32::from(c) * 100;
    match how % 12 {
        7 => Datagram::Probe { space, nonce, sent_ns: token, told: Some(told) },
        8 => {
            let (sent_ns, told) = (token >> 20, Some(told));
            Datagram::Reply { space, nonce, sent_ns, held_us: short, token, told }
        }
        9 => Datagram::Feedback { space, nonce, token, rtt_us: short, told },
        _ => {
            let at = SocketAddr::from(([203, 0, 113, c], 7_946));
            let heard = [Some(crate::wire::Heard { at, age_s: 0, told }); 16];
            Datagram::Gossip { space, nonce, token, heard }
        }
    }
}

/// A stranger who does what a script says.
pub fn strangers(script: &[u8]) {
    let Some((first, rest)) = script.split_first() else { return };
    let mut words = rest.chunks(8).map(|word| {
        let mut bytes = [0; 8];
        bytes[..word.len()].copy_from_slice(word);
        u64::from_le_bytes(bytes)
    });
    disturbed(first % 2 == 1, || words.next(), 10_000);
}

/// A stranger who draws what he does; how many datagrams he sent.
pub fn drawn(sealed: bool, seed: u64, most: usize) -> usize {
    let mut rng = Stream::keyed(seed, 0, Purpose::Test);
    disturbed(sealed, || Some(rng.bits()), most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// `CAVY_FORGED=1000000` runs a million.
    fn most() -> usize {
        #[allow(clippy::disallowed_methods)] // how many to send is the caller's to say
        let asked = std::env::var("CAVY_FORGED").ok().and_then(|most| most.parse().ok());
        asked.unwrap_or(4_000)
    }

    #[test]
    fn forged_replayed_reflected_and_cut_datagrams_change_no_bit() {
        let sent = drawn(false, 1, most());
        assert!(sent >= most() / 2, "{sent} of {}", most());
    }

    #[test]
    fn nor_do_they_where_datagrams_are_sealed() {
        let sent = drawn(true, 2, most());
        assert!(sent >= most() / 2, "{sent} of {}", most());
    }

    #[test]
    fn the_corpus_is_replayed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/agent");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).expect("the corpus") {
            let path = entry.expect("a file").path();
            let bytes = std::fs::read(&path).expect("it can be read");
            let run = std::panic::catch_unwind(|| strangers(&bytes));
            assert!(run.is_ok(), "{}", path.display());
            count += 1;
        }
        assert!(count >= 3, "{count}");
    }
}
