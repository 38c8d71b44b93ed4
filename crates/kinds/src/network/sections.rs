//! Sections of a run: what the messages to different receivers experienced.
//!
//! A run has few replications, because each has to warm up. But a message waits above all for
//! others to the same host, so that what two receivers saw says little about each other: the groups
//! of receivers are the sections from whose spread intervals come. What cannot be told apart by
//! receiver is told apart by host: queues by the port to a host, levels and what is sent again by
//! the host that sends, and the levels that receivers ask for by receiver.
//!
//! An answer waits for others to the host that asked, but a question waits for those of all askers
//! to the host that answers. So what had answers is told apart a second time, by who answered.

use super::classes::ByClass;
use super::result::{Carried, NetSummary, PortResult};
use super::run::{Replication, Slices};
use super::scenario::Scenario;
use super::tail::TailSources;
use super::timeline;
use cavy_core::family::Node;
use cavy_lab::net::{ClassRecord, Done, Ideal, InFlight, Observer, Ps, Setup, ps};
use cavy_lab::statistics::Ratios;
use cavy_study::outcome::{Estimate, Quantile};
use std::ops::Range;

/// Groups of receivers that are told apart while a run goes, at most.
pub(super) const GROUPS: usize = 24;
/// Sections of a run at most: more would have too few messages each.
const SECTIONS: usize = 12;

/// The group of a host.
#[inline]
pub(super) fn group_of(host: Node) -> usize {
    host.0 as usize % GROUPS
}

/// Who waits for a message: its receiver, or of a question who asked.
#[inline]
pub(super) fn waits(done: &Done) -> Node {
    if done.answer_bytes == 0 { done.to } else { done.from }
}

/// How long messages took.
#[derive(Clone, Debug, Default)]
struct Took {
    /// By bin of sizes: over the least time that there is, and over the transport's own best.
    slowdown: Vec<Ratios>,
    own: Vec<Ratios>,
    /// Over the least time, by class of traffic.
    classes: Vec<Ratios>,
    messages: u64,
}

/// One message that ended.
struct Ended {
    class: usize,
    bin: usize,
    slowdown: f64,
    /// Over the transport's own best, where that is known.
    own: Option<f64>,
}

impl Took {
    fn record(&mut self, ended: &Ended) {
        self.messages += 1;
        self.slowdown[ended.bin].record(ended.slowdown);
        if let Some(class) = self.classes.get_mut(ended.class) {
            class.record(ended.slowdown);
        }
        if let Some(own) = ended.own {
            self.own[ended.bin].record(own);
        }
    }

    fn sum<'a>(all: impl Iterator<Item = &'a Took>) -> Took {
        let add = |sums: &mut Vec<Ratios>, ratios: &[Ratios]| {
            sums.resize_with(ratios.len(), Ratios::default);
            sums.iter_mut().zip(ratios).for_each(|(sum, one)| sum.add(one));
        };
        let mut sum = Took::default();
        for took in all {
            add(&mut sum.slowdown, &took.slowdown);
            add(&mut sum.own, &took.own);
            add(&mut sum.classes, &took.classes);
            sum.messages += took.messages;
        }
        sum
    }
}

/// What a group of receivers saw.
#[derive(Clone, Debug, Default)]
struct Group {
    /// The messages that its hosts wait for.
    took: Took,
    /// Payload that came to its hosts in the time that counts.
    payload_bytes: u64,
    hosts: u64,
    /// Wire bytes that its hosts sent at each level in that time, and their payload in all time.
    level_bytes: [u64; 8],
    sent_bytes: u64,
}

/// Watches receivers in groups.
#[derive(Clone, Debug)]
pub struct Receivers<'a> {
    setup: &'a Setup,
    ideal: Ideal,
    window: (Ps, Ps),
    groups: Vec<Group>,
    /// Messages with answers, by the group of who answered.
    answered: Vec<Took>,
    by_class: ByClass,
}

impl<'a> Receivers<'a> {
    /// For a run of `setup`; watches no groups unless `wanted`.
    pub fn new(setup: &'a Setup, wanted: bool, by_class: ByClass) -> Self {
        let mut ideal = Ideal::new(&setup.network);
        if setup.ideal_without_latency_in_rack {
            ideal = ideal.without_latency_in_rack();
        }
        let bins = setup.bins.ends().len();
        let took = Took {
            slowdown: vec![Ratios::default(); bins],
            own: vec![Ratios::default(); bins],
            classes: vec![Ratios::default(); by_class.len()],
            messages: 0,
        };
        let answered = if wanted { vec![took.clone(); GROUPS] } else { Vec::new() };
        let group = Group { took, ..Group::default() };
        let mut groups = if wanted { vec![group; GROUPS] } else { Vec::new() };
        if wanted {
            for host in 0..setup.network.topology.hosts() as usize {
                groups[group_of(Node(host as u32))].hosts += 1;
            }
        }
        let window = (ps(setup.warmup), ps(setup.duration));
        Receivers { setup, ideal, window, groups, answered, by_class }
    }

    /// What was seen, as sections by who waits and, where there were answers, by who answered. None
    /// where one group alone waits or answers. And what was seen of classes.
    pub fn finish(self) -> (Vec<Vec<Section>>, ByClass) {
        let mut ways = vec![self.by_waiting()];
        if self.answered.iter().any(|took| took.messages > 0) {
            ways.push(self.by_answering());
        }
        if ways.iter().any(Vec::is_empty) {
            ways.clear();
        }
        (ways, self.by_class)
    }

    /// Of neighboring groups with messages as many together as leave at most [`SECTIONS`]. None
    /// where there is one group only.
    fn chunks(took: &[&Took]) -> Vec<Section> {
        let with_messages: Vec<usize> =
            (0..took.len()).filter(|&place| took[place].messages > 0).collect();
        if with_messages.len() < 2 {
            return Vec::new();
        }
        let of = |places: &[usize]| Section {
            took: Took::sum(places.iter().map(|&place| took[place])),
            waiting: places.to_vec(),
            ..Section::default()
        };
        with_messages.chunks(with_messages.len().div_ceil(SECTIONS)).map(of).collect()
    }

    /// Queues, the sources of the tail and steps of time are told apart by who waits alone.
    fn by_answering(&self) -> Vec<Section> {
        let mut all = Self::chunks(&self.answered.iter().collect::<Vec<_>>());
        all.iter_mut().for_each(|section| section.waiting.clear());
        all
    }

    fn by_waiting(&self) -> Vec<Section> {
        let took: Vec<&Took> = self.groups.iter().map(|group| &group.took).collect();
        let mut all = Self::chunks(&took);
        if all.is_empty() {
            return all;
        }
        let places = |with: &dyn Fn(&Group) -> bool| -> Vec<usize> {
            (0..self.groups.len()).filter(|&place| with(&self.groups[place])).collect()
        };
        // Who only asks gets answers, so payload may come to more hosts than messages do.
        let with_payload = places(&|group| group.payload_bytes > 0);
        if with_payload.len().is_multiple_of(all.len()) {
            let each = (with_payload.len() / all.len()).max(1);
            for (section, places) in all.iter_mut().zip(with_payload.chunks(each)) {
                let groups = || places.iter().map(|&place| &self.groups[place]);
                let bytes: u64 = groups().map(|group| group.payload_bytes).sum();
                let hosts: u64 = groups().map(|group| group.hosts).sum();
                section.payload_bytes = Some(bytes as f64 / hosts.max(1) as f64);
                section.receiving = places.to_vec();
            }
        }
        let sending = places(&|group| group.sent_bytes > 0);
        if sending.len().is_multiple_of(all.len()) {
            let each = (sending.len() / all.len()).max(1);
            for (section, places) in all.iter_mut().zip(sending.chunks(each)) {
                let groups = || places.iter().map(|&place| &self.groups[place]);
                section.level_bytes =
                    core::array::from_fn(|level| groups().map(|g| g.level_bytes[level]).sum());
                section.sent_bytes = groups().map(|group| group.sent_bytes).sum();
                section.sending = places.to_vec();
            }
        }
        all
    }
}

impl<M: ?Sized, H: Copy> Observer<M, H> for Receivers<'_> {
    #[inline]
    fn sent(&mut self, packet: &InFlight<H>, at: Ps) {
        if self.groups.is_empty() {
            return;
        }
        let group = &mut self.groups[group_of(packet.from())];
        group.sent_bytes += u64::from(packet.payload().length_bytes);
        if at >= self.window.0 && at < self.window.1 {
            group.level_bytes[usize::from(packet.priority() & 7)] += u64::from(packet.wire_bytes());
        }
    }

    #[inline]
    fn received(&mut self, packet: &InFlight<H>, at: Ps) {
        if self.groups.is_empty() || at < self.window.0 || at >= self.window.1 {
            return;
        }
        let group = &mut self.groups[group_of(packet.to())];
        group.payload_bytes += u64::from(packet.payload().length_bytes);
    }

    fn finished(&mut self, done: &Done) {
        if self.groups.is_empty() && self.by_class.len() == 0 || !done.counted {
            return;
        }
        let Done { from, to, length_bytes, answer_bytes, .. } = *done;
        let mut least = self.ideal.time(from, to, length_bytes);
        if answer_bytes > 0 {
            least += self.ideal.time(to, from, answer_bytes);
        }
        self.by_class.record(done, least);
        if self.groups.is_empty() {
            return;
        }
        let time = (done.at - done.submitted_at) as f64;
        let hops = self.setup.network.topology.hops(from, to);
        let own = self.setup.own_best.as_ref().and_then(|own| own.time(hops, length_bytes));
        let ended = Ended {
            class: usize::from(done.class),
            bin: self.setup.bins.of(length_bytes),
            slowdown: time / least.max(1) as f64,
            own: own.map(|own| time / own.max(1) as f64),
        };
        self.groups[group_of(waits(done))].took.record(&ended);
        if answer_bytes > 0 {
            self.answered[group_of(to)].record(&ended);
        }
    }
}

/// One section of a run.
#[derive(Clone, Debug, Default)]
pub struct Section {
    took: Took,
    /// The groups whose hosts wait for its messages; none of a section by who answered, which has
    /// nothing of what follows.
    waiting: Vec<usize>,
    /// For each host, where hosts can be divided as messages are, and the groups of these hosts.
    payload_bytes: Option<f64>,
    receiving: Vec<usize>,
    /// What hosts of other groups sent, where those that send can be divided so.
    level_bytes: [u64; 8],
    sent_bytes: u64,
    sending: Vec<usize>,
}

impl Section {
    /// Puts the queues of its hosts' downlinks in the place of those of all, and what was withheld
    /// there.
    fn put_hosts(&self, all: &mut Carried, run: &Replication) {
        let hosts = |groups: &[usize]| {
            let groups = groups.to_vec();
            move |&host: &usize| groups.contains(&group_of(Node(host as u32)))
        };
        let (receiving, sending) = (hosts(&self.receiving), hosts(&self.sending));
        let links = &run.report.downlinks;
        let own: Vec<&ClassRecord> =
            (0..links.len()).filter(receiving).map(|host| &links[host]).collect();
        if let Some(port) = all.ports.iter_mut().find(|port| port.class == "downlink")
            && !own.is_empty()
        {
            let mean = |of: fn(&ClassRecord) -> f64| {
                own.iter().map(|&one| of(one)).sum::<f64>() / own.len() as f64
            };
            let packets: u64 = own.iter().map(|one| one.sent_packets).sum();
            let found = own.iter().map(|one| one.found_mean_bytes * one.sent_packets as f64);
            let mean_bytes = mean(|one| one.mean_bytes);
            *port = PortResult {
                class: port.class.clone(),
                ports: own.len() as u32,
                mean_bytes,
                mean_bytes_each: vec![mean_bytes],
                found_mean_bytes: found.sum::<f64>() / packets.max(1) as f64,
                max_bytes: own.iter().map(|one| one.max_bytes).max().unwrap_or(0),
                utilization: mean(|one| one.utilization),
            };
        }
        let wasted: Vec<f64> = (0..run.waste.len())
            .filter(hosts(&self.receiving))
            .map(|host| run.waste[host])
            .collect();
        if all.waste_ratio.is_some() && !wasted.is_empty() {
            all.waste_ratio = Some(wasted.iter().sum::<f64>() / wasted.len() as f64);
        }
        if !self.sending.is_empty() {
            all.level_bytes = self.level_bytes.to_vec();
            all.payload_bytes = self.sent_bytes;
            let again = &run.report.retransmitted_by_host;
            all.retransmitted_bytes =
                (0..again.len()).filter(sending).map(|host| again[host]).sum();
        }
        if self.waiting.is_empty() {
            return;
        }
        if let Some(whole) = &mut all.tail_sources
            && let Some(own) = run.watch.sources(Some(&self.waiting))
        {
            // Whether they are enough is said of all.
            *whole = TailSources { messages: whole.messages, ..own };
        }
        all.timeline =
            timeline::of_groups(&all.timeline, &run.timeline, &run.levels, &self.waiting);
    }

    /// Puts what messages of these bins saw here in the place of what all of them saw.
    fn put(&self, summary: &mut NetSummary, bins: Range<usize>) {
        let merged = |counts: &[Ratios]| {
            let mut all = Ratios::default();
            counts[bins.clone()].iter().for_each(|one| all.add(one));
            all
        };
        Section::put_ratios(summary, &merged(&self.took.slowdown), &merged(&self.took.own));
    }

    /// The same of ratios that are known: over the least time, and over the transport's own best.
    fn put_ratios(summary: &mut NetSummary, slowdown: &Ratios, own: &Ratios) {
        let put = |quantile: &mut Option<Quantile>, counts: &Ratios, p: f64| {
            let Some(known) = quantile else { return };
            let found = counts.quantile(p).map(|value| (value * 1e4).round() / 1e4);
            *quantile = found.map(|value| Quantile {
                estimate: Estimate {
                    value,
                    low: value,
                    high: value,
                    median: value,
                    replications: vec![value],
                },
                beyond: known.beyond,
                bursts: None,
            });
        };
        // What ended late is told of all.
        let NetSummary { summary, p50_own, p99_own, p99_late_ratio: _ } = summary;
        put(&mut summary.p50_slowdown, slowdown, 0.5);
        put(&mut summary.p90_slowdown, slowdown, 0.9);
        put(&mut summary.p95_slowdown, slowdown, 0.95);
        put(&mut summary.p99_slowdown, slowdown, 0.99);
        put(&mut summary.p999_slowdown, slowdown, 0.999);
        put(&mut summary.p9999_slowdown, slowdown, 0.9999);
        put(p50_own, own, 0.5);
        put(p99_own, own, 0.99);
        // Times are asked for of idle networks only, which have no sections.
        (summary.p50_us, summary.p90_us, summary.p95_us) = (None, None, None);
        (summary.p99_us, summary.p999_us, summary.p9999_us) = (None, None, None);
        summary.mean_us = None;
    }
}

/// What each section of each run says, in the form of the `whole`, for each way to cut runs up.
pub fn sections(scenario: &Scenario, runs: &[Replication], whole: &Carried) -> Vec<Vec<Carried>> {
    let reports: Vec<_> = runs.iter().map(|run| &run.report).collect();
    let slices = Slices { scenario, reports: &reports };
    let ways = runs.iter().map(|run| run.sections.len()).min().unwrap_or(0);
    (0..ways).map(|way| of_way(&slices, runs, whole, way)).collect()
}

fn of_way(slices: &Slices<'_>, runs: &[Replication], whole: &Carried, way: usize) -> Vec<Carried> {
    let all = || runs.iter().flat_map(|run| run.sections[way].iter().map(move |one| (run, one)));
    let payloads: Option<Vec<f64>> = all().map(|(_, section)| section.payload_bytes).collect();
    let mean = payloads.map(|all| all.iter().sum::<f64>() / all.len().max(1) as f64);
    all().map(|both| of_section(slices, both, whole, mean)).collect()
}

fn of_section(
    slices: &Slices<'_>,
    (run, section): (&Replication, &Section),
    whole: &Carried,
    payload_mean: Option<f64>,
) -> Carried {
    let bins = section.took.slowdown.len();
    let mut all = Carried { smallest: Vec::new(), ..whole.clone() };
    section.put_hosts(&mut all, run);
    section.put(&mut all.overall, 0..bins);
    section.put(&mut all.short, 0..slices.bins_to(0.5));
    for (class, slowdown) in all.classes.iter_mut().zip(&section.took.classes) {
        Section::put_ratios(&mut class.summary, slowdown, &Ratios::default());
    }
    let shown = slices.shown();
    for (slice, range) in all.bins.iter_mut().zip(&shown) {
        section.put(&mut slice.summary, range.clone());
    }
    for (edge, range) in all.edges.iter_mut().zip(&shown) {
        let from_share = edge.from_share;
        let is_first = |&from: &usize| slices.shorter(from) == from_share;
        let from = range.clone().find(is_first).unwrap_or(range.start);
        section.put(&mut edge.slice.summary, from..range.end);
    }
    for slice in &mut all.largest {
        // Its bound is the longest message that is not in it.
        let from = (0..bins).find(|&bin| slices.end(bin) == slice.bytes).map_or(0, |bin| bin + 1);
        section.put(&mut slice.summary, from..bins);
    }
    if let Some(longest) = &mut all.longest {
        section.put(&mut longest.summary, bins - 1..bins);
    }
    if let (Some(payload), Some(mean)) = (section.payload_bytes, payload_mean.filter(|m| *m > 0.0))
    {
        all.goodput_gbps *= payload / mean;
        // What was to arrive here is not known apart, so the share of it that did is that of all.
        all.offered_gbps *= payload / mean;
    }
    all
}
