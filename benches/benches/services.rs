//! Services: a loop written by hand, and the lab's world of services beside it in the same run.
//!
//! A closed chain of three services of two cores each, 64 clients, exponential times, 100 us for a
//! message. The loop by hand knows this chain and nothing else: an event is a message or the end of
//! a computation, and a request is a number. Its throughput is printed because a fast wrong answer
//! is no floor. Then the same chain under a Governor by the clock, and in delivered mode: what a
//! visit takes while all but one service are stopped and continued.
//!
//! `cargo bench --bench services -- lab 20` runs the lab's alone so many times, for a profile;
//! `hand`, `clock` and `delivered` are the others that can be named.

use cavy_bench::{in_turns, ns_per, print_machine};
use cavy_core::family::probe::Group;
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_lab::pending::Heap4;
use cavy_lab::services::{
    Alone, Arriving, Call, Clients, Law, Network, Service, Setup, Step, Unobserved, run,
};
use cavy_whatif::{Busy, Change, Config, Governor, Limits, Target, Windows};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const WORKS_NS: [f64; 3] = [600_000.0, 1_000_000.0, 500_000.0];
const CORES: u32 = 2;
const CLIENTS: u32 = 64;
const HOP_NS: u64 = 100_000;
/// Simulated: 80,000 requests or so.
const UNTIL_NS: u64 = 40_000_000_000;

/// What a contender came to.
#[derive(Clone, Copy, Default)]
struct Came {
    visits: u64,
    per_s: f64,
    stops: u64,
}

fn came(visits: u64, completed: u64, stops: u64) -> Came {
    Came { visits, per_s: completed as f64 * 1e9 / UNTIL_NS as f64, stops }
}

struct Station {
    idle: u32,
    queue: VecDeque<u32>,
}

/// A message to service `place` on the way down, from it on the way up, or the end of a computation
/// there.
const DOWN: u64 = 0;
const DONE: u64 = 1;
const UP: u64 = 2;

struct Loop {
    pending: BinaryHeap<Reverse<(u64, u64, u64, u32)>>,
    sequence: u64,
    draws: Stream,
    visits: u64,
}

impl Loop {
    fn push(&mut self, at: u64, what: u64, place: usize, client: u32) {
        self.sequence += 1;
        self.pending.push(Reverse((at, self.sequence, what << 8 | place as u64, client)));
    }

    fn compute(&mut self, now: u64, place: usize, client: u32) {
        self.visits += 1;
        let ns = -libm::log(1.0 - self.draws.unit()) * WORKS_NS[place];
        self.push(now + ns as u64, DONE, place, client);
    }
}

fn by_hand(seed: u64) -> Came {
    let mut world = Loop {
        pending: BinaryHeap::new(),
        sequence: 0,
        draws: Stream::keyed(seed, 0, Purpose::Services),
        visits: 0,
    };
    let mut stations = WORKS_NS.map(|_| Station { idle: CORES, queue: VecDeque::new() });
    let mut completed = 0;
    for client in 0..CLIENTS {
        world.push(HOP_NS, DOWN, 0, client);
    }
    while let Some(Reverse((now, _, what, client))) = world.pending.pop() {
        if now > UNTIL_NS {
            break;
        }
        let place = (what & 0xff) as usize;
        match what >> 8 {
            DOWN => {
                let station = &mut stations[place];
                if station.idle > 0 {
                    station.idle -= 1;
                    world.compute(now, place, client);
                } else {
                    station.queue.push_back(client);
                }
            }
            DONE => {
                match stations[place].queue.pop_front() {
                    Some(next) => world.compute(now, place, next),
                    None => stations[place].idle += 1,
                }
                if place + 1 < stations.len() {
                    world.push(now + HOP_NS, DOWN, place + 1, client);
                } else {
                    world.push(now + HOP_NS, UP, place, client);
                }
            }
            // An answer takes no core of who waits for it.
            _ if place > 0 => world.push(now + HOP_NS, UP, place - 1, client),
            _ => {
                completed += 1;
                world.push(now + HOP_NS, DOWN, 0, client);
            }
        }
    }
    came(world.visits, completed, 0)
}

fn chain() -> Network {
    let services = WORKS_NS.iter().enumerate().map(|(index, mean_ns)| {
        let mut steps = vec![Step::Cpu(Law::Exponential { mean_ns: *mean_ns })];
        if index + 1 < WORKS_NS.len() {
            steps.push(Step::Call(Call::once(index + 1)));
        }
        Service::new(CORES as u16, steps)
    });
    let clients = Clients {
        arriving: Arriving::Closed { population: CLIENTS, think: None },
        mix: vec![Call::once(0)],
        capacity: None,
        virtual_time: true,
    };
    Network {
        hosts: Vec::new(),
        services: services.collect(),
        clients: vec![clients],
        hop: Some(Law::Constant { ns: HOP_NS }),
    }
}

fn lab(seed: u64) -> Came {
    let network = chain();
    let setup = Setup::new(&network, seed, Instant::from_ns(UNTIL_NS));
    let outcome =
        run::<Alone, _, _>(&setup, &mut [], &mut Heap4::new(), &mut Unobserved).expect("legal");
    came(outcome.visits, outcome.completed, 0)
}

/// Under a Governor that makes the second service 40 % faster for all time.
fn governed(seed: u64, change: Change) -> Came {
    let network = chain();
    let mut setup = Setup::new(&network, seed, Instant::from_ns(UNTIL_NS));
    setup.wiring.hears = vec![Some(0); network.groups() as usize];
    setup.wiring.edge = Some(0);
    let target = network.groups_of(1).next().map(Group).expect("a replica");
    let rest = (0..network.groups()).map(Group).filter(|group| *group != target).collect();
    let windows =
        Windows { settle: Span::from_ms(100), length: Span::from_ms(1_000), pattern: vec![true] };
    let targets = vec![Target { groups: vec![target], change }];
    // Usage is read when a pause could be due, as `cavy live whatif` does.
    let limits = Limits { look_max: Span::from_ms(6), ..Limits::default() };
    let config = Config { targets, rest, limits, windows, hosts: 0 };
    let mut governor = [Governor::new(config).expect("legal")];
    let outcome =
        run(&setup, &mut governor, &mut Heap4::new(), &mut Unobserved).expect("a legal network");
    let stops = outcome.groups.iter().map(|group| group.stops).sum();
    came(outcome.visits, outcome.completed, stops)
}

fn clock(seed: u64) -> Came {
    governed(seed, Change::Clock { share: 0.4, parallel: CORES, busy: Busy::Cpu })
}

fn delivered(seed: u64) -> Came {
    governed(seed, Change::Delivered { share: 0.4, parallel: CORES })
}

/// A way to run the chain.
type Contender = (&'static str, &'static str, fn(u64) -> Came);

const CONTENDERS: [Contender; 4] = [
    ("hand", "loop by hand", by_hand),
    ("lab", "lab", lab),
    ("clock", "lab, Governor by the clock", clock),
    ("delivered", "lab, Governor in delivered mode", delivered),
];

/// Runs one contender alone, as a profiler wants it. False when the arguments name none.
fn alone() -> bool {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-'));
    let Some(name) = words.next() else { return false };
    let times: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
    let Some((_, _, work)) = CONTENDERS.iter().find(|(short, ..)| *short == name) else {
        return false;
    };
    for seed in 1..=times {
        std::hint::black_box(work(seed).visits);
    }
    true
}

fn main() {
    if alone() {
        return;
    }
    print_machine();
    let mut seen = [Came::default(); CONTENDERS.len()];
    let mut each: Vec<_> = CONTENDERS
        .iter()
        .zip(&mut seen)
        .map(|((_, _, work), seen)| {
            move || {
                let total = ns_per(1, || *seen = work(1));
                total / seen.visits as f64
            }
        })
        .collect();
    let mut each: Vec<&mut dyn FnMut() -> f64> =
        each.iter_mut().map(|one| one as &mut dyn FnMut() -> f64).collect();
    let ns = in_turns(&mut each);
    println!("| how | ns/visit | over the loop by hand | visits | stops | requests/s |");
    println!("|---|---|---|---|---|---|");
    for (((_, name, _), seen), each) in CONTENDERS.iter().zip(&seen).zip(&ns) {
        let Came { visits, per_s, stops } = seen;
        let over = each / ns[0];
        println!("| {name} | {each:.0} | {over:.2} | {visits} | {stops} | {per_s:.0} |");
    }
}
