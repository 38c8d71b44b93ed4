//! Every order of delivery, every loss and every duplicate, within budgets, for two hosts and up to
//! two questions of up to three packets ([homa 8.2] point 13).
//!
//! Time stands still: what a tick does depends on the number of ticks only. A tick comes when
//! nothing is in flight, and as often as the budget says also before. States that were met are not
//! explored again. At each end of all things every question was answered once or reported failed,
//! the server saw it at most once, and nothing is left over.

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Input, Message, Seen};
use cavy_core::laws::packet::Stage;
use cavy_core::{Instant, Packet, Span};
use cavy_homa::config::Granting;
use cavy_homa::packet::Header;
use cavy_homa::{Config, Cutoffs, Homa, Timer, Why};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

#[derive(Clone, Copy)]
struct Budget {
    lost: u32,
    doubled: u32,
    early_ticks: u32,
}

#[derive(Clone)]
struct State {
    stages: [Stage<Homa>; 2],
    flight: Vec<(u32, Packet<Header>)>,
    budget: Budget,
    /// Ticks in a row with nothing in flight.
    idle_ticks: u32,
    /// For each question: seen by the server, answered, failed, released.
    fates: [[u32; 4]; 2],
}

fn config() -> Config {
    let mut config = Config::cavy(Cutoffs::none(2), 1, 1_000_000_000, 1_000);
    config.unscheduled_packet_bytes = 100;
    config.scheduled_packet_bytes = 100;
    config.unscheduled_bytes = 100;
    config.incast = None;
    config.oldest_grants = None;
    config.granting = Granting::Arrivals {
        overcommit: 1,
        window_bytes: 200,
        increment_bytes: 100,
        incoming_max_bytes: u32::MAX,
    };
    let recovery = config.recovery.as_mut().expect("cavy repairs losses");
    recovery.tick = Span::from_us(1);
    recovery.resend_ticks = 1;
    recovery.resend_interval_ticks = 1;
    recovery.ack_ticks = 1;
    recovery.timeout_ticks = 5;
    recovery.remember_ticks = 12;
    config
}

impl State {
    fn new(config: &Config, budget: Budget) -> State {
        let stage = || Stage::new(Homa::new(config).expect("legal"), Instant::ZERO, 1);
        State {
            stages: [stage(), stage()],
            flight: Vec::new(),
            budget,
            idle_ticks: 0,
            fates: [[0; 4]; 2],
        }
    }

    /// One step of a host, and what its applications do of it.
    fn with(&mut self, node: u32, step: impl FnOnce(&mut Stage<Homa>)) {
        let stage = &mut self.stages[node as usize];
        step(stage);
        // Time stands still.
        stage.now = Instant::ZERO;
        for effect in std::mem::take(&mut stage.effects) {
            self.effect(node, effect);
        }
    }

    fn effect(&mut self, node: u32, effect: Effect<Why>) {
        let fate = |message: Message| (message.question().0 / 2) as usize;
        match effect {
            Effect::Delivered { from, message, length_bytes } if !message.is_answer() => {
                let seen = &mut self.fates[fate(message)][0];
                *seen += 1;
                assert_eq!(*seen, 1, "{message:?} carried out twice");
                let answer = Input::Answer { to: from, question: message, length_bytes };
                self.with(node, |stage| stage.input(answer));
            }
            Effect::Delivered { message, .. } => {
                let answered = &mut self.fates[fate(message)][1];
                *answered += 1;
                assert_eq!(*answered, 1, "{message:?} delivered twice");
            }
            Effect::Failed { message, .. } if node == 0 => self.fates[fate(message)][2] += 1,
            Effect::Released { message, .. } if node == 0 => self.fates[fate(message)][3] += 1,
            _ => {}
        }
    }

    fn pull_all(&mut self) {
        for node in 0..2 {
            loop {
                let mut packet = None;
                self.with(node, |stage| packet = stage.pull());
                let Some(packet) = packet else { break };
                self.flight.push((node, packet));
            }
        }
    }

    fn arrive(&mut self, (from, packet): (u32, Packet<Header>)) {
        self.idle_ticks = 0;
        let (header, payload, seen) = (packet.header, packet.payload, Seen::default());
        let input = Input::Rx { from: Node(from), header, payload, seen };
        self.with(packet.to.0, |stage| stage.input(input));
        self.pull_all();
    }

    fn tick(&mut self, node: u32, timer: Timer) {
        self.with(node, |stage| stage.expire(timer));
        self.pull_all();
    }

    /// What tells two states apart; packets in flight have no order.
    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for stage in &self.stages {
            stage.machine.fingerprint().hash(&mut hasher);
            stage.timers.keys().collect::<Vec<_>>().hash(&mut hasher);
        }
        let mut flight: Vec<String> = self.flight.iter().map(|p| format!("{p:?}")).collect();
        flight.sort();
        flight.hash(&mut hasher);
        self.fates.hash(&mut hasher);
        let Budget { lost, doubled, early_ticks } = self.budget;
        (lost, doubled, early_ticks, self.idle_ticks).hash(&mut hasher);
        hasher.finish()
    }

    /// All states that may follow.
    fn successors(&self) -> Vec<State> {
        let mut next = Vec::new();
        let mut met = BTreeSet::new();
        for index in 0..self.flight.len() {
            // Two equal packets lead to equal states.
            if !met.insert(format!("{:?}", self.flight[index])) {
                continue;
            }
            let mut arrived = self.clone();
            let packet = arrived.flight.swap_remove(index);
            if self.budget.lost > 0 {
                let mut lost = arrived.clone();
                lost.budget.lost -= 1;
                next.push(lost);
            }
            if self.budget.doubled > 0 {
                let mut doubled = self.clone();
                doubled.budget.doubled -= 1;
                doubled.arrive(packet);
                next.push(doubled);
            }
            arrived.arrive(packet);
            next.push(arrived);
        }
        if self.flight.is_empty() {
            // Both hosts, one after the other; other orders are what early ticks are for.
            let mut ticked = self.clone();
            for (node, stage) in (0..).zip(&self.stages) {
                for &timer in stage.timers.keys() {
                    ticked.tick(node, timer);
                    ticked.idle_ticks += 1;
                    next.push(ticked.clone());
                }
            }
            next.drain(..next.len().saturating_sub(1));
        } else if self.budget.early_ticks > 0 {
            for node in 0..2 {
                for &timer in self.stages[node as usize].timers.keys() {
                    let mut ticked = self.clone();
                    ticked.budget.early_ticks -= 1;
                    ticked.tick(node, timer);
                    next.push(ticked);
                }
            }
        }
        next
    }
}

#[derive(Default, Debug)]
struct Found {
    states: usize,
    ends: usize,
    answered: usize,
    failed: usize,
}

fn explore(name: &str, config: &Config, sizes: &[u32], budget: Budget) -> Found {
    let mut first = State::new(config, budget);
    for (index, &length_bytes) in sizes.iter().enumerate() {
        let message = Message(2 * index as u64);
        let input = Input::Submit { to: Node(1), message, length_bytes, asks: true };
        first.with(0, |stage| stage.input(input));
    }
    first.pull_all();
    let mut met = BTreeSet::from([first.digest()]);
    let mut open = vec![first];
    let mut found = Found::default();
    while let Some(state) = open.pop() {
        found.states += 1;
        assert!(state.idle_ticks < 200, "{name}: ticks for ever, {:?}", state.fates);
        let next = state.successors();
        if next.is_empty() {
            found.ends += 1;
            for (question, [seen, answered, failed, released]) in
                state.fates.iter().take(sizes.len()).enumerate()
            {
                let context = format!("{name}, question {question}: {:?}", state.fates);
                assert_eq!(answered + failed, 1, "{context}");
                assert_eq!(*released, 1, "{context}");
                assert!(seen >= answered, "{context}: answered without being asked");
                found.answered += *answered as usize;
                found.failed += *failed as usize;
            }
            for homa in state.stages.iter().map(|stage| &stage.machine) {
                assert_eq!(homa.exchange_count(), 0, "{name}: left over in {homa:?}");
                assert_eq!(homa.incoming_bytes() + homa.backlog_bytes(), 0, "{name}");
            }
        }
        for state in next {
            if met.insert(state.digest()) {
                open.push(state);
            }
        }
    }
    println!("{name}: {found:?}");
    found
}

#[test]
fn one_question_of_three_packets() {
    for (lost, doubled, early_ticks) in [(1, 1, 0), (2, 0, 0), (1, 0, 1)] {
        let name = format!("3 packets, {lost} lost, {doubled} doubled, {early_ticks} early ticks");
        let budget = Budget { lost, doubled, early_ticks };
        let found = explore(&name, &config(), &[250], budget);
        assert!(found.states > 1_000 && found.ends > 0, "{found:?}");
        assert_eq!(found.failed, 0, "{name}");
    }
}

#[test]
fn one_question_of_one_packet_and_a_bad_network() {
    let budget = Budget { lost: 6, doubled: 1, early_ticks: 1 };
    let found = explore("1 packet, 6 lost, 1 doubled, 1 early tick", &config(), &[50], budget);
    assert!(found.failed > 0 && found.answered > 0, "{found:?}");
}

#[test]
fn two_questions() {
    for (sizes, lost, doubled) in [([80, 150], 1, 0), ([150, 250], 0, 0), ([50, 50], 2, 1)] {
        let name = format!("two of {sizes:?} bytes, {lost} lost, {doubled} doubled");
        let found = explore(&name, &config(), &sizes, Budget { lost, doubled, early_ticks: 0 });
        assert!(found.states > 100 && found.ends > 0, "{found:?}");
        assert_eq!(found.failed, 0, "{name}");
    }
}
