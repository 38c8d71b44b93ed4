//! From a plan with one predictor to what a replication needs; finds every mistake in it.

use super::contestant;
use super::load;
use super::plan::{self, CoordsPlan, DataPlan, FitPlan, PredictorPlan};
use super::run::Scenario;
use super::worst;
use cavy_coords::{Config, Line};
use cavy_study::plan::{Files, PlanError};

/// The scenario of a plan with one predictor.
pub fn scenario(plan: &CoordsPlan, files: &Files) -> Result<Scenario, PlanError> {
    check(plan)?;
    predictor(&plan.predictors[0])?;
    let world = load::world(&plan.data, files, &mut |_, _, _| {})?;
    let scenario = Scenario { plan: plan.clone(), world, line: None, detours: Vec::new() };
    let count = scenario.count();
    let most = plan.picks.candidates.iter().copied().max().unwrap_or(0);
    if most >= count {
        let must = format!("below the number of nodes, {count}");
        return Err(
            PlanError::field("picks.candidates", most, &must).hint("a node picks among the others")
        );
    }
    if let PredictorPlan::Composition(own) | PredictorPlan::Located(own) = &plan.predictors[0]
        && own.landmarks >= count
    {
        let must = format!("below the number of nodes, {count}");
        return Err(PlanError::field("predictors.landmarks", own.landmarks, &must));
    }
    if plan.worst_ratio.is_some() {
        let machines = scenario.world.as_ref().map(|world| world.count());
        if machines.is_none_or(|count| count > worst::MACHINES_MAX) {
            let most = worst::MACHINES_MAX;
            let ratio = plan.worst_ratio.unwrap_or(0.0);
            let must = format!("left out but with a matrix of at most {most} nodes");
            return Err(PlanError::field("worst_ratio", ratio, &must)
                .hint("shorter ways are looked for over every third node"));
        }
    }
    Ok(scenario)
}

/// Fits the line that all replications share.
pub fn prepare(scenario: &mut Scenario) {
    let Some(world) = &scenario.world else { return };
    let fit = contestant::fit(&scenario.plan.predictors[0]);
    scenario.line = fit.and_then(|fit| contestant::line(world, &scenario.plan, fit));
    if scenario.plan.worst_ratio.is_some() {
        scenario.detours = worst::detours(world);
    }
}

fn check(plan: &CoordsPlan) -> Result<(), PlanError> {
    if plan.probes_per_node > 100_000 {
        return Err(PlanError::field("probes_per_node", plan.probes_per_node, "0 to 100000"));
    }
    for (key, value) in [
        ("wrong_positions_ratio", plan.wrong_positions_ratio),
        ("covered_ratio", plan.covered_ratio),
    ] {
        if !(0.0..=1.0).contains(&value) {
            return Err(PlanError::field(key, value, "0 to 1"));
        }
    }
    if !(plan.interval_s > 0.0 && plan.interval_s <= 86_400.0) {
        return Err(PlanError::field("interval_s", plan.interval_s, "above 0, at most 86400"));
    }
    if let DataPlan::Players(_) = plan.data {
        let must = "left out with the data `players`";
        let hint = "players come and go, and probe the candidates that they meet";
        if let Some(peers) = plan.peers {
            return Err(PlanError::field("peers", peers, must).hint(hint));
        }
        if plan.interval_s != plan::interval() {
            return Err(PlanError::field("interval_s", plan.interval_s, must).hint(hint));
        }
    }
    if plan.peers == Some(0) {
        return Err(PlanError::field("peers", 0, "at least 1")
            .hint("leave it out to let every node probe all others"));
    }
    if let Some(ratio) = plan.worst_ratio
        && !(ratio > 0.0 && ratio <= 0.5)
    {
        return Err(PlanError::field("worst_ratio", ratio, "above 0, at most 0.5")
            .hint("0.05 is about the worst pair of twenty"));
    }
    let picks = &plan.picks;
    let rising = picks.candidates.windows(2).all(|pair| pair[0] < pair[1]);
    let sound = picks.candidates.iter().all(|count| (2..=1_000).contains(count));
    if picks.candidates.is_empty() || !rising || !sound {
        let value = format!("{:?}", picks.candidates);
        return Err(PlanError::field("picks.candidates", value, "rising numbers from 2 to 1000"));
    }
    if !(1..=10_000).contains(&picks.each) {
        return Err(PlanError::field("picks.each", picks.each, "1 to 10000"));
    }
    if !(1..=1_000).contains(&picks.probed) {
        return Err(PlanError::field("picks.probed", picks.probed, "1 to 1000"));
    }
    if !(picks.below_ms > 0.0 && picks.below_ms <= 10_000.0) {
        return Err(PlanError::field("picks.below_ms", picks.below_ms, "above 0, at most 10000"));
    }
    Ok(())
}

fn predictor(own: &PredictorPlan) -> Result<(), PlanError> {
    let dimensions = |value: u32, known: &[u32], must: &str| match known.contains(&value) {
        true => Ok(()),
        false => Err(PlanError::field("predictors.dimensions", value, must)),
    };
    let mut config = Config::default();
    if let Some(FitPlan::Given(line)) = contestant::fit(own) {
        config.line = Line { ms_per_km: line.ms_per_km, base_ms: line.base_ms };
    }
    match own {
        PredictorPlan::Vivaldi(own) => dimensions(own.dimensions, &[2, 3, 8], "2, 3 or 8")?,
        PredictorPlan::Pyxida(own) => dimensions(own.dimensions, &[2, 4], "2 or 4")?,
        PredictorPlan::Composition(own) | PredictorPlan::Located(own)
            if !(1..=1_000).contains(&own.landmarks) =>
        {
            return Err(PlanError::field("predictors.landmarks", own.landmarks, "1 to 1000"));
        }
        PredictorPlan::Htrae(own) => {
            config.move_gain = own.move_gain;
            config.move_gain_extra = own.move_gain_extra;
        }
        _ => {}
    }
    config.check().map_err(|error| {
        let field = match error.field {
            "ms_per_km" | "base_ms" => format!("predictors.fit.{}", error.field),
            field => format!("predictors.{field}"),
        };
        PlanError::field(field, error.value, error.must)
    })
}
