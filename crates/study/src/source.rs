//! A source of figures: a paper or a talk, whose figures are plans, with what its claims measure.

use crate::claim::{self, Basis, Measured, Statement};
use crate::draw;
use crate::experiment::Experiment;
use crate::kind::Prepared;
use crate::plan::files::CarriedFile;
use crate::plan::read::{self, Loaded, Text};
use crate::plan::{Files, PlanError};
use crate::point::RunError;
use crate::registry::{Chosen, Registry};
use crate::runner::Runner;
use crate::subject::Subject;
use cavy_core::Digest;
use cavy_report::model::{self, Claim, Map, Panel, Table};

/// How much to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Minutes for everything: the `quick` values of the plans.
    Quick,
    /// The sample sizes of the specification.
    Full,
}

/// What all figures have, whatever they are about.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Name within the source, such as `fig3`.
    pub id: &'static str,
    /// Headline.
    pub title: &'static str,
    /// The plan, as text.
    pub plan: &'static str,
    /// The files that the plan names.
    pub files: &'static [CarriedFile],
    /// What it shows, two sentences.
    pub shows: &'static str,
    /// What the source claims.
    pub claimed: &'static str,
}

/// One figure of a source, about plans of kind `S`.
pub struct Study<S: Subject> {
    /// Names and texts.
    pub about: About,
    /// What its claims measure. It is asked once for the whole, and once for each section of the
    /// runs alone; from how far these lie apart come the intervals of values ([`Basis::Value`]). So
    /// it must not keep a value back because a section has few samples: of its results it need not
    /// do anything for that.
    pub measure: fn(&Experiment<S>) -> Vec<Measured>,
    /// What we found, in words made from the results.
    pub found: fn(&Experiment<S>) -> String,
    /// Its plots.
    pub panels: fn(&Experiment<S>) -> Vec<Panel>,
    /// Its tables.
    pub tables: fn(&Experiment<S>) -> Vec<Table>,
}

/// A figure, whatever its kind.
pub trait Figure: Sync {
    /// Names and texts.
    fn about(&self) -> &About;
    /// Its plan, at a scale, with a seed.
    fn plan(&self, scale: Scale, seed: u64) -> Result<Box<dyn Prepared>, PlanError>;
    /// Names of the claims that its plan measures at a scale, found out without running anything.
    /// `None` for a kind of which that cannot be told.
    fn measures(&self, scale: Scale) -> Option<Vec<String>>;
    /// Runs its plan and says what came of it.
    fn make(&self, plan: &dyn Prepared, runner: &Runner<'_>) -> Result<Made, RunError>;
}

/// What a figure's plan came to.
pub struct Made {
    /// Values by the names of claims.
    pub measured: Vec<Measured>,
    /// What was found.
    pub found: String,
    /// Plots.
    pub panels: Vec<Panel>,
    /// Maps.
    pub maps: Vec<Map>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Fingerprint of all runs.
    pub digest: u64,
    /// Units of work simulated.
    pub work: u64,
}

impl<S: Subject> Figure for Study<S> {
    fn about(&self) -> &About {
        &self.about
    }

    fn plan(&self, scale: Scale, seed: u64) -> Result<Box<dyn Prepared>, PlanError> {
        let About { id, plan, files, .. } = self.about;
        let mut loaded: Loaded<S> = read::load(&Text {
            text: plan,
            name: id,
            files: &Files::Carried(files),
            overrides: &[format!("run.seed={seed}")],
            quick: scale == Scale::Quick,
        })?;
        loaded.points.iter_mut().for_each(|point| point.sectioned = true);
        Ok(Box::new(loaded))
    }

    fn measures(&self, scale: Scale) -> Option<Vec<String>> {
        let plan = self.plan(scale, 1).expect("a figure's plan is part of the program");
        let loaded: &Loaded<S> = plan.as_any().downcast_ref().expect("this figure's own plan");
        let measured = (self.measure)(&Experiment::blank(loaded)?);
        let run = measured.into_iter().filter(|one| one.basis != Basis::NotRun);
        Some(run.map(|one| one.id).collect())
    }

    fn make(&self, plan: &dyn Prepared, runner: &Runner<'_>) -> Result<Made, RunError> {
        let loaded: &Loaded<S> =
            plan.as_any().downcast_ref().expect("a figure makes the plan that it gave out");
        let experiment = runner.experiment(loaded)?;
        let mut tables = (self.tables)(&experiment);
        tables.extend(draw::capacities(&experiment));
        let mut measured = (self.measure)(&experiment);
        let sections = |(way, &count): (usize, &usize)| -> Vec<_> {
            (0..count).map(|index| (self.measure)(&experiment.section(way, index))).collect()
        };
        let ways: Vec<_> = experiment.sections().iter().enumerate().map(sections).collect();
        claim::sectioned(&mut measured, &ways);
        let maps = |variant| S::maps(&experiment, variant);
        Ok(Made {
            measured,
            found: (self.found)(&experiment),
            panels: (self.panels)(&experiment),
            maps: experiment.variants().into_iter().flat_map(maps).collect(),
            tables,
            digest: experiment.digest(),
            work: experiment.work(),
        })
    }
}

/// One source of figures.
pub struct Source {
    /// Name in commands, such as `persephone`.
    pub id: &'static str,
    /// Headline of its report.
    pub title: &'static str,
    /// The question of a user that it answers, one sentence.
    pub question: &'static str,
    /// One or two sentences.
    pub summary: &'static str,
    /// Its claims, as TOML.
    pub claims: &'static str,
    /// Claims about live runs of what it describes, as TOML; empty when there are none.
    pub live_claims: &'static str,
    /// The command that measures them; empty when there are none.
    pub live_study: &'static str,
    /// The command that runs it on real machines, such as `cavy live sched`; empty where none does.
    pub live: &'static str,
    /// Its figures, in order.
    pub figures: Vec<&'static dyn Figure>,
}

impl Source {
    /// Its claims.
    pub fn statements(&self) -> Vec<Statement> {
        claim::read(self.claims)
    }

    /// Its claims about live runs.
    pub fn live_statements(&self) -> Vec<Statement> {
        if self.live_claims.is_empty() { Vec::new() } else { claim::read(self.live_claims) }
    }

    /// The command that measures a live claim. `cavy live study` takes the names of studies.
    pub fn live_command(&self, statement: &Statement) -> String {
        match self.live_study {
            "cavy live study" => format!("cavy live study {}", statement.figure()),
            other => other.to_string(),
        }
    }
}

/// Figures made again, with their claims judged.
pub struct Reproduction {
    /// Claims in the order of the sources.
    pub claims: Vec<Claim>,
    /// Figures in order.
    pub figures: Vec<model::Figure>,
    /// Fingerprint of all runs.
    pub digest: u64,
    /// Units of work simulated, by what they are called.
    pub work: Vec<(&'static str, u64)>,
}

/// The plans of some figures, read once.
pub struct Planned {
    chosen: Vec<(Chosen, Box<dyn Prepared>)>,
    scale: Scale,
    seed: u64,
}

impl Planned {
    /// Reads the plans of the chosen figures.
    pub fn read(
        registry: &Registry,
        chosen: &[Chosen],
        scale: Scale,
        seed: u64,
    ) -> Result<Self, PlanError> {
        let read = |one: &Chosen| {
            let figure = registry.sources[one.source].figures[one.figure];
            Ok((*one, figure.plan(scale, seed)?))
        };
        Ok(Planned { chosen: chosen.iter().map(read).collect::<Result<_, _>>()?, scale, seed })
    }

    /// The plans, with the index of their source.
    pub fn plans(&self) -> impl Iterator<Item = (usize, &dyn Prepared)> {
        self.chosen.iter().map(|(one, plan)| (one.source, plan.as_ref()))
    }

    /// Makes the figures again. `command` is what a reader types before a figure's name.
    pub fn reproduce(
        &self,
        registry: &Registry,
        runner: &Runner<'_>,
        command: &str,
    ) -> Result<Reproduction, RunError> {
        // The points of all figures first, so that the cores have work until the last of them is
        // done and not only until the last of each.
        let jobs: Vec<_> = self.chosen.iter().flat_map(|(_, plan)| plan.jobs()).collect();
        runner.run(&jobs)?;
        let repeat = |source: &str, figure: &str, scale: Scale| {
            let suffix = if scale == Scale::Full { " --full" } else { "" };
            let seed =
                if self.seed == 1 { String::new() } else { format!(" --seed {}", self.seed) };
            format!("{command} {source}.{figure}{suffix}{seed}")
        };
        let mut digest = Digest::new();
        let (mut claims, mut figures) = (Vec::new(), Vec::new());
        let mut work: Vec<(&'static str, u64)> = Vec::new();
        for (index, source) in registry.sources.iter().enumerate() {
            let mut measured = Vec::new();
            let statements = source.statements();
            for (one, plan) in self.chosen.iter().filter(|(one, _)| one.source == index) {
                let figure = source.figures[one.figure];
                let about = figure.about();
                runner.progress.doing(&format!("{} {}", source.id, about.id));
                let mut made = figure.make(plan.as_ref(), runner)?;
                // What the source gives stands beside what was measured, once that is done.
                let own = statements.iter().filter(|one| one.figure() == about.id);
                for (panel, mark) in own.flat_map(Statement::spots) {
                    let drawn = |one: &&mut Panel| {
                        let mut labels = one.series.iter().map(|series| Some(&series.label));
                        one.id == panel && labels.any(|label| label == mark.series.as_ref())
                    };
                    // Plans of a small scale may leave a plot or a curve out.
                    if let Some(panel) = made.panels.iter_mut().find(drawn) {
                        panel.rules.push(mark);
                    }
                }
                digest.fold(made.digest);
                let unit = plan.about().work.many;
                match work.iter_mut().find(|(known, _)| *known == unit) {
                    Some((_, all)) => *all += made.work,
                    None => work.push((unit, made.work)),
                }
                measured.extend(made.measured);
                figures.push(model::Figure {
                    id: format!("{}.{}", source.id, about.id),
                    title: about.title.to_string(),
                    shows: about.shows.to_string(),
                    claimed: about.claimed.to_string(),
                    found: made.found,
                    command: repeat(source.id, about.id, self.scale),
                    panels: made.panels,
                    maps: made.maps,
                    tables: made.tables,
                });
            }
            let chosen: Vec<&str> = self
                .chosen
                .iter()
                .filter(|(one, _)| one.source == index)
                .map(|(one, _)| source.figures[one.figure].about().id)
                .collect();
            let own: Vec<Statement> =
                statements.iter().filter(|s| chosen.contains(&s.figure())).cloned().collect();
            claim::complete(&own, &mut measured);
            claims.extend(claim::judge(&statements, &measured, &|statement, at_this_scale| {
                let scale = if at_this_scale { self.scale } else { Scale::Full };
                repeat(statement.system(), statement.figure(), scale)
            }));
        }
        Ok(Reproduction { claims, figures, digest: digest.value(), work })
    }
}
