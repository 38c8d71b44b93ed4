//! A network as the subject of an experiment.

use super::contestant::TransportPlan;
use super::draw;
use super::live;
use super::plan::NetworkPlan;
use super::result::{Carried, GOODPUT, LATE_MAX, NetSummary, SizeSlice};
use super::run::{self, Replication};
use super::scenario::{self, Scenario};
use super::sections;
use super::traffic::TrafficPlan;
use cavy_lab::statistics::interval::Interval;
use cavy_lab::trail::Trail;
use cavy_report::model::{Panel, Table};
use cavy_report::number::count;
use cavy_study::draw::{Column, Curve};
use cavy_study::experiment::Experiment;
use cavy_study::objective::{self, Percentile, Quantity, Side};
use cavy_study::outcome::{Estimate, Outcome};
use cavy_study::plan::{Files, PlanError};
use cavy_study::point::{Manner, RunError};
use cavy_study::subject::{
    AboutKind, Axis, Effort, Experience, Mark, Noun, Sense, Subject, Summed, Template, TooMuch,
};

const TEMPLATES: [Template; 3] = [
    Template {
        name: "network",
        says: "message sizes on a network, five transports, an objective",
        text: include_str!("templates/network.toml"),
        files: &[],
    },
    Template {
        name: "incast",
        says: "how many answers may come at once, four transports",
        text: include_str!("templates/incast.toml"),
        files: &[],
    },
    Template {
        name: "answers",
        says: "how many servers may answer at once, five remedies, a search",
        text: include_str!("templates/answers.toml"),
        files: &[],
    },
];

/// The metrics of blocks: payload over what the client's link carries, and the time within which 99
/// of 100 blocks are done.
const GOODPUT_RATIO: &str = "goodput_ratio";
const BLOCK_MS: [(&str, u8); 3] =
    [("block_p50_ms", 50), ("block_p90_ms", 90), ("block_p99_ms", 99)];

/// Which percentile of the times of blocks a metric is.
fn block_percentile(metric: &str) -> Option<u8> {
    BLOCK_MS.into_iter().find(|(name, _)| *name == metric).map(|(_, per_cent)| per_cent)
}

/// Whose percentile is bounded.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Whose<'a> {
    /// All messages'.
    All,
    /// This share of them, the smallest.
    Smallest(f64),
    /// This share of them, the largest.
    Largest(f64),
    /// Those of a class.
    Class(&'a str),
}

/// Reads `smallest 50%`, `largest 1%`, or the name of a class in quotes.
fn whose_of(text: Option<&str>) -> Option<Whose<'_>> {
    let Some(text) = text else { return Some(Whose::All) };
    if let Some(name) = text.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return Some(Whose::Class(name));
    }
    let (which, share) = text.trim().split_once(' ')?;
    let per_cent: f64 = share.trim().strip_suffix('%')?.trim().parse().ok()?;
    let smallest = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0];
    match which {
        "smallest" if smallest.contains(&per_cent) => Some(Whose::Smallest(per_cent / 100.0)),
        "largest" if [50.0, 10.0, 1.0].contains(&per_cent) => {
            Some(Whose::Largest(per_cent / 100.0))
        }
        _ => None,
    }
}

fn summary_of<'a>(result: &'a Carried, whose: Whose<'_>) -> Option<&'a NetSummary> {
    match whose {
        Whose::All => Some(&result.overall),
        Whose::Class(name) => {
            Some(&result.classes.iter().find(|class| class.name == name)?.summary)
        }
        Whose::Smallest(share) => Some(&result.smallest_to(share)?.summary),
        Whose::Largest(share) => {
            let near = |slice: &&SizeSlice| (slice.share - share).abs();
            let nearest = result.largest.iter().min_by(|a, b| near(a).total_cmp(&near(b)))?;
            Some(&nearest.summary)
        }
    }
}

impl Subject for NetworkPlan {
    const ABOUT: AboutKind = AboutKind {
        name: "network",
        says: "messages on a network, and the transports that carry them",
        contestant: Noun { one: "transport", many: "transports" },
        work: Noun { one: "message", many: "messages" },
        replications: 3,
        replications_reason: "a message costs dozens of packets; a replication of a loaded fabric \
                              takes minutes",
        own_run: true,
        objectives: &[
            "write it as `p99_slowdown <= 4 for smallest 50%`, `p99 <= 200us`, `goodput_gbps >= 9` \
             or `stable`",
            "percentiles are p50, p90, p95, p99, p999, p9999; quantities are us, slowdown; a class \
             is named in quotes, `for \"search\"`",
            "blocks have `goodput_ratio >= 0.9`, of the client's link, and `block_p90_ms <= 20` \
             (p50, p90, p99)",
        ],
        templates: &TEMPLATES,
    };
    type Scenario = Scenario;
    type Replication = Replication;
    type Data = Carried;

    fn contestants(&self) -> Vec<(String, NetworkPlan)> {
        let alone = |transport: &TransportPlan| NetworkPlan {
            transports: vec![transport.clone()],
            ..self.clone()
        };
        self.transports.iter().map(|transport| (transport.label(), alone(transport))).collect()
    }
    #[inline]
    fn default_label(table: &toml::Value) -> Option<String> {
        let transport: TransportPlan = table.clone().try_into().ok()?;
        Some(transport.name().to_string())
    }
    fn forget_names(&mut self) {
        for transport in &mut self.transports {
            *transport.given_label() = None;
        }
        self.live = None;
    }
    fn files(&self) -> Vec<&str> {
        let of_phases = self.phases.iter().filter_map(|phase| phase.messages.as_ref());
        let of_classes = self.classes.iter().map(|class| &class.messages);
        let messages = self.messages.iter().chain(of_phases).chain(of_classes);
        let of_sizes = messages.flat_map(|m| [m.cdf.as_deref(), m.trace.as_deref()]).flatten();
        let traffics = self.classes.iter().map(|class| &class.traffic).chain([&self.traffic]);
        let of_traffic = traffics.filter_map(|traffic| match traffic {
            TrafficPlan::Trace(own) => Some(own.file.as_str()),
            TrafficPlan::Skewed(own) => own.matrix.as_deref(),
            _ => None,
        });
        let of_network = self.network.round_trips.as_deref();
        of_sizes.chain(of_traffic).chain(of_network).collect()
    }
    fn axis(&self) -> Option<Axis> {
        if let TrafficPlan::Incast(own) = &self.traffic {
            return Some(Axis {
                key: "traffic.concurrent",
                words: "questions at a time",
                label: "questions at a time",
                at: f64::from(own.concurrent),
                least: 1.0,
                greatest: 4096.0,
                step: 1.0,
                whole: true,
                counted: true,
                sense: Sense::Greatest,
                searchable: true,
            });
        }
        if let TrafficPlan::Blocks(own) = &self.traffic {
            let hosts = self.network.hosts.unwrap_or(2).max(2);
            return Some(Axis {
                key: "traffic.servers",
                words: "servers",
                label: "servers that answer at once",
                at: f64::from(own.servers),
                least: 1.0,
                greatest: f64::from(hosts - 1),
                step: 1.0,
                whole: true,
                counted: true,
                sense: Sense::Greatest,
                searchable: true,
            });
        }
        if let TrafficPlan::Trace(own) = &self.traffic {
            return Some(Axis {
                key: "traffic.rate_ratio",
                words: "recorded rate times",
                label: "rate over the recorded one",
                at: own.rate_ratio,
                least: 0.1,
                greatest: 20.0,
                step: 0.1,
                whole: false,
                counted: false,
                sense: Sense::Greatest,
                searchable: true,
            });
        }
        let open = self.traffic.arriving().is_some() && self.phases.is_empty();
        open.then_some(Axis {
            key: "load",
            words: "load",
            label: "offered load",
            at: self.load,
            least: 0.05,
            greatest: 0.99,
            step: 0.02,
            whole: false,
            counted: false,
            sense: Sense::Greatest,
            searchable: true,
        })
    }
    fn check(&self) -> Result<(), PlanError> {
        if !(self.load > 0.0 && self.load <= 2.0) {
            return Err(PlanError::field("load", self.load, "above 0, at most 2")
                .hint("0.8 means that messages, headers and grants fill 80 % of a host's link"));
        }
        // Their number is what is searched, so that not every point is built.
        if let (TrafficPlan::Blocks(own), Some(hosts)) =
            (&self.traffic, self.network.hosts_known().filter(|hosts| *hosts >= 2))
        {
            scenario::blocks(own, hosts)?;
        }
        Ok(())
    }
    fn live(&self) -> Option<&'static str> {
        live::command(self)
    }
    fn check_live(&self) -> Result<(), PlanError> {
        live::check(self)
    }
    fn check_metric(&self, metric: &str, whose: Option<&str>) -> Result<(), String> {
        let of_blocks = metric == GOODPUT_RATIO || block_percentile(metric).is_some();
        if metric == GOODPUT || of_blocks {
            if of_blocks && !matches!(self.traffic, TrafficPlan::Blocks(_)) {
                return Err("is for blocks: set `traffic.pattern = \"blocks\"`".to_string());
            }
            return match whose {
                None => Ok(()),
                Some(whose) => Err(format!("is for `{whose}`, but goodput is of all messages")),
            };
        }
        objective::percentile(metric)?;
        match whose_of(whose) {
            Some(Whose::Class(name)) if !self.classes.iter().any(|class| class.name == name) => {
                let known: Vec<&str> = self.classes.iter().map(|c| c.name.as_str()).collect();
                let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
                Err(format!("names the unknown class `{name}`; classes are: {known}"))
            }
            Some(_) => Ok(()),
            None => Err(format!("is for `{}`", whose.unwrap_or(""))),
        }
    }
    fn check_limit(&self, metric: &str, side: Side, limit: f64) -> Result<(), String> {
        if metric == GOODPUT_RATIO && side == Side::AtLeast && limit >= 1.0 {
            return Err(
                "cannot be met: a link carries headers beside what is counted, so that the limit \
                 must be below 1"
                    .to_string(),
            );
        }
        Ok(())
    }
    fn metric(outcome: &Outcome<Carried>, metric: &str, whose: Option<&str>) -> Option<f64> {
        if metric == GOODPUT {
            return Some(outcome.answers_gbps.unwrap_or(outcome.goodput_gbps));
        }
        let blocks = outcome.blocks.as_ref();
        if metric == GOODPUT_RATIO {
            return blocks?.goodput_ratio;
        }
        if let Some(per_cent) = block_percentile(metric) {
            return blocks?.within_ms(per_cent);
        }
        let (percentile, quantity) = objective::percentile(metric).ok()?;
        Some(summary_of(outcome, whose_of(whose)?)?.get(percentile, quantity)?.value)
    }

    fn scenario(&self, files: &Files) -> Result<Scenario, PlanError> {
        scenario::scenario(self, files)
    }
    fn prepare(scenario: &mut Scenario, manner: &Manner) {
        run::prepare(scenario, manner);
    }
    fn replicate(
        scenario: &Scenario,
        seed: u64,
        _: u32,
        manner: &Manner,
    ) -> Result<Replication, RunError> {
        run::replicate(scenario, seed, manner)
    }
    fn trail(replication: &Replication) -> &Trail {
        &replication.report.trail
    }
    fn summarize(&self, scenario: &Scenario, runs: &[Replication]) -> Summed<Carried> {
        run::summarize(scenario, runs)
    }
    fn sections(
        &self,
        scenario: &Scenario,
        runs: &[Replication],
        whole: &Carried,
    ) -> Vec<Vec<Carried>> {
        let by_host = sections::sections(scenario, runs, whole);
        if !by_host.is_empty() || runs.len() < 2 {
            return by_host;
        }
        let alone = |run| {
            let mut data = run::summarize(scenario, std::slice::from_ref(run)).data;
            data.support(whole);
            data
        };
        vec![runs.iter().map(alone).collect()]
    }
    fn blank(&self) -> Option<Carried> {
        let sizes: Vec<u32> = match &self.traffic {
            TrafficPlan::Echo(own) => own.sizes_bytes.clone(),
            _ => vec![u32::MAX],
        };
        let classes: Vec<&str> = self.classes.iter().map(|class| class.name.as_str()).collect();
        Some(Carried::blank(&sizes, &classes))
    }
    fn precision(outcome: &Outcome<Carried>) -> Vec<(String, Option<Interval>)> {
        let of = |(name, summary): (&str, &NetSummary), p: Percentile| {
            // A percentile without support cannot converge, and must not keep the others waiting.
            let known = summary.get(p, Quantity::Slowdown);
            let interval = known.map_or(Interval::around(1.0, 0.0), Estimate::interval);
            (format!("{} slowdown of {name} messages", p.title()), Some(interval))
        };
        let all = [("all", &outcome.overall), ("short", &outcome.short)];
        all.into_iter()
            .flat_map(|one| Percentile::MAIN.into_iter().map(move |p| of(one, p)))
            .collect()
    }
    fn effort(&self, scenario: &Scenario, replications: u32) -> Effort {
        effort(scenario, replications)
    }
    fn too_much(&self, _: bool) -> TooMuch {
        let cure =
            "lower it, `run.replications`, the number of hosts or of points, or try `--quick`";
        let (key, value) = match (&self.traffic, self.run.messages, self.run.duration_ms) {
            (TrafficPlan::Blocks(own), _, _) => ("traffic.blocks", own.blocks.to_string()),
            (TrafficPlan::Echo(own), _, _) => ("traffic.repeats", own.repeats.to_string()),
            (_, Some(messages), _) => ("run.messages", count(messages)),
            (_, None, ms) => ("run.duration_ms", ms.unwrap_or(scenario::DURATION_MS).to_string()),
        };
        TooMuch { key, value, cure }
    }

    fn facts(&self) -> Vec<(&'static str, &'static str)> {
        let intervals = ("intervals", "95 %, by sectioning over independent replications");
        if matches!(self.traffic, TrafficPlan::Blocks(_)) {
            return vec![
                (
                    "block",
                    "what all servers send, one answer each. Its time ends with the last octet, \
                     and the next block begins then. The first block of a replication does not \
                     count",
                ),
                ("goodput", "payload of blocks over the time that they took"),
                intervals,
                (
                    "percentiles of blocks",
                    "given if at least 100 blocks of all replications lie beyond; medians need \
                     fewer",
                ),
            ];
        }
        vec![
            (
                "load",
                "wire bytes of messages, headers and grants over the rate of a host's link; if \
                 some hosts receive more than others, of the busiest link",
            ),
            (
                "latency",
                "from submission to delivery; for a question, to the delivery of the answer",
            ),
            (
                "slowdown",
                "latency over the least latency that this network allows for a message of this \
                 size",
            ),
            ("short", "the smallest half of the messages"),
            intervals,
            ("percentiles", "given if at least 100 messages of all replications lie beyond"),
            (
                "unstable",
                "the backlog in the second half of a run is at least 1.7 times that of the first \
                 half, and not by chance; or too many packets or messages are under way, or fail",
            ),
            (
                "too short",
                "the backlog is more than a fifth higher, which may be chance, or the network may \
                 still be filling; the verdict says how many messages would tell",
            ),
        ]
    }
    fn columns(experiment: &Experiment<NetworkPlan>) -> Vec<Column<NetworkPlan>> {
        draw::columns(experiment)
    }
    fn curves(experiment: &Experiment<NetworkPlan>, _: &str) -> Vec<Curve<NetworkPlan>> {
        draw::curves(experiment)
    }
    fn panels(experiment: &Experiment<NetworkPlan>, variant: &str) -> Vec<Panel> {
        draw::panels(experiment, variant)
    }
    fn tables(experiment: &Experiment<NetworkPlan>, variant: &str) -> Vec<Table> {
        draw::tables(experiment, variant)
    }
    fn marks() -> Vec<Mark<Carried>> {
        vec![
            Mark {
                head: "short p99 (x)",
                of: |r| Some(r.short.p99_slowdown.as_ref()?.supported()?.value),
            },
            Mark { head: "largest queue (kB)", of: |r| Some(r.queue_max_bytes() as f64 / 1e3) },
        ]
    }
    fn experiences(outcome: &Outcome<Carried>) -> Vec<Experience<'_>> {
        let mut all = vec![experience("smallest half".to_string(), &outcome.short)];
        // Of the largest the first slice is nearly all bytes already; the ends are told apart.
        all.extend(outcome.largest.iter().skip(1).map(|slice| {
            let per_cent = (slice.share * 1e2).round().max(1.0);
            experience(format!("largest {per_cent} %"), &slice.summary)
        }));
        let class = |class: &'_ super::classes::ClassResult| class.name.clone();
        all.extend(outcome.classes.iter().map(|one| experience(class(one), &one.summary)));
        all
    }
    fn remarks(experiment: &Experiment<NetworkPlan>) -> Vec<String> {
        let few = |r: &&Outcome<Carried>| {
            r.short.p99_slowdown.as_ref().is_some_and(|q| q.supported().is_none())
        };
        let mut sentences = Vec::new();
        if let TrafficPlan::Trace(_) = experiment.plan.traffic {
            sentences.push(
                "All replications send the same recorded messages. So intervals show only the \
                 chance in network and transports, and not how another recording would differ."
                    .to_string(),
            );
        }
        let is_open = experiment.plan.traffic.arriving().is_some();
        if is_open && experiment.results.iter().any(|r| few(&r)) {
            sentences.push(
                "At some points fewer than 100 messages lie beyond the 99th percentile; raise \
                 run.messages, run.duration_ms or run.replications."
                    .to_string(),
            );
        }
        if is_open {
            sentences.extend(late(experiment));
        }
        sentences
    }
}

/// Whose tail is too low because runs are as short as its messages take.
fn late(experiment: &Experiment<NetworkPlan>) -> Option<String> {
    let of_result = |result: &Outcome<Carried>| {
        let known = |slice: &&SizeSlice| {
            slice.summary.p99_slowdown.as_ref().is_some_and(|p99| p99.supported().is_some())
        };
        let all = result.bins.iter().chain(&result.largest).filter(known);
        all.filter_map(|slice| slice.summary.too_late_ratio()).fold(0.0, f64::max)
    };
    let most = experiment.results.iter().filter(|one| one.stable()).map(of_result);
    let all: Vec<f64> = most.filter(|&share| share > 0.0).collect();
    let worst = all.iter().copied().fold(0.0, f64::max);
    (!all.is_empty()).then(|| {
        format!(
            "At {} of {} points the P99 of the longest messages is too low: up to {:.0} % of the \
             messages beyond it ended after arrivals had stopped, when less was in their way. Runs \
             {:.0} times as long would do (run.messages or run.duration_ms).",
            all.len(),
            experiment.results.len(),
            worst * 100.0,
            (worst / LATE_MAX).ceil()
        )
    })
}

/// What some messages experienced: the 99th percentile of slowdown, or the median where they are
/// too few.
fn experience(whose: String, summary: &NetSummary) -> Experience<'_> {
    let of = |p: Percentile| (p.title(), summary.get(p, Quantity::Slowdown));
    let values = [Percentile::P99, Percentile::P50].map(of).into();
    Experience { whose, unit: "x", more_is_better: false, values }
}

/// Seconds of one core for a packet to cross a link, transports included.
const HOP_S: f64 = 250e-9;
/// Memory of the histograms of one replication's bins, and of what is under way, per host.
const BINS_BYTES: f64 = 12.0 * 3.0 * 262_144.0;
const HOST_BYTES: f64 = 60e3;

fn effort(scenario: &Scenario, replications: u32) -> Effort {
    let replications = f64::from(replications);
    let seconds = scenario.setup.duration.as_ns() as f64 / 1e9;
    let packets = |bytes: f64| (bytes / 1450.0).ceil() * 1.6;
    let messages = scenario.rate_per_s * f64::from(scenario.senders) * seconds;
    let mean: f64 = scenario.sizes.steps().map(|(size, p)| packets(f64::from(size)) * p).sum();
    let ways = if scenario.demand.asks() { 2.0 } else { 1.0 };
    let (messages, sent) = match &scenario.demand {
        scenario::Demand::Open(_) | scenario::Demand::Classes(_) => {
            (messages, messages * mean * ways)
        }
        scenario::Demand::Phased(phases) => phases
            .iter()
            .map(|(open, length)| {
                let each = |(size, p): (u32, f64)| packets(f64::from(size)) * p;
                let mean: f64 = open.sizes.steps().map(each).sum();
                let seconds = length.as_ns() as f64 / 1e9;
                let count = open.rate_per_s * f64::from(scenario.senders) * seconds;
                (count, count * mean * ways)
            })
            .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1)),
        scenario::Demand::Recorded(recorded) => {
            let count = recorded.messages.len() as f64;
            (count, count * mean)
        }
        scenario::Demand::Incast(incast) => {
            let answers = scenario.host_bits_per_s as f64 * seconds / 8.0;
            let count = answers / f64::from(incast.answer_bytes);
            (count, count * (packets(f64::from(incast.answer_bytes)) + 1.0))
        }
        scenario::Demand::Blocks(blocks) => {
            let count = blocks.blocks as f64 * f64::from(blocks.servers);
            (count, count * (packets(f64::from(blocks.fragment_bytes)) + 1.0))
        }
        scenario::Demand::Echo { sizes, repeats, .. } => {
            let count = sizes.len() as f64 * f64::from(*repeats);
            (count, count * mean * ways)
        }
    };
    let alone: f64 =
        scenario.own_sizes.iter().map(|&size| 4.0 * ways * packets(f64::from(size))).sum();
    let hosts = f64::from(scenario.setup.network.topology.hosts());
    Effort {
        work: messages * replications,
        core_s: (sent * replications + alone) * scenario.hops_mean * HOP_S,
        memory_bytes: (BINS_BYTES + hosts * HOST_BYTES) * replications.min(16.0),
    }
}
