//! A network in the test's own hands: a relay between clients and a server that loses, doubles and
//! delays packets by a seed.
#![allow(dead_code, reason = "each file of tests uses its part")]

use bytes::Bytes;
use cavy_core::stream::{Purpose, Ratio, Stream};
use cavy_homa::config::Recovery;
use cavy_live::homa::{Client, Options, Polling, Server};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Now: these tests watch sockets, in real time.
#[allow(clippy::disallowed_methods)]
pub fn now() -> Instant {
    Instant::now()
}

/// Options for a busy machine: a process that does not run for half a second is not silent.
pub fn patient() -> Options {
    let mut options = Options::local();
    if let Some(recovery) = &mut options.config.recovery {
        *recovery = Recovery { timeout_ticks: 2_000, remember_ticks: 5_000, ..*recovery };
    }
    options.polling = Polling::Block;
    options.unreachable_after = Some(cavy_core::Span::from_ms(5_000));
    options.deadline = cavy_core::Span::from_ms(20_000);
    options
}

/// A message whose every byte follows from its length and `salt`.
pub fn message(bytes: usize, salt: u64) -> Bytes {
    let mut stream = Stream::keyed(salt, bytes as u32, Purpose::Test);
    let mut all = Vec::with_capacity(bytes + 8);
    while all.len() < bytes {
        all.extend_from_slice(&stream.bits().to_be_bytes());
    }
    all.truncate(bytes);
    Bytes::from(all)
}

/// Processor time of all threads of this process.
fn cpu_ns() -> i128 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// Prints what a call costs each of two pairs, in turns: medians of nine.
pub fn print_processor_time(pairs: &[(Client, Server); 2]) {
    println!("bytes, microseconds of processor time a call of the first and of the second");
    for (bytes, calls) in [(100, 2_000), (10_000, 500), (1_000_000, 20)] {
        let question = message(bytes, 1);
        let mut took = [Vec::new(), Vec::new()];
        for _ in 0..9 {
            for ((client, server), took) in pairs.iter().zip(&mut took) {
                let start = cpu_ns();
                for _ in 0..calls {
                    let answer = client.call(server.local_address(), question.clone());
                    assert!(answer.as_ref() == Ok(&question));
                }
                took.push((cpu_ns() - start) / calls);
            }
        }
        took.iter_mut().for_each(|took| took.sort_unstable());
        let us = took.map(|took| took[took.len() / 2] as f64 / 1e3);
        println!("{bytes}, {:.1}, {:.1}", us[0], us[1]);
    }
}

/// Waits until there is an answer, at most 20 s.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the relay does to packets.
#[derive(Clone, Copy)]
pub struct Faults {
    pub seed: u64,
    pub lost: Ratio,
    pub doubled: Ratio,
    pub delayed: Ratio,
}

/// Between clients and a server. Each client has a socket of its own towards the server.
pub struct Relay {
    pub at: SocketAddr,
    /// Nothing passes while this is true.
    pub down: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    pub lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub fn to(server: SocketAddr, faults: Faults) -> Relay {
        let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        front.set_nonblocking(true).expect("an option");
        let at = front.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let lost = Arc::new(AtomicU64::new(0));
        let down = Arc::new(AtomicBool::new(false));
        let (ends, losses, cut) = (stop.clone(), lost.clone(), down.clone());
        let run = move || Carrying::new(front, server, faults, losses, cut).run(&ends);
        Relay { at, down, stop, lost, thread: Some(std::thread::spawn(run)) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the relay does not panic");
        }
    }
}

struct Late {
    client: SocketAddr,
    to_server: bool,
    bytes: Vec<u8>,
}

struct Carrying {
    front: UdpSocket,
    server: SocketAddr,
    faults: Faults,
    rng: Stream,
    backs: BTreeMap<SocketAddr, UdpSocket>,
    late: BTreeMap<(Instant, u64), Late>,
    count: u64,
    lost: Arc<AtomicU64>,
    down: Arc<AtomicBool>,
}

impl Carrying {
    fn new(
        front: UdpSocket,
        server: SocketAddr,
        faults: Faults,
        lost: Arc<AtomicU64>,
        down: Arc<AtomicBool>,
    ) -> Self {
        let rng = Stream::keyed(faults.seed, 0, Purpose::Faults);
        let (backs, late) = (BTreeMap::new(), BTreeMap::new());
        Carrying { front, server, faults, rng, backs, late, count: 0, lost, down }
    }

    fn run(mut self, stop: &AtomicBool) {
        let mut buffer = [0; 4_096];
        while !stop.load(Ordering::Relaxed) {
            let mut idle = true;
            while let Ok((length, client)) = self.front.recv_from(&mut buffer) {
                idle = false;
                self.backs.entry(client).or_insert_with(|| {
                    let back = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
                    back.set_nonblocking(true).expect("an option");
                    back
                });
                self.meddle(client, true, &buffer[..length]);
            }
            let clients: Vec<SocketAddr> = self.backs.keys().copied().collect();
            for client in clients {
                while let Ok((length, _)) = self.backs[&client].recv_from(&mut buffer) {
                    idle = false;
                    self.meddle(client, false, &buffer[..length]);
                }
            }
            while let Some(entry) = self.late.first_entry() {
                if entry.key().0 > now() {
                    break;
                }
                let Late { client, to_server, bytes } = entry.remove();
                self.carry(client, to_server, &bytes);
            }
            if idle {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    fn meddle(&mut self, client: SocketAddr, to_server: bool, bytes: &[u8]) {
        if self.down.load(Ordering::Relaxed) || self.rng.chance(self.faults.lost) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let copies = 1 + u64::from(self.rng.chance(self.faults.doubled));
        for _ in 0..copies {
            if self.rng.chance(self.faults.delayed) {
                let delay = Duration::from_micros(self.rng.below(3_000));
                self.count += 1;
                let late = Late { client, to_server, bytes: bytes.to_vec() };
                self.late.insert((now() + delay, self.count), late);
            } else {
                self.carry(client, to_server, bytes);
            }
        }
    }

    fn carry(&self, client: SocketAddr, to_server: bool, bytes: &[u8]) {
        // What the system has no room for is one more loss.
        let _ = match to_server {
            true => self.backs[&client].send_to(bytes, self.server),
            false => self.front.send_to(bytes, client),
        };
    }
}
