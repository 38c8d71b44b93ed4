//! Running one point: replications side by side, and what they say together.

use super::classes::{self, ByClass};
use super::result::{BlockResult, Carried, Edge, NetSummary, PacketResult, PortResult, SizeSlice};
use super::scenario::{self, Scenario};
use super::sections::{Receivers, Section};
use super::standing;
use super::tail::{TailSources, Watch};
use super::timeline::{Levels, TimeBin, Timeline, summarized};
use super::transport::Transport;
use crate::events::Events;
use cavy_homa::Homa;
use cavy_homa::rivals::{blast, dctcp, ndp, pfabric, phost, pias};
use cavy_lab::net::{
    self, BinRecord, Bins, BlockTimes, Observer, PortClass, Report, SLOWDOWN_UNIT, Setup, Waste,
    own_best,
};
use cavy_lab::pending::Pending;
use cavy_lab::statistics::histogram::Histogram;
use cavy_study::objective::Quantity;
use cavy_study::outcome::{Estimate, Quantile, Summary};
use cavy_study::point::{Manner, Queue, RunError};
use cavy_study::subject::Summed;
use cavy_workload::Sizes;
use std::ops::Range;

/// What one replication came to.
pub struct Replication {
    pub(super) report: Report,
    /// Share of time wasted at each host's downlink; empty for transports that withhold nothing.
    pub(super) waste: Vec<f64>,
    answers_bits_per_s: f64,
    pub(super) watch: Watch,
    sources: Option<TailSources>,
    pub(super) timeline: Timeline,
    pub(super) levels: Levels,
    blocks: BlockTimes,
    tcp: Option<cavy_tcp::Counts>,
    /// For each way to cut the run up.
    pub(super) sections: Vec<Vec<Section>>,
    pub(super) by_class: ByClass,
    /// Hosts that were to learn cut-offs and saw messages, but too few to look at.
    pub(super) never_learned: Option<u32>,
}

impl Replication {
    /// Share of the time that downlinks idled while their receiver withheld grants.
    fn wasted_ratio(&self) -> Option<f64> {
        let hosts = self.waste.len() as f64;
        (hosts > 0.0).then(|| self.waste.iter().sum::<f64>() / hosts)
    }
}

/// Calls `$call` with a function that makes the transport's machines.
macro_rules! with_machines {
    ($transport:expr, $make:ident => $call:expr, homa($homa:ident) => $homa_call:expr) => {{
        const CHECKED: &str = "the plan was checked, and a checked transport can be made";
        match $transport {
            Transport::Homa(config) => {
                let shared = std::sync::Arc::new(**config);
                let $homa = |_| Homa::sharing(&shared).expect(CHECKED);
                $homa_call
            }
            Transport::Blast(config) => {
                let $make = |_| blast::Blast::new(*config).expect(CHECKED);
                $call
            }
            Transport::PFabric(config) => {
                let $make = |_| pfabric::PFabric::new(*config).expect(CHECKED);
                $call
            }
            Transport::PHost(config) => {
                let $make = |_| phost::PHost::new(*config).expect(CHECKED);
                $call
            }
            Transport::Dctcp(config) => {
                let $make = |_| dctcp::Dctcp::new(*config).expect(CHECKED);
                $call
            }
            Transport::Pias(config) => {
                let $make = |_| pias::Pias::new(*config).expect(CHECKED);
                $call
            }
            Transport::Ndp(config) => {
                let $make = |_| ndp::Ndp::new(*config).expect(CHECKED);
                $call
            }
            Transport::Tcp { config, kept } => {
                let $make = |_| super::tcp::machine(config, *kept);
                $call
            }
            Transport::Oracle => unreachable!("the oracle has no machines"),
        }
    }};
}

/// Measures each size alone on the idle network, when the plan wants that denominator.
pub fn prepare(scenario: &mut Scenario, manner: &Manner) {
    scenario.setup.shuffle_ties = manner.shuffle_ties;
    let sizes = &scenario.own_sizes;
    if sizes.is_empty() || matches!(scenario.transport, Transport::Oracle) {
        return;
    }
    let (setup, asks) = (&scenario.setup, scenario.demand.asks());
    let best = with_machines!(
        &scenario.transport,
        make => own_best(setup, make, sizes, asks),
        homa(make) => own_best(setup, make, sizes, asks)
    );
    scenario.setup.own_best = Some(best);
}

/// Runs one replication.
pub fn replicate(scenario: &Scenario, seed: u64, manner: &Manner) -> Result<Replication, RunError> {
    let short = if scenario.tail_sources { short_bytes(&scenario.sizes) } else { 0 };
    let pending = &mut Events::of(manner, Queue::Wheel);
    let setup = Setup { seed, ..scenario.setup.clone() };
    let hosts = setup.network.topology.hosts();
    let traffic = scenario.demand.start(hosts, seed)?;
    let mut watch = Watch::new(&setup, short);
    let mut timeline = Timeline::new(&setup, scenario.timeline, manner.sectioned);
    let mut levels = Levels::new(&setup, scenario.timeline);
    let by_class = ByClass::new(scenario.classes.len());
    let mut receivers = Receivers::new(&setup, manner.sectioned, by_class);
    let mut waste = Vec::new();
    let mut tcp = None;
    let mut never_learned = None;
    let mut blocks = BlockTimes::new(match &scenario.demand {
        scenario::Demand::Blocks(blocks) => blocks.servers,
        _ => 0,
    });
    let report = match &scenario.transport {
        Transport::Tcp { config, kept } => {
            let make = |_| super::tcp::machine(config, *kept);
            let both = &mut (&mut (&mut (&mut watch, &mut timeline), &mut blocks), &mut receivers);
            let (report, machines) = net::run_to_machines(&setup, make, traffic, pending, both);
            let mut counts = cavy_tcp::Counts::default();
            // Of blocks the servers are of interest: a client's questions are short.
            let from = usize::from(matches!(scenario.demand, scenario::Demand::Blocks(_)));
            machines.iter().skip(from).for_each(|machine| counts.add(machine.counts()));
            tcp = Some(counts);
            report
        }
        Transport::Oracle => net::oracle::run(&setup, traffic, pending, &mut receivers),
        transport => with_machines!(
            transport,
            make => {
                let both = &mut (&mut (&mut watch, &mut timeline), &mut blocks);
                let both = &mut (both, &mut receivers);
                net::run(&setup, make, traffic, pending, both)
            },
            homa(make) => {
                let mut withheld = Waste::new(&setup, Homa::is_withholding);
                let machines = &mut (&mut withheld, &mut levels);
                let both = &mut (&mut (&mut watch, &mut timeline), machines);
                let both = &mut (both, &mut blocks);
                let both = &mut (both, &mut receivers);
                let (report, machines) = observed(&setup, make, traffic, pending, both);
                let ignorant = machines.iter().filter(|homa| homa.never_looked()).count();
                never_learned = Some(ignorant as u32);
                waste = withheld.by_host();
                report
            }
        ),
    };
    let (sections, by_class) = receivers.finish();
    Ok(Replication {
        report,
        waste,
        answers_bits_per_s: watch.answers_bits_per_s(),
        sources: watch.sources(None),
        watch,
        timeline,
        levels,
        blocks,
        tcp,
        sections,
        by_class,
        never_learned,
    })
}

/// Up to which size messages are short where the sources of their tail are asked for: the smallest
/// half, and of these such as have one packet, as of a longer one the delays of its last packet
/// would say little. Where none has, the smallest.
fn short_bytes(sizes: &Sizes) -> u32 {
    /// Payload of a full packet that needs no grant [homa 2.2].
    const PACKET_BYTES: u32 = 1442;
    sizes.quantile(0.5).min(PACKET_BYTES).max(sizes.rows()[0].0)
}

/// [`net::run_to_machines`] for Homa, so that the closure's type is known.
fn observed<T: net::Traffic, P: Pending>(
    setup: &Setup,
    make: impl FnMut(cavy_core::family::Node) -> Homa,
    traffic: T,
    pending: &mut P,
    observer: &mut impl Observer<Homa, cavy_homa::packet::Header>,
) -> (Report, Vec<Homa>) {
    net::run_to_machines(setup, make, traffic, pending, observer)
}

/// What replications say together.
pub fn summarize(scenario: &Scenario, runs: &[Replication]) -> Summed<Carried> {
    let reports: Vec<&Report> = runs.iter().map(|run| &run.report).collect();
    let sum = |of: fn(&Report) -> u64| reports.iter().map(|report| of(report)).sum::<u64>();
    let (standing, note) = standing::judge(scenario, &reports);
    use scenario::Demand::{Blocks, Classes, Echo, Open};
    let seconds = scenario.setup.duration.as_ns() as f64 / 1e9;
    let achieved = sum(|r| r.messages.finished) as f64 / runs.len().max(1) as f64 / seconds;
    let offered = scenario.rate_per_s * f64::from(scenario.senders);
    Summed {
        standing,
        note,
        unformed: standing::unformed(scenario, runs),
        rate_per_s: match scenario.demand {
            Open(_) | Classes(_) => Some(offered),
            // Their time is a bound within which all of them end.
            Blocks(_) | Echo { .. } => None,
            _ => Some(achieved),
        },
        work: sum(|r| r.messages.submitted),
        data: carried(scenario, runs, &reports),
    }
}

fn carried(scenario: &Scenario, runs: &[Replication], reports: &[&Report]) -> Carried {
    let sum = |of: fn(&Report) -> u64| reports.iter().map(|report| of(report)).sum::<u64>();
    let mean = |of: &dyn Fn(&Replication) -> f64| {
        runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64
    };
    let slices = Slices { scenario, reports };
    let bins = reports.first().map_or(0, |report| report.bins.len());
    let shown = slices.shown();
    let asks = scenario.demand.asks();
    let sources: Vec<&TailSources> = runs.iter().filter_map(|run| run.sources.as_ref()).collect();
    Carried {
        unfinished: sum(|r| r.messages.unfinished_counted),
        failed: sum(|r| r.messages.failed + r.messages.abandoned),
        classes: classes::results(&scenario.classes, runs),
        overall: slices.summary(0..bins),
        short: slices.summary(0..slices.bins_to(0.5)),
        bins: shown.iter().map(|bins| slices.slice(bins.clone())).collect(),
        edges: shown.iter().map(|bins| slices.edge(bins.clone())).collect(),
        smallest: shown.iter().map(|bins| slices.slice(0..bins.end)).collect(),
        largest: slices.largest(bins),
        longest: (bins > 1).then(|| slices.slice(bins - 1..bins)),
        goodput_gbps: mean(&|run| run.report.goodput_bits_per_s) / 1e9,
        offered_gbps: offered_bits_per_s(scenario) / 1e9,
        answers_gbps: asks
            .then(|| mean(&|run| run.answers_bits_per_s) / f64::from(scenario.senders) / 1e9),
        ports: ports(reports),
        level_bytes: (0..8)
            .map(|level| reports.iter().map(|report| report.level_bytes[level]).sum())
            .collect(),
        waste_ratio: runs
            .iter()
            .map(|run| run.wasted_ratio())
            .sum::<Option<f64>>()
            .map(|total| total / runs.len().max(1) as f64),
        tail_sources: merged_sources(&sources),
        packets: PacketResult {
            sent: sum(|r| r.packets.sent),
            hops: sum(|r| r.packets.hops),
            dropped: sum(|r| r.packets.lost_full),
            lost: sum(|r| r.packets.lost_fault + r.packets.lost_down),
            trimmed: sum(|r| r.packets.trimmed),
            marked: sum(|r| r.packets.marked),
        },
        payload_bytes: sum(|r| r.payload_bytes),
        retransmitted_bytes: sum(|r| r.retransmitted_bytes),
        backlog_bytes: [0, 1].map(|half| mean(&|run| run.report.backlog_bytes[half])),
        timeline: timeline(runs),
        blocks: blocks(scenario, runs),
    }
}

/// What became of blocks.
fn blocks(scenario: &Scenario, runs: &[Replication]) -> Option<BlockResult> {
    let scenario::Demand::Blocks(demand) = &scenario.demand else { return None };
    let bytes = u64::from(demand.servers) * u64::from(demand.fragment_bytes);
    let mut latencies = Histogram::new();
    runs.iter().flat_map(|run| run.blocks.latencies_ns()).for_each(|ns| latencies.record(ns));
    let goodput = |run: &Replication| run.blocks.goodput_bits_per_s(bytes);
    let mut counts = cavy_tcp::Counts::default();
    let each: Option<Vec<_>> = runs.iter().map(|run| run.tcp).collect();
    let known = each.is_some();
    each.iter().flatten().for_each(|one| counts.add(one));
    let fresh = (counts.data_segments - counts.retransmitted).max(1) as f64;
    let goodput_each_mbps: Vec<f64> =
        runs.iter().filter_map(goodput).map(|bits| bits / 1e6).collect();
    let mean = goodput_each_mbps.iter().sum::<f64>() / goodput_each_mbps.len() as f64;
    Some(BlockResult {
        goodput_ratio: mean.is_finite().then(|| mean * 1e6 / scenario.host_bits_per_s as f64),
        blocks: runs.iter().map(|run| run.blocks.latencies_ns().count() as u64).sum(),
        goodput_each_mbps,
        p50_ms: latencies.quantile(0.5).unwrap_or(0) as f64 / 1e6,
        sends_per_segment: known.then(|| counts.data_segments as f64 / fresh),
        timeouts: known.then_some([
            counts.timeouts_whole,
            counts.timeouts_tail,
            counts.timeouts_again,
        ]),
        timeouts_silent: known.then_some(counts.timeouts_silent),
        timeouts_unprompted: known.then_some(counts.timeouts_unprompted),
        timeouts_run: known.then_some(counts.run_longest),
        connections_by_run: known.then_some(counts.connections_by_run),
        connections_by_doublings: known.then_some(counts.connections_by_doublings),
        latency_ms: if latencies.count() == 0 {
            Vec::new()
        } else {
            let at = |share: f64| latencies.quantile(share).unwrap_or(0) as f64 / 1e6;
            (0..=100).map(|per_cent| at(f64::from(per_cent) / 100.0)).collect()
        },
    })
}

fn timeline(runs: &[Replication]) -> Vec<TimeBin> {
    summarized(&runs.iter().map(|run| (&run.timeline, &run.levels)).collect::<Vec<_>>())
}

/// Payload that is to arrive at each host, bits per second; zero for closed loops.
fn offered_bits_per_s(scenario: &Scenario) -> f64 {
    let hosts = f64::from(scenario.setup.network.topology.hosts());
    let messages_per_s = scenario.rate_per_s * f64::from(scenario.senders) / hosts;
    let ways = if scenario.demand.asks() { 2.0 } else { 1.0 };
    8.0 * messages_per_s * scenario.sizes.mean_bytes() * ways
}

fn merged_sources(all: &[&TailSources]) -> Option<TailSources> {
    let messages: u64 = all.iter().map(|one| one.messages).sum();
    if messages == 0 {
        return None;
    }
    let mean = |of: fn(&TailSources) -> f64| {
        all.iter().map(|one| of(one) * one.messages as f64).sum::<f64>() / messages as f64
    };
    Some(TailSources {
        queueing_us: mean(|one| one.queueing_us),
        lag_us: mean(|one| one.lag_us),
        messages,
    })
}

fn ports(reports: &[&Report]) -> Vec<PortResult> {
    let names = ["nic", "downlink", "uplink", "spine"];
    let of = |(class, name): (PortClass, &str)| {
        let each: Vec<_> = reports.iter().map(|report| report.class(class)).collect();
        let count = each.len().max(1) as f64;
        let mean_bytes_each: Vec<f64> = each.iter().map(|record| record.mean_bytes).collect();
        PortResult {
            class: name.to_string(),
            ports: each.first().map_or(0, |record| record.ports),
            mean_bytes: mean_bytes_each.iter().sum::<f64>() / count,
            mean_bytes_each,
            found_mean_bytes: each.iter().map(|record| record.found_mean_bytes).sum::<f64>()
                / count,
            max_bytes: each.iter().map(|record| record.max_bytes).max().unwrap_or(0),
            utilization: each.iter().map(|record| record.utilization).sum::<f64>() / count,
        }
    };
    PortClass::ALL.into_iter().zip(names).map(of).filter(|port| port.ports > 0).collect()
}

/// Messages of some bins in all replications.
pub(super) struct Slices<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) reports: &'a [&'a Report],
}

impl Slices<'_> {
    /// The longest message of a bin.
    pub(super) fn end(&self, bin: usize) -> u32 {
        self.reports.first().map_or(0, |report| report.bins[bin].up_to_bytes)
    }

    /// Share of messages of at most `bytes`.
    fn share(&self, bytes: u32) -> f64 {
        let rows = self.scenario.sizes.rows();
        rows.iter().rfind(|row| row.0 <= bytes).map_or(0.0, |row| row.1)
    }

    /// Share of messages before those of a bin.
    pub(super) fn shorter(&self, bin: usize) -> f64 {
        if bin == 0 { 0.0 } else { self.share(self.end(bin - 1)) }
    }

    /// Bins that end at or before the message at this share; at least one.
    pub(super) fn bins_to(&self, share: f64) -> usize {
        let bytes = self.scenario.sizes.quantile(share);
        let bins = self.reports.first().map_or(0, |report| report.bins.len());
        (0..bins).filter(|&bin| self.end(bin) <= bytes).count().max(1).min(bins)
    }

    /// The bins that are shown as one: those that end within each of [`Bins::deciles`].
    pub(super) fn shown(&self) -> Vec<Range<usize>> {
        let bins = self.reports.first().map_or(0, |report| report.bins.len());
        if matches!(self.scenario.demand, scenario::Demand::Echo { .. }) {
            return (0..bins).map(|bin| bin..bin + 1).collect();
        }
        let mut from = 0;
        let mut until = |&end: &u32| {
            let to = (from..bins).find(|&bin| self.end(bin) == end)? + 1;
            Some(std::mem::replace(&mut from, to)..to)
        };
        Bins::deciles(&self.scenario.sizes).ends().iter().filter_map(&mut until).collect()
    }

    /// What happened to messages of these bins, which are not none.
    fn slice(&self, bins: Range<usize>) -> SizeSlice {
        let bytes = self.end(bins.end - 1);
        SizeSlice { share: self.share(bytes), bytes, summary: self.summary(bins) }
    }

    /// The last of these bins, or as many as a supported 99th percentile needs.
    fn edge(&self, bins: Range<usize>) -> Edge {
        let from = |from: usize| {
            let slice = self.slice(from..bins.end);
            Edge { from_share: self.shorter(from), slice }
        };
        let known = |edge: &Edge| {
            let p99 = edge.slice.summary.p99_slowdown.as_ref();
            p99.is_some_and(|p99| p99.supported().is_some())
        };
        let narrow = bins.clone().skip(1).rev().map(from).find(known);
        narrow.unwrap_or_else(|| from(bins.start))
    }

    /// The largest half, tenth and hundredth, where sizes can be told apart.
    fn largest(&self, bins: usize) -> Vec<SizeSlice> {
        let mut all: Vec<SizeSlice> = Vec::new();
        for share in [0.5, 0.9, 0.99] {
            let from = self.bins_to(share);
            if from < bins && all.last().is_none_or(|last| last.bytes < self.end(from - 1)) {
                let bytes = self.end(from - 1);
                let share = 1.0 - self.share(bytes);
                all.push(SizeSlice { share, bytes, summary: self.summary(from..bins) });
            }
        }
        all
    }

    fn summary(&self, bins: Range<usize>) -> NetSummary {
        let merged = |of: fn(&BinRecord) -> &Histogram| -> Vec<Histogram> {
            let one = |report: &&Report| {
                let mut all = Histogram::new();
                report.bins[bins.clone()].iter().for_each(|bin| all.merge(of(bin)));
                all
            };
            self.reports.iter().map(one).collect()
        };
        let latency = Pooled::new(merged(|bin| &bin.latency_ns), 1e-3);
        let slowdown = Pooled::new(merged(|bin| &bin.slowdown), SLOWDOWN_UNIT);
        let own = Pooled::new(merged(|bin| &bin.slowdown_own), SLOWDOWN_UNIT);
        let all = self.reports.iter().flat_map(|report| &report.bins[bins.clone()]);
        let late = all.flat_map(|bin| &bin.late);
        NetSummary {
            summary: Summary::new(latency.count(), latency.mean(), None, |p, quantity| {
                match quantity {
                    Quantity::Us => latency.quantile(p.ratio()),
                    Quantity::Slowdown => slowdown.quantile(p.ratio()),
                }
            }),
            p50_own: own.quantile(0.5),
            p99_own: own.quantile(0.99),
            p99_late_ratio: slowdown.share_beyond(0.99, late),
        }
    }
}

/// A quantity over replications, and all together.
pub(super) struct Pooled {
    each: Vec<Histogram>,
    all: Histogram,
    unit: f64,
}

impl Pooled {
    pub(super) fn new(each: Vec<Histogram>, unit: f64) -> Self {
        let mut all = Histogram::new();
        each.iter().for_each(|one| all.merge(one));
        Pooled { each, all, unit }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.all.count()
    }

    pub(super) fn quantile(&self, p: f64) -> Option<Quantile> {
        let pooled = self.all.quantile(p)? as f64 * self.unit;
        // A replication without such messages has nothing to say.
        let own = |one: &Histogram| one.quantile(p).map(|value| value as f64 * self.unit);
        let each: Vec<f64> = self.each.iter().filter_map(own).collect();
        Some(Quantile::new(pooled, each, self.all.count(), p))
    }

    /// Of what lies beyond a quantile, the share that `some` of it are; `None` where none are.
    fn share_beyond<'a>(&self, p: f64, some: impl Iterator<Item = &'a u64>) -> Option<f64> {
        let least = self.all.quantile(p)?;
        let count = some.filter(|&&value| value > least).count();
        let beyond = self.quantile(p)?.beyond.max(1);
        (count > 0).then(|| (count as f64 / beyond as f64).min(1.0))
    }

    pub(super) fn mean(&self) -> Option<Estimate> {
        let of = |one: &Histogram| one.mean().map(|value| value * self.unit);
        let each = self.each.iter().filter_map(of).collect();
        Some(Estimate::new(of(&self.all)?, each))
    }
}
