//! `cavy-live line`: hosts at distances from each other, on this machine.

use crate::faults::{FAILED, Fault};
use crate::quantity;
use crate::signals::{self, Second};
use crate::terminal;
use cavy_core::Span;
use cavy_report::model::{Cell, Table};
use cavy_study::plan::files;
use cavy_testbed::line::path::{Order, Path};
use cavy_testbed::line::probe::{self, Seen};
use cavy_testbed::line::schedule::Counts;
use cavy_testbed::line::{Line as Standing, Plan, Report, control, plan};
use cavy_testbed::obstacle;
use clap::{Args as Arguments, Subcommand};
use serde_json::json;
use std::path::{self, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// `cavy-live line`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live line example > world.toml                a file with every key
  cavy-live line up world.toml                       as root; stands until Ctrl-C
  cavy-live line set from=east to=asia one_way_ms=200
  cavy-live line set from=west cut=true              from another terminal, while it is up
  cavy-live line report
  cavy-live line check world.toml --rate 10000       what the line adds to what it was told

Each host is a network namespace whose packets all go through this program: those of TCP, UDP and
ICMP, of any program that is started there. IPv4 only.")]
pub struct Line {
    /// What to do.
    #[command(subcommand)]
    pub what: LineDo,
}

/// What to do with a line.
#[derive(Subcommand, Debug)]
pub enum LineDo {
    /// Build one, which stands until Ctrl-C. Needs root.
    Up(LineUp),
    /// Change ways of a line that is up.
    Set(LineSet),
    /// Say what became of packets on a line that is up, and how late the line was, as JSON.
    Report(LineReport),
    /// Build one, send stamped packets, and say how far times are from what was told. Needs root.
    Check(LineCheck),
    /// Print a file to begin with, which names every key.
    Example,
}

/// `cavy-live line up`.
#[derive(Arguments, Debug)]
pub struct LineUp {
    /// Sites, ways and ports; `cavy-live line example` prints one.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Say where the hosts are, and at the end what happened, as one line of JSON each.
    #[arg(long)]
    pub json: bool,
}

/// `cavy-live line set`.
#[derive(Arguments, Debug)]
pub struct LineSet {
    /// Keys of a `[[path]]`, such as `from=east`, `loss_ratio=0.01`, `cut=true`.
    #[arg(value_name = "KEY=VALUE", required = true)]
    pub words: Vec<String>,
    /// The process of the line, where several are up.
    #[arg(long, value_name = "PROCESS")]
    pub of: Option<u32>,
}

/// `cavy-live line report`.
#[derive(Arguments, Debug)]
pub struct LineReport {
    /// The process of the line, where several are up.
    #[arg(long, value_name = "PROCESS")]
    pub of: Option<u32>,
}

/// `cavy-live line check`.
#[derive(Arguments, Debug)]
#[command(
    after_help = "A way whose packets all take the same time is ok when they are late by less
than 0.1 ms at the median, 0.5 ms at p99 and 2 ms at p99.9, and none is missing; one with jitter,
loss or a rate is not judged. Exit code 1 when a way is not ok."
)]
pub struct LineCheck {
    /// Sites, ways and ports.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Packets a second.
    #[arg(long, value_name = "N", default_value = "1000",
        value_parser = clap::value_parser!(u64).range(1..=200_000))]
    pub rate: u64,
    /// How long for each way.
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = quantity::span)]
    pub length: Span,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Ways that are checked at most: one of each kind.
const CHECKED_MAX: usize = 12;
/// Limits on what is added at p50, p99 and p99.9, in microseconds.
const ADDED_MAX: [(f64, f64); 3] = [(0.5, 100.0), (0.99, 500.0), (0.999, 2_000.0)];
/// A rank beyond which fewer samples lie says nothing.
const BEYOND_MIN: f64 = 10.0;

/// Runs the command.
pub fn line(what: &LineDo) -> Result<ExitCode, Fault> {
    match what {
        LineDo::Example => terminal::print(plan::EXAMPLE)?,
        LineDo::Set(args) => {
            let words = std::iter::once("set".to_string()).chain(args.words.iter().cloned());
            let said = control::tell(args.of, &words.collect::<Vec<_>>())?;
            terminal::talk(&format!("changed {said}"));
        }
        LineDo::Report(args) => {
            let said = control::tell(args.of, &["report".to_string()])?;
            terminal::print(&format!("{said}\n"))?;
        }
        LineDo::Up(args) => return up(args),
        LineDo::Check(args) => return check(args),
    }
    Ok(ExitCode::SUCCESS)
}

fn read(file: &path::Path) -> Result<Plan, Fault> {
    let text = files::text(file)
        .map_err(|error| Fault::new(format!("cannot read {}: {error}", file.display())))?;
    let plan = Plan::read(&text).map_err(|error| {
        let fault = Fault::new(format!("{}: {error}", file.display()));
        error.hints().iter().fold(fault, |fault, hint| fault.hint(*hint))
    })?;
    match obstacle() {
        Some(reason) => Err(Fault::new(format!("no line here: {reason}"))
            .code(FAILED)
            .hint("`cavy-live doctor` says what is missing, and its cure")),
        None => Ok(plan),
    }
}

fn up(args: &LineUp) -> Result<ExitCode, Fault> {
    let plan = read(&args.file)?;
    // Before anything is made, so that an early Ctrl-C ends this as a late one does.
    let stop = signals::stop(Second::Waits)?;
    let line = Standing::up(plan)?;
    let control = control::Control::open()?;
    let hosts = || line.plan().hosts.iter().zip(line.hosts());
    if args.json {
        let hosts: Vec<_> = hosts()
            .map(|(host, space)| {
                json!({
                    "name": host.name, "site": host.site,
                    "space": space.name(), "address": host.address,
                })
            })
            .collect();
        terminal::print(&format!("{}\n", json!({ "hosts": hosts })))?;
    } else {
        for (host, space) in hosts() {
            let (name, address) = (&host.name, host.address);
            terminal::print(&format!("{name}  {address}  ip netns exec {} sh\n", space.name()))?;
        }
    }
    terminal::talk("`cavy-live line set` changes ways; Ctrl-C removes it");
    control.serve(&line, &stop);
    let report = line.report()?;
    let tunnels = line.dropped_at_tunnels()?;
    if args.json {
        let mut said = serde_json::to_value(&report)
            .map_err(|error| Fault::new(error.to_string()).code(FAILED))?;
        said["dropped_at_tunnels"] = tunnels.into();
        terminal::print(&format!("{said}\n"))?;
    } else {
        terminal::print(&render(&counts(&line, &report)))?;
        terminal::print(&format!("{}\n", manner(&report, tunnels)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn render(table: &Table) -> String {
    cavy_report::terminal::table(table, terminal::width(), false)
}

/// What became of packets, by pair of hosts.
fn counts(line: &Standing, report: &Report) -> Table {
    let columns = [
        "from",
        "to",
        "sent",
        "delivered",
        "lost",
        "cut",
        "dropped",
        "overflowed",
        "copied",
        "late",
        "marked",
    ];
    let name = |host: u16| Cell::Text(line.plan().hosts[usize::from(host)].name.clone());
    let row = |(&(from, to), counts): (&(u16, u16), &Counts)| {
        let numbers = [
            counts.offered,
            counts.delivered,
            counts.lost,
            counts.cut,
            counts.dropped,
            counts.overflowed,
            counts.copied,
            counts.made_late,
            counts.marked,
        ];
        let mut row = vec![name(from), name(to)];
        row.extend(numbers.map(|number| Cell::Number(number as f64)));
        row
    };
    Table {
        id: "line".to_string(),
        title: "What became of packets".to_string(),
        columns: columns.map(str::to_string).to_vec(),
        rows: report.pairs.iter().map(row).collect(),
    }
}

/// How the line itself was.
fn manner(report: &Report, dropped_at_tunnels: u64) -> String {
    let late = &report.late;
    let mut said = format!(
        "The line handed packets over {:.0} us late at p50, {:.0} at p99, {:.0} at p99.9, {:.0} at \
         most, and used {:.0} % of a processor.",
        late.p50_us,
        late.p99_us,
        late.p999_us,
        late.max_us,
        100.0 * report.processor_ratio
    );
    if !report.goes_first {
        said.push_str(" Its thread had ordinary priority, because a higher one was not permitted.");
    }
    if dropped_at_tunnels > 0 {
        said.push_str(&format!(" Tunnels had no room for {dropped_at_tunnels} packets."));
    }
    if report.unroutable > 0 {
        let number = report.unroutable;
        said.push_str(&format!(" {number} packets had no receiver, or were not IPv4."));
    }
    if report.in_doubt() || dropped_at_tunnels > 0 {
        said.push_str(" That is a reason to doubt the results of what ran on it.");
    }
    said
}

/// One way that was checked.
struct Checked {
    pair: (u16, u16),
    path: Path,
    seen: Seen,
    report: Report,
}

impl Checked {
    /// Do all packets of this way take the same time?
    fn is_steady(&self) -> bool {
        let path = &self.path;
        path.jitter.is_zero()
            && path.loss_ratio + path.copy_ratio + path.late_ratio == 0.0
            && !path.cut
            && path.port.is_none()
    }

    /// Microseconds beyond what was told; `None` with too few samples.
    fn added_us(&self, ratio: f64) -> Option<f64> {
        let beyond = self.seen.arrived as f64 * (1.0 - ratio);
        (beyond >= BEYOND_MIN).then(|| self.seen.beyond_us(self.path.one_way, ratio))
    }

    /// Why it is not ok.
    fn fault(&self) -> Option<String> {
        if !self.is_steady() {
            return None;
        }
        if self.seen.arrived < self.seen.sent {
            return Some(format!("{} missing", self.seen.sent - self.seen.arrived));
        }
        let over = |(ratio, most): &(f64, f64)| {
            self.added_us(*ratio)
                .filter(|added| added.abs() > *most)
                .map(|added| format!("p{} is off by {:.2} ms", 100.0 * ratio, added / 1e3))
        };
        ADDED_MAX.iter().find_map(over)
    }
}

fn check(args: &LineCheck) -> Result<ExitCode, Fault> {
    let plan = read(&args.file)?;
    let stop = signals::stop(Second::Waits)?;
    let line = Standing::up(plan)?;
    let paths = line.plan().paths();
    // One of each kind of way, ports of hosts apart: those are for what is sent there.
    let mut chosen: Vec<((u16, u16), Path)> = Vec::new();
    let hosts = 0..line.plan().hosts.len() as u16;
    for pair in hosts.clone().flat_map(|from| hosts.clone().map(move |to| (from, to))) {
        let path = paths.get(&pair).copied().unwrap_or_default();
        if pair.0 != pair.1 && chosen.iter().all(|(_, other)| *other != path) {
            chosen.push((pair, path));
        }
    }
    if chosen.len() > CHECKED_MAX {
        terminal::talk(&format!("checking {CHECKED_MAX} of {} kinds of ways", chosen.len()));
        chosen.truncate(CHECKED_MAX);
    }
    let mut checked = Vec::new();
    for (pair, path) in chosen {
        if stop.load(Ordering::Relaxed) {
            return Err(Fault::new("interrupted").code(crate::faults::INTERRUPTED));
        }
        line.forget()?;
        let seen = probe::one_way(&line, pair, args.rate, args.length)?;
        checked.push(Checked { pair, path, seen, report: line.report()? });
    }
    if args.json {
        let ways: Vec<_> = checked.iter().map(|one| way(&line, one)).collect();
        terminal::print_json(&json!({ "rate_per_s": args.rate, "ways": ways }))?;
    } else {
        terminal::print(&render(&table(&line, &checked, args.rate)))?;
    }
    let bad = checked.iter().any(|one| one.fault().is_some());
    Ok(if bad { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

fn ends(line: &Standing, (from, to): (u16, u16)) -> String {
    let name = |host: u16| line.plan().hosts[usize::from(host)].name.as_str();
    format!("{} to {}", name(from), name(to))
}

fn way(line: &Standing, one: &Checked) -> serde_json::Value {
    json!({
        "way": ends(line, one.pair),
        "told_ms": one.path.one_way.as_us() / 1e3,
        "jitter_ms": one.path.jitter.as_us() / 1e3,
        "sent": one.seen.sent,
        "arrived": one.seen.arrived,
        "overtaken": one.seen.overtaken,
        "added_us": ADDED_MAX.map(|(ratio, _)| one.added_us(ratio)),
        "line": one.report,
        "fault": one.fault(),
    })
}

fn table(line: &Standing, checked: &[Checked], rate: u64) -> Table {
    let columns = [
        "way",
        "told (ms)",
        "sent",
        "arrived",
        "added p50 (us)",
        "added p99 (us)",
        "added p99.9 (us)",
        "line late p99.9 (us)",
        "processor (%)",
        "verdict",
    ];
    let number = |value: Option<f64>| match value {
        Some(value) => Cell::Number(value),
        None => Cell::Missing("n/a".to_string()),
    };
    let row = |one: &Checked| {
        let path = &one.path;
        let told = match (path.jitter.is_zero(), path.order) {
            (true, _) => format!("{}", path.one_way.as_us() / 1e3),
            (false, order) => format!(
                "{} +- {}{}",
                path.one_way.as_us() / 1e3,
                path.jitter.as_us() / 1e3,
                if order == Order::Free { ", free" } else { "" }
            ),
        };
        let verdict = match one.fault() {
            Some(fault) => fault,
            None if one.is_steady() => "ok".to_string(),
            None => "not judged".to_string(),
        };
        let mut row = vec![
            Cell::Text(ends(line, one.pair)),
            Cell::Text(told),
            Cell::Number(one.seen.sent as f64),
            Cell::Number(one.seen.arrived as f64),
        ];
        row.extend(ADDED_MAX.map(|(ratio, _)| number(one.added_us(ratio))));
        row.push(Cell::Number(one.report.late.p999_us));
        row.push(Cell::Number(100.0 * one.report.processor_ratio));
        row.push(Cell::Text(verdict));
        row
    };
    Table {
        id: "check".to_string(),
        title: format!("What the line adds to what it was told, {rate} packets a second"),
        columns: columns.map(str::to_string).to_vec(),
        rows: checked.iter().map(row).collect(),
    }
}
