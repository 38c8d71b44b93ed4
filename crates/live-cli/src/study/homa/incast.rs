//! One host asks all others for answers, so many questions at once `[homa 2.10, 5.10]`.

use super::books::Books;
use super::peers::{self, Tuning};
use super::trial::interrupted;
use crate::args::HomaPeer;
use crate::faults::Fault;
use crate::terminal;
use cavy_core::Span;
use cavy_live::load::{Wait, clock};
use cavy_report::model::{Cell, Table};
use cavy_testbed::{Plan, Testbed};
use cavy_trials::health::Moment;
use cavy_workload::sizes::{Published, Sizes};
use std::sync::atomic::{AtomicBool, Ordering};

/// Questions of a run at most; ten times what a link carries.
const QUESTIONS_MAX: usize = 200_000;
/// How often the asker looks whether to ask more; an answer takes four times as long.
const LOOK: Span = Span::from_us(200);
/// Who is compared.
pub const PEERS: [HomaPeer; 6] = [
    HomaPeer::Homa,
    HomaPeer::NoIncastControl,
    HomaPeer::TcpCubic,
    HomaPeer::TcpBbr,
    HomaPeer::PoolCubic,
    HomaPeer::PoolBbr,
];

/// One run.
#[derive(Clone, Debug)]
pub struct Point {
    /// Who.
    pub peer: HomaPeer,
    /// Questions under way.
    pub concurrent: u32,
    /// Bytes of answers as a share of what the link carries, headers and all.
    pub goodput_ratio: f64,
    /// All bytes that the switch sent to the asker, with what Ethernet adds, as the same share.
    pub link_ratio: f64,
    /// Packets that found no room at the switch.
    pub dropped: u64,
    /// Packets sent again.
    pub sent_again: u64,
    /// Questions not answered when they were given up.
    pub failed: u64,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Questions {
    /// Length of one.
    pub bytes: u32,
    /// Length of an answer.
    pub answer_bytes: u32,
    /// How many at once.
    pub numbers: Vec<u32>,
    /// Asked for so long, until windows and pools are full, before they count.
    pub warmup: Span,
    /// And then for so long.
    pub counted: Span,
}

/// Runs all peers at each number of questions.
pub fn run(
    testbed: &mut Testbed,
    asked: &Questions,
    chosen: &[HomaPeer],
    stop: &AtomicBool,
) -> Result<Vec<Point>, Fault> {
    let sizes = Sizes::constant(asked.answer_bytes);
    let sizes = sizes.map_err(|error| Fault::new(error.to_string()))?;
    let mut points = Vec::new();
    for &concurrent in &asked.numbers {
        for &peer in chosen {
            terminal::talk(&format!("incast: {concurrent} questions at once, {}", peer.label()));
            points.push(point(testbed, peer, concurrent, &sizes, asked)?);
            if stop.load(Ordering::Relaxed) {
                return Err(interrupted());
            }
        }
    }
    Ok(points)
}

fn point(
    testbed: &mut Testbed,
    peer: HomaPeer,
    concurrent: u32,
    sizes: &Sizes,
    questions: &Questions,
) -> Result<Point, Fault> {
    let rig =
        peers::start(peer, testbed, Tuning { like: Published::W4, sizes, boosts_tails: true })?;
    let (hosts, rate) = (testbed.plan().hosts, testbed.plan().link_bits_per_s);
    let message = peers::messages(questions.answer_bytes).slice(..questions.bytes as usize);
    let books = Books::new(QUESTIONS_MAX);
    let before = Moment::look(testbed, rig.sent_again().unwrap_or(0))?;
    clock::sharpen_timers();
    let start = clock::now();
    let middle = start + questions.warmup;
    let end = middle + questions.counted;
    let (mut asked, mut counted) = (0_usize, None);
    loop {
        let now = clock::now();
        let ended = books.ended() as usize;
        if now >= middle && counted.is_none() {
            counted = Some((now, ended, testbed.port(0)?));
        }
        if now >= end {
            let port = testbed.port(0)?;
            let (from, before_ended, before_port) = counted.unwrap_or((start, 0, port));
            let health = Moment::look(testbed, rig.sent_again().unwrap_or(0))?.since(&before);
            let answered = |index| matches!(books.end(index), super::books::End::Answered(_));
            let failed = (0..asked).filter(|&index| !answered(index)).count();
            let failed = failed.saturating_sub(asked - ended) as u64;
            let bits = (ended - before_ended) as f64 * f64::from(questions.answer_bytes) * 8.0;
            let could = now.since(from).as_us() / 1e6 * rate as f64;
            let (goodput_ratio, port) = (bits / could, port.since(&before_port));
            let (packets, bytes) = port
                .levels
                .iter()
                .fold((0, 0), |sum, level| (sum.0 + level.packets, sum.1 + level.bytes));
            let link_ratio = Plan::wire_bytes(packets, bytes) as f64 * 8.0 / could;
            let (dropped, sent_again) = (health.dropped, health.sent_again);
            return Ok(Point {
                peer,
                concurrent,
                goodput_ratio,
                link_ratio,
                dropped,
                sent_again,
                failed,
            });
        }
        while asked - ended < concurrent as usize && asked < QUESTIONS_MAX {
            // The servers in turn.
            let to = 1 + (asked % usize::from(hosts - 1)) as u16;
            rig.send(0, to, message.clone(), books.ticket(asked));
            asked += 1;
        }
        Wait::Sleep.until(now + LOOK);
    }
}

/// What came of it.
pub fn table(points: &[Point], answer_bytes: u32) -> Table {
    let mut numbers: Vec<u32> = points.iter().map(|point| point.concurrent).collect();
    numbers.dedup();
    let mut columns = vec!["peer".to_string()];
    columns.extend(numbers.iter().map(|number| format!("{number} at once")));
    columns.extend(["packets dropped, all runs", "sent again", "failed"].map(str::to_string));
    let peers: Vec<HomaPeer> =
        PEERS.into_iter().filter(|&peer| points.iter().any(|point| point.peer == peer)).collect();
    let row = |&peer: &HomaPeer| {
        let of = || points.iter().filter(move |point| point.peer == peer);
        let mut row = vec![Cell::Text(peer.label().to_string())];
        row.extend(numbers.iter().map(|&number| {
            let point = of().find(|point| point.concurrent == number);
            point.map_or(Cell::Missing("n/a".to_string()), |point| {
                let used = 100.0 * point.link_ratio;
                Cell::Text(format!("{:.1} of {used:.1}", 100.0 * point.goodput_ratio))
            })
        }));
        for sum in [
            of().map(|point| point.dropped).sum::<u64>(),
            of().map(|point| point.sent_again).sum(),
            of().map(|point| point.failed).sum(),
        ] {
            row.push(Cell::Number(sum as f64));
        }
        row
    };
    Table {
        id: "incast".to_string(),
        title: format!(
            "Incast: bytes of answers of {answer_bytes} B, of all that the link to the asker \
             carried, as shares of its rate (%), by questions at once"
        ),
        columns,
        rows: peers.iter().map(row).collect(),
    }
}
