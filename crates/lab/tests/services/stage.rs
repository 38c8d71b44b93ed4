//! What the tests of the world of services share: networks in a line, and what a run of one came
//! to.

use cavy_core::{Instant, Span};
use cavy_lab::pending::Heap4;
use cavy_lab::services::{
    Alone, Arriving, Call, Clients, Done, Law, Network, Observer, Outcome, Service, Setup, Step,
    run,
};
use core::ops::ControlFlow;

pub fn us(us: u64) -> Law {
    Law::Constant { ns: us * 1_000 }
}

pub fn exponential(us: u64) -> Law {
    Law::Exponential { mean_ns: us as f64 * 1e3 }
}

pub fn closed(population: u32, think: Option<Law>) -> Clients {
    Clients {
        arriving: Arriving::Closed { population, think },
        mix: vec![Call::once(0)],
        capacity: None,
        virtual_time: false,
    }
}

pub fn open(gap: Law) -> Clients {
    Clients { arriving: Arriving::Open { gap }, ..closed(1, None) }
}

/// Services in a line: each computes and then calls the next.
pub fn line(times: &[(Law, u16)], clients: Clients) -> Network {
    let services = times.iter().enumerate().map(|(index, (work, cores))| {
        let mut steps = vec![Step::Cpu(work.clone())];
        if index + 1 < times.len() {
            steps.push(Step::Call(Call::once(index + 1)));
        }
        Service::new(*cores, steps)
    });
    Network { hosts: Vec::new(), services: services.collect(), clients: vec![clients], hop: None }
}

/// What was done, from a time on.
#[derive(Default)]
pub struct Log {
    pub from: Instant,
    pub done: Vec<Done>,
    pub enough: usize,
}

impl<F> Observer<F> for Log {
    fn done(&mut self, done: &Done) -> ControlFlow<()> {
        if done.at >= self.from {
            self.done.push(*done);
        }
        let enough = self.enough > 0 && self.done.len() >= self.enough;
        if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Runs `network` alone for `seconds`, and logs from `from` of it on.
pub fn alone(network: &Network, seed: u64, seconds: f64, from: f64) -> (Outcome, Log) {
    let until = Instant::from_ns((seconds * 1e9) as u64);
    let mut log = Log { from: Instant::from_ns((from * 1e9) as u64), ..Log::default() };
    let setup = Setup::new(network, seed, until);
    let outcome = run::<Alone, _, _>(&setup, &mut [], &mut Heap4::new(), &mut log);
    (outcome.expect("a legal network"), log)
}

/// Requests a second from `from` to `seconds`.
pub fn throughput(network: &Network, seed: u64, seconds: f64, from: f64) -> f64 {
    let (_, log) = alone(network, seed, seconds, from);
    log.done.iter().filter(|done| !done.failed).count() as f64 / (seconds - from)
}

pub fn mean_latency_us(log: &Log) -> f64 {
    let sum: Span = log.done.iter().fold(Span::ZERO, |sum, done| sum + done.latency);
    sum.as_us() / log.done.len() as f64
}

#[track_caller]
pub fn close(found: f64, expected: f64, relative: f64) {
    let off = found / expected - 1.0;
    assert!(off.abs() <= relative, "{found} against {expected}: off by {:.3} %", off * 100.0);
}
