//! The sending half of a connection: acknowledgements, losses, timers, and what leaves
//! ([incast 2.8], [incast 2.12], [incast 2.13]).

use crate::config::{Config, Planted, RUNS, Why};
use crate::congestion::Reduction;
use crate::connection::{Connection, Fate, Leaving, Phase, Sent, State, Step, scale};
use crate::ecn::Ecn;
use crate::heard::Heard;
use crate::segment::{Flags, Segment, Stamps, widen};
use crate::undo::Suspicion;
use cavy_core::family::stream::Effect;
use cavy_core::{Instant, Span};

impl Connection {
    /// The connection ends, and the world hears why.
    pub(crate) fn end(&mut self, why: Why, step: &mut Step<'_, '_>) {
        if self.over.is_none() {
            self.over = Some(why);
            step.effects.push_back(Effect::Ended { connection: self.name, why });
        }
    }

    pub(crate) fn pipe(&self) -> u64 {
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
        // RFC 9293 asks only whether the segment is newer than the one that gave the window. A
        // retransmission with a newer acknowledgement would then move the left edge and keep the
        // window: the right edge would lie beyond all that was said. Linux takes both.
        let newer = self.window_seq < seq || (self.window_seq == seq && self.window_ack <= ack);
        if (newer && ack >= self.una || ack > self.una) && !segment.flags.has(Flags::SYN) {
            self.window = u64::from(segment.window) << self.send_scale;
            self.window_max = self.window_max.max(self.window);
            (self.window_seq, self.window_ack) = (self.window_seq.max(seq), ack);
        }
        let flight = self.pipe();
        let mut heard = Heard { until: self.next, ..Heard::default() };
        if let Phase::Loss(until) = self.phase {
            heard.until = until;
        }
        let echo = segment.stamps.filter(|_| self.stamps).map(|stamps| stamps.echo);
        let reported = self.sack && self.reports_duplicate(segment, ack);
        let advanced = ack > self.una;
        if advanced {
            self.release(ack, &mut heard, echo, step);
            let first = self.first + 1;
            let (before, to) = (self.una.max(first), ack.min(self.written).max(first));
            self.una = ack;
            if to > before {
                let (name, to) = (self.name, to - first);
                step.effects.push_back(Effect::Released { connection: name, to });
            }
            (self.heard, self.prompts, self.timeouts) = (0, 0, 0);
            self.persist_at = None;
        }
        let by_edge = heard.sample;
        let sacked = if self.sack { self.mark_sacked(segment, &mut heard, echo, step) } else { 0 };
        if step.config.rto.edge_only {
            heard.sample = by_edge;
        }
        let (newly, segments) = (heard.newly, heard.segments);
        if let Some(at) = heard.sample.or(heard.proven) {
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
            self.prompts += u32::from(self.phase == Phase::Open);
            self.duplicates += 1;
            if !self.sack {
                let most = (self.queue.len() as u64).saturating_sub(1);
                self.reno_sacked = (self.reno_sacked + 1).min(most);
            }
        } else if advanced {
            self.duplicates = 0;
            self.reno_sacked = self.reno_sacked.saturating_sub(segments);
        }
        if reported && step.config.rack.is_some() {
            self.reordered();
        }
        if self.saved.is_some() {
            self.consider_undo((advanced, heard.fresh, reported), echo, step);
        }
        let repaired = self.probe_told(ack, reported);
        self.leave_phase(ack);
        let reduced = self.answer_mark(segment, newly + sacked, step);
        let lost = self.lost;
        if self.sack && sacked + newly > 0 {
            if step.config.rack.is_some() {
                self.detect_by_time(step);
            } else {
                self.detect_by_sack(u64::from(step.config.dupthresh));
            }
        }
        self.repair(advanced, step);
        if repaired && self.phase == Phase::Open {
            // A probe mended what nobody saw: the window answers once [incast 2.9].
            let flight = (self.next - self.una).max(self.mss);
            self.ssthresh = self.growth.after_loss(self.cwnd, flight, self.mss);
            self.cwnd = self.cwnd.min(self.ssthresh);
        }
        if let Phase::Recovery(_) = self.phase
            && step.config.prr
            && self.sack
        {
            let (pipe, safe) = (self.pipe(), advanced && self.lost <= lost);
            let all = newly + sacked;
            self.cwnd = self.reduction.window(all, pipe, self.ssthresh, self.mss, safe);
        }
        // What is lost is not in flight, so a window that is being repaired always limits.
        match self.phase {
            Phase::Open if advanced && !reduced => {
                let used = if step.config.grows_unused { u64::MAX / 4 } else { flight };
                self.grow(newly, used, step.now);
            }
            Phase::Loss(_) if advanced => self.grow(newly, u64::MAX / 4, step.now),
            _ => {}
        }
        if self.queue.is_empty() {
            (self.rto_at, self.rack_at, self.probe_at) = (None, None, None);
        } else if advanced {
            self.rto_at = Some(self.rto.deadline(&step.config.rto, step.now, step.rng));
        }
        if advanced || sacked > 0 {
            self.consider_probe(step);
        }
        self.consider_persist(step);
        self.fin_is_acknowledged(ack, step);
    }

    /// Does its first block tell of something that came twice (RFC 2883)?
    fn reports_duplicate(&self, segment: &Segment, ack: u64) -> bool {
        let wide = |&(left, right): &(u32, u32)| (widen(left, self.una), widen(right, self.una));
        let mut blocks = segment.sacks.blocks().iter().map(wide);
        let Some((left, right)) = blocks.next().filter(|(left, right)| left < right) else {
            return false;
        };
        right <= ack || blocks.next().is_some_and(|(from, to)| from <= left && right <= to)
    }

    /// Takes what is acknowledged out of the queue. The latest that was sent once gives a sample.
    fn release(&mut self, ack: u64, heard: &mut Heard, echo: Option<u32>, step: &Step<'_, '_>) {
        let offset = self.stamp_offset;
        let tick = step.config.stamps.map_or(1, |tick| tick.as_ns().max(1));
        let stamp = |at: Instant| offset.wrapping_add((at.as_ns() / tick) as u32);
        while let Some(head) = self.queue.front_mut() {
            if head.start >= ack {
                break;
            }
            let whole = head.end <= ack;
            let part = head.end.min(ack) - head.start;
            match head.fate {
                Fate::Out => {
                    self.out -= part;
                    heard.newly += part;
                }
                Fate::Lost => {
                    heard.newly += part;
                    self.lost -= u32::from(whole);
                }
                Fate::Sacked => self.sacked -= u32::from(whole),
            }
            if head.fate != Fate::Sacked {
                let since = |stamp: u32| echo.map(|echo| echo.wrapping_sub(stamp) as i32);
                let last = stamp(head.at);
                heard.note(head);
                if step.config.planted == Some(Planted::KarnIgnored) {
                    heard.sample = heard.sample.max(Some(head.before));
                }
                if head.sends > 1
                    && last != stamp(head.before)
                    && since(last).is_some_and(|ticks| ticks >= 0)
                {
                    heard.proven = heard.proven.max(Some(head.at));
                }
                if step.config.rack.is_some() && whole {
                    let original = since(last).is_some_and(|ticks| ticks < 0);
                    self.delivered.note(head, step.now, original);
                }
            }
            if !whole {
                head.start = ack;
                break;
            }
            heard.segments += 1;
            self.queue.pop_front();
        }
    }

    /// Marks what the blocks say is there. Blocks below the left edge are about duplicates.
    fn mark_sacked(
        &mut self,
        segment: &Segment,
        heard: &mut Heard,
        echo: Option<u32>,
        step: &Step<'_, '_>,
    ) -> u64 {
        let offset = self.stamp_offset;
        let tick = step.config.stamps.map_or(1, |tick| tick.as_ns().max(1));
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
                self.sacked += 1;
                newly += sent.length();
                heard.note(sent);
                if step.config.rack.is_some() {
                    let last = offset.wrapping_add((sent.at.as_ns() / tick) as u32);
                    let original = echo.is_some_and(|echo| (echo.wrapping_sub(last) as i32) < 0);
                    self.delivered.note(sent, step.now, original);
                }
            }
        }
        newly
    }

    /// A segment is lost when enough above it is there (RFC 6675); sent again, by the timer only.
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
                self.delivered.narrow();
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

    /// Enters recovery at the first loss; without SACK, the next hole at a partial ACK (RFC 6582).
    pub(crate) fn repair(&mut self, advanced: bool, step: &mut Step<'_, '_>) {
        if self.sack {
            if self.phase == Phase::Open && self.lost > 0 {
                self.enter_recovery(step);
            }
            return;
        }
        match self.phase {
            Phase::Open => {
                let enough = self.duplicates >= u32::from(step.config.dupthresh);
                if enough && self.una > self.recovered {
                    self.mark_first_lost();
                    self.enter_recovery(step);
                }
            }
            Phase::Recovery(until) if advanced && step.config.reno => {
                self.cwnd = self.ssthresh;
                self.phase = Phase::Open;
                self.reno_sacked = 0;
                self.recovered = until;
            }
            Phase::Recovery(_) if advanced => {
                self.mark_first_lost();
                self.forced = true;
            }
            _ => {}
        }
    }

    /// What a loss halves.
    fn held_by_loss(&self, config: &Config) -> u64 {
        if config.halves_window { self.cwnd } else { self.next - self.una }
    }

    fn enter_recovery(&mut self, step: &mut Step<'_, '_>) {
        let flight = self.next - self.una;
        self.save(false, self.queue.front().map_or(step.now, |head| head.at), step);
        let held = self.held_by_loss(step.config);
        self.ssthresh = self.growth.after_loss(self.cwnd, held, self.mss);
        self.cwnd = self.ssthresh;
        self.reduction = Reduction { flight, ..Reduction::default() };
        self.phase = Phase::Recovery(self.next);
        self.probe_at = None;
        self.forced = true;
        step.counts.fast_recoveries += 1;
    }

    /// Slow start and congestion avoidance [incast 2.11], if the window was what limited sending.
    fn grow(&mut self, newly: u64, flight: u64, now: Instant) {
        let is_slow = self.cwnd < self.ssthresh;
        let limited = flight + self.mss > self.cwnd || (is_slow && self.cwnd < 2 * flight);
        if !limited {
            return;
        }
        if is_slow {
            self.cwnd += newly.min(2 * self.mss);
        } else {
            let srtt = self.rto.srtt().unwrap_or(Span::ZERO);
            self.cwnd = self.growth.avoided(self.cwnd, newly, self.mss, now, srtt);
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
        let or_never = |at: Option<Instant>| at.unwrap_or(Instant::NEVER);
        let repair = or_never(self.rto_at).min(or_never(self.rack_at));
        let asks = or_never(self.probe_at).min(or_never(self.persist_at));
        let rest = or_never(self.linger_at).min(or_never(self.alive_at));
        let first = repair.min(asks).min(rest).min(or_never(self.receiver.ack_at));
        (first < Instant::NEVER).then_some(first)
    }

    /// Runs all timers that are due.
    pub(crate) fn expire(&mut self, step: &mut Step<'_, '_>) {
        let now = step.now;
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let (rack, probe, persist) = (due(self.rack_at), due(self.probe_at), due(self.persist_at));
        let alive = due(self.alive_at);
        if due(self.receiver.ack_at) {
            self.receiver.ack_at = None;
            self.receiver.ack_now = true;
        }
        if due(self.linger_at) {
            self.linger_at = None;
            return self.end(Why::Closed, step);
        }
        // In this order: what finds a loss cheaply goes before what assumes the worst, and a probe
        // puts the timeout off once [incast 2.14].
        if rack {
            self.reordering_ran_out(step);
        }
        if probe {
            self.probe_is_due(step);
        }
        if due(self.rto_at) {
            self.timed_out(step);
        }
        if alive {
            self.ask_whether_alive(step);
        }
        if persist {
            if self.is_given_up(step) {
                return self.end(Why::TimedOut, step);
            }
            self.unanswered = self.unanswered.saturating_add(1);
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
        if self.is_half_open() && self.timeouts >= u16::from(step.config.handshake_retries) {
            return self.end(Why::TimedOut, step);
        }
        let planted = step.config.planted;
        let long = waited >= step.config.give_up_after;
        let long = long || planted == Some(Planted::GivenUpByCount);
        if self.timeouts >= step.config.give_up_retries && long {
            return self.end(Why::TimedOut, step);
        }
        self.timeouts = self.timeouts.saturating_add(1);
        let counts = &mut *step.counts;
        match (head.sends > 1, self.heard) {
            (true, _) => counts.timeouts_again += 1,
            (false, 0) => counts.timeouts_whole += 1,
            (false, _) => counts.timeouts_tail += 1,
        }
        counts.timeouts_silent += u64::from(self.heard == 0);
        counts.timeouts_unprompted += u64::from(self.prompts == 0);
        self.prompts = 0;
        counts.run_longest = counts.run_longest.max(u64::from(self.timeouts));
        if self.timeouts > self.timeouts_longest {
            self.timeouts_longest = self.timeouts;
            if let Some(place) = RUNS.iter().position(|&run| run == self.timeouts) {
                counts.connections_by_run[place] += 1;
            }
        }
        if self.phase == Phase::Open {
            self.save(true, head.at, step);
        } else {
            self.suspicion = Suspicion::None;
        }
        if self.timed_out_at != self.una {
            let held = self.held_by_loss(step.config);
            self.ssthresh = self.growth.after_loss(self.cwnd, held, self.mss);
            self.timed_out_at = self.una;
        }
        self.growth.restart();
        self.cwnd = self.mss;
        (self.rack_at, self.probe_at, self.tail, self.repeats_tail) = (None, None, None, false);
        // A receiver that said it had the first segment and did not has reneged [incast 2.14].
        let reneged = head.fate == Fate::Sacked && planted != Some(Planted::RenegingTrusted);
        let mut queue = core::mem::take(&mut self.queue);
        (self.lost, self.out) = (0, 0);
        for sent in &mut queue {
            let is_lost = match sent.fate {
                Fate::Sacked => reneged,
                Fate::Lost => true,
                Fate::Out => reneged || self.is_lost_by_timer(sent, step),
            };
            if is_lost {
                self.sacked -= u32::from(sent.fate == Fate::Sacked);
                sent.fate = Fate::Lost;
                self.lost += 1;
            } else if sent.fate == Fate::Out {
                self.out += sent.length();
            }
        }
        self.queue = queue;
        self.reno_sacked = 0;
        self.duplicates = 0;
        self.phase = Phase::Loss(self.next);
        self.forced = true;
        if planted != Some(Planted::NoBackoff) {
            self.rto.back_off();
        }
        if self.rto.backoff() > self.doublings_most {
            self.doublings_most = self.rto.backoff();
            let doublings = u16::from(self.doublings_most);
            if let Some(place) = RUNS.iter().position(|&run| run == doublings) {
                step.counts.connections_by_doublings[place] += 1;
            }
        }
        self.rto_at = Some(self.rto.deadline(&step.config.rto, step.now, step.rng));
    }

    /// A peer that says nothing for too long, whatever it is asked.
    fn is_given_up(&self, step: &Step<'_, '_>) -> bool {
        self.unanswered >= step.config.give_up_retries
            && step.now.since(self.heard_at) >= step.config.give_up_after
    }

    /// The peer was silent for long, and there is nothing to send that would tell [incast 2.12].
    fn ask_whether_alive(&mut self, step: &mut Step<'_, '_>) {
        let Some(alive) = step.config.keepalive else { return };
        let since = step.now.since(self.heard_at);
        let busy = !self.queue.is_empty() || self.persist_at.is_some();
        self.alive_at = Some(if busy || since < alive.idle {
            (self.heard_at + alive.idle).max(step.now + alive.interval)
        } else if self.unanswered >= u16::from(alive.probes) {
            return self.end(Why::TimedOut, step);
        } else {
            self.unanswered += 1;
            self.probe = true;
            step.now + alive.interval
        });
    }

    /// With data waiting, a closed window and nothing in flight, somebody must ask [incast 2.12].
    pub(crate) fn consider_persist(&mut self, step: &mut Step<'_, '_>) {
        let open = matches!(self.state, State::Established | State::CloseWait | State::FinWait1);
        if step.config.planted == Some(Planted::NoPersist) {
            return;
        }
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
        if core::mem::take(&mut self.repeats_tail)
            && let Some(place) = self.queue.iter().rposition(|sent| sent.fate == Fate::Out)
        {
            return Some(self.send_again(place, step));
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
            let octet = step.config.keepalive.is_some_and(|alive| alive.octet)
                && self.una > self.first + 1
                && self.una <= self.written;
            let end = self.una - u64::from(!octet);
            let mut leaving = self.leaving(self.una - 1, end, step);
            leaving.segment.seq = (self.una - 1) as u32;
            return Some(leaving);
        }
        if self.state != State::SynSent && self.receiver.owes() {
            return Some(self.leaving(self.next, self.next, step));
        }
        None
    }

    fn leaves_again(&mut self, step: &mut Step<'_, '_>) -> Option<Leaving> {
        // While it is asked whether a timeout was spurious, what seems lost waits (RFC 5682).
        if self.lost == 0 || matches!(self.suspicion, Suspicion::Asking(_)) {
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
        Some(self.send_again(place, step))
    }

    /// A segment of the queue leaves once more.
    fn send_again(&mut self, place: usize, step: &mut Step<'_, '_>) -> Leaving {
        let sent = &mut self.queue[place];
        if sent.fate == Fate::Lost {
            self.out += sent.length();
            self.lost -= 1;
        }
        sent.fate = Fate::Out;
        sent.sends = sent.sends.saturating_add(1);
        (sent.before, sent.at) = (sent.at, step.now);
        let (start, end) = (sent.start, sent.end);
        self.reduction.sent += end - start;
        self.sent_at = step.now;
        step.counts.retransmitted += u64::from(start > self.first);
        if self.saved.is_some() {
            self.repeated(self.stamp_at(step.now, step.config));
        }
        self.arm(step);
        let mut leaving = self.leaving(start, end, step);
        // What is sent again bears no marks (RFC 3168 6.1.5) where they are taken for losses.
        let bears = step.config.ecn == Ecn::Dctcp && leaving.length > 0;
        leaving.segment.ect = bears && self.marks.agreed;
        leaving
    }

    fn leaves_anew(&mut self, step: &mut Step<'_, '_>) -> Option<Leaving> {
        if !self.has_more() || (self.next < self.written && !self.may_ask()) {
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
        if step.config.nagle && !is_fin && length < self.mss && !self.queue.is_empty() {
            return None;
        }
        let open = (self.una + self.window).saturating_sub(self.next);
        if !is_fin && length > open {
            // A crumb only where half of all there ever was is left (RFC 1122).
            if open == 0 || (open < self.window_max / 2 && !self.queue.is_empty()) {
                self.consider_persist(step);
                return None;
            }
            length = open;
        }
        // Until something is lost, what came out of order makes no room: that is what the two
        // segments of limited transmit are for. Who finds losses by time goes by the pipe.
        let under_way = match self.phase {
            Phase::Open if step.config.rack.is_none() => self.next - self.una,
            _ => self.pipe(),
        };
        let mut room = self.cwnd;
        if step.config.limited_transmit && self.phase == Phase::Open {
            room += u64::from(self.duplicates.min(2)) * self.mss;
        }
        match self.suspicion {
            Suspicion::Asking(0) => return None,
            Suspicion::Asking(left) => self.suspicion = Suspicion::Asking(left - 1),
            _ if under_way + length > room && under_way > 0 && !self.extra => return None,
            _ => {}
        }
        self.extra = false;
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
        let mut leaving = self.leaving(start, start + length, step);
        if leaving.length > 0 {
            self.mark_new(&mut leaving.segment);
        }
        Some(leaving)
    }

    /// Notes a segment from `next` to `end` as sent.
    fn enqueue(&mut self, end: u64, step: &mut Step<'_, '_>) {
        let start = self.next;
        let (at, fate) = (step.now, Fate::Out);
        self.queue.push_back(Sent { start, end, at, before: at, sends: 1, fate });
        self.out += end - start;
        self.reduction.sent += end - start;
        self.next = end;
        self.sent_at = step.now;
        self.persist_at = None;
        self.arm(step);
        self.consider_probe(step);
    }

    fn arm(&mut self, step: &mut Step<'_, '_>) {
        if self.rto_at.is_none() {
            self.rto_at = Some(self.rto.deadline(&step.config.rto, step.now, step.rng));
        }
    }

    /// The segment with the octets from `start` to `end`.
    pub(crate) fn leaving(&mut self, start: u64, end: u64, step: &mut Step<'_, '_>) -> Leaving {
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
            let marks = self.flags_of_syn(step.config.ecn, agreed);
            segment.flags = segment.flags.with(marks);
        }
        let opens = is_syn && self.state == State::SynSent && step.config.stamps.is_some();
        if self.stamps || opens {
            let value = self.stamp_at(step.now, step.config);
            segment.stamps = Some(Stamps { value, echo: self.recent });
        }
        if self.state != State::SynSent {
            segment.flags = segment.flags.with(Flags::ACK);
            segment.ack = self.receiver.next as u32;
            self.told = self.receiver.next;
            // Blocks must not make a full segment longer than it may be.
            let stamps = if self.stamps { 12 } else { 0 };
            let spare = u64::from(step.config.mss_bytes).saturating_sub(end - start + stamps);
            let room = if self.stamps { 3 } else { 4 };
            let most = (spare.saturating_sub(4) / 8).min(room) as usize;
            if self.sack && !is_syn && most > 0 {
                segment.sacks = self.receiver.blocks(most);
            }
            let kept = self.receiver.scale;
            if is_syn {
                self.receiver.scale = 0;
            }
            segment.window = self.receiver.window(self.mss);
            if step.config.planted == Some(Planted::EdgeRetreats) && segment.window > 8 {
                segment.window /= 1 + (step.now.as_ns() / 1_000_000 % 2) as u16;
            }
            self.receiver.scale = kept;
            if self.marks.agreed && self.marks.says && !is_syn {
                segment.flags = segment.flags.with(Flags::ECE);
            }
            self.receiver.acknowledged(start == end);
        } else {
            // What the peer may send before it is asked: of segments that may have timestamps.
            let stamps = if step.config.stamps.is_some() { 12 } else { 0 };
            let opening =
                Connection::opening(step.config, u64::from(step.config.mss_bytes) - stamps) as u32;
            let open = step.config.receive_buffer_bytes.min(65_535);
            segment.window = if self.grant.is_none() { open } else { opening.min(open) } as u16;
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
}
