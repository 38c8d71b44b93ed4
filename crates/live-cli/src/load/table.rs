//! The result of a run for a terminal.

use cavy_core::Span;
use cavy_lab::statistics::quantile;
use cavy_live::load::machine::{Machine, Moment};
use cavy_live::load::report::{Percentiles, TypeReport};
use cavy_live::load::{Model, Report, Schedule, Verdict};
use comfy_table::{CellAlignment, Table, TableStyle};
use std::fmt::Write as _;

/// Percentiles of the table, the highest first.
const PERCENTILES: [(&str, f64); 4] = [("p99.9", 0.999), ("p99", 0.99), ("p90", 0.9), ("p50", 0.5)];

/// Which percentiles a schedule has enough requests for, in one line.
pub fn expected(schedule: &Schedule, warmup: Span) -> String {
    let mut counts = vec![0u64; schedule.types().len()];
    for entry in schedule.entries().iter().filter(|entry| entry.at >= warmup) {
        counts[usize::from(entry.kind)] += 1;
    }
    let each = schedule.types().iter().zip(&counts).map(|(name, &count)| {
        let highest = PERCENTILES.iter().find(|(_, ratio)| quantile::supported(count, *ratio));
        format!("{name} {count} ({})", highest.map_or("no percentile", |(label, _)| label))
    });
    let each: Vec<String> = each.collect();
    let few = counts.iter().any(|&count| !quantile::supported(count, 0.99));
    let need = if few { "; a p99 takes 10000 of a type, a p99.9 100000" } else { "" };
    format!("requests and the highest percentile they give: {}{need}", each.join(", "))
}

/// The whole result.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    let model = match report.model {
        Model::Open => "open model: latency from the time a request was due".to_string(),
        Model::Closed { clients } => {
            format!("CLOSED model, {clients} clients: latency from sending")
        }
    };
    let _ = writeln!(out, "{model}");
    let _ = writeln!(out, "schedule {}: {}", report.schedule_digest, report.schedule);
    let warmup = match report.warmup {
        0 => String::new(),
        count => format!(", {count} before them as warm-up"),
    };
    let rate = match report.model {
        Model::Open => {
            format!("{:.1}/s planned, {:.1}/s sent", report.planned_per_s, report.sent_per_s)
        }
        Model::Closed { .. } => format!("{:.1}/s sent", report.sent_per_s),
    };
    let _ = writeln!(out, "{} requests counted{warmup}; {rate}\n", report.sent);
    out.push_str(&counts(&report.types));
    out.push_str(&complaints(&report.types));
    out.push('\n');
    match &report.verdict {
        Verdict::Refused(reasons) => {
            let given = report.types.iter().any(|kind| kind.response_us.is_some());
            out.push_str(match given {
                true => {
                    "\nNO TAILS: they would show the generator or the machine, and not the \
                     server.\n"
                }
                false => {
                    "\nNO PERCENTILES: they would show the generator or the machine, and not the \
                     server.\n"
                }
            });
            for reason in reasons {
                let _ = writeln!(out, "- {reason}");
            }
            out.push_str(
                "Lower the rate, free the machine, use --wait hybrid or spin, or go before ",
            );
            out.push_str("others (`chrt -f 10 cavy load ...`);\n");
            out.push_str("--force-publish prints them nevertheless, with a label.\n");
            if given {
                out.push_str(&latencies(report));
            }
        }
        Verdict::Forced(reasons) => {
            out.push_str("\nNOT FOR PUBLICATION, given because of --force-publish:\n");
            for reason in reasons {
                let _ = writeln!(out, "- {reason}");
            }
            out.push_str(&latencies(report));
        }
        Verdict::Published => out.push_str(&latencies(report)),
    }
    if report.model == Model::Open {
        let late = &report.lateness_us;
        let _ = writeln!(
            out,
            "\nlateness of the generator ({:?}, us): p50 {}, p99 {}, p99.9 {}, max {}",
            report.wait,
            figure(late.p50),
            figure(late.p99),
            figure(late.p999),
            figure(late.max)
        );
        if let Some(shortest) = &report.shortest_service {
            let _ = writeln!(
                out,
                "compared with a tenth of {} us ({})",
                figure(Some(shortest.us)),
                shortest.source
            );
        }
    }
    out.push_str(&machine(&report.machine));
    for note in &report.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_header(header).force_no_tty();
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn counts(types: &[TypeReport]) -> String {
    let names = types.first().map(|kind| kind.counts().map(|(name, _)| name));
    let heads: Vec<&str> = std::iter::once("type").chain(names.into_iter().flatten()).collect();
    let mut table = table(&heads);
    for kind in types {
        let counts = kind.counts().map(|(_, count)| count.to_string());
        table.add_row(std::iter::once(kind.name.clone()).chain(counts));
    }
    lines(&table)
}

/// Why requests were not answered, by type, the most frequent reason first.
fn complaints(types: &[TypeReport]) -> String {
    let mut out = String::new();
    for kind in types {
        for (text, count) in kind.reasons() {
            let _ = writeln!(out, "{}: {count} x {text}", kind.name);
        }
    }
    out
}

fn latencies(report: &Report) -> String {
    let mut table = table(&[&["us"][..], &Percentiles::NAMES].concat());
    let (mut few, mut late) = (false, false);
    // Beside a refusal, what is missing was refused.
    let refused = matches!(report.verdict, Verdict::Refused(_));
    let mut row = |label: String, times: Option<Percentiles>, withheld: &[&str]| {
        let Some(times) = times else { return };
        let mut row = vec![label];
        row.extend(times.figures().map(|(name, cell)| match cell {
            None if refused || withheld.contains(&name) => {
                late = true;
                "late".to_string()
            }
            None => {
                few = true;
                figure(None)
            }
            some => figure(some),
        }));
        table.add_row(row);
    };
    for kind in &report.types {
        row(format!("{} since due", kind.name), kind.response_us, &kind.withheld);
        row(format!("{} since sent", kind.name), kind.since_sent_us, &[]);
    }
    let mut out = lines(&table);
    if few {
        out.push_str(
            "n/a: fewer than 100 requests lie beyond it, or the slowest requests had no answer\n",
        );
    }
    if late {
        out.push_str("late: too much of this figure is the generator's own lateness\n");
    }
    out
}

/// Three digits or more, without an exponent.
fn figure(value: Option<f64>) -> String {
    match value {
        None => "n/a".to_string(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

fn machine(machine: &Machine) -> String {
    let mut out = format!(
        "machine: Linux {}, {}, {} cores, scheduling of the senders {}, timer slack {} ns\n",
        machine.kernel,
        machine.processor,
        machine.cores,
        machine.senders,
        machine.timer_slack_ns.map_or("?".to_string(), |ns| ns.to_string())
    );
    for (name, moment) in [("before", &machine.before), ("after", &machine.after)] {
        out.push_str(&look(name, moment));
    }
    if let Some(steal) = machine.steal_ratio {
        let _ = writeln!(out, "  steal during the run: {:.2} %", steal * 100.0);
    }
    if let Some(floors) = &machine.floors {
        let _ = writeln!(
            out,
            "  floors (us): clock read {:.3}, sleep ends late p50 {} p99 {}, TCP echo p50 {} \
             p99 {}",
            floors.clock_read_ns / 1e3,
            figure(Some(floors.sleep_late_p50_us)),
            figure(Some(floors.sleep_late_p99_us)),
            figure(floors.tcp_echo_p50_us),
            figure(floors.tcp_echo_p99_us)
        );
    }
    out
}

fn look(name: &str, moment: &Moment) -> String {
    let mut out = format!("  {name}:");
    if let Some([one, five, fifteen]) = moment.load_average {
        let _ = write!(out, " load average {one:.2} {five:.2} {fifteen:.2}");
    }
    if let Some(jitter) = &moment.jitter {
        let _ = write!(
            out,
            "; jitter probe {:.0} ms: {} stalls, {:.2} % of the time, p50 {} p99 {} max {} us",
            jitter.span_ms,
            jitter.stalls,
            jitter.stalled_ratio * 100.0,
            figure(Some(jitter.stall_p50_us)),
            figure(Some(jitter.stall_p99_us)),
            figure(Some(jitter.stall_max_us))
        );
    }
    out.push('\n');
    out
}
