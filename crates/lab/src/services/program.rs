//! Steps as operations: a flat program that a visit goes through with one counter.

use super::network::{
    Arriving, Cache, Call, Clients, Law, Network, NetworkError, Place, Service, Step,
};
use cavy_core::Span;
use cavy_workload::Sampler;

/// What a visit does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Computes for the time of this law.
    Burst(u32),
    /// Takes the lock, computes for the time of this law, and lets it go.
    Locked { lock: u16, law: u32 },
    /// Makes the call, as often as it says, one after the other.
    Call(u32),
    /// Makes so many calls at once and waits for all.
    Together { first: u32, count: u32 },
    /// Makes the call and goes on.
    Tell(u32),
    /// Waits for the time of this law.
    Wait(u32),
    /// Goes on at `to` unless the place's random number lies below `share`, of 2^64.
    Unless { share: u64, to: u32 },
    /// Goes on at `to` unless the number that the operation at `of` drew lies in a range, of 2^64.
    Outside { low: u64, high: u64, of: u32, to: u32 },
    /// Goes on at `to` when the cache has it.
    Cached { cache: u16, to: u32 },
    /// The request of a client begins.
    Begin,
    /// The visit is over.
    End,
}

/// A call with everything looked up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) service: u32,
    pub(super) start: u32,
    pub(super) endpoint: u16,
    pub(super) repeat: u16,
    pub(super) retries: u16,
    /// Which call of a population's mix it is.
    pub(super) of_mix: u16,
    /// Share of visits that make it, of 2^64.
    pub(super) share: u64,
    pub(super) timeout: Span,
    /// The pool of the calling service that it goes through, or [`NO_POOL`].
    pub(super) pool: u32,
}

pub(super) const NO_POOL: u32 = u32::MAX;

/// All programs of a network.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) ops: Vec<Op>,
    pub(super) laws: Vec<Time>,
    pub(super) calls: Vec<Target>,
    /// First operation of each endpoint of each service; populations of clients follow, one
    /// endpoint each.
    pub(super) starts: Vec<Vec<u32>>,
}

/// A law that draws fast, with what is paid on top of it.
#[derive(Debug)]
pub(super) enum Time {
    Fixed(u64),
    Drawn { sampler: Sampler, extra_ns: u64 },
}

impl Time {
    pub(super) fn new(law: &Law, extra: Span) -> Time {
        match *law {
            Law::Constant { ns } => Time::Fixed(ns + extra.as_ns()),
            ref law => Time::Drawn { sampler: law.sampler(), extra_ns: extra.as_ns() },
        }
    }

    /// The time that the bits stand for.
    #[inline]
    pub(super) fn at(&self, bits: impl FnOnce() -> u64) -> Span {
        match self {
            Time::Fixed(ns) => Span::from_ns(*ns),
            Time::Drawn { sampler, extra_ns } => sampler.at(bits()) + Span::from_ns(*extra_ns),
        }
    }
}

/// A share as a bound of 64 random bits. One means always but for one draw in 2^64.
fn share_of(share: f64) -> u64 {
    (share * 18_446_744_073_709_551_616.0) as u64
}

struct Compiler<'a> {
    network: &'a Network,
    program: Program,
    /// Calls whose endpoint may not have its place yet.
    owner: usize,
    /// CPU time to be paid with the next burst.
    owed: Span,
    mistake: Option<NetworkError>,
}

impl Program {
    pub(super) fn new(network: &Network) -> Result<Program, NetworkError> {
        let mut compiler = Compiler {
            network,
            program: Program::default(),
            owner: 0,
            owed: Span::ZERO,
            mistake: None,
        };
        for (index, service) in network.services.iter().enumerate() {
            compiler.owner = index;
            compiler.service(service);
        }
        for (index, clients) in network.clients.iter().enumerate() {
            compiler.owner = network.services.len() + index;
            compiler.clients(clients);
        }
        if let Some(mistake) = compiler.mistake {
            return Err(mistake);
        }
        let Program { ops, laws, mut calls, starts } = compiler.program;
        for call in &mut calls {
            call.start = starts[call.service as usize][usize::from(call.endpoint)];
        }
        network.demands()?;
        Ok(Program { ops, laws, calls, starts })
    }
}

impl Compiler<'_> {
    fn wrong(&mut self, what: impl Into<String>) {
        let service = self.owner;
        self.mistake.get_or_insert(NetworkError { service, what: what.into() });
    }

    fn service(&mut self, service: &Service) {
        match service.place {
            Place::Own(host) if host.cores == 0 => self.wrong("has no cores"),
            Place::On(host) if host >= self.network.hosts.len() => {
                self.wrong(format!("computes on host {host}, which there is not"));
            }
            Place::On(host) if self.network.hosts[host].cores == 0 => {
                self.wrong("computes on a host without cores");
            }
            _ => {}
        }
        if service.replicas == 0 {
            self.wrong("has no replicas");
        }
        if service.threads == Some(0) {
            self.wrong("has no threads");
        }
        if service.quota.is_some_and(|q| q.cpu.is_zero() || q.period.is_zero()) {
            self.wrong("has a quota of nothing");
        }
        if service.pools.iter().any(|pool| pool.limit == 0) {
            self.wrong("has a pool without places");
        }
        let shared = match service.place {
            Place::Own(host) => host.discipline,
            Place::On(host) => {
                self.network.hosts.get(host).map_or_else(Default::default, |host| host.discipline)
            }
        };
        if service.quota.is_some() && shared == super::Discipline::Sharing {
            self.wrong(
                "has a quota on cores that are shared: only first come, first served has one",
            );
        }
        for cache in &service.caches {
            match *cache {
                Cache::Ratio(hits) if !(0.0..=1.0).contains(&hits) => {
                    self.wrong(format!("has a cache with hit ratio {hits}"));
                }
                Cache::Ttl { keys: 0, .. } => self.wrong("has a cache of no keys"),
                _ => {}
            }
        }
        for &(every, endpoint) in &service.background {
            if every.is_zero() || endpoint >= service.endpoints.len() {
                self.wrong("has background work without a period or an endpoint");
            }
        }
        let mut starts = Vec::with_capacity(service.endpoints.len());
        for endpoint in &service.endpoints {
            starts.push(self.here());
            self.owed = service.per_visit;
            self.steps(service, &endpoint.steps);
            self.pay();
            self.emit(Op::End);
        }
        self.program.starts.push(starts);
    }

    fn clients(&mut self, clients: &Clients) {
        let start = self.here();
        if let Arriving::Closed { think, population } = &clients.arriving {
            if *population == 0 {
                self.wrong("is a population of no clients");
            }
            if let Some(think) = think {
                let law = self.law(think);
                self.emit(Op::Wait(law));
            }
        }
        self.emit(Op::Begin);
        if let Some((cores, cost)) = &clients.capacity {
            if *cores == 0 {
                self.wrong("has no cores");
            }
            let law = self.law(cost);
            self.emit(Op::Burst(law));
        }
        let sum: f64 = clients.mix.iter().map(|call| call.share).sum();
        if clients.mix.is_empty() || (sum - 1.0).abs() > 1e-9 {
            self.wrong(format!("has a mix whose shares are {sum} together, not 1"));
        }
        self.one_of(None, &clients.mix);
        self.emit(Op::End);
        self.program.starts.push(vec![start]);
    }

    fn here(&self) -> u32 {
        self.program.ops.len() as u32
    }

    fn emit(&mut self, op: Op) {
        self.program.ops.push(op);
    }

    fn law(&mut self, law: &Law) -> u32 {
        if let Err(error) = law.check() {
            self.wrong(error.to_string());
        }
        let extra = core::mem::take(&mut self.owed);
        self.program.laws.push(Time::new(law, extra));
        self.program.laws.len() as u32 - 1
    }

    /// Pays what is owed, if nothing did yet.
    fn pay(&mut self) {
        let owed = core::mem::take(&mut self.owed);
        if !owed.is_zero() {
            self.program.laws.push(Time::Fixed(owed.as_ns()));
            self.emit(Op::Burst(self.program.laws.len() as u32 - 1));
        }
    }

    fn call(&mut self, service: Option<&Service>, call: &Call, of_mix: usize) -> u32 {
        let known = self.network.services.get(call.service);
        if known.is_none_or(|one| call.endpoint >= one.endpoints.len()) {
            self.wrong(format!("calls {}.{}, which there is not", call.service, call.endpoint));
            return 0;
        }
        if !(0.0..=1.0).contains(&call.share) {
            self.wrong(format!("makes a call with share {}", call.share));
        }
        let pool = service.and_then(|one| one.pools.iter().position(|p| p.service == call.service));
        self.program.calls.push(Target {
            service: call.service as u32,
            start: 0,
            endpoint: call.endpoint as u16,
            repeat: call.repeat,
            retries: call.retries,
            of_mix: of_mix as u16,
            share: share_of(call.share),
            timeout: call.timeout.unwrap_or(Span::MAX),
            pool: pool.map_or(NO_POOL, |pool| pool as u32),
        });
        self.program.calls.len() as u32 - 1
    }

    /// A call and what comes before it: its cost, and the chance that it is not made.
    fn single(&mut self, service: &Service, call: &Call, op: fn(u32) -> Op) {
        let index = self.call(Some(service), call, 0);
        let unless = self.here();
        let chance = call.share < 1.0;
        if chance {
            // What is owed from before is owed whether or not the call is made.
            self.pay();
            self.emit(Op::Unless { share: share_of(call.share), to: 0 });
        }
        self.owed += service.per_call * u64::from(call.repeat);
        self.pay();
        self.emit(op(index));
        if chance {
            let to = self.here();
            let at = (unless as usize..to as usize)
                .find(|&at| matches!(self.program.ops[at], Op::Unless { to: 0, .. }));
            if let Some(Op::Unless { to: place, .. }) = at.map(|at| &mut self.program.ops[at]) {
                *place = to;
            }
        }
    }

    /// One number, at the place of the first of these operations, decides which call is made.
    fn one_of(&mut self, service: Option<&Service>, choice: &[Call]) {
        self.pay();
        let sum: f64 = choice.iter().map(|call| call.share).sum();
        if sum > 1.0 + 1e-9 {
            self.wrong(format!("makes one of some calls whose shares are {sum} together"));
        }
        let of = self.here();
        let mut jumps = Vec::new();
        let mut low = 0.0;
        for (place, call) in choice.iter().enumerate() {
            let index = self.call(service, call, place);
            let high = low + call.share;
            let outside = self.here();
            // A sum of one misses no number, whatever the last bit of its terms.
            let high_bits = if high > 1.0 - 1e-9 { u64::MAX } else { share_of(high) };
            let sure = low == 0.0 && high_bits == u64::MAX;
            if !sure {
                self.emit(Op::Outside { low: share_of(low), high: high_bits, of, to: 0 });
            }
            if let Some(service) = service {
                self.owed += service.per_call * u64::from(call.repeat);
                self.pay();
            }
            self.emit(Op::Call(index));
            // To the end of the choice: an empty range is never entered.
            if place + 1 < choice.len() {
                jumps.push(self.here());
                self.emit(Op::Outside { low: 0, high: 0, of, to: 0 });
            }
            let next = self.here();
            if let Op::Outside { to, .. } = &mut self.program.ops[outside as usize] {
                *to = next;
            }
            low = high;
        }
        let end = self.here();
        for jump in jumps {
            if let Op::Outside { to, .. } = &mut self.program.ops[jump as usize] {
                *to = end;
            }
        }
    }

    fn steps(&mut self, service: &Service, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Cpu(work) => {
                    let law = self.law(work);
                    self.emit(Op::Burst(law));
                }
                Step::Locked { lock, work } => {
                    self.pay();
                    if *lock >= service.locks.len() {
                        self.wrong(format!("takes lock {lock}, which there is not"));
                    }
                    let law = self.law(work);
                    self.emit(Op::Locked { lock: *lock as u16, law });
                }
                Step::Call(call) => self.single(service, call, Op::Call),
                Step::Tell(call) => self.single(service, call, Op::Tell),
                Step::OneOf(calls) => self.one_of(Some(service), calls),
                Step::Together(calls) => self.together(service, calls),
                Step::Wait(time) => {
                    self.pay();
                    let law = self.law(time);
                    self.emit(Op::Wait(law));
                }
                Step::Cached { cache, miss } => {
                    self.pay();
                    if *cache >= service.caches.len() {
                        self.wrong(format!("looks into cache {cache}, which there is not"));
                        continue;
                    }
                    let at = self.here();
                    self.emit(Op::Cached { cache: *cache as u16, to: 0 });
                    self.steps(service, miss);
                    self.pay();
                    let end = self.here();
                    if let Op::Cached { to, .. } = &mut self.program.ops[at as usize] {
                        *to = end;
                    }
                }
            }
        }
    }

    fn together(&mut self, service: &Service, calls: &[Call]) {
        // The caller pays for all of them before the first leaves: on average, where they have
        // shares.
        let cost: f64 = calls.iter().map(|call| call.share * f64::from(call.repeat)).sum();
        let cost = service.per_call.as_ns() as f64 * cost;
        self.owed += Span::from_ns((cost + 0.5) as u64);
        self.pay();
        let first = self.program.calls.len() as u32;
        for call in calls {
            for _ in 0..call.repeat {
                self.call(Some(service), &Call { repeat: 1, ..*call }, 0);
            }
        }
        let count = self.program.calls.len() as u32 - first;
        self.emit(Op::Together { first, count });
    }
}
