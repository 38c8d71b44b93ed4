//! Sections of a run: what the messages to different receivers experienced.
//!
//! A run has few replications, because each has to warm up. But a message waits above all for
//! others to the same host, so that what two receivers saw says little about each other: the groups
//! of receivers are the sections from whose spread intervals come. What cannot be told apart by
//! receiver, such as the use of levels, is the same in all of them.

use super::result::{Carried, NetSummary};
use super::run::{Replication, Slices};
use super::scenario::Scenario;
use cavy_core::family::Node;
use cavy_lab::net::{Done, Ideal, InFlight, Observer, Ps, Setup, ps};
use cavy_lab::statistics::quantile::rank;
use cavy_study::outcome::{Estimate, Quantile};
use std::ops::Range;

/// Groups of receivers that are told apart while a run goes, at most.
const GROUPS: usize = 24;
/// Sections of a run at most: more would have too few messages each.
const SECTIONS: usize = 12;
/// Slowdowns that differ by less count as the same.
const WIDTH: f64 = 0.005;
/// The place of slowdown 1: a transport may beat its own best time by a little.
const ONE: f64 = 200.0;

/// How often each slowdown was seen.
#[derive(Clone, Debug, Default)]
struct Counts {
    by_place: Vec<u32>,
    total: u64,
}

impl Counts {
    fn record(&mut self, slowdown: f64) {
        let place = (libm::log(slowdown) / WIDTH + ONE).clamp(0.0, 1e4) as usize;
        if self.by_place.len() <= place {
            self.by_place.resize(place + 1, 0);
        }
        self.by_place[place] += 1;
        self.total += 1;
    }

    fn add(&mut self, other: &Counts) {
        if self.by_place.len() < other.by_place.len() {
            self.by_place.resize(other.by_place.len(), 0);
        }
        self.by_place.iter_mut().zip(&other.by_place).for_each(|(mine, theirs)| *mine += theirs);
        self.total += other.total;
    }

    fn quantile(&self, p: f64) -> Option<f64> {
        let wanted = rank(self.total, p);
        let mut seen = 0;
        let place = self.by_place.iter().position(|&count| {
            seen += u64::from(count);
            count > 0 && seen >= wanted
        })?;
        Some(libm::exp((place as f64 + 0.5 - ONE) * WIDTH))
    }
}

/// What a group of receivers saw.
#[derive(Clone, Debug, Default)]
struct Group {
    /// By bin of sizes: over the least time that there is, and over the transport's own best.
    slowdown: Vec<Counts>,
    own: Vec<Counts>,
    messages: u64,
    /// Payload that came to its hosts in the time that counts.
    payload_bytes: u64,
    hosts: u64,
}

/// Watches receivers in groups.
#[derive(Clone, Debug)]
pub struct Receivers<'a> {
    setup: &'a Setup,
    ideal: Ideal,
    window: (Ps, Ps),
    groups: Vec<Group>,
}

impl<'a> Receivers<'a> {
    /// For a run of `setup`; watches nothing unless `wanted`.
    pub fn new(setup: &'a Setup, wanted: bool) -> Self {
        let mut ideal = Ideal::new(&setup.network);
        if setup.ideal_without_latency_in_rack {
            ideal = ideal.without_latency_in_rack();
        }
        let bins = setup.bins.ends().len();
        let group = Group {
            slowdown: vec![Counts::default(); bins],
            own: vec![Counts::default(); bins],
            ..Group::default()
        };
        let mut groups = if wanted { vec![group; GROUPS] } else { Vec::new() };
        if wanted {
            for host in 0..setup.network.topology.hosts() as usize {
                groups[host % GROUPS].hosts += 1;
            }
        }
        Receivers { setup, ideal, window: (ps(setup.warmup), ps(setup.duration)), groups }
    }

    /// What was seen, as sections: of neighboring groups as many together as leave at most
    /// [`SECTIONS`]. None where messages come to one group only.
    pub fn finish(self) -> Vec<Section> {
        let with_messages: Vec<&Group> = self.groups.iter().filter(|g| g.messages > 0).collect();
        if with_messages.len() < 2 {
            return Vec::new();
        }
        let each = with_messages.len().div_ceil(SECTIONS);
        let mut all: Vec<Section> = with_messages.chunks(each).map(Section::of).collect();
        // Who only asks gets answers, so payload may come to more hosts than messages do.
        let with_payload: Vec<&Group> =
            self.groups.iter().filter(|g| g.payload_bytes > 0).collect();
        if with_payload.len().is_multiple_of(all.len()) {
            let each = with_payload.len() / all.len();
            for (section, groups) in all.iter_mut().zip(with_payload.chunks(each.max(1))) {
                let bytes: u64 = groups.iter().map(|group| group.payload_bytes).sum();
                let hosts: u64 = groups.iter().map(|group| group.hosts).sum();
                section.payload_bytes = Some(bytes as f64 / hosts.max(1) as f64);
            }
        }
        all
    }
}

impl<M: ?Sized, H: Copy> Observer<M, H> for Receivers<'_> {
    #[inline]
    fn received(&mut self, packet: &InFlight<H>, at: Ps) {
        if self.groups.is_empty() || at < self.window.0 || at >= self.window.1 {
            return;
        }
        let group = &mut self.groups[packet.to().0 as usize % GROUPS];
        group.payload_bytes += u64::from(packet.payload().length_bytes);
    }

    fn finished(&mut self, done: &Done) {
        if self.groups.is_empty() || !done.counted {
            return;
        }
        let Done { from, to, length_bytes, answer_bytes, .. } = *done;
        let mut least = self.ideal.time(from, to, length_bytes);
        let receiver: Node = match answer_bytes {
            0 => to,
            _ => {
                least += self.ideal.time(to, from, answer_bytes);
                from
            }
        };
        let time = (done.at - done.submitted_at) as f64;
        let group = &mut self.groups[receiver.0 as usize % GROUPS];
        let bin = self.setup.bins.of(length_bytes);
        group.messages += 1;
        group.slowdown[bin].record(time / least.max(1) as f64);
        let hops = self.setup.network.topology.hops(from, to);
        let own = self.setup.own_best.as_ref().and_then(|own| own.time(hops, length_bytes));
        if let Some(own) = own {
            group.own[bin].record(time / own.max(1) as f64);
        }
    }
}

/// One section of a run.
#[derive(Clone, Debug)]
pub struct Section {
    slowdown: Vec<Counts>,
    own: Vec<Counts>,
    /// For each host, where hosts can be divided as messages are.
    payload_bytes: Option<f64>,
}

impl Section {
    fn of(groups: &[&Group]) -> Section {
        let sum = |of: fn(&Group) -> &[Counts]| {
            let mut all = vec![Counts::default(); groups.first().map_or(0, |one| of(one).len())];
            for group in groups {
                all.iter_mut().zip(of(group)).for_each(|(sum, one)| sum.add(one));
            }
            all
        };
        let (slowdown, own) = (sum(|group| &group.slowdown), sum(|group| &group.own));
        Section { slowdown, own, payload_bytes: None }
    }

    /// Puts what messages of these bins saw here in the place of what all of them saw.
    fn put(&self, summary: &mut NetSummary, bins: Range<usize>) {
        let merged = |counts: &[Counts]| {
            let mut all = Counts::default();
            counts[bins.clone()].iter().for_each(|one| all.add(one));
            all
        };
        let (slowdown, own) = (merged(&self.slowdown), merged(&self.own));
        let put = |quantile: &mut Option<Quantile>, counts: &Counts, p: f64| {
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
            });
        };
        let NetSummary { summary, p50_own, p99_own } = summary;
        put(&mut summary.p50_slowdown, &slowdown, 0.5);
        put(&mut summary.p90_slowdown, &slowdown, 0.9);
        put(&mut summary.p95_slowdown, &slowdown, 0.95);
        put(&mut summary.p99_slowdown, &slowdown, 0.99);
        put(&mut summary.p999_slowdown, &slowdown, 0.999);
        put(&mut summary.p9999_slowdown, &slowdown, 0.9999);
        put(p50_own, &own, 0.5);
        put(p99_own, &own, 0.99);
        // Times are asked for of idle networks only, which have no sections.
        (summary.p50_us, summary.p90_us, summary.p95_us) = (None, None, None);
        (summary.p99_us, summary.p999_us, summary.p9999_us) = (None, None, None);
        summary.mean_us = None;
    }
}

/// What each section of each run says, in the form of the `whole`.
pub fn sections(scenario: &Scenario, runs: &[Replication], whole: &Carried) -> Vec<Carried> {
    let reports: Vec<_> = runs.iter().map(|run| &run.report).collect();
    let slices = Slices { scenario, reports: &reports };
    let all: Vec<&Section> = runs.iter().flat_map(|run| &run.sections).collect();
    let payloads: Option<Vec<f64>> = all.iter().map(|section| section.payload_bytes).collect();
    let mean = payloads.map(|all| all.iter().sum::<f64>() / all.len().max(1) as f64);
    all.iter().map(|section| of_section(&slices, section, whole, mean)).collect()
}

fn of_section(
    slices: &Slices<'_>,
    section: &Section,
    whole: &Carried,
    payload_mean: Option<f64>,
) -> Carried {
    let bins = section.slowdown.len();
    let mut all = Carried { smallest: Vec::new(), ..whole.clone() };
    section.put(&mut all.overall, 0..bins);
    section.put(&mut all.short, 0..slices.bins_to(0.5));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_counts_are_within_their_width() {
        let mut counts = Counts::default();
        (1..=1_000).for_each(|k| counts.record(f64::from(k) / 100.0 + 1.0));
        for p in [0.1, 0.5, 0.99] {
            let found = counts.quantile(p).expect("a thousand");
            let exact = 10.0 * p + 1.0;
            assert!((found / exact - 1.0).abs() < WIDTH, "{p}: {found} for {exact}");
        }
        assert_eq!(Counts::default().quantile(0.5), None);
        let mut twice = counts.clone();
        twice.add(&counts);
        assert_eq!(twice.quantile(0.99), counts.quantile(0.99));
    }
}
