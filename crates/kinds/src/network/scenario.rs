//! From a plan to what the packet world runs: network, transport, traffic, spans. Checks
//! everything.

use super::classes;
use super::contestant::TransportPlan;
use super::fabric::{self, Fabric};
use super::messages;
use super::plan::{NetPhasePlan, NetRunPlan, NetworkPlan};
use super::recorded::{self, Recorded};
use super::surroundings::Surroundings;
use super::traffic::{ArrivalsName, Arriving, Converging, Skewing, Striped, TrafficPlan};
use super::transport::{self, Transport};
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_lab::net::traffic::{
    Gaps, Incast, IncastTraffic, Listed, OpenLoop, OpenTraffic, Receivers, Weights,
};
use cavy_lab::net::{
    Bins, Blocks, BlocksTraffic, Ideal, Mixed, PS_PER_NS, Phases, Ps, Setup, Submission, Traffic,
};
use cavy_study::plan::{Files, PlanError};
use cavy_workload::sizes::{Framing, Sizes, payload_ratio, rate_per_s};
use std::sync::Arc;

/// Distinct sizes for which a transport's own best time is measured.
const OWN_SIZES_MAX: usize = 200;

/// Everything one run needs, apart from its seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Network, spans, bins and faults; the seed is that of the plan.
    pub setup: Setup,
    /// What carries the messages.
    pub transport: Transport,
    /// What is sent.
    pub demand: Demand,
    /// Sizes of messages, or of questions.
    pub sizes: Sizes,
    /// Messages a second of each sending host; zero for closed loops.
    pub rate_per_s: f64,
    /// Hosts that send of their own accord.
    pub senders: u32,
    /// What payload and its headers put on the busiest link of a host, as a share of its rate: what
    /// a transport sends besides comes on top. `None` where arithmetic does not say.
    pub data_load: Option<f64>,
    /// Sizes for which the transport's own best is measured; empty when it is not.
    pub own_sizes: Vec<u32>,
    /// Rate of the slowest host's link.
    pub host_bits_per_s: u64,
    /// Links from end to end, on the average.
    pub hops_mean: f64,
    /// Slowdown over time, in steps of this.
    pub timeline: Option<Span>,
    /// Find out what short messages near the 99th percentile wait for.
    pub tail_sources: bool,
    /// Names of the classes of traffic, if there are any.
    pub classes: Vec<String>,
}

/// What is sent.
#[derive(Clone, Debug)]
pub enum Demand {
    /// Messages that come whether or not earlier ones have arrived.
    Open(Box<OpenLoop>),
    /// Such messages, which change from phase to phase.
    Phased(Vec<(OpenLoop, Span)>),
    /// Classes of such messages, side by side.
    Classes(Vec<OpenLoop>),
    /// Messages that were recorded.
    Recorded(Recorded),
    /// Questions under way at a time.
    Incast(Incast),
    /// Blocks of pieces.
    Blocks(Blocks),
    /// One question after another: sizes, and how often each.
    Echo {
        /// Sizes of questions and answers.
        sizes: Vec<u32>,
        /// Questions of each.
        repeats: u32,
        /// How many hosts there are.
        hosts: u32,
    },
}

impl Demand {
    /// Are messages questions?
    pub fn asks(&self) -> bool {
        match self {
            Demand::Open(open) => open.asks,
            Demand::Phased(phases) => phases.iter().any(|(open, _)| open.asks),
            Demand::Classes(classes) => classes.iter().any(|open| open.asks),
            Demand::Recorded(_) => false,
            Demand::Incast(_) | Demand::Blocks(_) | Demand::Echo { .. } => true,
        }
    }

    /// The traffic under a seed.
    pub fn start(&self, hosts: u32, seed: u64) -> Result<Flow, PlanError> {
        match self {
            Demand::Open(open) => {
                let open = open.as_ref().clone().start(hosts, seed);
                open.map(|open| Flow::Open(Box::new(open)))
                    .map_err(|error| PlanError::text(format!("`traffic`: {error}")))
            }
            Demand::Phased(phases) => Phases::start(phases, hosts, seed)
                .map(Flow::Phased)
                .map_err(|error| PlanError::text(format!("`phases`: {error}"))),
            Demand::Classes(classes) => Mixed::start(classes, hosts, seed)
                .map(Flow::Mixed)
                .map_err(|error| PlanError::text(format!("`classes`: {error}"))),
            Demand::Recorded(recorded) => {
                let list = recorded.messages.iter().copied();
                Ok(Flow::Listed(Listed::at_times(hosts, list)))
            }
            Demand::Incast(incast) => Ok(Flow::Incast(incast.start())),
            Demand::Blocks(blocks) => Ok(Flow::Blocks(blocks.start(seed))),
            Demand::Echo { sizes, repeats, hosts } => {
                // To the farthest host, which is the last.
                let to = Node(hosts - 1);
                let ask = |&length_bytes: &u32| {
                    (Node(0), Submission { at: 0, to, length_bytes, asks: true, class: 0 })
                };
                let rounds = (0..*repeats).flat_map(|_| sizes.iter().map(ask));
                Ok(Flow::Listed(Listed::in_turn(*hosts, rounds)))
            }
        }
    }
}

/// Traffic of any kind.
#[derive(Clone, Debug)]
pub enum Flow {
    /// An open loop.
    Open(Box<OpenTraffic>),
    /// Open loops one after the other.
    Phased(Phases),
    /// Open loops side by side.
    Mixed(Mixed),
    /// An incast.
    Incast(IncastTraffic),
    /// Blocks.
    Blocks(BlocksTraffic),
    /// A list.
    Listed(Listed),
}

impl Traffic for Flow {
    #[inline]
    fn next(&mut self, host: Node, now: Ps) -> Option<Submission> {
        match self {
            Flow::Open(open) => open.next(host, now),
            Flow::Phased(phases) => phases.next(host, now),
            Flow::Mixed(mixed) => mixed.next(host, now),
            Flow::Incast(incast) => incast.next(host, now),
            Flow::Blocks(blocks) => blocks.next(host, now),
            Flow::Listed(listed) => listed.next(host, now),
        }
    }
    fn answer_bytes(&mut self, question_bytes: u32) -> u32 {
        match self {
            Flow::Open(open) => open.answer_bytes(question_bytes),
            Flow::Phased(phases) => phases.answer_bytes(question_bytes),
            Flow::Mixed(mixed) => mixed.answer_bytes(question_bytes),
            Flow::Incast(incast) => incast.answer_bytes(question_bytes),
            Flow::Blocks(blocks) => blocks.answer_bytes(question_bytes),
            Flow::Listed(listed) => listed.answer_bytes(question_bytes),
        }
    }
    fn ended(&mut self, host: Node) {
        match self {
            Flow::Open(open) => open.ended(host),
            Flow::Phased(phases) => phases.ended(host),
            Flow::Mixed(mixed) => mixed.ended(host),
            Flow::Incast(incast) => incast.ended(host),
            Flow::Blocks(blocks) => blocks.ended(host),
            Flow::Listed(listed) => listed.ended(host),
        }
    }
}

/// Spans of a run.
#[derive(Clone, Copy, Debug)]
struct Spans {
    /// Before anything counts.
    warmup: Span,
    /// While messages count.
    counted: Span,
    /// After the last submission.
    drain: Span,
}

/// The time that counts when the plan does not say.
pub const DURATION_MS: f64 = 10.0;

/// The spans that `run` asks for, when all hosts together submit `rate_per_s` messages; zero for
/// closed loops.
fn spans(run: &NetRunPlan, rate_per_s: f64) -> Result<Spans, PlanError> {
    let span = |field: &str, ms: f64| {
        let span = if (0.0..=3.6e6).contains(&ms) { Span::try_from_us(ms * 1e3) } else { None };
        span.ok_or_else(|| PlanError::field(field, ms, "a time in milliseconds from 0 to 3.6e6"))
    };
    let counted_ms = match (run.duration_ms, run.messages) {
        (Some(_), Some(_)) => {
            let message = "`run.duration_ms` and `run.messages` are both set; give one of them";
            return Err(PlanError::text(message));
        }
        (_, Some(messages)) if rate_per_s == 0.0 || messages < 100 => {
            return Err(PlanError::field("run.messages", messages, "at least 100, with a load")
                .hint("incast and echo are closed loops; give incast `run.duration_ms`"));
        }
        (_, Some(messages)) => messages as f64 / rate_per_s * 1e3,
        (given, None) => given.unwrap_or(DURATION_MS),
    };
    let counted = span("run.duration_ms", counted_ms)?;
    if counted < Span::from_us(1) {
        let must = "at least 0.001 (a microsecond)";
        return Err(PlanError::field("run.duration_ms", counted_ms, must));
    }
    let warmup_ms = run.warmup_ms.unwrap_or(counted_ms / 4.0);
    let warmup = span("run.warmup_ms", warmup_ms)?;
    let drain = span("run.drain_ms", run.drain_ms.unwrap_or(counted_ms + warmup_ms))?;
    Ok(Spans { warmup, counted, drain })
}

/// The spans of an echo: nothing before it, and time for all questions even if they take many times
/// their least.
fn echo_spans(fabric: &Fabric, sizes: &[u32], repeats: u32) -> Result<Spans, PlanError> {
    let ideal = Ideal::new(&fabric.network);
    let last = Node(fabric.network.topology.hosts() - 1);
    let way = |&size: &u32| 2 * ideal.time(Node(0), last, size) / PS_PER_NS;
    let round_ns: u64 = sizes.iter().map(|size| 16 * way(size) + 1_000_000).sum();
    let counted = Span::from_ns(round_ns).saturating_mul(u64::from(repeats));
    if counted > Span::from_ms(3_600_000) {
        return Err(PlanError::field("traffic.repeats", repeats, "so few that an hour is enough"));
    }
    Ok(Spans { warmup: Span::ZERO, counted, drain: Span::ZERO })
}

/// A recording lasts as long as it does, if the plan does not cut it off.
fn recorded_spans(plan: &NetworkPlan, recorded: &Recorded) -> Result<Spans, PlanError> {
    let run = &plan.run;
    if run.messages.is_some() {
        return Err(PlanError::text("`run.messages` is set, but the trace has its own messages")
            .hint("`run.duration_ms` takes its beginning only"));
    }
    let whole_ms = (recorded.last / PS_PER_NS + 1) as f64 / 1e6;
    let warmup_ms = run.warmup_ms.unwrap_or(0.0);
    if warmup_ms >= whole_ms {
        let must = format!("shorter than the trace, {whole_ms} ms");
        return Err(PlanError::field("run.warmup_ms", warmup_ms, &must));
    }
    let counted_ms = run.duration_ms.unwrap_or(whole_ms - warmup_ms);
    let run =
        NetRunPlan { duration_ms: Some(counted_ms), warmup_ms: Some(warmup_ms), ..run.clone() };
    spans(&run, 0.0)
}

/// Blocks say themselves how many they are; an hour is the most they may take.
fn block_spans(plan: &NetworkPlan) -> Result<Spans, PlanError> {
    if plan.run.duration_ms.or(plan.run.warmup_ms).is_some() || plan.run.messages.is_some() {
        return Err(PlanError::text("`run` says how long, but blocks are counted")
            .hint("set `traffic.blocks`, and leave out `run.duration_ms` and `run.messages`"));
    }
    Ok(Spans { warmup: Span::ZERO, counted: Span::from_ms(3_600_000), drain: Span::ZERO })
}

/// Builds what `plan`, which names exactly one transport, asks for. It may name some of `files`.
pub fn scenario(plan: &NetworkPlan, files: &Files) -> Result<Scenario, PlanError> {
    let fabric = fabric::fabric(&plan.network, files)?;
    let hosts = fabric.network.topology.hosts();
    let recorded = match &plan.traffic {
        TrafficPlan::Trace(own) => Some(recorded::messages(own, files, hosts)?),
        _ => None,
    };
    let classes = classes::classes(plan, &fabric, files)?;
    let sizes = match &classes {
        Some(classes) => classes.sizes.clone(),
        None => sizes(plan, files, recorded.as_ref())?,
    };
    let (mut demand, mut rate, senders) = match (recorded, classes) {
        (Some(recorded), _) => (Demand::Recorded(recorded), 0.0, hosts),
        (None, Some(classes)) => {
            let rate = classes.rate_per_s / f64::from(hosts);
            (Demand::Classes(classes.each), rate, hosts)
        }
        (None, None) => demand(plan, &fabric, &sizes, files)?,
    };
    if !plan.phases.is_empty() {
        demand = phased(plan, &fabric, files)?;
        // There is no one rate, and nothing that a run must keep up with from half to half.
        rate = 0.0;
    }
    let spans = match &demand {
        Demand::Echo { sizes, repeats, .. } => echo_spans(&fabric, sizes, *repeats)?,
        Demand::Phased(phases) => phased_spans(plan, phases)?,
        Demand::Blocks(_) => block_spans(plan)?,
        Demand::Recorded(recorded) => recorded_spans(plan, recorded)?,
        _ => spans(&plan.run, rate * f64::from(senders))?,
    };
    let Spans { warmup, counted, drain } = spans;
    let is_stratified = |traffic: &TrafficPlan| traffic.arriving().is_some_and(|a| a.stratified);
    let stratify = |open: &mut OpenLoop| {
        // A few blocks a run, so that its sizes are nearly those they should be.
        let expected = open.rate_per_s * (warmup + counted).as_ns() as f64 / 1e9;
        open.block = Some((expected / 4.0).clamp(1.0, 10_000.0) as u32);
    };
    match &mut demand {
        Demand::Open(open) if is_stratified(&plan.traffic) => stratify(open),
        Demand::Classes(classes) => {
            let with_plans = classes.iter_mut().zip(&plan.classes);
            let chosen = with_plans.filter(|(_, class)| is_stratified(&class.traffic));
            chosen.for_each(|(open, _)| stratify(open));
        }
        _ => {}
    }
    let of_transport = &plan.transports[0];
    let messages = plan.messages.as_ref();
    let around = Surroundings {
        fabric: &fabric,
        sizes: &sizes,
        workload: messages
            .filter(|m| m.max_bytes.is_none() && m.min_bytes.is_none())
            .and_then(|m| m.workload),
        asks: demand.asks(),
        lossy: plan.network.loses(),
        buffer_given: of_transport.buffer().is_some() || plan.network.buffer.is_some(),
        length: warmup + counted + drain,
    };
    let transport = transport::transport(of_transport, &around)?;
    if let Transport::Homa(config) = &transport
        && longest(&demand, &sizes) > config.message_max_bytes
    {
        let message = format!(
            "transport `{}` carries messages up to {} bytes; the longest here has {}",
            of_transport.label(),
            config.message_max_bytes,
            longest(&demand, &sizes)
        );
        return Err(PlanError::text(message)
            .hint(format!("set `messages.max_bytes` to {}", config.message_max_bytes)));
    }
    if matches!(of_transport, TransportPlan::Oracle(_)) && demand.asks() {
        return Err(PlanError::text(format!(
            "transport `{}` is for one-way messages, not for questions",
            of_transport.label()
        ))
        .hint("use it with the patterns all_to_all, permutation, many_to_few and skewed"));
    }
    if matches!(demand, Demand::Recorded(_)) && !plan.network.starts.is_empty() {
        return Err(PlanError::text("`network.starts` is set, but `traffic` is a trace")
            .hint("a trace says when each host begins: leave out what a host sends too early"));
    }
    let network = transport::network(of_transport, &around, &plan.network)?;
    let packets = plan.run.packets_max_millions * 1e6;
    if !(1e3..=8e6).contains(&packets) {
        let value = plan.run.packets_max_millions;
        return Err(PlanError::field("run.packets_max_millions", value, "from 0.001 to 8"));
    }
    let bins = match &demand {
        Demand::Echo { sizes, .. } => Bins::up_to(sizes.clone()),
        _ => Bins::at_deciles(&sizes),
    };
    let setup = Setup {
        warmup,
        drain,
        ideal_without_latency_in_rack: plan.run.ideal_without_latency_in_rack,
        faults: fabric::faults(&plan.network)?,
        starts: fabric::starts(&plan.network, hosts, warmup + counted)?,
        packets_max: packets as u32,
        ..Setup::new(network, 1, warmup + counted, bins)
    };
    setup.check().map_err(|error| PlanError::text(format!("`network`: {error}")))?;
    demand.start(hosts, 1)?;
    Ok(Scenario {
        data_load: data_load(plan, &fabric, &demand, &transport, &sizes),
        timeline: timeline(plan)?,
        tail_sources: plan.run.tail_sources,
        classes: plan.classes.iter().map(|class| class.name.clone()).collect(),
        own_sizes: if plan.run.own_best && !matches!(demand, Demand::Blocks(_)) {
            own_sizes(&sizes)
        } else {
            Vec::new()
        },
        host_bits_per_s: fabric.host_bits_per_s,
        hops_mean: fabric.hops_mean,
        setup,
        transport,
        demand,
        sizes,
        rate_per_s: rate,
        senders,
    })
}

/// [`Scenario::data_load`]: of one pattern, where all hosts have links of one rate.
fn data_load(
    plan: &NetworkPlan,
    fabric: &Fabric,
    demand: &Demand,
    transport: &Transport,
    sizes: &Sizes,
) -> Option<f64> {
    let is_plain = fabric.hosts_alike && matches!(demand, Demand::Open(_));
    let data = transport::data_framing(transport, &fabric.network).filter(|_| is_plain)?;
    // A load is nominal: it says how often messages come, whatever carries them.
    Some(plan.load * payload_ratio(sizes, &Framing::default()) / payload_ratio(sizes, &data))
}

/// The longest message there is.
fn longest(demand: &Demand, sizes: &Sizes) -> u32 {
    match demand {
        Demand::Phased(phases) => {
            phases.iter().map(|(open, _)| open.sizes.max_bytes()).max().unwrap_or(0)
        }
        _ => sizes.max_bytes(),
    }
}

/// The open loop of each phase.
fn phased(plan: &NetworkPlan, fabric: &Fabric, files: &Files) -> Result<Demand, PlanError> {
    let one = |(index, phase): (usize, &NetPhasePlan)| {
        let field = |key: &str| format!("phases[{index}].{key}");
        let ms = phase.duration_ms;
        let length = if ms > 0.0 && ms <= 3.6e6 { Span::try_from_us(ms * 1e3) } else { None };
        let length = length.filter(|length| !length.is_zero()).ok_or_else(|| {
            PlanError::field(field("duration_ms"), ms, "a time in milliseconds, up to 3.6e6")
        })?;
        let load = phase.load.unwrap_or(plan.load);
        if !(load > 0.0 && load <= 2.0) {
            return Err(PlanError::field(field("load"), load, "above 0, at most 2"));
        }
        let messages = phase.messages.clone().or(plan.messages.clone());
        let of_phase = NetworkPlan { messages, load, phases: Vec::new(), ..plan.clone() };
        let no_phases = || {
            PlanError::text("`phases` are set, but traces, incast, echo and blocks have none")
                .hint("use the patterns all_to_all, permutation, many_to_few, skewed and rpc")
        };
        plan.traffic.arriving().ok_or_else(no_phases)?;
        let sizes = sizes(&of_phase, files, None)?;
        let (Demand::Open(mut open), rate, _) = demand(&of_phase, fabric, &sizes, files)? else {
            return Err(no_phases());
        };
        if plan.traffic.arriving().is_some_and(|arriving| arriving.stratified) {
            let expected = rate * length.as_ns() as f64 / 1e9;
            open.block = Some((expected / 4.0).clamp(1.0, 10_000.0) as u32);
        }
        Ok((*open, length))
    };
    plan.phases.iter().enumerate().map(one).collect::<Result<_, _>>().map(Demand::Phased)
}

/// Phases say themselves how long they last, and all of them count.
fn phased_spans(plan: &NetworkPlan, phases: &[(OpenLoop, Span)]) -> Result<Spans, PlanError> {
    let run = &plan.run;
    for (key, is_set) in [
        ("duration_ms", run.duration_ms.is_some()),
        ("messages", run.messages.is_some()),
        ("warmup_ms", run.warmup_ms.is_some()),
    ] {
        if is_set {
            let message = format!("`run.{key}` is set, but phases say how long the run is");
            return Err(PlanError::text(message));
        }
    }
    let counted = phases.iter().fold(Span::ZERO, |sum, (_, length)| sum + *length);
    let drain = match run.drain_ms {
        None => counted,
        Some(ms) => Span::try_from_us(ms * 1e3).ok_or_else(|| {
            PlanError::field("run.drain_ms", ms, "a time in milliseconds from 0 to 3.6e6")
        })?,
    };
    Ok(Spans { warmup: Span::ZERO, counted, drain })
}

/// Steps of the timeline.
fn timeline(plan: &NetworkPlan) -> Result<Option<Span>, PlanError> {
    let Some(ms) = plan.run.timeline_ms else { return Ok(None) };
    let step = if (1e-3..=3.6e6).contains(&ms) { Span::try_from_us(ms * 1e3) } else { None };
    let must = "a time in milliseconds from 0.001 to 3.6e6";
    step.map(Some).ok_or_else(|| PlanError::field("run.timeline_ms", ms, must))
}

/// Sizes at equal shares of the messages, all of them if they are few.
fn own_sizes(sizes: &Sizes) -> Vec<u32> {
    let rows = sizes.rows();
    if rows.len() <= OWN_SIZES_MAX {
        return rows.iter().map(|row| row.0).collect();
    }
    let at = |part: usize| sizes.quantile((part + 1) as f64 / OWN_SIZES_MAX as f64);
    let mut some: Vec<u32> = (0..OWN_SIZES_MAX).map(at).collect();
    some.dedup();
    some
}

/// Sizes of messages, or of the questions of patterns that say them themselves.
pub(super) fn sizes(
    plan: &NetworkPlan,
    files: &Files,
    recorded: Option<&Recorded>,
) -> Result<Sizes, PlanError> {
    let traffic = &plan.traffic;
    let of_pattern = |list: &[u32]| {
        let mut list = list.to_vec();
        list.sort_unstable();
        list.dedup();
        let count = list.len() as f64;
        let rows = list.iter().zip(1..).map(|(&bytes, i)| (bytes, f64::from(i) / count));
        Sizes::new(&rows.collect::<Vec<_>>())
            .map_err(|_| zero_length("traffic.sizes_bytes", format!("{list:?}")))
    };
    if plan.messages.is_some() && traffic.arriving().is_none() {
        return Err(PlanError::text("`messages` is set, but this pattern has its own sizes").hint(
            "incast has `question_bytes` and `answer_bytes`, echo `sizes_bytes`, a trace `bytes`",
        ));
    }
    if let Some(recorded) = recorded {
        return Ok(recorded.sizes.clone());
    }
    match traffic {
        TrafficPlan::Incast(own) => of_pattern(&[own.question_bytes])
            .map_err(|_| zero_length("traffic.question_bytes", own.question_bytes)),
        TrafficPlan::Blocks(own) => of_pattern(&[own.question_bytes])
            .map_err(|_| zero_length("traffic.question_bytes", own.question_bytes)),
        TrafficPlan::Echo(own) if own.sizes_bytes.is_empty() => {
            Err(PlanError::text("`traffic.sizes_bytes` is empty; echo needs sizes")
                .hint("such as `sizes_bytes = [100, 1_000, 10_000]`"))
        }
        TrafficPlan::Echo(own) => of_pattern(&own.sizes_bytes),
        _ => match &plan.messages {
            Some(messages) => messages::sizes(messages, files),
            None => Err(PlanError::text("`messages` is missing; it says how long messages are")
                .hint("add `[messages]` with `workload = \"W3\"`, or a file of your own")),
        },
    }
}

fn zero_length(field: &str, value: impl std::fmt::Display) -> PlanError {
    PlanError::field(field, value, "from 1 to 2147483648 bytes")
        .hint("a message has at least one byte")
}

/// Who sends what, at which rate, and how many do.
pub(super) fn demand(
    plan: &NetworkPlan,
    fabric: &Fabric,
    sizes: &Sizes,
    files: &Files,
) -> Result<(Demand, f64, u32), PlanError> {
    let hosts = fabric.network.topology.hosts();
    let (senders, receivers) = match &plan.traffic {
        TrafficPlan::AllToAll(_) => (0..hosts, Receivers::Others),
        TrafficPlan::Permutation(_) => (0..hosts, Receivers::Permutation),
        TrafficPlan::ManyToFew(own) => {
            if own.receivers == 0 || own.receivers >= hosts {
                let must = format!("1 to {}, one less than there are hosts", hosts - 1);
                return Err(PlanError::field("traffic.receivers", own.receivers, &must)
                    .hint("the first hosts receive, and all others send"));
            }
            (own.receivers..hosts, Receivers::Among(0..own.receivers))
        }
        TrafficPlan::Skewed(own) => {
            let weights = weights(own, files, hosts)?;
            (0..hosts, Receivers::Weighted(Arc::new(weights)))
        }
        TrafficPlan::Trace(_) => {
            return Err(PlanError::text("`traffic` is a trace, which has no load"));
        }
        TrafficPlan::Rpc(own) => {
            let clients = own.clients.unwrap_or((hosts / 2).max(1));
            let servers = own.servers.unwrap_or(hosts.saturating_sub(clients));
            let all = clients.saturating_add(servers);
            if clients == 0 || servers == 0 || all > hosts {
                let message = format!(
                    "`traffic` has {clients} clients and {servers} servers; \
                     at least one of each, and together at most {hosts} hosts"
                );
                return Err(PlanError::text(message)
                    .hint("the first hosts are clients, the next are servers"));
            }
            (0..clients, Receivers::Among(clients..all))
        }
        TrafficPlan::Incast(own) => return incast(own, hosts),
        TrafficPlan::Blocks(own) => return blocks(own, hosts),
        TrafficPlan::Echo(own) => {
            if own.repeats == 0 {
                return Err(PlanError::field("traffic.repeats", 0, "at least 1"));
            }
            let list: Vec<u32> = sizes.rows().iter().map(|row| row.0).collect();
            return Ok((Demand::Echo { sizes: list, repeats: own.repeats, hosts }, 0.0, 1));
        }
    };
    // The busier side's links are those that carry the load.
    let share = match &receivers {
        Receivers::Among(servers) => (servers.len() as f64 / senders.len() as f64).min(1.0),
        Receivers::Weighted(weights) => 1.0 / weights.busiest(),
        Receivers::Others | Receivers::Permutation => 1.0,
    };
    let link = fabric.host_bits_per_s as f64;
    let rate = share * rate_per_s(sizes, &Framing::default(), plan.load, link);
    let Arriving { arrivals, variation, .. } = plan.traffic.arriving().unwrap_or_default();
    let gaps = match arrivals {
        ArrivalsName::Poisson => Gaps::Poisson,
        ArrivalsName::NearPeriodic => Gaps::NearPeriodic { variation },
    };
    let count = senders.len() as u32;
    let open = OpenLoop {
        senders,
        receivers,
        sizes: sizes.clone(),
        block: None,
        rate_per_s: rate,
        gaps,
        asks: plan.traffic.asks(),
        class: 0,
    };
    Ok((Demand::Open(Box::new(open)), rate, count))
}

/// Whom hosts send to, where some receive more than others.
fn weights(plan: &Skewing, files: &Files, hosts: u32) -> Result<Weights, PlanError> {
    match (plan.zipf_exponent, &plan.matrix) {
        (Some(exponent), None) => Weights::zipf(hosts, exponent).ok_or_else(|| {
            PlanError::field("traffic.zipf_exponent", exponent, "0 to 10").hint(
                "0 treats all hosts alike; at 1 the second receives half as much as the first",
            )
        }),
        (None, Some(file)) => recorded::matrix(file, files, hosts),
        _ => Err(PlanError::text("give one of `traffic.zipf_exponent` and `traffic.matrix`")
            .hint("`zipf_exponent = 1` is a skew that is often met")),
    }
}

fn incast(plan: &Converging, hosts: u32) -> Result<(Demand, f64, u32), PlanError> {
    if plan.concurrent == 0 || plan.concurrent > 1_000_000 {
        return Err(PlanError::field("traffic.concurrent", plan.concurrent, "1 to 1000000")
            .hint("`concurrent = 100` keeps 100 questions under way"));
    }
    if plan.answer_bytes == 0 || plan.answer_bytes > 1 << 30 {
        return Err(zero_length("traffic.answer_bytes", plan.answer_bytes));
    }
    let incast = Incast {
        client: Node(0),
        hosts,
        concurrent: plan.concurrent,
        question_bytes: plan.question_bytes,
        answer_bytes: plan.answer_bytes,
        questions: u64::MAX,
    };
    Ok((Demand::Incast(incast), 0.0, 1))
}

/// Most bytes of all blocks of a replication: a terabyte is simulated by nobody.
const BLOCKS_MAX_BYTES: u64 = 1 << 40;

/// Blocks from the servers of a network of `hosts` hosts.
pub(super) fn blocks(plan: &Striped, hosts: u32) -> Result<(Demand, f64, u32), PlanError> {
    let servers = plan.servers;
    if servers == 0 || servers >= hosts {
        let must = format!("1 to {}, one less than there are hosts", hosts - 1);
        return Err(PlanError::field("traffic.servers", servers, &must)
            .hint("the client is a host as well: raise `network.hosts`"));
    }
    let (key, given, fragment) = match (plan.block_bytes, plan.fragment_bytes) {
        (Some(block), None) => ("block_bytes", block, block / u64::from(servers)),
        (None, Some(fragment)) => ("fragment_bytes", fragment.into(), fragment.into()),
        _ => {
            let message = "give one of `traffic.block_bytes` and `traffic.fragment_bytes`";
            return Err(PlanError::text(message).hint("`block_bytes = 1_048_576` is usual"));
        }
    };
    if fragment == 0 || fragment > 1 << 30 {
        let must = "so much that each server sends 1 to 2^30 bytes";
        let wrong = PlanError::field(format!("traffic.{key}"), given, must);
        return Err(match fragment {
            0 if given > 0 => {
                let hint = format!("{servers} servers divide a block of at least {servers} bytes");
                wrong.hint(hint)
            }
            _ => wrong.hint("`block_bytes = 1_048_576` and `fragment_bytes = 256_000` are usual"),
        });
    }
    let most = BLOCKS_MAX_BYTES / (fragment * u64::from(servers));
    if !(2..=most.max(2)).contains(&plan.blocks) {
        let must = format!("2 to {}", most.max(2));
        return Err(PlanError::field("traffic.blocks", plan.blocks, &must)
            .hint("the first block opens connections and does not count"));
    }
    let jitter = Some(plan.jitter_us).filter(|us| (0.0..=1e6).contains(us));
    let jitter = jitter.and_then(Span::try_from_us).ok_or_else(|| {
        PlanError::field("traffic.jitter_us", plan.jitter_us, "from 0 to 1e6 microseconds")
    })?;
    let outstanding = plan.outstanding.unwrap_or(servers);
    if outstanding == 0 {
        return Err(PlanError::field("traffic.outstanding", 0, "at least 1"));
    }
    let background = plan.background.unwrap_or(0);
    if background > hosts - 1 - servers {
        let must =
            format!("at most {}, the hosts that neither ask nor answer", hosts - 1 - servers);
        return Err(
            PlanError::field("traffic.background", background, &must).hint("raise `network.hosts`")
        );
    }
    let blocks = Blocks {
        servers,
        question_bytes: plan.question_bytes,
        fragment_bytes: fragment as u32,
        blocks: plan.blocks,
        jitter,
        outstanding,
        background,
    };
    Ok((Demand::Blocks(blocks), 0.0, 1))
}
