//! The world on a machine small enough to be right, and on the same with a bug.

use super::*;
use crate::Machine;
use alloc::vec;

/// Hands out numbers, no number twice, and tells its peers the greatest that it has given.
struct Tickets {
    hasty: bool,
    given: u64,
    stored: Entry,
    waiting: VecDeque<(Entry, Call, u64)>,
    heard: u64,
    everybody: Vec<Node>,
    works: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Words;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Number(u64);

impl Message for Number {
    fn wire_bytes(&self) -> u64 {
        8
    }
}

impl Protocol for Words {
    type Message = Number;
    type Request = Number;
    type Response = Number;
    type Record = Number;
    type Job = ();
    type Group = ();
    type Note = ();
}

impl Tickets {
    fn new(nodes: u32, hasty: bool) -> Self {
        Tickets {
            hasty,
            given: 0,
            stored: Entry(0),
            waiting: VecDeque::new(),
            heard: 0,
            everybody: (0..nodes).map(Node).collect(),
            works: 0,
        }
    }
}

impl Talker for Tickets {
    type Protocol = Words;
    fn members(&self, (): ()) -> &[Node] {
        &self.everybody
    }
}

impl Machine for Tickets {
    type Input = Input<Words>;
    type Effect = Effect<Words>;
    type Timer = ();

    fn effects_max(&self) -> usize {
        6
    }

    fn start(&mut self, cx: &mut Cx<'_, Effect<Words>, ()>) {
        cx.arm((), cx.now() + Span::from_ms(5));
    }

    fn handle(&mut self, input: Input<Words>, cx: &mut Cx<'_, Effect<Words>, ()>) {
        match input {
            Input::Call { call, .. } => {
                self.given += 1;
                let (entry, number) = (Entry(self.given), self.given);
                cx.emit(Effect::Store { entry, record: Number(number) });
                if self.hasty {
                    cx.emit(Effect::Reply { call, response: Number(number) });
                } else {
                    self.waiting.push_back((entry, call, number));
                }
                if number.is_multiple_of(5) {
                    cx.emit(Effect::Work { work: Work(self.works), job: () });
                    cx.emit(Effect::Cancel { work: Work(self.works) });
                    self.works += 1;
                }
            }
            Input::Stored { upto } => {
                self.stored = upto;
                // Bounded: the rest goes on with the timer.
                for _ in 0..4 {
                    match self.waiting.front() {
                        Some(&(entry, call, number)) if entry <= upto => {
                            self.waiting.pop_front();
                            cx.emit(Effect::Reply { call, response: Number(number) });
                        }
                        _ => return,
                    }
                }
                cx.arm((), cx.now());
            }
            Input::Replay { record, .. } => self.given = record.0,
            Input::Rx { message, from, via, .. } => {
                self.heard = self.heard.max(message.0);
                if via == Via::Channel {
                    cx.emit(Effect::Send { to: from, via: Via::Datagram, message });
                }
            }
            Input::Recovered { .. } => self.stored = Entry(self.given),
            Input::Broken { .. } | Input::WorkDone { .. } => {}
        }
    }

    fn expire(&mut self, (): (), cx: &mut Cx<'_, Effect<Words>, ()>) {
        let upto = self.stored;
        let message = Number(upto.0.max(1));
        cx.emit(Effect::Cast { to: (), via: Via::Channel, message });
        cx.arm((), cx.now() + Span::from_ms(5));
        for _ in 0..3 {
            match self.waiting.front() {
                Some(&(entry, call, number)) if entry <= upto => {
                    self.waiting.pop_front();
                    cx.emit(Effect::Reply { call, response: Number(number) });
                }
                _ => break,
            }
        }
    }
}

struct Counter {
    nodes: u32,
    hasty: bool,
    left: u32,
    given: BTreeSet<(Node, u64)>,
}

impl Scene for Counter {
    type Machine = Tickets;
    fn machine(&self, _: Node) -> Tickets {
        Tickets::new(self.nodes, self.hasty)
    }
    fn ask(&mut self, rng: &mut Stream) -> Option<(Node, Number)> {
        self.left = self.left.checked_sub(1)?;
        Some((Node(rng.below(u64::from(self.nodes)) as u32), Number(0)))
    }
    fn said(&mut self, _: Instant, node: Node, effect: &Effect<Words>) {
        if let Effect::Reply { response, .. } = effect {
            let new = self.given.insert((node, response.0));
            assert!(new, "law 7: {node:?} gives {} twice", response.0);
        }
    }
}

fn scene(hasty: bool) -> Counter {
    Counter { nodes: 3, hasty, left: 300, given: BTreeSet::new() }
}

#[test]
fn law_7_what_is_stored_before_it_is_said_survives_any_crash() {
    let answered = hold(|| scene(false), Offer::rough(3, 2_000), 0..40);
    assert!(answered > 40 * 100, "{answered} answers");
}

#[test]
fn law_7_catches_a_machine_that_answers_before_it_is_stored() {
    let caught = (0..20u64).filter(|&seed| {
        let mut town = Town::new(scene(true), Offer::rough(3, 2_000), seed);
        let run = std::panic::AssertUnwindSafe(|| town.run());
        std::panic::catch_unwind(run).is_err()
    });
    let caught = caught.count();
    assert!(caught >= 10, "{caught} of 20");
}

#[test]
fn channels_keep_order_and_calm_worlds_answer_all() {
    let mut town = Town::new(scene(false), Offer::calm(3, 6_000), 7);
    town.run();
    assert_eq!((town.answered, town.open_calls(), town.crashes), (300, 0, 0));
    let heard: Vec<u64> = vec![0, 1, 2].into_iter().map(|n| town.machine(Node(n)).heard).collect();
    assert!(heard.iter().all(|&heard| heard > 50), "{heard:?}");
}
