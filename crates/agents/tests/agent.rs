//! Agents on real sockets of this host: they measure, learn, survive and are not fooled.

use cavy_agents::wire::{Datagram, PROBE_BYTES};
use cavy_agents::{Agent, Key, Nat, Options, Reach};
use cavy_core::Span;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// An agent that probes only when it is asked to.
fn quiet() -> Options {
    Options { every: None, ..Options::new(any()).at(51.5, -0.1) }
}

fn start(options: &Options) -> Agent {
    Agent::start(options).expect("an agent")
}

fn updates(agent: &Agent) -> u32 {
    agent.status().expect("it runs").updates
}

/// Until `done` says so, half a minute at most.
fn wait(mut done: impl FnMut() -> bool) {
    let began = cavy_clock::now();
    while !done() {
        assert!(cavy_clock::now().since(began) < Span::from_ms(30_000), "not within 30 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_probe_is_measured_and_moves_both_ends() {
    for key in [None, Some(Key::new([3; 32]))] {
        let reach = Reach { nat: Nat::Cone, relay: false, anycast: true };
        let one = start(&Options { key: key.clone(), ..quiet() });
        let two = start(&Options { key, reach, ..quiet().at(35.7, 139.7) });
        let to = two.local_address();
        assert_eq!(one.predict(to).expect("it runs"), None, "nobody was heard of");
        let began = cavy_clock::now();
        let measured = one.probe(to).expect("it runs").expect("a reply");
        let took = cavy_clock::now().since(began).as_us() / 1e3;
        assert!(measured > 0.0 && measured <= took, "{measured} of {took} ms on one host");
        assert_eq!(one.predict(to).expect("it runs"), Some(measured), "history comes first");
        assert_eq!(updates(&one), 1);
        wait(|| updates(&two) == 1);
        // What it said of itself came along, and is no prediction.
        let told = one.told(to).expect("it runs").expect("it was heard");
        assert_eq!(told.reach, reach);
        assert_eq!(one.measurements().try_recv().expect("one").peer, to);
        let counted = two.status().expect("it runs").counters;
        let wrong = counted.malformed + counted.unproven + counted.repeated + counted.unauthentic;
        assert_eq!((counted.feedback, wrong), (1, 0), "{counted:?}");
    }
}

#[test]
fn who_has_another_key_or_space_is_not_heard() {
    let keyed = start(&Options { key: Some(Key::new([3; 32])), ..quiet() });
    let quick = Options { patience: Span::from_ms(300), ..quiet() };
    for other in [
        Options { key: Some(Key::new([4; 32])), ..quick.clone() },
        Options { key: None, ..quick.clone() },
    ] {
        let other = start(&other);
        assert_eq!(other.probe(keyed.local_address()).expect("it runs"), None);
    }
    assert!(keyed.status().expect("it runs").counters.unauthentic > 0);
    let open = start(&quiet());
    let other = start(&Options { space: 9, ..quick });
    assert_eq!(other.probe(open.local_address()).expect("it runs"), None);
    assert_eq!(open.status().expect("it runs").counters.foreign_space, 4);
    assert_eq!((updates(&open), updates(&keyed)), (0, 0));
}

#[test]
fn what_is_kept_survives_and_a_torn_file_or_a_new_place_begins_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("coordinate");
    let far = start(&quiet().at(-33.9, 151.2));
    let keeps = || Options { kept: Some(file.clone()), store_every: 1, ..quiet() };
    let one = start(&keeps());
    let begins = one.status().expect("it runs").place;
    for _ in 0..4 {
        one.probe(far.local_address()).expect("it runs").expect("a reply");
    }
    // A loopback's round trip says that Sydney is near.
    let moved = one.status().expect("it runs").place.expect("a place");
    let close = |a: (f64, f64), b: (f64, f64)| (a.0 - b.0).abs() + (a.1 - b.1).abs() < 1e-5;
    assert!(!close(begins.expect("a place"), moved));
    // The process is gone without a word: nothing is written at its end.
    drop(one);
    let again = start(&keeps());
    assert!(close(again.status().expect("it runs").place.expect("a place"), moved));
    drop(again);
    let elsewhere = start(&keeps().at(48.9, 2.4));
    let place = elsewhere.status().expect("it runs").place.expect("a place");
    assert!(close(place, moved), "Paris is less than 500 km from London");
    drop(elsewhere);
    let elsewhere = start(&keeps().at(40.7, -74.0));
    assert!(close(elsewhere.status().expect("it runs").place.expect("a place"), (40.7, -74.0)));
    drop(elsewhere);
    let bytes = std::fs::read(&file).expect("a file");
    std::fs::write(&file, &bytes[..bytes.len() - 1]).expect("torn");
    let torn = start(&keeps());
    assert_eq!(torn.status().expect("it runs").place, begins);
}

#[test]
fn a_file_of_somebody_else_and_a_folder_that_is_not_there_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let foreign = folder.path().join("notes");
    std::fs::write(&foreign, "not a coordinate").expect("a file");
    let missing = folder.path().join("none").join("coordinate");
    for (file, why) in [(&foreign, "is no coordinate"), (&missing, "No such file or directory")] {
        let error = Agent::start(&Options { kept: Some(file.clone()), ..quiet() });
        let said = error.expect_err("refused").to_string();
        assert!(said.contains(why) && said.contains(&file.display().to_string()), "{said}");
    }
    assert_eq!(std::fs::read(&foreign).expect("a file"), b"not a coordinate");
}

/// A peer made by hand: what it answers is told by the test.
fn answers(by: &UdpSocket, mut held_us: impl FnMut(usize) -> Option<u32>) {
    by.set_read_timeout(Some(Duration::from_secs(30))).expect("an option");
    let mut bytes = [0; 100];
    for count in 0..4 {
        let (length, from) = by.recv_from(&mut bytes).expect("a probe");
        assert_eq!(length, PROBE_BYTES);
        let Ok(Datagram::Probe { space, nonce, sent_ns, told }) = Datagram::read(&bytes[..length])
        else {
            panic!("no probe")
        };
        let Some(held_us) = held_us(count) else { continue };
        let token = 7 + count as u64;
        let reply = Datagram::Reply { space, nonce, sent_ns, held_us, token, told };
        assert_eq!(reply.bytes().len(), PROBE_BYTES);
        by.send_to(&reply.bytes(), from).expect("sent");
    }
}

#[test]
fn the_median_of_what_comes_back_counts_less_the_time_held() {
    let agent = start(&quiet());
    let by = UdpSocket::bind(any()).expect("a socket");
    let to = by.local_addr().expect("an address");
    // Two late ones, of which one says that it held the probe.
    let peer = std::thread::spawn(move || {
        answers(&by, |count| {
            if count == 3 {
                std::thread::sleep(Duration::from_millis(150));
                return Some(149_000);
            }
            Some(0)
        });
    });
    let measured = agent.probe(to).expect("it runs").expect("replies");
    peer.join().expect("it ends");
    assert!(measured < 100.0, "{measured}");
    // One reply of four is too little.
    let by = UdpSocket::bind(any()).expect("a socket");
    let to = by.local_addr().expect("an address");
    let peer = std::thread::spawn(move || answers(&by, |count| (count == 1).then_some(0)));
    assert_eq!(agent.probe(to).expect("it runs"), None);
    peer.join().expect("it ends");
}

#[test]
fn background_probes_find_peers_by_gossip_and_everybody_learns() {
    let often = || Options { every: Some(Span::from_ms(60)), gossip_every: 2, ..quiet() };
    let first = start(&often());
    let seeds = || [first.local_address()];
    let others: Vec<Agent> =
        (0..4).map(|n| start(&often().at(10.0 * f64::from(n), 20.0).seeds(seeds()))).collect();
    // Each knows the first alone; gossip makes them know each other.
    wait(|| others.iter().all(|agent| agent.status().expect("it runs").peers >= 4));
    wait(|| others.iter().all(|agent| updates(agent) >= 8));
    for agent in others.iter().chain([&first]) {
        let counted = agent.status().expect("it runs").counters;
        assert_eq!((counted.unproven, counted.repeated, counted.malformed), (0, 0, 0));
    }
}

#[test]
fn strange_options_are_refused_by_name() {
    for (options, word) in [
        (Options { packets: 0, ..quiet() }, "`packets` is 0"),
        (Options { patience: Span::from_ms(100), ..quiet() }, "`patience`"),
        (Options { every: Some(Span::ZERO), ..quiet() }, "`every`"),
    ] {
        let error = Agent::start(&options).expect_err("refused").to_string();
        assert!(error.contains(word), "{error}");
    }
    let taken = UdpSocket::bind(any()).expect("a socket");
    let bind = taken.local_addr().expect("an address");
    let error = Agent::start(&Options { bind, ..quiet() }).expect_err("taken").to_string();
    assert!(error.contains(&bind.to_string()), "{error}");
}

/// A socket that gives back what comes, and its address.
fn echo() -> SocketAddr {
    let socket = UdpSocket::bind(any()).expect("a socket");
    let address = socket.local_addr().expect("an address");
    std::thread::spawn(move || {
        let mut bytes = [0; PROBE_BYTES];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..length], from);
        }
    });
    address
}

/// How long a round trip to an echo takes for a program that looks at the clock itself, ms.
fn by_hand(socket: &UdpSocket, to: SocketAddr) -> f64 {
    let mut bytes = [0; PROBE_BYTES];
    let began = cavy_clock::now();
    socket.send_to(&bytes, to).expect("sent");
    socket.recv_from(&mut bytes).expect("received");
    cavy_clock::now().since(began).as_us() / 1e3
}

/// How good round trips are, beside those of a plain echo in the same run ([htrae 7.1]): with a
/// quiet machine, and with two threads a core that never rest.
#[test]
#[ignore = "needs a quiet machine for 50 s; --nocapture shows what it measures"]
fn how_good_round_trips_are() {
    let burst = || Options { gap: Span::from_ms(1), ..quiet() };
    let (one, two) = (start(&burst()), start(&burst()));
    let (socket, echo) = (UdpSocket::bind(any()).expect("a socket"), echo());
    let measure = |count: usize| {
        let (mut ours, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..count {
            plain.push(by_hand(&socket, echo));
            ours.extend(one.probe(two.local_address()).expect("it runs"));
        }
        [ours, plain].map(|mut all| {
            all.sort_unstable_by(f64::total_cmp);
            all
        })
    };
    let at = |all: &[f64], share: f64| all[(all.len() as f64 * share) as usize] * 1e3;
    let quiet = measure(2_000);
    let medians = [0, 1].map(|way| at(&quiet[way], 0.5));
    let cores = std::thread::available_parallelism().expect("a count").get();
    let rests = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    for _ in 0..2 * cores {
        let rests = rests.clone();
        std::thread::spawn(move || {
            while !rests.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
    }
    let busy = measure(10_000);
    rests.store(true, std::sync::atomic::Ordering::Relaxed);
    for (way, name) in
        ["agent, median of four", "plain echo, clock of the program"].iter().enumerate()
    {
        let beyond = |share| at(&busy[way], share) - medians[way];
        println!(
            "{name}: quiet p50 {:.0} us; busy: p50 {:.0}, p90 {:.0}, p99 {:.0} us above, of {}",
            medians[way],
            beyond(0.5),
            beyond(0.9),
            beyond(0.99),
            busy[way].len()
        );
    }
    assert!((medians[0] - medians[1]).abs() <= 30.0, "{medians:?} us");
    let [ours, plain] = [0, 1].map(|way| at(&busy[way], 0.99) - medians[way]);
    assert!(ours <= 1_000.0 && ours <= plain / 5.0, "{ours} and {plain} us");
}
