//! Closed clients: each sends a request, waits for the answer, thinks, and sends the next.
//!
//! Request number n of a client has the same type, the same service time and the same time of
//! thinking before it whatever the policy does; when it is sent is what the policy decides.

use cavy_core::family::cpu::Req;
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_workload::source::{Request, Source};
use cavy_workload::{Mix, Sampler, Service};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::mpsc::Sender;

/// A population of clients.
#[derive(Clone, PartialEq, Debug)]
pub struct Closed {
    /// How many clients there are, at least 1.
    pub population: u32,
    /// How long a client thinks between an answer and its next request; `None` for not at all.
    pub think: Option<Service>,
    /// What they ask for.
    pub mix: Mix,
    /// How long an answer and the next request are on the way together.
    pub round_trip: Span,
}

impl Closed {
    /// The clients under `seed`. Each begins somewhere in its first time of thinking, so that
    /// clients that think equally long do not come all at once.
    pub fn start(&self, seed: u64) -> Clients {
        let what = What {
            think: self.think.as_ref().map(Service::sampler),
            samplers: self.mix.types().iter().map(|one| one.service.sampler()).collect(),
            mix: self.mix.clone(),
        };
        let start = |number| {
            let stream = |purpose| Stream::keyed(seed, number, purpose);
            let (mut kinds, mut services) = (stream(Purpose::Kinds), stream(Purpose::Services));
            let mut thinks = stream(Purpose::Arrivals);
            let part = thinks.unit();
            let first_ns = what.think(&mut thinks).as_ns() as f64 * part;
            let next = what.draw(&mut kinds, &mut services, Instant::from_ns(first_ns as u64));
            Client { thinks, kinds, services, next }
        };
        let all: Vec<Client> = (0..self.population).map(start).collect();
        let due = all.iter().zip(0..).map(|(client, number)| Reverse((client.next.at, number)));
        Clients {
            due: due.collect(),
            all,
            what,
            round_trip: self.round_trip,
            of: Vec::new(),
            told: None,
        }
    }
}

#[derive(Clone, Debug)]
struct Client {
    thinks: Stream,
    kinds: Stream,
    services: Stream,
    /// What it sends next, or has sent.
    next: Request,
}

/// What a client draws.
#[derive(Clone, Debug)]
struct What {
    think: Option<Sampler>,
    mix: Mix,
    samplers: Vec<Sampler>,
}

impl What {
    fn think(&self, thinks: &mut Stream) -> Span {
        self.think.as_ref().map_or(Span::ZERO, |think| think.at(thinks.bits()))
    }

    fn draw(&self, kinds: &mut Stream, services: &mut Stream, at: Instant) -> Request {
        let kind = self.mix.draw_kind(kinds);
        let service = self.samplers[usize::from(kind)].at(services.bits());
        Request { at, kind, label: kind, service }
    }
}

/// [`Closed`] as it runs.
#[derive(Clone, Debug)]
pub struct Clients {
    what: What,
    round_trip: Span,
    all: Vec<Client>,
    /// Clients that think, by when they send.
    due: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Which client each request in the system is of.
    of: Vec<u32>,
    told: Option<Sender<Span>>,
}

impl Clients {
    /// The same clients, which tell `to` the service time of each request as it arrives: for
    /// policies that know how much work a request is.
    pub fn telling(mut self, to: Sender<Span>) -> Clients {
        self.told = Some(to);
        self
    }

    /// The request that comes next as things stand.
    fn peek(&self) -> Option<Request> {
        let Reverse((_, number)) = self.due.peek()?;
        Some(self.all[*number as usize].next)
    }

    /// That request has come, and is called `req`.
    fn came(&mut self, req: Req) {
        let Some(Reverse((_, number))) = self.due.pop() else { return };
        let index = req.0 as usize;
        if self.of.len() <= index {
            self.of.resize(index + 1, 0);
        }
        self.of[index] = number;
        if let Some(told) = &self.told {
            // Nobody listens to the end of a run.
            let _ = told.send(self.all[number as usize].next.service);
        }
    }

    /// `req` was answered, or refused.
    fn answered(&mut self, req: Req, now: Instant) {
        let number = self.of[req.0 as usize];
        let Client { thinks, kinds, services, next } = &mut self.all[number as usize];
        let at = now + self.round_trip + self.what.think(thinks);
        *next = self.what.draw(kinds, services, at);
        self.due.push(Reverse((at, number)));
    }
}

/// Where requests come from.
#[derive(Clone, Debug)]
// One exists per run: the larger variant wastes nothing, and a box would cost each request.
#[allow(clippy::large_enum_variant)]
pub enum Requests {
    /// They come whatever becomes of earlier ones.
    Open(Source),
    /// Clients wait for their answers.
    Closed(Clients),
}

impl From<Source> for Requests {
    fn from(source: Source) -> Requests {
        Requests::Open(source)
    }
}

impl From<Clients> for Requests {
    fn from(clients: Clients) -> Requests {
        Requests::Closed(clients)
    }
}

impl Requests {
    /// The request that comes next. Of an open source each is asked for once; closed clients say
    /// the same until it came or another one is sooner.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Request> {
        match self {
            Requests::Open(source) => source.next(),
            Requests::Closed(clients) => clients.peek(),
        }
    }

    /// The request that was to come next has come, and is called `req`.
    #[inline]
    pub(super) fn came(&mut self, req: Req) {
        if let Requests::Closed(clients) = self {
            clients.came(req);
        }
    }

    /// `req` is over. Does that bring another request?
    #[inline]
    pub(super) fn over(&mut self, req: Req, now: Instant) -> bool {
        match self {
            Requests::Open(_) => false,
            Requests::Closed(clients) => {
                clients.answered(req, now);
                true
            }
        }
    }

    /// Is more to come when nothing is on its way?
    #[inline]
    pub(super) fn waits(&self) -> bool {
        matches!(self, Requests::Closed(_))
    }
}
