//! The golden runs: short simulations whose digests are written down here, so that debug,
//! release and wasm32 builds must agree with each other and with yesterday's.
//!
//! Included by `crates/lab/tests/determinism.rs` and by the package `cavy-wasm-check`, so that
//! there is one definition. A digest that changes is a change of results: say why in the commit.

use cavy_core::Span;
use cavy_lab::cpu::{Closed, Cores, Costs, Requests, Setup, Speed, Speeds, Unobserved, run};
use cavy_lab::pending::Heap4;
use cavy_sched::distributed::Steering;
use cavy_sched::workers::WORKERS_MAX;
use cavy_sched::{Policy, TypeHint, build, darc};
use cavy_workload::{Arrivals, Mix, Phase, Service, Source, Type, Workload};

/// One golden run.
pub struct Golden {
    /// What it exercises.
    pub name: &'static str,
    /// Its digest.
    pub digest: u64,
    policy: fn() -> Policy,
    cores: Cores,
    workers: u16,
    arrivals: Arrivals,
    load: f64,
    costs: Costs,
    /// Clients that wait for their answers, instead of arrivals at a load.
    clients: Option<u32>,
}

/// Ten thousand requests each: every law of service time and of arrivals that takes a logarithm or
/// an exponential, drawn and static and adaptive plans, slices, steals, shared cores.
pub const GOLDEN: [Golden; 6] = [
    Golden {
        name: "DARC under bursts",
        digest: 0x1EF7_E7E9_8529_F9B4,
        policy: || {
            let config = darc::Config { window: 1_000, delay_factor: 1, ..darc::Config::default() };
            Policy::Darc { config, hinted: false }
        },
        cores: Cores::Own,
        workers: 8,
        arrivals: Arrivals::Bursty { peak_ratio: 2.0, burst_share: 0.2, mean_burst_ns: 2e5 },
        load: 0.8,
        costs: Costs {
            per_request: Span::from_ns(150),
            dispatch: Span::ZERO,
            preemption: Span::ZERO,
            steal: Span::ZERO,
            round_trip: Span::from_us(10),
        },
        clients: None,
    },
    Golden {
        name: "stealing over three flows",
        digest: 0x4C84_BF35_DAFE_A010,
        policy: || Policy::Stealing { steering: Steering::Flows(3) },
        cores: Cores::Own,
        workers: 8,
        arrivals: Arrivals::Poisson,
        load: 0.7,
        costs: Costs {
            per_request: Span::from_ns(500),
            dispatch: Span::ZERO,
            preemption: Span::ZERO,
            steal: Span::from_ns(500),
            round_trip: Span::from_us(10),
        },
        clients: None,
    },
    Golden {
        name: "slices over typed queues",
        digest: 0x7591_ea4e_1caf_4219,
        policy: || Policy::SlicedMulti {
            slice: Span::from_us(5),
            objectives: vec![Span::from_us(20), Span::from_us(400), Span::from_us(900)],
        },
        cores: Cores::Own,
        workers: 8,
        arrivals: Arrivals::Poisson,
        load: 0.6,
        costs: Costs {
            per_request: Span::from_ns(500),
            dispatch: Span::from_ns(250),
            preemption: Span::from_ns(1_500),
            steal: Span::ZERO,
            round_trip: Span::from_us(10),
        },
        clients: None,
    },
    Golden {
        name: "shared cores",
        digest: 0x8349_EE60_233F_76C0,
        policy: || Policy::ProcessorSharing { slots: 500 },
        cores: Cores::Shared(3),
        workers: 500,
        arrivals: Arrivals::Poisson,
        load: 0.8,
        costs: Costs {
            per_request: Span::ZERO,
            dispatch: Span::ZERO,
            preemption: Span::ZERO,
            steal: Span::ZERO,
            round_trip: Span::ZERO,
        },
        clients: None,
    },
    Golden {
        name: "a thousand unequal workers",
        digest: 0xC623_B7F5_95A2_F8AB,
        policy: || Policy::LastCome { preempts: true },
        cores: Cores::Unequal(SPEEDS),
        workers: 1_000,
        arrivals: Arrivals::Poisson,
        load: 0.99,
        costs: Costs {
            per_request: Span::from_ns(500),
            dispatch: Span::ZERO,
            preemption: Span::from_ns(1_500),
            steal: Span::ZERO,
            round_trip: Span::ZERO,
        },
        clients: None,
    },
    Golden {
        name: "closed clients",
        digest: 0x310D_62A4_F2A9_46EB,
        policy: || Policy::Stealing { steering: Steering::Random },
        cores: Cores::Own,
        workers: 8,
        arrivals: Arrivals::Poisson,
        load: 0.5,
        costs: Costs {
            per_request: Span::from_ns(500),
            dispatch: Span::from_ns(250),
            preemption: Span::ZERO,
            steal: Span::from_ns(500),
            round_trip: Span::from_us(10),
        },
        clients: Some(40),
    },
];

const SPEEDS: Speeds = match (Speed::new(1.5), Speed::new(0.6)) {
    (Some(fast), Some(slow)) => match Speeds::new(&[(400, fast), (500, slow)]) {
        Some(speeds) => speeds,
        None => panic!("two groups"),
    },
    _ => panic!("two speeds"),
};

fn mix() -> Mix {
    let types = vec![
        Type { share: 0.6, service: Service::Exponential { mean_ns: 2_000.0 } },
        Type { share: 0.3, service: Service::LogNormal { mean_ns: 40_000.0, sigma: 1.0 } },
        Type {
            share: 0.1,
            service: Service::Pareto { mean_ns: 90_000.0, shape: 1.8, max_ns: Some(5_000_000) },
        },
    ];
    Mix::new(types).expect("a legal mix")
}

impl Golden {
    fn workload(&self, mix: &Mix, cores: u16) -> Workload {
        let phase = Phase {
            rate_per_s: self.load * mix.peak_rate_per_s(u32::from(cores)),
            mix: mix.clone(),
            arrivals: self.arrivals,
            duration: None,
        };
        Workload::new(vec![phase], 0.02).expect("a legal workload")
    }

    /// Runs it and returns the digest found.
    pub fn run(&self) -> u64 {
        let mix = mix();
        let hint = |one: &Type| TypeHint {
            mean: Span::from_ns(one.service.mean_ns() as u64),
            ratio: one.share,
        };
        let hints: Vec<TypeHint> = mix.types().iter().map(hint).collect();
        let cores = match self.cores {
            Cores::Own | Cores::Unequal(_) => self.workers,
            Cores::Shared(cores) => cores,
        };
        let requests: Requests = match self.clients {
            None => Source::new(&self.workload(&mix, cores), 0xCA71).into(),
            Some(population) => {
                let think = Some(Service::Exponential { mean_ns: 60_000.0 });
                let round_trip = self.costs.round_trip;
                let clients = Closed { population, think, mix: mix.clone(), round_trip };
                clients.start(0xCA71).into()
            }
        };
        let of_policy = self.workers.min(WORKERS_MAX);
        let mut machine = build(&(self.policy)(), of_policy, &hints, 4096).expect("a legal policy");
        let setup = Setup {
            workers: self.workers,
            cores: self.cores,
            costs: self.costs,
            seed: 0xCA71,
            shuffle_ties: None,
            requests: 10_000,
            check: false,
        };
        run(&setup, &mut machine, requests, &mut Heap4::new(), &mut Unobserved).trail.digest()
    }
}
