//! A change: what it does to a network, and what it saves.

use super::plan::ChangePlan;
use cavy_core::Span;
use cavy_lab::services::{Cache, Law, Network, Place, Step};

/// A change with names looked up.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The service.
    pub service: usize,
    /// What is changed.
    pub what: What,
    /// Only this endpoint.
    pub endpoint: Option<usize>,
    /// Only this step.
    pub step: Option<usize>,
    /// Only work under this lock.
    pub lock: Option<usize>,
    /// Time that a visit takes by measurement, in nanoseconds.
    pub effective_ns: Option<f64>,
}

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// A share of CPU time is saved.
    Faster(f64),
    /// So many nanoseconds are saved at each visit.
    Less(f64),
    /// So many replicas.
    Replicas(u16),
    /// So many cores.
    Cores(u16),
    /// A cache hits so often.
    Hits(usize, f64),
}

impl Change {
    /// Scales the times of what becomes faster within `steps` of `endpoint` by `factor`.
    fn scale(&self, endpoint: usize, steps: &mut [Step], factor: f64, nested: bool) {
        if self.endpoint.is_some_and(|one| one != endpoint) {
            return;
        }
        for (index, step) in steps.iter_mut().enumerate() {
            let chosen = nested || self.step.is_none_or(|one| one == index);
            match step {
                Step::Cpu(work) if chosen && self.lock.is_none() => *work = scaled(work, factor),
                Step::Locked { lock, work }
                    if chosen && self.lock.is_none_or(|one| one == *lock) =>
                {
                    *work = scaled(work, factor);
                }
                Step::Cached { miss, .. } if chosen => self.scale(endpoint, miss, factor, true),
                _ => {}
            }
        }
    }

    /// Mean time of what becomes faster, of each endpoint, in nanoseconds of a visit.
    pub fn scope_ns(&self, network: &Network) -> Vec<f64> {
        let service = &network.services[self.service];
        let endpoints = service.endpoints.iter().enumerate();
        endpoints
            .map(|(endpoint, one)| {
                // What doubles when what is in scope is doubled.
                let mut doubled = one.steps.clone();
                self.scale(endpoint, &mut doubled, 2.0, false);
                cpu_ns(&doubled, &service.caches) - cpu_ns(&one.steps, &service.caches)
            })
            .collect()
    }

    /// The changed network.
    pub fn apply(&self, network: &mut Network) {
        let scope = self.scope_ns(network);
        let service = &mut network.services[self.service];
        match self.what {
            What::Faster(ratio) => {
                let mut endpoints = core::mem::take(&mut service.endpoints);
                for (endpoint, one) in endpoints.iter_mut().enumerate() {
                    self.scale(endpoint, &mut one.steps, 1.0 - ratio, false);
                }
                service.endpoints = endpoints;
            }
            What::Less(ns) => {
                let mut endpoints = core::mem::take(&mut service.endpoints);
                for (endpoint, one) in endpoints.iter_mut().enumerate() {
                    if scope[endpoint] > 0.0 {
                        let factor = (1.0 - ns / scope[endpoint]).max(0.0);
                        self.scale(endpoint, &mut one.steps, factor, false);
                    }
                }
                service.endpoints = endpoints;
            }
            What::Replicas(replicas) => service.replicas = replicas,
            What::Cores(cores) => {
                if let Place::Own(host) = &mut service.place {
                    host.cores = cores;
                }
            }
            What::Hits(cache, ratio) => service.caches[cache] = Cache::Ratio(ratio),
        }
    }

    /// Time that a visit to each endpoint saves, in nanoseconds. Of more replicas or cores it is
    /// the time that a visit takes now less what it would take if each of as many servers as now
    /// did the work of more ([slowpoke 2.1]); without a measurement of that time, CPU time goes for
    /// it.
    pub fn saved_ns(&self, network: &Network) -> Vec<f64> {
        let service = &network.services[self.service];
        let now: Vec<f64> = service
            .endpoints
            .iter()
            .map(|one| {
                let cpu = cpu_ns(&one.steps, &service.caches) + service.per_visit.as_ns() as f64;
                self.effective_ns.unwrap_or(cpu)
            })
            .collect();
        let more = |from: u16, to: u16| {
            now.iter().map(|ns| ns * (1.0 - f64::from(from) / f64::from(to))).collect()
        };
        match self.what {
            What::Faster(ratio) => {
                self.scope_ns(network).into_iter().map(|scope| scope * ratio).collect()
            }
            What::Less(ns) => {
                let scope = self.scope_ns(network).into_iter();
                scope.map(|scope| if scope > 0.0 { ns.min(scope) } else { 0.0 }).collect()
            }
            What::Replicas(replicas) => more(service.replicas, replicas),
            What::Cores(cores) => more(network.cores(self.service), cores),
            What::Hits(cache, ratio) => {
                let mut caches = service.caches.clone();
                caches[cache] = Cache::Ratio(ratio);
                service
                    .endpoints
                    .iter()
                    .map(|one| cpu_ns(&one.steps, &service.caches) - cpu_ns(&one.steps, &caches))
                    .collect()
            }
        }
    }

    /// Does a plan ask for none or several changes? The keys that are set.
    pub fn keys(plan: &ChangePlan) -> Vec<&'static str> {
        let set = [
            ("faster_ratio", plan.faster_ratio.is_some()),
            ("less_us", plan.less_us.is_some()),
            ("replicas", plan.replicas.is_some()),
            ("cores", plan.cores.is_some()),
            ("hit_ratio", plan.hit_ratio.is_some()),
        ];
        set.into_iter().filter(|(_, set)| *set).map(|(key, _)| key).collect()
    }
}

/// Mean CPU time of `steps`, without what calls cost, in nanoseconds.
pub fn cpu_ns(steps: &[Step], caches: &[Cache]) -> f64 {
    steps
        .iter()
        .map(|step| match step {
            Step::Cpu(work) | Step::Locked { work, .. } => work.mean_ns(),
            Step::Cached { cache, miss } => {
                let misses = match caches[*cache] {
                    Cache::Ratio(hits) => 1.0 - hits,
                    Cache::Ttl { .. } => 1.0,
                };
                misses * cpu_ns(miss, caches)
            }
            _ => 0.0,
        })
        .sum()
}

/// The law of times that are `factor` times as long, at least a nanosecond on average.
pub fn scaled(law: &Law, factor: f64) -> Law {
    let ns = |ns: u64| ((ns as f64 * factor + 0.5) as u64).max(1);
    let mean = |mean_ns: f64| (mean_ns * factor).max(1.0);
    match law {
        Law::Constant { ns: time } => Law::Constant { ns: ns(*time) },
        Law::Exponential { mean_ns } => Law::Exponential { mean_ns: mean(*mean_ns) },
        Law::LogNormal { mean_ns, sigma } => {
            Law::LogNormal { mean_ns: mean(*mean_ns), sigma: *sigma }
        }
        Law::Uniform { low_ns, high_ns } => {
            Law::Uniform { low_ns: ns(*low_ns), high_ns: ns(*high_ns) }
        }
        Law::Bimodal { short_ns, long_ns, long_ratio } => {
            Law::Bimodal { short_ns: ns(*short_ns), long_ns: ns(*long_ns), long_ratio: *long_ratio }
        }
        Law::Pareto { mean_ns, shape, max_ns } => {
            Law::Pareto { mean_ns: mean(*mean_ns), shape: *shape, max_ns: max_ns.map(ns) }
        }
        Law::Weibull { mean_ns, shape } => Law::Weibull { mean_ns: mean(*mean_ns), shape: *shape },
        Law::Gamma { mean_ns, shape } => Law::Gamma { mean_ns: mean(*mean_ns), shape: *shape },
        Law::Hyperexponential { mean_ns, squared_cv } => {
            Law::Hyperexponential { mean_ns: mean(*mean_ns), squared_cv: *squared_cv }
        }
        Law::Empirical(times) => Law::Empirical(times.iter().map(|&time| ns(time)).collect()),
    }
}

/// The same network on a machine that takes `factor` times as long to compute.
pub fn slower(network: &Network, factor: f64) -> Network {
    fn steps(all: &mut [Step], factor: f64) {
        for step in all {
            match step {
                Step::Cpu(work) | Step::Locked { work, .. } => *work = scaled(work, factor),
                Step::Cached { miss, .. } => steps(miss, factor),
                _ => {}
            }
        }
    }
    let mut network = network.clone();
    let span = |span: Span| Span::from_ns((span.as_ns() as f64 * factor + 0.5) as u64);
    for service in &mut network.services {
        service.endpoints.iter_mut().for_each(|one| steps(&mut one.steps, factor));
        service.per_visit = span(service.per_visit);
        service.per_call = span(service.per_call);
    }
    network
}
