//! `cavy-live coords study`: agents beside real serf agents, on the measured distances of RIPE
//! Atlas anchors ([htrae 7.3]).
//!
//! **Promise.** Each anchor is a network namespace; the testbed's line holds its packets for half
//! of a measured round trip. Everybody meets the same distances, in turns within each repetition.
//! Where anchors are said to be is answered by a database in MaxMind's format with the rows that
//! DB-IP has for them, in one run with one wrong row. What agents measured, in their order, is also
//! told to the lab's flagship and to the lab's replay: the first is what a service could say, the
//! second must end where the agents do.
//!
//! **Reading order.** [`anchors`] (who, and how far apart), [`bed`] (the hosts and one run),
//! [`serf`] (HashiCorp's agents), [`lab`] (what the lab says to the same), [`show`].

mod anchors;
mod bed;
mod lab;
mod serf;
mod show;

use super::typed::StudyArgs;
use crate::faults::{FAILED, Fault};
use crate::signals::{self, Second};
use crate::terminal;
use anchors::Anchors;
use bed::{Bed, Run, Who};
use cavy_clock as clock;
use cavy_core::Digest;
use cavy_live::load::machine::Machine;
use cavy_report::folder::Folder;
use cavy_report::model::Document;
use cavy_trials::finding;
use cavy_trials::kept::Shelf;
use cavy_trials::progress::Progress;
use cavy_trials::turns::in_turns;
use cavy_trials::{Heard, Part};
use std::process::ExitCode;

/// Probes of a node after which errors are taken; of serf's agents, seconds.
pub const MARKS: [u64; 4] = [4, 8, 13, 32];
const QUICK_MARKS: usize = 3;

/// A run, and who ran.
pub struct Measured {
    pub who: Who,
    pub repetition: usize,
    pub run: Run,
}

/// Runs the command.
pub fn study(args: &StudyArgs) -> Result<ExitCode, Fault> {
    if let Some(why) = cavy_testbed::obstacle() {
        return Err(Fault::new(why).code(FAILED).hint("`cavy-live doctor` says what is missing"));
    }
    let serf = serf::version(args.serf.as_deref())?;
    let marks = if args.quick { &MARKS[..QUICK_MARKS] } else { &MARKS[..] };
    let repetitions = args.repetitions.unwrap_or(if args.quick { 1 } else { 3 });
    let folder = Folder::open(&args.out, "coords study", args.resume)?;
    if let Some(moved) = folder.moved() {
        terminal::talk(&format!("note: {moved}"));
    }
    let shelf = Shelf::new(&folder, args.resume, env!("CARGO_PKG_VERSION"))?;
    let stop = signals::stop(Second::Ends)?;
    let began = clock::now();
    let machine = Machine::before(args.probe);
    let anchors = Anchors::draw(args.anchors, args.seed);
    let bed = Bed::up(&anchors)?;
    let mut who = vec![Who::OneSided, Who::BothEnds, Who::WrongRow];
    match &serf {
        Ok(version) => {
            terminal::talk(&format!("serf: {version}"));
            who.push(Who::Serf);
        }
        Err(why) => terminal::talk(&format!("serf SKIPPED: {why}")),
    }
    let repetitions: Vec<usize> = (0..usize::from(repetitions)).collect();
    let mut progress = Progress::new(repetitions.len() * who.len());
    let all = in_turns(&repetitions, &who, |turn| {
        let (who, repetition) = (turn.peer, turn.repetition);
        let (count, seed, every) = (args.anchors, args.seed, args.every.as_ns() / 1_000_000);
        let until = marks.last().copied().unwrap_or(0);
        let id = who.id();
        let file = format!("{id}-{count}-{seed}-{every}-{until}-{}.json", repetition + 1);
        let kept = shelf.take(&file, |run: &Run| !run.doubts().is_empty());
        let run = match kept {
            Some(run) => {
                progress.skip();
                run
            }
            None => {
                let run = bed.run(who, marks, args, &stop)?;
                progress.ran(run.doubts());
                shelf.put(&file, &run).map_err(|error| Fault::from(error).code(FAILED))?;
                run
            }
        };
        let (p50, p90) = run.errors.last().copied().unwrap_or_default();
        let left = progress.left();
        terminal::talk(&format!("{left}: {}: errors {p50:.1} / {p90:.1} ms", who.label()));
        Ok::<Measured, Fault>(Measured { who, repetition, run })
    })?;
    let mut part = Part::default();
    part.heard.extend(all.iter().map(|one| Heard {
        weather: one.run.weather,
        doubted: !one.run.doubts().is_empty(),
        schedule: 0,
    }));
    let quiet = part.quiet();
    let shown = show::Shown::new(&anchors, marks, &all);
    let again = again(args);
    let mut document = document(args, &anchors, &machine, serf, &again);
    document.facts.push(("quiet enough".to_string(), quiet.words()));
    let statements = crate::study::statements();
    document.claims = finding::judge(&statements, &shown.findings(), quiet, &again);
    document.figures = shown.figures(&again);
    let mut digest = Digest::new();
    anchors.names().for_each(|name| name.bytes().for_each(|byte| digest.fold(byte.into())));
    document.digest = format!("{:016x}", digest.value());
    document.elapsed_s = clock::now().since(began).as_us() / 1e6;
    crate::study::finish(&document, &folder, args.json)
}

/// The command that measures the same again.
fn again(args: &StudyArgs) -> String {
    let mut words = vec![format!(
        "cavy-live coords study --anchors {} --seed {} --every {}ms",
        args.anchors,
        args.seed,
        args.every.as_ns() / 1_000_000
    )];
    words.extend(args.repetitions.map(|count| format!("--repetitions {count}")));
    words.extend(args.serf.as_ref().map(|folder| format!("--serf {}", folder.display())));
    if args.quick {
        words.push("--quick".to_string());
    }
    words.join(" ")
}

fn document(
    args: &StudyArgs,
    anchors: &Anchors,
    machine: &Machine,
    serf: Result<String, String>,
    again: &str,
) -> Document {
    let fact = |name: &str, value: String| (name.to_string(), value);
    let mut facts = vec![
        fact(
            "machine",
            format!("Linux {}, {}, {} cores", machine.kernel, machine.processor, machine.cores),
        ),
        fact(
            "hosts",
            format!(
                "{} anchors of RIPE Atlas, one a country, a namespace each; the line holds every \
                 packet for half of the measured round trip",
                anchors.count()
            ),
        ),
        fact(
            "agents",
            format!(
                "threads of one process, all others as seeds, no gossip; a probe of four packets \
                 each {} ms",
                args.every.as_ns() / 1_000_000
            ),
        ),
        fact(
            "serf",
            match serf {
                Ok(version) => format!(
                    "{version}, HashiCorp's own program, a process each, default configuration, \
                     gossip and all; it probes once a second, so seconds are its probes, from 2 s \
                     after the last one was started"
                ),
                Err(why) => format!("SKIPPED: {why}"),
            },
        ),
        fact("order", "all in turns within each repetition".into()),
        fact("in brackets", "the smallest and greatest of one repetition".into()),
    ];
    let credits = anchors.credits().iter().map(|credit| fact("data", credit.to_string()));
    facts.extend(credits);
    Document {
        title: "Coordinates live: agents on real distances".to_string(),
        summary: "Agents of ours and of serf on the measured distances of RIPE Atlas anchors, \
                  what the lab says to the same measurements, and a wrong row of a database."
            .to_string(),
        command: again.to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        seed: args.seed,
        digest: String::new(),
        elapsed_s: 0.0,
        facts,
        plan: None,
        claims: Vec::new(),
        figures: Vec::new(),
    }
}
