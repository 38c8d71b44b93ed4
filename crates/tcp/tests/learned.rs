//! A client that is not told what its port holds, and learns how many segments may be under way
//! ([incast 8]).

mod star;

use cavy_core::Span;
use cavy_core::laws::packet::{Links, Queue};
use cavy_tcp::{Config, Congestion, Schedule};
use star::{Star, learns, scheduled, stock};

const MBIT: u64 = 1_000_000;

fn told(room: u64) -> Config {
    let schedule = Some(Schedule { room_bytes: Some(room as u32), foreign: false });
    Config { schedule, ..scheduled() }
}

fn star(servers: u32, room: u64, mbps: u64, client: Config) -> Star {
    let mut star = Star::new(servers, (1 << 20) / servers, client, stock());
    star.network.links = Links { bits_per_s: mbps * MBIT, delay: Span::from_us(25) };
    star.network.queue = Queue::Octets { limit: room };
    star
}

/// Goodput in Mb/s of the next blocks, with what was dropped and timed out.
fn blocks(star: &mut Star, numbers: core::ops::Range<u64>) -> (f64, u64, u64) {
    let (dropped, timeouts) = (star.dropped(), star.timeouts());
    let octets = (numbers.end - numbers.start)
        * u64::from(star.network.application.length_bytes)
        * u64::from(star.servers);
    let ns: u64 = numbers.map(|n| star.block(n).as_ns()).sum();
    (8e3 * octets as f64 / ns as f64, star.dropped() - dropped, star.timeouts() - timeouts)
}

#[test]
fn incast_8_after_20_blocks_who_learns_has_95_percent_of_who_is_told() {
    for mbps in [200, 1_000] {
        for room in [32_768, 65_536, 262_144] {
            for servers in [4, 16, 128] {
                let of = |client| {
                    let mut star = star(servers, room, mbps, client);
                    blocks(&mut star, 1..21);
                    blocks(&mut star, 21..31)
                };
                let (told, ..) = of(told(room));
                let (goodput, dropped, timeouts) = of(learns());
                println!("{servers} servers, {room}, {mbps} Mb/s: {goodput:.0} of {told:.0}");
                assert!(goodput >= 0.95 * told, "{servers} {room} {mbps}: {goodput} of {told}");
                assert_eq!((dropped, timeouts), (0, 0), "{servers} servers, {room}, {mbps}");
            }
        }
    }
}

#[test]
fn incast_8_when_the_room_changes_it_learns_again() {
    let mut learning = star(16, 32_768, 1_000, learns());
    blocks(&mut learning, 1..21);
    let mut at = 21;
    for room in [32_768, 8_192, 32_768] {
        learning.network.queue = Queue::Octets { limit: room };
        // Less room is noticed at once. What was too much is tried again after a second.
        let first = blocks(&mut learning, at..at + 20);
        at += 20;
        let begun = learning.network.now;
        while learning.network.now.since(begun) < Span::from_ms(1_500) {
            at += 1;
            learning.block(at);
        }
        let (goodput, dropped, timeouts) = blocks(&mut learning, at + 1..at + 21);
        at += 21;
        let mut knows = star(16, room, 1_000, told(room));
        blocks(&mut knows, 1..21);
        let (told, ..) = blocks(&mut knows, 21..41);
        println!(
            "{room}: {:.0}, then {goodput:.0} of {told:.0}; {dropped} dropped, {timeouts} timeouts",
            first.0
        );
        assert!(goodput >= 0.95 * told, "{room}: {goodput} of {told} Mb/s");
    }
}

/// Chance decides who starves beside a long flow where the port is small, so no goodput of blocks
/// is asked for. Every block ends, and the flow goes on.
#[test]
fn blocks_in_turn_end_beside_a_long_flow_that_fills_a_small_port() {
    for servers in [12, 16, 20] {
        for (name, client) in [("told", scheduled()), ("learned", learns())] {
            let mut star = Star::beside(&[stock()], servers, (1 << 20) / servers, client, stock());
            let (before, begun) = (star.background_octets(), star.network.now);
            let (goodput, _, timeouts) = blocks(&mut star, 1..4);
            let took = star.network.now.since(begun).as_ns();
            let other = 8e3 * (star.background_octets() - before) as f64 / took as f64;
            println!("{servers}, {name}: {goodput:.1} Mb/s beside {other:.0}, {timeouts} timeouts");
            assert!(other > 100.0, "{servers}, {name}: the flow has {other} Mb/s");
        }
    }
}

#[test]
fn servers_that_are_not_ours_are_never_stuck_when_the_room_shrinks() {
    let schedule = Some(Schedule { room_bytes: None, foreign: true });
    for server in [stock(), Config::linux(Congestion::NewReno)] {
        let client = Config { schedule, ..scheduled() };
        let mut star = Star::new(8, 1 << 17, client, server);
        blocks(&mut star, 1..11);
        for (n, room) in [(20, 6_144), (30, 65_536), (40, 3_072)] {
            star.network.queue = Queue::Octets { limit: room };
            let (goodput, dropped, timeouts) = blocks(&mut star, n..n + 10);
            println!("{room}: {goodput:.0} Mb/s, {dropped} dropped, {timeouts} timeouts");
            // Two packets are less than it ever has under way, so that chance decides how many
            // timers of 200 ms a block meets: 5 to 10 servers have 3 to 24 Mb/s there.
            assert!(goodput > 1.0, "{room}: {goodput} Mb/s");
        }
    }
}

/// The best rate that was met is forgotten within ten seconds. It used to be remembered for ever:
/// then a link that had become slower looked as if others were there, the room was tried until
/// something was lost, again and again, and blocks had 24 to 74 of 100 Mb/s.
#[test]
fn incast_8_when_the_link_becomes_slower_it_learns_again() {
    for foreign in [false, true] {
        let client = |room_bytes| {
            let schedule = Some(Schedule { room_bytes, foreign });
            Config { schedule, ..learns() }
        };
        let mut learning = star(16, 32_768, 200, client(None));
        blocks(&mut learning, 1..21);
        let mut at = 21;
        // A faster one counts at once.
        for (mbps, after_ms) in [(100, 11_000), (50, 11_000), (200, 1_000)] {
            learning.network.links.bits_per_s = mbps * MBIT;
            let begun = learning.network.now;
            while learning.network.now.since(begun) < Span::from_ms(after_ms) {
                at += 1;
                learning.block(at);
            }
            let (goodput, dropped, timeouts) = blocks(&mut learning, at + 1..at + 21);
            at += 21;
            let mut knows = star(16, 32_768, mbps, client(Some(32_768)));
            blocks(&mut knows, 1..21);
            let (told, ..) = blocks(&mut knows, 21..31);
            println!(
                "{mbps} Mb/s, foreign {foreign}: {goodput:.0} of {told:.0}; {dropped} dropped"
            );
            assert!(goodput >= 0.95 * told, "{mbps} Mb/s: {goodput} of {told}");
            assert_eq!((dropped, timeouts), (0, 0), "{mbps} Mb/s, foreign {foreign}");
        }
    }
}
