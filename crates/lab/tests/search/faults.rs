//! One thing that goes wrong, or several, drawn from a seed.

use crate::town::{Ended, Habit, LAYOUT, go, network};
use cavy_core::family::Node;
use cavy_core::{Instant, Purpose, Ratio, Span, Stream};
use cavy_lab::net::{Outage, OutageKind, What};
use cavy_lab::wan::{End, Rule, Setup, Which};
use cavy_search::cluster::Layout;

pub fn at(ms: u64) -> Instant {
    Instant::from_ns(ms * 1_000_000)
}

pub fn outage(setup: &mut Setup, host: Node, from: u64, until: u64, kind: OutageKind) {
    let until = if until == 0 { Instant::NEVER } else { at(until) };
    setup.faults.outages.push(Outage { host, from: at(from), until, kind });
}

/// Nothing passes between two nodes.
fn cut(setup: &mut Setup, a: Node, b: Node, from: u64, until: u64) {
    for (from_node, to_node) in [(a, b), (b, a)] {
        let between = Which::between(End::Node(from_node), End::Node(to_node));
        let which = Which { since: at(from), until: at(until), ..between };
        setup.faults.rules.push(Rule { which, what: What::Down });
    }
}

/// All that `from` says to `to` takes longer.
pub fn delay(setup: &mut Setup, from: Node, to: Node, by: Span) {
    let which = Which::between(End::Node(from), End::Node(to));
    let what = What::Delay { ratio: Ratio { num: 1, den: 1 }, by };
    setup.faults.rules.push(Rule { which, what });
}

/// Returns how many servers are gone for ever.
fn draw(setup: &mut Setup, seed: u64) -> u32 {
    let mut draws = Stream::keyed(seed, 7, Purpose::Test);
    let mut server = || LAYOUT.server(draws.below(u64::from(LAYOUT.servers)) as u32);
    let (one, other) = (server(), server());
    let front_end = LAYOUT.front_end(draws.below(2) as u32);
    let from = 300 + draws.below(600);
    let (short, long) = (1 + draws.below(60), 150 + draws.below(700));
    match seed % 11 {
        0 => outage(setup, one, from, from + long, OutageKind::Crash),
        1 => outage(setup, one, from, from + short, OutageKind::Crash),
        2 => outage(setup, one, from, from + long, OutageKind::Freeze),
        3 => outage(setup, Layout::DIRECTORY, from, from + long, OutageKind::Crash),
        4 => outage(setup, front_end, from, from + long, OutageKind::Crash),
        5 => cut(setup, one, Layout::DIRECTORY, from, from + long),
        6 => cut(setup, front_end, Layout::DIRECTORY, from, from + long),
        7 => cut(setup, front_end, one, from, from + long),
        8 => {
            let what = What::Lose(Ratio { num: 1, den: 40 });
            setup.faults.rules.push(Rule { which: Which::any(), what });
            outage(setup, one, from, from + long, OutageKind::Crash);
        }
        9 => {
            outage(setup, one, from, from + long, OutageKind::Crash);
            if other != one {
                outage(setup, other, from + short, from + long + short, OutageKind::Crash);
            }
            outage(setup, Layout::DIRECTORY, from + 50, from + 50 + short, OutageKind::Crash);
        }
        _ => {
            outage(setup, one, from, 0, OutageKind::Crash);
            return 1;
        }
    }
    0
}

/// The seeds to run: `usual`, or those that the caller says.
#[allow(clippy::disallowed_methods)] // which seeds to run is the caller's to say
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    cavy_core::laws::seeds(|name| std::env::var(name).ok(), 0..usual)
}

/// How to run one seed again.
pub fn again(test: &str, seed: u64) -> String {
    format!("CAVY_SEED={seed} cargo test -p cavy-lab --test search {test} -- --nocapture")
}

/// Runs seeds, `usual` of them unless another number is asked for, on a network that `run` may
/// change. Says what all came to together; fails if an oracle was broken, with how to run each such
/// seed again.
fn hold(test: &str, usual: u64, run: impl Fn(u64, &mut Setup) -> Ended) -> Ended {
    let (mut all, mut broken) = (Ended::default(), Vec::new());
    for seed in seeds(usual) {
        let mut setup = network(seed);
        setup.check = true;
        let ended = run(seed, &mut setup);
        all.found += ended.found;
        all.partial += ended.partial;
        all.timed_out += ended.timed_out;
        all.bounced += ended.bounced;
        all.put_out += ended.put_out;
        all.moves += ended.moves;
        all.borders += ended.borders;
        all.moved += ended.moved;
        if let Some(why) = ended.broken {
            let again = again(&format!("faults::{test}"), seed);
            println!("seed {seed}: {why}\n  {:?}\n  again: {again}", setup.faults);
            broken.push(seed);
        }
    }
    println!("{all:?}");
    assert!(broken.is_empty(), "{} seeds broke an oracle: {broken:?}", broken.len());
    all
}

#[test]
fn clause_2_8_answers_hold_what_was_written_whatever_fails() {
    let all = hold("clause_2_8_answers_hold", 33, |seed, setup| {
        let gone = draw(setup, seed);
        go(Habit::usual().short_pieces(seed), setup, gone)
    });
    assert!(all.found > 0 && all.moves > 0);
}

#[test]
fn clause_8_4_answers_by_a_deadline_say_exactly_what_they_lack() {
    let all = hold("clause_8_4_answers_by_a_deadline", 22, |seed, setup| {
        let gone = draw(setup, seed);
        // Two copies of a server that crashed, in turn, are waited for two seconds each.
        setup.linger = Span::from_ms(8_000);
        // A query takes some ten milliseconds where nothing fails.
        let within = Some(Span::from_ms(4 + 5 * (seed % 7)));
        go(Habit { within, ..Habit::usual() }, setup, gone)
    });
    assert!(all.found > all.timed_out && all.timed_out > 0);
}

/// Busy servers refuse, once a part: with faults, changes of p, and deadlines in every other run.
#[test]
fn clause_2_13_what_busy_servers_refuse_is_answered_by_others_or_by_them() {
    let all = hold("clause_2_13_what_busy", 22, |seed, setup| {
        let gone = draw(setup, seed);
        let within = (seed % 2 == 1).then_some(Span::from_ms(20));
        let bounce = Some(Span::from_ms(1 + seed % 5));
        go(Habit { within, bounce, ..Habit::usual() }, setup, gone)
    });
    assert!(all.found > 0 && all.bounced > 0);
}

/// Borders move by load while p changes, servers leave and come back, and nodes and messages fail.
#[test]
fn clause_2_10_borders_move_whatever_fails() {
    let all = hold("clause_2_10_borders_move", 33, |seed, setup| {
        let gone = draw(setup, seed);
        // Every third run has few changes of p, and every third nobody who leaves.
        let change = Span::from_ms(if seed % 3 == 0 { 1_500 } else { 400 });
        let moves = if seed % 3 == 1 { Span::ZERO } else { Span::from_ms(400) };
        let balance = Some(Span::from_ms(20 + 30 * (seed % 4)));
        go(Habit { change, moves, balance, ..Habit::usual().short_pieces(seed) }, setup, gone)
    });
    assert!(all.found > 0 && all.borders > all.moved && all.moved > 0);
}

#[test]
fn clause_2_10_borders_move_around_servers_that_lose_their_logs() {
    let all = hold("clause_2_10_borders_move_around", 6, |seed, setup| {
        some_lose_their_logs(setup, &mut Stream::keyed(seed, 9, Purpose::Test));
        // A fast server has up to four ninths of the ring: with p = 3 it would have documents that
        // nobody else has.
        let (balance, p_most) = (Some(Span::from_ms(50)), 2);
        go(Habit { balance, p_most, ..Habit::doubled().short_pieces(seed) }, setup, 0)
    });
    assert!(all.found > 0 && all.put_out > 0 && all.moved > 0);
}

/// Servers of two rings, each of which has every document: whatever fails, and whatever else is
/// done about it.
#[test]
fn clause_2_6_4_two_rings_hold_what_was_written_whatever_fails() {
    let all = hold("clause_2_6_4_two_rings", 33, |seed, setup| {
        let gone = draw(setup, seed);
        go(Habit { rings: 2, ..Habit::usual().short_pieces(seed) }, setup, gone)
    });
    assert!(all.found > 0 && all.moves > 0);
}

#[test]
fn clause_2_6_4_three_rings_hold_it_with_deadlines_refusals_and_moving_borders() {
    let all = hold("clause_2_6_4_three_rings", 22, |seed, setup| {
        let gone = draw(setup, seed);
        let (rings, moves) = (2 + seed as u32 % 2, Span::from_ms(400));
        let within = (seed % 3 == 1).then_some(Span::from_ms(20));
        let bounce = (seed % 3 == 2).then_some(Span::from_ms(1 + seed % 5));
        let balance = Some(Span::from_ms(20 + 30 * (seed % 4)));
        let habit = Habit { rings, moves, within, bounce, balance, ..Habit::usual() };
        go(habit.short_pieces(seed), setup, gone)
    });
    assert!(all.found > all.timed_out && all.timed_out > 0);
    assert!(all.bounced > 0 && all.moved > 0 && all.moves > 0);
}

/// All servers of one ring crash, for good, or are back with their disks or without: others have
/// everything.
fn a_ring_dies(setup: &mut Setup, draws: &mut Stream) {
    let (kind, until) = match draws.below(3) {
        0 => (OutageKind::Crash, 0),
        1 => (OutageKind::Crash, 1_500),
        _ => (OutageKind::Wipe, 1_500),
    };
    for server in (0..LAYOUT.servers).step_by(2) {
        let from = 300 + draws.below(50);
        outage(setup, LAYOUT.server(server), from, until, kind);
    }
    setup.linger = Span::from_ms(8_000);
}

#[test]
fn clause_2_6_4_a_ring_that_dies_leaves_every_answer_whole() {
    let all = hold("clause_2_6_4_a_ring_that_dies", 12, |seed, setup| {
        a_ring_dies(setup, &mut Stream::keyed(seed, 9, Purpose::Test));
        let moves = if seed % 2 == 0 { Span::ZERO } else { Span::from_ms(200) };
        let habit = Habit { rings: 2, spared: true, moves, ..Habit::usual() };
        go(habit.short_pieces(seed), setup, LAYOUT.servers / 2)
    });
    assert!(all.found > 0 && all.partial == 0 && all.put_out > 0);
}

/// Servers lose what they had stored, and are back before or after their lease has ended; some
/// crash again while they are filled, or the directory does. Nobody does before the one before is
/// filled: what is on two servers would be gone.
pub fn some_lose_their_logs(setup: &mut Setup, draws: &mut Stream) {
    for turn in 0..2 {
        let server = LAYOUT.server(draws.below(u64::from(LAYOUT.servers)) as u32);
        let (from, lasts) = (250 + 1_500 * turn, 5 + draws.below(140));
        outage(setup, server, from, from + lasts, OutageKind::Wipe);
        let again = from + lasts + 20 + draws.below(200);
        match draws.below(3) {
            0 => outage(setup, server, again, again + 10, OutageKind::Crash),
            1 => outage(setup, Layout::DIRECTORY, again, again + 30, OutageKind::Crash),
            _ => {}
        }
    }
    setup.linger = Span::from_ms(5_000);
}

#[test]
fn clause_2_9_who_comes_back_without_a_log_is_filled_before_it_answers() {
    let all = hold("clause_2_9_who_comes_back", 12, |seed, setup| {
        some_lose_their_logs(setup, &mut Stream::keyed(seed, 9, Purpose::Test));
        go(Habit::doubled().short_pieces(seed), setup, 0)
    });
    assert!(all.found > 0 && all.put_out > 0);
}

/// Beats that come while a map is stored count. With one change of p after the other, each of which
/// takes several maps, nobody would keep a lease otherwise.
#[test]
fn clause_2_8_changes_of_p_put_nobody_out_of_step() {
    for seed in seeds(6) {
        let mut setup = network(seed);
        setup.disk.sync = Span::from_ms(18);
        setup.linger = Span::from_ms(10_000);
        let habit = Habit { change: Span::from_ms(10), calm: true, ..Habit::usual() };
        let ended = go(habit, &setup, 0);
        assert_eq!(ended.broken, None, "seed {seed}");
        assert!(ended.found > 100, "{}", ended.found);
    }
}
