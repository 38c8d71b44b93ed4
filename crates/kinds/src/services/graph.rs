//! From the services of a plan to the network that is simulated: names looked up, numbers checked.

use super::change::{Change, What};
use super::plan::{
    BalancePlan, CallPlan, ChangePlan, DisciplinePlan, LawPlan, ServicePlan, ServicesPlan,
    StepPlan, TimePlan,
};
use cavy_core::Span;
use cavy_lab::services::{
    Arriving, Balance, Cache, Call, Clients, Discipline, Endpoint, Host, Law, Lock, Network, Place,
    Pool, Quota, Service, Step,
};
use cavy_study::plan::PlanError;

/// Services at most.
const SERVICES_MAX: usize = 1_000;
/// Times at most, in microseconds: an hour.
const US_MAX: f64 = 3.6e9;

/// A span of `us` microseconds, which may be zero.
pub fn span(field: &str, us: f64) -> Result<Span, PlanError> {
    match Span::try_from_us(us) {
        Some(span) if us <= US_MAX => Ok(span),
        _ => Err(PlanError::field(field, us, "0 to 3.6e9 microseconds")),
    }
}

/// A span above zero.
pub fn length(field: &str, us: f64) -> Result<Span, PlanError> {
    match span(field, us)? {
        Span::ZERO => Err(PlanError::field(field, us, "above 0")),
        span => Ok(span),
    }
}

/// A share.
pub fn ratio(field: &str, value: f64) -> Result<f64, PlanError> {
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(PlanError::field(field, value, "0 to 1"))
    }
}

/// A law of times; `None` for no time at all.
pub fn law(field: &str, plan: &TimePlan) -> Result<Option<Law>, PlanError> {
    let mean = |us: f64| -> Result<f64, PlanError> { Ok(length(field, us)?.as_ns() as f64) };
    let law = match plan {
        TimePlan::Us(us) | TimePlan::Law(LawPlan::Constant { us }) => {
            match span(field, *us)?.as_ns() {
                0 => return Ok(None),
                ns => Law::Constant { ns },
            }
        }
        TimePlan::Law(LawPlan::Exponential { mean_us }) => {
            Law::Exponential { mean_ns: mean(*mean_us)? }
        }
        TimePlan::Law(LawPlan::Lognormal { mean_us, sigma }) => {
            Law::LogNormal { mean_ns: mean(*mean_us)?, sigma: *sigma }
        }
        TimePlan::Law(LawPlan::Uniform { low_us, high_us }) => Law::Uniform {
            low_ns: length(field, *low_us)?.as_ns(),
            high_ns: length(field, *high_us)?.as_ns(),
        },
    };
    law.check().map_err(|error| PlanError::text(format!("`{field}`: {error}")))?;
    Ok(Some(law))
}

/// Names of a plan.
struct Names<'a> {
    plan: &'a ServicesPlan,
}

impl Names<'_> {
    fn service(&self, field: &str, name: &str) -> Result<usize, PlanError> {
        let all = &self.plan.services;
        all.iter().position(|one| one.name == name).ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|one| one.name.as_str()).take(20).collect();
            PlanError::text(format!("`{field}` names the service `{name}`, which does not exist"))
                .hint(format!("services are: {}", known.join(", ")))
        })
    }

    fn endpoint(&self, field: &str, service: usize, name: &str) -> Result<usize, PlanError> {
        let one = &self.plan.services[service];
        one.endpoints.iter().position(|endpoint| endpoint.name == name).ok_or_else(|| {
            let known: Vec<&str> = one.endpoints.iter().map(|e| e.name.as_str()).collect();
            let error = PlanError::text(format!(
                "`{field}` names the endpoint `{name}` of `{}`, which does not exist",
                one.name
            ));
            match known.is_empty() {
                true => error.hint("it has `steps` and no `endpoints`: call it by its name alone"),
                false => error.hint(format!("endpoints are: {}", known.join(", "))),
            }
        })
    }

    /// `name` or `name.endpoint`.
    fn target(&self, field: &str, text: &str) -> Result<(usize, usize), PlanError> {
        if self.plan.services.iter().any(|one| one.name == text) {
            return Ok((self.service(field, text)?, 0));
        }
        match text.rsplit_once('.') {
            Some((service, endpoint)) => {
                let service = self.service(field, service)?;
                Ok((service, self.endpoint(field, service, endpoint)?))
            }
            None => self.service(field, text).map(|service| (service, 0)),
        }
    }
}

/// The optional keys of a call.
struct Options {
    repeat: Option<u16>,
    share: Option<f64>,
    timeout_us: Option<f64>,
    retries: Option<u16>,
}

impl Names<'_> {
    fn call(&self, field: &str, text: &str, options: Options) -> Result<Call, PlanError> {
        let (service, endpoint) = self.target(field, text)?;
        let timeout = options.timeout_us.map(|us| length(&format!("{field}.timeout_us"), us));
        Ok(Call {
            service,
            endpoint,
            repeat: options.repeat.unwrap_or(1),
            share: ratio(&format!("{field}.share"), options.share.unwrap_or(1.0))?,
            timeout: timeout.transpose()?,
            retries: options.retries.unwrap_or(0),
        })
    }

    fn calls(&self, field: &str, plans: &[CallPlan]) -> Result<Vec<Call>, PlanError> {
        let call = |(index, plan): (usize, &CallPlan)| {
            let options = Options {
                repeat: plan.repeat,
                share: plan.share,
                timeout_us: plan.timeout_us,
                retries: plan.retries,
            };
            self.call(&format!("{field}.{index}"), &plan.call, options)
        };
        plans.iter().enumerate().map(call).collect()
    }

    fn steps(
        &self,
        field: &str,
        owner: &ServicePlan,
        plans: &[StepPlan],
    ) -> Result<Vec<Step>, PlanError> {
        let mut steps = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            let field = format!("{field}.{index}");
            steps.extend(self.step(&field, owner, plan)?);
        }
        Ok(steps)
    }

    fn step(
        &self,
        field: &str,
        owner: &ServicePlan,
        plan: &StepPlan,
    ) -> Result<Option<Step>, PlanError> {
        let set = [
            ("cpu", plan.cpu.is_some()),
            ("call", plan.call.is_some()),
            ("one_of", !plan.one_of.is_empty()),
            ("together", !plan.together.is_empty()),
            ("tell", plan.tell.is_some()),
            ("wait", plan.wait.is_some()),
            ("cache", plan.cache.is_some()),
        ];
        let set: Vec<&str> = set.iter().filter(|(_, set)| *set).map(|(key, _)| *key).collect();
        if set.len() != 1 {
            let found = if set.is_empty() { "none".to_string() } else { set.join(" and ") };
            return Err(PlanError::field(field, format!("a step with {found}"), "one thing")
                .hint("give one of cpu, call, one_of, together, tell, wait, cache"));
        }
        let options = || Options {
            repeat: plan.repeat,
            share: plan.share,
            timeout_us: plan.timeout_us,
            retries: plan.retries,
        };
        let place = |key: &str, names: Vec<&str>, name: &str| {
            names.iter().position(|known| *known == name).ok_or_else(|| {
                let message = format!("`{field}.{key}` names `{name}`, which does not exist");
                PlanError::text(message).hint(format!("known here: {}", names.join(", ")))
            })
        };
        Ok(Some(match set[0] {
            "cpu" => {
                let key = format!("{field}.cpu");
                let Some(work) = plan.cpu.as_ref().map(|cpu| law(&key, cpu)).transpose()?.flatten()
                else {
                    return Ok(None);
                };
                match &plan.lock {
                    None => Step::Cpu(work),
                    Some(name) => {
                        let locks = owner.locks.iter().chain(&owner.spin_locks);
                        let known = locks.map(String::as_str).collect();
                        Step::Locked { lock: place("lock", known, name)?, work }
                    }
                }
            }
            "call" => {
                let text = plan.call.as_deref().unwrap_or_default();
                Step::Call(self.call(&format!("{field}.call"), text, options())?)
            }
            "tell" => {
                let text = plan.tell.as_deref().unwrap_or_default();
                Step::Tell(self.call(&format!("{field}.tell"), text, options())?)
            }
            "one_of" => {
                let calls = self.calls(&format!("{field}.one_of"), &plan.one_of)?;
                let sum: f64 = calls.iter().map(|call| call.share).sum();
                if sum > 1.0 + 1e-9 {
                    let what = format!("shares that are {sum} together");
                    return Err(PlanError::field(format!("{field}.one_of"), what, "at most 1"));
                }
                Step::OneOf(calls)
            }
            "together" => Step::Together(self.calls(&format!("{field}.together"), &plan.together)?),
            "wait" => {
                let key = format!("{field}.wait");
                match plan.wait.as_ref().map(|wait| law(&key, wait)).transpose()?.flatten() {
                    Some(time) => Step::Wait(time),
                    None => return Ok(None),
                }
            }
            _ => {
                let name = plan.cache.as_deref().unwrap_or_default();
                let known = owner.caches.iter().map(|cache| cache.name.as_str()).collect();
                let cache = place("cache", known, name)?;
                Step::Cached {
                    cache,
                    miss: self.steps(&format!("{field}.miss"), owner, &plan.miss)?,
                }
            }
        }))
    }

    fn service_of(&self, index: usize, plan: &ServicePlan) -> Result<Service, PlanError> {
        let field = |key: &str| format!("services.{}.{key}", plan.name);
        let place = match (plan.cores, &plan.host) {
            (Some(0), _) => return Err(PlanError::field(field("cores"), 0, "at least 1")),
            (Some(cores), None) => {
                Place::Own(Host { cores, discipline: discipline(plan.discipline) })
            }
            (None, Some(name)) => {
                let hosts = &self.plan.hosts;
                let host = hosts.iter().position(|host| host.name == *name).ok_or_else(|| {
                    let message =
                        format!("`{}` names `{name}`, which does not exist", field("host"));
                    let known: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
                    PlanError::text(message).hint(format!("hosts are: {}", known.join(", ")))
                })?;
                Place::On(host)
            }
            (None, None) => {
                return Err(PlanError::text(format!("service `{}` has no cores", plan.name))
                    .hint("give `cores` of its own, or the `host` on which it computes"));
            }
            (Some(_), Some(_)) => {
                return Err(PlanError::text(format!(
                    "service `{}` has `cores` of its own and a `host`",
                    plan.name
                ))
                .hint("give one of them"));
            }
        };
        if plan.replicas == 0 {
            return Err(PlanError::field(field("replicas"), 0, "at least 1"));
        }
        if plan.threads == Some(0) {
            return Err(PlanError::field(field("threads"), 0, "at least 1"));
        }
        let lock = |spins| move |_: &String| Lock { spins };
        let locks =
            plan.locks.iter().map(lock(false)).chain(plan.spin_locks.iter().map(lock(true)));
        let mut caches = Vec::new();
        for cache in &plan.caches {
            let field = field(&format!("caches.{}", cache.name));
            caches.push(match (cache.hit_ratio, cache.ttl_ms) {
                (Some(hits), None) => Cache::Ratio(ratio(&format!("{field}.hit_ratio"), hits)?),
                (None, Some(ttl_ms)) => {
                    let ttl = length(&format!("{field}.ttl_ms"), ttl_ms * 1e3)?;
                    if !(1..=10_000_000).contains(&cache.keys) {
                        let field = format!("{field}.keys");
                        return Err(PlanError::field(field, cache.keys, "1 to 10 million"));
                    }
                    Cache::Ttl { ttl, keys: cache.keys }
                }
                _ => {
                    return Err(PlanError::text(format!(
                        "`{field}` needs either `hit_ratio` or `ttl_ms`"
                    )));
                }
            });
        }
        let mut pools = Vec::new();
        for (name, &limit) in &plan.pools {
            let field = field(&format!("pools.{name}"));
            if limit == 0 {
                return Err(PlanError::field(field, 0, "at least 1"));
            }
            pools.push(Pool { service: self.service(&field, name)?, limit });
        }
        let quota = match plan.quota_ms {
            None => None,
            Some(ms) => Some(Quota {
                cpu: length(&field("quota_ms"), ms * 1e3)?,
                period: length(&field("quota_period_ms"), plan.quota_period_ms * 1e3)?,
            }),
        };
        let endpoints = match (plan.steps.is_empty(), plan.endpoints.is_empty()) {
            (false, false) => {
                return Err(PlanError::text(format!(
                    "service `{}` has both `steps` and `endpoints`",
                    plan.name
                ))
                .hint("write the steps as one of the endpoints"));
            }
            (_, true) => {
                let steps = self.steps(&field("steps"), plan, &plan.steps)?;
                vec![Endpoint { steps }]
            }
            (true, false) => {
                let one = |endpoint: &super::plan::EndpointPlan| {
                    let field = field(&format!("endpoints.{}", endpoint.name));
                    Ok(Endpoint { steps: self.steps(&field, plan, &endpoint.steps)? })
                };
                plan.endpoints.iter().map(one).collect::<Result<_, PlanError>>()?
            }
        };
        let mut background = Vec::new();
        for work in &plan.background {
            let field = field("background");
            let every = length(&format!("{field}.every_ms"), work.every_ms * 1e3)?;
            background.push((every, self.endpoint(&field, index, &work.endpoint)?));
        }
        Ok(Service {
            place,
            replicas: plan.replicas,
            balance: match plan.balance {
                BalancePlan::Turns => Balance::Turns,
                BalancePlan::Random => Balance::Random,
                BalancePlan::Least => Balance::Least,
            },
            threads: plan.threads,
            keeps_thread: plan.keeps_thread,
            backlog: plan.backlog,
            locks: locks.collect(),
            caches,
            pools,
            quota,
            background,
            endpoints,
            per_visit: span(&field("per_visit_us"), plan.per_visit_us)?,
            per_call: span(&field("per_call_us"), plan.per_call_us)?,
        })
    }

    fn clients(&self) -> Result<Clients, PlanError> {
        let plan = &self.plan.clients;
        let arriving = match (plan.population, plan.rate_per_s) {
            (Some(0), None) => {
                return Err(PlanError::field("clients.population", 0, "at least 1"));
            }
            (Some(population), None) if population <= 1_000_000 => Arriving::Closed {
                population,
                think: match &plan.think {
                    Some(think) => law("clients.think", think)?,
                    None => None,
                },
            },
            (Some(population), None) => {
                let must = "at most 1 million";
                return Err(PlanError::field("clients.population", population, must));
            }
            (None, Some(_)) if plan.think.is_some() => {
                let text = "`clients.think` goes with `clients.population`: who sends at a rate \
                            does not wait for answers";
                return Err(PlanError::text(text).hint("leave one of them out"));
            }
            (None, Some(rate)) if rate > 0.0 && rate <= 1e8 => {
                Arriving::Open { gap: Law::Exponential { mean_ns: 1e9 / rate } }
            }
            (None, Some(rate)) => {
                let must = "above 0 and at most 1e8";
                return Err(PlanError::field("clients.rate_per_s", rate, must));
            }
            _ => {
                return Err(PlanError::text("`clients` needs either `population` or `rate_per_s`"));
            }
        };
        let mix = match (&plan.call, plan.mix.is_empty()) {
            (Some(call), true) => {
                let none = Options { repeat: None, share: None, timeout_us: None, retries: None };
                vec![self.call("clients.call", call, none)?]
            }
            (None, false) => self.calls("clients.mix", &plan.mix)?,
            _ => return Err(PlanError::text("`clients` needs either `call` or `mix`")),
        };
        let sum: f64 = mix.iter().map(|call| call.share).sum();
        if (sum - 1.0).abs() > 1e-6 {
            let what = format!("shares that add up to {sum}");
            return Err(PlanError::field("clients.mix", what, "1 together"));
        }
        let mix = mix.into_iter().map(|call| Call { share: call.share / sum, ..call }).collect();
        let request = plan.request.as_ref().map(|time| law("clients.request", time)).transpose()?;
        let capacity = match (plan.cores, request.flatten()) {
            (None, None) => None,
            (Some(cores), Some(request)) if cores > 0 => Some((cores, request)),
            _ => {
                return Err(PlanError::text(
                    "only one of `clients.cores` and `clients.request` is given",
                )
                .hint(
                    "give both: the cores of the machine that makes the requests, at least 1, and \
                     the CPU time that it needs for a request",
                ));
            }
        };
        Ok(Clients { arriving, mix, capacity, virtual_time: plan.virtual_time })
    }

    fn change(&self, field: &str, plan: &ChangePlan) -> Result<Change, PlanError> {
        let keys = Change::keys(plan);
        let [key] = keys[..] else {
            let found = if keys.is_empty() { "no change".to_string() } else { keys.join(" and ") };
            return Err(PlanError::field(field, found, "one change")
                .hint("give one of faster_ratio, less_us, replicas, cores, hit_ratio"));
        };
        let service = self.service(&format!("{field}.service"), &plan.service)?;
        let owner = &self.plan.services[service];
        let find = |key: &str, name: &Option<String>, known: Vec<&str>| match name {
            None => Ok(None),
            Some(name) => match known.iter().position(|one| one == name) {
                Some(place) => Ok(Some(place)),
                None => Err(PlanError::text(format!(
                    "`{field}.{key}` names `{name}`, which `{}` does not have",
                    owner.name
                ))
                .hint(format!("it has: {}", known.join(", ")))),
            },
        };
        let locks = owner.locks.iter().chain(&owner.spin_locks).map(String::as_str).collect();
        let caches = owner.caches.iter().map(|cache| cache.name.as_str()).collect();
        let endpoints = owner.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
        let at_least_one = |key: &str, value: u16| match value {
            0 => Err(PlanError::field(format!("{field}.{key}"), 0, "at least 1")),
            value => Ok(value),
        };
        let what = match key {
            "faster_ratio" => {
                let ratio = plan.faster_ratio.unwrap_or_default();
                if !(-10.0..=1.0).contains(&ratio) {
                    let field = format!("{field}.faster_ratio");
                    return Err(PlanError::field(field, ratio, "-10 to 1")
                        .hint("it is the share of the service's time that is saved"));
                }
                What::Faster(ratio)
            }
            "less_us" => {
                let us = plan.less_us.unwrap_or_default();
                if !us.is_finite() || us.abs() > US_MAX {
                    return Err(PlanError::field(format!("{field}.less_us"), us, "a time"));
                }
                What::Less(us * 1e3)
            }
            "replicas" => What::Replicas(at_least_one(key, plan.replicas.unwrap_or_default())?),
            "cores" => {
                if owner.host.is_some() {
                    return Err(PlanError::text(format!(
                        "`{field}.cores` is set, but `{}` computes on a host",
                        owner.name
                    ))
                    .hint("a host's cores belong to all its services; change `replicas`"));
                }
                What::Cores(at_least_one(key, plan.cores.unwrap_or_default())?)
            }
            _ => {
                let cache = find("cache", &plan.cache, caches)?.unwrap_or(0);
                if owner.caches.is_empty() {
                    return Err(PlanError::text(format!(
                        "`{field}.hit_ratio` is set, but `{}` has no cache",
                        owner.name
                    )));
                }
                let hits =
                    ratio(&format!("{field}.hit_ratio"), plan.hit_ratio.unwrap_or_default())?;
                What::Hits(cache, hits)
            }
        };
        let effective_ns = match plan.effective_us {
            None => None,
            Some(us) => Some(length(&format!("{field}.effective_us"), us)?.as_ns() as f64),
        };
        Ok(Change {
            service,
            what,
            endpoint: find("endpoint", &plan.endpoint, endpoints)?,
            step: plan.step,
            lock: find("lock", &plan.lock, locks)?,
            effective_ns,
        })
    }
}

fn discipline(plan: DisciplinePlan) -> Discipline {
    match plan {
        DisciplinePlan::Fcfs => Discipline::Fcfs,
        DisciplinePlan::Sharing => Discipline::Sharing,
    }
}

/// The network of a plan.
pub fn network(plan: &ServicesPlan) -> Result<Network, PlanError> {
    let count = plan.services.len();
    if !(1..=SERVICES_MAX).contains(&count) {
        return Err(PlanError::field("services", count, "1 to 1000 services"));
    }
    for (index, one) in plan.services.iter().enumerate() {
        if plan.services[..index].iter().any(|other| other.name == one.name) {
            return Err(PlanError::text(format!("two services are called `{}`", one.name)));
        }
    }
    let names = Names { plan };
    let mut hosts = Vec::new();
    for host in &plan.hosts {
        if host.cores == 0 {
            let field = format!("hosts.{}.cores", host.name);
            return Err(PlanError::field(field, 0, "at least 1"));
        }
        hosts.push(Host { cores: host.cores, discipline: discipline(host.discipline) });
    }
    let services = plan.services.iter().enumerate();
    let services: Vec<Service> =
        services.map(|(index, one)| names.service_of(index, one)).collect::<Result<_, _>>()?;
    let network =
        Network { hosts, services, clients: vec![names.clients()?], hop: law("hop", &plan.hop)? };
    network.check().map_err(|error| {
        let who = match plan.services.get(error.service) {
            Some(one) => format!("service `{}`", one.name),
            None => "`clients`".to_string(),
        };
        PlanError::text(format!("{who} {}", error.what))
    })?;
    Ok(network)
}

/// The changes of a plan.
pub fn changes(plan: &ServicesPlan, network: &Network) -> Result<Vec<Change>, PlanError> {
    let names = Names { plan };
    let mut all = vec![names.change("whatif", &plan.whatif)?];
    if plan.whatif.also.len() > 3 {
        let count = plan.whatif.also.len();
        return Err(PlanError::field("whatif.also", count, "at most 3 further changes"));
    }
    for (index, also) in plan.whatif.also.iter().enumerate() {
        let field = format!("whatif.also.{index}");
        if !also.also.is_empty() {
            return Err(PlanError::text(format!("`{field}.also` has no meaning"))
                .hint("write all further changes in `whatif.also`"));
        }
        all.push(names.change(&field, also)?);
    }
    let demands = network.demands().map_err(|error| PlanError::text(error.to_string()))?;
    for (index, change) in all.iter().enumerate() {
        let name = &plan.services[change.service].name;
        if all[..index].iter().any(|other| other.service == change.service) {
            return Err(PlanError::text(format!("`whatif` changes `{name}` twice")));
        }
        if demands[change.service].visits <= 0.0 {
            return Err(PlanError::text(format!(
                "`whatif` changes `{name}`, which no request ever visits"
            ))
            .hint("choose a service that is called, or call it"));
        }
        let scope = change.scope_ns(network);
        match change.what {
            What::Less(ns) => {
                let most = scope.iter().copied().fold(0.0, f64::max);
                if ns > most * (1.0 + 1e-9) {
                    return Err(PlanError::field(
                        "whatif.less_us",
                        ns / 1e3,
                        "at most the CPU time that it takes",
                    )
                    .hint(format!(
                        "the part of `{name}` that is changed takes {} us for a visit",
                        most / 1e3
                    )));
                }
            }
            What::Faster(_) if scope.iter().all(|ns| *ns == 0.0) => {
                return Err(PlanError::text(format!(
                    "`whatif` makes nothing of `{name}` faster: the part that it selects uses no \
                     CPU time"
                ))
                .hint("look at `lock`, `endpoint` and `step` of the change"));
            }
            _ => {}
        }
    }
    Ok(all)
}
