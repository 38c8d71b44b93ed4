//! Figures of the literature: a plan, the texts around it, and what its claims measure.

use crate::claim::{self, Measured, Statement};
use crate::draw;
use crate::experiment::Experiment;
use crate::persephone;
use crate::plan::{Loaded, PlanError, load_text};
use crate::point::RunError;
use crate::runner::Runner;
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

/// One figure of a source.
pub struct Study {
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
    pub measure: fn(&Experiment) -> Vec<Measured>,
    /// What we found, in words made from the results.
    pub found: fn(&Experiment) -> String,
    /// Its plots.
    pub panels: fn(&Experiment) -> Vec<Panel>,
    /// Its tables.
    pub tables: fn(&Experiment) -> Vec<Table>,
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
    pub figures: Vec<Study>,
}

impl System {
    /// Its claims.
    pub fn statements(&self) -> Vec<Statement> {
        claim::read(self.claims)
    }
}

/// All systems that can be reproduced.
pub fn systems() -> Vec<System> {
    vec![persephone::system()]
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
            known.push(format!("{}.{}", system.id, figure.id));
            let chosen = names.is_empty()
                || names.iter().any(|name| {
                    name == system.id
                        || name == figure.id
                        || *name == format!("{}.{}", system.id, figure.id)
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
pub fn plan(study: &Study, scale: Scale, seed: u64) -> Result<Loaded, PlanError> {
    let overrides = [format!("run.seed={seed}")];
    load_text(study.plan, study.id, Path::new("."), &overrides, scale == Scale::Quick)
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
    for (index, system) in systems.iter().enumerate() {
        let mut measured = Vec::new();
        for one in chosen.iter().filter(|one| one.system == index) {
            let study = &system.figures[one.figure];
            runner.progress.doing(&format!("{} {}", system.id, study.id));
            let loaded = plan(study, scale, seed)?;
            let experiment = runner.experiment(&loaded)?;
            digest.fold(experiment.digest());
            all.requests += experiment.requests();
            measured.extend((study.measure)(&experiment));
            all.figures.push(Figure {
                id: format!("{}.{}", system.id, study.id),
                title: study.title.to_string(),
                shows: study.shows.to_string(),
                claimed: study.claimed.to_string(),
                found: (study.found)(&experiment),
                command: repeat(system.id, study.id),
                panels: (study.panels)(&experiment),
                tables: {
                    let mut tables = (study.tables)(&experiment);
                    tables.extend(draw::capacities(&experiment));
                    tables
                },
            });
        }
        all.claims.extend(claim::judge(&system.statements(), &measured, &|statement| {
            repeat(statement.system(), statement.figure())
        }));
    }
    all.digest = digest.value();
    Ok(all)
}
