//! What one replication needs: servers, costs, rates, the scheme.

use super::changes::Change;
use super::fit;
use super::machines;
use super::plan::{
    self, ChangePlan, CostsPlan, DealtPlan, EventPlan, OrderPlan, PickPlan, RangesPlan,
    ReshardPlan, SchemePlan, SearchPlan, SearchRun, StartPlan,
};
use super::scheduler::{self, Scheduling};
use crate::csv;
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_lab::cpu::Speed;
use cavy_search::Cost;
use cavy_search::cluster::{Balance, Hedge};
use cavy_search::clusters::Pick;
use cavy_search::scheme::{Planner, Ranges, Roar, Scheme, Start};
use cavy_study::plan::{Files, PlanError};

/// The most processors of a server.
const CORES_MAX: u16 = 64;

/// What one replication needs, apart from its seed.
pub struct Scenario {
    pub(super) speeds: Vec<f64>,
    pub(super) cores: u16,
    pub(super) scheduling: Option<Scheduling>,
    pub(super) learns: bool,
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
    /// R^2 of the line through what was measured, if anything was.
    pub(super) explained: Option<f64>,
    pub(super) dealt: DealtPlan,
    pub(super) events: Vec<Event>,
    pub(super) change: Change,
    pub(super) copy_percent: u32,
    pub(super) copies_wait: bool,
    pub(super) margin: Span,
    pub(super) hedge: Option<Hedge>,
    pub(super) deadline: Option<Span>,
    pub(super) bounce: Option<Span>,
    pub(super) balance: Option<Balance>,
    pub(super) duration: Span,
    pub(super) warm: Span,
}

/// Something that happens.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// p is changed.
    Spread {
        /// When.
        at: Instant,
        /// To what.
        p: u32,
    },
    /// Servers stop.
    Crash {
        /// When.
        at: Instant,
        /// Which.
        who: Crashed,
        /// When they are back.
        until: Instant,
        /// What they had stored is lost.
        loses_disk: bool,
    },
    /// A server leaves the ring.
    Leave {
        /// When.
        at: Instant,
        /// When it comes back.
        until: Instant,
    },
    /// Servers are slow.
    Slow {
        /// When.
        at: Instant,
        /// When they are fast again.
        until: Instant,
        /// How many.
        servers: u32,
        /// How fast.
        speed: Speed,
    },
    /// A server stands still now and then.
    Stall {
        /// When first.
        at: Instant,
        /// From one time to the next.
        every: Span,
        /// Each time.
        lasts: Span,
    },
}

/// Servers that stop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Crashed {
    /// So many, by chance.
    Servers(u32),
    /// All of this ring, from 0.
    Ring(u32),
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

    /// Mean time between queries, nanoseconds.
    pub(super) fn gap_ns(&self) -> f64 {
        self.gap_ns
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
        .hint("a query has at least one part, and each part goes to a server of its own"));
    }
    if !(1..=CORES_MAX).contains(&plan.cores) {
        return Err(PlanError::field("cores", plan.cores, &format!("from 1 to {CORES_MAX}"))
            .hint("a sub-query is work of one processor; more of them answer more at a time"));
    }
    let cores = f64::from(plan.cores);
    if plan.documents == 0 || plan.documents > 1_000_000_000_000 {
        return Err(PlanError::field("documents", plan.documents, "from 1 to 10^12"));
    }
    let (mut fixed_ms, mut document_us, mut explained) = (plan.fixed_ms, plan.document_us, None);
    if let Some(file) = &plan.measured {
        let fit = fit::line(files, file)?;
        (fixed_ms, document_us) = (fit.fixed_ms, fit.document_us);
        explained = Some(fit.explained);
    }
    number("fixed_ms", fixed_ms, 0.0, 1e6)?;
    number("document_us", document_us, 0.0, 1e9)?;
    let scan_ms = document_us * plan.documents as f64 / 1e3;
    if scan_ms <= 0.0 || scan_ms > 1e9 {
        return Err(PlanError::field(
            "document_us",
            document_us,
            "a time above 0 for which scanning all documents takes at most 10^6 s",
        )
        .hint("scanning all documents takes `documents` times `document_us`"));
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
    let writing =
        plan.updates_per_s * plan.update_us / 1e6 * copies / f64::from(plan.servers) / cores;
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
    let total = speeds.iter().sum::<f64>() * cores;
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
            .hint("if all servers are dead, there is nothing to measure"));
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
    let span = |key: &str, seconds: f64| {
        number(key, seconds, 0.0, 86_400.0).map(|s| Span::from_ns((s * 1e9) as u64))
    };
    let duration = span("run.duration_s", plan.run.duration_s)?;
    let warm = span("run.warmup_s", plan.run.warmup_s)?;
    idle(plan)?;
    let percent = |key: &str, value: u32| match value {
        1..=100 => Ok(value),
        _ => Err(PlanError::field(key, value, "from 1 to 100")),
    };
    let ms = |key: &str, ms: f64| {
        number(key, ms, 0.1, 86_400_000.0).map(|ms| Span::from_ns((ms * 1e6) as u64))
    };
    let hedge_percent = percent("hedge_percent", plan.hedge_percent)?;
    let hedge = match plan.hedge_ms {
        None => None,
        Some(after) => Some(Hedge { after: ms("hedge_ms", after)?, percent: hedge_percent }),
    };
    let events = events(plan, &way)?;
    let machines = on_machines(plan, &way)?;
    if plan.costs == CostsPlan::Learned && !machines {
        return Err(PlanError::field("costs", "learned", "left out of a plan without machines")
            .hint(
                "with `scheduler`, `balance_s` or events and the scheme `roar`, front ends learn",
            ));
    }
    let of_machines = |key: &str, value: Option<f64>, who: &str| match value {
        None => Ok(None),
        Some(value) if !machines => {
            let must = "left out of a plan without machines";
            let hint =
                format!("with `scheduler`, `balance_s` or events and the scheme `roar`, {who}");
            Err(PlanError::field(key, value, must).hint(hint))
        }
        Some(value) => ms(key, value).map(Some),
    };
    let deadline = of_machines("deadline_ms", plan.deadline_ms, "front ends keep it")?;
    let bounce = of_machines("bounce_ms", plan.bounce_ms, "servers refuse")?;
    let scheduling = match &plan.scheduler {
        None => None,
        Some(policy) => Some(scheduler::scheduling(policy, plan.cores)?),
    };
    Ok(Scenario {
        cores: plan.cores,
        scheduling,
        learns: plan.costs == CostsPlan::Learned,
        dealt: plan.dealt,
        events,
        change: change(plan),
        copy_percent: percent("copy_percent", plan.copy_percent)?,
        copies_wait: plan.copies_wait,
        margin: ms("margin_ms", plan.margin_ms)?,
        hedge,
        deadline,
        bounce,
        balance: balance(plan)?,
        duration,
        warm,
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
        explained,
        speeds,
    })
}

/// Whoever writes a key expects something of it: a key that has no effect is a mistake.
fn idle(plan: &SearchPlan) -> Result<(), PlanError> {
    if plan.updates_per_s > 0.0 && plan.update_us == 0.0 {
        return Err(PlanError::field("update_us", 0, "above 0 with `updates_per_s`")
            .hint("a write takes so long of each server that stores the document"));
    }
    if plan.balance_s.is_none() && plan.balance_percent != plan::balance_percent() {
        let value = plan.balance_percent;
        return Err(PlanError::field("balance_percent", value, "left out without `balance_s`")
            .hint("with `balance_s` the directory moves borders so often, so far at a time"));
    }
    if !plan.events.is_empty() || plan.scheduler.is_some() || plan.balance_s.is_some() {
        return Ok(());
    }
    let (run, usual) = (&plan.run, SearchRun::default());
    let of_machines = [
        ("hedge_ms", plan.hedge_ms, None),
        ("hedge_percent", Some(plan.hedge_percent.into()), Some(plan::hedge_percent().into())),
        ("margin_ms", Some(plan.margin_ms), Some(plan::margin_ms())),
        ("copy_percent", Some(plan.copy_percent.into()), Some(plan::copy_percent().into())),
        ("run.duration_s", Some(run.duration_s), Some(usual.duration_s)),
        ("run.warmup_s", Some(run.warmup_s), Some(usual.warmup_s)),
    ];
    let must = "left out of a plan without events, `scheduler` and `balance_s`";
    let hint = "such a plan has no machines that ask again or copy, and is as long as \
                `run.queries` say";
    let written = of_machines.into_iter().find(|(_, value, usual)| value != usual);
    if let Some((key, Some(value), _)) = written {
        return Err(PlanError::field(key, value, must).hint(hint));
    }
    if !plan.copies_wait {
        return Err(PlanError::field("copies_wait", plan.copies_wait, must).hint(hint));
    }
    Ok(())
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

fn events(plan: &SearchPlan, way: &Way) -> Result<Vec<Event>, PlanError> {
    if plan.events.is_empty() {
        return Ok(Vec::new());
    }
    let (able, rings) = match way {
        Way::Scheme(Scheme::Roar(roar)) => (true, roar.rings),
        Way::Scheme(Scheme::Clusters(_)) => (factors(plan)?, 1),
        _ => (false, 1),
    };
    if plan.cores > 1 && !matches!(way, Way::Scheme(Scheme::Roar(_))) {
        return Err(PlanError::field("cores", plan.cores, "1 for `ptn` and `shards` with events")
            .hint("leave the events out, or compare `roar` with itself"));
    }
    if !able {
        let message = "`events` need the scheme `roar`, or `ptn` or `shards` if the events only \
                       change p";
        return Err(PlanError::text(message).hint("put the other schemes into a plan of their own"));
    }
    if plan.dead_servers > 0 || plan.report_ms.is_some() {
        return Err(PlanError::text("`dead_servers` and `report_ms` do not go with `events`")
            .hint("servers report with each answer, and crash by an event"));
    }
    let last = plan.run.duration_s;
    let instant = |seconds: f64| Instant::from_ns((seconds * 1e9) as u64);
    let at = |seconds: f64| {
        if seconds.is_finite() && (0.0..last).contains(&seconds) {
            return Ok(instant(seconds));
        }
        Err(PlanError::field("events.at_s", seconds, "from 0 to below run.duration_s"))
    };
    let until = |from: f64, until: f64| {
        if until > from && until < 86_400.0 {
            return Ok(instant(until));
        }
        Err(PlanError::field("events.until_s", until, "after at_s"))
    };
    let span = |key: &str, seconds: f64| {
        number(key, seconds, 0.001, 86_400.0).map(|s| Span::from_ns((s * 1e9) as u64))
    };
    let one = |event: &EventPlan| match *event {
        EventPlan::Spread { at_s, p } => {
            if p == 0 || p > plan.servers / rings {
                let must = match rings {
                    1 => format!("from 1 to `servers`, {}", plan.servers),
                    _ => format!("from 1 to the servers of a ring, {}", plan.servers / rings),
                };
                return Err(PlanError::field("events.p", p, &must));
            }
            Ok(Event::Spread { at: at(at_s)?, p })
        }
        EventPlan::Crash { at_s, servers, ring, until_s, loses_disk } => {
            let who = crashed(plan, servers, ring, rings)?;
            let until = until_s.map_or(Ok(Instant::NEVER), |back| until(at_s, back))?;
            Ok(Event::Crash { at: at(at_s)?, who, until, loses_disk })
        }
        EventPlan::Leave { at_s, until_s } => {
            if plan.servers < 2 * rings {
                let must = format!("{} or more", 2 * rings);
                let hint = match rings {
                    1 => "the last server cannot leave",
                    _ => "the last server of a ring cannot leave",
                };
                return Err(PlanError::field("servers", plan.servers, &must).hint(hint));
            }
            Ok(Event::Leave { at: at(at_s)?, until: until(at_s, until_s)? })
        }
        EventPlan::Slow { at_s, until_s, servers, speed_ratio } => {
            if servers == 0 || servers > plan.servers {
                let must = format!("from 1 to `servers`, {}", plan.servers);
                return Err(PlanError::field("events.servers", servers, &must));
            }
            let speed = Speed::new(speed_ratio).filter(|speed| *speed <= Speed::ONE);
            let Some(speed) = speed else {
                let must = "from 0.001 to 1";
                return Err(PlanError::field("events.speed_ratio", speed_ratio, must).hint(
                    "0.5 makes all that these servers do take twice as long; `stall` stops them",
                ));
            };
            Ok(Event::Slow { at: at(at_s)?, until: until(at_s, until_s)?, servers, speed })
        }
        EventPlan::Stall { at_s, every_s, for_s } => {
            let (every, lasts) = (span("events.every_s", every_s)?, span("events.for_s", for_s)?);
            if lasts >= every {
                return Err(PlanError::field("events.for_s", for_s, "below events.every_s"));
            }
            Ok(Event::Stall { at: at(at_s)?, every, lasts })
        }
    };
    machines::sorted(&plan.events).iter().map(one).collect()
}

/// Which servers crash.
fn crashed(
    plan: &SearchPlan,
    servers: Option<u32>,
    ring: Option<u32>,
    rings: u32,
) -> Result<Crashed, PlanError> {
    match (servers, ring) {
        (Some(servers), None) if (1..=plan.servers).contains(&servers) => {
            Ok(Crashed::Servers(servers))
        }
        (Some(servers), None) => {
            let must = format!("from 1 to `servers`, {}", plan.servers);
            Err(PlanError::field("events.servers", servers, &must))
        }
        (None, Some(ring)) if (1..=rings).contains(&ring) => Ok(Crashed::Ring(ring - 1)),
        (None, Some(ring)) => {
            let must = format!("from 1 to `schemes.rings`, {rings}");
            Err(PlanError::field("events.ring", ring, &must))
        }
        (None, None) => Err(PlanError::text("a `crash` needs `servers` or `ring`")
            .hint("`servers = 2` are two of them by chance, `ring = 1` all of the first ring")),
        (Some(_), Some(ring)) => {
            Err(PlanError::field("events.ring", ring, "left out beside `servers`"))
        }
    }
}

/// How borders move.
fn balance(plan: &SearchPlan) -> Result<Option<Balance>, PlanError> {
    let percent = plan.balance_percent;
    if !(1..=1_000).contains(&percent) {
        return Err(PlanError::field("balance_percent", percent, "from 1 to 1000"));
    }
    let Some(every_s) = plan.balance_s else { return Ok(None) };
    let every = Span::from_ns((number("balance_s", every_s, 0.1, 86_400.0)? * 1e9) as u64);
    if every_s >= plan.run.duration_s {
        return Err(PlanError::field("balance_s", every_s, "below run.duration_s")
            .hint("loads are first looked at after so long; make the run longer"));
    }
    Ok(Some(Balance { every, percent }))
}

/// Whether the plan is run with machines, which it must be able to if servers have a scheduler or
/// borders move.
fn on_machines(plan: &SearchPlan, way: &Way) -> Result<bool, PlanError> {
    let able = matches!(way, Way::Scheme(Scheme::Roar(_)));
    let key = match (&plan.scheduler, plan.balance_s) {
        (None, None) => return Ok(able && !plan.events.is_empty()),
        (Some(_), _) => "scheduler",
        (None, Some(_)) => "balance_s",
    };
    if !able {
        return Err(PlanError::text(format!("`{key}` needs the scheme `roar`"))
            .hint(format!("put other schemes into a plan of their own, or leave `{key}` out")));
    }
    if plan.dead_servers > 0 || plan.report_ms.is_some() {
        let message = format!("`dead_servers` and `report_ms` do not go with `{key}`");
        return Err(
            PlanError::text(message).hint("servers report with each answer, and crash by an event")
        );
    }
    Ok(true)
}

/// Whether events are about p alone, and fixed parts can have each p: it divides the number of
/// servers, and where parts are merged and split whole it is a whole factor away from the one
/// before.
fn factors(plan: &SearchPlan) -> Result<bool, PlanError> {
    let mut p = plan.p;
    let is_anew = change(plan) == Change::Reindex;
    for event in machines::sorted(&plan.events) {
        let EventPlan::Spread { p: next, .. } = event else { return Ok(false) };
        let parts = next > 0 && plan.servers.is_multiple_of(next);
        let whole = parts && (p.is_multiple_of(next) || next.is_multiple_of(p));
        if !parts || !(whole || is_anew) {
            let must = match is_anew {
                true => format!("a whole part of `servers`, {}", plan.servers),
                false => format!("a multiple or a whole part of {p}, and a part of `servers`"),
            };
            return Err(PlanError::field("events.p", next, &must).hint(
                "`ptn` and `shards` merge and split whole parts, and `shards` with \
                 `change = \"reindex\"` have any part of `servers`; `roar` can have any p",
            ));
        }
        p = next;
    }
    Ok(true)
}

fn change(plan: &SearchPlan) -> Change {
    match plan.schemes.first() {
        Some(SchemePlan::Shards(own)) if own.change == ReshardPlan::Reindex => Change::Reindex,
        Some(SchemePlan::Shards(_)) => Change::Shards,
        Some(SchemePlan::Ptn(own)) if own.change == ChangePlan::Dissolve => Change::Dissolve,
        _ => Change::Merge,
    }
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
