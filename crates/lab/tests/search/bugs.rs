//! Planted bugs: each is found by an oracle that is named here, on most seeds of a run that can
//! show it, and the machines without it are not accused there.

use crate::faults::{again, at, delay, outage, seeds, some_lose_their_logs};
use crate::town::{Habit, LAYOUT, go, network};
use cavy_core::{Purpose, Ratio, Span, Stream};
use cavy_lab::net::{OutageKind, What};
use cavy_lab::wan::{Jitter, Rule, Setup, Which};
use cavy_search::cluster::{Bugs, Layout};

struct Bug {
    name: &'static str,
    bugs: Bugs,
    habit: Habit,
    set: fn(&mut Setup, &mut Stream),
    /// Oracles that may find it.
    oracles: &'static [&'static str],
}

/// p changes all the time, and nothing fails.
fn changing() -> Habit {
    Habit { change: Span::from_ms(60), moves: Span::ZERO, calm: true, ..Habit::usual() }
}

/// So slowly that copies are made between changes.
fn slowly() -> Habit {
    Habit { change: Span::from_ms(500), ..changing() }
}

/// As usual, and nobody leaves: where copies take seconds, one that comes back is not in step in
/// time.
fn staying() -> Habit {
    Habit { moves: Span::ZERO, ..Habit::usual() }
}

/// Nothing changes, and queries have deadlines by which half of them have not met everything.
fn hurried() -> Habit {
    let (change, within) = (Span::from_ms(60_000), Some(Span::from_ms(4)));
    Habit { change, within, ..changing() }
}

/// Nothing changes, and servers refuse when they have something before them.
fn busy() -> Habit {
    let (change, bounce) = (Span::from_ms(60_000), Some(Span::from_ms(1)));
    Habit { change, bounce, ..changing() }
}

/// p changes all the time, and copies do not wait for queries.
fn copying() -> Habit {
    Habit { copies_wait: false, ..changing() }
}

/// Servers leave and come back, p stays, and nothing fails.
fn moving() -> Habit {
    Habit { change: Span::from_ms(60_000), moves: Span::from_ms(150), ..changing() }
}

/// Borders move by load all the time, p stays, and nothing fails.
fn balancing() -> Habit {
    let balance = Some(Span::from_ms(20));
    Habit { change: Span::from_ms(60_000), balance, ..changing() }
}

/// Servers are on two rings.
fn two_rings(habit: Habit) -> Habit {
    Habit { rings: 2, ..habit }
}

/// One front end hears of maps later than the other.
fn one_hears_late(setup: &mut Setup, _: &mut Stream) {
    delay(setup, Layout::DIRECTORY, LAYOUT.front_end(1), Span::from_ms(60));
}

/// What one front end asks for comes late to servers.
fn one_asks_late(setup: &mut Setup, _: &mut Stream) {
    for server in 0..LAYOUT.servers {
        delay(setup, LAYOUT.front_end(1), LAYOUT.server(server), Span::from_ms(150));
    }
}

/// Servers go and come back, one after the other, for longer than their leases.
fn servers_fail(setup: &mut Setup, draws: &mut Stream) {
    for turn in 0..6 {
        let server = LAYOUT.server(draws.below(u64::from(LAYOUT.servers)) as u32);
        let from = 150 + 370 * turn;
        outage(setup, server, from, from + 220 + draws.below(80), OutageKind::Crash);
    }
}

/// All servers of one ring of two go and come back.
fn a_ring_fails(setup: &mut Setup, _: &mut Stream) {
    for (turn, server) in (0..3).flat_map(|turn| [0, 2, 4].map(|server| (turn, server))) {
        let from = 200 + 700 * turn;
        outage(setup, LAYOUT.server(server), from, from + 300, OutageKind::Crash);
    }
}

/// Of what is said some is late, so that others are asked and the first answers come as well.
fn some_is_late(setup: &mut Setup, _: &mut Stream) {
    setup.links[0].jitter = Jitter::Exponential { mean: Span::from_ms(1) };
    let what = What::Delay { ratio: Ratio { num: 1, den: 12 }, by: Span::from_ms(25) };
    setup.faults.rules.push(Rule { which: Which { until: at(2_000), ..Which::any() }, what });
}

/// What servers tell each other is late at some of them: copies take seconds there.
fn half_copy_slowly(setup: &mut Setup, _: &mut Stream) {
    for (from, to) in (0..LAYOUT.servers).flat_map(|from| (0..3).map(move |to| (from, to))) {
        if from != to {
            delay(setup, LAYOUT.server(from), LAYOUT.server(to), Span::from_ms(200));
        }
    }
    setup.linger = Span::from_ms(30_000);
}

/// The same, and copies take half a second.
fn some_copy_slowly(setup: &mut Setup, _: &mut Stream) {
    for (from, to) in (0..LAYOUT.servers).flat_map(|from| (0..3).map(move |to| (from, to))) {
        if from != to {
            delay(setup, LAYOUT.server(from), LAYOUT.server(to), Span::from_ms(25));
        }
    }
}

/// Servers fail, and what they copy when they are back is late.
fn servers_fail_and_copy_slowly(setup: &mut Setup, draws: &mut Stream) {
    for turn in 0..3 {
        let server = LAYOUT.server(draws.below(u64::from(LAYOUT.servers)) as u32);
        let from = 150 + 750 * turn;
        outage(setup, server, from, from + 250, OutageKind::Crash);
    }
    for (from, to) in (0..LAYOUT.servers).flat_map(|a| (0..LAYOUT.servers).map(move |b| (a, b))) {
        if from != to {
            delay(setup, LAYOUT.server(from), LAYOUT.server(to), Span::from_ms(70));
        }
    }
    setup.linger = Span::from_ms(10_000);
}

/// What one front end writes comes late to half of the servers.
fn one_writes_late(setup: &mut Setup, _: &mut Stream) {
    for server in [0, 2, 4] {
        delay(setup, LAYOUT.front_end(0), LAYOUT.server(server), Span::from_ms(30));
    }
}

fn nothing(_: &mut Setup, _: &mut Stream) {}

fn try_one(bug: &Bug, seed: u64, habit: Habit) -> Option<String> {
    let mut setup = network(seed);
    (bug.set)(&mut setup, &mut Stream::keyed(seed, 9, Purpose::Test));
    go(habit, &setup, 0).broken
}

fn is_found(bug: &Bug) {
    let seeds = seeds(5);
    let (many, mut found) = (seeds.end - seeds.start, 0);
    for seed in seeds {
        let again = again(&format!("bugs::{}", bug.name), seed);
        match try_one(bug, seed, Habit { bugs: bug.bugs, ..bug.habit }) {
            Some(why) if bug.oracles.iter().any(|oracle| why.starts_with(oracle)) => {
                found += 1;
                println!("{}, seed {seed}: {why}\n  again: {again}", bug.name);
            }
            Some(why) => println!("{}, seed {seed}: by another oracle: {why}", bug.name),
            None => println!("{}, seed {seed}: nothing seen", bug.name),
        }
        if let Some(why) = try_one(bug, seed, bug.habit) {
            panic!("{}, seed {seed}, without the bug: {why}\n  again: {again}", bug.name);
        }
    }
    println!("{}: found in {found} of {many} seeds by {:?}", bug.name, bug.oracles);
    assert!(2 * found > many, "{} was found in {found} of {many} seeds", bug.name);
}

macro_rules! planted {
    ($($name:ident: $flag:ident, $habit:expr, $set:expr, $oracles:expr;)*) => {$(
        #[test]
        fn $name() {
            is_found(&Bug {
                name: stringify!($name),
                bugs: Bugs { $flag: true, ..Bugs::default() },
                habit: $habit,
                set: $set,
                oracles: &$oracles,
            });
        }
    )*};
}

planted! {
    b1_a_slice_is_closed_at_both_ends: closed_slices, Habit::usual(), servers_fail, ["once"];
    b3_p_falls_when_half_have_copied: p_of_most, slowly(), half_copy_slowly,
        ["arcs", "covered"];
    b4_servers_drop_before_front_ends_know: drop_early, changing(), one_hears_late,
        ["covered", "whole"];
    b5_writes_go_to_the_arcs_of_queries: new_arcs_later, copying(), nothing, ["whole", "fresh"];
    b6_copies_begin_before_front_ends_know: copy_early, changing(), one_hears_late,
        ["covered", "whole", "fresh"];
    b7_a_copy_undoes_a_delete: copy_revives, staying(), servers_fail_and_copy_slowly,
        ["fresh", "forward"];
    b8_a_majority_acknowledges: majority, slowly(), one_writes_late, ["whole", "fresh"];
    b9_a_server_answers_whatever_it_is_asked: unchecked, changing(), one_asks_late,
        ["whole", "fresh"];
    b10_who_was_away_answers_at_once: no_catching_up, Habit::usual(), servers_fail,
        ["whole", "fresh"];
    b11_a_late_part_goes_to_one_neighbour: one_neighbour, Habit::usual(), servers_fail,
        ["whole", "exact"];
    b13_a_border_moves_before_its_copy: move_early, moving(), some_copy_slowly, ["arcs"];
    b14_an_empty_log_counts_as_the_one_before: lives_unchecked, Habit::doubled(),
        some_lose_their_logs, ["whole"];
    b15_what_is_late_is_not_said_to_be_lost: silent_deadlines, hurried(), nothing,
        ["whole", "exact"];
    b16_what_was_refused_is_refused_again: bounces_again, busy(), nothing, ["taken", "covered"];
    b17_borders_move_by_load_before_their_copies: move_early, balancing(), some_copy_slowly,
        ["arcs", "covered", "held"];
    b18_a_server_drops_beyond_its_range_before_front_ends_know: drop_beyond, balancing(),
        one_hears_late, ["held"];
    b19_what_is_asked_by_ranges_is_asked_on_every_ring: ranges_of_all, two_rings(changing()),
        nothing, ["once"];
    b20_a_late_part_is_asked_about_on_one_ring: one_ring_asked,
        two_rings(Habit { spared: true, ..staying() }), a_ring_fails, ["covered"];
    b21_a_write_goes_to_one_ring: one_ring_written, two_rings(changing()), nothing,
        ["whole", "fresh", "logged"];
    b12_a_late_answer_counts_beside_others: counted_twice, Habit::usual(), some_is_late,
        ["once", "exact"];
}
