//! Answering until a signal.

use super::typed::Serve;
use super::way::{opened, say_recording};
use crate::faults::{FAILED, Fault};
use crate::signals::{self, Second};
use crate::terminal;
use bytes::Bytes;
use cavy_core::Span;
use cavy_live::Pool;
use cavy_live::homa::{Counters, Handler, Question, Server};
use serde::Serialize;
use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// What a server did, for programs.
#[derive(Serialize)]
struct Ended {
    questions: u64,
    refused: u64,
    answers_failed: u64,
    packets_received: u64,
    packets_sent: u64,
    dropped: u64,
    unauthentic: u64,
    replayed: u64,
    exchanges_left: u64,
    messages_left: u64,
}

/// Runs the command.
pub fn serve(args: &Serve) -> Result<ExitCode, Fault> {
    let mut options = args.way.options(args.bind)?;
    options.waiting_max = args.queue_limit;
    options.record = args.record.clone();
    if args.service.is_some() {
        options.handling_max = args.workers.into();
    }
    // Listening for signals comes first: from when the address is printed, Ctrl-C drains.
    let ended = signals::told(Second::Ends)?;
    let server = opened(Server::bind(&options, handler(args)?))?;
    let (at, port) = (server.local_address(), options.server_port);
    let carrier = args.way.carrier();
    let place = if args.way.raw { at.ip().to_string() } else { at.to_string() };
    if args.json {
        let said = serde_json::json!({ "at": at.to_string(), "port": port, "carrier": carrier });
        terminal::print(&format!("{said}\n"))?;
    } else {
        terminal::print(&format!("homa {carrier} {place} port {port}\n"))?;
    }
    terminal::talk("answering; Ctrl-C ends");
    let watching = server.client();
    let mut said = Said::default();
    // Nobody sends but the signal handler, which lives as long as the program.
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LOOK_EVERY) {
        said.look(&watching.counters(), options.server_port, args.way.key_file.is_some());
    }
    drop((ended, watching));
    terminal::talk("ending: answers under way are finished; Ctrl-C again ends at once");
    let asking = server.client();
    server.shutdown(Duration::from_nanos(args.drain.as_ns()));
    say(args, &asking.counters())?;
    Ok(if say_recording(&asking) { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn handler(args: &Serve) -> Result<Handler, Fault> {
    let fixed = args.answer_bytes.map(|bytes| Bytes::from(vec![b'a'; bytes as usize]));
    let answer = move |question: Question| fixed.clone().unwrap_or_else(|| question.into_bytes());
    let Some(service) = args.service else { return Ok(Handler::inline(answer)) };
    let pool = Pool::builder().workers(args.workers).types(["any"]).build();
    let pool = pool.map_err(|error| Fault::new(format!("--workers: {error}")).code(FAILED))?;
    let any = pool.kind("any").ok_or_else(|| Fault::new("the pool lost its type").code(FAILED))?;
    Ok(Handler::pooled(
        pool,
        move |_| any,
        move |question| {
            wait(service);
            answer(question)
        },
    ))
}

/// How often a server looks whether somebody tries in vain.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What was said of clients that this server cannot answer, each once: they hear nothing, so
/// whoever runs the server must.
#[derive(Default)]
struct Said {
    port: bool,
    key: bool,
    format: bool,
}

impl Said {
    fn look(&mut self, counters: &Counters, port: u16, sealed: bool) {
        let once = |said: &mut bool, is: bool, what: &str| {
            if is && !std::mem::replace(said, true) {
                terminal::talk(what);
            }
        };
        once(
            &mut self.port,
            counters.wrong_port > 0,
            &format!(
                "packets come for another port than {port}: does a client name another --port?"
            ),
        );
        once(
            &mut self.key,
            counters.unauthentic > 0,
            "packets come that are not sealed with this key: another --key-file, or none?",
        );
        let malformed = counters.malformed.iter().sum::<u64>() > 0;
        let format = match sealed {
            true => "packets come that are not of this format",
            false => "packets come that are not Homa's: sealed, by a client's --key-file?",
        };
        once(&mut self.format, malformed, format);
    }
}

fn wait(service: Span) {
    std::thread::sleep(Duration::from_nanos(service.as_ns()));
}

fn say(args: &Serve, counters: &Counters) -> Result<(), Fault> {
    let dropped = counters.malformed.iter().sum::<u64>()
        + counters.machine.malformed
        + counters.wrong_port
        + counters.too_long
        + counters.peers_full
        + counters.unauthentic
        + counters.replayed;
    let ended = Ended {
        questions: counters.questions,
        refused: counters.refused,
        answers_failed: counters.answers_failed,
        packets_received: counters.packets_received,
        packets_sent: counters.packets_sent,
        dropped,
        unauthentic: counters.unauthentic,
        replayed: counters.replayed,
        exchanges_left: counters.exchanges,
        messages_left: counters.messages,
    };
    if args.json {
        let text = serde_json::to_string(&ended);
        let text = text.map_err(|error| Fault::new(format!("cannot write JSON: {error}")))?;
        return terminal::print(&format!("{text}\n"));
    }
    terminal::print(&format!(
        "{} questions, {} refused, {} answers not taken; packets: {} in, {} out, {} dropped\n",
        ended.questions,
        ended.refused,
        ended.answers_failed,
        ended.packets_received,
        ended.packets_sent,
        ended.dropped,
    ))
}
