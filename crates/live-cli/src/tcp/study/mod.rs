//! `cavy-live tcp study`: answers that collide at a port of this machine's own network, with the
//! kernel's senders as they are and as they can be tuned, with ours, and with our receiver before
//! servers that nobody changed ([incast 5.8], [incast 5.9], [incast 7.2]).
//!
//! **Promise.** All cells of a bed take turns within each repetition. Timers, drops, the shares of
//! the processors and a jitter probe stand beside each run; one that was disturbed says so, and a
//! claim that rests on such runs is called too noisy.
//!
//! **Reading order.** [`way`] (who sends and who receives), [`plan`] and [`programme`] (what is
//! measured), [`bed`] (the hosts, one measurement), [`show`] (tables and values).

mod bed;
mod plan;
mod programme;
mod show;
pub mod way;

use crate::faults::{FAILED, Fault};
use crate::signals::{self, Second};
use crate::tcp::typed::Study;
use crate::terminal;
use bed::{Bed, Run};
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
use plan::FromServers;
use programme::Programme;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use way::{Cell, WAYS};

/// A measured cell.
pub struct MeasuredCell {
    pub mbit: u32,
    pub port_bytes: u32,
    pub cell: Cell,
    pub repetition: usize,
    pub run: Run,
}

/// Runs the command.
pub fn study(args: &Study) -> Result<ExitCode, Fault> {
    if args.print_plan {
        terminal::print(crate::study::plans::TCP)?;
        return Ok(ExitCode::SUCCESS);
    }
    let on = FromServers::of(args)?;
    if let Some(why) = cavy_testbed::obstacle().or_else(cavy_stack::obstacle) {
        return Err(Fault::new(why).code(FAILED).hint("`cavy-live doctor` says what is missing"));
    }
    let programme = Programme::new(args, &on);
    let folder = Folder::open(&args.out, "tcp study", args.resume)?;
    if let Some(moved) = folder.moved() {
        terminal::talk(&format!("note: {moved}"));
    }
    let shelf = Shelf::new(&folder, args.resume, env!("CARGO_PKG_VERSION"))?;
    let stop = signals::stop(Second::Ends)?;
    let (runs, minutes) = (programme.runs(), programme.minutes(args.probe).ceil());
    terminal::talk(&format!("tcp: {runs} runs, about {minutes:.0} minutes"));
    let began = clock::now();
    let machine = Machine::before(args.probe);
    let all = measure(args, &programme, &shelf, &stop)?;
    let mut document = document(args, &programme, &machine);
    let mut part = Part::default();
    part.heard.extend(all.iter().map(|one| Heard {
        weather: one.run.weather,
        doubted: !one.run.doubts().is_empty(),
        schedule: 0,
    }));
    let quiet = part.quiet();
    document.facts.push(("quiet enough".to_string(), quiet.words()));
    let statements = crate::study::statements();
    let again = again(args);
    // Claims are about the study's own plan.
    if on.own {
        document.title.clone_from(&on.title);
    } else {
        document.claims = finding::judge(&statements, &show::findings(&all), quiet, &again);
    }
    for site in &programme.sites {
        let of: Vec<&MeasuredCell> = all
            .iter()
            .filter(|one| (one.mbit, one.port_bytes) == (site.mbit, site.port_bytes))
            .collect();
        let mut figure = show::figure(site, &of, &again);
        figure.tables.push(on.in_the_lab((site.mbit, site.port_bytes))?);
        document.figures.push(figure);
    }
    let mut digest = Digest::new();
    format!("{:?}", WAYS).bytes().for_each(|byte| digest.fold(byte.into()));
    document.digest = format!("{:016x}", digest.value());
    document.elapsed_s = clock::now().since(began).as_us() / 1e6;
    crate::study::finish(&document, &folder, args.json)
}

fn measure(
    args: &Study,
    programme: &Programme,
    shelf: &Shelf,
    stop: &AtomicBool,
) -> Result<Vec<MeasuredCell>, Fault> {
    let mut all = Vec::new();
    let mut progress = Progress::new(programme.runs());
    for site in &programme.sites {
        let bed = Bed::up(site.mbit, site.port_bytes)?;
        let repetitions: Vec<usize> = (0..usize::from(programme.repetitions)).collect();
        let done = in_turns(&repetitions, &site.cells, |turn| {
            let (cell, repetition) = (turn.peer, turn.repetition);
            let length = programme.length(&cell);
            let (mbit, port_bytes) = (site.mbit, site.port_bytes);
            let ms = length.as_us() / 1e3;
            let file = format!("{mbit}-{port_bytes}-{}-{ms:.0}-{}.json", cell.id(), repetition + 1);
            let kept = shelf.take(&file, |run: &Run| !run.doubts().is_empty());
            let run = match kept {
                Some(run) => {
                    progress.skip();
                    run
                }
                None => {
                    let run = bed.measure(&cell, length, args.probe, stop)?;
                    progress.ran(run.doubts());
                    shelf.put(&file, &run).map_err(|error| Fault::from(error).code(FAILED))?;
                    run
                }
            };
            terminal::talk(&format!(
                "{}: {mbit} Mb/s, {port_bytes} B, {} from {}: {:.0} Mb/s, {} dropped, {} timeouts",
                progress.left(),
                cell.way.label,
                cell.servers,
                run.mbps,
                run.dropped,
                run.timeouts
            ));
            Ok::<MeasuredCell, Fault>(MeasuredCell { mbit, port_bytes, cell, repetition, run })
        });
        all.extend(done?);
    }
    Ok(all)
}

/// The command that measures the same again.
fn again(args: &Study) -> String {
    let mut words = vec!["cavy-live tcp study".to_string()];
    let mut say = |option: &str, values: Vec<String>| {
        if !values.is_empty() {
            words.push(format!("--{option} {}", values.join(",")));
        }
    };
    say("plan", args.plan.iter().map(|file| file.display().to_string()).collect());
    say("mbit", args.mbit.iter().map(u32::to_string).collect());
    say("port-bytes", args.port_bytes.iter().map(u32::to_string).collect());
    say("servers", args.servers.iter().map(u16::to_string).collect());
    say("ways", args.ways.clone());
    say("seconds", args.seconds.iter().map(f64::to_string).collect());
    say("repetitions", args.repetitions.iter().map(u16::to_string).collect());
    if args.quick {
        words.push("--quick".to_string());
    }
    words.join(" ")
}

fn document(args: &Study, programme: &Programme, machine: &Machine) -> Document {
    let fact = |name: &str, value: String| (name.to_string(), value);
    let facts = vec![
        fact(
            "machine",
            format!("Linux {}, {}, {} cores", machine.kernel, machine.processor, machine.cores),
        ),
        fact("hosts", "16 servers and a client, a namespace each, at a switch".into()),
        fact(
            "links",
            "the switch's port to the client keeps the rate, all others are as fast as the \
             machine; counted as Ethernet counts: 1448 of 1538 octets are payload, at most 941 of \
             1000 Mb/s; offload is off, and packets leave their sockets before the switch where \
             the kernel can"
                .into(),
        ),
        fact(
            "blocks",
            "1 MiB, or 4 MiB for latency, in equal parts; the next begins when the last part is \
             there; the first does not count"
                .into(),
        ),
        fact("order", "all cells of a bed in turns within each repetition".into()),
        fact("repetitions", programme.repetitions.to_string()),
        fact("in brackets", "the smallest and greatest of one repetition".into()),
        fact(
            "doubts",
            "other processes had more than 15 % of the processors, other machines more than 1 %, \
             or a spinning thread stood for more than 10 % of the time"
                .into(),
        ),
    ];
    Document {
        title: "Incast live: answers that collide at a port".to_string(),
        summary: "The kernel's senders as they are and as they can be tuned, senders of ours with \
                  timers of microseconds, and our receiver before servers that nobody changed, on \
                  a network of this machine's own."
            .to_string(),
        command: again(args),
        version: env!("CARGO_PKG_VERSION").to_string(),
        seed: 0,
        digest: String::new(),
        elapsed_s: 0.0,
        facts,
        plan: None,
        claims: Vec::new(),
        figures: Vec::new(),
    }
}
