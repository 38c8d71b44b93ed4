//! The study of search: a cluster of twelve servers on this machine whose p changes, at several
//! values of p, and with a server that stands still now and then ([roar 5], [roar 8.2]).
//!
//! The cluster is the program `cavy-search`, which makes load and looks at every answer. Here runs
//! take turns, their queries are put together, and the lab says which p it would take.
//!
//! **Reading order.** [`run`] (one run), this module (who runs when), [`delay`] (the lab beside),
//! [`show`] (tables and values).

mod delay;
mod run;
mod show;

use super::Settings;
use crate::args::{SearchPart, StudyName};
use crate::faults::{FAILED, Fault};
use crate::terminal;
use cavy_trials::kept::Shelf;
use cavy_trials::progress::Progress;
use cavy_trials::turns::in_turns;
use cavy_trials::{Heard, Part};
use run::Run;
use std::sync::atomic::Ordering;

/// The values of p through which `change` goes, and then so many times on.
const STEPS: &str = "4,5,8,3,12,4";
const AGAIN: &str = ",8,3,12,4";
const CYCLES: usize = 7;
/// Hedging of `tail`: none, and after so many milliseconds.
const HEDGES: [u32; 2] = [0, 20];

/// Runs of a part, one for each repetition and whoever takes turns within it.
fn runs(
    settings: &Settings,
    part: SearchPart,
    repetitions: u16,
    turns: &[u32],
    args: impl Fn(u32) -> Vec<String>,
) -> Result<Vec<(u32, Run)>, Fault> {
    let folder = &settings.session.folder;
    let shelf = Shelf::new(folder, settings.args.homa.resume, env!("CARGO_PKG_VERSION"))?;
    let seeds: Vec<u64> = settings.seeds().take(usize::from(repetitions)).collect();
    let mut progress = Progress::new(seeds.len() * turns.len());
    in_turns(&seeds, turns, |turn| {
        let (peer, seed) = (turn.peer, *turn.schedule);
        let mut words = args(peer);
        words.extend(["--seed".to_string(), seed.to_string()]);
        // All that decides what comes of it.
        let file = format!("search-{}.json", words.join("-").replace("--", "").replace(',', "."));
        let run = match shelf.take(&file, |_: &Run| false) {
            Some(run) => {
                progress.skip();
                run
            }
            None => {
                if settings.session.stop.load(Ordering::Relaxed) {
                    return Err(Fault::new("interrupted").code(FAILED));
                }
                let run = run::run(&words, settings.args.probe)?;
                progress.ran(Vec::new());
                shelf.put(&file, &run).map_err(|error| Fault::from(error).code(FAILED))?;
                run
            }
        };
        let left = progress.left();
        terminal::talk(&format!("{left}: {}: {} faults", show::title(part), run.checker.faults));
        Ok((peer, run))
    })
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_string).collect()
}

/// Runs it.
pub fn run(settings: &Settings) -> Result<Part, Fault> {
    let chosen = match &settings.args.search.search_parts[..] {
        [] => vec![SearchPart::Change, SearchPart::Delay, SearchPart::Tail],
        some => some.to_vec(),
    };
    let quick = settings.args.quick;
    let repetitions = settings.repetitions;
    let seconds = |(full, quick): (f64, f64)| {
        let seconds = settings.duration((full, quick)).as_us() / 1e6;
        (seconds.round() as u64).max(1)
    };
    let again = settings.command(StudyName::Search);
    let mut part = Part::default();
    for one in chosen {
        let (figure, findings, all) = match one {
            SearchPart::Change => {
                let seconds = seconds((5.0, 4.0));
                let (documents, cycles) = if quick { (4_000, 0) } else { (12_000, CYCLES) };
                let steps = format!("{STEPS}{}", AGAIN.repeat(cycles));
                let all = runs(settings, one, repetitions, &[0], |_| {
                    words(&format!(
                        "change --p {steps} --documents {documents} --queries 150 --writes 5 \
                         --seconds {seconds}"
                    ))
                })?;
                (show::change(&all, &again), show::change_findings(&all), all)
            }
            SearchPart::Delay => {
                let seconds = seconds((8.0, 4.0));
                let all = runs(settings, one, repetitions, &[0], |_| {
                    words(&format!("{} --seconds {seconds}", delay::ARGS))
                })?;
                let delays = delay::Delays::of(&all)?;
                (delays.figure(&again), delays.findings(), all)
            }
            SearchPart::Tail => {
                let cycles = if quick { 1 } else { (seconds((60.0, 20.0)) / 20).max(1) };
                let all = runs(settings, one, repetitions, &HEDGES, |hedge_ms| {
                    words(&format!(
                        "tail --p 12 --documents 2000 --queries 170 --writes 5 --cycles {cycles} \
                         --hedge-ms {hedge_ms}"
                    ))
                })?;
                (show::tail(&all, &again), show::tail_findings(&all), all)
            }
        };
        part.heard.extend(all.iter().map(|(_, run)| Heard {
            weather: run.weather,
            doubted: false,
            schedule: run.checker.answers_checked,
        }));
        part.figures.push(figure);
        part.findings.extend(findings);
    }
    Ok(part)
}
