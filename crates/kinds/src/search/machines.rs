//! Runs a plan with events: front ends, servers and a directory as machines in the wide-area world,
//! with an oracle that looks at every answer.

use super::balancing;
use super::plan::EventPlan;
use super::run::{Ended, PhaseRun, Replication, between, measured};
use super::scenario::{Crashed, Event, Scenario, Way};
use super::scheduler::{COPY, QUERY};
use cavy_core::family::Node;
use cavy_core::family::cpu::Kind;
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_lab::net::{Outage, OutageKind, Rate};
use cavy_lab::pending::Wheel;
use cavy_lab::wan::{
    self, Ask, Clients, Ending, Hardware, Link, Observer, Parts, Processors, Setup, Site, Slow,
};
use cavy_search::cluster::{
    Config, Doc, Job, Layout, Map, Member, Note, Request, Response, State, Words, tells_all,
};
use cavy_search::ring::{Ring, WHOLE};
use cavy_search::scheme::Scheme;
use cavy_search::{Arc as Length, Id, loss};
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

/// Documents that are written, and looked for in every answer.
const WITNESSES: u64 = 200;
/// What each node sends and takes in.
const CARD: Rate = Rate::gbps(1);
/// Of a witness's id to the next.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Clients: queries that come whether others are done or not, one after the other writes, and
/// whoever changes p.
struct Callers<'a> {
    scenario: &'a Scenario,
    layout: Layout,
    arrivals: Stream,
    choices: Stream,
    clock: f64,
    left: u64,
    turn: u32,
    events: std::vec::IntoIter<(Instant, Node, Request)>,
    target: Node,
    end: Instant,
    /// By id: every acknowledged version, and when.
    acknowledged: BTreeMap<Id, Vec<(Instant, Doc)>>,
    ended: Vec<Ended>,
    parts: u64,
    wrong: u64,
    partial: u64,
    timed_out: u64,
    lost: f64,
    written: u64,
}

impl Callers<'_> {
    /// Looks at an answer: whatever was acknowledged before the query was sent is there, in that
    /// version or a later one, once; and nothing that was deleted.
    fn look(&mut self, since: Instant, docs: &[Doc], gone: impl Fn(Id) -> bool) -> bool {
        let mut met: BTreeMap<Id, Doc> = BTreeMap::new();
        let mut right = true;
        for doc in docs {
            right &= met.insert(doc.id, *doc).is_none();
        }
        for (id, versions) in &self.acknowledged {
            let before = versions.iter().filter(|(at, _)| *at <= since);
            let Some(known) = before.map(|(_, doc)| doc).max_by_key(|doc| doc.version) else {
                continue;
            };
            right &= match met.get(id) {
                Some(doc) => doc.version >= known.version && !doc.deleted,
                None => gone(*id),
            };
        }
        right
    }
}

impl Clients<Words> for Callers<'_> {
    fn count(&self) -> u32 {
        3
    }

    fn open(&self) -> bool {
        true
    }

    fn next(&mut self, client: u32, now: Instant) -> Option<(Instant, Request)> {
        match client {
            0 => {
                self.left = self.left.checked_sub(1)?;
                self.clock -= libm::log(self.arrivals.unit()) * self.scenario.gap_ns;
                let at = Instant::from_ns(self.clock as u64);
                let within = self.scenario.deadline;
                (at < self.end).then_some((at, Request::Search { question: (), within }))
            }
            1 => {
                let (at, target, request) = self.events.next()?;
                self.target = target;
                Some((at, request))
            }
            _ => {
                // Fifty a second, so that every witness is written anew every four seconds.
                let at = now + Span::from_ms(20);
                let id = (1 + self.choices.below(WITNESSES)).wrapping_mul(GOLDEN);
                (at < self.end).then_some((at, Request::Write { id, deleted: false, body: () }))
            }
        }
    }

    fn target(&mut self, client: u32, _: &Request, attempt: u32) -> Node {
        if client == 1 {
            return self.target;
        }
        self.turn = (self.turn + 1) % self.layout.front_ends;
        self.layout.front_end((self.turn + attempt) % self.layout.front_ends)
    }

    fn site(&self, _: u32) -> Option<Site> {
        None
    }

    fn patience(&self, _: u32, _: u32) -> Option<Span> {
        None
    }

    fn ended(&mut self, ask: &Ask<Words>, now: Instant, ending: Ending<Response>) {
        match ending {
            Ending::Answered(Response::Found { found: docs, lost, parts, told, timed_out }) => {
                let gone = |id| lost.iter().any(|slice| slice.contains(id));
                let right = self.look(ask.since, &docs, gone) && tells_all(&lost, &told);
                self.wrong += u64::from(!right);
                self.partial += u64::from(!lost.is_empty());
                self.timed_out += u64::from(timed_out);
                self.lost += lost.iter().map(|slice| slice.share()).sum::<f64>();
                self.parts += u64::from(parts);
                let (sent, took) = (ask.since.as_ns(), now.since(ask.since).as_ns());
                self.ended.push(Ended { sent, took });
            }
            Ending::Answered(Response::Written { doc }) => {
                self.written += 1;
                let versions = self.acknowledged.entry(doc.id).or_default();
                versions.push((now, doc));
                // What is older than any query under way is of no more interest.
                if versions.len() > 64 {
                    versions.drain(..32);
                }
            }
            Ending::Answered(Response::Spread { .. } | Response::Stays) | Ending::Unknown => {}
        }
    }
}

/// What servers take. A document copied costs each end ten times one that is scanned.
struct Servers<'a> {
    scenario: &'a Scenario,
    layout: Layout,
    busy_ns: Vec<u64>,
    /// Ids that are copied at a stretch.
    piece: u64,
    /// Schedulers that are told what each work takes, by server.
    told: BTreeMap<u32, Sender<Span>>,
}

/// What a document that is copied costs each end, in what one costs that is scanned.
pub(super) const COPYING: u64 = 10;

impl Hardware<Words> for Servers<'_> {
    fn work(&mut self, node: Node, job: &Job) -> Span {
        let server = self.layout.number(node).unwrap_or(0) as usize;
        let cost = self.scenario.costs[server];
        let ns = match job {
            Job::Scan(slice, ()) => cost.of(slice.width()),
            Job::Read(slice) | Job::Merge(slice) => COPYING * cost.scanning(slice.width()),
        };
        self.busy_ns[server] += ns;
        if let Some(told) = self.told.get(&(server as u32)) {
            // The one of a server that has crashed listens no more.
            let _ = told.send(Span::from_ns(ns));
        }
        Span::from_ns(ns)
    }

    fn kind(&self, _: Node, job: &Job) -> Kind {
        match job {
            Job::Scan(..) => QUERY,
            Job::Read(_) | Job::Merge(_) => COPY,
        }
    }

    fn processors(&mut self, node: Node) -> Processors {
        let Some(server) = self.layout.number(node) else { return Processors::in_order(1) };
        let Scenario { cores, p, copy_percent, .. } = *self.scenario;
        let Some(scheduling) = &self.scenario.scheduling else {
            return Processors::in_order(cores);
        };
        let cost = self.scenario.costs[server as usize];
        let query = cost.of(WHOLE / u128::from(p));
        let copy = COPYING * cost.scanning(u128::from(self.piece));
        let means = [query, copy].map(Span::from_ns);
        let copying = f64::from(copy_percent) / 100.0;
        let (processors, told) = scheduling.processors(cores, means, copying);
        if let Some(told) = told {
            self.told.insert(server, told);
        }
        processors
    }
}

/// What the directory and servers told.
#[derive(Default)]
pub(super) struct Told {
    pub(super) maps: Vec<(Instant, Map)>,
    /// When ids were copied, and which share of the ring.
    pub(super) copied: Vec<(Instant, f64)>,
}

impl Observer<Member> for Told {
    fn note(&mut self, now: Instant, _: Node, note: &Note) {
        match note {
            Note::Published(map) => self.maps.push((now, (**map).clone())),
            Note::Left => {}
            Note::Holds { copied, .. } => {
                self.copied.push((now, *copied as f64 / WHOLE as f64));
            }
        }
    }
}

/// One replication.
pub fn once(scenario: &Scenario, seed: u64) -> Replication {
    let n = scenario.speeds.len() as u32;
    let layout = Layout { front_ends: scenario.front_ends as u32, servers: n };
    let planner = scenario.planner(seed);
    let ranges = planner.map(|planner| planner.rings().to_vec()).unwrap_or_default();
    let mut config = Config::new(layout, ranges, scenario.p, scenario.costs.clone());
    if let Way::Scheme(Scheme::Roar(roar)) = scenario.way {
        config.roar = roar;
    }
    config.costs_are_known = !scenario.learns;
    config.backlog_is_learned = scenario.learns;
    config.cores = scenario.cores;
    config.documents = scenario.documents;
    config.document_bytes = scenario.document_bytes;
    config.copy_percent = scenario.copy_percent;
    config.copies_wait = scenario.copies_wait;
    config.margin = scenario.margin;
    config.hedge = scenario.hedge;
    config.bounce = scenario.bounce;
    config.balance = scenario.balance;
    // Half a millisecond of copying at a time on a server of speed 1, so that queries hardly wait
    // for a processor or a card. One end may be ahead of the other one by what a second allows.
    let (piece_ms, second_ms) = (0.5, 10.0 * f64::from(scenario.copy_percent) / 2.0);
    let ids = |copying_ms: f64| {
        let ids = copying_ms / (scenario.cost_ms.1 * COPYING as f64) * WHOLE as f64;
        ids.clamp(1.0, WHOLE as f64 / 16.0) as u64
    };
    config.piece = ids(piece_ms);
    config.chunk = ids(second_ms / 4.0);
    config.window = 4 * config.chunk;
    config.card_bytes_per_s = Some(CARD.bits_per_s() / 8);
    let mut setup =
        Setup::of(1, vec![Link::of(Span::from_us(50))], vec![Site(0); layout.nodes() as usize]);
    setup.seed = seed;
    setup.card = Some(CARD);
    setup.duration = scenario.duration;
    setup.drain = Span::from_ms(20_000);
    let mut faults = Stream::keyed(seed, 0, Purpose::Faults);
    let mut changes = Vec::new();
    let mut alive_after = BTreeMap::new();
    for (number, event) in scenario.events.iter().enumerate() {
        match *event {
            Event::Spread { at, p } => {
                changes.push((at, Layout::DIRECTORY, Request::Spread { p }));
            }
            Event::Crash { at, who, until, loses_disk } => {
                let alive = match who {
                    Crashed::Servers(servers) => loss::drawn(n, servers, &mut faults),
                    Crashed::Ring(ring) => {
                        let own = config.ranges[ring as usize].servers();
                        (0..n).map(|server| !own.contains(&server)).collect()
                    }
                };
                for server in (0..n).filter(|&server| !alive[server as usize]) {
                    let host = layout.server(server);
                    let kind = if loses_disk { OutageKind::Wipe } else { OutageKind::Crash };
                    setup.faults.outages.push(Outage { host, from: at, until, kind });
                }
                alive_after.insert(number, alive);
            }
            Event::Leave { at, until } => {
                let server = layout.server(faults.below(u64::from(n)) as u32);
                changes.push((at, server, Request::Stay(false)));
                changes.push((until, server, Request::Stay(true)));
            }
            Event::Slow { at, until, servers, speed } => {
                let others = loss::drawn(n, servers, &mut faults);
                for server in (0..n).filter(|&server| !others[server as usize]) {
                    let node = layout.server(server);
                    setup.faults.slow.push(Slow { node, from: at, until, speed });
                }
            }
            Event::Stall { at, every, lasts } => {
                let (host, kind) =
                    (layout.server(faults.below(u64::from(n)) as u32), OutageKind::Freeze);
                let (mut from, end) = (at, Instant::ZERO + scenario.duration);
                while from < end {
                    setup.faults.outages.push(Outage { host, from, until: from + lasts, kind });
                    from += every;
                }
            }
        }
    }
    changes.sort_by_key(|(at, _, _)| *at);
    let mut clients = Callers {
        scenario,
        layout,
        arrivals: Stream::keyed(seed, 0, Purpose::Arrivals),
        choices: Stream::keyed(seed, 0, Purpose::Destinations),
        clock: 0.0,
        left: scenario.queries,
        turn: 0,
        events: changes.into_iter(),
        target: Layout::DIRECTORY,
        end: Instant::ZERO + scenario.duration,
        acknowledged: BTreeMap::new(),
        ended: Vec::new(),
        parts: 0,
        wrong: 0,
        partial: 0,
        timed_out: 0,
        lost: 0.0,
        written: 0,
    };
    let (piece, told) = (config.piece, BTreeMap::new());
    let mut hardware = Servers { scenario, layout, busy_ns: vec![0; n as usize], piece, told };
    let mut told = Told::default();
    let parts = Parts {
        clients: &mut clients,
        hardware: &mut hardware,
        pending: &mut Wheel::new(),
        observer: &mut told,
    };
    let (report, _) = wan::run(&setup, |node| Member::new(&config, node), parts);
    let (latency, halves) = measured(&clients.ended, scenario.warm.as_ns());
    let count = clients.ended.len().max(1) as f64;
    // Where all queries were sent before the time was over, nothing came for the rest of it.
    let last = clients.ended.iter().map(|one| one.sent).max();
    let sent_all = last.filter(|&last| clients.left == 0 && last > 0);
    let came_ns = sent_all.unwrap_or(setup.duration.as_ns()) as f64;
    let horizon = came_ns * f64::from(scenario.cores);
    let busy = hardware.busy_ns.iter().map(|&ns| ns as f64 / horizon);
    let arc = Length::of(scenario.p);
    Replication {
        trail: report.trail,
        latency,
        served_per_s: count / (came_ns / 1e9),
        busy_ratio: busy.clone().sum::<f64>() / f64::from(n),
        busiest_ratio: busy.fold(0.0, f64::max),
        parts: clients.parts as f64 / count,
        met_ratio: 1.0 - clients.lost / count,
        copies: config.ranges.iter().map(|ring| ring.copies(arc)).sum(),
        halves,
        loss: None,
        phases: phases(scenario, &config.ranges, &clients, &told, &alive_after),
        wrong: clients.wrong,
        partial: clients.partial,
        timed_out_ratio: clients.timed_out as f64 / count,
        written: clients.written,
        balance: balancing::run(scenario, &config, &told, &clients.ended),
    }
}

/// What became of each event, from it to when what it asked for was reached, or to the next one.
/// `alive_after` says of each crash, by its number, which servers it left alive.
fn phases(
    scenario: &Scenario,
    rings: &[Ring],
    clients: &Callers<'_>,
    told: &Told,
    alive_after: &BTreeMap<usize, Vec<bool>>,
) -> Vec<PhaseRun> {
    let end = Instant::ZERO + scenario.duration;
    let mut phases = Vec::new();
    // Where nothing is under way.
    let mut calm_since = Instant::ZERO + scenario.warm;
    for (number, event) in scenario.events.iter().enumerate() {
        let at = event.at();
        let next = scenario.events.get(number + 1).map_or(end, Event::at);
        let reached = reached(event, told).filter(|when| *when <= next);
        let usable = match *event {
            Event::Spread { p, .. } => {
                let found = told.maps.iter().find(|(when, map)| *when >= at && map.p == p);
                found.map(|(when, _)| when.since(at).as_ns() as f64 / 1e9)
            }
            _ => None,
        };
        let until = reached.unwrap_or(next);
        let between =
            |from: Instant, to: Instant| between(&clients.ended, from.as_ns(), to.as_ns());
        let stored = told.maps.iter().rfind(|(when, _)| *when < at).map(|(_, map)| map.stored);
        let arc = Length::of(stored.unwrap_or(scenario.p));
        let holders =
            |alive: &Vec<bool>| loss::holders_least(rings, arc, |server| alive[server as usize]);
        let copied = told.copied.iter().filter(|(when, _)| *when >= at && *when < next);
        phases.push(PhaseRun {
            what: event.words(),
            at_s: at.as_ns() as f64 / 1e9,
            usable_s: usable,
            reached_s: reached.map(|when| when.since(at).as_ns() as f64 / 1e9),
            copied: copied.map(|(_, share)| share).sum(),
            blocked_s: 0.0,
            before: between(calm_since, at),
            during: between(at, until),
            after: between(until, next),
            holders_least: alive_after.get(&number).map(holders),
        });
        calm_since = until;
    }
    phases
}

/// When all was as `event` asked for, if ever.
fn reached(event: &Event, told: &Told) -> Option<Instant> {
    let first = |since: Instant, holds: &dyn Fn(&Map) -> bool| {
        let found = told.maps.iter().find(|(when, map)| *when >= since && holds(map));
        found.map(|(when, _)| *when)
    };
    match *event {
        Event::Spread { at, p } => first(at, &|map| map.p == p && map.stored == p && map.settled),
        // Everybody is in step again.
        Event::Crash { at, .. } => {
            let all_up = |map: &Map| map.states.iter().all(|state| *state == State::Up);
            let down = first(at, &|map| !all_up(map))?;
            first(down, &all_up)
        }
        // It has left and come back.
        Event::Leave { until, .. } => first(until, &|map| {
            map.moving.is_none() && !map.states.contains(&State::Out) && map.settled
        }),
        Event::Slow { until, .. } => Some(until),
        Event::Stall { .. } => None,
    }
}

impl Event {
    pub(super) fn at(&self) -> Instant {
        match self {
            Event::Spread { at, .. }
            | Event::Crash { at, .. }
            | Event::Leave { at, .. }
            | Event::Slow { at, .. }
            | Event::Stall { at, .. } => *at,
        }
    }

    pub(super) fn words(&self) -> String {
        match self {
            Event::Spread { p, .. } => format!("to p = {p}"),
            Event::Crash { who, loses_disk, .. } => {
                let (crashes, loses) = match who {
                    Crashed::Servers(1) => ("a server crashes".to_string(), "loses its disk"),
                    Crashed::Servers(many) => (format!("{many} servers crash"), "lose their disks"),
                    Crashed::Ring(ring) => {
                        (format!("ring {} crashes", ring + 1), "loses its disks")
                    }
                };
                if *loses_disk { format!("{crashes} and {loses}") } else { crashes }
            }
            Event::Leave { .. } => "a server leaves and comes back".to_string(),
            Event::Slow { servers: 1, speed, .. } => {
                format!("a server is {} times as fast", speed.ratio())
            }
            Event::Slow { servers, speed, .. } => {
                format!("{servers} servers are {} times as fast", speed.ratio())
            }
            Event::Stall { .. } => "a server stands still now and then".to_string(),
        }
    }
}

/// Events of a plan, in order of time.
pub fn sorted(events: &[EventPlan]) -> Vec<EventPlan> {
    let mut all = events.to_vec();
    all.sort_by(|a, b| a.at_s().total_cmp(&b.at_s()));
    all
}
