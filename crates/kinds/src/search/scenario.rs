//! What one replication needs: servers, costs, rates, the scheme.

use super::fit;
use super::plan::{OrderPlan, PickPlan, RangesPlan, SchemePlan, SearchPlan, StartPlan};
use crate::csv;
use cavy_core::{Purpose, Stream};
use cavy_search::Cost;
use cavy_search::clusters::Pick;
use cavy_search::scheme::{Planner, Ranges, Roar, Scheme, Start};
use cavy_study::plan::{Files, PlanError};

/// What one replication needs, apart from its seed.
pub struct Scenario {
    pub(super) speeds: Vec<f64>,
    pub(super) order: OrderPlan,
    pub(super) costs: Vec<Cost>,
    pub(super) p: u32,
    pub(super) way: Way,
    /// Mean time between queries, nanoseconds.
    pub(super) gap_ns: f64,
    pub(super) front_ends: usize,
    pub(super) report_ns: Option<u64>,
    pub(super) dead: u32,
    pub(super) loss_draws: u32,
    pub(super) queries: u64,
    pub(super) warmup: u64,
    pub(super) documents: u64,
    pub(super) document_bytes: u32,
    pub(super) cost_ms: (f64, f64),
}

/// How queries are spread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Way {
    /// By a scheme that finds everything.
    Scheme(Scheme),
    /// By chance.
    Random {
        /// Copies of a document.
        copies: u32,
        /// Servers that a query asks.
        asked: u32,
        /// Sets that are tried.
        best_of: u32,
    },
}

impl Scenario {
    /// The order of servers on the ring in the replication of `seed`.
    pub(super) fn order(&self, seed: u64) -> Vec<u32> {
        let n = self.speeds.len() as u32;
        let mut order: Vec<u32> = (0..n).collect();
        match self.order {
            OrderPlan::Interleaved => {}
            OrderPlan::Blocks => {
                let speed = |server: &u32| self.speeds[*server as usize];
                order.sort_by(|a, b| speed(a).total_cmp(&speed(b)).then(a.cmp(b)));
            }
            OrderPlan::Shuffled => {
                let mut draws = Stream::keyed(seed, 0, Purpose::Labels);
                for last in (1..order.len()).rev() {
                    order.swap(last, draws.below(last as u64 + 1) as usize);
                }
            }
        }
        order
    }

    /// A planner for the replication of `seed`; `None` for queries by chance.
    pub(super) fn planner(&self, seed: u64) -> Option<Planner> {
        let Way::Scheme(scheme) = self.way else { return None };
        Planner::new(scheme, &self.speeds, &self.order(seed), self.p).ok()
    }
}

fn number(key: &str, value: f64, least: f64, most: f64) -> Result<f64, PlanError> {
    if value.is_finite() && value >= least && value <= most {
        return Ok(value);
    }
    Err(PlanError::field(key, value, &format!("from {least} to {most}")))
}

/// The scenario of a plan with one scheme.
pub fn scenario(plan: &SearchPlan, files: &Files) -> Result<Scenario, PlanError> {
    if plan.servers == 0 || plan.servers > 4_096 {
        return Err(PlanError::field("servers", plan.servers, "from 1 to 4096"));
    }
    let speeds = speeds(plan, files)?;
    if plan.p == 0 || plan.p > plan.servers {
        return Err(PlanError::field(
            "p",
            plan.p,
            &format!("from 1 to `servers`, {}", plan.servers),
        )
        .hint("a query has one part at least, and no server gets two"));
    }
    if plan.documents == 0 || plan.documents > 1_000_000_000_000 {
        return Err(PlanError::field("documents", plan.documents, "from 1 to 10^12"));
    }
    let (mut fixed_ms, mut document_us) = (plan.fixed_ms, plan.document_us);
    if let Some(file) = &plan.measured {
        let fit = fit::line(files, file)?;
        (fixed_ms, document_us) = (fit.fixed_ms, fit.document_us);
    }
    number("fixed_ms", fixed_ms, 0.0, 1e6)?;
    number("document_us", document_us, 0.0, 1e9)?;
    let scan_ms = document_us * plan.documents as f64 / 1e3;
    if scan_ms <= 0.0 || scan_ms > 1e9 {
        return Err(PlanError::field(
            "document_us",
            document_us,
            "such that scanning all takes time",
        )
        .hint("scanning everything takes `documents` times `document_us`, at most 10^6 s"));
    }
    let way = way(plan, &speeds)?;
    // Writes take their share of each processor, and queries are so much slower.
    number("updates_per_s", plan.updates_per_s, 0.0, 1e9)?;
    number("update_us", plan.update_us, 0.0, 1e6)?;
    let copies = match way {
        Way::Random { copies, .. } => f64::from(copies),
        Way::Scheme(scheme) => {
            let order: Vec<u32> = (0..plan.servers).collect();
            let planner = Planner::new(scheme, &speeds, &order, plan.p)
                .map_err(|error| PlanError::text(error.to_string()))?;
            planner.copies()
        }
    };
    let writing = plan.updates_per_s * plan.update_us / 1e6 * copies / f64::from(plan.servers);
    if writing >= 0.95 {
        let value = plan.updates_per_s;
        return Err(PlanError::field("updates_per_s", value, "fewer, or cheaper ones").hint(
            format!("at p = {} writes alone take {:.0} % of each server", plan.p, writing * 100.0),
        ));
    }
    let cost = |speed: &f64| Cost {
        fixed_ns: (fixed_ms * 1e6 / (1.0 - writing)).round() as u64,
        scan_ns: (scan_ms * 1e6 / speed / (1.0 - writing)).round().max(1.0) as u64,
    };
    let total: f64 = speeds.iter().sum();
    let rate = match (plan.queries_per_s, plan.load) {
        (Some(rate), None) => number("queries_per_s", rate, 1e-6, 1e9)?,
        (None, Some(load)) => number("load", load, 1e-6, 100.0)? * total / (scan_ms / 1e3),
        (None, None) => {
            return Err(PlanError::text("either `queries_per_s` or `load` is needed")
                .hint("`load = 0.5` is half of what all servers could scan"));
        }
        (Some(_), Some(load)) => {
            return Err(PlanError::field("load", load, "left out beside `queries_per_s`"));
        }
    };
    let costs = speeds.iter().map(cost).collect();
    if plan.front_ends == 0 || plan.front_ends > 64 {
        return Err(PlanError::field("front_ends", plan.front_ends, "from 1 to 64"));
    }
    let report_ns = match plan.report_ms {
        None => None,
        Some(ms) => Some((number("report_ms", ms, 0.1, 1e6)? * 1e6) as u64),
    };
    if plan.dead_servers >= plan.servers {
        return Err(PlanError::field("dead_servers", plan.dead_servers, "below `servers`")
            .hint("with nobody alive there is nothing to measure"));
    }
    if plan.loss_draws > 10_000_000 {
        return Err(PlanError::field("loss_draws", plan.loss_draws, "at most 10000000"));
    }
    if plan.run.queries < 100 || plan.run.queries > 10_000_000 {
        return Err(PlanError::field("run.queries", plan.run.queries, "from 100 to 10000000"));
    }
    if plan.run.warmup_queries >= plan.run.queries {
        let value = plan.run.warmup_queries;
        return Err(PlanError::field("run.warmup_queries", value, "below `run.queries`"));
    }
    Ok(Scenario {
        order: plan.order,
        costs,
        p: plan.p,
        way,
        gap_ns: 1e9 / rate,
        front_ends: plan.front_ends as usize,
        report_ns,
        dead: plan.dead_servers,
        loss_draws: plan.loss_draws,
        queries: plan.run.queries,
        warmup: plan.run.warmup_queries,
        documents: plan.documents,
        document_bytes: plan.document_bytes,
        cost_ms: (fixed_ms, scan_ms),
        speeds,
    })
}

fn speeds(plan: &SearchPlan, files: &Files) -> Result<Vec<f64>, PlanError> {
    let n = plan.servers as usize;
    let must = "from 0.001 to 1000";
    let fits = |speed: f64| (0.001..=1_000.0).contains(&speed);
    if let Some(file) = &plan.speeds_file {
        let mut table = csv::open(files, file)?;
        let column = table.column("speed")?;
        let mut row = ::csv::StringRecord::new();
        let mut speeds = Vec::new();
        while table.next(&mut row)? {
            let speed = table.number(&row, column)?;
            if !fits(speed) {
                let place = table.place(&row, column);
                return Err(PlanError::text(format!("{place}: a speed is {must}, not {speed}"))
                    .in_file(&table.name));
            }
            speeds.push(speed);
        }
        if speeds.len() != n {
            let value = format!("{} lines", speeds.len());
            return Err(PlanError::field("speeds_file", value, &format!("{n} lines"))
                .hint("a line for each of `servers`"));
        }
        return Ok(speeds);
    }
    if plan.speeds.is_empty() {
        return Err(PlanError::field("speeds", "empty", "at least one speed"));
    }
    if let Some(&bad) = plan.speeds.iter().find(|speed| !fits(**speed)) {
        return Err(PlanError::field("speeds", bad, must)
            .hint("a server of speed 2 scans twice as many documents a second as one of speed 1"));
    }
    Ok(plan.speeds.iter().copied().cycle().take(n).collect())
}

fn way(plan: &SearchPlan, speeds: &[f64]) -> Result<Way, PlanError> {
    let Some(scheme) = plan.schemes.first() else {
        return Err(PlanError::field("schemes", "empty", "at least one scheme"));
    };
    let scheme = match scheme {
        SchemePlan::Ptn(own) => Scheme::Clusters(match own.pick {
            PickPlan::Earliest => Pick::Earliest,
            PickPlan::TwoChoices => Pick::TwoChoices,
            PickPlan::LeastOutstanding => Pick::LeastOutstanding,
            PickPlan::RoundRobin => Pick::RoundRobin,
        }),
        SchemePlan::Shards(_) => Scheme::Clusters(Pick::Adaptive),
        SchemePlan::Sw(_) => Scheme::Window,
        SchemePlan::Opt(_) => Scheme::Ideal,
        SchemePlan::Roar(own) => {
            if own.parts == 0 || own.parts > 16 {
                return Err(PlanError::field("schemes.parts", own.parts, "from 1 to 16"));
            }
            Scheme::Roar(Roar {
                ranges: match own.ranges {
                    RangesPlan::Proportional => Ranges::Proportional,
                    RangesPlan::Equal => Ranges::Equal,
                },
                rings: own.rings,
                start: match own.start {
                    StartPlan::Swept => Start::Swept,
                    StartPlan::Random => Start::Blind,
                    StartPlan::Free => Start::Free,
                },
                parts: own.parts,
                adjust: own.adjust,
                splits: own.splits.min(64),
                threshold: number("schemes.threshold_ratio", own.threshold_ratio, 0.0, 1.0)?,
                within: number("schemes.within_ratio", own.within_ratio, 0.0, 1.0)?,
            })
        }
        SchemePlan::Rand(own) => {
            number("schemes.c", own.c, 0.1, 100.0)?;
            let (n, p) = (f64::from(plan.servers), f64::from(plan.p));
            let (copies, asked) = ((own.c * n / p).round(), (own.c * p).round());
            if copies < 1.0 || asked < 1.0 || copies > n || asked > n {
                return Err(PlanError::field("schemes.c", own.c, "smaller, or p another").hint(
                    format!("{copies} copies and {asked} sub-queries need as many servers"),
                ));
            }
            if plan.front_ends > 1 || plan.dead_servers > 0 {
                return Err(PlanError::text("`rand` has one front end and no dead servers")
                    .hint("leave it out of plans about those"));
            }
            let (copies, asked) = (copies as u32, asked as u32);
            return Ok(Way::Random { copies, asked, best_of: own.best_of.clamp(1, 64) });
        }
    };
    let order: Vec<u32> = (0..plan.servers).collect();
    match Planner::new(scheme, speeds, &order, plan.p) {
        Ok(_) => Ok(Way::Scheme(scheme)),
        Err(error) => Err(PlanError::text(error.to_string())
            .hint("choose another p, or leave the scheme out of this plan")),
    }
}
