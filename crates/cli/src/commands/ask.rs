//! `cavy ask`: which remedy to look at first.

use crate::args::{Ask, FromTraces, New, TimeUnit};
use crate::ask::causes::{QUESTIONS, Question};
use crate::ask::evidence::{self, Columns};
use crate::ask::log::Log;
use crate::ask::{Answers, Suspicion, capture, log, question, ruled_out, spans, suspect};
use crate::faults::Fault;
use crate::{Outcome, terminal};
use cavy_kinds::server::plan::Unit;
use cavy_study::plan::{files, nearest};
use cavy_study::registry::Registry;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

/// Answers of one round of questions.
const YOU: &str = "you said so";

/// Asks, weighs, and writes a plan if that is wanted.
pub fn ask(args: &Ask, registry: &Registry) -> Result<Outcome, Fault> {
    let mut answers = Answers::default();
    for (keys, yes) in [(&args.yes, true), (&args.no, false)] {
        for key in keys {
            answers.note(known(key)?, yes, YOU.to_string());
        }
    }
    let mut looked = Looked::default();
    for file in &args.files {
        look(file, args, &mut answers, &mut looked)?;
    }
    let unit = args.unit.unwrap_or(TimeUnit::Us).us();
    if let Some(file) = &args.latencies {
        evidence::latencies(&read(file, unit)?, &file.display().to_string(), &mut answers);
    }
    if let Some(file) = &args.busy_times {
        evidence::busy_times(&read(file, unit)?, &file.display().to_string(), &mut answers);
    }
    let measured = args.latencies.is_some() || !args.files.is_empty();
    let told = !answers.is_empty() || measured || args.json;
    if !told && std::io::stdin().is_terminal() {
        interview(&mut answers)?;
    } else if !told {
        terminal::print(&questions())?;
        return Ok(Outcome::Success);
    }
    // What this program cannot run is no advice.
    let has = |one: &Suspicion| registry.templates().any(|(_, t)| t.name == one.cause.template);
    let found: Vec<Suspicion> = suspect(&answers).into_iter().filter(has).collect();
    if args.json {
        terminal::print_json(&as_json(&found))?;
    } else {
        let mut text: String = looked.read.iter().map(|line| format!("read {line}\n")).collect();
        if !looked.read.is_empty() {
            text.push('\n');
        }
        text.push_str(&as_text(&found, &answers, measured));
        terminal::print(&text)?;
    }
    match (&args.write, found.iter().find(|one| one.points > 0)) {
        (Some(file), Some(first)) => write(file, first, &looked, args, registry),
        (Some(file), None) => Err(Fault::new(format!(
            "`{}` is not written, because nothing points to a cause",
            file.display()
        ))
        .hint("answer more questions with `--yes` and `--no`, or start with `cavy plan new`")),
        (None, _) => Ok(Outcome::Success),
    }
}

/// What files were looked at.
#[derive(Default)]
struct Looked {
    /// A sentence about each, without its end.
    read: Vec<String>,
    log: Option<Log>,
    traces: Option<PathBuf>,
}

/// Looks at a file, which is known by what is in it.
fn look(file: &Path, args: &Ask, answers: &mut Answers, looked: &mut Looked) -> Result<(), Fault> {
    let shown = file.display().to_string();
    let of_file = |why: String| Fault::new(format!("{shown}: {why}"));
    let bytes = files::bytes(file).map_err(|error| {
        Fault::new(format!("cannot read `{shown}`: {error}"))
            .hint("name an access log, traces as JSON, or a capture of packets")
    })?;
    if capture::is_capture(&bytes) {
        let read = capture::look(&bytes, &shown, answers).map_err(|why| {
            of_file(why).hint("capture TCP with its headers, such as `tcpdump -s 96 -w FILE tcp`")
        })?;
        looked.read.push(read);
        return Ok(());
    }
    let text = String::from_utf8_lossy(&bytes);
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
    if first.starts_with(['{', '[']) {
        let of_traces = |error: cavy_traces::TraceError| of_file(error.message).hint(error.hint);
        let read = cavy_traces::read::read(&text).map_err(of_traces)?;
        let shape = cavy_traces::shape::Shape::of(&read).map_err(of_traces)?;
        looked.read.push(spans::look(&read, &shape, &shown, answers));
        looked.traces = Some(file.to_path_buf());
        return Ok(());
    }
    if log::is_log(first) {
        let unit = args.unit.map(|unit| match unit {
            TimeUnit::Us => Unit::Us,
            TimeUnit::Ms => Unit::Ms,
            TimeUnit::S => Unit::S,
        });
        let log = log::look(file, first, unit, args.workers, answers)?;
        looked.read.push(log.summary());
        looked.log = Some(log);
        return Ok(());
    }
    let columns = first.contains([',', ';', '\t']);
    let fault = of_file("it is no access log, no traces as JSON and no capture".to_string());
    Err(match columns {
        true => fault.hint(format!(
            "for a CSV file say what its columns are: `--latencies {shown}` or `--busy-times \
             {shown}`"
        )),
        false => fault.hint("`cavy ask --help` says what it can look at"),
    })
}

/// Writes the plan that measures `first`: of the files that were looked at where they can say it,
/// else a template.
fn write(
    file: &Path,
    first: &Suspicion,
    looked: &Looked,
    args: &Ask,
    registry: &Registry,
) -> Result<Outcome, Fault> {
    match (first.cause.system, &looked.log, &looked.traces) {
        ("persephone", Some(log), _) => {
            let text = log.plan(file).map_err(|error| {
                Fault::new(format!("cannot name `{}` in a plan: {error}", file.display()))
            })?;
            super::plan::write(&[(file.to_path_buf(), &text)], args.force)?;
            terminal::talk(&format!("next: `cavy run {}`", file.display()));
            Ok(Outcome::Success)
        }
        ("slowpoke", _, Some(traces)) => super::plan::from_traces(&FromTraces {
            traces: traces.clone(),
            file: file.to_path_buf(),
            clients: None,
            cores: 1,
            host_cores: None,
            force: args.force,
        }),
        _ => {
            let template = first.cause.template.to_string();
            let new = New { file: file.to_path_buf(), template, force: args.force };
            super::plan::new(&new, registry)
        }
    }
}

fn known(key: &str) -> Result<&'static Question, Fault> {
    question(key).ok_or_else(|| {
        let keys: Vec<&str> = QUESTIONS.iter().map(|question| question.key).collect();
        let fault = Fault::new(format!("there is no question `{key}`"));
        match nearest(key, keys.iter().copied()) {
            Some(near) => fault.hint(format!("did you mean `{near}`?")),
            None => fault.hint(format!("questions are: {}", keys.join(", "))),
        }
    })
}

fn read(file: &Path, us_per_unit: f64) -> Result<Columns, Fault> {
    let text = files::text(file).map_err(|error| {
        Fault::new(format!("cannot read `{}`: {error}", file.display()))
            .hint("name a CSV file whose first line names its columns")
    })?;
    evidence::columns(&text, us_per_unit)
        .map_err(|why| Fault::new(format!("{}: {why}", file.display())))
}

/// Questions one by one, on a terminal.
fn interview(answers: &mut Answers) -> Result<(), Fault> {
    terminal::talk("Answer y for yes, n for no, and Enter where you do not know.\n");
    let mut lines = std::io::stdin().lock().lines();
    for asked in QUESTIONS {
        terminal::talk(asked.text);
        // The end of the input leaves the rest open.
        let Some(Ok(line)) = lines.next() else { break };
        match line.trim().chars().next() {
            Some('y' | 'Y') => answers.note(asked, true, YOU.to_string()),
            Some('n' | 'N') => answers.note(asked, false, YOU.to_string()),
            _ => {}
        }
    }
    Ok(())
}

fn questions() -> String {
    let mut out =
        "Say --yes KEY,KEY and --no KEY,KEY; leave out what you do not know.\n".to_string();
    for question in QUESTIONS {
        let _ = writeln!(out, "  {:12} {}", question.key, question.text);
    }
    out
}

fn as_text(found: &[Suspicion], answers: &Answers, measured: bool) -> String {
    let mut out = String::new();
    let likely: Vec<&Suspicion> = found.iter().filter(|one| one.points > 0).collect();
    if likely.is_empty() {
        let what = if measured { "the files show" } else { "you said" };
        let _ = writeln!(
            out,
            "Nothing that {what} points to one of the causes that cavy knows. More answers help:\n"
        );
        out.push_str(&questions());
        push_ruled_out(&mut out, answers);
        return out;
    }
    for (place, one) in likely.iter().enumerate() {
        let cause = one.cause;
        let _ = writeln!(out, "{}. {}", place + 1, cause.waits);
        for evidence in &one.evidence {
            let _ = writeln!(out, "   for it: {evidence}.");
        }
        for open in &one.open {
            let _ = writeln!(out, "   open ({}): {}", open.key, open.text);
        }
        let _ = writeln!(out, "   remedy: {}", cause.remedy);
        let _ = writeln!(
            out,
            "   try it: cavy plan new plan.toml --template {} && cavy run plan.toml",
            cause.template
        );
        let _ = writeln!(out, "   read: {}\n", cause.page);
    }
    push_ruled_out(&mut out, answers);
    let from = if measured { "files and answers" } else { "what you said" };
    let _ = writeln!(
        out,
        "This is advice from {from}. The plan of the first cause measures whether it is right."
    );
    out
}

/// What answers rule out, so that nobody wonders where a cause is.
fn push_ruled_out(out: &mut String, answers: &Answers) {
    let ruled_out = ruled_out(answers);
    for (cause, answer) in &ruled_out {
        let _ = writeln!(out, "ruled out: {} ({})", cause.waits, answer.says);
    }
    if !ruled_out.is_empty() {
        out.push('\n');
    }
}

fn as_json(found: &[Suspicion]) -> serde_json::Value {
    let one = |one: &Suspicion| {
        json!({
            "system": one.cause.system,
            "waits": one.cause.waits,
            "points": one.points,
            "points_max": one.cause.points_max(),
            "evidence": one.evidence,
            "open": one.open.iter().map(|question| question.key).collect::<Vec<_>>(),
            "remedy": one.cause.remedy,
            "template": one.cause.template,
            "page": one.cause.page,
        })
    };
    json!({ "causes": found.iter().map(one).collect::<Vec<_>>() })
}
