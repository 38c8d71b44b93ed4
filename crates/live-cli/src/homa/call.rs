//! Asking once.

use super::typed::Call;
use super::way::{any_for, opened, say_recording};
use crate::faults::{FAILED, Fault};
use crate::terminal;
use cavy_live::homa::{CallError, Client, Peer};
use cavy_live::load::clock;
use std::io::{ErrorKind, Read, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Longest message, in bytes.
pub const MESSAGE_MAX_BYTES: u64 = 1_000_000;

/// Runs the command.
pub fn call(args: &Call) -> Result<ExitCode, Fault> {
    let question = match &args.file {
        Some(file) => read(file)?,
        None => vec![b'q'; args.bytes as usize],
    };
    let (to, question_bytes) = (args.way.peer(args.address), question.len());
    let mut options = args.way.options(any_for(args.address))?;
    options.record = args.record.clone();
    let client = opened(Client::bind(&options))?;
    let deadline = Duration::from_nanos(args.deadline.as_ns());
    let start = clock::now();
    let answer = client.call_within(to, question, deadline);
    let took = clock::now().since(start);
    // The answer is acknowledged, and a recording is completed.
    client.shutdown(Duration::from_secs(1));
    let code = if say_recording(&client) { ExitCode::SUCCESS } else { ExitCode::from(FAILED) };
    let answer = answer.map_err(|error| wrong(error, to))?;
    if args.json {
        terminal::print_json(&serde_json::json!({
            "to": to.at.to_string(),
            "port": to.port,
            "question_bytes": question_bytes,
            "answer_bytes": answer.len(),
            "took_us": took.as_us(),
        }))?;
        return Ok(code);
    }
    let mut out = std::io::stdout().lock();
    match out.write_all(&answer).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Fault::new(format!("cannot write to stdout: {error}")).code(FAILED))
        }
        _ => Ok(code),
    }
}

/// What is in a file or comes from stdin, if that is a message.
fn read(file: &Path) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let read = match file == Path::new("-") {
        true => std::io::stdin().lock().take(MESSAGE_MAX_BYTES + 1).read_to_end(&mut bytes),
        false => std::fs::File::open(file)
            .and_then(|file| file.take(MESSAGE_MAX_BYTES + 1).read_to_end(&mut bytes)),
    };
    let name = file.display();
    read.map_err(|error| Fault::new(format!("cannot read --file {name}: {error}")))?;
    let hint = "a message has 1 to 1000000 bytes";
    match bytes.len() as u64 {
        0 => Err(Fault::new(format!("--file {name} is empty")).hint(hint)),
        1..=MESSAGE_MAX_BYTES => Ok(bytes),
        _ => {
            Err(Fault::new(format!("--file {name} has more than {MESSAGE_MAX_BYTES} bytes"))
                .hint(hint))
        }
    }
}

/// Why there is no answer, and what may help.
pub fn wrong(error: CallError, to: Peer) -> Fault {
    let fault = Fault::new(format!("{} port {}: {error}", to.at, to.port)).code(FAILED);
    match error {
        CallError::Silent => fault
            .hint("is `cavy-live homa serve` running there, with the same carrier and --port?")
            .hint("with --key-file, has it the same key? It says which packets it cannot use"),
        CallError::Overloaded => {
            fault.hint("ask less often, or look at the server's --workers and --queue-limit")
        }
        CallError::Unreachable => {
            fault.hint("is `cavy-live homa serve` running there, with the same carrier?")
        }
        CallError::Deadline => fault.hint("raise --deadline, or look what keeps the server busy"),
        _ => fault,
    }
}
