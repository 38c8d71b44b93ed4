//! What a study runs on a server, as a plan that says `world = "live"`: the live run, and the lab
//! beside it, read the same file.

use super::{Settings, plans};
use crate::args::StudyName;
use crate::faults::{FAILED, Fault};
use cavy_core::Span;
use cavy_kinds::server::ServerPlan;
use cavy_kinds::server::plan::{LOAD, ServicePlan};
use cavy_report::model::{Cell, Table};
use cavy_study::objective::{Percentile, Quantity};
use cavy_study::plan::read::{Loaded, Parsed, load, text_of};
use cavy_study::plan::{Files, Frame, PlanError, Text, World};
use cavy_study::point;
use cavy_study::subject::Subject;
use cavy_workload::{Arrivals, Mix, Phase, Service, Type, Workload};
use std::path::Path;

/// Plans of the program, by study.
pub const BUILT_IN: [(&str, &str); 2] = [("l1", plans::L1), ("l4", plans::L4)];

/// A workload on the workers of one server.
#[derive(Clone, Debug)]
pub struct OnServer {
    /// Headline.
    pub title: String,
    /// Threads.
    pub workers: u16,
    /// Names of the types.
    pub types: Vec<String>,
    /// At least one.
    pub phases: Vec<Stretch>,
    /// The user's own plan, which no claim is about.
    pub own: bool,
    /// The same for the lab.
    plan: Loaded<ServerPlan>,
}

/// A stretch of time with one mix.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// How long it is.
    pub length: Span,
    /// Offered load.
    pub load: f64,
    /// Share and service time of each type.
    pub types: Vec<(f64, Span)>,
}

impl From<PlanError> for Fault {
    fn from(error: PlanError) -> Fault {
        error.hints.iter().fold(Fault::new(error.to_string()), |fault, hint| fault.hint(hint))
    }
}

/// Reads a plan for the live world, with what options say of it; `file` is where it stands, or its
/// name in the program.
pub fn read<S: Subject>(
    text: &str,
    file: &Path,
    overrides: &[String],
    quick: bool,
) -> Result<Loaded<S>, Fault> {
    let (files, name) = (Files::beside(file), file.display().to_string());
    let plan = load(&Text { text, name: &name, files: &files, overrides, quick })?;
    live_only(&plan.frame, &name)?;
    Ok(plan)
}

/// Refuses a plan for the lab.
fn live_only(frame: &Frame, name: &str) -> Result<(), Fault> {
    if frame.world == World::Live {
        return Ok(());
    }
    Err(Fault::new(format!("{name}: the plan is for the lab, not for a live study"))
        .hint("write `world = \"live\"` at its top to run it live")
        .hint(format!("`cavy run {name}` runs it in the lab")))
}

/// The kind that a plan says, which nobody has read yet.
pub fn kind_of(text: &str, file: &Path) -> Result<Option<String>, Fault> {
    let (files, name) = (Files::beside(file), file.display().to_string());
    let text = Text { text, name: &name, files: &files, overrides: &[], quick: false };
    Ok(Parsed::of(&text)?.kind(&text)?.map(str::to_string))
}

impl OnServer {
    /// That of a study: the user's with `--plan`, else the program's.
    pub fn of(settings: &Settings, study: &str) -> Result<OnServer, Fault> {
        let quick = settings.args.quick;
        let mut on = match &settings.args.plan {
            Some(file) => {
                let text = text_of(file)?;
                let own = OnServer::read(&text, file, quick)?;
                OnServer { own: true, ..own }
            }
            None => OnServer::built_in(study, quick)?,
        };
        if let Some(seconds) = settings.args.seconds {
            let length = Span::from_ns((seconds * 1e9) as u64);
            on.phases.iter_mut().for_each(|phase| phase.length = length);
        }
        Ok(on)
    }

    /// The program's own.
    pub fn built_in(study: &str, quick: bool) -> Result<OnServer, Fault> {
        let text = BUILT_IN.iter().find(|(name, _)| *name == study).map(|(_, text)| *text);
        let text = text.ok_or_else(|| Fault::new(format!("{study} has no plan")))?;
        OnServer::read(text, Path::new(study), quick)
    }

    fn read(text: &str, file: &Path, quick: bool) -> Result<OnServer, Fault> {
        let loaded: Loaded<ServerPlan> = read(text, file, &[], quick)?;
        let (frame, plan) = (&loaded.frame, &loaded.body);
        let load = plan.load.unwrap_or(LOAD);
        let mut times = Vec::new();
        for kind in &plan.types {
            // A plan for the live world has no others.
            if let ServicePlan::Constant { us } = kind.service {
                times.push(us);
            }
        }
        let span = |us: f64| Span::try_from_us(us).unwrap_or(Span::ZERO);
        let mut phases = Vec::new();
        for phase in &plan.phases {
            let of = |(kind, us): (&cavy_kinds::server::plan::TypePlan, &f64)| {
                let share = phase.share.get(&kind.name).copied().unwrap_or(0.0);
                (share, span(phase.service_us.get(&kind.name).copied().unwrap_or(*us)))
            };
            phases.push(Stretch {
                length: span(1e3 * phase.duration_ms),
                load: phase.load.unwrap_or(load),
                types: plan.types.iter().zip(&times).map(of).collect(),
            });
        }
        if phases.is_empty() {
            let types: Vec<(f64, Span)> =
                plan.types.iter().zip(&times).map(|(kind, us)| (kind.share, span(*us))).collect();
            let mut only = Stretch { length: Span::ZERO, load, types };
            let rate_per_s = only.phase(plan.workers.count(), None)?.rate_per_s;
            // As long as its requests take, to the nearest second.
            let seconds = (plan.run.requests as f64 / rate_per_s).round().max(1.0);
            only.length = Span::from_ms(1_000 * seconds as u64);
            phases.push(only);
        }
        Ok(OnServer {
            title: frame.title.clone(),
            workers: plan.workers.count(),
            types: plan.types.iter().map(|kind| kind.name.clone()).collect(),
            phases,
            own: false,
            plan: loaded,
        })
    }

    /// The study that runs the user's plan when none is named: that of phases where it has some.
    pub fn study_of(file: &Path, quick: bool) -> Result<StudyName, Fault> {
        let on = OnServer::read(&text_of(file)?, file, quick)?;
        Ok(if on.plan.body.phases.is_empty() { StudyName::L1 } else { StudyName::L4 })
    }

    /// The same plan in the lab, with its own policies and arrivals: what `cavy run` says of it.
    pub fn in_the_lab(&self) -> Result<Table, Fault> {
        let mut rows = Vec::new();
        for one in &self.plan.points {
            let outcome = point::run(one, &self.plan.files, &point::Manner::default());
            let outcome = outcome.map_err(|error| Fault::new(error.to_string()).code(FAILED))?;
            for kind in &outcome.data.types {
                let head = [one.label.clone(), kind.name.clone()].map(Cell::Text);
                let cell = |percentile| match kind.summary.get(percentile, Quantity::Us) {
                    Some(found) => Cell::Number(found.value / 1e3),
                    None => Cell::Missing("n/a".to_string()),
                };
                rows.push(head.into_iter().chain(Percentile::MAIN.map(cell)).collect());
            }
        }
        let columns = ["policy", "type", "p50 (ms)", "p99 (ms)", "p99.9 (ms)"];
        Ok(Table {
            id: "plan-in-the-lab".to_string(),
            title: "The same plan in the lab, as `cavy run --set world=lab` has it".to_string(),
            columns: columns.map(str::to_string).to_vec(),
            rows,
        })
    }

    /// What arrives, phase by phase.
    pub fn workload(&self) -> Result<Workload, Fault> {
        let phase = |stretch: &Stretch| stretch.phase(self.workers, Some(stretch.length));
        let phases: Result<Vec<Phase>, Fault> = self.phases.iter().map(phase).collect();
        Workload::new(phases?, 0.0).map_err(|error| Fault::new(error.to_string()))
    }
}

impl Stretch {
    /// As worlds have it.
    pub fn phase(&self, workers: u16, duration: Option<Span>) -> Result<Phase, Fault> {
        let of = |&(share, span): &(f64, Span)| Type {
            share,
            service: Service::Constant { ns: span.as_ns() },
        };
        let mix = Mix::new(self.types.iter().map(of).collect());
        let mix = mix.map_err(|error| Fault::new(error.to_string()))?;
        let rate_per_s = self.load * mix.peak_rate_per_s(workers.into());
        Ok(Phase { mix, arrivals: Arrivals::Poisson, rate_per_s, duration })
    }

    /// Workers for each of two types by their shares of the work, at least one each.
    pub fn split(&self, workers: u16) -> Vec<u16> {
        let work = |&(share, span): &(f64, Span)| share * span.as_us();
        let all: f64 = self.types.iter().map(work).sum();
        let first = self.types.first().map_or(0.0, work) / all * f64::from(workers);
        let first = (first.round() as u16).clamp(1, workers.max(2) - 1);
        vec![first, workers - first]
    }

    /// Types with share and service time, in words.
    pub fn words(&self, names: &[String]) -> String {
        let of = |(name, (share, span)): (&String, &(f64, Span))| {
            format!("{name} {} ms {:.0} %", span.as_us() / 1e3, 100.0 * share)
        };
        let there = names.iter().zip(&self.types).filter(|(_, (share, _))| *share > 0.0);
        there.map(of).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<OnServer, String> {
        let read = OnServer::read(text, Path::new("plan"), false);
        read.map_err(|fault| fault.render())
    }

    #[test]
    fn built_in_plans_have_the_numbers_of_the_source() {
        let l1 = OnServer::built_in("l1", false).map_err(|fault| fault.render()).unwrap();
        assert_eq!((l1.workers, l1.phases[0].length), (14, Span::from_ms(120_000)));
        // [persephone 4.1] times a thousand, and 90 % of what 14 workers can do.
        assert_eq!(l1.phases[0].types, [(0.5, Span::from_ms(1)), (0.5, Span::from_ms(100))]);
        let rate = l1.phases[0].phase(14, None).map_err(|fault| fault.render()).unwrap().rate_per_s;
        assert!((rate - 249.505).abs() < 1e-3, "{rate}");
        let quick = OnServer::built_in("l1", true).map_err(|fault| fault.render()).unwrap();
        assert_eq!(quick.phases[0].length, Span::from_ms(20_000));
        for (quick, ms) in [(false, 20_000), (true, 5_000)] {
            let l4 = OnServer::built_in("l4", quick).map_err(|fault| fault.render()).unwrap();
            assert!(l4.phases.iter().all(|phase| phase.length == Span::from_ms(ms)));
            let workload = l4.workload().map_err(|fault| fault.render()).unwrap();
            let rates: Vec<f64> = workload.phases().iter().map(|phase| phase.rate_per_s).collect();
            for (rate, expected) in rates.iter().zip([221.8, 221.8, 1882.0, 3200.0]) {
                assert!((rate / expected - 1.0).abs() < 1e-3, "{rate} for {expected}");
            }
            assert_eq!(rates.len(), 4);
        }
    }

    #[test]
    fn the_plan_s_shape_says_which_study_runs_it() {
        for (name, text) in BUILT_IN {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("plan.toml");
            std::fs::write(&file, text).expect("a file");
            let study = OnServer::study_of(&file, true).map_err(|fault| fault.render()).unwrap();
            assert_eq!(crate::args::name(study), name);
        }
    }

    #[test]
    fn what_cannot_run_live_is_said() {
        let l1 = BUILT_IN[0].1;
        let lab = l1.replace("world = \"live\"", "world = \"lab\"");
        assert!(read(&lab).is_err_and(|said| said.contains("write `world = \"live\"` at its top")));
        let drawn = l1.replacen(
            "dist = \"constant\", us = 1000 ",
            "dist = \"exponential\", mean_us = 1 ",
            1,
        );
        assert!(read(&drawn).is_err_and(|said| said.contains("the type `short` has no constant")));
        let late = l1.replace("load = 0.9", "load = 0.9\nround_trip_us = 5");
        assert!(read(&late).is_err_and(|said| said.contains("round_trip_us")));
        assert!(read("kind = \"server\"").is_err());
    }
}
