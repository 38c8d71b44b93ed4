//! What a straw man would fail: a link is used, and shared as the transport means to share it.

use crate::each_transport;
use crate::transports::{self as t, Rival, Star, assert_all_delivered, star};
use cavy_core::Instant;
use cavy_core::family::packet::Message;
use cavy_core::laws::packet::Queue;
use cavy_homa::rivals::{FRAME_BYTES, PAYLOAD_BYTES, blast, ndp};

const END: Instant = Instant::from_ns(20_000_000_000);

/// The share of the link that payload could have, that it had.
fn utilisation(bytes: u64, from: Instant, to: Instant, bits_per_s: u64) -> f64 {
    let possible = f64::from(PAYLOAD_BYTES) / f64::from(FRAME_BYTES) * bits_per_s as f64;
    bytes as f64 * 8e9 / to.since(from).as_ns() as f64 / possible
}

/// Hosts whose invariants are not checked: much is sent here.
fn quick<M: Rival>(hosts: u32, queue: Queue, seed: u64, make: impl Fn() -> M) -> Star<M> {
    let mut network = star(hosts, queue, seed, make);
    network.checks = false;
    network
}

/// When each message was delivered, by name.
fn delivered<M: Rival>(network: &Star<M>) -> Vec<Instant> {
    let fates = network.application.fates.values();
    fates.map(|fate| fate.delivered_at.expect("it was delivered")).collect()
}

#[test]
fn two_senders_fill_one_downlink() {
    each_transport!(|name, queue, make| {
        for senders in [1, 2, 5] {
            let length = 3_000_000;
            let mut network = quick(6, queue, 1, make);
            for from in 1..=senders {
                network.submit(Instant::ZERO, (from, 0), u64::from(from) * 2, length, None);
            }
            assert!(network.run(END), "{name}");
            assert_all_delivered(&network, name);
            let last = *delivered(&network).iter().max().expect("there are some");
            let bytes = u64::from(length) * u64::from(senders);
            let used = utilisation(bytes, Instant::ZERO, last, 10_000_000_000);
            let sent = network.data_packets as f64;
            let waste = sent / (f64::from(length.div_ceil(PAYLOAD_BYTES) * senders)) - 1.0;
            let queue = network.longest_queue(0);
            println!(
                "{name}, {senders} senders: {used:.3} used, {waste:.3} sent again, queue {queue}"
            );
            assert!(used >= 0.95, "{name}: {senders} senders use {used:.3} of the link");
            // Starved messages of pFabric probe every 45 us; NDP sends trimmed packets again.
            let allowed = if name == "pFabric" { 0.1 } else { 0.02 };
            assert!(waste <= allowed, "{name}: {senders} senders send {waste:.3} again");
        }
    });
}

/// The shares of equal messages that begin together, while both are there: the time at which the
/// first ends over the time at which the last does.
fn evenness<M: Rival>(queue: Queue, make: fn() -> M) -> f64 {
    let mut network = quick(3, queue, 1, make);
    network.submit(Instant::ZERO, (1, 0), 2, 6_000_000, None);
    network.submit(Instant::ZERO, (2, 0), 4, 6_000_000, None);
    assert!(network.run(END));
    let ends = delivered(&network);
    let (first, last) = (ends.iter().min().unwrap(), ends.iter().max().unwrap());
    first.as_ns() as f64 / last.as_ns() as f64
}

#[test]
fn fair_transports_share_evenly_and_shortest_first_ones_do_not() {
    let dctcp = evenness(t::FIFO, t::dctcp);
    assert!(dctcp > 0.85, "DCTCP: {dctcp}");
    let ndp = evenness(t::TRIM, t::ndp);
    assert!(ndp > 0.95, "NDP: {ndp}");
    let pfabric = evenness(t::RANK, t::pfabric);
    assert!(pfabric < 0.6, "pFabric serves one after the other: {pfabric}");
    let phost = evenness(t::SHORT, t::phost);
    assert!(phost < 0.6, "pHost serves one after the other: {phost}");
}

/// [homa 3.6]: a queue stays near the marking threshold, far from the end of the buffer.
#[test]
fn dctcp_keeps_the_queue_near_the_threshold() {
    let mut network = quick(3, t::FIFO, 1, t::dctcp);
    network.submit(Instant::ZERO, (1, 0), 2, 20_000_000, None);
    network.submit(Instant::ZERO, (2, 0), 4, 20_000_000, None);
    assert!(network.run(END));
    assert_all_delivered(&network, "DCTCP");
    assert_eq!(network.dropped, 0);
    let longest = network.longest_queue(0);
    assert!((60..200).contains(&longest), "{longest} packets");
}

/// Packets lost now and then cost DCTCP window, not timeouts.
#[test]
fn dctcp_repairs_single_losses_without_a_timeout() {
    let mut network = quick(2, t::FIFO, 3, t::dctcp);
    network.weather.lost = 1;
    network.submit(Instant::ZERO, (1, 0), 2, 20_000_000, None);
    assert!(network.run(END));
    assert_all_delivered(&network, "DCTCP");
    assert!(network.dropped >= 8, "{} lost", network.dropped);
    let end = delivered(&network)[0];
    let used = utilisation(20_000_000, Instant::ZERO, end, 10_000_000_000);
    assert!(used > 0.75, "{used:.3} of the link in spite of {} losses", network.dropped);
}

/// [homa 3.6]: a host serves its connections in turn.
#[test]
fn a_host_shares_its_port_between_connections() {
    let mut network = quick(3, t::FIFO, 1, t::dctcp);
    network.submit(Instant::ZERO, (0, 1), 2, 5_000_000, None);
    network.submit(Instant::ZERO, (0, 2), 4, 5_000_000, None);
    assert!(network.run(END));
    let ends = delivered(&network);
    let ratio = ends[0].as_ns() as f64 / ends[1].as_ns() as f64;
    assert!((0.98..1.02).contains(&ratio), "{ratio}");
}

/// [homa 3.8]: many senders at once cost NDP trimmed packets and no timeout.
#[test]
fn ndp_takes_an_incast_without_timeouts() {
    let make = || ndp::Ndp::new(ndp::Config::default()).expect("legal");
    let mut network = quick(31, t::TRIM, 1, make);
    for from in 1..=30 {
        network.submit(Instant::ZERO, (from, 0), u64::from(from) * 2, 90_000, None);
    }
    assert!(network.run(END));
    assert_all_delivered(&network, "NDP");
    assert!(network.trimmed > 100, "{} trimmed", network.trimmed);
    let last = *delivered(&network).iter().max().expect("there are some");
    let used = utilisation(30 * 90_000, Instant::ZERO, last, 10_000_000_000);
    assert!(used > 0.9, "{used:.3}");
}

/// A message of one packet through an idle network takes the time of its bits and no more; pHost's
/// comes behind its RTS.
#[test]
fn a_lone_packet_takes_the_least_time_there_is() {
    each_transport!(|name, queue, make| {
        let mut network = star(2, queue, 1, make);
        network.submit(Instant::ZERO, (0, 1), 0, 1460, None);
        assert!(network.run(END), "{name}");
        let least = 2 * 1231 + 2 * 1200;
        let rts = if name == "pHost" { 68 } else { 0 };
        assert_eq!(delivered(&network)[0].as_ns(), least + rts, "{name}");
    });
}

/// A short message that comes while a long one is under way: who makes it wait, and for how long.
fn short_behind_long<M: Rival>(queue: Queue, make: impl Fn() -> M) -> u64 {
    let mut network = quick(3, queue, 1, make);
    network.submit(Instant::ZERO, (1, 0), 2, 10_000_000, None);
    network.submit(Instant::from_ns(3_000_000), (2, 0), 4, 1_000, None);
    assert!(network.run(END));
    let fate = network.fate(2, 0, Message(4));
    fate.delivered_at.expect("it was").since(fate.submitted).as_ns()
}

#[test]
fn short_messages_overtake_where_the_transport_means_them_to() {
    let two_packets_late = 4_300 + 2 * 1_300;
    let pfabric = short_behind_long(t::RANK, t::pfabric);
    assert!(pfabric <= two_packets_late, "pFabric: {pfabric} ns");
    let phost = short_behind_long(t::SHORT, t::phost);
    assert!(phost <= two_packets_late, "pHost: {phost} ns");
    let pias = short_behind_long(t::FIFO, t::pias);
    assert!(pias <= two_packets_late, "PIAS: {pias} ns");
}

/// [homa 2.4, 3.3]: shortest first at the sender against the order of submission.
#[test]
fn a_shortest_first_sender_lets_short_messages_overtake() {
    let took = |order| {
        let make = || t::blast(order);
        let mut network = star(3, t::UNLIMITED, 1, make);
        network.submit(Instant::ZERO, (0, 1), 2, 1_000_000, None);
        network.submit(Instant::from_ns(10_000), (0, 2), 4, 1_000, None);
        assert!(network.run(END));
        assert_all_delivered(&network, "blast");
        let fate = network.fate(0, 2, Message(4));
        fate.delivered_at.expect("it was").since(fate.submitted).as_ns()
    };
    let (fifo, shortest) = (took(blast::Order::Submission), took(blast::Order::Shortest));
    assert!(fifo > 800_000, "it waits for the long one: {fifo} ns");
    assert!(shortest < 6_500, "it waits for one packet: {shortest} ns");
}
