//! The loop: events in order, and what each does.

mod fabric;
mod host;

use super::Transport;
use super::clock::{Ps, instant, ps};
use super::faults::{Fate, OutageKind, What};
use super::ideal::Ideal;
use super::messages::Messages;
use super::network::{Buffer, Framing};
use super::observer::Observer;
use super::packets::Packets;
use super::port::Port;
use super::report::{ClassRecord, Ended, MessageCounts, PacketCounts, Recorder, Report};
use super::setup::Setup;
use super::topology::{Egress, Place, PortClass};
use super::traffic::{Submission, Traffic};
use crate::pending::{Class, Key, Pending, Ties};
use crate::timers::Timers;
use crate::trail::Trail;
use cavy_core::family::Node;
use cavy_core::family::packet::Input;
use cavy_core::{Cx, Instant, Outbox, Purpose, Stream};
use std::collections::VecDeque;

/// A host and its machine.
struct Host<M: Transport> {
    machine: M,
    rng: Stream,
    timers: Timers<M::Timer>,
    /// The submission that is pending.
    next: Option<Submission>,
    /// Packets at the card, the one being sent included.
    at_card: u32,
    /// Messages submitted so far.
    submitted: u64,
    /// Nothing runs before this time.
    frozen_until: Ps,
    /// When its thread looks, or looked last; of no meaning to hosts that look at once.
    looks_at: Ps,
    /// What sending takes after one look, and which that is.
    sending: (Ps, Option<Ps>),
    /// When the last packet that it sent is where its link leads; of no meaning where sending takes
    /// the same time for all.
    sent_until: Ps,
    thread_rng: Stream,
    down: bool,
}

/// Events of the world itself, in the order in which they happen at one time.
#[derive(Clone, Copy)]
enum Control {
    Warm,
    Half,
    Until,
    End,
    /// Twice the index of an outage, one more for its end.
    Outage(usize),
    /// A host starts that was not there at the beginning.
    Start(usize),
}

/// Bytes submitted and not placed, over time.
#[derive(Clone, Copy, Default)]
struct Backlog {
    bytes: u64,
    since: Ps,
    integral: u128,
    halves: [f64; 2],
    halves_done: usize,
}

impl Backlog {
    #[inline]
    fn account(&mut self, now: Ps) {
        self.integral += u128::from(self.bytes) * u128::from(now - self.since);
        self.since = now;
    }
}

pub(super) struct World<'a, M: Transport, F, T, P, O> {
    setup: &'a Setup,
    make: F,
    traffic: T,
    pending: &'a mut P,
    observer: &'a mut O,
    ties: Ties,
    hosts: Vec<Host<M>>,
    ports: Vec<Port>,
    egress: &'a [Egress],
    /// The first slot of the world's own events, and of packets.
    first_control: u32,
    first_packet: u32,
    packets: Packets<M::Header>,
    messages: Messages,
    /// Answers that applications give within the current step.
    answers: VecDeque<(Node, Input<M::Header>)>,
    outbox: Outbox<M::Effect, M::Timer>,
    /// One for each switch: ways and coins.
    switch_rngs: Vec<Stream>,
    /// Bytes waiting in each switch, when its memory is shared.
    shared_bytes: Vec<u64>,
    fault_rng: Stream,
    /// How often each rule has matched.
    matches: Vec<u64>,
    /// Until when each link holds up what follows, where one does.
    held_until: Vec<Ps>,
    framing: Framing,
    recorder: Recorder<'a>,
    /// Time in queues of the packet being handled.
    delays: super::packets::Delays,
    backlog: Backlog,
    placed_bytes: u64,
    payload_bytes: u64,
    retransmitted_bytes: u64,
    retransmitted_by_host: Vec<u64>,
    level_bytes: [u64; 8],
    counts: PacketCounts,
    message_counts: MessageCounts,
    /// Submissions pending, messages under way that somebody waits for, and hosts that have not
    /// started.
    open: u64,
    warm: bool,
    /// What is measured up to the end of submissions, once that has come.
    measured: Option<Measured>,
    ended: Option<Ended>,
    ending: bool,
    now: Ps,
    steps: u64,
    events: u64,
    trail: Trail,
}

struct Measured {
    classes: [ClassRecord; 4],
    downlinks: Vec<ClassRecord>,
    level_bytes: [u64; 8],
    goodput_bits_per_s: f64,
}

/// What an event folds into the digest, apart from its time.
#[derive(Clone, Copy)]
#[repr(u64)]
enum Mark {
    Submitted = 1,
    Sent = 2,
    Received = 3,
    Delivered = 4,
    Expired = 5,
    Failed = 6,
    Lost = 7,
    Placed = 8,
}

impl<'a, M, F, T, P, O> World<'a, M, F, T, P, O>
where
    M: Transport,
    F: FnMut(Node) -> M,
    T: Traffic,
    P: Pending,
    O: Observer<M, M::Header>,
{
    pub(super) fn new(
        setup: &'a Setup,
        mut make: F,
        traffic: T,
        pending: &'a mut P,
        observer: &'a mut O,
    ) -> Self {
        let topology = &setup.network.topology;
        let hosts: Vec<Host<M>> = (0..topology.hosts())
            .map(|host| Host {
                machine: make(Node(host)),
                rng: Stream::keyed(setup.seed, host, Purpose::Machine),
                timers: Timers::new(),
                next: None,
                at_card: 0,
                submitted: 0,
                frozen_until: 0,
                looks_at: 0,
                sending: (0, None),
                sent_until: 0,
                thread_rng: Stream::keyed(setup.seed, host, Purpose::Threads),
                down: setup.starts.iter().any(|start| start.host == Node(host)),
            })
            .collect();
        let most = hosts.iter().map(|host| host.machine.effects_max()).max().unwrap_or(0);
        let mut ideal = Ideal::new(&setup.network);
        if setup.ideal_without_latency_in_rack {
            ideal = ideal.without_latency_in_rack();
        }
        let own = setup.own_best.as_ref().map(|best| (best, topology));
        let first_control = topology.ports().len() as u32 + topology.hosts();
        let outages = 2 * setup.faults.outages.len() as u32;
        let starts = setup.starts.len() as u32;
        pending.clear();
        World {
            ties: setup.shuffle_ties.map_or_else(Ties::in_order, Ties::shuffled),
            ports: ports(setup),
            egress: topology.ports(),
            first_control,
            first_packet: first_control + 4 + outages + starts,
            packets: Packets::new(),
            messages: Messages::default(),
            answers: VecDeque::new(),
            outbox: Outbox::with_capacity(most),
            switch_rngs: (0..topology.switches())
                .map(|switch| Stream::keyed(setup.seed, switch, Purpose::Routing))
                .collect(),
            shared_bytes: vec![0; topology.switches() as usize],
            fault_rng: Stream::keyed(setup.seed, 0, Purpose::Faults),
            matches: vec![0; setup.faults.rules.len()],
            held_until: Vec::new(),
            framing: setup.network.framing,
            recorder: Recorder::new(setup.bins.clone(), ideal, own, ps(setup.duration)),
            delays: super::packets::Delays::default(),
            backlog: Backlog::default(),
            placed_bytes: 0,
            payload_bytes: 0,
            retransmitted_bytes: 0,
            retransmitted_by_host: vec![0; topology.hosts() as usize],
            level_bytes: [0; 8],
            counts: PacketCounts::default(),
            message_counts: MessageCounts::default(),
            open: u64::from(starts),
            warm: setup.warmup.is_zero(),
            measured: None,
            ended: None,
            ending: false,
            now: 0,
            steps: 0,
            events: 0,
            trail: Trail::new(),
            setup,
            make,
            traffic,
            hosts,
            pending,
            observer,
        }
    }

    /// Runs to the end.
    pub(super) fn go(&mut self) {
        self.schedule_controls();
        let there: Vec<Node> = (0..self.hosts.len() as u32)
            .map(Node)
            .filter(|host| !self.hosts[host.0 as usize].down)
            .collect();
        there.iter().for_each(|&host| self.start(host));
        there.iter().for_each(|&host| self.fetch(host));
        self.end_when_quiet();
        while self.ended.is_none() {
            let Some(key) = self.pending.pop() else {
                self.ended = Some(Ended::Finished);
                break;
            };
            // Keys count picoseconds here.
            self.now = key.at().as_ns();
            self.events += 1;
            self.event(key);
        }
    }

    #[inline]
    fn push(&mut self, at: Ps, class: Class, slot: u32) {
        self.pending.push(Key::new(Instant::from_ns(at), class, self.ties.next(), slot));
    }

    #[inline]
    fn event(&mut self, key: Key) {
        let slot = key.slot();
        if slot >= self.first_packet {
            self.packet_arrives(slot - self.first_packet);
        } else if slot < self.ports.len() as u32 {
            self.port_is_free(slot);
        } else if slot < self.first_control {
            let host = Node(slot - self.ports.len() as u32);
            match key.class() {
                Class::Timer => self.timer_is_due(host, slot),
                Class::Arrival => self.submit(host, slot),
                Class::Completion => self.offer(host),
            }
        } else {
            self.control(slot - self.first_control);
        }
    }

    fn schedule_controls(&mut self) {
        let setup = self.setup;
        let (warm, until) = (ps(setup.warmup), ps(setup.duration));
        let first = self.first_control;
        for (slot, at) in [(0, warm), (1, warm + (until - warm) / 2), (2, until)] {
            self.push(at, Class::Completion, first + slot);
        }
        self.push(until + ps(setup.drain), Class::Completion, first + 3);
        for (outage, slot) in setup.faults.outages.iter().zip((first + 4..).step_by(2)) {
            self.push(super::clock::begin(outage.from), Class::Completion, slot);
            self.push(super::clock::begin(outage.until), Class::Completion, slot + 1);
        }
        let after = first + 4 + 2 * setup.faults.outages.len() as u32;
        for (start, slot) in setup.starts.iter().zip(after..) {
            self.push(super::clock::begin(start.at), Class::Completion, slot);
        }
    }

    fn control(&mut self, number: u32) {
        let control = match number {
            0 => Control::Warm,
            1 => Control::Half,
            2 => Control::Until,
            3 => Control::End,
            n => match (n as usize - 4).checked_sub(2 * self.setup.faults.outages.len()) {
                None => Control::Outage(n as usize - 4),
                Some(start) => Control::Start(start),
            },
        };
        match control {
            Control::Warm => self.begin_record(),
            Control::Half => self.end_half(),
            Control::Until => self.end_record(),
            Control::End => {
                // A second one may come from `end_when_quiet`, and may be too early by now.
                let time_is_up = self.now >= ps(self.setup.duration) + ps(self.setup.drain);
                if self.open == 0 {
                    self.ended = Some(Ended::Finished);
                } else if time_is_up {
                    self.ended = Some(Ended::Time);
                }
                self.ending = false;
            }
            Control::Outage(index) => self.outage(index),
            Control::Start(index) => self.start_late(self.setup.starts[index].host),
        }
    }

    /// Ends the run when nothing more is to come.
    fn end_when_quiet(&mut self) {
        if self.open == 0 && !self.ending {
            self.ending = true;
            self.push(self.now + ps(self.setup.linger), Class::Timer, self.first_control + 3);
        }
    }

    fn begin_record(&mut self) {
        self.warm = true;
        for port in &mut self.ports {
            port.restart_record(self.now);
        }
        self.level_bytes = [0; 8];
        self.placed_bytes = 0;
        self.backlog.integral = 0;
        self.backlog.since = self.now;
    }

    fn end_half(&mut self) {
        self.backlog.account(self.now);
        let half_time = (ps(self.setup.duration) - ps(self.setup.warmup)) as f64 / 2.0;
        self.backlog.halves[self.backlog.halves_done] =
            self.backlog.integral as f64 / half_time / self.hosts.len() as f64;
        self.backlog.halves_done += 1;
        self.backlog.integral = 0;
    }

    fn end_record(&mut self) {
        self.end_half();
        let passed = self.now - ps(self.setup.warmup);
        self.measure(passed);
    }

    fn measure(&mut self, passed: Ps) {
        let time = passed.max(1) as f64;
        let mut classes = [ClassRecord::default(); 4];
        let mut found = [0.0; 4];
        let mut downlinks = vec![ClassRecord::default(); self.hosts.len()];
        for (port, egress) in self.ports.iter_mut().zip(self.egress) {
            port.account(self.now);
            let record = &port.record;
            let on_wire = record.found_ps as f64 * 1e-12 * port.rate.bits_per_s() as f64 / 8.0;
            let all_found = record.found_bytes as f64 + on_wire;
            let own = ClassRecord {
                ports: 1,
                mean_bytes: record.integral as f64 / time,
                found_mean_bytes: all_found / record.sent_packets.max(1) as f64,
                max_bytes: record.max_bytes,
                utilization: port.rate.time_long(record.sent_bytes) as f64 / time,
                sent_packets: record.sent_packets,
            };
            let class = &mut classes[port.class as usize];
            class.ports += 1;
            class.mean_bytes += own.mean_bytes;
            class.max_bytes = class.max_bytes.max(own.max_bytes);
            class.utilization += own.utilization;
            class.sent_packets += own.sent_packets;
            found[port.class as usize] += all_found;
            if let (PortClass::Downlink, Place::Host(host)) = (port.class, egress.to) {
                downlinks[host as usize] = own;
            }
        }
        for (class, found) in classes.iter_mut().zip(found) {
            class.found_mean_bytes = found / class.sent_packets.max(1) as f64;
            let ports = f64::from(class.ports.max(1));
            class.mean_bytes /= ports;
            class.utilization /= ports;
        }
        let bits = 8.0 * self.placed_bytes as f64;
        self.measured = Some(Measured {
            classes,
            downlinks,
            level_bytes: self.level_bytes,
            goodput_bits_per_s: bits / (time * 1e-12) / self.hosts.len() as f64,
        });
    }

    pub(super) fn finish(mut self) -> (Report, Vec<M>) {
        if self.measured.is_none() {
            // It ended early, so nothing was left for the rest of the time.
            while self.backlog.halves_done < 2 {
                self.end_half();
            }
            let passed = self.now.saturating_sub(ps(self.setup.warmup));
            self.measure(passed);
        }
        let Measured { classes, downlinks, level_bytes, goodput_bits_per_s } =
            self.measured.take().unwrap_or_else(|| unreachable!("measured above"));
        let mut messages = self.message_counts;
        for record in self.messages.iter_mut().filter(|record| !record.orphaned) {
            messages.unfinished += 1;
            messages.unfinished_counted += u64::from(record.counted);
            messages.unfinished_bytes += u64::from(record.left_bytes);
        }
        let hops = self.counts.hops;
        let report = Report {
            bins: self.recorder.finish(),
            messages,
            packets: PacketCounts {
                in_flight: u64::from(self.packets.live()),
                hops,
                ..self.counts
            },
            backlog_bytes: self.backlog.halves,
            goodput_bits_per_s,
            payload_bytes: self.payload_bytes,
            retransmitted_bytes: self.retransmitted_bytes,
            retransmitted_by_host: self.retransmitted_by_host,
            classes,
            downlinks,
            level_bytes,
            steps: self.steps,
            events: self.events,
            ended_at: self.now,
            ended: self.ended.unwrap_or(Ended::Time),
            trail: self.trail,
        };
        (report, self.hosts.into_iter().map(|host| host.machine).collect())
    }

    #[inline]
    fn fold(&mut self, mark: Mark, node: Node, word: u64) {
        let what = (mark as u64) << 56 | u64::from(node.0) << 40;
        self.trail.fold(Instant::from_ns(self.now), what ^ word.rotate_left(7));
    }

    /// A host starts that was not there. What its applications would have sent before is not sent.
    fn start_late(&mut self, node: Node) {
        self.hosts[node.0 as usize].down = false;
        self.open -= 1;
        self.start(node);
        let mut next = self.traffic.next(node, self.now);
        while next.is_some_and(|submission| submission.at < self.now) {
            self.traffic.ended(node);
            next = self.traffic.next(node, self.now);
        }
        if let Some(submission) = next {
            self.await_submission(node, submission);
        }
        self.end_when_quiet();
    }

    fn outage(&mut self, number: usize) {
        let outage = self.setup.faults.outages[number / 2];
        let begins = number.is_multiple_of(2);
        let Some(host) = self.hosts.get_mut(outage.host.0 as usize) else { return };
        match (outage.kind, begins) {
            (OutageKind::Freeze, true) => {
                host.frozen_until = host.frozen_until.max(super::clock::begin(outage.until));
            }
            (OutageKind::Freeze, false) => self.pull(outage.host),
            (OutageKind::Crash | OutageKind::Wipe, true) => {
                host.down = true;
                host.timers.clear();
                self.orphan(outage.host);
            }
            (OutageKind::Crash | OutageKind::Wipe, false) => {
                host.down = false;
                host.machine = (self.make)(outage.host);
                self.start(outage.host);
                self.fetch(outage.host);
            }
        }
        self.observer.outage(outage.host, outage.kind, begins, self.now);
        self.end_when_quiet();
    }

    /// Nobody waits for the messages of a crashed host any more.
    fn orphan(&mut self, host: Node) {
        self.backlog.account(self.now);
        for record in self.messages.iter_mut() {
            if record.from == host.0 && !record.orphaned {
                record.orphaned = true;
                self.message_counts.orphaned += 1;
                self.backlog.bytes -= u64::from(record.left_bytes);
                self.open -= 1;
                self.traffic.ended(host);
            }
        }
    }

    /// What the rules about faults have in store for a packet that begins to cross a link.
    fn fate(&mut self, port: u32, index: u32) -> Fate {
        let packet = self.packets.get(index);
        let (from, to, bare) = (packet.from(), packet.to(), packet.is_bare());
        let egress = &self.egress[port as usize];
        for (rule, matches) in self.setup.faults.rules.iter().zip(&mut self.matches) {
            let here = match rule.which.link {
                None => egress.class == PortClass::Nic,
                Some(link) => (egress.from, egress.to) == link,
            };
            if !here || !rule.which.matches(self.now, from, to, bare) {
                continue;
            }
            *matches += 1;
            return match rule.what {
                What::Down => Fate::Lost,
                What::LoseNth(n) if *matches == n => Fate::Lost,
                What::Lose(ratio) if self.fault_rng.chance(ratio) => Fate::Lost,
                What::Duplicate { ratio, after } if self.fault_rng.chance(ratio) => {
                    Fate::Copied { after: ps(after) }
                }
                What::Delay { ratio, by } if self.fault_rng.chance(ratio) => {
                    Fate::Late { by: ps(by) }
                }
                What::Rough(rough) => rough.fate(&mut self.fault_rng),
                _ => Fate::Pass,
            };
        }
        Fate::Pass
    }
}

/// The sending ends of all links, idle.
fn ports(setup: &Setup) -> Vec<Port> {
    let network = &setup.network;
    let hosts = network.topology.hosts();
    let links = setup.faults.rules.iter().map(|rule| rule.which.link);
    let concerned: Vec<_> = links.collect();
    let port = |egress: &Egress| {
        let sender = match egress.class {
            PortClass::Nic => ps(network.hosts.send) + ps(network.hosts.think),
            _ => 0,
        };
        let (to, receiver) = match egress.to {
            Place::Host(host) => (host, ps(network.hosts.receive)),
            Place::Switch(switch) => (hosts + switch, ps(network.switch_latency)),
        };
        let delay = sender + egress.propagation + receiver;
        let order = match egress.class {
            // A card sends what the transport chose, in the order in which it chose.
            PortClass::Nic => super::network::Order::Fifo,
            _ => network.order,
        };
        let mut port = Port::new(egress.rate, delay, to as u16, egress.class, order);
        if matches!(egress.to, Place::Host(_)) {
            port.taken_in(ps(network.hosts.receive_each));
        }
        port.silent_bytes = network.counting.silent_bytes;
        if let Some(bytes) = network.burst_bytes {
            port.with_burst(egress.rate.time(bytes));
        }
        port.faulty = concerned.iter().any(|link| match link {
            None => egress.class == PortClass::Nic,
            Some(link) => (egress.from, egress.to) == *link,
        });
        port
    };
    network.topology.ports().iter().map(port).collect()
}

/// Is the memory of switches shared?
fn is_shared(buffer: Buffer) -> bool {
    matches!(buffer, Buffer::Shared { .. })
}

/// A context for one step of a host's machine.
macro_rules! cx {
    ($world:ident, $host:ident) => {
        &mut Cx::new(instant($world.now), &mut $host.rng, &mut $world.outbox)
    };
}
use cx;
