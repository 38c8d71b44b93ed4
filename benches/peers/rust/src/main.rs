//! M/G/14 in DSLab's simcore: service 1 or 100 us, Poisson arrivals, load 0.8, first come first
//! served. One component, as in the crate's own example with callbacks.

use serde::Serialize;
use simcore::{Event, EventHandler, Simulation, SimulationContext, cast};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

const WORKERS: u32 = 14;
const LOAD: f64 = 0.8;
const REQUESTS: u64 = 1_000_000;

#[derive(Clone, Serialize)]
struct Arrival {}

#[derive(Clone, Serialize)]
struct Completion {
    arrived: f64,
}

struct Pool {
    ctx: SimulationContext,
    idle: u32,
    queue: VecDeque<f64>,
    left: u64,
    completed: u64,
    total: f64,
}

impl Pool {
    fn await_arrival(&mut self) {
        let rate = f64::from(WORKERS) * LOAD / 50.5;
        self.left -= 1;
        let gap = -(1.0 - self.ctx.rand()).ln() / rate;
        self.ctx.emit_self(Arrival {}, gap);
    }

    fn serve(&mut self, arrived: f64) {
        let service = if self.ctx.rand() < 0.5 { 1.0 } else { 100.0 };
        self.ctx.emit_self(Completion { arrived }, service);
    }
}

impl EventHandler for Pool {
    fn on(&mut self, event: Event) {
        cast!(match event.data {
            Arrival {} => {
                if self.left > 0 {
                    self.await_arrival();
                }
                if self.idle > 0 {
                    self.idle -= 1;
                    self.serve(event.time);
                } else {
                    self.queue.push_back(event.time);
                }
            }
            Completion { arrived } => {
                self.total += event.time - arrived;
                self.completed += 1;
                match self.queue.pop_front() {
                    Some(waiting) => self.serve(waiting),
                    None => self.idle += 1,
                }
            }
        })
    }
}

fn main() {
    let start = cpu_time::ProcessTime::now();
    let mut sim = Simulation::new(1);
    let ctx = sim.create_context("pool");
    let queue = VecDeque::new();
    let pool = Pool { ctx, idle: WORKERS, queue, left: REQUESTS, completed: 0, total: 0.0 };
    let pool = Rc::new(RefCell::new(pool));
    sim.add_handler("pool", pool.clone());
    pool.borrow_mut().await_arrival();
    sim.step_until_no_events();
    let spent = start.elapsed().as_nanos() as f64;
    let pool = pool.borrow();
    assert_eq!(pool.completed, REQUESTS);
    let (ns, mean) = (spent / REQUESTS as f64, pool.total / REQUESTS as f64);
    println!("simcore 0.1, callbacks\t{ns:.0}\t{mean:.2}");
}
