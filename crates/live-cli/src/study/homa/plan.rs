//! What is sent between hosts, as plans of kind `network` that say `world = "live"`: the live run,
//! and the lab beside it, read the same file.

use super::arrivals::{BYTES, Demand};
use crate::args::{HomaPart, StudyName};
use crate::faults::{FAILED, Fault};
use crate::study::{Settings, plan, plans};
use cavy_core::Span;
use cavy_kinds::network::live::{LEVELS, Star, star};
use cavy_kinds::network::messages::{published, sizes};
use cavy_kinds::network::plan::MessagesPlan;
use cavy_kinds::network::traffic::{Converging, TrafficPlan};
use cavy_kinds::network::{NetResult, NetworkPlan};
use cavy_report::model::{Cell, Table};
use cavy_study::experiment::Point;
use cavy_study::objective::{Percentile, Quantity};
use cavy_study::plan::PlanError;
use cavy_study::plan::read::{Loaded, text_of};
use cavy_study::point;
use cavy_study::subject::Subject as _;
use cavy_testbed::Plan as Testbed;
use cavy_workload::sizes::Published;
use std::path::Path;

/// What live links can carry for long.
const LOAD_MAX: f64 = 0.95;
/// Nothing shorter is a run.
const LENGTH_MIN: Span = Span::from_ms(100);

/// Messages between hosts.
pub struct BetweenHosts {
    /// The user's own plan, which no claim is about.
    pub own: bool,
    star: Star,
    plan: Loaded<NetworkPlan>,
}

/// What is asked of a study: messages at a load, incast, or both.
pub struct Asked {
    /// Messages at a load.
    pub messages: Option<BetweenHosts>,
    /// Many answers at once.
    pub incast: Option<BetweenHosts>,
}

impl Asked {
    /// The user's plan with `--plan`, else the program's.
    pub fn of(settings: &Settings) -> Result<Asked, Fault> {
        let homa = &settings.args.homa;
        let quick = settings.args.quick;
        if let Some(file) = &settings.args.plan {
            let text = text_of(file)?;
            let on = BetweenHosts::read(&text, file, &overrides(settings, true), quick)?;
            let on = Some(BetweenHosts { own: true, ..on });
            return Ok(match on.as_ref().map(|on| &on.plan.body.traffic) {
                Some(TrafficPlan::Incast(_)) => Asked { messages: None, incast: on },
                _ => Asked { messages: on, incast: None },
            });
        }
        let wanted = |part| homa.parts.is_empty() || homa.parts.contains(&part);
        let built_in = |part, name: &str, text, own_options| {
            let read = || {
                let overrides = overrides(settings, own_options);
                BetweenHosts::read(text, Path::new(name), &overrides, quick)
            };
            wanted(part).then(read).transpose()
        };
        Ok(Asked {
            messages: built_in(HomaPart::Slowdown, "homa", plans::HOMA, true)?,
            incast: built_in(HomaPart::Incast, "incast", plans::INCAST, false)?,
        })
    }
}

/// What options say of a plan. Those that name messages say nothing of the program's incast.
fn overrides(settings: &Settings, of_messages: bool) -> Vec<String> {
    let (args, homa) = (&settings.args, &settings.args.homa);
    let mut all = Vec::new();
    if let Some(mbit) = homa.mbit {
        all.push(format!("network.host_gbps={}", f64::from(mbit) / 1e3));
    }
    if !of_messages {
        return all;
    }
    all.push(format!("run.replications={}", settings.repetitions));
    if let Some(seconds) = args.seconds {
        // A tenth is the warm-up.
        all.push(format!("run.warmup_ms={:?}", 100.0 * seconds));
        all.push(format!("run.duration_ms={:?}", 900.0 * seconds));
    }
    if !homa.loads.is_empty() {
        let loads: Vec<f64> = homa.loads.iter().map(|&load| f64::from(load) / 100.0).collect();
        all.push(format!("sweep.load={loads:?}"));
    }
    if !homa.workloads.is_empty() {
        let name = |&one: &crate::args::Workload| crate::args::name(one).to_uppercase();
        let names: Vec<String> = homa.workloads.iter().map(name).collect();
        all.push(format!("sweep.messages.workload={names:?}"));
    }
    all
}

impl BetweenHosts {
    /// Reads a plan, all points of which must be for one testbed.
    pub fn read(
        text: &str,
        file: &Path,
        overrides: &[String],
        quick: bool,
    ) -> Result<BetweenHosts, Fault> {
        let plan: Loaded<NetworkPlan> = plan::read(text, file, overrides, quick)?;
        let name = &plan.name;
        let star = star(&plan.body.network)?;
        for point in &plan.points {
            point.plan.check_live()?;
            if cavy_kinds::network::live::star(&point.plan.network)? != star {
                return Err(Fault::new(format!("{name}: its points are on several networks"))
                    .hint("a live study builds one; vary `load`, lengths or questions at once"));
            }
        }
        if matches!(plan.body.traffic, TrafficPlan::Blocks(_)) {
            return Err(Fault::new(format!("{name}: the plan is about blocks"))
                .hint(format!("`cavy live tcp study --plan {name}` runs it")));
        }
        Ok(BetweenHosts { own: false, star, plan })
    }

    /// Headline of a figure: the plan's own, for the user's.
    pub fn title(&self, demand: &Demand) -> String {
        match self.own {
            true => format!("{}, {}", self.plan.frame.title, demand.label()),
            false => format!("Homa live, {}", demand.label()),
        }
    }

    /// How often the plan is run, where it says so.
    pub fn repetitions(&self) -> Option<u32> {
        self.plan.frame.run.replications
    }

    /// What is built for it.
    pub fn testbed(&self) -> Testbed {
        Testbed {
            link_bits_per_s: self.star.link_bits_per_s,
            level_bytes: self.star.port_bytes / LEVELS,
            ..Testbed::slow(self.star.hosts)
        }
    }

    /// What does not count, and then how long messages are sent in all.
    pub fn times(&self) -> Result<(Span, Span), Fault> {
        let run = &self.plan.body.run;
        let Some(counted_ms) = run.duration_ms else {
            return Err(Fault::new(format!("{}: `run.duration_ms` is missing", self.plan.name))
                .hint("a live run lasts as long as that and `run.warmup_ms` say"));
        };
        let warmup_ms = run.warmup_ms.unwrap_or(counted_ms / 4.0);
        let span = |ms: f64| Span::try_from_us(1e3 * ms).unwrap_or(Span::ZERO);
        let (warmup, length) = (span(warmup_ms), span(warmup_ms + counted_ms));
        if span(counted_ms) < LENGTH_MIN {
            let must = "at least 100 in a live run";
            return Err(PlanError::field("run.duration_ms", counted_ms, must).into());
        }
        Ok((warmup, length))
    }

    /// Each mix of messages at each load, by name and then by load.
    pub fn demands(&self, testbed: &Testbed) -> Result<Vec<Demand>, Fault> {
        let mut all: Vec<(Published, &MessagesPlan, f64)> = Vec::new();
        for point in &self.plan.points {
            let (messages, load) = (point.plan.messages.as_ref(), point.plan.load);
            let Some((messages, workload)) = messages.zip(messages.and_then(|m| m.workload)) else {
                continue;
            };
            if load > LOAD_MAX {
                return Err(PlanError::field("load", load, "at most 0.95 in a live run").into());
            }
            if !all.iter().any(|&(_, known, at)| known == messages && at == load) {
                all.push((published(workload), messages, load));
            }
        }
        all.sort_by(|a, b| a.0.name().cmp(b.0.name()).then(a.2.total_cmp(&b.2)));
        let demand = |(workload, messages, load): (Published, &MessagesPlan, f64)| {
            let sizes = sizes(messages, &self.plan.files)?;
            Demand::new((workload, sizes), load, testbed)
        };
        all.into_iter().map(demand).collect()
    }

    /// Questions and answers of incast, and how many at once.
    pub fn converging(&self) -> Result<(Converging, Vec<u32>), Fault> {
        let of = |point: &Point<NetworkPlan>| match &point.plan.traffic {
            TrafficPlan::Incast(own) => Some(own.clone()),
            _ => None,
        };
        let all: Vec<Converging> = self.plan.points.iter().filter_map(of).collect();
        let Some(first) = all.first() else {
            return Err(Fault::new(format!("{}: the plan is no incast", self.plan.name)));
        };
        let (least, most) = BYTES;
        if first.question_bytes < least || first.answer_bytes > most {
            let must = "at least 8 with answers of at most 1000000 in a live run";
            let field = "traffic.question_bytes";
            return Err(PlanError::field(field, first.question_bytes, must).into());
        }
        let mut numbers: Vec<u32> = all.iter().map(|one| one.concurrent).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok((first.clone(), numbers))
    }

    /// What the lab says of the same plan, as `cavy run --set world=lab` has it: of the points that
    /// `chosen` accepts.
    pub fn in_the_lab(
        &self,
        id: &str,
        chosen: impl Fn(&NetworkPlan) -> bool,
    ) -> Result<Table, Fault> {
        let incast = matches!(self.plan.body.traffic, TrafficPlan::Incast(_));
        let mut rows = Vec::new();
        for one in self.plan.points.iter().filter(|one| chosen(&one.plan)) {
            let outcome = point::run(one, &self.plan.files, &point::Manner::default());
            let outcome = outcome.map_err(|error| Fault::new(error.to_string()).code(FAILED))?;
            let mut row = vec![Cell::Text(one.label.clone())];
            match &one.plan.traffic {
                TrafficPlan::Incast(own) => row.extend([
                    Cell::Number(own.concurrent.into()),
                    cell(&outcome, |outcome| {
                        let bits = outcome.answers_gbps? * 1e9;
                        Some(100.0 * bits / self.star.link_bits_per_s as f64)
                    }),
                ]),
                _ => row.extend([Percentile::P50, Percentile::P99].map(|percentile| {
                    cell(&outcome, |outcome| {
                        Some(outcome.short.get(percentile, Quantity::Slowdown)?.value)
                    })
                })),
            }
            rows.push(row);
        }
        let columns: &[&str] = match incast {
            true => &["transport", "at once", "answers (% of link)"],
            false => &["transport", "short half p50 (x)", "p99 (x)"],
        };
        let says = if incast { "" } else { ", messages one way and without answers" };
        Ok(Table {
            id: id.to_string(),
            title: format!("The same plan in the lab, as `cavy run --set world=lab` has it{says}"),
            columns: columns.iter().map(|one| one.to_string()).collect(),
            rows,
        })
    }
}

fn cell(outcome: &NetResult, of: impl Fn(&NetResult) -> Option<f64>) -> Cell {
    let why = if outcome.stable() { "n/a" } else { "unstable" };
    let value = of(outcome).filter(|_| outcome.stable());
    value.map_or_else(|| Cell::Missing(why.to_string()), Cell::Number)
}

/// The study that runs a plan, and how often the plan wants it.
pub fn study_of(file: &Path, quick: bool) -> Result<Option<(StudyName, Option<u16>)>, Fault> {
    let text = text_of(file)?;
    if plan::kind_of(&text, file)?.as_deref() != Some("network") {
        return Ok(None);
    }
    let on = BetweenHosts::read(&text, file, &[], quick)?;
    let repetitions = on.repetitions().and_then(|number| u16::try_from(number).ok());
    Ok(Some((StudyName::Homa, repetitions)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, overrides: &[String], quick: bool) -> Result<BetweenHosts, String> {
        let read = BetweenHosts::read(text, Path::new("plan"), overrides, quick);
        read.map_err(|fault| fault.render())
    }

    #[test]
    fn built_in_plans_have_the_numbers_of_the_source() {
        for (quick, labels, ms) in [
            (true, vec!["W4 at 80 %"], (600, 6_000)),
            (
                false,
                vec![
                    "W3 at 50 %",
                    "W3 at 80 %",
                    "W4 at 50 %",
                    "W4 at 80 %",
                    "W5 at 50 %",
                    "W5 at 80 %",
                ],
                (3_000, 30_000),
            ),
        ] {
            let on = read(plans::HOMA, &[], quick).expect("a plan");
            let testbed = on.testbed();
            // Six hosts at 100 Mb/s, a quarter of a megabyte a level [homa 7.6].
            assert_eq!(testbed, Testbed::slow(6));
            let demands = on.demands(&testbed).unwrap_or_else(|fault| panic!("{}", fault.render()));
            assert_eq!(demands.iter().map(Demand::label).collect::<Vec<_>>(), labels);
            let bounds = |one: &Demand| (one.sizes.quantile(0.0), one.sizes.max_bytes());
            assert!(demands.iter().all(|one| bounds(one).0 >= 8 && bounds(one).1 <= 1_000_000));
            let times = on.times().unwrap_or_else(|fault| panic!("{}", fault.render()));
            assert_eq!(times, (Span::from_ms(ms.0), Span::from_ms(ms.1)));
            let incast = read(plans::INCAST, &[], quick).expect("a plan");
            assert_eq!(incast.testbed(), Testbed::slow(6));
            let (asked, numbers) =
                incast.converging().unwrap_or_else(|fault| panic!("{}", fault.render()));
            assert_eq!((asked.question_bytes, asked.answer_bytes), (16, 10_000));
            let all: &[u32] = &[2, 4, 8, 16, 32, 64, 128, 256, 512];
            assert_eq!(numbers, if quick { &[8, 64, 512] } else { all });
        }
    }

    #[test]
    fn what_cannot_run_live_is_said() {
        let with = |from: &str, to: &str| plans::HOMA.replacen(from, to, 1);
        for (text, words) in [
            (with("world = \"live\"\n", ""), "write `world = \"live\"` at its top"),
            (with("hosts = 6", "hosts = 6\nloss_ratio = 0.01"), "loss_ratio"),
            (with("hosts = 6", "hosts = 6\npropagation_us = 5.0"), "propagation_us"),
            (with("hosts = 6", "hosts = 65"), "network.hosts"),
            (with("load = [0.5, 0.8]", "load = [0.5, 1.2]"), "load"),
            (with("min_bytes = 8", "min_bytes = 1"), "messages.min_bytes"),
            (with("all_to_all", "permutation"), "no live study for such a plan"),
            (with("load = [0.5, 0.8]", "\"network.host_gbps\" = [0.1, 0.2]"), "several networks"),
        ] {
            let said = match read(&text, &[], false) {
                Err(said) => said,
                Ok(on) => match on.demands(&on.testbed()) {
                    Err(fault) => fault.render(),
                    Ok(_) => panic!("{words}"),
                },
            };
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}
