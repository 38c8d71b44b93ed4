//! The replay of an endpoint of Homa, as a document.

use super::story::{KINDS, Story, timer_name};
use cavy_core::Span;
use cavy_homa::Timer;
use cavy_live::load::ledger::Times;
use cavy_live::load::report::quantile_ns;
use cavy_live::record::ReplayError;
use cavy_live::record::homa::{Header, Reader, Replayed, replay_watched};
use cavy_report::model::{Cell, Document, Figure, Table};
use cavy_report::number::{count, significant};
use std::path::Path;

/// A recording, decided again.
pub struct Decided {
    header: Header,
    replayed: Replayed,
    story: Story,
}

/// Replays the recording in `file`.
pub fn decide(file: &Path) -> Result<Decided, ReplayError> {
    let mut reader = Reader::open(file)?;
    let header = reader.header().clone();
    let mut story = Story::new();
    let replayed = replay_watched(&mut reader, &mut |taken| story.tell(taken))?;
    Ok(Decided { header, replayed, story })
}

/// What the digests say of a recording by version `by` of this program.
pub fn decisions(replayed: &Replayed, by: &str) -> String {
    let Replayed { summary, compared, differs, whole, stopped } = replayed;
    let digest = summary.digest;
    if let Some(differs) = differs {
        let ((from, until), (first, last)) = (differs.steps, differs.lines);
        let why = match &differs.untakeable {
            Some((step, why)) => format!("; at step {step} {why}"),
            None => String::new(),
        };
        let program = env!("CARGO_PKG_VERSION");
        let other = match by == program {
            true => String::new(),
            false => format!("; it was recorded by version {by}, this is {program}"),
        };
        return format!(
            "DIFFERENT first in steps {from} to {until} (lines {first} to {last}){why}{other}"
        );
    }
    match (whole, stopped) {
        (true, None) => format!("identical (digest {digest:016x})"),
        (true, Some(why)) => format!(
            "identical as far as it was recorded (digest {digest:016x}); it stopped there: {why}"
        ),
        (false, _) => format!(
            "identical in the first {} steps; the recording was cut off after {} (digest so far \
             {digest:016x})",
            count(*compared),
            count(summary.inputs)
        ),
    }
}

impl Decided {
    /// Did the machine decide as it did in the run?
    pub fn agrees(&self) -> bool {
        self.replayed.agrees()
    }

    /// As a document.
    pub fn document(&self, name: &str) -> Document {
        let command = format!("cavy-live replay {name}");
        let summary = format!(
            "Decisions of a fresh machine at the recorded steps of an endpoint: {}.",
            decisions(&self.replayed, &self.header.program)
        );
        Document {
            title: "A live endpoint of Homa, decided again".to_string(),
            summary,
            command: command.clone(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            seed: self.header.seed,
            digest: format!("{:016x}", self.replayed.summary.digest),
            elapsed_s: 0.0,
            facts: self.facts(),
            plan: None,
            claims: Vec::new(),
            figures: vec![Figure {
                id: "live.homa.replay".to_string(),
                title: "What the endpoint did".to_string(),
                shows: SHOWS.to_string(),
                claimed: String::new(),
                found: self.found(),
                command,
                panels: Vec::new(),
                maps: Vec::new(),
                tables: vec![packets(&self.story), levels(&self.story), waits(&self.story)],
            }],
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        let (story, config) = (&self.story, &self.header.config);
        let fact = |name: &str, value: String| (name.to_string(), value);
        let mut failed: Vec<String> =
            story.failed.iter().map(|(why, n)| format!("{} {why}", count(*n))).collect();
        if failed.is_empty() {
            failed.push("none".to_string());
        }
        vec![
            fact("decisions", decisions(&self.replayed, &self.header.program)),
            fact("steps", count(self.replayed.summary.inputs)),
            fact("duration", format!("{} s", significant(seconds(story.until.since(story.from))))),
            fact(
                "calls",
                format!(
                    "{} asked, {} answered, {} cancelled",
                    count(story.calls),
                    count(story.answered),
                    count(story.cancelled)
                ),
            ),
            fact(
                "questions",
                format!(
                    "{} came, {} answered or refused",
                    count(story.questions),
                    count(story.answers)
                ),
            ),
            fact("messages that failed", failed.join(", ")),
            fact("exchanges at once", count(story.exchanges_max as u64)),
            fact("packets sent again", count(story.counters.data_resent)),
            fact("packets received twice", count(story.counters.duplicates)),
            fact("link (Mb/s)", significant(config.link_bits_per_s as f64 / 1e6)),
            fact("levels", config.levels.to_string()),
            fact("recorded by version", self.header.program.clone()),
            fact("percentiles", "given where 100 samples lie beyond".to_string()),
        ]
    }

    fn found(&self) -> String {
        let story = &self.story;
        let whole = story.until.since(story.from);
        let share = |part: Span| match whole.is_zero() {
            true => "0 %".to_string(),
            false => format!("{:.1} %", 100.0 * seconds(part) / seconds(whole)),
        };
        format!(
            "Bytes that might be sent waited in {} of the time, at most {} B of them, and {} pulls \
             gave nothing although there were some. Messages could have been granted and were not \
             in {} of the time; at most {} B were on their way here.",
            share(story.sending),
            count(story.backlog_max_bytes),
            count(story.paced),
            share(story.withholding),
            count(story.incoming_max_bytes),
        )
    }
}

/// What the tables show.
const SHOWS: &str = "Packets by what they say, what was sent at which level of priority, and what \
                     waited: calls for their answers, messages for their first packet, questions \
                     for the application, and timers for the endpoint's thread. Times are those at \
                     which the machine was told.";

fn seconds(span: Span) -> f64 {
    span.as_us() / 1e6
}

/// A cell of words.
pub fn text(text: &str) -> Cell {
    Cell::Text(text.to_string())
}

/// A table without a title.
pub fn named(id: &str, columns: &[&str], rows: Vec<Vec<Cell>>) -> Table {
    let columns = columns.iter().map(|column| column.to_string()).collect();
    Table { id: id.to_string(), title: String::new(), columns, rows }
}

fn packets(story: &Story) -> Table {
    let row = |(at, name): (usize, &&str)| {
        vec![text(name), text(&count(story.received[at])), text(&count(story.sent[at]))]
    };
    named("packets", &["packet", "received", "sent"], KINDS.iter().enumerate().map(row).collect())
}

fn levels(story: &Story) -> Table {
    let used = story.levels.iter().enumerate().rev().filter(|(_, l)| l.data + l.control > 0);
    let row = |(at, level): (usize, &super::story::Level)| {
        let numbers = [level.data, level.bytes, level.control].map(|n| text(&count(n)));
        [vec![text(&at.to_string())], numbers.to_vec()].concat()
    };
    let columns = ["level", "DATA sent", "payload (B)", "control packets sent"];
    named("levels", &columns, used.map(row).collect())
}

fn waits(story: &Story) -> Table {
    let mut rows = vec![
        wait("call, question to answer", &story.call_times.times),
        wait("message, until its first packet", &story.first_packets.times),
        wait("question, at the application", &story.served.times),
    ];
    for (timer, late) in Timer::ALL.into_iter().zip(&story.late) {
        rows.push(wait(&format!("timer {}, late by", timer_name(timer)), late));
    }
    let columns = ["what waited", "samples", "p50 (us)", "p99 (us)", "longest (us)"];
    named("waits", &columns, rows)
}

fn wait(name: &str, times: &Times) -> Vec<Cell> {
    let missing = || Cell::Missing("n/a".to_string());
    let us = |ratio| quantile_ns(times, 0, ratio).map_or_else(missing, |ns| Cell::Number(ns / 1e3));
    let longest = match times.is_empty() {
        true => missing(),
        false => Cell::Number(times.max() as f64 / 1e3),
    };
    vec![text(name), text(&count(times.len())), us(0.5), us(0.99), longest]
}
