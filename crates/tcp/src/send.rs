//! The sending half of a connection: acknowledgements, losses, timers, and what leaves
//! ([incast 2.8], [incast 2.12], [incast 2.13]).

use crate::config::{Config, Counts, RUNS, Why};
use crate::connection::{Connection, Fate, Leaving, Phase, Sent, State, Step, scale};
use crate::segment::{Flags, Segment, widen};
use cavy_core::Instant;
use cavy_core::family::stream::Effect;

impl Connection {
    /// The connection ends, and the world hears why.
    pub(crate) fn end(&mut self, why: Why, step: &mut Step<'_, '_>) {
        if self.over.is_none() {
            self.over = Some(why);
            step.effects.push_back(Effect::Ended { connection: self.name, why });
        }
    }

    fn pipe(&self) -> u64 {
        self.out.saturating_sub(self.reno_sacked * self.mss)
    }

    /// Loses the first segment, if it is on its way.
    pub(crate) fn mark_first_lost(&mut self) {
        if let Some(head) = self.queue.front_mut()
            && head.fate == Fate::Out
        {
            head.fate = Fate::Lost;
            self.out -= head.length();
            self.lost += 1;
        }
    }

    /// An acknowledgement that makes sense: of a segment of `length` at `seq`.
    pub(crate) fn acknowledged(
        &mut self,
        segment: &Segment,
        seq: u64,
        ack: u64,
        length: u64,
        step: &mut Step<'_, '_>,
    ) {
        let window_before = self.window;
        let newer = self.window_seq < seq || (self.window_seq == seq && self.window_ack <= ack);
        if newer && ack >= self.una && !segment.flags.has(Flags::SYN) {
            self.window = u64::from(segment.window) << self.send_scale;
            self.window_max = self.window_max.max(self.window);
            (self.window_seq, self.window_ack) = (seq, ack);
        }
        let flight = self.pipe();
        let mut newly = 0;
        let mut sample: Option<Instant> = None;
        let advanced = ack > self.una;
        let mut segments = 0;
        if advanced {
            (newly, segments) = self.release(ack, &mut sample);
            let first = self.first + 1;
            let (before, to) = (self.una.max(first), ack.min(self.written).max(first));
            self.una = ack;
            if to > before {
                let (name, to) = (self.name, to - first);
                step.effects.push_back(Effect::Released { connection: name, to });
            }
            (self.heard, self.timeouts) = (0, 0);
            self.persist_at = None;
        }
        let sacked = if self.sack { self.mark_sacked(segment, &mut sample) } else { 0 };
        if let Some(at) = sample {
            let in_flight = (flight / self.mss) as u32;
            self.rto.sample(&step.config.rto, step.now.since(at), in_flight);
            self.rto.forget_backoff();
        } else if advanced && step.config.rto.backoff_reset == crate::rto::BackoffReset::Timestamp {
            self.rto.forget_backoff();
        }
        let is_duplicate = !advanced
            && ack == self.una
            && !self.queue.is_empty()
            && if self.sack { sacked > 0 } else { length == 0 && self.window == window_before };
        if is_duplicate {
            self.heard += 1;
            self.duplicates += 1;
            if !self.sack {
                let most = (self.queue.len() as u64).saturating_sub(1);
                self.reno_sacked = (self.reno_sacked + 1).min(most);
            }
        } else if advanced {
            self.duplicates = 0;
            self.reno_sacked = self.reno_sacked.saturating_sub(segments);
        }
        self.leave_phase(ack);
        if self.sack && sacked + newly > 0 {
            self.detect_by_sack(u64::from(step.config.dupthresh));
        }
        self.repair(advanced, step);
        // What is lost is not in flight, so a window that is being repaired always limits.
        match self.phase {
            Phase::Open if advanced => self.grow(newly, flight),
            Phase::Loss(_) if advanced => self.grow(newly, u64::MAX / 4),
            _ => {}
        }
        if self.queue.is_empty() {
            self.rto_at = None;
        } else if advanced {
            self.rto_at = Some(self.rto.deadline(&step.config.rto, step.now, step.rng));
        }
        self.consider_persist(step);
        self.fin_is_acknowledged(ack, step);
    }

    /// Takes what is acknowledged out of the queue: octets that were not known to be there, and
    /// segments. The latest that was sent once gives a sample.
    fn release(&mut self, ack: u64, sample: &mut Option<Instant>) -> (u64, u64) {
        let (mut newly, mut segments) = (0, 0);
        while let Some(head) = self.queue.front_mut() {
            if head.start >= ack {
                break;
            }
            let whole = head.end <= ack;
            let part = head.end.min(ack) - head.start;
            match head.fate {
                Fate::Out => {
                    self.out -= part;
                    newly += part;
                }
                Fate::Lost => {
                    newly += part;
                    self.lost -= u32::from(whole);
                }
                Fate::Sacked => {}
            }
            if head.sends == 1 && head.fate != Fate::Sacked {
                *sample = Some(sample.map_or(head.at, |at| at.max(head.at)));
            }
            if !whole {
                head.start = ack;
                break;
            }
            segments += 1;
            self.queue.pop_front();
        }
        (newly, segments)
    }

    /// Marks what the blocks say is there. Blocks below the left edge are about duplicates.
    fn mark_sacked(&mut self, segment: &Segment, sample: &mut Option<Instant>) -> u64 {
        let mut newly = 0;
        for &(left, right) in segment.sacks.blocks() {
            let (left, right) = (widen(left, self.una), widen(right, self.una));
            if left < self.una || right <= left || right > self.next {
                continue;
            }
            let from = self.queue.partition_point(|sent| sent.start < left);
            for sent in self.queue.range_mut(from..) {
                if sent.end > right {
                    break;
                }
                match sent.fate {
                    Fate::Sacked => continue,
                    Fate::Out => self.out -= sent.length(),
                    Fate::Lost => self.lost -= 1,
                }
                sent.fate = Fate::Sacked;
                newly += sent.length();
                if sent.sends == 1 {
                    *sample = Some(sample.map_or(sent.at, |at| at.max(sent.at)));
                }
            }
        }
        newly
    }

    /// A segment is lost when enough above it is there (RFC 6675). One that was sent again can only
    /// be missed by the timer.
    fn detect_by_sack(&mut self, dupthresh: u64) {
        let (mut above, mut count) = (0, 0);
        for sent in self.queue.iter_mut().rev() {
            if sent.fate == Fate::Sacked {
                above += sent.length();
                count += 1;
            } else if sent.fate == Fate::Out
                && sent.sends == 1
                && (count >= dupthresh || above > (dupthresh - 1) * self.mss && count > 1)
            {
                sent.fate = Fate::Lost;
                self.out -= sent.length();
                self.lost += 1;
            }
        }
    }

    fn leave_phase(&mut self, ack: u64) {
        match self.phase {
            Phase::Recovery(until) if ack >= until => {
                self.cwnd = self.ssthresh;
                self.phase = Phase::Open;
                self.reno_sacked = 0;
                self.recovered = until;
            }
            Phase::Loss(until) if ack >= until => {
                self.phase = Phase::Open;
                self.recovered = until;
            }
            _ => {}
        }
    }

    /// Enters recovery at the first loss; without SACK, finds the next hole at a partial
    /// acknowledgement (RFC 6582).
    fn repair(&mut self, advanced: bool, step: &mut Step<'_, '_>) {
        if self.sack {
            if self.phase == Phase::Open && self.lost > 0 {
                self.enter_recovery(step.counts);
            }
            return;
        }
        match self.phase {
            Phase::Open => {
                let enough = self.duplicates >= u32::from(step.config.dupthresh);
                if enough && self.una > self.recovered {
                    self.mark_first_lost();
                    self.enter_recovery(step.counts);
                }
            }
            Phase::Recovery(_) if advanced => {
                self.mark_first_lost();
                self.forced = true;
            }
            _ => {}
        }
    }

    fn enter_recovery(&mut self, counts: &mut Counts) {
        let flight = self.next - self.una;
        self.ssthresh = (flight / 2).max(2 * self.mss);
        self.cwnd = self.ssthresh;
        self.phase = Phase::Recovery(self.next);
        self.forced = true;
        counts.fast_recoveries += 1;
    }

    /// Slow start and congestion avoidance [incast 2.11], if the window was what limited sending.
    fn grow(&mut self, newly: u64, flight: u64) {
        let is_slow = self.cwnd < self.ssthresh;
        let limited = flight + self.mss > self.cwnd || (is_slow && self.cwnd < 2 * flight);
        if !limited {
            return;
        }
        if is_slow {
            self.cwnd += newly.min(2 * self.mss);
        } else {
            self.cwnd += (self.mss * self.mss / self.cwnd.max(1)).max(1);
        }
    }

    fn fin_is_acknowledged(&mut self, ack: u64, step: &mut Step<'_, '_>) {
        if !self.fin_sent || ack != self.written + 1 {
            return;
        }
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                if self.orphaned {
                    self.linger_at = Some(step.now + step.config.time_wait);
                }
            }
            State::Closing => {
                self.state = State::TimeWait;
                self.linger_at = Some(step.now + step.config.time_wait);
            }
            State::LastAck => self.end(Why::Closed, step),
            _ => {}
        }
    }

    // ---- timers

    /// The earliest deadline.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        [self.rto_at, self.persist_at, self.linger_at, self.receiver.ack_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Runs all timers that are due.
    pub(crate) fn expire(&mut self, step: &mut Step<'_, '_>) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= step.now);
        let (rto, persist) = (due(self.rto_at), due(self.persist_at));
        if due(self.receiver.ack_at) {
            self.receiver.ack_at = None;
            self.receiver.ack_now = true;
        }
        if due(self.linger_at) {
            self.linger_at = None;
            return self.end(Why::Closed, step);
        }
        if rto {
            self.timed_out(step);
        }
        if persist {
            self.probe = true;
            let most = cavy_core::Span::from_ms(60_000);
            self.persist_wait = (self.persist_wait * 2).min(most);
            self.persist_at = Some(step.now + self.persist_wait);
        }
    }

    fn timed_out(&mut self, step: &mut Step<'_, '_>) {
        let Some(head) = self.queue.front().copied() else {
            self.rto_at = None;
            return;
        };
        if self.timeouts == 0 {
            self.stuck_since = head.at;
        }
        let waited = step.now.since(self.stuck_since);
        if self.timeouts >= step.config.give_up_retries && waited >= step.config.give_up_after {
            let never = matches!(self.state, State::SynSent | State::SynReceived);
            let why = if never && self.timeouts == 0 { Why::Refused } else { Why::TimedOut };
            return self.end(why, step);
        }
        self.timeouts = self.timeouts.saturating_add(1);
        let counts = &mut *step.counts;
        match (head.sends > 1, self.heard) {
            (true, _) => counts.timeouts_again += 1,
            (false, 0) => counts.timeouts_whole += 1,
            (false, _) => counts.timeouts_tail += 1,
        }
        counts.timeouts_silent += u64::from(self.heard == 0);
        counts.run_longest = counts.run_longest.max(u64::from(self.timeouts));
        if self.timeouts > self.timeouts_longest {
            self.timeouts_longest = self.timeouts;
            if let Some(place) = RUNS.iter().position(|&run| run == self.timeouts) {
                counts.connections_by_run[place] += 1;
            }
        }
        if self.timed_out_at != self.una {
            let flight = self.next - self.una;
            self.ssthresh = (flight / 2).max(2 * self.mss);
            self.timed_out_at = self.una;
        }
        self.cwnd = self.mss;
        // A receiver that said it had the first segment and did not has reneged [incast 2.14].
        let reneged = head.fate == Fate::Sacked;
        self.lost = 0;
        for sent in &mut self.queue {
            if sent.fate != Fate::Sacked || reneged {
                sent.fate = Fate::Lost;
                self.lost += 1;
            }
        }
        self.out = 0;
        self.reno_sacked = 0;
        self.duplicates = 0;
        self.phase = Phase::Loss(self.next);
        self.forced = true;
        self.rto.back_off();
        self.rto_at = Some(self.rto.deadline(&step.config.rto, step.now, step.rng));
    }

    /// With data waiting, a closed window and nothing in flight, somebody must ask [incast 2.12].
    pub(crate) fn consider_persist(&mut self, step: &mut Step<'_, '_>) {
        let open = matches!(self.state, State::Established | State::CloseWait | State::FinWait1);
        let waits = open && self.queue.is_empty() && self.has_more();
        let shut = self.una + self.window <= self.next;
        if !(waits && shut) {
            self.persist_at = None;
        } else if self.persist_at.is_none() {
            self.persist_wait = step.config.persist_min.max(self.rto.base());
            self.persist_at = Some(step.now + self.persist_wait);
        }
    }

    fn has_more(&self) -> bool {
        self.next < self.written || (self.shut && !self.fin_sent)
    }

    // ---- what leaves

    /// The segment to send now.
    pub(crate) fn leaves(&mut self, step: &mut Step<'_, '_>) -> Option<Leaving> {
        if self.over.is_some() {
            return None;
        }
        if self.next == self.first {
            // The SYN is a segment of one octet like any other.
            self.enqueue(self.first + 1, step);
            return Some(self.leaving(self.first, self.first + 1, step));
        }
        if let Some(leaving) = self.leaves_again(step) {
            return Some(leaving);
        }
        if !self.is_half_open()
            && let Some(leaving) = self.leaves_anew(step)
        {
            return Some(leaving);
        }
        if core::mem::take(&mut self.probe) {
            // Below the left edge, so that any answer says what the window is.
            let mut leaving = self.leaving(self.una - 1, self.una - 1, step);
            leaving.segment.seq = (self.una - 1) as u32;
            return Some(leaving);
        }
        if self.state != State::SynSent && self.receiver.owes() {
            return Some(self.leaving(self.next, self.next, step));
        }
        None
    }

    fn leaves_again(&mut self, step: &mut Step<'_, '_>) -> Option<Leaving> {
        if self.lost == 0 {
            return None;
        }
        let place = self.queue.iter().position(|sent| sent.fate == Fate::Lost)?;
        let (pipe, mss) = (self.pipe(), self.mss);
        let sent = self.queue[place];
        if !self.forced && pipe + sent.length() > self.cwnd {
            return None;
        }
        self.forced = false;
        if sent.length() > mss {
            // The largest segment became smaller since it was sent.
            self.queue[place].end = sent.start + mss;
            self.queue.insert(place + 1, Sent { start: sent.start + mss, ..sent });
            self.lost += 1;
        }
        let sent = &mut self.queue[place];
        sent.fate = Fate::Out;
        sent.sends = sent.sends.saturating_add(1);
        sent.at = step.now;
        let (start, end) = (sent.start, sent.end);
        self.out += end - start;
        self.lost -= 1;
        self.sent_at = step.now;
        step.counts.retransmitted += u64::from(start > self.first);
        self.arm(step);
        Some(self.leaving(start, end, step))
    }

    fn leaves_anew(&mut self, step: &mut Step<'_, '_>) -> Option<Leaving> {
        if !self.has_more() {
            return None;
        }
        let idle = self.queue.is_empty() && step.now.since(self.sent_at) > self.rto.base();
        if idle && step.config.idle_restart {
            let initial = u64::from(step.config.initial_window) * self.mss;
            self.cwnd = self.cwnd.min(initial);
        }
        let mut length = (self.written - self.next).min(self.mss);
        while self.cuts.front().is_some_and(|&cut| cut <= self.next) {
            self.cuts.pop_front();
        }
        if let Some(&cut) = self.cuts.front() {
            length = length.min(cut - self.next);
        }
        let is_fin = length == 0;
        let open = (self.una + self.window).saturating_sub(self.next);
        if !is_fin && length > open {
            // A crumb only where half of all there ever was is left (RFC 1122).
            if open == 0 || (open < self.window_max / 2 && !self.queue.is_empty()) {
                self.consider_persist(step);
                return None;
            }
            length = open;
        }
        let mut room = self.cwnd;
        if step.config.limited_transmit && self.phase == Phase::Open {
            room += u64::from(self.duplicates.min(2)) * self.mss;
        }
        if self.pipe() + length > room && self.pipe() > 0 {
            return None;
        }
        if is_fin {
            self.fin_sent = true;
            self.state = match self.state {
                State::CloseWait => State::LastAck,
                _ => State::FinWait1,
            };
            length = 1;
        }
        let start = self.next;
        self.enqueue(start + length, step);
        Some(self.leaving(start, start + length, step))
    }

    /// Notes a segment from `next` to `end` as sent.
    fn enqueue(&mut self, end: u64, step: &mut Step<'_, '_>) {
        let start = self.next;
        self.queue.push_back(Sent { start, end, at: step.now, sends: 1, fate: Fate::Out });
        self.out += end - start;
        self.next = end;
        self.sent_at = step.now;
        self.persist_at = None;
        self.arm(step);
    }

    fn arm(&mut self, step: &mut Step<'_, '_>) {
        if self.rto_at.is_none() {
            self.rto_at = Some(self.rto.deadline(&step.config.rto, step.now, step.rng));
        }
    }

    /// The segment with the octets from `start` to `end`.
    fn leaving(&mut self, start: u64, end: u64, step: &mut Step<'_, '_>) -> Leaving {
        let mut segment = Segment::new(self.local_port, self.remote_port, start as u32, Flags(0));
        let is_syn = start == self.first && end > start;
        let is_fin = self.fin_sent && end == self.written + 1 && end > start;
        if is_syn {
            segment.flags = Flags::SYN;
            segment.mss = Some(step.config.mss_bytes);
            let agreed = self.accepted || self.state == State::SynReceived;
            segment.sack_permitted = if agreed { self.sack } else { step.config.sack };
            let scale = if agreed { self.receiver.scale } else { scale(step.config) };
            segment.scale = (!agreed || self.send_scale > 0 || scale > 0).then_some(scale);
        }
        if self.state != State::SynSent {
            segment.flags = segment.flags.with(Flags::ACK);
            segment.ack = self.receiver.next as u32;
            // Blocks must not make a full segment longer than it may be.
            let spare = u64::from(step.config.mss_bytes).saturating_sub(end - start);
            let most = (spare.saturating_sub(4) / 8).min(3) as usize;
            if self.sack && !is_syn && most > 0 {
                segment.sacks = self.receiver.blocks(most);
            }
            let kept = self.receiver.scale;
            if is_syn {
                self.receiver.scale = 0;
            }
            segment.window = self.receiver.window(self.mss);
            self.receiver.scale = kept;
            self.receiver.acknowledged(start == end);
        } else {
            segment.window = step.config.receive_buffer_bytes.min(65_535) as u16;
        }
        let length = if is_syn { 0 } else { end - start - u64::from(is_fin) };
        if is_fin {
            segment.flags = segment.flags.with(Flags::FIN);
        }
        if length > 0 {
            step.counts.data_segments += 1;
            if self.cuts.front() == Some(&end) || end == self.written {
                segment.flags = segment.flags.with(Flags::PSH);
            }
        }
        let offset = start.saturating_sub(self.first + 1);
        Leaving { segment, offset, length: length as u32 }
    }

    /// What always holds [incast 2.14].
    pub(crate) fn check(&self, config: &Config) {
        assert!(self.una <= self.next && self.next <= self.written + 1, "{self:?}");
        let out: u64 = self.queue.iter().filter(|s| s.fate == Fate::Out).map(Sent::length).sum();
        assert_eq!(self.out, out, "the pipe is what is out");
        let lost = self.queue.iter().filter(|sent| sent.fate == Fate::Lost).count();
        assert_eq!(self.lost as usize, lost, "losses are counted");
        let mut at = self.una;
        for sent in &self.queue {
            assert!(sent.start == at && sent.end > at, "the queue has no holes: {self:?}");
            at = sent.end;
        }
        assert_eq!(at, self.next, "all that is unacknowledged is in the queue");
        assert!(self.cwnd > 0 && u64::from(config.mss_bytes) >= self.mss);
        if self.over.is_none() && !self.queue.is_empty() {
            assert!(self.rto_at.is_some(), "never silently stuck: {self:?}");
        }
        if self.read_first > 0 {
            self.receiver.check();
        }
    }
}
