//! Where requests come from: clients of this program, or a foreign generator.

use crate::clients::{Clients, Sample};
use crate::edge::Edge;
use crate::parts;
use cavy_core::Instant;

/// Where requests come from.
#[derive(Debug)]
pub enum Source {
    /// Clients inside this program.
    Clients(Clients),
    /// A generator, the last service on the stage, whose requests are counted where they come in.
    Driver(Edge),
}

impl From<Clients> for Source {
    fn from(clients: Clients) -> Source {
        Source::Clients(clients)
    }
}

impl From<Edge> for Source {
    fn from(edge: Edge) -> Source {
        Source::Driver(edge)
    }
}

impl Source {
    /// Requests since it was last asked. Nothing where the kernel does not tell of connections any
    /// more: windows without requests are in doubt.
    pub(crate) fn take(&mut self) -> u32 {
        match self {
            Source::Clients(clients) => clients.gate().take_completed(),
            Source::Driver(edge) => edge.take().unwrap_or(0),
        }
    }

    /// Requests until now, of those that are counted for ever.
    pub(crate) fn total(&self) -> u64 {
        match self {
            Source::Clients(_) => 0,
            Source::Driver(edge) => edge.total(),
        }
    }

    /// Where requests of a foreign generator come in.
    pub(crate) fn edge(&mut self) -> Option<&mut Edge> {
        match self {
            Source::Clients(_) => None,
            Source::Driver(edge) => Some(edge),
        }
    }

    /// Requests that failed until now, and what the first of them said. A foreign generator keeps
    /// to itself what failed.
    pub(crate) fn failed(&self) -> (u64, Option<String>) {
        match self {
            Source::Clients(clients) => clients.failed(),
            Source::Driver(_) => (0, None),
        }
    }

    /// Answers since the last call, where they are known one by one.
    pub(crate) fn take_samples(&self) -> Vec<Sample> {
        match self {
            Source::Clients(clients) => clients.take_samples(),
            Source::Driver(_) => Vec::new(),
        }
    }

    /// Do requests arrive whatever became of those before? Nobody knows of a foreign generator; its
    /// throughput shows it.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Source::Clients(clients) if clients.are_open())
    }

    /// Answers between two times, by `samples`; those at its ends by parts where every client has a
    /// request under way at all times, `counted` else.
    pub(crate) fn answers(
        &self,
        samples: &[Sample],
        from: Instant,
        to: Instant,
        counted: u64,
    ) -> f64 {
        match self {
            Source::Clients(clients) if clients.are_never_idle() => {
                parts::answers(samples, from, to)
            }
            _ => counted as f64,
        }
    }
}
