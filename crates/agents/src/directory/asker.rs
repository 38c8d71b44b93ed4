//! Questions of one node. What is the same for all pairs of it is looked up once: what it measured
//! lately, and what pairs of its region and another one take longer.

use super::index::{Search, Seat, region};
use super::{Directory, Entry, LIFETIME_S, Said, Source, p90_ms};
use cavy_coords::Coordinate;
use cavy_coords::map::FLOOR_MS_PER_KM;

/// What is known of pairs of two regions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    /// They take so much longer than coordinates say.
    pub residual_ms: f64,
    /// The p90 over the prediction.
    pub p90: Option<f64>,
}

/// A node that asks.
pub struct Asker<'a> {
    directory: &'a Directory,
    node: u32,
    entry: &'a Entry,
    /// What it measured in the last hour, by peer, in the order of these.
    young: Vec<(u32, f64)>,
    /// By the other region; empty where nothing is known.
    rows: &'a [Row],
    /// The p90 over the prediction, of history, of coordinates that have learnt and of places; the
    /// same for all pairs.
    by_source: [Option<f64>; 3],
}

impl<'a> Asker<'a> {
    pub(super) fn new(directory: &'a Directory, node: u32, now_s: u64) -> Option<Asker<'a>> {
        let entry = directory.entry(node)?;
        let young = entry.measured.iter();
        let young = young.filter(|one| now_s.saturating_sub(one.at_s) <= LIFETIME_S);
        let mut young: Vec<(u32, f64)> = young.map(|one| (one.peer, one.rtt_ms)).collect();
        young.sort_unstable_by_key(|one| one.0);
        let by_source = [Source::History, Source::Coord, Source::Geo];
        let by_source = by_source.map(|source| directory.source_p90(source));
        let rows = directory.rows(region(entry.cell));
        Some(Asker { directory, node, entry, young, rows, by_source })
    }

    fn measured_ms(&self, peer: u32) -> Option<f64> {
        let at = self.young.binary_search_by_key(&peer, |one| one.0).ok()?;
        Some(self.young[at].1)
    }

    fn row(&self, there: u16) -> Row {
        self.rows.get(usize::from(there)).copied().unwrap_or_default()
    }

    fn with_p90(&self, rtt_ms: f64, source: Source, by_region: Option<f64>) -> Said {
        let [history, coord, geo] = self.by_source;
        let by_source = || match source {
            Source::History => history,
            Source::Coord => coord,
            Source::Geo => geo,
        };
        Said { rtt_ms, p90_ms: p90_ms(rtt_ms, source, by_region, by_source), source }
    }

    /// Can the two reach each other, as far as they said?
    pub fn meets(&self, to: u32) -> Option<bool> {
        self.entry.said.reach.meets(self.directory.card(to)?.reach)
    }

    /// The round trip to a node; `None` when one of the two has no coordinate and nothing was
    /// measured.
    pub fn said(&self, to: u32) -> Option<Said> {
        if let Some(rtt_ms) = self.measured_ms(to) {
            return Some(self.with_p90(rtt_ms, Source::History, None));
        }
        let there = self.directory.card(to)?;
        let (one, other) = (self.entry.coordinate()?, there.coordinate()?);
        let row = self.row(there.region);
        let (rtt_ms, source) = self.directory.predicted(one, &other, row.residual_ms);
        Some(self.with_p90(rtt_ms, source, row.p90))
    }

    /// The `k` nearest nodes of a class, or of all, that can be reached; the nearest first.
    pub fn nearest(&self, k: usize, class: Option<&str>) -> Vec<(u32, Said)> {
        let directory = self.directory;
        let is_asked = |node: u32| {
            let there = directory.entry(node);
            there.is_some_and(|there| class.is_none_or(|class| class == there.said.class))
                && self.meets(node) != Some(false)
        };
        let young = self.young.iter().filter(|one| is_asked(one.0));
        let mut best: Vec<(f64, u32)> = young.map(|(peer, rtt_ms)| (*rtt_ms, *peer)).collect();
        if let Some(own) = self.entry.coordinate() {
            let residual_ms = |there: u16| self.row(there).residual_ms;
            let rtt_ms = |seat: &Seat, residual_ms: f64| {
                let Seat { height_ms, place, system, .. } = *seat;
                // Of these a prediction reads neither error nor updates.
                let there =
                    Coordinate { position: place, height_ms, system, error: 1.0, updates: 0 };
                directory.pair_ms(own, &there, residual_ms)
            };
            let admits = |node: u32| {
                let other = node != self.node && self.measured_ms(node).is_none();
                other && self.meets(node) != Some(false)
            };
            let model = directory.model();
            let share = if own.system == 0 { 1.0 } else { model.same_system_factor };
            let search = Search {
                from: own.position,
                ms_per_radian: model.line.ms_per_radian(),
                height: (share, own.height_ms),
                floor_ms_per_km: FLOOR_MS_PER_KM,
                residual_ms: &residual_ms,
                rtt_ms: &rtt_ms,
                admits: &admits,
            };
            directory.index.nearest(class, k, &search, &mut best);
        } else {
            best.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            best.truncate(k);
        }
        let said = |(_, node): &(f64, u32)| Some((*node, self.said(*node)?));
        best.iter().filter_map(said).collect()
    }
}
