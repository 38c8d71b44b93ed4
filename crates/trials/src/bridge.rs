//! The bridge between a live run and the lab: the same decisions, and what the lab would have
//! predicted `[persephone 7.7]`. It takes any policy that recordings of pools name.

use cavy_core::family::cpu::{Effect, Input};
use cavy_core::{Instant, Out, Span};
use cavy_lab::cpu::{self, Cores, Costs, Done, Observer, Setup};
use cavy_lab::pending::Heap4;
use cavy_live::load::ledger::{Times, record, times};
use cavy_live::load::report::quantile_ns;
use cavy_live::record::ReplayError;
use cavy_live::record::pool::{Header, Reader, Replayed, replay_watched};
use cavy_workload::source::{Request, Source};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Percentiles that are compared.
pub const RATIOS: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// A recording, decided again.
pub struct Bridge {
    /// How its machine was built.
    pub header: Header,
    /// Inputs and digests.
    pub replayed: Replayed,
    /// Requests that arrived.
    pub arrivals: u64,
    /// The lab's prediction by type; the reason when there is none.
    pub prediction: Result<Vec<Compared>, String>,
}

/// One type, measured and predicted, from arrival at the pool to the end.
pub struct Compared {
    /// Its name.
    pub name: String,
    /// The live run, as the pool saw it.
    pub measured: Times,
    /// The lab with the service times that workers measured.
    pub predicted: Times,
    /// The lab with the time from hand-over to notice of completion in their place: what waking a
    /// thread costs is then part of the service.
    pub predicted_held: Times,
    /// Requests dropped live.
    pub dropped: u64,
    /// Requests dropped in the lab.
    pub dropped_predicted: u64,
}

/// One percentile of one type; latencies in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Measured.
    pub measured_us: f64,
    /// Predicted from service times.
    pub predicted_us: f64,
    /// Predicted from occupancy.
    pub held_us: f64,
}

impl Pair {
    /// How far the prediction is off, as a part of the measured value.
    pub fn error(&self) -> f64 {
        self.predicted_us / self.measured_us - 1.0
    }

    /// The same for the prediction from occupancy.
    pub fn held_error(&self) -> f64 {
        self.held_us / self.measured_us - 1.0
    }
}

impl Compared {
    /// The percentile at `ratio`; `None` with fewer than 100 samples beyond it.
    pub fn at(&self, ratio: f64) -> Option<Pair> {
        let us = |times| quantile_ns(times, 0, ratio).map(|ns| ns / 1e3);
        Some(Pair {
            measured_us: us(&self.measured)?,
            predicted_us: us(&self.predicted)?,
            held_us: us(&self.predicted_held)?,
        })
    }
}

/// A request of the recording.
struct Job {
    at: Instant,
    /// From 1; 0 is what no type was known for.
    kind: u16,
    started: Option<Instant>,
    ended: Option<Instant>,
    service: Option<Span>,
    dropped: bool,
    /// Nobody waited for it any more when its turn came.
    skipped: bool,
}

impl Job {
    fn held(&self) -> Option<Span> {
        Some(self.ended?.since(self.started?))
    }
}

/// What a replay shows of the run.
#[derive(Default)]
struct Story {
    jobs: Vec<Job>,
    /// Requests in the system, whose numbers are used again when they left.
    open: BTreeMap<u32, usize>,
    resized: bool,
}

impl Story {
    fn tell<T>(&mut self, at: Instant, input: Input, outs: &[Out<Effect, T>]) {
        match input {
            Input::Arrive { req, kind } => {
                self.open.insert(req.0, self.jobs.len());
                let kind = kind.0;
                let (started, ended, service) = (None, None, None);
                self.jobs.push(Job {
                    at,
                    kind,
                    started,
                    ended,
                    service,
                    dropped: false,
                    skipped: false,
                });
            }
            Input::Finished { req, service, .. } => {
                if let Some(index) = self.open.remove(&req.0) {
                    let job = &mut self.jobs[index];
                    (job.ended, job.service) = (Some(at), service);
                }
            }
            Input::Skipped { req, .. } => {
                if let Some(index) = self.open.remove(&req.0) {
                    self.jobs[index].skipped = true;
                }
            }
            Input::Resize { .. } => self.resized = true,
            Input::Yielded { .. } => {}
        }
        for out in outs {
            match *out {
                Out::Effect(Effect::Run { req, .. }) => {
                    if let Some(&index) = self.open.get(&req.0) {
                        self.jobs[index].started = Some(at);
                    }
                }
                Out::Effect(Effect::Drop { req, .. }) => {
                    if let Some(index) = self.open.remove(&req.0) {
                        self.jobs[index].dropped = true;
                    }
                }
                _ => {}
            }
        }
    }

    /// The requests as a trace for the lab, without those that were skipped. Those that never ran
    /// get the mean of their type.
    fn trace(&self, types: usize, span: impl Fn(&Job) -> Option<Span>) -> Arc<[Request]> {
        let mut sums = vec![(0u64, 0u64); types + 1];
        for job in &self.jobs {
            if let Some(span) = span(job) {
                let (sum, count) = &mut sums[usize::from(job.kind)];
                *sum = sum.saturating_add(span.as_ns());
                *count += 1;
            }
        }
        let request = |job: &Job| {
            let (sum, count) = sums[usize::from(job.kind)];
            let service = span(job).unwrap_or(Span::from_ns(sum / count.max(1)));
            let kind = job.kind - 1;
            Request { at: job.at, kind, label: kind, service: service.max(Span::from_ns(1)) }
        };
        self.jobs.iter().filter(|job| !job.skipped).map(request).collect()
    }
}

/// Replays the recording in `file` and predicts it.
pub fn examine(file: &Path) -> Result<Bridge, ReplayError> {
    let mut reader = Reader::open(file)?;
    let header = reader.header().clone();
    let mut story = Story::default();
    let replayed = replay_watched(&mut reader, &mut |at, input, outs| story.tell(at, input, outs))?;
    let prediction = predict(&header, &story);
    Ok(Bridge { header, replayed, arrivals: story.jobs.len() as u64, prediction })
}

fn predict(header: &Header, story: &Story) -> Result<Vec<Compared>, String> {
    let types = header.types.len();
    if story.resized {
        return Err("the number of workers changed during the run".to_string());
    }
    if story.jobs.iter().any(|job| job.kind == 0 || usize::from(job.kind) > types) {
        return Err("some requests have no type that the recording names".to_string());
    }
    let by_service = simulate(header, story.trace(types, |job| job.service))?;
    let by_hold = simulate(header, story.trace(types, Job::held))?;
    let mut all: Vec<Compared> = Vec::with_capacity(types);
    let predictions = by_service.types.into_iter().zip(by_hold.types);
    for (name, (service, hold)) in header.types.iter().zip(predictions) {
        all.push(Compared {
            name: name.clone(),
            measured: times(),
            predicted: service.0,
            predicted_held: hold.0,
            dropped: 0,
            dropped_predicted: service.1,
        });
    }
    for job in &story.jobs {
        let of = &mut all[usize::from(job.kind - 1)];
        of.dropped += u64::from(job.dropped);
        if let Some(ended) = job.ended {
            record(&mut of.measured, ended.since(job.at));
        }
    }
    Ok(all)
}

/// Latencies and drops by type, in the lab.
pub struct Watched {
    /// By type: latencies, drops.
    pub types: Vec<(Times, u64)>,
    /// Requests before this one are not counted.
    pub first: u64,
}

impl<M: ?Sized> Observer<M> for Watched {
    fn finished(&mut self, done: &Done) {
        if done.number >= self.first {
            record(&mut self.types[usize::from(done.kind)].0, done.latency);
        }
    }

    fn dropped(&mut self, number: u64, kind: u16, _at: Instant) {
        if number >= self.first {
            self.types[usize::from(kind)].1 += 1;
        }
    }
}

fn simulate(header: &Header, requests: Arc<[Request]>) -> Result<Watched, String> {
    cavy_workload::check_trace(&requests).map_err(|error| error.to_string())?;
    in_the_lab(header, requests, 0)
}

/// Runs the machine that `header` describes on `requests` in the ideal lab, whose scheduling costs
/// nothing; requests before number `first` are not counted.
pub fn in_the_lab(
    header: &Header,
    requests: Arc<[Request]>,
    first: u64,
) -> Result<Watched, String> {
    let mut machine =
        cavy_sched::build(&header.policy, header.workers, &header.hints, header.queue_limit)
            .map_err(|error| error.to_string())?;
    let setup = Setup {
        workers: header.workers,
        cores: Cores::Own,
        costs: Costs::default(),
        seed: header.seed,
        shuffle_ties: None,
        requests: requests.len() as u64,
        check: false,
    };
    let mut pending = Heap4::with_capacity(usize::from(header.workers));
    let types = header.types.iter().map(|_| (times(), 0)).collect();
    let mut watched = Watched { types, first };
    cpu::run(&setup, &mut machine, Source::recorded(requests), &mut pending, &mut watched);
    Ok(watched)
}
