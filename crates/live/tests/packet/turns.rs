//! A transport as small as one can be that asks, answers and survives losses: to each peer one
//! exchange after the other, packet by packet, each repeated until something newer comes back. The
//! client drives both directions: it sends its question piece by piece and then fetches the answer.
//! A new question says that the answer before it has come.

use cavy_core::family::Node;
use cavy_core::family::packet::{self, Effect, Extent, Input, Message};
use cavy_core::{Cx, Machine, Packet, Room, Span, Transmit};
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// The server looks for exchanges that nobody speaks of.
    Tick,
    /// The client repeats what it said to this peer.
    Again(u32),
}

/// What a packet says; lengths are those of whole messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Word {
    /// Client: here are bytes of the question.
    Ask(u32),
    /// Client: the answer from this byte on, please.
    Fetch,
    /// Server: the question is here up to this byte.
    Got,
    /// Server: here are bytes of the answer.
    Tell(u32),
    /// Server: there is no answer.
    Refuse,
}

impl packet::Header for Word {
    fn wire_bytes(&self) -> u32 {
        21
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Why {
    Silent,
    Refused,
}

/// The longest message.
pub const MESSAGE_MAX_BYTES: u32 = 1 << 20;

/// An exchange, at either end.
struct Turn {
    name: u64,
    question_bytes: u32,
    /// So much of the question has come, or is known to have come.
    asked: u32,
    /// 0 for a refusal.
    answer_bytes: Option<u32>,
    /// So much of the answer has come; `u32::MAX` when the other side has all of it.
    told: u32,
    silent: u32,
}

fn fits(at: u32, length_bytes: u32, total: u32) -> bool {
    length_bytes > 0 && total.checked_sub(at).is_some_and(|left| length_bytes <= left)
}

/// The machine of one host.
pub struct Turns {
    pub piece_bytes: u32,
    pub tick: Span,
    pub patience_ticks: u32,
    asking: BTreeMap<Node, VecDeque<Turn>>,
    serving: BTreeMap<Node, Turn>,
    out: VecDeque<Packet<Word>>,
}

type TurnsCx<'a> = Cx<'a, Effect<Why>, Timer>;

impl Turns {
    pub fn new(piece_bytes: u32, tick: Span, patience_ticks: u32) -> Turns {
        let (asking, serving, out) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        Turns { piece_bytes, tick, patience_ticks, asking, serving, out }
    }

    pub fn exchange_count(&self) -> usize {
        self.asking.values().map(VecDeque::len).sum::<usize>() + self.serving.len()
    }

    fn say(&mut self, to: Node, header: Word, name: u64, offset_bytes: u32, length_bytes: u32) {
        let payload = Extent { message: Message(name), offset_bytes, length_bytes };
        self.out.push_back(Packet { to, header, payload, priority: 7, rank: 0 });
    }

    /// What the client has to say to `to` now.
    fn ask(&mut self, to: Node) {
        let Some(turn) = self.asking.get(&to).and_then(VecDeque::front) else { return };
        let (name, total, at) = (turn.name, turn.question_bytes, turn.asked);
        match total - at {
            0 => self.say(to, Word::Fetch, name, turn.told, 0),
            left => self.say(to, Word::Ask(total), name, at, left.min(self.piece_bytes)),
        }
    }

    /// What the server has of the answer from byte `at` on.
    fn tell(&mut self, to: Node, at: u32) {
        let Some(turn) = self.serving.get_mut(&to) else { return };
        let (name, got, answer_bytes) = (turn.name, turn.asked, turn.answer_bytes);
        match answer_bytes {
            Some(0) => self.say(to, Word::Refuse, name + 1, 0, 0),
            Some(total) if at < total => {
                self.say(to, Word::Tell(total), name + 1, at, (total - at).min(self.piece_bytes));
            }
            _ => self.say(to, Word::Got, name + 1, got, 0),
        }
    }

    /// The answer is not wanted any more.
    fn release(&mut self, peer: Node, cx: &mut TurnsCx<'_>) {
        let Some(turn) = self.serving.get_mut(&peer) else { return };
        if turn.answer_bytes.is_some_and(|bytes| bytes > 0) && turn.told != u32::MAX {
            turn.told = u32::MAX;
            cx.emit(Effect::Released { peer, message: Message(turn.name + 1) });
        }
    }

    /// The first exchange with `peer` is over.
    fn next(&mut self, peer: Node) {
        self.asking.get_mut(&peer).map(VecDeque::pop_front);
        self.ask(peer);
    }

    /// The server gives up what nobody speaks of any more.
    fn forget(&mut self, cx: &mut TurnsCx<'_>) {
        for turn in self.serving.values_mut() {
            turn.silent += 1;
        }
        let patience = 2 * self.patience_ticks;
        while let Some((&peer, turn)) = self.serving.iter().find(|(_, t)| t.silent > patience) {
            if turn.asked < turn.question_bytes {
                let message = Message(turn.name);
                cx.emit(Effect::Failed { peer, message, why: Why::Silent });
            }
            self.release(peer, cx);
            self.serving.remove(&peer);
        }
    }

    fn heard_at_server(&mut self, from: Node, word: Word, extent: Extent, cx: &mut TurnsCx<'_>) {
        let Extent { message, offset_bytes: at, length_bytes } = extent;
        let known = self.serving.get(&from).map(|turn| turn.name);
        match word {
            Word::Ask(total) if total > MESSAGE_MAX_BYTES => return,
            Word::Ask(total) if known.is_none_or(|name| name < message.0) => {
                self.release(from, cx);
                let before =
                    self.serving.get(&from).filter(|turn| turn.asked < turn.question_bytes);
                if let Some(&Turn { name, .. }) = before {
                    let message = Message(name);
                    cx.emit(Effect::Failed { peer: from, message, why: Why::Silent });
                }
                let (name, question_bytes) = (message.0, total);
                let (answer_bytes, told, silent) = (None, 0, 0);
                let turn = Turn { name, question_bytes, asked: 0, answer_bytes, told, silent };
                self.serving.insert(from, turn);
            }
            _ if known != Some(message.0) => return,
            _ => {}
        }
        let Some(turn) = self.serving.get_mut(&from) else { return };
        turn.silent = 0;
        match word {
            Word::Ask(total) => {
                let fits = fits(at, length_bytes, total);
                if fits && at == turn.asked && total == turn.question_bytes {
                    turn.asked += length_bytes;
                    cx.emit(Effect::Place { from, extent });
                    if turn.asked == total {
                        cx.emit(Effect::Delivered { from, message, length_bytes: total });
                    }
                }
                let got = turn.asked;
                self.say(from, Word::Got, message.0 + 1, got, 0);
            }
            _ if turn.answer_bytes.is_some_and(|total| total > 0 && at >= total) => {
                self.release(from, cx);
            }
            _ => self.tell(from, at),
        }
    }

    fn heard_at_client(&mut self, from: Node, word: Word, extent: Extent, cx: &mut TurnsCx<'_>) {
        let Extent { message, offset_bytes: at, length_bytes } = extent;
        let Some(turn) = self.asking.get_mut(&from).and_then(VecDeque::front_mut) else { return };
        if turn.name != message.question().0 {
            return;
        }
        turn.silent = 0;
        match word {
            Word::Got if at > turn.asked && at <= turn.question_bytes => turn.asked = at,
            Word::Tell(total) if at == turn.told && fits(at, length_bytes, total) => {
                if *turn.answer_bytes.get_or_insert(total) != total || total > MESSAGE_MAX_BYTES {
                    return;
                }
                (turn.asked, turn.told) = (turn.question_bytes, turn.told + length_bytes);
                let (name, told) = (turn.name, turn.told);
                cx.emit(Effect::Place { from, extent });
                if told == total {
                    cx.emit(Effect::Delivered { from, message, length_bytes: total });
                    self.say(from, Word::Fetch, name, total, 0);
                    return self.next(from);
                }
            }
            Word::Refuse => {
                let (peer, message) = (from, message.question());
                cx.emit(Effect::Failed { peer, message, why: Why::Refused });
                return self.next(from);
            }
            // Nothing new: the tick repeats what was said.
            _ => return,
        }
        self.ask(from);
    }
}

impl Machine for Turns {
    type Input = Input<Word>;
    type Effect = Effect<Why>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        64
    }

    fn start(&mut self, cx: &mut TurnsCx<'_>) {
        cx.arm(Timer::Tick, cx.now() + self.tick);
    }

    fn handle(&mut self, input: Input<Word>, cx: &mut TurnsCx<'_>) {
        match input {
            Input::Submit { to, message, length_bytes: question_bytes, .. } => {
                let (name, answer_bytes, silent) = (message.0, None, 0);
                let turn = Turn { name, question_bytes, asked: 0, answer_bytes, told: 0, silent };
                let turns = self.asking.entry(to).or_default();
                turns.push_back(turn);
                if turns.len() == 1 {
                    cx.arm(Timer::Again(to.0), cx.now() + self.tick);
                    self.ask(to);
                }
            }
            Input::Answer { to, question, length_bytes } => match self.serving.get_mut(&to) {
                Some(turn) if turn.name == question.0 => {
                    turn.answer_bytes = Some(length_bytes);
                    self.tell(to, 0);
                }
                _ => {
                    let (peer, message) = (to, question.answer());
                    cx.emit(Effect::Failed { peer, message, why: Why::Silent });
                }
            },
            Input::Cancel { message } => {
                let of = |turns: &VecDeque<Turn>| turns.iter().position(|t| t.name == message.0);
                let found = self.asking.iter().find_map(|(&to, turns)| Some((to, of(turns)?)));
                if let Some((to, place)) = found {
                    self.asking.get_mut(&to).map(|turns| turns.remove(place));
                    self.ask(to);
                }
            }
            Input::Rx { from, header, payload, .. } => match payload.message.is_answer() {
                true => self.heard_at_client(from, header, payload, cx),
                false => self.heard_at_server(from, header, payload, cx),
            },
        }
    }

    fn expire(&mut self, timer: Timer, cx: &mut TurnsCx<'_>) {
        cx.arm(timer, cx.now() + self.tick);
        let Timer::Again(peer) = timer else { return self.forget(cx) };
        let peer = Node(peer);
        let Some(turn) = self.asking.get_mut(&peer).and_then(VecDeque::front_mut) else {
            self.asking.remove(&peer);
            return cx.disarm(timer);
        };
        turn.silent += 1;
        let (over, message) = (turn.silent > self.patience_ticks, Message(turn.name));
        if over {
            cx.emit(Effect::Failed { peer, message, why: Why::Silent });
            self.next(peer);
        } else {
            self.ask(peer);
        }
    }
}

impl Transmit for Turns {
    type Header = Word;

    fn pull(&mut self, _: Room, _: &mut TurnsCx<'_>) -> Option<Packet<Word>> {
        self.out.pop_front()
    }
}
