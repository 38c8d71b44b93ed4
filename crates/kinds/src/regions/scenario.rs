//! What one replication needs: who is where, the network, what is asked, the protocol.

use super::asks::Asks;
use super::contestant::Contestant;
use super::plan::{FaultPlan, RegionsPlan, span};
use cavy_core::family::Node;
use cavy_core::{Instant, Span};
use cavy_lab::net::{Outage, OutageKind};
use cavy_lab::wan::{ClockStep, Jitter, Link, Setup, Site};
use cavy_study::plan::PlanError;
use cavy_txn::{Layout, Region, Shard};
use std::collections::BTreeSet;

/// Transactions a second, at most.
const RATE_MAX_PER_S: f64 = 1e7;

/// What one replication needs, apart from its seed.
pub struct Scenario {
    pub(super) layout: Layout,
    pub(super) setup: Setup,
    pub(super) contestant: Contestant,
    pub(super) asks: Asks,
    pub(super) clients: u32,
    /// Between two transactions of a client, on average, where it does not wait for answers.
    pub(super) gap_ns: Option<f64>,
    pub(super) think: Span,
    pub(super) patience: Span,
    pub(super) message: Span,
    pub(super) warmup: Span,
    /// Regions that a fault names.
    pub(super) struck: BTreeSet<Region>,
}

/// The scenario of a plan with one protocol.
pub fn scenario(plan: &RegionsPlan) -> Result<Scenario, PlanError> {
    if plan.regions == 0 || plan.regions > Layout::REGIONS_MAX {
        return Err(PlanError::field("regions", plan.regions, "from 1 to 1024")
            .hint("ten bits of a timestamp name the region"));
    }
    if plan.shards_per_region == 0 || plan.shards_per_region > 1_000 {
        let must = "from 1 to 1000";
        return Err(PlanError::field("shards_per_region", plan.shards_per_region, must)
            .hint("a region without shards has nobody to ask"));
    }
    let layout = Layout::new(plan.regions, plan.shards_per_region);
    let (clients, gap_ns) = clients(plan, layout)?;
    let (warmup, duration) = (
        span("run.warmup_ms", plan.run.warmup_ms)?,
        span("run.duration_ms", plan.run.duration_ms)?,
    );
    if warmup >= duration {
        return Err(PlanError::field("run.warmup_ms", plan.run.warmup_ms, "below run.duration_ms"));
    }
    let contestant = Contestant::of(&plan.protocols[0], layout)?;
    let mut setup = network(plan, &contestant)?;
    setup.duration = duration;
    setup.drain = Span::from_ms(10_000);
    faults(plan, layout, &contestant, &mut setup)?;
    Ok(Scenario {
        layout,
        setup,
        contestant,
        asks: Asks::of(plan, layout)?,
        clients,
        gap_ns,
        think: span("think_ms", plan.think_ms)?,
        patience: span("patience_ms", plan.patience_ms)?,
        message: span("message_us", plan.message_us / 1e3)?,
        warmup,
        struck: plan.faults.iter().map(|fault| Region(fault.region())).collect(),
    })
}

/// How many clients there are, and what one that does not wait for answers waits between two
/// transactions, on average.
fn clients(plan: &RegionsPlan, layout: Layout) -> Result<(u32, Option<f64>), PlanError> {
    match (plan.clients_per_shard, plan.rate_per_s) {
        (Some(clients), None) => {
            if clients == 0 || clients > 10_000 {
                return Err(PlanError::field("clients_per_shard", clients, "from 1 to 10000"));
            }
            Ok((layout.shards() * clients, None))
        }
        (None, Some(rate)) => {
            if !(rate > 0.0 && rate <= RATE_MAX_PER_S) {
                return Err(PlanError::field("rate_per_s", rate, "more than 0, at most 1e7"));
            }
            if plan.think_ms != 0.0 {
                return Err(PlanError::field(
                    "think_ms",
                    plan.think_ms,
                    "left out with rate_per_s",
                )
                .hint("transactions at a rate come whether earlier ones are answered or not"));
            }
            // One for each replica of a shard, so that each replica is asked alike.
            let clients = layout.shards() * layout.replicas;
            Ok((clients, Some(f64::from(clients) * 1e9 / rate)))
        }
        (None, None) => Err(PlanError::text("neither `clients_per_shard` nor `rate_per_s` is set")
            .hint("clients_per_shard = 10 wait for their answers; rate_per_s = 1000 come anyway")),
        (Some(_), Some(_)) => {
            Err(PlanError::text("both `clients_per_shard` and `rate_per_s` are set")
                .hint("leave one out: clients wait for their answers, or come at a rate"))
        }
    }
}

fn network(plan: &RegionsPlan, contestant: &Contestant) -> Result<Setup, PlanError> {
    let regions = usize::from(plan.regions);
    let jitter = span("jitter_ms", plan.jitter_ms)?;
    let mut links = Vec::with_capacity(regions * regions);
    for from in 0..regions {
        for to in 0..regions {
            let one_way = match &plan.one_way_ms {
                Some(rows) => {
                    let ragged = rows.len() != regions || rows.iter().any(|r| r.len() != regions);
                    if ragged {
                        let value = format!("{} rows", rows.len());
                        let must = format!("{regions} rows of {regions} numbers");
                        return Err(PlanError::field("one_way_ms", value, &must)
                            .hint("one row for each region, from itself to each region in order"));
                    }
                    span("one_way_ms", rows[from][to])?
                }
                None if from == to => span("within_ms", plan.within_ms)?,
                None => span("across_ms", plan.across_ms)?,
            };
            let mut link = Link::of(one_way);
            if from != to && !jitter.is_zero() {
                link.jitter = Jitter::Even(jitter);
            }
            links.push(link);
        }
    }
    let nodes = contestant.sites().iter().map(|region| Site(region.0)).collect();
    let mut setup = Setup::of(plan.regions, links, nodes);
    setup.disk.sync = span("disk_sync_ms", plan.disk_sync_ms)?;
    Ok(setup)
}

fn faults(
    plan: &RegionsPlan,
    layout: Layout,
    contestant: &Contestant,
    setup: &mut Setup,
) -> Result<(), PlanError> {
    let at = |key: &str, ms: f64| -> Result<Instant, PlanError> {
        if ms >= plan.run.duration_ms {
            return Err(PlanError::field(format!("faults.{key}"), ms, "before run.duration_ms")
                .hint("what happens after the end changes nothing; make the run longer"));
        }
        Ok(Instant::ZERO + span(key, ms)?)
    };
    let until = |from_ms: f64, ms: Option<f64>| match ms {
        None => Ok(Instant::NEVER),
        Some(ms) if ms > from_ms => span("faults.until_ms", ms).map(|span| Instant::ZERO + span),
        Some(ms) => {
            let must = format!("after from_ms, which is {from_ms}");
            Err(PlanError::field("faults.until_ms", ms, &must))
        }
    };
    let replica = |region: u16, shard: u32, replica: u32| {
        if region >= plan.regions {
            return Err(PlanError::field(
                "faults.region",
                region,
                "the number of a region, from 0",
            ));
        }
        if shard >= plan.shards_per_region {
            return Err(PlanError::field("faults.shard", shard, "below shards_per_region"));
        }
        if replica >= layout.replicas {
            return Err(PlanError::field("faults.replica", replica, "0, 1 or 2"));
        }
        let shard = u32::from(region) * plan.shards_per_region + shard;
        Ok(layout.replica(Shard(shard), replica))
    };
    for fault in &plan.faults {
        match *fault {
            FaultPlan::CrashReplica { region, shard, replica: index, from_ms, until_ms } => {
                let (from, until) = (at("from_ms", from_ms)?, until(from_ms, until_ms)?);
                let host = replica(region, shard, index)?;
                let kind = OutageKind::Crash;
                setup.faults.outages.push(Outage { host, from, until, kind });
            }
            FaultPlan::CrashSteward { region, from_ms, until_ms } => {
                replica(region, 0, 0)?;
                let (from, until) = (at("from_ms", from_ms)?, until(from_ms, until_ms)?);
                let host = contestant.steward(Region(region));
                let kind = OutageKind::Crash;
                setup.faults.outages.push(Outage { host, from, until, kind });
            }
            FaultPlan::PowerCut { region, from_ms, until_ms } => {
                replica(region, 0, 0)?;
                let (from, until) = (at("from_ms", from_ms)?, until(from_ms, until_ms)?);
                let (site, kind) = (Site(region), OutageKind::Crash);
                let hosts = (0..).zip(&setup.nodes).filter(|(_, at)| **at == site);
                let all = hosts.map(|(host, _)| Outage { host: Node(host), from, until, kind });
                setup.faults.outages.extend(all);
            }
            FaultPlan::CutOff { region, from_ms, until_ms } => {
                replica(region, 0, 0)?;
                let (from, until) = (at("from_ms", from_ms)?, until(from_ms, Some(until_ms))?);
                setup.faults.cut_off(Site(region), from, until);
            }
            FaultPlan::ClockStep { region, shard, replica: index, at_ms, by_ms } => {
                let node = replica(region, shard, index)?;
                let by_ns = (by_ms * 1e6) as i64;
                setup.faults.steps.push(ClockStep { node, at: at("at_ms", at_ms)?, by_ns });
            }
        }
    }
    setup.check().map_err(|error| PlanError::text(error.to_string()))
}
