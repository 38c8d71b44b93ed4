//! The lab's own runs of the models that the floors are written for: the policies as users run
//! them, behind the boxed interface, with full statistics and the digest.

use cavy_core::Span;
use cavy_lab::cpu::{Cores, Costs, Recorder, Replication, Setup, run};
use cavy_lab::pending::Heap4;
use cavy_sched::{Policy, TypeHint, build};
use cavy_workload::arrivals::Arrivals;
use cavy_workload::mix::{Mix, Type};
use cavy_workload::service::Service;
use cavy_workload::source::{Phase, Source, Workload};

/// A model: servers, load and types, with their shares.
pub struct Model {
    /// Servers.
    pub workers: u16,
    /// Offered load.
    pub load: f64,
    /// Types with their shares.
    pub types: Vec<(f64, Service)>,
}

impl Model {
    /// M/M/1, service of 1 us.
    pub fn single(load: f64) -> Self {
        Model { workers: 1, load, types: vec![(1.0, Service::Exponential { mean_ns: 1e3 })] }
    }

    /// M/G/14, service of 1 or 100 us with equal probability: High Bimodal.
    pub fn bimodal(load: f64) -> Self {
        let constant = |ns| (0.5, Service::Constant { ns });
        Model { workers: 14, load, types: vec![constant(1_000), constant(100_000)] }
    }

    /// Runs `requests` requests under `policy`.
    pub fn run(&self, policy: &Policy, requests: u64, seed: u64) -> Replication {
        let types = self.types.iter();
        let types = types.map(|(share, service)| Type { share: *share, service: service.clone() });
        let mix = Mix::new(types.collect()).expect("the model is legal");
        let hint = |(share, service): &(f64, Service)| TypeHint {
            mean: Span::from_ns(service.mean_ns() as u64),
            ratio: *share,
        };
        let hints: Vec<TypeHint> = self.types.iter().map(hint).collect();
        let rate_per_s = self.load * f64::from(self.workers) * 1e9 / mix.mean_ns();
        let phase = Phase { mix, arrivals: Arrivals::Poisson, rate_per_s, duration: None };
        let workload = Workload::new(vec![phase], 0.0).expect("the model is legal");
        let mut machine =
            build(policy, self.workers, &hints, 1 << 20).expect("the policy is legal");
        let setup = Setup {
            workers: self.workers,
            cores: Cores::Own,
            costs: Costs::default(),
            seed,
            shuffle_ties: None,
            requests,
            check: false,
        };
        let mut recorder = Recorder::new(requests, self.types.len());
        let source = Source::new(&workload, seed);
        let outcome = run(&setup, &mut *machine, source, &mut Heap4::new(), &mut recorder);
        recorder.finish(&setup, outcome)
    }
}

/// Mean and 99th percentile of latency over all requests, in us.
pub fn mean_and_p99_us(replication: &Replication) -> (f64, f64) {
    let types = &replication.types;
    let count: u64 = types.iter().map(|t| t.latency.count()).sum();
    let sum: f64 =
        types.iter().map(|t| t.latency.mean().unwrap_or(0.0) * t.latency.count() as f64).sum();
    let parts: Vec<_> = types.iter().map(|t| (&t.latency, 1e3)).collect();
    let p99 = cavy_lab::statistics::histogram::scaled_quantile(&parts, 0.99);
    (sum / count as f64 / 1e3, p99.unwrap_or(f64::NAN))
}
