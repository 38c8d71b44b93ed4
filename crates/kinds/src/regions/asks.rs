//! What clients ask, and what replicas do with it.

use super::plan::{RegionsPlan, TypePlan, WorkloadPlan};
use crate::types;
use cavy_core::Stream;
use cavy_study::plan::PlanError;
use cavy_txn::registers::Registers;
use cavy_txn::tpcc::{Generator, Mix, Tpcc};
use cavy_txn::types::{ROWS_MAX, SHARDS_MAX, Type, Types};
use cavy_txn::{Invocation, Key, Layout, Procedures, Rows, Run, Txn, TxnId, Value};

/// Draws the transactions of clients.
pub enum Asks {
    /// TPC-C and its like.
    Tpcc(Generator),
    /// Types that the plan describes, and their names.
    Types(Types, Vec<String>),
}

impl Asks {
    /// What a plan says.
    pub fn of(plan: &RegionsPlan, layout: Layout) -> Result<Asks, PlanError> {
        let mix = match plan.workload {
            WorkloadPlan::Types { rows, skew } => {
                let types = described(plan, rows)?;
                let names = plan.types.iter().map(|one| one.name.clone()).collect();
                return Ok(Asks::Types(Types::new(types, rows, checked(skew)?), names));
            }
            _ if !plan.types.is_empty() => {
                return Err(PlanError::text(
                    "`types` are set, and the workload has types of its own",
                )
                .hint("types of your own are for `workload = { name = \"types\" }`"));
            }
            WorkloadPlan::Tpcc {} => Mix::Full,
            WorkloadPlan::TpccArtifact {} => Mix::Artifact,
            WorkloadPlan::Payment { crt_ratio, artifact } => {
                ratio("workload.crt_ratio", crt_ratio)?;
                if crt_ratio > 0.0 && plan.regions == 1 {
                    return Err(PlanError::field(
                        "workload.crt_ratio",
                        crt_ratio,
                        "0 with one region",
                    ));
                }
                Mix::Payment { crt_percent: (crt_ratio * 100.0).round() as u32, artifact }
            }
            WorkloadPlan::Tpca { skew } => Mix::Tpca { skew: checked(skew)? },
        };
        Ok(Asks::Tpcc(Generator::new(layout, mix)))
    }

    /// Names of the types that the plan describes.
    pub fn names(&self) -> &[String] {
        match self {
            Asks::Tpcc(_) => &[],
            Asks::Types(_, names) => names,
        }
    }

    /// Transaction `id` of `client`.
    pub fn draw(&self, layout: &Layout, client: u32, id: TxnId, draws: &mut Stream) -> Txn {
        match self {
            Asks::Tpcc(generator) => generator.draw(client, id, draws),
            Asks::Types(types, _) => types.draw(layout, id, layout.home(client), draws),
        }
    }

    /// What replicas run.
    pub fn procedures(&self) -> AnyProcedures {
        match self {
            Asks::Tpcc(_) => AnyProcedures::Tpcc(Tpcc),
            Asks::Types(..) => AnyProcedures::Registers(Registers::default()),
        }
    }
}

/// The procedures of a workload.
#[derive(Clone, Copy, Debug)]
pub enum AnyProcedures {
    /// Of TPC-C, which TPC-A uses, too.
    Tpcc(Tpcc),
    /// Numbers that are read and added to.
    Registers(Registers),
}

impl Procedures for AnyProcedures {
    fn run(&mut self, invocation: &Invocation<'_>, rows: &mut dyn Rows) -> Run {
        match self {
            AnyProcedures::Tpcc(own) => own.run(invocation, rows),
            AnyProcedures::Registers(own) => own.run(invocation, rows),
        }
    }
    fn initial(&self, key: Key) -> Option<Value> {
        match self {
            AnyProcedures::Tpcc(own) => own.initial(key),
            AnyProcedures::Registers(own) => own.initial(key),
        }
    }
}

fn ratio(field: &str, value: f64) -> Result<f64, PlanError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(PlanError::field(field, value, "from 0 to 1"))
}

fn checked(skew: f64) -> Result<f64, PlanError> {
    if (0.0..=2.0).contains(&skew) {
        return Ok(skew);
    }
    Err(PlanError::field("workload.skew", skew, "from 0 to 2"))
}

fn described(plan: &RegionsPlan, rows: u64) -> Result<Vec<Type>, PlanError> {
    if plan.types.is_empty() {
        return Err(PlanError::text("`types` is empty; workload `types` needs some")
            .hint("add `[[types]]` with `name`, `share` and `reads` or `writes`"));
    }
    if !(2..=1_000_000).contains(&rows) {
        return Err(PlanError::field("workload.rows", rows, "from 2 to 1000000"));
    }
    let shares: Vec<(&str, f64)> = plan.types.iter().map(|t| (t.name.as_str(), t.share)).collect();
    types::check(&shares)?;
    plan.types.iter().map(|own| one(plan, own, rows)).collect()
}

fn one(plan: &RegionsPlan, own: &TypePlan, rows: u64) -> Result<Type, PlanError> {
    let field = |key: &str| format!("types.{}.{key}", own.name);
    let TypePlan { share, shards, reads, writes, crt_ratio, depends, .. } = *own;
    let touched = reads.saturating_add(writes);
    let most = u64::from(ROWS_MAX).min(rows / 2);
    if touched == 0 || u64::from(touched) > most {
        let name = &own.name;
        return Err(PlanError::text(format!(
            "type `{name}` has `reads` {reads} and `writes` {writes}; together they must be from 1 \
             to {most}"
        ))
        .hint("they are rows on each shard, of which a transaction touches at most half"));
    }
    if shards == 0 || shards > SHARDS_MAX {
        return Err(PlanError::field(field("shards"), shards, "from 1 to 16"));
    }
    ratio(&field("crt_ratio"), crt_ratio)?;
    if crt_ratio > 0.0 && shards == 1 {
        return Err(PlanError::field(field("crt_ratio"), crt_ratio, "0 with one shard")
            .hint("what crosses regions touches two shards at least"));
    }
    if crt_ratio < 1.0 && shards > plan.shards_per_region {
        let must = "at most shards_per_region where some stay within their region";
        return Err(PlanError::field(field("shards"), shards, must)
            .hint(format!("a region has {}", plan.shards_per_region)));
    }
    let elsewhere = (u32::from(plan.regions) - 1) * plan.shards_per_region;
    if crt_ratio > 0.0 && shards - 1 > elsewhere {
        let must = "at most one more than the shards of all other regions";
        return Err(PlanError::field(field("shards"), shards, must)
            .hint(format!("other regions have {elsewhere}")));
    }
    if depends && (shards == 1 || reads == 0 || writes == 0) {
        let must = "false without two shards, a row to read and one to write";
        return Err(PlanError::field(field("depends"), depends, must)
            .hint("the other shards write what is read at home"));
    }
    Ok(Type { share, shards, reads, writes, crt_ratio, depends })
}
