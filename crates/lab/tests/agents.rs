//! Agents that keep coordinates, on the wide-area world: with the same probes they end where the
//! replay ends, to the bit; and they bear what networks do to them.

use cavy_coords::agent::{Agent, AgentConfig, Answer, Ask, Coordinates};
use cavy_coords::history::Memory;
use cavy_coords::map::SERVERS;
use cavy_coords::predictors::globe::Globe;
use cavy_coords::predictors::{Learner, Predictor, Probe};
use cavy_coords::start::Known;
use cavy_coords::wire::Rtt;
use cavy_coords::{Config, Coordinate, Point};
use cavy_core::family::Node;
use cavy_core::family::message::Via;
use cavy_core::{Instant, Purpose, Ratio, Span, Stream};
use cavy_lab::net::What;
use cavy_lab::pending::Heap4;
use cavy_lab::wan::{
    self, Ask as Asked, Clients, Clock, End, Ending, Link, Parts, Rule, Setup, Site, Unmetered,
    Unobserved, Which,
};

const NODES: u32 = 24;
const PROBES: u32 = 300;
/// Between two probes: longer than any round trip with its feedback.
const APART: Span = Span::from_ms(1_000);

fn place(node: u32) -> Option<Point> {
    let mut rng = Stream::keyed(7, node, Purpose::Test);
    // Nobody can locate two of them.
    let point = Point::random(&mut rng);
    (![5, 11].contains(&node)).then_some(point)
}

/// A round trip that both directions share: an even number of microseconds.
fn rtt(a: u32, b: u32) -> Rtt {
    let (low, high) = (a.min(b), a.max(b));
    let apart = match (place(low), place(high)) {
        (Some(here), Some(there)) => SERVERS.rtt_ms(here.distance_km(there)),
        _ => 90.0,
    };
    let us = (apart * 1e3) as u32 + 37 * (low * 31 + high * 17) % 9_000;
    Rtt(us / 2 * 2)
}

fn config() -> AgentConfig {
    let model = Config::with_line(SERVERS);
    AgentConfig { every: None, store_every: 0, ..AgentConfig::new(model) }
}

fn agent(node: Node) -> Agent {
    Agent::new(config(), Known { address: place(node.0), country: None }, 0)
}

/// One client that asks agents for probes, one after the other.
struct Prober {
    plan: Vec<(u32, u32)>,
    next: usize,
    sent: usize,
    measured: Vec<Option<Rtt>>,
}

impl Prober {
    fn new(seed: u64) -> Prober {
        let mut rng = Stream::keyed(seed, 0, Purpose::Arrivals);
        let pair = |_| {
            let from = rng.below(NODES.into()) as u32;
            let to = (from + 1 + rng.below(u64::from(NODES) - 1) as u32) % NODES;
            (from, to)
        };
        Prober { plan: (0..PROBES).map(pair).collect(), next: 0, sent: 0, measured: Vec::new() }
    }
}

impl Clients<Coordinates> for Prober {
    fn count(&self) -> u32 {
        1
    }
    fn open(&self) -> bool {
        true
    }
    fn next(&mut self, _: u32, _: Instant) -> Option<(Instant, Ask)> {
        let (_, to) = self.plan.get(self.next)?;
        self.next += 1;
        let at = Instant::ZERO + APART.saturating_mul(self.next as u64);
        Some((at, Ask::Probe(Node(*to))))
    }
    fn target(&mut self, _: u32, _: &Ask, _: u32) -> Node {
        self.sent += 1;
        Node(self.plan[self.sent - 1].0)
    }
    fn site(&self, _: u32) -> Option<Site> {
        None
    }
    fn patience(&self, _: u32, _: u32) -> Option<Span> {
        None
    }
    fn ended(&mut self, _: &Asked<Coordinates>, _: Instant, ending: Ending<Answer>) {
        match ending {
            Ending::Answered(Answer::Measured(rtt)) => self.measured.push(rtt),
            other => panic!("{other:?}"),
        }
    }
}

fn setup(seed: u64) -> Setup {
    let pairs = (0..NODES).flat_map(|a| (0..NODES).map(move |b| (a, b)));
    let link = |(a, b): (u32, u32)| {
        let one_way = if a == b { 0 } else { u64::from(rtt(a, b).0) / 2 };
        Link::of(Span::from_us(one_way))
    };
    let sites = (0..NODES).map(|node| Site(node as u16));
    let mut setup = Setup::of(NODES as u16, pairs.map(link).collect(), sites.collect());
    setup.seed = seed;
    setup.duration = APART.saturating_mul(u64::from(PROBES) + 2);
    setup.linger = Span::from_ms(2_000);
    setup.check = true;
    setup
}

fn run(setup: &Setup, prober: &mut Prober) -> Vec<Option<Agent>> {
    let (hardware, observer, pending) = (&mut Unmetered, &mut Unobserved, &mut Heap4::new());
    let parts = Parts { clients: prober, hardware, pending, observer };
    wan::run(setup, agent, parts).1
}

/// The same probes, in order of time, with nothing lost: what replays and figures are made of.
fn replayed(prober: &Prober) -> Vec<Option<Coordinate>> {
    replayed_as(prober, |_, from, to| rtt(from, to))
}

/// The same where a probe, by its number and ends, takes what `rtt` says.
fn replayed_as(prober: &Prober, rtt: impl Fn(usize, u32, u32) -> Rtt) -> Vec<Option<Coordinate>> {
    let known = (0..NODES).map(|node| (Known { address: place(node), country: None }, 0));
    let globe = Globe::new(Config::with_line(SERVERS), known).in_whole_numbers();
    let mut learner = Learner::new(globe).symmetric(true).with_history(Memory::default(), NODES);
    let mut rng = Stream::keyed(0, 0, Purpose::Machine);
    for (number, (from, to)) in prober.plan.iter().enumerate() {
        let at = Instant::ZERO + APART.saturating_mul(number as u64 + 1);
        let rtt_ms = rtt(number, *from, *to).ms();
        let probe = Probe { from: *from, to: *to, rtt_ms, at };
        learner.learn(&probe, &mut rng);
    }
    (0..NODES).map(|node| learner.space().coordinate(node).copied()).collect()
}

#[test]
fn agents_end_in_the_coordinates_of_the_replay_to_the_bit() {
    for seed in 1..4 {
        let mut prober = Prober::new(seed);
        let agents = run(&setup(seed), &mut prober);
        let told: Vec<Option<Rtt>> =
            prober.plan.iter().map(|(from, to)| Some(rtt(*from, *to))).collect();
        assert_eq!(prober.measured, told, "seed {seed}: round trips end when replies arrive");
        let ends: Vec<Option<Coordinate>> =
            agents.iter().map(|agent| agent.as_ref().unwrap().coordinate().copied()).collect();
        assert_eq!(ends, replayed(&prober), "seed {seed}");
        assert!(ends.iter().flatten().all(|one| one.updates > 0));
    }
}

#[test]
fn slow_threads_and_wrong_clocks_do_not_lengthen_round_trips() {
    struct Slow;
    impl wan::Hardware<Coordinates> for Slow {
        fn handling(
            &mut self,
            node: Node,
            _: &cavy_core::family::message::Input<Coordinates>,
        ) -> Span {
            Span::from_us(u64::from(node.0 % 5) * 700)
        }
        fn work(&mut self, _: Node, (): &()) -> Span {
            Span::ZERO
        }
    }
    let mut setup = setup(2);
    let wrong = |node: u32| Clock { offset_ns: i64::from(node) * 1_000_000, ..Clock::default() };
    setup.clocks = (0..NODES).map(wrong).collect();
    let mut prober = Prober::new(2);
    let (observer, pending) = (&mut Unobserved, &mut Heap4::new());
    let parts = Parts { clients: &mut prober, hardware: &mut Slow, pending, observer };
    wan::run(&setup, agent, parts);
    for ((from, to), measured) in prober.plan.iter().zip(&prober.measured) {
        let (truth, measured) = (rtt(*from, *to), measured.expect("nothing is lost"));
        // The peer's thread takes up to 2.8 ms with the probe before its reply is out, of which it
        // knows nothing; the asker's own does not count.
        assert!((truth.0..=truth.0 + 2_801).contains(&measured.0), "{truth:?} {measured:?}");
    }
}

#[test]
fn what_is_lost_is_said_so_and_never_a_wrong_round_trip() {
    for seed in 1..4 {
        let mut setup = setup(seed);
        setup.faults.rules.push(datagrams(What::Lose(Ratio { num: 1, den: 5 })));
        let mut prober = Prober::new(seed);
        let agents = run(&setup, &mut prober);
        let (mut lost, mut right) = (0, 0);
        for ((from, to), measured) in prober.plan.iter().zip(&prober.measured) {
            match measured {
                None => lost += 1,
                Some(measured) => {
                    assert_eq!(*measured, rtt(*from, *to), "seed {seed}");
                    right += 1;
                }
            }
        }
        assert!(lost > 50 && right > 100, "seed {seed}: {lost} lost, {right} measured");
        agents.iter().flatten().for_each(cavy_core::Machine::check);
    }
}

#[test]
fn doubled_datagrams_change_nothing() {
    let mut setup = setup(1);
    let (ratio, after) = (Ratio { num: 1, den: 2 }, Span::from_ms(30));
    setup.faults.rules.push(datagrams(What::Duplicate { ratio, after }));
    let mut prober = Prober::new(1);
    let agents = run(&setup, &mut prober);
    let ends: Vec<Option<Coordinate>> =
        agents.iter().map(|agent| agent.as_ref().unwrap().coordinate().copied()).collect();
    assert_eq!(ends, replayed(&prober));
}

/// From the middle of the run on, whatever goes to or comes from one site takes a longer way:
/// agents measure that, and learn from it as the replay of the new round trips does.
#[test]
fn a_route_that_changes_is_measured_and_learnt_as_a_replay_learns_it() {
    const MOVED: u32 = 3;
    let (first, longer) = (PROBES / 2, Span::from_ms(40));
    for seed in 1..4 {
        let mut setup = setup(seed);
        let since = APART.saturating_mul(u64::from(first));
        let site = End::At(Site(MOVED as u16));
        for (from, to) in [(site, End::Any), (End::Any, site)] {
            let mut rule = datagrams(What::Delay { ratio: Ratio { num: 1, den: 1 }, by: longer });
            (rule.which.from, rule.which.to) = (from, to);
            rule.which.since = Instant::ZERO + since;
            setup.faults.rules.push(rule);
        }
        let mut prober = Prober::new(seed);
        let agents = run(&setup, &mut prober);
        let now = |number: usize, from: u32, to: u32| {
            let changed = number + 1 >= first as usize && [from, to].contains(&MOVED);
            let longer_us = if changed { 2 * longer.as_ns() / 1_000 } else { 0 };
            Rtt(rtt(from, to).0 + longer_us as u32)
        };
        let told = prober.plan.iter().enumerate();
        let told: Vec<Option<Rtt>> = told.map(|(n, (from, to))| Some(now(n, *from, *to))).collect();
        assert_eq!(prober.measured, told, "seed {seed}");
        let ends: Vec<Option<Coordinate>> =
            agents.iter().map(|agent| agent.as_ref().unwrap().coordinate().copied()).collect();
        assert_eq!(ends, replayed_as(&prober, now), "seed {seed}");
        // Whose way became longer stands higher than it would.
        let height = |ends: &[Option<Coordinate>]| ends[MOVED as usize].map(|own| own.height_ms);
        assert!(height(&ends) > height(&replayed(&prober)), "seed {seed}");
    }
}

fn datagrams(what: What) -> Rule {
    Rule { which: Which { via: Some(Via::Datagram), ..Which::any() }, what }
}
