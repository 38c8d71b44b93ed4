//! Networks, laws of message sizes, and what transports are on them.

use cavy_core::Span;
use cavy_core::family::Node;
use cavy_kinds::network::TransportPlan;
use cavy_kinds::network::fabric::{Fabric, fabric};
use cavy_kinds::network::messages::law;
use cavy_kinds::network::plan::{FabricPlan, SizesPlan, WorkloadName};
use cavy_kinds::network::surroundings::Surroundings;
use cavy_kinds::network::transport::{Transport, network, transport};
use cavy_lab::net::{Buffer, Ideal};
use cavy_study::plan::Files;
use cavy_workload::sizes::Published;

#[test]
fn laws_keep_their_means() {
    let mean = |plan| law(plan).map(|sizes| sizes.mean_bytes()).unwrap_or(0.0);
    assert_eq!(mean(SizesPlan::Constant { bytes: 100 }), 100.0);
    let uniform = mean(SizesPlan::Uniform { low_bytes: 1000, high_bytes: 3000 });
    assert!((uniform - 2000.0).abs() < 1.0, "{uniform}");
    // What lies beyond the last of 200 parts is missing from the mean of a law with a tail.
    let lognormal = mean(SizesPlan::Lognormal { mean_bytes: 10_000.0, sigma: 1.0 });
    assert!((9_700.0..10_000.0).contains(&lognormal), "{lognormal}");
}

fn plan(text: &str) -> FabricPlan {
    toml::from_str(text).expect("a network")
}

const PAPER: &str = "topology = \"leaf_spine\"\nracks = 9\nhosts_per_rack = 16\nspines = 4";

#[test]
fn homa_2_1_a_round_trip_of_the_paper_network() {
    let paper = fabric(&plan(PAPER), &Files::NONE).expect("a fabric");
    assert_eq!(paper.network.topology.hosts(), 144);
    // 7.8 us and 9.7 KB [homa 2.1].
    assert!((7_700..7_800).contains(&paper.round_trip.as_ns()), "{}", paper.round_trip);
    assert!((9_600..9_750).contains(&paper.rtt_bytes), "{}", paper.rtt_bytes);
    assert!((paper.hops_mean - (15.0 * 2.0 + 128.0 * 4.0) / 143.0).abs() < 1e-9);
}

#[test]
fn any_graph_can_be_written() {
    let text = "topology = \"links\"\nhosts = 2\nswitches = 2\nlinks = [\n\
                { from = \"h0\", to = \"s0\" }, { from = \"s0\", to = \"s1\", gbps = 1 },\n\
                { from = \"s1\", to = \"h1\", propagation_us = 2 }]";
    let made = fabric(&plan(text), &Files::NONE).expect("a fabric");
    assert_eq!((made.network.topology.switches(), made.hops_mean), (2, 3.0));
}

#[test]
fn hosts_are_as_far_as_was_measured() {
    let star = "topology = \"star\"\nhosts = 4\npropagation_us = 1\nround_trips = \"rtt.csv\"";
    let files = Files::Carried(&[("rtt.csv", "host,rtt_us\nh3,90\nh1,40.5\n")]);
    let made = fabric(&plan(star), &files).expect("a fabric");
    let ideal = Ideal::new(&made.network);
    let us = |a, b| {
        let both = ideal.time(Node(a), Node(b), 1) + ideal.time(Node(b), Node(a), 1);
        both as f64 / 1e6
    };
    assert!((us(0, 1) - 40.5).abs() < 0.01, "{}", us(0, 1));
    assert!((us(0, 3) - 90.0).abs() < 0.01, "{}", us(0, 3));
    // One that was not measured is as far as the plan says, and two that were are both far.
    let plain = fabric(&plan(&star.replace("round_trips = \"rtt.csv\"", "")), &files);
    let plain = Ideal::new(&plain.expect("a fabric").network);
    assert_eq!(ideal.time(Node(0), Node(2), 1), plain.time(Node(0), Node(2), 1));
    assert!((us(1, 3) + us(0, 2) - us(0, 1) - us(0, 3)).abs() < 0.01, "{}", us(1, 3));
    assert!(made.round_trip > cavy_core::Span::from_us(90), "{}", made.round_trip);
}

#[test]
fn habits_of_published_senders_are_keys() {
    let network = "topology = \"star\"\nhosts = 3\nframing = \"ip\"";
    let fabric = fabric(&plan(network), &Files::NONE).expect("a fabric");
    let sizes = law(SizesPlan::Constant { bytes: 100 }).expect("sizes");
    let around = Surroundings {
        fabric: &fabric,
        sizes: &sizes,
        workload: None,
        asks: true,
        lossy: false,
        buffer_given: true,
        length: Span::from_ms(10),
    };
    let made = |keys: &str| {
        let text = format!("transport = \"tcp\"\n{keys}");
        let plan: TransportPlan = toml::from_str(&text).expect("a transport");
        transport(&plan, &around).map_err(|fault| fault.to_string())
    };
    let config = |keys: &str| match made(keys) {
        Ok(Transport::Tcp { config, .. }) => *config,
        other => panic!("{other:?}"),
    };
    let reno = config("congestion = \"reno\"");
    assert!(reno.reno && !reno.sack && reno.rack.is_none());
    let linux = config("congestion = \"reno\"\nlike = \"linux\"");
    assert!(linux.reno && !linux.sack && linux.rack.is_none());
    let plain = config("congestion = \"newreno\"");
    assert!(!plain.reno && plain.sack && !plain.halves_window);
    assert!(config("loss_halves_window = true").halves_window);
    for (keys, word) in [
        ("congestion = \"reno\"\nsack = true", "sack"),
        ("congestion = \"reno\"\nrack = \"fine\"", "rack"),
        ("congestion = \"cubic\"\nloss_halves_window = true", "loss_halves_window"),
    ] {
        assert!(made(keys).is_err_and(|said| said.contains(word)), "{keys}");
    }
}

#[test]
fn links_may_be_slower_in_one_direction() {
    let star = "topology = \"star\"\nhosts = 3\nhost_gbps = 1\nhost_down_gbps = 20";
    let made = fabric(&plan(star), &Files::NONE).expect("a fabric");
    // A full packet of 1538 bytes in a microsecond on the fast link, in twelve on the slow one.
    let ideal = |made: &Fabric, from, to| {
        Ideal::new(&made.network).time(Node(from), Node(to), made.network.framing.room_bytes())
    };
    let wire_ns = |made: &Fabric, from, to| {
        let fixed = &made.network.hosts;
        let software = fixed.send + fixed.think + fixed.receive + made.network.switch_latency;
        ideal(made, from, to) / 1000 - software.as_ns()
    };
    assert_eq!(wire_ns(&made, 0, 1), 12_304 + 615);
    assert_eq!(made.host_bits_per_s, 1_000_000_000);
    let links = "topology = \"links\"\nhosts = 2\nswitches = 1\nlinks = [\n\
                 { from = \"h0\", to = \"s0\", gbps = 1, back_gbps = 20 },\n\
                 { from = \"s0\", to = \"h1\", gbps = 20 }]";
    let made = fabric(&plan(links), &Files::NONE).expect("a fabric");
    assert_eq!((wire_ns(&made, 0, 1), wire_ns(&made, 1, 0)), (12_304 + 615, 615 + 615));
}

fn with<T>(network: &str, of: impl FnOnce(&Surroundings<'_>) -> T) -> T {
    let fabric = fabric(&plan(network), &Files::NONE).expect("a fabric");
    let sizes = Published::W3.sizes();
    of(&Surroundings {
        fabric: &fabric,
        sizes: &sizes,
        workload: Some(WorkloadName::W3),
        asks: false,
        lossy: false,
        buffer_given: false,
        length: Span::from_ms(10),
    })
}

fn built(text: &str, around: &Surroundings<'_>) -> Transport {
    transport(&toml::from_str(text).expect("a transport"), around).expect("built")
}

#[test]
fn homa_2_6_published_workloads_have_the_published_cutoffs() {
    with(PAPER, |around| {
        let Transport::Homa(config) = built("transport = \"homa\"\nvariant = \"rc\"", around)
        else {
            panic!("a Homa")
        };
        assert_eq!(config.cutoffs.bounds(), [469, 5521, 15267]);
        assert_eq!((config.levels, config.scheduled_levels), (8, 4));
        let Transport::Homa(sim) = built("transport = \"homa\"", around) else { panic!("a Homa") };
        // The graduated mode's, from the thinned list of sizes.
        assert_eq!(sim.cutoffs.bounds().len(), 3);
        assert_eq!((sim.unscheduled_bytes, sim.recovery), (9328, None));
    });
}

#[test]
fn constants_are_the_published_ones_on_the_published_network_and_grow_beyond() {
    let of = |text: &str| {
        with(text, |around| {
            let pfabric: TransportPlan = toml::from_str("transport = \"pfabric\"").expect("one");
            let network = network(&pfabric, around, &plan(text)).expect("a network");
            match transport(&pfabric, around).expect("built") {
                Transport::PFabric(config) => (config, network.buffer),
                other => panic!("{other:?}"),
            }
        })
    };
    let (paper, buffer) = of(PAPER);
    assert_eq!((paper.window_packets, paper.window_max_packets), (12, 15));
    assert_eq!((paper.timeout, buffer), (Span::from_us(45), Buffer::PerPort { bytes: 36_864 }));
    let (fast, buffer) = of("topology = \"star\"\nhosts = 4\nhost_gbps = 100");
    assert!(fast.window_packets > 48, "{fast:?}");
    assert!(matches!(buffer, Buffer::PerPort { bytes } if bytes > 4 * 36_864), "{buffer:?}");
    let (slow, _) = of("topology = \"star\"\nhosts = 4\nhost_gbps = 1");
    assert!(slow.timeout > Span::from_us(100), "a packet alone takes 12 us a link: {slow:?}");
}
