//! The golden runs of the world of services, beside those of `golden.rs`.

use cavy_core::{Instant, Span};
use cavy_lab::pending::Heap4;
use cavy_lab::services::{
    Alone, Arriving, Balance, Cache, Call, Clients, Discipline, Host, Law, Lock, Network, Place,
    Service, Setup, Step, Unobserved, run,
};

/// One golden run: name, digest, network.
pub type Golden = (&'static str, u64, fn() -> Network);

/// A second each: every kind of step, both disciplines, closed and open clients, every law that
/// takes a logarithm.
pub const SERVICES: [Golden; 2] = [
    ("services on cores of their own", 0xE677_345D_CFA9_3400, || network(Discipline::Fcfs, false)),
    ("services on a host", 0x086F_49DC_1BE2_7AD0, || network(Discipline::Sharing, true)),
];

fn network(discipline: Discipline, together: bool) -> Network {
    let exponential = |us: f64| Law::Exponential { mean_ns: us * 1e3 };
    let log_normal = |us: f64| Law::LogNormal { mean_ns: us * 1e3, sigma: 1.0 };
    let host = Host { cores: 4, discipline };
    let mut front = Service::new(
        2,
        vec![
            Step::Cpu(exponential(150.0)),
            Step::OneOf(vec![
                Call { share: 0.6, ..Call::once(1) },
                Call { share: 0.3, retries: 1, timeout: Some(Span::from_ms(30)), ..Call::once(2) },
            ]),
            Step::Together(vec![Call::once(2), Call { share: 0.5, repeat: 2, ..Call::once(1) }]),
        ],
    );
    front.per_visit = Span::from_us(20);
    front.per_call = Span::from_us(7);
    let mut middle = Service::new(
        2,
        vec![
            Step::Cpu(log_normal(200.0)),
            Step::Locked { lock: 0, work: exponential(40.0) },
            Step::Cached { cache: 0, miss: vec![Step::Call(Call::once(2))] },
        ],
    );
    middle.locks.push(Lock { spins: false });
    middle.caches.push(Cache::Ratio(0.8));
    (middle.threads, middle.backlog) = (Some(8), Some(40));
    let weibull = Law::Weibull { mean_ns: 120e3, shape: 0.7 };
    let mut back = Service::new(1, vec![Step::Wait(exponential(300.0)), Step::Cpu(weibull)]);
    (back.replicas, back.balance) = (3, Balance::Least);
    let mut services = vec![front, middle, back];
    for service in &mut services {
        service.place = match service.place {
            _ if together => Place::On(0),
            Place::Own(own) => Place::Own(Host { discipline, ..own }),
            place => place,
        };
    }
    let clients = |arriving| Clients {
        arriving,
        mix: vec![Call::once(0)],
        capacity: None,
        virtual_time: false,
    };
    Network {
        hosts: vec![host],
        services,
        clients: vec![
            clients(Arriving::Closed { population: 24, think: Some(exponential(3_000.0)) }),
            clients(Arriving::Open { gap: exponential(2_000.0) }),
        ],
        hop: Some(exponential(60.0)),
    }
}

/// Runs it and returns the digest found.
pub fn digest(golden: &Golden) -> u64 {
    let network = golden.2();
    let setup = Setup::new(&network, 0xCA71, Instant::from_ns(1_000_000_000));
    let run = run::<Alone, _, _>(&setup, &mut [], &mut Heap4::new(), &mut Unobserved);
    run.expect("a legal network").trail.digest()
}
