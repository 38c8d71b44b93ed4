//! Short requests beside long ones on 14 threads, first come first served and under DARC, with the
//! same arrivals: the program of docs/guides/protect-short-requests.md.
//!
//! `cargo run --release -p cavy-live --example protect_short_requests`: 40 seconds.

use cavy_live::load::{Options, Outcome, Schedule, Target, Ticket, run};
use cavy_live::{Kind, Policy, Pool, Shutdown, darc};
use cavy_workload::{Arrivals, Mix, Phase, Service, Type, Workload};
use std::error::Error;
use std::time::Duration;

const LOOKUP: Duration = Duration::from_millis(1);
const REPORT: Duration = Duration::from_millis(100);

fn main() -> Result<(), Box<dyn Error>> {
    let schedule = arrivals()?;
    for (name, policy) in [("first come first served", Policy::CentralFcfs), ("DARC", hinted())] {
        let pool = Pool::builder()
            .workers(14)
            .types(["lookup", "report"])
            .hint("lookup", LOOKUP, 0.5)
            .hint("report", REPORT, 0.5)
            .policy(policy)
            .build()?;
        let driven = Driven { pool: pool.clone() };
        // Lateness of the generator is reported, and here only looked at.
        let options = Options { force: true, ..Options::default() };
        let report = run(&schedule, vec![Box::new(driven)], &options)?;
        pool.shutdown(Shutdown::Drain);
        println!("{name}");
        for (kind, account) in report.types.iter().zip(&report.accounts) {
            let ms = |ratio| account.response.value_at_quantile(ratio) as f64 / 1e6;
            println!(
                "  {:6}  {:5} answered  p50 {:7.2} ms  p95 {:7.2} ms",
                kind.name,
                kind.answered,
                ms(0.5),
                ms(0.95)
            );
        }
    }
    Ok(())
}

/// DARC that starts from the hints instead of profiling first.
fn hinted() -> Policy {
    match darc() {
        Policy::Darc { config, .. } => Policy::Darc { config, hinted: true },
        other => other,
    }
}

/// 20 seconds of Poisson arrivals, half of them long: 90 % of what 14 threads can do.
fn arrivals() -> Result<Schedule, Box<dyn Error>> {
    let of = |service: Duration| Type {
        share: 0.5,
        service: Service::Constant { ns: service.as_nanos() as u64 },
    };
    let mix = Mix::new(vec![of(LOOKUP), of(REPORT)])?;
    let rate_per_s = 0.9 * mix.peak_rate_per_s(14);
    let phase = Phase { mix, arrivals: Arrivals::Poisson, rate_per_s, duration: None };
    let workload = Workload::new(vec![phase], 0.0)?;
    let names = ["lookup", "report"].map(String::from).to_vec();
    let length = cavy_core::Span::from_ms(20_000);
    Ok(Schedule::draw(&workload, 1, length, names, true, "High Bimodal, a thousand times slower")?)
}

/// The pool as the generator's target.
struct Driven {
    pool: Pool,
}

impl Target for Driven {
    fn submit(&mut self, ticket: Ticket) {
        let kind = Kind(ticket.kind() + 1);
        drop(self.pool.submit(kind, move || {
            // In a service, the lookup or the report itself.
            std::thread::sleep(Duration::from_nanos(ticket.service().as_ns()));
            ticket.finish(Outcome::Answered);
        }));
    }
}
