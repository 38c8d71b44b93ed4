//! Figures of the literature: a plan, the texts around it, and what its claims measure.

use crate::claim::{self, Measured, Statement};
use crate::draw;
use crate::experiment::{self, Experiment};
use crate::homa;
use crate::network::{self, NetExperiment, NetworkPlan};
use crate::persephone;
use crate::plan::{AnyPlan, Plan, PlanError, load_text};
use crate::point::RunError;
use crate::runner::Runner;
use crate::subject::Subject;
use cavy_core::Digest;
use cavy_report::model::{Claim, Figure, Panel, Table};
use std::path::Path;

/// How much to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Minutes for everything: the `quick` values of the plans.
    Quick,
    /// The sample sizes of the specification.
    Full,
}

/// One figure of a source, about a server or, as `Study<NetworkPlan>`, about a network.
pub struct Study<P: Subject = Plan> {
    /// Name within the system, such as `fig3`.
    pub id: &'static str,
    /// Headline.
    pub title: &'static str,
    /// The plan, as text; also a file under `plans/`.
    pub plan: &'static str,
    /// What it shows, two sentences.
    pub shows: &'static str,
    /// What the source claims.
    pub claimed: &'static str,
    /// What its claims measure.
    pub measure: fn(&Experiment<P>) -> Vec<Measured>,
    /// What we found, in words made from the results.
    pub found: fn(&Experiment<P>) -> String,
    /// Its plots.
    pub panels: fn(&Experiment<P>) -> Vec<Panel>,
    /// Its tables.
    pub tables: fn(&Experiment<P>) -> Vec<Table>,
}

/// A figure of either kind.
pub enum AnyStudy {
    /// About a server.
    Server(Study),
    /// About a network.
    Network(Study<NetworkPlan>),
}

impl From<Study> for AnyStudy {
    fn from(study: Study) -> Self {
        AnyStudy::Server(study)
    }
}

impl From<Study<NetworkPlan>> for AnyStudy {
    fn from(study: Study<NetworkPlan>) -> Self {
        AnyStudy::Network(study)
    }
}

/// What all figures have, whatever they are about.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Name within the system, such as `fig3`.
    pub id: &'static str,
    /// Headline.
    pub title: &'static str,
    /// The plan, as text.
    pub plan: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// What the source claims.
    pub claimed: &'static str,
}

impl AnyStudy {
    /// Names and texts.
    pub fn about(&self) -> About {
        match self {
            AnyStudy::Server(study) => study.about(),
            AnyStudy::Network(study) => study.about(),
        }
    }
}

impl<P: Subject> Study<P> {
    fn about(&self) -> About {
        let Study { id, title, plan, shows, claimed, .. } = *self;
        About { id, title, plan, shows, claimed }
    }

    /// What its results say. `capacities` draws the table of capacities.
    fn made(
        &self,
        experiment: &Experiment<P>,
        capacities: fn(&Experiment<P>) -> Option<Table>,
    ) -> Made {
        let mut tables = (self.tables)(experiment);
        tables.extend(capacities(experiment));
        Made {
            measured: (self.measure)(experiment),
            found: (self.found)(experiment),
            panels: (self.panels)(experiment),
            tables,
            digest: experiment.digest(),
            requests: experiment.requests(),
        }
    }
}

/// What a figure's plan came to.
struct Made {
    measured: Vec<Measured>,
    found: String,
    panels: Vec<Panel>,
    tables: Vec<Table>,
    digest: u64,
    requests: u64,
}

/// Runs the plan of a figure.
fn make(study: &AnyStudy, plan: &AnyPlan, runner: &Runner<'_>) -> Result<Made, RunError> {
    match (study, plan) {
        (AnyStudy::Server(study), AnyPlan::Server(loaded)) => {
            Ok(study.made(&runner.experiment(loaded)?, draw::capacities))
        }
        (AnyStudy::Network(study), AnyPlan::Network(loaded)) => {
            let experiment: NetExperiment = runner.experiment(loaded)?;
            Ok(study.made(&experiment, network::draw::capacities))
        }
        _ => {
            let kind = "the figure and its plan are of two kinds";
            Err(PlanError::text(kind).in_file(plan.name()).into())
        }
    }
}

/// One system of the literature.
pub struct System {
    /// Name in commands, such as `persephone`.
    pub id: &'static str,
    /// Headline of its report.
    pub title: &'static str,
    /// One or two sentences.
    pub summary: &'static str,
    /// Its claims, as TOML.
    pub claims: &'static str,
    /// Its figures, in order.
    pub figures: Vec<AnyStudy>,
}

impl System {
    /// Its claims.
    pub fn statements(&self) -> Vec<Statement> {
        claim::read(self.claims)
    }
}

/// All systems that can be reproduced.
pub fn systems() -> Vec<System> {
    vec![persephone::system(), homa::system()]
}

/// What to reproduce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Index into [`systems`].
    pub system: usize,
    /// Index into the system's figures.
    pub figure: usize,
}

/// Finds the figures named by `names`: `persephone`, `persephone.fig3` or `fig3`; all when empty.
pub fn choose(names: &[String]) -> Result<Vec<Chosen>, PlanError> {
    let systems = systems();
    let mut all = Vec::new();
    let mut known = Vec::new();
    for (s, system) in systems.iter().enumerate() {
        known.push(system.id.to_string());
        for (f, figure) in system.figures.iter().enumerate() {
            let id = figure.about().id;
            known.push(format!("{}.{id}", system.id));
            let chosen = names.is_empty()
                || names.iter().any(|name| {
                    name == system.id || name == id || *name == format!("{}.{id}", system.id)
                });
            if chosen {
                all.push(Chosen { system: s, figure: f });
            }
        }
    }
    for name in names {
        let is_known = known.iter().any(|k| k == name || k.ends_with(&format!(".{name}")));
        if !is_known {
            let mut wrong = PlanError::text(format!("there is no system or figure `{name}`"));
            let words = known.iter().flat_map(|k| [k.as_str(), k.rsplit('.').next().unwrap_or(k)]);
            if let Some(near) = crate::plan::read::nearest(name, words) {
                wrong = wrong.hint(format!("did you mean `{near}`?"));
            }
            return Err(wrong.hint("`cavy list` shows what there is"));
        }
    }
    Ok(all)
}

/// The plan of a figure, at a scale, with a seed.
pub fn plan(study: &AnyStudy, scale: Scale, seed: u64) -> Result<AnyPlan, PlanError> {
    let About { id, plan, .. } = study.about();
    let overrides = [format!("run.seed={seed}")];
    load_text(plan, id, Path::new("."), &overrides, scale == Scale::Quick)
}

/// Figures made again, with their claims judged.
pub struct Reproduction {
    /// Claims in the order of the source.
    pub claims: Vec<Claim>,
    /// Figures in order.
    pub figures: Vec<Figure>,
    /// Fingerprint of all runs.
    pub digest: u64,
    /// Requests simulated.
    pub requests: u64,
}

/// Runs the points of all these figures, so that the cores have work until the last of them is done and
/// not only until the last of each.
fn run_points(
    runner: &Runner<'_>,
    systems: &[System],
    chosen: &[Chosen],
    scale: Scale,
    seed: u64,
) -> Result<(), RunError> {
    let (mut servers, mut networks) = (Vec::new(), Vec::new());
    for one in chosen {
        match plan(&systems[one.system].figures[one.figure], scale, seed)? {
            AnyPlan::Server(loaded) => servers.extend(experiment::points(&loaded)?),
            AnyPlan::Network(loaded) => networks.extend(experiment::points(&loaded)?),
        }
    }
    // Built-in plans name no files.
    let folder = Path::new(".");
    runner.points(&servers, folder)?;
    runner.points(&networks, folder)?;
    Ok(())
}

/// Makes the chosen figures again. `command` is what a reader types before the figure's name.
pub fn reproduce(
    runner: &Runner<'_>,
    chosen: &[Chosen],
    scale: Scale,
    seed: u64,
    command: &str,
) -> Result<Reproduction, RunError> {
    let systems = systems();
    let mut all = Reproduction { claims: Vec::new(), figures: Vec::new(), digest: 0, requests: 0 };
    let mut digest = Digest::new();
    let suffix = |scale| if scale == Scale::Full { " --full" } else { "" };
    let repeat = |system: &str, figure: &str| {
        let seed = if seed == 1 { String::new() } else { format!(" --seed {seed}") };
        format!("{command} {system}.{figure}{}{seed}", suffix(scale))
    };
    run_points(runner, &systems, chosen, scale, seed)?;
    for (index, system) in systems.iter().enumerate() {
        let mut measured = Vec::new();
        for one in chosen.iter().filter(|one| one.system == index) {
            let study = &system.figures[one.figure];
            let about = study.about();
            runner.progress.doing(&format!("{} {}", system.id, about.id));
            let made = make(study, &plan(study, scale, seed)?, runner)?;
            digest.fold(made.digest);
            all.requests += made.requests;
            measured.extend(made.measured);
            all.figures.push(Figure {
                id: format!("{}.{}", system.id, about.id),
                title: about.title.to_string(),
                shows: about.shows.to_string(),
                claimed: about.claimed.to_string(),
                found: made.found,
                command: repeat(system.id, about.id),
                panels: made.panels,
                tables: made.tables,
            });
        }
        all.claims.extend(claim::judge(&system.statements(), &measured, &|statement| {
            repeat(statement.system(), statement.figure())
        }));
    }
    all.digest = digest.value();
    Ok(all)
}
