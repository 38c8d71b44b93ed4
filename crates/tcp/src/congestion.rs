//! How large the window is: NewReno, CUBIC, and the proportional way down to it
//! ([incast 2.8], [incast 2.11]).
//!
//! Windows are octets. Floats are CUBIC's alone, and come from `libm`: the same bits anywhere.

use cavy_core::{Instant, Span};

/// Which rule makes the window grow and shrink.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Congestion {
    /// Half at a loss, a segment a round trip otherwise (RFC 5681, RFC 6582).
    #[default]
    NewReno,
    /// Seven tenths at a loss, then a cubic curve around where the loss was (RFC 9438).
    Cubic,
}

/// Segments that marks leave of a window at least (RFC 8257).
pub(crate) const DCTCP_LEAST: u64 = 2;

/// CUBIC's constants: growth in segments a second cubed, and what is left at a loss.
const C: f64 = 0.4;
const BETA: f64 = 0.7;

/// What CUBIC remembers, in segments and seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Cubic {
    /// The window at the last loss, and the one before, from which others take room.
    most: f64,
    most_before: f64,
    /// When the curve is at `most` again, after its begin.
    plateau_s: f64,
    /// The window that NewReno would have.
    friendly: f64,
    /// When growth began.
    epoch: Option<Instant>,
}

/// The state of one connection's window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Window {
    rule: Congestion,
    cubic: Cubic,
}

impl Window {
    pub fn new(rule: Congestion) -> Window {
        Window { rule, cubic: Cubic::default() }
    }

    /// The threshold after a loss with `cwnd` octets of window and `flight` unacknowledged.
    pub fn after_loss(&mut self, cwnd: u64, flight: u64, mss: u64) -> u64 {
        let least = 2 * mss;
        match self.rule {
            Congestion::NewReno => (flight / 2).max(least),
            Congestion::Cubic => {
                let now = cwnd.min(flight.max(mss)) as f64 / mss as f64;
                let cubic = &mut self.cubic;
                // A window that did not get back to where it was leaves room for newcomers.
                let most = if now < cubic.most_before { now * (1.0 + BETA) / 2.0 } else { now };
                cubic.most_before = now;
                cubic.most = most;
                cubic.plateau_s = libm::cbrt(most * (1.0 - BETA) / C);
                cubic.epoch = None;
                ((now * BETA * mss as f64) as u64).max(least)
            }
        }
    }

    /// A timer ran out: the curve begins anew when there is one again.
    pub fn restart(&mut self) {
        self.cubic.epoch = None;
    }

    /// The window after `newly` octets were acknowledged beyond slow start.
    pub fn avoided(&mut self, cwnd: u64, newly: u64, mss: u64, now: Instant, srtt: Span) -> u64 {
        if self.rule == Congestion::NewReno {
            return cwnd + (mss * mss / cwnd.max(1)).max(1);
        }
        let window = cwnd as f64 / mss as f64;
        let cubic = &mut self.cubic;
        let epoch = *cubic.epoch.get_or_insert_with(|| {
            cubic.friendly = window;
            if window >= cubic.most {
                cubic.most = window;
                cubic.plateau_s = 0.0;
            }
            now
        });
        let elapsed = (now.since(epoch).as_ns() + srtt.as_ns()) as f64 / 1e9;
        let beyond = elapsed - cubic.plateau_s;
        let target = C * beyond * beyond * beyond + cubic.most;
        let target = target.clamp(window, 1.5 * window);
        let acked = newly as f64 / mss as f64;
        let alpha =
            if cubic.friendly >= cubic.most { 1.0 } else { 3.0 * (1.0 - BETA) / (1.0 + BETA) };
        cubic.friendly += alpha * acked / window;
        let grown = window + (target - window) / window * acked;
        (grown.max(cubic.friendly.min(1.5 * window)) * mss as f64) as u64
    }
}

/// Proportional rate reduction (RFC 6937): what recovery may send, by what was delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reduction {
    pub delivered: u64,
    pub sent: u64,
    /// Octets in flight when recovery began.
    pub flight: u64,
}

impl Reduction {
    /// The window after `delivered` more octets are there, with `pipe` under way. `safe`: the left
    /// edge moved and nothing else was lost.
    pub fn window(
        &mut self,
        delivered: u64,
        pipe: u64,
        ssthresh: u64,
        mss: u64,
        safe: bool,
    ) -> u64 {
        self.delivered += delivered;
        let quota = if pipe > ssthresh {
            let share = u128::from(self.delivered) * u128::from(ssthresh);
            let share = share.div_ceil(u128::from(self.flight.max(1))) as u64;
            share.saturating_sub(self.sent)
        } else {
            let owed = self.delivered.saturating_sub(self.sent).max(delivered);
            (ssthresh - pipe).min(owed + if safe { mss } else { 0 })
        };
        pipe + quota
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    #[test]
    fn incast_2_11_cubic_gives_up_three_tenths_and_is_back_at_the_plateau_in_time() {
        let mut window = Window::new(Congestion::Cubic);
        let ssthresh = window.after_loss(100 * MSS, 100 * MSS, MSS);
        assert_eq!(ssthresh, 70 * MSS);
        // K = cbrt(100 * 0.3 / 0.4) = 4.217 s.
        let (mut cwnd, rtt) = (ssthresh, Span::from_ms(100));
        let mut at = Instant::ZERO;
        let mut back = None;
        for _ in 0..100 {
            for _ in 0..cwnd / MSS {
                cwnd = window.avoided(cwnd, MSS, MSS, at, rtt);
            }
            at += rtt;
            if back.is_none() && cwnd >= 99 * MSS {
                back = Some(at.as_ns() / 1_000_000);
            }
        }
        let back = back.expect("it comes back");
        assert!((2_500..4_600).contains(&back), "{back} ms");
        assert!(cwnd > 110 * MSS, "and goes on beyond: {cwnd}");
    }

    #[test]
    fn incast_2_11_a_second_loss_below_the_first_leaves_room() {
        let mut window = Window::new(Congestion::Cubic);
        window.after_loss(100 * MSS, 100 * MSS, MSS);
        window.after_loss(80 * MSS, 80 * MSS, MSS);
        assert!((window.cubic.most - 68.0).abs() < 1e-9, "{}", window.cubic.most);
    }

    #[test]
    fn incast_2_11_cubic_is_not_slower_than_newreno_at_short_round_trips() {
        let rtt = Span::from_us(100);
        let grown = |rule| {
            let mut window = Window::new(rule);
            let mut cwnd = window.after_loss(40 * MSS, 40 * MSS, MSS);
            let from = cwnd;
            let mut at = Instant::ZERO;
            for _ in 0..30 {
                for _ in 0..cwnd / MSS {
                    cwnd = window.avoided(cwnd, MSS, MSS, at, rtt);
                }
                at += rtt;
            }
            cwnd - from
        };
        let (reno, cubic) = (grown(Congestion::NewReno), grown(Congestion::Cubic));
        assert!((28_000..32_000).contains(&reno), "a segment a round trip: {reno}");
        // Its friendly rate is 3 (1 - 0.7) / (1 + 0.7) = 0.53 segments a round trip until it is
        // where it was, then as NewReno.
        assert!(cubic >= 16_000 && cubic <= reno + 2_000, "{cubic}");
    }

    #[test]
    fn incast_2_8_prr_sends_in_proportion_and_ends_at_the_threshold() {
        // Twenty segments in flight, one lost; each acknowledgement delivers one.
        let mut prr = Reduction { flight: 20 * MSS, ..Reduction::default() };
        let (mut pipe, mut sent) = (19 * MSS, 0);
        for _ in 0..19 {
            pipe -= MSS;
            let cwnd = prr.window(MSS, pipe, 10 * MSS, MSS, false);
            while pipe + MSS <= cwnd {
                pipe += MSS;
                sent += MSS;
                prr.sent += MSS;
            }
        }
        assert!((9 * MSS..=10 * MSS).contains(&sent), "about every second: {sent}");
        assert!((9 * MSS..=10 * MSS).contains(&pipe), "{pipe}");
    }

    #[test]
    fn incast_2_8_prr_grows_by_slow_start_when_losses_emptied_the_pipe() {
        let mut prr = Reduction { flight: 20 * MSS, ..Reduction::default() };
        assert_eq!(prr.window(MSS, 2 * MSS, 10 * MSS, MSS, true), 4 * MSS);
        let mut bound = Reduction { flight: 20 * MSS, ..Reduction::default() };
        assert_eq!(bound.window(MSS, 2 * MSS, 10 * MSS, MSS, false), 3 * MSS, "what was delivered");
    }
}
