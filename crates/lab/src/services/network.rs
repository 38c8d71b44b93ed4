//! What there is: hosts, services with their steps, clients.

use cavy_core::Span;
use cavy_workload::Service as Distribution;
use core::fmt;

/// How long something takes: a distribution of times.
pub type Law = Distribution;

/// A network of services and the clients that use it. Services are numbered as they stand in the
/// list.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Machines whose cores several services share.
    pub hosts: Vec<Host>,
    /// The services.
    pub services: Vec<Service>,
    /// The populations of clients. Each is a group of its own, numbered behind the replicas.
    pub clients: Vec<Clients>,
    /// Time of a message on its way; `None` for none.
    pub hop: Option<Law>,
}

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its cores, at least 1.
    pub cores: u16,
    /// Who computes.
    pub discipline: Discipline,
}

/// Which of the threads that are ready compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Discipline {
    /// First come, first served, to the end of the step.
    #[default]
    Fcfs,
    /// All at the same rate, none at more than one core.
    Sharing,
}

/// Where the replicas of a service compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Each replica has cores of its own.
    Own(Host),
    /// All replicas compute on this host of the network.
    On(usize),
}

/// Which replica serves a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Balance {
    /// One after the other.
    #[default]
    Turns,
    /// Any, by the call's own random number.
    Random,
    /// The one with the fewest calls under way, the first of several.
    Least,
}

/// A service.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Where it computes.
    pub place: Place,
    /// Replicas, at least 1; each is a process group.
    pub replicas: u16,
    /// Which replica serves a call.
    pub balance: Balance,
    /// Threads of a replica that serve requests; `None` for as many as there are requests.
    pub threads: Option<u32>,
    /// Does a request keep its thread while it waits for what it called?
    pub keeps_thread: bool,
    /// Requests that may wait for a thread, for each replica; more are refused. `None`: no limit.
    pub backlog: Option<u32>,
    /// Locks of each replica.
    pub locks: Vec<Lock>,
    /// Caches of each replica.
    pub caches: Vec<Cache>,
    /// Limits on calls under way.
    pub pools: Vec<Pool>,
    /// Limit on CPU time.
    pub quota: Option<Quota>,
    /// What each replica does every so often besides serving: period and endpoint.
    pub background: Vec<(Span, usize)>,
    /// What can be asked of it, numbered as they stand in the list.
    pub endpoints: Vec<Endpoint>,
    /// CPU time of each visit besides its steps, paid at its beginning.
    pub per_visit: Span,
    /// CPU time of each call of another service, paid by the caller before it calls.
    pub per_call: Span,
}

impl Service {
    /// A service on `cores` cores of its own, first come first served, that does `steps`.
    pub fn new(cores: u16, steps: Vec<Step>) -> Self {
        Service {
            place: Place::Own(Host { cores, discipline: Discipline::Fcfs }),
            replicas: 1,
            balance: Balance::Turns,
            threads: None,
            keeps_thread: true,
            backlog: None,
            locks: Vec::new(),
            caches: Vec::new(),
            pools: Vec::new(),
            quota: None,
            background: Vec::new(),
            endpoints: vec![Endpoint { steps }],
            per_visit: Span::ZERO,
            per_call: Span::ZERO,
        }
    }
}

/// A lock of one replica, first come first served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Does who waits for it keep its core, and burn CPU time?
    pub spins: bool,
}

/// A cache of one replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cache {
    /// This share of lookups hits, 0 to 1.
    Ratio(f64),
    /// Entries grow old on the wall: a lookup of one of `keys` hits when somebody filled it at most
    /// `ttl` ago.
    Ttl {
        /// How long an entry is good.
        ttl: Span,
        /// Different entries, all as likely, at least 1.
        keys: u32,
    },
}

/// A limit on the calls of another service that one replica may have under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The service called.
    pub service: usize,
    /// Calls at a time, at least 1.
    pub limit: u32,
}

/// A limit on the CPU time of each replica, as containers have it. The period begins anew on the
/// wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// CPU time of a period.
    pub cpu: Span,
    /// Length of a period.
    pub period: Span,
}

/// What a service does for one kind of request.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Endpoint {
    /// One after the other.
    pub steps: Vec<Step>,
}

/// A step of a visit.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Computes.
    Cpu(Law),
    /// Computes while it holds a lock.
    Locked {
        /// Which lock of the service.
        lock: usize,
        /// How long.
        work: Law,
    },
    /// Calls, one after the other, and waits for each answer.
    Call(Call),
    /// At most one of these calls, each with its share; the shares are at most 1 together.
    OneOf(Vec<Call>),
    /// All of these calls at once, and waits until all have answered.
    Together(Vec<Call>),
    /// Calls and does not wait.
    Tell(Call),
    /// Waits for something that is no CPU: a disk, a service elsewhere. Goes on while the group is
    /// frozen.
    Wait(Law),
    /// Looks something up, and does `miss` when it is not there.
    Cached {
        /// Which cache of the service.
        cache: usize,
        /// What a miss costs.
        miss: Vec<Step>,
    },
}

/// A call of another service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// The service called.
    pub service: usize,
    /// Its endpoint.
    pub endpoint: usize,
    /// How often, one after the other.
    pub repeat: u16,
    /// Share of visits that make the call, 0 to 1.
    pub share: f64,
    /// How long the caller waits at most; `None` for ever.
    pub timeout: Option<Span>,
    /// How often it tries again after a failure. A call that fails for good fails the visit that
    /// made it.
    pub retries: u16,
}

impl Call {
    /// One call of the first endpoint of `service`, always.
    pub fn once(service: usize) -> Self {
        Call { service, endpoint: 0, repeat: 1, share: 1.0, timeout: None, retries: 0 }
    }
}

/// How requests of clients come about.
#[derive(Clone, Debug, PartialEq)]
pub enum Arriving {
    /// Each of so many clients asks, waits for the answer, thinks, and asks again.
    Closed {
        /// Clients, at least 1.
        population: u32,
        /// Time between an answer and the next request; `None` for none.
        think: Option<Law>,
    },
    /// Requests come whatever becomes of them, with these gaps.
    Open {
        /// Time between two arrivals.
        gap: Law,
    },
}

/// A population of clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Clients {
    /// How their requests come about.
    pub arriving: Arriving,
    /// What they ask: one of these, by share. The shares are 1 together.
    pub mix: Vec<Call>,
    /// Cores of the machine that makes the requests, and CPU time of one; `None` when it is no
    /// limit.
    pub capacity: Option<(u16, Law)>,
    /// Do waits and gaps stand while the population is frozen? Otherwise the wall goes on, and what
    /// came due happens when the population goes on.
    pub virtual_time: bool,
}

/// Why a network cannot be simulated: where, what is wrong there, and what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkError {
    /// The service, or for clients one behind the last service.
    pub service: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service {}: {}", self.service, self.what)
    }
}

impl core::error::Error for NetworkError {}

impl Network {
    /// Groups in all: replicas in the order of services, then populations of clients.
    pub fn groups(&self) -> u32 {
        let replicas: u32 = self.services.iter().map(|one| u32::from(one.replicas)).sum();
        replicas + self.clients.len() as u32
    }

    /// The groups of `service`.
    pub fn groups_of(&self, service: usize) -> core::ops::Range<u32> {
        let before = self.services[..service].iter().map(|one| u32::from(one.replicas)).sum();
        before..before + u32::from(self.services[service].replicas)
    }

    /// The group of a population of clients.
    pub fn group_of_clients(&self, clients: usize) -> u32 {
        self.groups() - self.clients.len() as u32 + clients as u32
    }

    /// Cores of one replica of `service`; on a host, those of the host.
    pub fn cores(&self, service: usize) -> u16 {
        match self.services[service].place {
            Place::Own(host) => host.cores,
            Place::On(host) => self.hosts[host].cores,
        }
    }

    /// Whether a world can run it.
    ///
    /// # Errors
    /// The first mistake: a service, endpoint, lock, cache or host that there is not, a law that is
    /// none, shares that are none, or calls in a circle that never ends.
    pub fn check(&self) -> Result<(), NetworkError> {
        super::program::Program::new(self).map(drop)
    }

    /// Mean visits to each service for one request of the clients, and mean CPU time of each
    /// service for it in nanoseconds. Retries and time-outs are not counted, nor what goes on in
    /// the background; a cache by age counts as if it never hit.
    ///
    /// # Errors
    /// When visits grow without end: services call each other in a circle.
    ///
    /// # Panics
    /// When a call names a service, endpoint or cache that there is not, which [`Network::check`]
    /// finds.
    pub fn demands(&self) -> Result<Vec<Demand>, NetworkError> {
        let count = self.services.len();
        let mut visits: Vec<Vec<f64>> =
            self.services.iter().map(|one| vec![0.0; one.endpoints.len()]).collect();
        let mut fresh = visits.clone();
        let share: f64 = self.clients.iter().flat_map(|one| &one.mix).map(|call| call.share).sum();
        for call in self.clients.iter().flat_map(|one| &one.mix) {
            fresh[call.service][call.endpoint] += call.share / share;
        }
        // Level by level: a tree of calls has at most as many levels as there are endpoints, and a
        // circle that ends by chance dies out.
        for level in 0.. {
            let mut next: Vec<Vec<f64>> = visits.iter().map(|one| vec![0.0; one.len()]).collect();
            let mut most = (0.0, 0);
            for service in 0..count {
                for endpoint in 0..fresh[service].len() {
                    let times = fresh[service][endpoint];
                    visits[service][endpoint] += times;
                    if times > most.0 {
                        most = (times, service);
                    }
                    if times > 0.0 {
                        let owner = &self.services[service];
                        calls(owner, &owner.endpoints[endpoint].steps, times, &mut next);
                    }
                }
            }
            if most.0 < 1e-12 {
                break;
            }
            if level > 10_000 || most.0 > 1e9 {
                let what = "is called in a circle that never ends".to_string();
                return Err(NetworkError { service: most.1, what });
            }
            fresh = next;
        }
        let demand = |(service, visits): (&Service, Vec<f64>)| {
            let cpu_ns = service.endpoints.iter().zip(&visits);
            let cpu_ns: f64 = cpu_ns.map(|(one, times)| times * cpu_of(service, &one.steps)).sum();
            let all: f64 = visits.iter().sum();
            Demand {
                cpu_ns: cpu_ns + all * service.per_visit.as_ns() as f64,
                visits: all,
                by_endpoint: visits,
            }
        };
        Ok(self.services.iter().zip(visits).map(demand).collect())
    }
}

/// What one request of the clients asks of a service, on average.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Visits.
    pub visits: f64,
    /// Visits to each endpoint.
    pub by_endpoint: Vec<f64>,
    /// CPU time, in nanoseconds.
    pub cpu_ns: f64,
}

/// Adds the calls that `steps`, done `times` times, make to `next`.
fn calls(service: &Service, steps: &[Step], times: f64, next: &mut [Vec<f64>]) {
    for step in steps {
        match step {
            Step::Call(call) | Step::Tell(call) => {
                next[call.service][call.endpoint] += times * call.share * f64::from(call.repeat);
            }
            Step::OneOf(calls) | Step::Together(calls) => {
                for call in calls {
                    let often = times * call.share * f64::from(call.repeat);
                    next[call.service][call.endpoint] += often;
                }
            }
            Step::Cached { cache, miss } => {
                calls(service, miss, times * misses(service, *cache), next);
            }
            Step::Cpu(_) | Step::Locked { .. } | Step::Wait(_) => {}
        }
    }
}

fn misses(service: &Service, cache: usize) -> f64 {
    match service.caches[cache] {
        Cache::Ratio(hits) => 1.0 - hits,
        Cache::Ttl { .. } => 1.0,
    }
}

/// Mean CPU time of `steps`, calls of others included as far as the caller pays for them.
fn cpu_of(service: &Service, steps: &[Step]) -> f64 {
    let call_ns = service.per_call.as_ns() as f64;
    let of_calls = |calls: &[Call]| -> f64 {
        calls.iter().map(|call| call.share * f64::from(call.repeat) * call_ns).sum()
    };
    steps
        .iter()
        .map(|step| match step {
            Step::Cpu(work) | Step::Locked { work, .. } => work.mean_ns(),
            Step::Call(call) | Step::Tell(call) => of_calls(core::slice::from_ref(call)),
            Step::OneOf(calls) | Step::Together(calls) => of_calls(calls),
            Step::Wait(_) => 0.0,
            Step::Cached { cache, miss } => misses(service, *cache) * cpu_of(service, miss),
        })
        .sum()
}
