//! What a sender knows of each packet of a message: flying, acknowledged or lost.

use alloc::collections::VecDeque;

/// Acknowledged packets above an unacknowledged one that prove its loss (RFC 6675).
const PROOF: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Flying,
    Acked,
    Lost,
}

/// The packets of one message, 0 to `packets - 1`.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    packets: u32,
    /// Is loss proved by order ([`Scoreboard::judge`])?
    judges: bool,
    /// All below are acknowledged.
    first: u32,
    /// The packets from `first` to the last one ever sent.
    states: VecDeque<State>,
    flying: u32,
    lost: u32,
    acked: u32,
    /// No packet below is lost.
    lost_from: u32,
    /// The highest packets acknowledged, plus one, highest first.
    highest: [u32; PROOF],
    /// All below were judged once by what was acknowledged above them.
    judged: u32,
    /// Retransmissions in the order of sending, each with the first packet not sent before it.
    resent: VecDeque<(u32, u32)>,
}

impl Scoreboard {
    /// Starts over for a message of `packets` packets; keeps its memory. `judges` says whether
    /// [`Scoreboard::judge`] will be asked.
    pub fn restart(&mut self, packets: u32, judges: bool) {
        self.states.clear();
        self.resent.clear();
        let states = core::mem::take(&mut self.states);
        let resent = core::mem::take(&mut self.resent);
        *self = Scoreboard { packets, judges, states, resent, ..Scoreboard::default() };
    }

    /// Packets of the message.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Packets sent that are neither acknowledged nor taken for lost.
    pub fn flying(&self) -> u32 {
        self.flying
    }

    /// Packets taken for lost and not sent again.
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Packets acknowledged.
    pub fn acked(&self) -> u32 {
        self.acked
    }

    /// The lowest packet that is not acknowledged.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// The lowest packet never sent.
    pub fn next(&self) -> u32 {
        self.first + self.states.len() as u32
    }

    /// Is everything acknowledged?
    pub fn is_complete(&self) -> bool {
        self.acked == self.packets
    }

    /// Is there a packet to send: lost, or never sent?
    pub fn has_work(&self) -> bool {
        self.lost > 0 || self.next() < self.packets
    }

    /// The packet to send: the lowest lost one, or else the next one never sent.
    pub fn to_send(&mut self) -> Option<u32> {
        if self.lost > 0 {
            self.lost_from = self.lost_from.max(self.first);
            while self.state(self.lost_from) != Some(State::Lost) {
                self.lost_from += 1;
            }
            return Some(self.lost_from);
        }
        (self.next() < self.packets).then(|| self.next())
    }

    /// Packet `number`, which [`Scoreboard::to_send`] gave, is on its way.
    pub fn sent(&mut self, number: u32) {
        if number == self.next() {
            self.states.push_back(State::Flying);
        } else {
            debug_assert_eq!(self.state(number), Some(State::Lost));
            self.set(number, State::Flying);
            self.lost -= 1;
            if self.judges {
                self.resent.push_back((number, self.next()));
            }
        }
        self.flying += 1;
    }

    /// Packet `number` is at the receiver. True when that is news. What was never sent is ignored.
    pub fn acknowledge(&mut self, number: u32) -> bool {
        match self.state(number) {
            Some(State::Flying) => self.flying -= 1,
            Some(State::Lost) => self.lost -= 1,
            Some(State::Acked) | None => return false,
        }
        self.set(number, State::Acked);
        self.acked += 1;
        let mut above = number + 1;
        for high in &mut self.highest {
            if above > *high {
                core::mem::swap(high, &mut above);
            }
        }
        while self.states.front() == Some(&State::Acked) {
            self.states.pop_front();
            self.first += 1;
        }
        true
    }

    /// Takes in one acknowledgement: all packets below `next`, and bit k of `bits` for packet
    /// `last - k`. Returns how many are news.
    pub fn acknowledge_all(&mut self, next: u32, last: u32, bits: u64) -> u32 {
        let mut news = 0;
        while self.first < next.min(self.next()) {
            news += u32::from(self.acknowledge(self.first));
        }
        let Some(reach) = last.checked_sub(self.first) else { return news };
        let mut left = if reach < 63 { bits & ((2 << reach) - 1) } else { bits };
        while left != 0 {
            let number = last - left.trailing_zeros();
            left &= left - 1;
            news += u32::from(self.acknowledge(number));
        }
        news
    }

    /// Takes packets for lost that have three packets acknowledged which were sent after them.
    /// Returns how many.
    pub fn judge(&mut self) -> u32 {
        let before = self.lost;
        let proof = self.highest[PROOF - 1].saturating_sub(1);
        for number in self.judged.max(self.first)..proof {
            self.lose(number);
        }
        self.judged = self.judged.max(proof);
        // A retransmission is judged by what was first sent after it.
        while let Some(&(number, sent_below)) = self.resent.front() {
            if self.state(number) == Some(State::Flying) {
                if self.highest[PROOF - 1] <= sent_below {
                    break;
                }
                self.lose(number);
            }
            self.resent.pop_front();
        }
        self.lost - before
    }

    /// Takes packet `number` for lost, if it flies. True when it did.
    pub fn lose(&mut self, number: u32) -> bool {
        if self.state(number) != Some(State::Flying) {
            return false;
        }
        self.set(number, State::Lost);
        self.flying -= 1;
        self.lost += 1;
        self.lost_from = self.lost_from.min(number);
        true
    }

    /// Takes all that flies for lost: a timeout.
    pub fn lose_all(&mut self) {
        for number in self.first..self.next() {
            self.lose(number);
        }
        self.resent.clear();
        self.judged = self.next();
    }

    fn state(&self, number: u32) -> Option<State> {
        self.states.get(number.checked_sub(self.first)? as usize).copied()
    }

    fn set(&mut self, number: u32, state: State) {
        self.states[(number - self.first) as usize] = state;
    }

    /// Asserts that the counts are those of the states.
    pub fn check(&self) {
        let count = |state| self.states.iter().filter(|&&s| s == state).count() as u32;
        assert_eq!(self.flying, count(State::Flying));
        assert_eq!(self.lost, count(State::Lost));
        assert_eq!(self.acked, self.first + count(State::Acked));
        assert!(self.next() <= self.packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(packets: u32, count: u32) -> Scoreboard {
        let mut board = Scoreboard::default();
        board.restart(packets, true);
        for _ in 0..count {
            let number = board.to_send().expect("there is one");
            board.sent(number);
        }
        board.check();
        board
    }

    #[test]
    fn three_packets_acknowledged_above_prove_a_loss() {
        let mut board = sent(20, 8);
        for number in [0, 3, 4] {
            board.acknowledge(number);
            assert_eq!(board.judge(), 0);
        }
        board.acknowledge(6);
        assert_eq!(board.judge(), 2, "1 and 2 have three above, 5 has one");
        assert_eq!((board.flying(), board.lost()), (2, 2));
        assert_eq!(board.to_send(), Some(1));
        board.check();
    }

    #[test]
    fn a_lost_retransmission_is_noticed_by_packets_sent_after_it() {
        let mut board = sent(20, 4);
        for number in 1..4 {
            board.acknowledge(number);
        }
        assert_eq!(board.judge(), 1);
        for expected in [0, 4, 5, 6] {
            let number = board.to_send().expect("there is one");
            assert_eq!(number, expected);
            board.sent(number);
        }
        for number in [4, 5] {
            board.acknowledge(number);
            assert_eq!(board.judge(), 0);
        }
        board.acknowledge(6);
        assert_eq!(board.judge(), 1, "three packets sent after the retransmission arrived");
        assert_eq!(board.to_send(), Some(0));
        board.check();
    }

    #[test]
    fn a_timeout_sends_all_again_but_what_is_there() {
        let mut board = sent(6, 6);
        board.acknowledge_all(1, 4, 0b1);
        board.lose_all();
        let mut again = alloc::vec::Vec::new();
        while let Some(number) = board.to_send() {
            board.sent(number);
            again.push(number);
        }
        assert_eq!(again, [1, 2, 3, 5]);
        board.acknowledge_all(6, 5, 0);
        assert!(board.is_complete());
        board.check();
    }
}
