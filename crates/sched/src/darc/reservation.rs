//! The reservation: which workers each group of types owns, and which it may steal
//! ([persephone 2.8]).
//!
//! A pure function of means, ratios, workers and delta ([persephone I8]).

use crate::workers::WorkerSet;
use alloc::vec::Vec;
use cavy_core::family::cpu::{Kind, Worker};
use core::fmt;

/// What is known of one type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demand {
    /// The type.
    pub kind: Kind,
    /// Mean service time in ns by which types are ordered and grouped.
    pub order_ns: f64,
    /// Mean time in ns for which a request holds its worker, by which workers are shared out.
    pub hold_ns: f64,
    /// Its share of the requests, 0 when it has vanished.
    pub ratio: f64,
}

/// Types of similar service time and the workers they share.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// Its types, by ascending mean.
    pub members: Vec<Kind>,
    /// Demand in workers: its share of the work times the number of workers.
    pub demand: f64,
    /// Workers it owns, the spillway included where it had to fall back on it.
    pub reserved: WorkerSet,
    /// How many of them are its own alone.
    pub own: u16,
    /// It lists the spillway because its own workers are fewer than it wanted.
    pub spills: bool,
    /// Workers of longer groups, and those nobody owns, which it may use when they are free.
    pub stealable: WorkerSet,
}

/// A reservation for all types.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Groups by ascending service time.
    pub groups: Vec<Group>,
    /// Workers shared out.
    pub workers: u16,
    /// Workers that no group owns.
    pub left: u16,
}

/// How the demand of a group is rounded to workers ([persephone 2.8]): up when more than half a
/// worker would be missing, and never to none.
pub fn round_demand(demand: f64) -> u16 {
    // Exact demands such as 13 * (1/13 + ...) miss their integer by a rounding error.
    let full = libm::floor(demand + 1e-9);
    if full < 1.0 {
        return 1;
    }
    let up = demand - full > 0.5 + 1e-9;
    full as u16 + u16::from(up)
}

/// Types that are offered more than the workers they may use can do.
#[derive(Clone, PartialEq, Debug)]
pub struct Overload {
    /// The types: those of a group and of all longer ones.
    pub kinds: Vec<Kind>,
    /// What they are offered, in workers.
    pub offered: f64,
    /// Workers that any of them may use.
    pub workers: u32,
}

impl Table {
    /// The static limit of stability ([persephone 2.12]): the longest groups together must be
    /// offered less than the workers that they may use. `offered` is what each type is offered, in
    /// workers, by type number less 1. Necessary, not sufficient: shorter groups steal as well.
    pub fn overload(&self, offered: &[f64]) -> Option<Overload> {
        (0..self.groups.len()).find_map(|first| {
            let rest = &self.groups[first..];
            let kinds: Vec<Kind> =
                rest.iter().flat_map(|group| group.members.iter().copied()).collect();
            let of = |kind: &Kind| offered.get(usize::from(kind.0) - 1).copied().unwrap_or(0.0);
            let total: f64 = kinds.iter().map(of).sum();
            let workers = rest
                .iter()
                .map(|group| group.reserved.union(&group.stealable))
                .reduce(|all, more| all.union(&more))
                .map_or(0, |all| all.len());
            // What is offered has rounding errors; exactly as much as can be done is too much.
            let is_over = total > 0.0 && total >= f64::from(workers) * (1.0 - 1e-9);
            is_over.then_some(Overload { kinds, offered: total, workers })
        })
    }

    /// Sorts `demands` by service time and groups them: a type joins while its mean lies less than
    /// `delta` above the mean of the group's *first* member.
    pub fn group(demands: &mut [Demand], delta: f64, workers: u16) -> Vec<Group> {
        demands.sort_by(|a, b| a.order_ns.total_cmp(&b.order_ns));
        let work: f64 = demands.iter().map(|d| d.hold_ns * d.ratio).sum();
        let mut groups: Vec<Group> = Vec::new();
        let mut leader_ns = 0.0;
        for demand in demands.iter() {
            let joins = !groups.is_empty() && demand.order_ns - leader_ns < delta * leader_ns;
            if !joins {
                leader_ns = demand.order_ns;
                groups.push(Group {
                    members: Vec::new(),
                    demand: 0.0,
                    reserved: WorkerSet::EMPTY,
                    own: 0,
                    spills: false,
                    stealable: WorkerSet::EMPTY,
                });
            }
            if let Some(group) = groups.last_mut() {
                group.members.push(demand.kind);
                if work > 0.0 {
                    group.demand += f64::from(workers) * demand.hold_ns * demand.ratio / work;
                }
            }
        }
        groups
    }

    /// Gives each group the workers it wants, shortest first, the rest of the list as stealable,
    /// and the spillway to those for whom none are left.
    pub fn assign(mut groups: Vec<Group>, wants: &[u16], workers: u16) -> Table {
        let mut next = 0;
        for (group, &want) in groups.iter_mut().zip(wants) {
            let take = want.min(workers - next);
            group.reserved = WorkerSet::range(next, next + take);
            group.own = take;
            next += take;
            group.spills = want > take;
            if group.spills {
                group.reserved.insert(Table::spillway(workers));
            }
            group.stealable = WorkerSet::range(next, workers);
        }
        Table { groups, workers, left: workers - next }
    }

    /// DARC's reservation: [`Table::group`], each demand rounded, [`Table::assign`].
    pub fn reserve(demands: &mut [Demand], delta: f64, workers: u16) -> Table {
        let groups = Table::group(demands, delta, workers);
        let wants: Vec<u16> = groups.iter().map(|group| round_demand(group.demand)).collect();
        Table::assign(groups, &wants, workers)
    }

    /// The worker that serves whoever has none: the last one.
    pub fn spillway(workers: u16) -> Worker {
        Worker(workers - 1)
    }

    /// The group of `kind`.
    pub fn group_of(&self, kind: Kind) -> Option<&Group> {
        self.groups.iter().find(|group| group.members.contains(&kind))
    }

    /// Asserts [persephone I6] and [persephone I7].
    pub fn check(&self) {
        let own: u16 = self.groups.iter().map(|group| group.own).sum();
        assert_eq!(own + self.left, self.workers, "I7: {self}");
        for group in &self.groups {
            assert!(!group.reserved.union(&group.stealable).is_empty(), "I6: {self}");
        }
    }
}

/// `2/6/6`, with `+S` where a group falls back on the spillway and `, 1 free` for unowned workers.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, group) in self.groups.iter().enumerate() {
            let slash = if index > 0 { "/" } else { "" };
            let spill = if group.spills { "+S" } else { "" };
            write!(f, "{slash}{}{spill}", group.own)?;
        }
        if self.left > 0 {
            write!(f, ", {} free", self.left)?;
        }
        Ok(())
    }
}
