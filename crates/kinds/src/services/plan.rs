//! Plans for services as they are written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Services that call each other, a change to one of them, and methods that predict what it gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServicesPlan {
    /// Machines whose cores several services share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostPlan>,
    /// The services, 1 to 1000.
    pub services: Vec<ServicePlan>,
    /// Who asks, and what.
    pub clients: ClientsPlan,
    /// Time of a message from one service to another, one way.
    #[serde(default = "default_hop")]
    pub hop: TimePlan,
    /// The change whose effect is predicted.
    pub whatif: ChangePlan,
    /// What goes wrong with stopping services. Default: stops are exact.
    #[serde(default)]
    pub stops: StopsPlan,
    /// How much one deployment of the services differs from the next. Default: not at all.
    #[serde(default)]
    pub deployments: DeploymentsPlan,
    /// The methods to compare.
    pub methods: Vec<MethodPlan>,
    /// How long a replication is.
    #[serde(default)]
    pub run: ServicesRun,
}

fn default_hop() -> TimePlan {
    TimePlan::Us(100.0)
}

/// How long a replication is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServicesRun {
    /// Requests measured of each system: unchanged, changed, and slowed. At least 100.
    pub requests: u64,
    /// Requests before that, which are not measured. Default: 30 for each client, and 1000. Where
    /// two services are nearly as busy, their queues need long to find their lengths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_requests: Option<u64>,
}

impl Default for ServicesRun {
    fn default() -> Self {
        ServicesRun { requests: 20_000, warmup_requests: None }
    }
}

/// A time: a number of microseconds, or a distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "microseconds such as 500, or a distribution such as { dist = \"exponential\", \
                 mean_us = 500 }"
)]
pub enum TimePlan {
    /// Always so many microseconds.
    Us(f64),
    /// A distribution.
    Law(LawPlan),
}

/// A distribution of times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "dist", rename_all = "snake_case", deny_unknown_fields)]
pub enum LawPlan {
    /// Always the same.
    Constant {
        /// The time.
        us: f64,
    },
    /// Memoryless.
    Exponential {
        /// Mean.
        mean_us: f64,
    },
    /// The logarithm is normal.
    Lognormal {
        /// Mean of the time itself.
        mean_us: f64,
        /// Standard deviation of the logarithm, 0 to 8.
        sigma: f64,
    },
    /// Anything between two values.
    Uniform {
        /// The least.
        low_us: f64,
        /// The most.
        high_us: f64,
    },
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostPlan {
    /// Its name.
    pub name: String,
    /// Its cores, at least 1.
    pub cores: u16,
    /// Which of the threads that are ready compute.
    #[serde(default = "sharing")]
    pub discipline: DisciplinePlan,
}

fn sharing() -> DisciplinePlan {
    DisciplinePlan::Sharing
}

/// Which of the threads that are ready compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DisciplinePlan {
    /// First come, first served, to the end of the step.
    #[default]
    Fcfs,
    /// All at the same rate, none at more than one core.
    Sharing,
}

/// Which replica serves a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BalancePlan {
    /// One after the other.
    #[default]
    Turns,
    /// Any.
    Random,
    /// The one with the fewest calls under way.
    Least,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServicePlan {
    /// Its name, different from the others'.
    pub name: String,
    /// Cores of each replica, its own. Give these or `host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u16>,
    /// The host on whose cores all replicas compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Which of its threads compute, on cores of its own.
    #[serde(default)]
    pub discipline: DisciplinePlan,
    /// Replicas, at least 1.
    #[serde(default = "one")]
    pub replicas: u16,
    /// Which replica serves a call.
    #[serde(default)]
    pub balance: BalancePlan,
    /// Threads of a replica that serve requests. Default: as many as there are requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Does a request keep its thread while it waits for what it called?
    #[serde(default = "yes")]
    pub keeps_thread: bool,
    /// Requests that may wait for a thread of a replica; more are refused. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u32>,
    /// Names of locks; who waits for one leaves its core.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<String>,
    /// Names of locks; who waits for one keeps its core and burns CPU time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spin_locks: Vec<String>,
    /// Caches of a replica.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CachePlan>,
    /// Calls under way from a replica at most, by the name of the service called.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<String, u32>,
    /// CPU time that a replica may use in each period of 100 ms, in milliseconds. Default: no
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_ms: Option<f64>,
    /// Length of that period in milliseconds.
    #[serde(default = "default_period_ms")]
    pub quota_period_ms: f64,
    /// What each replica does every so often besides serving.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<BackgroundPlan>,
    /// CPU time of each visit besides its steps, microseconds.
    #[serde(default)]
    pub per_visit_us: f64,
    /// CPU time of each call that it makes, microseconds.
    #[serde(default)]
    pub per_call_us: f64,
    /// What it does for a request. Give these or `endpoints`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepPlan>,
    /// What it does for several kinds of requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<EndpointPlan>,
}

fn one() -> u16 {
    1
}

fn yes() -> bool {
    true
}

fn default_period_ms() -> f64 {
    100.0
}

/// A cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CachePlan {
    /// Its name.
    pub name: String,
    /// Share of lookups that hit, 0 to 1. Give this or `ttl_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_ratio: Option<f64>,
    /// How long an entry is good, on the wall, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<f64>,
    /// Different entries behind `ttl_ms`, all as likely.
    #[serde(default = "one_key")]
    pub keys: u32,
}

fn one_key() -> u32 {
    1
}

/// Work that no request asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackgroundPlan {
    /// How often, in milliseconds.
    pub every_ms: f64,
    /// The endpoint whose steps are done.
    pub endpoint: String,
}

/// One kind of request of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointPlan {
    /// Its name.
    pub name: String,
    /// What is done, one after the other.
    pub steps: Vec<StepPlan>,
}

/// A step: exactly one of `cpu`, `call`, `one_of`, `together`, `tell`, `wait` and `cache`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StepPlan {
    /// Computes, for a time in microseconds or drawn from a distribution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<TimePlan>,
    /// The lock that is held while it computes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// Calls a service, `name` or `name.endpoint`, and waits for the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Calls at most one of these, each with its share.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<CallPlan>,
    /// Calls all of these at once and waits for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<CallPlan>,
    /// Calls a service and does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tell: Option<String>,
    /// Waits for something that is no CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<TimePlan>,
    /// Looks something up in this cache, and does `miss` when it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// What a miss of the cache costs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub miss: Vec<StepPlan>,
    /// How often `call` or `tell` calls, one after the other. Default: once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u16>,
    /// Share of visits in which `call` or `tell` calls, 0 to 1. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// How long `call` waits at most, microseconds. Default: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_us: Option<f64>,
    /// How often `call` is tried again after a failure. Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u16>,
}

/// A call among others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallPlan {
    /// The service, `name` or `name.endpoint`.
    pub call: String,
    /// Its share, 0 to 1. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// How often. Default: once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u16>,
    /// How long the caller waits at most, microseconds. Default: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_us: Option<f64>,
    /// How often it is tried again after a failure. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u16>,
}

/// Who asks: a closed population, or requests that come whatever happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientsPlan {
    /// Clients that ask, wait for the answer, think, and ask again. Give these or `rate_per_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub population: Option<u32>,
    /// Time between an answer and the next request. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<TimePlan>,
    /// Requests a second, Poisson.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// The service asked, `name` or `name.endpoint`. Give this or `mix`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// What is asked, with shares that add up to 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mix: Vec<CallPlan>,
    /// Cores of the machine that makes the requests. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u16>,
    /// CPU time of making one request. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<TimePlan>,
    /// Do thinking and arrivals stand while the clients are frozen?
    #[serde(default = "yes")]
    pub virtual_time: bool,
}

/// A change: exactly one of `faster_ratio`, `less_us`, `replicas`, `cores` and `hit_ratio`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePlan {
    /// The service that is changed.
    pub service: String,
    /// Share of the CPU time of its steps that is saved, up to 1; below 0 it becomes slower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faster_ratio: Option<f64>,
    /// CPU time that is saved at each visit, microseconds; below 0 it becomes slower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub less_us: Option<f64>,
    /// Replicas that it has then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u16>,
    /// Cores that each replica has then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u16>,
    /// Share of lookups of `cache` that hit then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_ratio: Option<f64>,
    /// The cache behind `hit_ratio`. Default: its only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// Only the work done while this lock is held becomes faster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// Only this endpoint becomes faster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Only this step becomes faster, counted from 0 within its endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// Time that a visit takes by measurement, microseconds, behind `replicas` and `cores`.
    /// Default: its CPU time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_us: Option<f64>,
    /// Further services that are changed with it, up to 3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<ChangePlan>,
}

/// What goes wrong with stopping services.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StopsPlan {
    /// From the wish to stop until a service stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<TimePlan>,
    /// The same for each of its threads that serve requests, microseconds.
    pub stop_per_thread_us: f64,
    /// From the wish to go on until it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub go: Option<TimePlan>,
    /// CPU time that each thread takes when its service goes on, microseconds: those that have
    /// nothing to do wake up as well. This is most of what a pause costs on shared cores; Linux
    /// takes about 8.
    #[serde(skip_serializing_if = "is_zero")]
    pub go_cpu_per_thread_us: f64,
    /// Does the controller believe at once that a service stands or goes on, as with control groups
    /// of Linux, whose threads notice later?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub told_early: bool,
    /// How late a controller's timers are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<TimePlan>,
    /// Share of these timers that are later by `stall_us`, because the controller did not get the
    /// processor, 0 to 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub stall_ratio: f64,
    /// How much later, microseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub stall_us: f64,
    /// CPU time is known only to the last multiple of this, microseconds: kernels that count by
    /// ticks. 0 for exactly.
    #[serde(skip_serializing_if = "is_zero")]
    pub usage_tick_us: f64,
    /// Time of a message between controllers. Default: exponential with a mean of 300 us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<TimePlan>,
    /// Share of messages between controllers that are lost, 0 to 1.
    pub lost_ratio: f64,
    /// Share of these messages that arrive twice, 0 to 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub doubled_ratio: f64,
}

/// Left out of a plan that is written, so that plans of before keep their digests.
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// How much one deployment of the services differs from the next: all CPU times of a deployment are
/// multiplied by one factor, normal with mean 1 and these standard deviations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeploymentsPlan {
    /// Of the changed system.
    pub truth_cv_ratio: f64,
    /// Of the slowed system, in what is predicted from it.
    pub slowed_cv_ratio: f64,
}

/// Declares methods: each has the keys that all have, then its own.
macro_rules! methods {
    ($($(#[$about:meta])* $name:ident { $($(#[$says:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// Name in tables and plots, different from the others'. Default: the method's own.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub label: Option<String>,
            $($(#[$says])* pub $field: $type,)*
        }
    )*};
}

methods! {
    /// A method without keys of its own.
    Plain {}
    /// The law of utilisation.
    Utilisation {
        /// Which CPU times it goes by.
        #[serde(default)]
        times: TimesPlan,
        /// CPU time of each visit behind `costs`, microseconds.
        #[serde(default)]
        visit_us: f64,
        /// CPU time of each call behind `costs`, microseconds.
        #[serde(default)]
        call_us: f64,
    }
    /// Mean value analysis.
    Mva {
        /// Which form.
        #[serde(default)]
        form: FormPlan,
    }
    /// Pauses that nobody coordinates.
    Uncoordinated {
        /// A service stops once its requests have cost more than this, microseconds; 0 stops at
        /// every request.
        #[serde(default = "default_threshold_us")]
        threshold_us: f64,
    }
    /// Slowpoke as published.
    Slowpoke {
        /// Requests of the target between two pauses.
        #[serde(default = "default_batch")]
        batch: u32,
        /// Exact pauses instead of whole microseconds, and all replicas reached.
        #[serde(default)]
        exact: bool,
    }
    /// The rule of Coz.
    Coz {
        /// Is who was blocked credited the delays inserted meanwhile, as within a process? Across
        /// services nobody knows who woke whom.
        #[serde(default = "yes")]
        credits: bool,
        /// CPU time of the target for a sample, microseconds.
        #[serde(default = "default_sample_us")]
        sample_us: f64,
        /// Samples that are worked off together.
        #[serde(default = "default_samples")]
        batch: u32,
        /// How often services are looked at, microseconds.
        #[serde(default = "default_look_us")]
        tick_us: f64,
    }
    /// One controller for all.
    Governor {
        /// What its debt grows with.
        #[serde(default)]
        mode: ModePlan,
        /// Visits of the target for each pause, in `count` mode. Default: a third of the clients,
        /// 100 at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<u32>,
        /// The shortest pause, microseconds. Default: what `batch` visits come to in `count` mode,
        /// else 2000.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pause_us: Option<f64>,
        /// The longest pause, microseconds. Default: ten times the shortest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pause_max_us: Option<f64>,
        /// How often usage of the target is read, microseconds. Default: 1000, or half of the
        /// shortest pause.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tick_us: Option<f64>,
        /// Are the clients frozen as well?
        #[serde(default = "yes")]
        freezes_clients: bool,
        /// Servers of what bounds the target. Default: all its cores, or 1 with `whatif.lock`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parallel: Option<u32>,
    }
}

fn default_threshold_us() -> f64 {
    20_000.0
}

fn default_batch() -> u32 {
    100
}

fn default_sample_us() -> f64 {
    1_000.0
}

fn default_samples() -> u32 {
    10
}

fn default_look_us() -> f64 {
    100.0
}

/// Which CPU times the law of utilisation goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimesPlan {
    /// Measured on the unchanged system.
    #[default]
    Measured,
    /// Those of the steps, with one overhead of each visit so that the law gives the unchanged
    /// throughput.
    Overhead,
    /// Those of the steps, with given costs of visits and calls.
    Costs,
    /// Those of the steps.
    Configured,
}

/// Which form of mean value analysis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FormPlan {
    /// Exact, for several servers at a station.
    #[default]
    Exact,
    /// Several servers as one fast server and a delay.
    Seidmann,
    /// The same, for populations too large to count up to.
    BardSchweitzer,
}

/// What a Governor's debt grows with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModePlan {
    /// Visits of the target.
    Count,
    /// CPU time of the target over its cores.
    Clock,
    /// Time in which the target is busy at all.
    Busy,
    /// CPU time that the target got while all others stood.
    #[default]
    Delivered,
}

/// A method that predicts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "method", rename_all = "snake_case")]
pub enum MethodPlan {
    /// Nothing changes: what there is now is what there will be.
    NoChange(Plain),
    /// The law of utilisation: the busiest station bounds throughput.
    Utilisation(Utilisation),
    /// Mean value analysis with measured CPU times.
    Mva(Mva),
    /// Layered queueing with measured CPU times: threads are held while their requests wait for
    /// answers, so a pool of threads can bind where no core is busy.
    Layered(Plain),
    /// Other services sleep in their handlers instead of stopping: shows why that is not enough.
    Sleep(Plain),
    /// Each service stops itself whenever its own requests have cost enough: Slowpoke's
    /// predecessor.
    Uncoordinated(Uncoordinated),
    /// Slowpoke as published: the target counts, and floods a pause through its neighbours.
    Slowpoke(Slowpoke),
    /// Each sample of the target's CPU time obliges all other services to stand, each by itself:
    /// the rule of Coz, with services in the place of threads.
    Coz(Coz),
    /// One controller that freezes everything but the target.
    Governor(Governor),
}

impl MethodPlan {
    /// The label it was given.
    pub fn given_label(&mut self) -> &mut Option<String> {
        match self {
            MethodPlan::NoChange(own) | MethodPlan::Sleep(own) | MethodPlan::Layered(own) => {
                &mut own.label
            }
            MethodPlan::Utilisation(own) => &mut own.label,
            MethodPlan::Mva(own) => &mut own.label,
            MethodPlan::Uncoordinated(own) => &mut own.label,
            MethodPlan::Slowpoke(own) => &mut own.label,
            MethodPlan::Coz(own) => &mut own.label,
            MethodPlan::Governor(own) => &mut own.label,
        }
    }

    /// Its label: as given, or its own.
    pub fn label(&self) -> String {
        if let Some(label) = self.clone().given_label() {
            return label.clone();
        }
        match self {
            MethodPlan::NoChange(_) => "no change".to_string(),
            MethodPlan::Utilisation(own) => match own.times {
                TimesPlan::Measured => "utilisation law".to_string(),
                TimesPlan::Overhead => "utilisation law, one overhead".to_string(),
                TimesPlan::Costs => "utilisation law, costs".to_string(),
                TimesPlan::Configured => "utilisation law, configured".to_string(),
            },
            MethodPlan::Mva(own) => match own.form {
                FormPlan::Exact => "MVA".to_string(),
                FormPlan::Seidmann => "MVA, Seidmann".to_string(),
                FormPlan::BardSchweitzer => "MVA, Bard-Schweitzer".to_string(),
            },
            MethodPlan::Layered(_) => "layered queueing".to_string(),
            MethodPlan::Sleep(_) => "sleep".to_string(),
            MethodPlan::Uncoordinated(own) if own.threshold_us == 0.0 => {
                "pause a request".to_string()
            }
            MethodPlan::Uncoordinated(_) => "uncoordinated".to_string(),
            MethodPlan::Slowpoke(_) => "Slowpoke".to_string(),
            MethodPlan::Coz(own) if own.credits => "Coz".to_string(),
            MethodPlan::Coz(_) => "Coz, no credits".to_string(),
            MethodPlan::Governor(own) => match own.mode {
                ModePlan::Count => "Governor, count".to_string(),
                ModePlan::Clock => "Governor, clock".to_string(),
                ModePlan::Busy => "Governor, busy".to_string(),
                ModePlan::Delivered => "Governor, delivered".to_string(),
            },
        }
    }
}
