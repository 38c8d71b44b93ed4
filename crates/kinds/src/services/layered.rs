//! Layered queueing: services are servers to those who call them and customers of those whom they
//! call ([slowpoke B3]).
//!
//! A thread that waits for an answer is held meanwhile. So how long a service keeps its threads
//! follows from how long those below keep theirs, and a pool of threads can bind where no core is
//! busy. All layers are solved at once: each processor and each pool of threads is a queue whose
//! customers find the others as they are on average, as in mean value analysis, and what one layer
//! answers is the service time of the next above. With several servers a customer waits only for
//! those beyond them: each of the others is taken to be there by the same chance, apart from the
//! rest. That is exact where nobody waits and where all do. The numbers are moved half of the way
//! in each step, until they stand.

use cavy_lab::services::{Arriving, Call, Law, Network, Place, Step};

/// What is known to a modeller beside the graph: CPU time of a visit of each service.
pub struct Known<'a> {
    pub network: &'a Network,
    /// Nanoseconds for a visit, by service.
    pub visit_ns: &'a [f64],
    /// Mean visits for a request, by service and endpoint.
    pub visits: &'a [Vec<f64>],
    pub population: u32,
}

/// Steps until numbers stand, at most, and before they are looked at: an answer needs a step for
/// each layer that it goes up.
const STEPS: core::ops::Range<u32> = 100..20_000;
/// They stand when none moves by more than this share in a step.
const STANDS: f64 = 1e-7;

/// A queue with several servers.
#[derive(Clone, Copy)]
struct Queue {
    servers: f64,
    /// Mean customers, those in service included.
    length: f64,
}

impl Queue {
    fn new(servers: f64) -> Queue {
        Queue { servers, length: 0.0 }
    }

    /// Time from arriving until served, for one of so many customers.
    fn residence(&self, service: f64, customers: f64) -> f64 {
        service + service / self.servers * self.beyond(customers)
    }

    /// How many an arriving customer has to see leave before a server is free, on average.
    fn beyond(&self, customers: f64) -> f64 {
        let (others, spare) = ((customers - 1.0).max(0.0), self.servers - 1.0);
        if others <= spare {
            return 0.0;
        }
        // The mean of the excess of a binomial number over `spare`.
        let here = (self.length / customers).clamp(0.0, 1.0 - 1e-9);
        let mut share = libm::pow(1.0 - here, others);
        let (mut below, mut at) = (0.0, 0.0);
        while at < spare {
            below += (spare - at) * share;
            share *= (others - at) / (at + 1.0) * here / (1.0 - here);
            at += 1.0;
        }
        (others * here - spare + below).max(0.0)
    }

    /// Moves the length half of the way to another.
    fn settle(&mut self, wanted: f64) {
        self.length += (wanted - self.length) / 2.0;
    }
}

/// Requests for each nanosecond.
pub fn throughput(known: &Known<'_>) -> f64 {
    let Known { network, visit_ns, visits: by_endpoint, population } = *known;
    let visits: Vec<f64> = by_endpoint.iter().map(|each| each.iter().sum()).collect();
    let count = network.services.len();
    let n = f64::from(population);
    // Where each service computes: a processor for each with cores of its own, then the hosts.
    let place = |service: usize| match network.services[service].place {
        Place::Own(_) => service,
        Place::On(host) => count + host,
    };
    let mut processors: Vec<Queue> = network
        .services
        .iter()
        .map(|one| match one.place {
            Place::Own(host) => f64::from(host.cores) * f64::from(one.replicas),
            Place::On(_) => 1.0,
        })
        .chain(network.hosts.iter().map(|host| f64::from(host.cores)))
        .map(Queue::new)
        .collect();
    let pool = |service: usize| {
        let one = &network.services[service];
        one.threads.map(|threads| f64::from(threads) * f64::from(one.replicas))
    };
    let mut pools: Vec<Queue> =
        (0..count).map(|service| Queue::new(pool(service).unwrap_or(n))).collect();
    let callers = callers(network, n, &pool);
    // Who can be at each processor at once.
    let mut inside = vec![0.0; processors.len()];
    for service in 0..count {
        inside[place(service)] += pool(service).unwrap_or(n).min(callers[service]);
    }
    inside.iter_mut().for_each(|all| *all = all.clamp(1.0, n.max(1.0)));
    let hop = network.hop.as_ref().map_or(0.0, Law::mean_ns);
    let think = match &network.clients[0].arriving {
        Arriving::Closed { think: Some(think), .. } => think.mean_ns(),
        _ => 0.0,
    };
    let mut rate = 0.0;
    let (mut answer, mut held) = (vec![0.0; count], vec![0.0; count]);
    let (mut computing, mut waiting) = (vec![0.0; count], vec![0.0; count]);
    for step in 0..STEPS.end {
        for (service, one) in network.services.iter().enumerate() {
            // No more compute than there are threads, or callers to ask for them.
            computing[service] =
                processors[place(service)].residence(visit_ns[service], inside[place(service)]);
            let endpoints = one.endpoints.iter().zip(&by_endpoint[service]);
            let calls: f64 = endpoints
                .map(|(endpoint, times)| {
                    let share = times / visits[service].max(1e-12);
                    share * steps_ns(&endpoint.steps, &|call| 2.0 * hop + answer[call.service])
                })
                .sum();
            held[service] = computing[service] + if one.keeps_thread { calls } else { 0.0 };
            let waits = match pool(service) {
                Some(_) => {
                    pools[service].residence(held[service], callers[service]) - held[service]
                }
                None => 0.0,
            };
            waiting[service] = waits;
            answer[service] = waits + computing[service] + calls;
        }
        let mix = network.clients[0].mix.iter();
        let round: f64 = mix.map(|call| call.share * (2.0 * hop + answer[call.service])).sum();
        let found = n / (think + round).max(1e-9);
        let moved = (found / rate - 1.0).abs();
        rate = if rate == 0.0 { found } else { rate + (found - rate) / 2.0 };
        let mut wanted = vec![0.0; processors.len()];
        for service in 0..count {
            let visits = rate * visits[service];
            wanted[place(service)] += visits * computing[service];
            let there = visits * (held[service] + waiting[service]);
            pools[service].settle(there.min(callers[service]));
        }
        for ((processor, wanted), most) in processors.iter_mut().zip(wanted).zip(&inside) {
            processor.settle(wanted.min(*most));
        }
        if moved < STANDS && step >= STEPS.start {
            break;
        }
    }
    rate
}

/// Who can be at each service at once: threads of all its callers, clients among them.
fn callers(network: &Network, n: f64, pool: &dyn Fn(usize) -> Option<f64>) -> Vec<f64> {
    let mut all = vec![0.0_f64; network.services.len()];
    for call in &network.clients[0].mix {
        all[call.service] += n;
    }
    for (service, one) in network.services.iter().enumerate() {
        // Who gives its thread up while it waits has as many requests under way as there are.
        let most = if one.keeps_thread { pool(service).unwrap_or(n) } else { n };
        for endpoint in &one.endpoints {
            visit_calls(&endpoint.steps, &mut |call| all[call.service] += most);
        }
    }
    all.into_iter().map(|callers| callers.clamp(1.0, n.max(1.0))).collect()
}

fn visit_calls(steps: &[Step], tell: &mut dyn FnMut(&Call)) {
    for step in steps {
        match step {
            Step::Call(call) => tell(call),
            Step::OneOf(calls) | Step::Together(calls) => calls.iter().for_each(&mut *tell),
            Step::Cached { miss, .. } => visit_calls(miss, tell),
            // Nobody waits for what is only told.
            Step::Tell(_) | Step::Cpu(_) | Step::Locked { .. } | Step::Wait(_) => {}
        }
    }
}

/// Mean time that the steps of a visit take besides computing.
fn steps_ns(steps: &[Step], answer: &dyn Fn(&Call) -> f64) -> f64 {
    let mean = |call: &Call| call.share * f64::from(call.repeat) * answer(call);
    steps
        .iter()
        .map(|step| match step {
            Step::Call(call) => mean(call),
            Step::OneOf(calls) => calls.iter().map(mean).sum(),
            // The longest of the means, which is short of the mean of the longest.
            Step::Together(calls) => calls.iter().map(mean).fold(0.0, f64::max),
            Step::Wait(law) => law.mean_ns(),
            // CPU time of a miss is part of the visit's.
            Step::Cached { miss, .. } => steps_ns(miss, answer),
            Step::Tell(_) | Step::Cpu(_) | Step::Locked { .. } => 0.0,
        })
        .sum()
}
