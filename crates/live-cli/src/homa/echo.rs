//! Round trips by size, one at a time and many at once.
//!
//! Closed by design: each caller waits for its answer. It shows what a call costs when nothing else
//! is under way, and how many calls a second the endpoints carry; tails under load are `load`'s
//! business.

use super::call::wrong;
use super::typed::Echo;
use super::way::{any_for, opened, say_recording};
use crate::faults::{FAILED, Fault};
use crate::terminal;
use bytes::Bytes;
use cavy_core::Span;
use cavy_lab::statistics::quantile;
use cavy_live::homa::{CallError, Client, Handler, Peer, Server};
use cavy_live::load::clock;
use comfy_table::{CellAlignment, Table, TableStyle};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;

/// What was measured of one size.
#[derive(Serialize)]
struct Line {
    question_bytes: u32,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    min_us: f64,
    calls: u64,
    at_once: u32,
    at_once_per_s: f64,
    at_once_mb_per_s: f64,
}

/// Runs the command.
pub fn echo(args: &Echo) -> Result<ExitCode, Fault> {
    let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let mut own = None;
    let to = match args.address {
        Some(at) => args.way.peer(at),
        None => {
            let echo = Handler::inline(|question| question.into_bytes());
            let server = opened(Server::bind(&args.way.options(local)?, echo))?;
            let at = server.local_address();
            own = Some(server);
            args.way.peer(at)
        }
    };
    let bind = match (own.is_some(), args.way.raw) {
        // Two raw sockets of one address would get each other's packets.
        (true, true) => SocketAddr::from(([127, 0, 0, 2], 0)),
        (true, false) => local,
        (false, _) => any_for(to.at),
    };
    let mut options = args.way.options(bind)?;
    options.record = args.record.clone();
    let client = opened(Client::bind(&options))?;
    let mut lines = Vec::new();
    for &bytes in &args.sizes {
        let line = measure(args, &client, to, bytes);
        lines.push(line.map_err(|error| wrong(error, to))?);
    }
    client.shutdown(std::time::Duration::from_secs(1));
    drop(own);
    if args.json {
        terminal::print_json(&lines)?;
    } else {
        terminal::print(&table(&lines))?;
    }
    Ok(if say_recording(&client) { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn measure(args: &Echo, client: &Client, to: Peer, bytes: u32) -> Result<Line, CallError> {
    let question = Bytes::from(vec![b'q'; bytes as usize]);
    let enough = clock::now() + Span::from_ns(args.at_most.as_ns() / 10);
    for _ in 0..args.count.div_ceil(10) {
        client.call(to, question.clone())?;
        if clock::now() >= enough {
            break;
        }
    }
    // Nanoseconds up to a minute, three digits.
    let mut times =
        Histogram::<u64>::new_with_max(60_000_000_000, 3).map_err(|_| CallError::Closed)?;
    let enough = clock::now() + args.at_most;
    for _ in 0..args.count {
        let start = clock::now();
        client.call(to, question.clone())?;
        let end = clock::now();
        times.saturating_record(end.since(start).as_ns());
        if end >= enough {
            break;
        }
    }
    let (start, mut count) = (clock::now(), 0_u32);
    let mut under_way = VecDeque::new();
    while count < args.count.max(args.at_once) && clock::now() < start + args.at_most {
        count += 1;
        if under_way.len() >= args.at_once as usize {
            under_way.pop_front().map(cavy_live::homa::Call::wait).transpose()?;
        }
        under_way.push_back(client.begin(to, question.clone(), None));
    }
    for call in under_way {
        call.wait()?;
    }
    let took_s = clock::now().since(start).as_us() / 1e6;
    let us = |p| quantile::of_histogram(&times, p).map_or(0.0, |ns| ns as f64 / 1e3);
    Ok(Line {
        question_bytes: bytes,
        p50_us: us(0.5),
        p99_us: us(0.99),
        p999_us: us(0.999),
        min_us: times.min() as f64 / 1e3,
        calls: times.len(),
        at_once: args.at_once,
        at_once_per_s: f64::from(count) / took_s,
        at_once_mb_per_s: f64::from(count) * f64::from(bytes) / took_s / 1e6,
    })
}

fn table(lines: &[Line]) -> String {
    let mut table = Table::new();
    let header = [
        "bytes",
        "min us",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "calls",
        "at once",
        "calls/s",
        "MB/s each way",
    ];
    table.load_style(TableStyle::new()).set_header(header).force_no_tty();
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for line in lines {
        table.add_row([
            line.question_bytes.to_string(),
            format!("{:.1}", line.min_us),
            format!("{:.1}", line.p50_us),
            format!("{:.1}", line.p99_us),
            format!("{:.1}", line.p999_us),
            line.calls.to_string(),
            line.at_once.to_string(),
            format!("{:.0}", line.at_once_per_s),
            format!("{:.0}", line.at_once_mb_per_s),
        ]);
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
