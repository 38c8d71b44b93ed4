//! `cavy-live whatif study`: predictions for WordPress as Debian packs it, and their truth.

use super::{guard_of, table};
use crate::faults::{FAILED, Fault, INTERRUPTED};
use crate::quantity;
use crate::signals::{self, Second};
use crate::terminal;
use cavy_core::Span;
use cavy_foreign::study::{self, Asked, Errors, Outcome, Why};
use cavy_groups::pace::Pace;
use cavy_groups::rank::Estimate;
use cavy_report::model::Cell;
use clap::Args;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// `cavy-live whatif study`.
#[derive(Args, Debug)]
#[command(
    about = "Predict for nginx, PHP-FPM with WordPress and MariaDB, then make the changes and look",
    after_help = "Fetches nginx, PHP-FPM, MariaDB and WordPress from Debian into a folder (nothing \
is installed), starts them on loopback as user www-data, and ranks them. Then, for each point, it \
measures on a second deployment by how much a change makes its tier faster, predicts what that \
buys, writes the prediction with its digest to DIR/predictions.jsonl, makes the change, and \
measures its truth, in rounds of both. Rounds in which other programs or the hypervisor take much \
are taken again. It asks for no more of the machine than an ordinary program gets. Everything is \
stopped and removed in the end. Where the machine cannot, it says SKIPPED and why.

Points: php-25 to php-100 and mariadb-25 to mariadb-100 take away so many percent of a burn of CPU \
time; opcache, index and gzip are optimisations that people make."
)]
pub struct Study {
    /// Four points and short windows: about five minutes.
    #[arg(long)]
    quick: bool,
    /// Only this point; may be given again.
    #[arg(long = "point", value_name = "NAME")]
    points: Vec<String>,
    /// Rounds of each point; 5, or 3 with --quick.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    rounds: Option<u32>,
    /// Length of a window at least; 2 s, or 1 s with --quick.
    #[arg(long, value_name = "SPAN", value_parser = quantity::positive_span)]
    window: Option<Span>,
    /// Answers that a window holds at least, so that it is longer where answers are few, up to
    /// 30 s; 100, or 20 with --quick.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    answers: Option<u32>,
    /// Requests without a change, and as many with it, in which its tier is measured alone, a third
    /// of them where processes start anew for the change; 600, or 240 with --quick.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(30..=100_000))]
    alone: Option<u32>,
    /// Windows of each unchanged application before the points: how far they differ, and whether
    /// the speed of the machine, measured beside all windows, explains it; 12, or none with
    /// --quick.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000))]
    unchanged: Option<u32>,
    /// Do not rank the tiers before the points.
    #[arg(long)]
    points_only: bool,
    /// Clients, each with one request under way.
    #[arg(long, value_name = "K", default_value = "24",
        value_parser = clap::value_parser!(u32).range(1..=400))]
    clients: u32,
    /// Begin no further round after so much time, and report what there is then.
    #[arg(long, value_name = "SPAN", value_parser = quantity::positive_span)]
    at_most: Option<Span>,
    /// Where predictions and the result are written.
    #[arg(long, value_name = "DIR", default_value = "cavy-whatif-study")]
    out: PathBuf,
    /// Keep the points and the ranking that an earlier study has left in --out with as many rounds,
    /// and measure what is missing. A study may thus be made in pieces.
    #[arg(long)]
    resume: bool,
    /// Keep the unpacked packages here, and use those that are there.
    #[arg(long, value_name = "DIR")]
    packages: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn study(args: &Study) -> Result<ExitCode, Fault> {
    let asked = Asked {
        quick: args.quick,
        points: args.points.clone(),
        rounds: args.rounds.unwrap_or(if args.quick { 3 } else { 5 }),
        pace: Pace {
            window: args.window.unwrap_or(Span::from_ms(if args.quick { 1_000 } else { 2_000 })),
            settle: Span::from_ms(300),
        },
        answers: args.answers.unwrap_or(if args.quick { 20 } else { 100 }),
        points_only: args.points_only,
        clients: args.clients,
        alone: args.alone.unwrap_or(if args.quick { 240 } else { 600 }),
        unchanged: args.unchanged.unwrap_or(if args.quick { 0 } else { 12 }),
        at_most: args.at_most,
        out: args.out.clone(),
        packages: args.packages.clone(),
        resume: args.resume,
    };
    let stop = signals::stop(Second::Waits)?;
    let begun = cavy_groups::now();
    let talk = |text: &str| {
        let elapsed_s = cavy_groups::now().since(begun).as_us() / 1e6;
        terminal::talk(&format!("{elapsed_s:4.0} s  {text}"));
    };
    let outcome = match study::run(&asked, guard_of, &stop, talk) {
        Ok(outcome) => outcome,
        Err(Why::Skipped(why)) => {
            terminal::print(&format!("SKIPPED: {why}\n"))?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(Why::Failed(why)) => {
            return Err(Fault::new(why).code(FAILED).hint("all programs were stopped"));
        }
    };
    if args.json {
        terminal::print_json(&outcome)?;
    } else {
        terminal::print(&shown(&outcome))?;
        terminal::talk(&format!("written to {}", asked.out.display()));
    }
    Ok(if outcome.interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

fn shown(outcome: &Outcome) -> String {
    let mut out = outcome.ranking.as_ref().map_or_else(String::new, super::answer::shown);
    let _ = writeln!(out, "\nPredicted, written down, then changed ({}):", {
        outcome.programs.join(", ")
    });
    let range = |estimate: Option<Estimate>| match estimate {
        Some(e) => format!("{:+.1} ({:+.1} to {:+.1})", e.value, e.low, e.high),
        None => "-".to_string(),
    };
    let percent = |value: Option<f64>| value.map_or("-".to_string(), |v| format!("{v:+.1}"));
    let share = |value: Option<f64>| value.map_or("-".to_string(), |v| format!("{v:.0}"));
    let rows = outcome.points.iter().map(|one| {
        vec![
            one.point.name.clone(),
            one.point.target.name().to_string(),
            format!("{:.0}", one.prediction.faster_percent),
            share(one.faster_loaded_percent),
            range(one.prediction.row.gain_percent),
            range(one.truth_percent),
            range(one.truth_by_cpu_percent),
            percent(one.error_percent),
            percent(one.error_evened_percent),
            percent(one.error_as_loaded_percent),
            percent(one.law_error_percent),
            percent(one.no_change_error_percent),
            range(one.base_percent),
            super::answer::between(one.prediction.row.gain_between_percent),
            one.digest.clone(),
        ]
    });
    let rows = rows.map(|row| row.into_iter().map(Cell::Text).collect()).collect();
    let columns = [
        "point",
        "tier",
        "faster %",
        "loaded %",
        "predicted %",
        "true %",
        "by CPU %",
        "error %",
        "evened %",
        "as loaded %",
        "law %",
        "no change %",
        "base %",
        "between %",
        "digest",
    ];
    out.push_str(&table(&columns, rows));
    out.push_str(
        "\nfaster: the tier, measured alone; loaded: under the clients. by CPU: what truth would \
         be if\nthroughput grew as CPU time for a request shrank. error, law, no change: of what \
         each predicted;\nevened: the error if the machine had been as fast in all windows; as \
         loaded:\nif the share under load had been known. base: the unchanged application \
         beside the change over\nthat beside the pauses, zero if the \
         study agrees with itself. between: \
         predicted if pauses\ncost nothing, and if they cost what they do when all stand.\n\n",
    );
    for (name, errors) in [("knobs", outcome.errors(false)), ("real", outcome.errors(true))] {
        if let Some(Errors { points, mean, worst, no_change, law, skill }) = errors {
            let _ = writeln!(
                out,
                "{name}: {points} points, mean error {mean:.1} %, worst {worst:.1} %; utilisation \
                 law {law:.1} %, no change {no_change:.1} %, skill {skill:.2}"
            );
        }
    }
    if let Some(spread) = outcome.unchanged.as_ref().and_then(|unchanged| unchanged.spread) {
        let _ = writeln!(
            out,
            "{} windows of unchanged applications: throughput differs by {:.1} %, at even speed of \
             the machine by {:.1} %; it goes with arithmetic to the power of {:.2} and with reads \
             to that of {:.2}",
            spread.windows,
            spread.percent,
            spread.evened_percent,
            spread.evening.core,
            spread.evening.memory
        );
    }
    for one in &outcome.not_measured {
        let _ = writeln!(out, "not measured: {}: {}", one.point, one.why);
    }
    for one in &outcome.points {
        if let Some([core, memory]) = one.rates_percent {
            let _ = writeln!(
                out,
                "{}: with the change arithmetic is {:+.1} % faster ({:+.1} to {:+.1}), reads \
                 {:+.1} % ({:+.1} to {:+.1})",
                one.point.name,
                core.value,
                core.low,
                core.high,
                memory.value,
                memory.low,
                memory.high
            );
        }
        if one.left_out > 0 {
            let _ = writeln!(out, "{}: {} rounds were taken again", one.point.name, one.left_out);
        }
        for doubt in one.prediction.row.doubts.iter().chain(&one.doubts) {
            let _ = writeln!(out, "doubt: {}: {doubt}", one.point.name);
        }
        if one.failed > 0 {
            let _ = writeln!(out, "doubt: {}: {} requests failed", one.point.name, one.failed);
        }
    }
    let weather = outcome.weather;
    let _ = writeln!(
        out,
        "Processor time: {:.0} % used, {:.0} % by other programs, {:.0} % taken by the hypervisor.",
        weather.busy_ratio * 100.0,
        weather.others_ratio * 100.0,
        weather.steal_ratio * 100.0
    );
    if !weather.quiet() {
        out.push_str("doubt: the machine was not idle; do not judge the method by this\n");
    }
    if outcome.cut_short {
        out.push_str("the time was over: what was measured until then\n");
    }
    if outcome.interrupted {
        out.push_str("interrupted: what was measured until then\n");
    }
    out
}
