//! Nodes on real sockets and disks, in one process: what the world promises machines.

use cavy_core::family::Node;
use cavy_core::family::message::{
    Call, Effect, Entry, Input, Message, Protocol, Talker, Via, Work,
};
use cavy_core::{Cx, Instant, Machine, Span};
use cavy_node::{
    Handle, Jobs, Links, Live, LogOptions, NoJobs, Options, Postcard, Skew, Way, replay, start,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
enum Word {
    /// A number of the sender's.
    Said(u64, Vec<u8>),
    /// To be asked for by clients.
    Say {
        to: u32,
        many: u64,
        bytes: u32,
        datagrams: bool,
    },
    Tell {
        many: u64,
    },
    Keep(u64),
    Wait {
        ms: u64,
    },
    Work {
        spin: bool,
        cancel: bool,
    },
    /// Answers.
    Done(u64),
}

impl Message for Word {
    fn wire_bytes(&self) -> u64 {
        8
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Words;

impl Protocol for Words {
    type Message = Word;
    type Request = Word;
    type Response = Word;
    type Record = Word;
    type Job = bool;
    type Group = ();
    type Note = u64;
}

/// Says numbers, and remembers what it hears.
#[derive(Default)]
struct Chatter {
    everyone: Vec<Node>,
    said: u64,
    /// What came on channels and otherwise, in order; `None`: the channel broke.
    heard: BTreeMap<Node, Vec<Option<u64>>>,
    datagrams: Vec<u64>,
    delays: Vec<Span>,
    kept: Vec<u64>,
    replayed: Vec<u64>,
    recovered: Option<bool>,
    stores: Vec<(Entry, Call)>,
    waits: Vec<Call>,
    works: Vec<Call>,
    last: u64,
    walls: Vec<(Instant, Instant)>,
}

impl Chatter {
    fn new(nodes: u32) -> Chatter {
        Chatter { everyone: (0..nodes).map(Node).collect(), ..Chatter::default() }
    }
}

type C<'a> = Cx<'a, Effect<Words>, u32>;

impl Machine for Chatter {
    type Input = Input<Words>;
    type Effect = Effect<Words>;
    type Timer = u32;

    fn effects_max(&self) -> usize {
        100_000
    }

    fn start(&mut self, cx: &mut C<'_>) {
        cx.emit(Effect::Note(cx.now().as_ns()));
    }

    fn handle(&mut self, input: Input<Words>, cx: &mut C<'_>) {
        self.walls.push((cx.now(), cx.wall()));
        match input {
            Input::Rx { from, via: Via::Channel, message: Word::Said(number, _), arrived } => {
                self.heard.entry(from).or_default().push(Some(number));
                self.delays.push(cx.now().since(arrived));
            }
            Input::Rx { message: Word::Said(number, _), .. } => self.datagrams.push(number),
            Input::Rx { .. } => {}
            Input::Broken { peer } => self.heard.entry(peer).or_default().push(None),
            Input::Call { call, request } => match request {
                Word::Say { to, many, bytes, datagrams } => {
                    let via = if datagrams { Via::Datagram } else { Via::Channel };
                    for _ in 0..many {
                        self.said += 1;
                        let message = Word::Said(self.said, vec![7; bytes as usize]);
                        cx.emit(Effect::Send { to: Node(to), via, message });
                    }
                    cx.emit(Effect::Reply { call, response: Word::Done(self.said) });
                }
                Word::Tell { many } => {
                    for _ in 0..many {
                        self.said += 1;
                        let message = Word::Said(self.said, vec![cx.rng().bits() as u8]);
                        cx.emit(Effect::Cast { to: (), via: Via::Channel, message });
                    }
                    cx.emit(Effect::Reply { call, response: Word::Done(self.said) });
                }
                Word::Keep(number) => {
                    self.last += 1;
                    self.kept.push(number);
                    let entry = Entry(self.last);
                    self.stores.push((entry, call));
                    cx.emit(Effect::Store { entry, record: Word::Keep(number) });
                }
                Word::Wait { ms } => {
                    self.waits.push(call);
                    let timer = self.waits.len() as u32;
                    cx.arm(timer, cx.now() + Span::from_ms(ms));
                    // One that is armed anew, and one that is taken back.
                    cx.arm(1_000, cx.now());
                    cx.disarm(1_000);
                }
                Word::Work { spin, cancel } => {
                    self.works.push(call);
                    let work = Work(self.works.len() as u64);
                    cx.emit(Effect::Work { work, job: spin });
                    if cancel {
                        cx.emit(Effect::Cancel { work });
                    }
                }
                _ => {}
            },
            Input::Stored { upto } => {
                while self.stores.first().is_some_and(|(entry, _)| *entry <= upto) {
                    let (entry, call) = self.stores.remove(0);
                    cx.emit(Effect::Reply { call, response: Word::Done(entry.0) });
                }
            }
            Input::Replay { entry, record: Word::Keep(number) } => {
                self.last = entry.0;
                self.replayed.push(number);
            }
            Input::Replay { .. } => {}
            Input::Recovered { torn } => self.recovered = Some(torn),
            Input::WorkDone { work, took, finished } => {
                let response = Word::Done(if finished { 1 + took.as_ns() } else { 0 });
                cx.emit(Effect::Reply { call: self.works[work.0 as usize - 1], response });
            }
        }
    }

    fn expire(&mut self, timer: u32, cx: &mut C<'_>) {
        let call = self.waits[timer as usize - 1];
        cx.emit(Effect::Reply { call, response: Word::Done(timer.into()) });
    }
}

impl Talker for Chatter {
    type Protocol = Words;

    fn members(&self, (): ()) -> &[Node] {
        &self.everyone
    }
}

struct Spinner;

impl Jobs<Words> for Spinner {
    fn run(&self, _: Work, spin: &bool, cancelled: &AtomicBool) {
        while *spin && !cancelled.load(Relaxed) {
            std::hint::spin_loop();
        }
    }
}

/// What spins gives way to everything else.
struct Polite;

impl Jobs<Words> for Polite {
    fn run(&self, work: Work, spin: &bool, cancelled: &AtomicBool) {
        Spinner.run(work, spin, cancelled);
    }

    fn gives_way(&self, spin: &bool) -> bool {
        *spin
    }
}

/// Addresses that were free a moment ago, on a loopback address that no other test or process has:
/// there nobody takes them meanwhile.
fn addresses(many: u32) -> Vec<(Node, SocketAddr)> {
    static TAKEN: AtomicU8 = AtomicU8::new(1);
    // Numbers of processes have 22 bits at most; the lowest 14 tell few apart.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let own = [127, 64 | (high & 63), low, TAKEN.fetch_add(1, Relaxed)];
    let held: Vec<TcpListener> =
        (0..many).map(|_| TcpListener::bind((Ipv4Addr::from(own), 0)).unwrap()).collect();
    let of = |(node, held): (u32, &TcpListener)| (Node(node), held.local_addr().unwrap());
    (0..many).zip(&held).map(of).collect()
}

fn options(peers: &[(Node, SocketAddr)], node: u32) -> Options {
    let mut options = Options::new("test", Node(node), peers[node as usize].1);
    options.peers = peers.to_vec();
    options
}

fn run(options: Options) -> Live<Chatter> {
    let nodes = options.peers.len() as u32;
    start(options, move || Chatter::new(nodes), Postcard, NoJobs, |_, _| {}).expect("it starts")
}

fn ask(node: &Handle<Chatter>, word: Word) -> Receiver<Word> {
    let (tell, told) = channel();
    node.call(word, move |answer| drop(tell.send(answer)));
    told
}

fn asked(node: &Handle<Chatter>, word: Word) -> u64 {
    match ask(node, word).recv_timeout(PATIENCE) {
        Ok(Word::Done(number)) => number,
        other => panic!("{other:?}"),
    }
}

/// Waits until the machine says so.
fn until(
    node: &Handle<Chatter>,
    what: &str,
    holds: impl Fn(&Chatter) -> bool + Clone + Send + 'static,
) {
    let began = cavy_clock::now();
    while !node.look(holds.clone()).unwrap_or(false) {
        let waited = cavy_clock::now().since(began);
        assert!(waited < Span::from_ms(20_000), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn peers_up(node: &Handle<Chatter>, many: u64) {
    let began = cavy_clock::now();
    while node.figures().peers_up.load(Relaxed) != many {
        assert!(cavy_clock::now().since(began) < Span::from_ms(20_000));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn heard(node: &Handle<Chatter>, from: u32) -> Vec<Option<u64>> {
    node.look(move |m| m.heard.get(&Node(from)).cloned().unwrap_or_default()).unwrap()
}

fn end(node: Live<Chatter>) {
    node.handle().stop();
    node.join().expect("it ends well");
}

fn say(to: u32, many: u64) -> Word {
    Word::Say { to, many, bytes: 10, datagrams: false }
}

fn numbers(range: std::ops::RangeInclusive<u64>) -> Vec<Option<u64>> {
    range.map(Some).collect()
}

#[test]
fn channels_go_on_after_cuts_without_gap_or_repetition() {
    let peers = addresses(2);
    let (a, b) = (run(options(&peers, 0)), run(options(&peers, 1)));
    // Sent before the two have met, and then through three cuts.
    asked(a.handle(), say(1, 100));
    until(b.handle(), "the first hundred", |m| {
        m.heard.get(&Node(0)).is_some_and(|h| h.len() == 100)
    });
    for cut in 1..=3 {
        let side = if cut % 2 == 0 { a.handle() } else { b.handle() };
        asked(a.handle(), say(1, 500));
        side.links().cut(Node(u32::from(cut % 2 == 0)));
        asked(a.handle(), say(1, 500));
        peers_up(a.handle(), 0);
        side.links().mend(Node(u32::from(cut % 2 == 0)));
        peers_up(a.handle(), 1);
    }
    until(b.handle(), "all", |m| m.heard.get(&Node(0)).is_some_and(|h| h.len() >= 3_100));
    assert_eq!(heard(b.handle(), 0), numbers(1..=3_100));
    assert_eq!(a.handle().figures().connected.load(Relaxed), 4);
    assert_eq!(a.handle().figures().broken.load(Relaxed), 0);
    end(a);
    end(b);
}

#[test]
fn a_peer_that_lost_its_memory_breaks_both_directions_once() {
    let peers = addresses(3);
    let (a, b) = (run(options(&peers, 0)), run(options(&peers, 1)));
    let c = run(options(&peers, 2));
    asked(a.handle(), Word::Tell { many: 5 });
    until(b.handle(), "five", |m| m.heard.get(&Node(0)).is_some_and(|h| h.len() == 5));
    // Who never met its first life cannot notice its end.
    peers_up(c.handle(), 2);
    end(b);
    // For whom was there, and is not: it is lost, and both are told.
    asked(a.handle(), say(1, 50));
    let b = run(options(&peers, 1));
    until(a.handle(), "the break", |m| m.heard.get(&Node(1)).is_some_and(|h| h == &[None]));
    asked(a.handle(), say(1, 3));
    until(b.handle(), "three", |m| m.heard.get(&Node(0)).is_some_and(|h| h.len() == 4));
    assert_eq!(heard(b.handle(), 0), [&[None], &numbers(56..=58)[..]].concat());
    // The third one has noticed nothing of the two, and of the second what it must.
    assert_eq!(heard(c.handle(), 0), numbers(1..=5));
    until(c.handle(), "its break", |m| m.heard.get(&Node(1)).is_some_and(|h| h == &[None]));
    for node in [a, b, c] {
        end(node);
    }
}

#[test]
fn too_much_for_a_dead_peer_breaks_its_channel_and_holds_up_nobody() {
    let peers = addresses(3);
    let few = Options { kept_bytes_max: 100_000, ..options(&peers, 0) };
    let (a, b) = (run(few), run(options(&peers, 1)));
    asked(a.handle(), Word::Say { to: 2, many: 2_000, bytes: 1_000, datagrams: false });
    asked(a.handle(), say(1, 10));
    until(b.handle(), "ten", |m| m.heard.get(&Node(0)).is_some_and(|h| h.len() == 10));
    until(a.handle(), "the break", |m| m.heard.get(&Node(2)).is_some_and(|h| h == &[None]));
    assert!(a.handle().figures().kept_bytes.load(Relaxed) <= 100_000);
    // The dead peer is born: both hear of the break, then what was sent after it.
    let c = run(options(&peers, 2));
    until(a.handle(), "the second word", |m| m.heard.get(&Node(2)).is_some_and(|h| h.len() == 2));
    let last = asked(a.handle(), say(2, 1));
    until(c.handle(), "one", move |m| {
        m.heard.get(&Node(0)).is_some_and(|h| h == &[None, Some(last)])
    });
    for node in [a, b, c] {
        end(node);
    }
}

#[test]
fn delays_are_kept_and_the_others_are_not_delayed() {
    let peers = addresses(3);
    let links = Links::new();
    links.set(Node(0), Way { one_way: Span::from_ms(50), jitter: Span::from_ms(10) });
    let far = Options { links, ..options(&peers, 2) };
    let (a, b, c) = (run(options(&peers, 0)), run(options(&peers, 1)), run(far));
    asked(a.handle(), Word::Tell { many: 1 });
    until(c.handle(), "the first", |m| m.heard.get(&Node(0)).is_some_and(|h| h.len() == 1));
    let began = cavy_clock::now();
    asked(a.handle(), Word::Tell { many: 20 });
    until(b.handle(), "the near one", |m| m.heard[&Node(0)].len() == 21);
    let near = cavy_clock::now().since(began);
    until(c.handle(), "the far one", |m| m.heard[&Node(0)].len() == 21);
    let far = cavy_clock::now().since(began);
    assert!(far >= Span::from_ms(40), "{far}");
    assert!(near < far, "{near} {far}");
    assert_eq!(heard(c.handle(), 0), numbers(1..=21));
    for node in [a, b, c] {
        end(node);
    }
}

#[test]
fn messages_on_their_way_wake_nobody_but_for_rounds() {
    let peers = addresses(2);
    let links = Links::new();
    links.set(Node(0), Way { one_way: Span::from_ms(60_000), jitter: Span::ZERO });
    let far = Options { links: links.clone(), ..options(&peers, 1) };
    let (a, b) = (run(options(&peers, 0)), run(far));
    peers_up(b.handle(), 1);
    let (figures, many) = (b.handle().figures(), 2_000);
    let counted = || (figures.wakes.load(Relaxed), figures.turns.load(Relaxed));
    let (before, began) = (counted(), cavy_clock::now());
    for _ in 0..many {
        asked(a.handle(), say(1, 1));
    }
    while figures.received.load(Relaxed) < many {
        assert!(cavy_clock::now().since(began) < Span::from_ms(20_000));
        std::thread::sleep(Duration::from_millis(1));
    }
    let (after, passed) = (counted(), cavy_clock::now().since(began).as_us() / 1e3);
    // A round every 5 ms at most, and a turn every 10; what each message costs is beyond that.
    let (wakes, turns) = (after.0 - before.0, after.1 - before.1);
    assert!(wakes as f64 <= passed / 5.0 + 10.0, "{wakes} wakes in {passed} ms");
    assert!(turns as f64 <= passed / 5.0 + 10.0, "{turns} turns in {passed} ms");
    assert_eq!(heard(b.handle(), 0), []);
    // A way that is short from now on is read at once, and what comes stays behind what is held.
    links.set(Node(0), Way::default());
    asked(a.handle(), say(1, 1));
    until(b.handle(), "nothing", |m| m.heard.is_empty());
    end(a);
    end(b);
}

#[test]
fn ways_that_change_while_messages_come_lose_none_and_keep_their_order() {
    let peers = addresses(2);
    let links = Links::new();
    let far = Options { links: links.clone(), ..options(&peers, 1) };
    let (a, b) = (run(options(&peers, 0)), run(far));
    peers_up(b.handle(), 1);
    let mut last = 0;
    for turn in 0..40 {
        let one_way = [Span::ZERO, Span::from_ms(4)][turn % 2];
        links.set(Node(0), Way { one_way, jitter: Span::ZERO });
        last = asked(a.handle(), say(1, 50));
        std::thread::sleep(Duration::from_millis(turn as u64 % 5));
    }
    until(b.handle(), "all", |m| m.heard.get(&Node(0)).is_some_and(|h| h.len() == 2_000));
    assert_eq!(last, 2_000);
    assert_eq!(heard(b.handle(), 0), numbers(1..=2_000));
    end(a);
    end(b);
}

#[test]
fn another_key_name_or_form_is_refused_and_named() {
    let peers = addresses(2);
    let a = run(options(&peers, 0));
    for other in [
        Options { key: b"guess".to_vec(), ..options(&peers, 1) },
        Options { cluster: "another".into(), ..options(&peers, 1) },
        Options { format: 2, ..options(&peers, 1) },
    ] {
        let b = run(other);
        asked(b.handle(), say(0, 1));
        let began = cavy_clock::now();
        while b.handle().figures().refused.load(Relaxed) == 0 {
            assert!(cavy_clock::now().since(began) < Span::from_ms(20_000));
            std::thread::sleep(Duration::from_millis(5));
        }
        let why = b.handle().figures().refusal.lock().clone().unwrap();
        assert_eq!(why, "node 0 is of another cluster or has another key");
        end(b);
    }
    assert!(heard(a.handle(), 1).is_empty());
    end(a);
}

#[test]
fn strangers_cost_nothing_but_their_connection() {
    use std::io::{Read as _, Write as _};
    let peers = addresses(2);
    let (a, b) = (run(options(&peers, 0)), run(options(&peers, 1)));
    let mut idle = Vec::new();
    for bytes in [
        &[][..],
        b"GET / HTTP/1.1\r\n\r\n",
        &[255; 64],
        &[0; 64],
        &[4, 0, 0, 0, 9, 9, 9, 9, 1, 2, 3, 4],
    ] {
        let mut stream = TcpStream::connect(peers[0].1).unwrap();
        stream.write_all(bytes).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        if !bytes.is_empty() {
            assert!(!matches!(stream.read(&mut [0; 10]), Ok(1..)), "it is not answered");
        }
        idle.push(stream);
    }
    asked(b.handle(), say(0, 1_000));
    until(a.handle(), "a thousand", |m| m.heard.get(&Node(1)).is_some_and(|h| h.len() == 1_000));
    end(a);
    end(b);
}

#[test]
fn datagrams_come_and_those_that_are_too_long_do_not() {
    let peers = addresses(2);
    let (a, b) = (run(options(&peers, 0)), run(options(&peers, 1)));
    asked(a.handle(), Word::Say { to: 1, many: 1, bytes: 100_000, datagrams: true });
    // On loopback a few arrive.
    asked(a.handle(), Word::Say { to: 1, many: 20, bytes: 1_000, datagrams: true });
    until(b.handle(), "some", |m| m.datagrams.len() >= 10);
    assert!(b.handle().look(|m| m.datagrams.iter().all(|number| *number > 1)).unwrap());
    assert_eq!(a.handle().figures().datagrams_lost.load(Relaxed), 1);
    end(a);
    end(b);
}

#[test]
fn timers_fire_when_due_and_work_ends_once_however_it_ends() {
    let peers = addresses(1);
    let worked = Options { workers: 1, ..options(&peers, 0) };
    let node = start(worked, || Chatter::new(1), Postcard, Spinner, |_, _| {}).unwrap();
    let began = cavy_clock::now();
    let (slow, fast) =
        (ask(node.handle(), Word::Wait { ms: 60 }), ask(node.handle(), Word::Wait { ms: 20 }));
    assert_eq!(fast.recv_timeout(PATIENCE), Ok(Word::Done(2)));
    assert!(cavy_clock::now().since(began) >= Span::from_ms(20));
    assert_eq!(slow.recv_timeout(PATIENCE), Ok(Word::Done(1)));
    assert!(cavy_clock::now().since(began) >= Span::from_ms(60));
    assert!(asked(node.handle(), Word::Work { spin: false, cancel: false }) > 0);
    // Cancelled at once, perhaps while it runs, perhaps before.
    for _ in 0..20 {
        assert_eq!(asked(node.handle(), Word::Work { spin: true, cancel: true }), 0);
    }
    end(node);
}

#[test]
fn nobody_waits_behind_work_that_gives_way() {
    let peers = addresses(1);
    let worked = Options { workers: 1, ..options(&peers, 0) };
    let node = start(worked, || Chatter::new(1), Postcard, Polite, |_, _| {}).unwrap();
    let spinning = ask(node.handle(), Word::Work { spin: true, cancel: false });
    for _ in 0..20 {
        assert!(asked(node.handle(), Word::Work { spin: false, cancel: false }) > 0);
        // Of those that give way one waits behind the other, and is cancelled all the same.
        assert_eq!(asked(node.handle(), Word::Work { spin: true, cancel: true }), 0);
    }
    assert!(spinning.try_recv().is_err(), "it is at work");
    end(node);
}

#[test]
fn what_was_stored_is_replayed_in_the_next_life() {
    let folder = tempfile::tempdir().unwrap();
    let peers = addresses(1);
    let logged =
        || Options { log: Some(LogOptions::at(folder.path().join("log"))), ..options(&peers, 0) };
    let node = run(logged());
    for number in 1..=20 {
        assert_eq!(asked(node.handle(), Word::Keep(number * 10)), number);
    }
    assert_eq!(node.handle().life(), 1);
    assert_eq!(node.handle().look(|m| m.recovered), Some(None));
    assert!(node.handle().figures().sync.count() >= 1);
    end(node);
    let node = run(logged());
    assert_eq!(node.handle().life(), 2);
    until(node.handle(), "recovery", |m| m.recovered == Some(false));
    let replayed = node.handle().look(|m| m.replayed.clone()).unwrap();
    assert_eq!(replayed, (1..=20).map(|n| n * 10).collect::<Vec<_>>());
    assert_eq!(asked(node.handle(), Word::Keep(1)), 21, "numbers go on");
    end(node);
    // Another node's log is not taken.
    let other = Options {
        log: Some(LogOptions::at(folder.path().join("log"))),
        node: Node(7),
        ..options(&peers, 0)
    };
    let refused = start(other, || Chatter::new(1), Postcard, NoJobs, |_, _| {}).err().unwrap();
    assert!(refused.to_string().ends_with("it belongs to node 0, and this is node 7"), "{refused}");
}

#[test]
fn wall_clocks_are_wrong_and_steps_go_back_but_the_other_clock_does_not() {
    let peers = addresses(1);
    let skewed =
        Options { skew: Skew { offset_ns: 5_000_000_000, drift_ppm: 0 }, ..options(&peers, 0) };
    let node = run(skewed);
    asked(node.handle(), Word::Tell { many: 0 });
    node.handle().wall().step(-10_000_000_000);
    asked(node.handle(), Word::Tell { many: 0 });
    let times = node.handle().look(|m| m.walls.clone()).unwrap();
    let [(before, ahead), (after, behind)] = times[..] else { panic!("{times:?}") };
    assert!(after >= before);
    let back = ahead.since(behind);
    assert!(back > Span::from_ms(9_000) && back <= Span::from_ms(10_000), "{back}");
    end(node);
}

fn replayed(path: &Path, nodes: u32) -> cavy_node::Replayed {
    replay(path, &Postcard, |_| Ok(Chatter::new(nodes))).expect("a fresh machine decides the same")
}

#[test]
fn a_fresh_machine_decides_what_was_recorded_with_breaks_and_all() {
    let folder = tempfile::tempdir().unwrap();
    let peers = addresses(3);
    let recorded = |node: u32, life: u32| Options {
        record: Some(folder.path().join(format!("{node}-{life}"))),
        log: Some(LogOptions::at(folder.path().join(format!("log-{node}")))),
        about: "three nodes".into(),
        ..options(&peers, node)
    };
    let mut nodes: Vec<_> = (0..3).map(|node| run(recorded(node, 1))).collect();
    for round in 0..30 {
        for node in &nodes {
            asked(node.handle(), Word::Tell { many: 20 });
            asked(node.handle(), Word::Keep(round));
            asked(node.handle(), Word::Wait { ms: 1 });
        }
    }
    end(nodes.remove(1));
    nodes.insert(1, run(recorded(1, 2)));
    until(nodes[0].handle(), "the break", |m| m.heard[&Node(1)].contains(&None));
    for node in &nodes {
        asked(node.handle(), Word::Tell { many: 20 });
    }
    for node in nodes {
        end(node);
    }
    for name in ["0-1", "1-1", "1-2", "2-1"] {
        let path = folder.path().join(name);
        let found = replayed(&path, 3);
        assert!(found.whole && found.agreed == found.steps, "{name}: {found:?}");
        assert_eq!(cavy_node::record::header(&path).unwrap().about, "three nodes");
    }
    // A recording of a node that was killed is right as far as it goes.
    let path = folder.path().join("0-1");
    let bytes = std::fs::read(&path).unwrap();
    let whole = replayed(&path, 3);
    std::fs::write(&path, &bytes[..bytes.len() * 3 / 4]).unwrap();
    let part = replayed(&path, 3);
    assert!(!part.whole && part.steps < whole.steps && part.agreed > 0, "{part:?}");
    // A machine that is another one parts from it.
    std::fs::write(&path, &bytes).unwrap();
    let other = replay(&path, &Postcard, |_| Ok(Chatter { said: 1, ..Chatter::new(3) }));
    assert!(matches!(other, Err(cavy_node::ReplayError::Parted { .. })), "{other:?}");
    // Of a file without an end no more is read than shows what it is.
    let device = cavy_node::record::header(std::path::Path::new("/dev/zero"));
    assert!(matches!(device, Err(cavy_node::ReplayError::Header(_))), "no recording");
}
