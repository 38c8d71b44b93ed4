//! `cavy-live load homa://...`: calls as the requests of a schedule.

use super::call::MESSAGE_MAX_BYTES;
use super::typed::Way;
use super::way::{any_for, opened};
use crate::faults::Fault;
use bytes::Bytes;
use cavy_core::Span;
use cavy_live::homa::{CallError, Client, Peer};
use cavy_live::load::{Outcome, Target, Ticket, clock};
use std::net::SocketAddr;
use std::time::Duration;

/// Sends each request as a call, with as many bytes as its type says.
pub struct Calls {
    client: Client,
    to: Peer,
    questions: Vec<Bytes>,
    timeout: Duration,
}

/// Questions of the types of a schedule, from what was typed for each: a number of bytes.
pub fn questions(texts: &[String]) -> Result<Vec<Bytes>, Fault> {
    let question = |text: &String| {
        let bytes =
            text.trim().parse().ok().filter(|bytes| (1..=MESSAGE_MAX_BYTES).contains(bytes));
        let bytes: u64 = bytes.ok_or_else(|| {
            Fault::new(format!(
                "--type: `{text}` is not a number of bytes, 1 to {MESSAGE_MAX_BYTES}"
            ))
            .hint("a request of Homa is written as its size, such as --type small=100")
        })?;
        Ok(Bytes::from(vec![b'q'; bytes as usize]))
    };
    texts.iter().map(question).collect()
}

/// Targets for `senders`, each with an endpoint of its own.
pub fn targets(
    address: SocketAddr,
    way: &Way,
    questions: &[Bytes],
    timeout: Span,
    senders: u16,
) -> Result<Vec<Box<dyn Target>>, Fault> {
    let options = way.options(any_for(address))?;
    let target = |_| {
        let calls = Calls {
            client: opened(Client::bind(&options))?,
            to: way.peer(address),
            questions: questions.to_vec(),
            timeout: Duration::from_nanos(timeout.as_ns()),
        };
        Ok(Box::new(calls) as Box<dyn Target>)
    };
    (0..senders).map(target).collect()
}

impl Target for Calls {
    fn submit(&mut self, ticket: Ticket) {
        let question = self.questions.get(usize::from(ticket.kind())).cloned().unwrap_or_default();
        self.client.begin_then(self.to, question, Some(self.timeout), move |answer| {
            let error = match answer {
                Ok(_) => return ticket.finish(Outcome::Answered),
                Err(error) => error,
            };
            let outcome = match error {
                CallError::Full | CallError::Overloaded => Outcome::Overloaded,
                CallError::Silent | CallError::Unreachable => Outcome::ConnectionError,
                CallError::Deadline => Outcome::TimedOut,
                _ => Outcome::ServerError,
            };
            ticket.fail_at(clock::now(), outcome, &error.to_string());
        });
    }
}
