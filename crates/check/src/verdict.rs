//! The whole judgement of a history.

use crate::anomaly::{Class, Model, Name, Time};
use crate::cycle::{Budget, Search, Step, Wanted};
use crate::graph::{Draft, Graph, Kind, Mask};
use crate::history::{History, Outcome};
use crate::versions::{SameValue, Versions};
use crate::{moments, words};
use std::collections::BTreeMap;

/// Edges looked at in searches of smallest cycles, together; beyond that cycles are counted and not
/// shown.
const BUDGET: u64 = 200_000_000;

/// How to judge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// What the system promises.
    pub model: Model,
    /// Anomalies described in words, of each name; all are counted.
    pub shown: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { model: Model::Serializable, shown: 5 }
    }
}

/// One anomaly, described.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Anomaly {
    /// Its name.
    pub name: Name,
    /// What textbooks call this form of it, such as `lost update`.
    pub pattern: Option<&'static str>,
    /// Does the model forbid it?
    pub forbidden: bool,
    /// Transactions in it, by number.
    pub txns: Vec<u32>,
    /// The cycle; empty when it is none.
    pub steps: Vec<Step>,
    /// How many transactions hang together in cycles with these, they included.
    pub tangled: usize,
    /// What happened, a sentence a line.
    pub says: Vec<String>,
}

/// What a history shows.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What it was judged by.
    pub model: Model,
    /// Does it hold what the model promises?
    pub holds: bool,
    /// How many of each name there are. Of cycles those are sets of transactions that hang
    /// together.
    pub counts: BTreeMap<Name, usize>,
    /// Described anomalies: by name, smallest first.
    pub anomalies: Vec<Anomaly>,
    /// Sets that hang together in which no cycle was found before the search was given up.
    pub unsearched: usize,
    /// Transactions that took place.
    pub committed: usize,
    /// Transactions that did not.
    pub aborted: usize,
    /// Transactions of which nobody knows.
    pub unknown: usize,
    /// Operations of all transactions.
    pub operations: usize,
    /// Keys.
    pub keys: usize,
    /// Keys of which the order of versions is not known, so that an anomaly may escape.
    pub unordered_keys: usize,
    /// Edges between transactions.
    pub dependencies: usize,
}

/// Judges `history`.
///
/// # Errors
/// When two operations wrote the same value to one key, which no checker can tell apart.
pub fn judge(history: &History, options: Options) -> Result<Verdict, SameValue> {
    let mut draft = Draft::new(history.txns.len() as u32);
    let versions = Versions::of(history, &mut draft)?;
    let times = options.model.times();
    let timed = history.txns.iter().any(|txn| txn.completed < u64::MAX);
    for time in times.iter().filter(|_| timed) {
        moments::add(history, *time, &mut draft);
    }
    let graph = draft.finish();
    let of = |outcome| history.txns.iter().filter(|txn| txn.outcome == outcome).count();
    let verdict = Verdict {
        model: options.model,
        holds: true,
        counts: BTreeMap::new(),
        anomalies: Vec::new(),
        unsearched: 0,
        committed: of(Outcome::Ok),
        aborted: of(Outcome::Aborted),
        unknown: of(Outcome::Unknown),
        operations: history.operations(),
        keys: history.keys.len(),
        unordered_keys: versions.unordered,
        dependencies: graph.edge_count(),
    };
    let mut judge = Judge { history, options, verdict };
    for finding in versions.findings {
        let name = Name { class: finding.class, time: None };
        judge.add(name, finding.txns, Vec::new(), 0, Some(finding.says));
    }
    judge.cycles(&graph);
    let mut verdict = judge.verdict;
    verdict.anomalies.sort_by_key(|anomaly| (anomaly.name, anomaly.steps.len()));
    Ok(verdict)
}

struct Judge<'h> {
    history: &'h History,
    options: Options,
    verdict: Verdict,
}

impl Judge<'_> {
    fn add(
        &mut self,
        name: Name,
        txns: Vec<u32>,
        steps: Vec<Step>,
        tangled: usize,
        says: Option<String>,
    ) {
        let forbidden = self.options.model.forbids(name);
        self.verdict.holds &= !forbidden;
        let count = self.verdict.counts.entry(name).or_default();
        *count += 1;
        if *count > self.options.shown {
            return;
        }
        let (pattern, said) = match says {
            Some(says) => (None, vec![says]),
            None => words::cycle(self.history, &steps),
        };
        self.verdict.anomalies.push(Anomaly {
            name,
            pattern,
            forbidden,
            txns,
            steps,
            tangled,
            says: said,
        });
    }

    fn cycles(&mut self, graph: &Graph) {
        let mut budget = Budget(BUDGET);
        let mut search = Search::new(graph, self.history);
        let plain = graph.connected(Mask::DEPENDENCIES, None);
        for set in &plain {
            self.of_set(graph, set, &mut search, &mut budget);
        }
        for time in self.options.model.times() {
            let mask = Mask::DEPENDENCIES.and(time.kind());
            for set in graph.connected(mask, None) {
                // What hangs together without time as well was found already, unless there is more
                // to it.
                if plain.binary_search(&set).is_err() {
                    self.of_timed_set(graph, &set, *time, &mut search, &mut budget);
                }
            }
        }
    }

    /// Every class of cycles that a set has whose transactions hang together by dependencies.
    fn of_set(&mut self, graph: &Graph, set: &[u32], search: &mut Search<'_>, budget: &mut Budget) {
        let tangled = txns_of(graph, set);
        let (ww, reads) = (Mask::of(&[Kind::Ww]), Mask::of(&[Kind::Ww, Kind::Wr]));
        let (wr, rw) = (Mask::of(&[Kind::Wr]), Mask::of(&[Kind::Rw]));
        let wanted = |one, others| Wanted { one, others, time: None, nonadjacent: false };
        let mut found = false;
        for (class, wanted) in [
            (Class::G0, wanted(ww, ww)),
            (Class::G1c, wanted(wr, reads)),
            (Class::GSingle, wanted(rw, reads)),
        ] {
            // A cycle of writes and reads only is within a set that hangs together by those.
            let parts = match class {
                Class::GSingle => vec![set.to_vec()],
                _ => graph.connected(wanted.others, Some(set)),
            };
            let cycles = parts.iter().filter_map(|part| search.smallest(part, wanted, budget));
            if let Some(steps) = cycles.min_by_key(Vec::len) {
                self.cycle(class, None, steps, tangled);
                found = true;
            }
        }
        if found {
            return;
        }
        let all = Wanted { nonadjacent: true, ..wanted(rw, Mask::DEPENDENCIES) };
        let nonadjacent = search.smallest(set, all, budget);
        let any = search.smallest(set, Wanted { nonadjacent: false, ..all }, budget);
        if nonadjacent.is_none() && any.is_none() {
            self.verdict.unsearched += 1;
            self.verdict.holds &=
                !self.options.model.forbids(Name { class: Class::G2, time: None });
        }
        if let Some(steps) = nonadjacent {
            self.cycle(Class::GNonadjacent, None, steps, tangled);
        } else if let Some(steps) = any {
            self.cycle(Class::G2, None, steps, tangled);
        }
    }

    /// The smallest cycle of a set that needs an order of time.
    fn of_timed_set(
        &mut self,
        graph: &Graph,
        set: &[u32],
        time: Time,
        search: &mut Search<'_>,
        budget: &mut Budget,
    ) {
        let one = Mask::of(&[time.kind()]);
        let others = Mask::DEPENDENCIES.and(time.kind());
        let wanted = Wanted { one, others, time: Some(time), nonadjacent: false };
        let Some(steps) = search.smallest(set, wanted, budget) else {
            // Some order of time ties the set together, found or not.
            self.verdict.unsearched += 1;
            let name = Name { class: Class::G2, time: Some(time) };
            self.verdict.holds &= !self.options.model.forbids(name);
            return;
        };
        let count = |kind| steps.iter().filter(|step| step.kind == kind).count();
        let class = match (count(Kind::Rw), count(Kind::Wr)) {
            (0, 0) => Class::G0,
            (0, _) => Class::G1c,
            (1, _) => Class::GSingle,
            _ => Class::G2,
        };
        self.cycle(class, Some(time), steps, txns_of(graph, set));
    }

    fn cycle(&mut self, class: Class, time: Option<Time>, steps: Vec<Step>, tangled: usize) {
        let txns = steps.iter().map(|step| step.from).collect();
        self.add(Name { class, time }, txns, steps, tangled, None);
    }
}

fn txns_of(graph: &Graph, set: &[u32]) -> usize {
    set.iter().filter(|node| **node < graph.txns).count()
}
