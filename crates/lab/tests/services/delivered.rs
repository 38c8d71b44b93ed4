//! How right delivered mode is over random graphs whose services share the cores of one host, and
//! beside clock mode where each has cores of its own ([slowpoke 0, 4.3]).
//!
//! Messages go on while services stand (A2), so they must not take as long as pauses do: within a
//! host they take 20 us, and between hosts there are so many clients that nobody waits for them.
//! With the times that the rule draws for messages between hosts, 50 to 500 us, 13 of 236 graphs on
//! one host erred by more than 3 %, at worst by 14; five of these with 16 or 64 clients were run
//! with 20 us as well, and erred by 0.0 to 0.9 %. All times are constant, so clients go round
//! together: where 1,024 answers come at once, a window of 10,000 holds ten such waves and is off
//! by up to 5 %, whatever the method. So there are at most 256 clients.
//!
//! Few cases run here. For the numbers of the notebook:
//! `CAVY_CASES=300 cargo test -p cavy-lab --test services delivered -- --nocapture`.

use super::accuracy::{Case, MEASURED, cases, governed, measured_per_s, piece, settled, summary};
use cavy_core::{Purpose, Span, Stream};
use cavy_lab::services::{Discipline, Host, Law, Place};
use cavy_whatif::governor::Doubts;
use cavy_whatif::{Change, Limits, Reading, Windows};

/// More clients than this answer in waves that a window does not hold enough of.
const CLIENTS_MAX: u32 = 256;
/// A message within a host, nanoseconds.
const WITHIN_NS: u64 = 20_000;

/// The same graph with all services on one host; the target may have a single thread.
fn on_one_host(case: &mut Case, cores: u16, target: usize, single: bool) {
    case.network.hosts.push(Host { cores, discipline: Discipline::Sharing });
    case.network.hop = Some(Law::Constant { ns: WITHIN_NS });
    for service in &mut case.network.services {
        service.place = Place::On(0);
    }
    if single {
        let target = &mut case.network.services[target];
        (target.threads, target.keeps_thread) = (Some(1), false);
    }
}

/// What pauses of at most half a millisecond say.
fn delivered(case: &Case, seed: u64, target: usize, share: f64, now: f64) -> Reading {
    let limits = Limits {
        pause_min: Span::from_us(200),
        pause_max: Span::from_us(500),
        tick: Span::from_us(100),
        ..Limits::default()
    };
    let of = |requests: u64| Span::from_ns((requests as f64 / now * 1e9) as u64);
    let (settle, length) = (of(settled(case.population)), of(MEASURED));
    let windows = Windows { settle, length, pattern: vec![true] };
    let change = Change::Delivered { share, parallel: 1 };
    governed(&case.network, seed, target, change, limits, windows)[0]
}

#[test]
fn what_was_delivered_is_right_on_shared_cores() {
    let wanted = cases(6);
    let piece = piece();
    let (mut seed, mut beyond, mut singles, mut idle) =
        (piece.map_or(0, |(from, _)| from - 1), 0, 0, 0);
    let mut errors = Vec::new();
    while piece.map_or(errors.len() < wanted, |(_, to)| seed < to) {
        seed += 1;
        let mut draws = Stream::keyed(seed, 43, Purpose::Test);
        let mut case = Case::draw(&mut draws, 6);
        if case.population > CLIENTS_MAX {
            continue;
        }
        let cores = 2 + draws.below(7) as u16;
        let target = draws.below(case.works_ns.len() as u64) as usize;
        let share = 0.25 * (1 + draws.below(3)) as f64;
        let single = draws.below(4) == 0;
        on_one_host(&mut case, cores, target, single);
        let now = measured_per_s(&case.network, seed, case.population);
        let truth = measured_per_s(&case.faster(target, share), seed, case.population);
        let reading = delivered(&case, seed, target, share, now);
        let error = (reading.predicted_per_s() / truth - 1.0) * 100.0;
        if piece.is_some() || wanted >= 100 || error.abs() > 3.0 {
            println!(
                "case {seed} {error:+.3} % at a true gain of {:.1} %: {} services, {cores} cores, \
                 {} clients, {share} of service {target}, single {single}, doubts {}",
                (truth / now - 1.0) * 100.0,
                case.works_ns.len(),
                case.population,
                reading.doubts
            );
        }
        // Where the greatest duty does not let pauses pay, the Governor says that it cannot tell.
        if reading.doubts & !Doubts::IDLE != 0 {
            beyond += 1;
            continue;
        }
        singles += u32::from(single);
        idle += u32::from(reading.doubts & Doubts::IDLE != 0);
        errors.push(error.abs());
    }
    println!("{seed} seeds, {beyond} beyond duty; {singles} with one thread, {idle} part idle");
    let (mean, _, worst) = summary("delivered on shared cores", &mut errors);
    assert!(mean <= 1.0, "{mean} %");
    assert!(worst <= 3.0, "{worst} %");
}

#[test]
fn what_was_delivered_is_as_right_as_the_clock_on_cores_of_ones_own() {
    let wanted = cases(4).min(100);
    let (mut seed, mut errors) = (0, [const { Vec::new() }; 2]);
    while errors[0].len() < wanted {
        seed += 1;
        let mut draws = Stream::keyed(seed, 47, Purpose::Test);
        let case = Case::draw(&mut draws, 8);
        if !(64..=CLIENTS_MAX).contains(&case.population) {
            continue;
        }
        let target = case.by_demand()[draws.below(2) as usize];
        let share = 0.25 * (1 + draws.below(3)) as f64;
        let now = measured_per_s(&case.network, seed, case.population);
        let truth = measured_per_s(&case.faster(target, share), seed, case.population);
        let (clock, doubts) = case.predicted(seed, target, share, true, now);
        let reading = delivered(&case, seed, target, share, now);
        if doubts | reading.doubts != 0 {
            continue;
        }
        for (errors, per_s) in errors.iter_mut().zip([clock, reading.predicted_per_s()]) {
            errors.push((per_s / truth - 1.0).abs() * 100.0);
        }
    }
    let (clock, ..) = summary("clock on private cores", &mut errors[0]);
    let (delivered, _, worst) = summary("delivered on private cores", &mut errors[1]);
    // No worse than half a tenth of a percent, which is what seeds differ by.
    assert!(delivered <= clock + 0.05, "{delivered} % and {clock} %");
    assert!(worst <= 5.0, "{worst} %");
}
