//! Whom a front end asks where servers are on two rings `[roar 2.6.4]`.

use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect, Input, Via};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Purpose, Span, Stream};
use cavy_search::cluster::{
    Config, Layout, Map, Member, Message, Outcome, Request, Response, State, Timer, Words,
};
use cavy_search::plan::verify;
use cavy_search::{Cost, Part, Ring};
use std::sync::Arc;

const LAYOUT: Layout = Layout { front_ends: 1, servers: 6 };

/// A part that a server was asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    query: u64,
    number: u32,
    part: Part,
}

/// A front end with a lease, and what it wants of the world.
struct Talk {
    config: Config,
    map: Arc<Map>,
    machine: Member,
    rng: Stream,
    now: Instant,
    effects: Vec<Effect<Words>>,
}

impl Talk {
    /// Servers 0, 2 and 4 are on one ring and 1, 3 and 5 on the other; those that are `down` are
    /// out of step.
    fn new(down: &[usize]) -> Talk {
        let ranges = vec![Ring::equal(&[0, 2, 4]), Ring::equal(&[1, 3, 5])];
        let cost = Cost { fixed_ns: 1_000, scan_ns: 1_000_000 };
        let config = Config::new(LAYOUT, ranges, 2, vec![cost; 6]);
        let mut map = (*config.first_map()).clone();
        down.iter().for_each(|&server| map.states[server] = State::Down);
        let machine = Member::new(&config, LAYOUT.front_end(0));
        let rng = Stream::keyed(1, 0, Purpose::Test);
        let (now, effects) = (Instant::from_ns(1), Vec::new());
        let mut talk = Talk { config, map: Arc::new(map), machine, rng, now, effects };
        talk.step(|machine, cx| machine.start(cx));
        let beat = talk.effects.iter().find_map(|effect| match effect {
            Effect::Send { message: Message::Beat { serial, .. }, .. } => Some(*serial),
            _ => None,
        });
        let (serial, map) = (beat.expect("it wants a lease"), Some(talk.map.clone()));
        talk.hear(Layout::DIRECTORY, Message::Grant { serial, map });
        talk
    }

    fn step(&mut self, step: impl FnOnce(&mut Member, &mut Cx<'_, Effect<Words>, Timer>)) {
        self.now += Span::from_us(10);
        let mut outbox = Outbox::with_capacity(self.machine.effects_max());
        step(&mut self.machine, &mut Cx::new(self.now, &mut self.rng, &mut outbox));
        self.effects.extend(outbox.drain().filter_map(|out| match out {
            Out::Effect(effect) => Some(effect),
            Out::Arm(..) | Out::Disarm(_) => None,
        }));
    }

    fn hear(&mut self, from: Node, message: Message) {
        let (via, arrived) = (Via::Channel, self.now);
        self.effects.clear();
        self.step(|machine, cx| machine.handle(Input::Rx { from, via, message, arrived }, cx));
    }

    fn call(&mut self, request: Request) -> Vec<Asked> {
        self.effects.clear();
        let call = Call(self.now.as_ns());
        self.step(|machine, cx| machine.handle(Input::Call { call, request }, cx));
        self.asked()
    }

    /// Whom it has asked since it was last told or asked something.
    fn asked(&self) -> Vec<Asked> {
        let sub = |effect: &Effect<Words>| match effect {
            Effect::Send { to, message: Message::Sub { query, part, slice, .. }, .. } => {
                let server = LAYOUT.number(*to).expect("servers answer");
                let part_of = Part { server, slice: *slice };
                Some(Asked { query: *query, number: *part, part: part_of })
            }
            _ => None,
        };
        self.effects.iter().filter_map(sub).collect()
    }

    /// Each id is asked for once, of somebody in step who holds it.
    fn all_once(&self, asked: &[Asked]) {
        let parts: Vec<Part> = asked.iter().map(|asked| asked.part).collect();
        let rings = self.config.rings(&self.map);
        let may = |server: u32, slice| {
            let wants = rings.wants(server, self.map.p);
            self.map.is_up(server) && wants.is_some_and(|wants| wants.covers(slice))
        };
        assert_eq!(verify(&parts, may), Ok(()), "{parts:?}");
    }
}

fn servers(asked: &[Asked]) -> Vec<u32> {
    let mut servers: Vec<u32> = asked.iter().map(|asked| asked.part.server).collect();
    servers.sort_unstable();
    servers
}

#[test]
fn clause_2_6_4_what_counts_is_asked_on_one_ring_and_what_must_reach_all_on_each() {
    let mut talk = Talk::new(&[]);
    let turns = [(); 4].map(|()| {
        let asked = talk.call(Request::Ranges(()));
        talk.all_once(&asked);
        servers(&asked)
    });
    // One ring after the other.
    assert_eq!((&turns[0], &turns[1]), (&turns[2], &turns[3]));
    assert_eq!([&turns[0][..], &turns[1]].concat().len(), 6);
    assert_ne!(turns[0], turns[1]);
    let asked = talk.call(Request::Everywhere(()));
    assert_eq!(servers(&asked), [0, 1, 2, 3, 4, 5]);
    for ring in 0..2 {
        let on = |asked: &&Asked| asked.part.server % 2 == ring;
        talk.all_once(&asked.iter().filter(on).copied().collect::<Vec<Asked>>());
    }
}

#[test]
fn clause_2_6_4_a_ring_answers_for_another_on_which_nobody_is_in_step() {
    let mut talk = Talk::new(&[0, 2, 4]);
    for request in [Request::Ranges(()), Request::Ranges(())] {
        let asked = talk.call(request);
        talk.all_once(&asked);
    }
    for _ in 0..20 {
        let asked = talk.call(Request::Search { question: (), within: None });
        talk.all_once(&asked);
        assert_eq!(asked.len(), 2, "a part is not cut because of a ring that is dead: {asked:?}");
    }
    // A ring that is half there answers for what it holds, and the other for the rest.
    let mut talk = Talk::new(&[0, 2, 1]);
    for _ in 0..20 {
        let asked = talk.call(Request::Search { question: (), within: None });
        talk.all_once(&asked);
    }
}

#[test]
fn clause_2_11_what_a_server_refuses_is_asked_of_its_ring_and_then_of_the_other() {
    let mut talk = Talk::new(&[]);
    let mut open = talk.call(Request::Search { question: (), within: None });
    let mut refused = Vec::new();
    let ring = open[0].part.server % 2;
    // Whoever is on its ring refuses.
    while let Some(at) = open.iter().position(|asked| asked.part.server % 2 == ring) {
        let Asked { query, number, part } = open.swap_remove(at);
        refused.push(part.server);
        let outcome = Outcome::Refused { epoch: 1 };
        talk.hear(LAYOUT.server(part.server), Message::Answer { query, part: number, outcome });
        open.extend(talk.asked());
    }
    refused.sort_unstable();
    refused.dedup();
    assert!(refused.len() > 1, "its neighbours were asked first: {refused:?}");
    talk.all_once(&open);
    for Asked { query, number, part } in open {
        let (took, backlog, found) = (Span::from_us(1), Span::ZERO, [].as_slice().into());
        let outcome = Outcome::Done { took, backlog, found };
        talk.hear(LAYOUT.server(part.server), Message::Answer { query, part: number, outcome });
    }
    let lost = talk.effects.iter().find_map(|effect| match effect {
        Effect::Reply { response: Response::Found { lost, .. }, .. } => Some(lost.clone()),
        _ => None,
    });
    assert_eq!(lost, Some(Vec::new()));
}
