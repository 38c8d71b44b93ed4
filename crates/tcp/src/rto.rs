//! How long to wait for an acknowledgement ([incast 2.1]): the core of the source.

use cavy_core::{Instant, Span, Stream};

/// Where the floor applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Floor {
    /// To the whole timeout: max(floor, SRTT + 4 RTTVAR), as RFC 6298 has it.
    Whole,
    /// To the variance alone: SRTT + max(floor, 4 RTTVAR), as Linux has it.
    Variance,
}

/// When repeated back-off is forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackoffReset {
    /// When a segment that was sent once is acknowledged (Karn).
    Karn,
    /// When anything new is acknowledged: timestamps make a sample of any acknowledgement.
    Timestamp,
}

/// Parameters of the timeout [incast 2.1].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoConfig {
    /// The least timeout, or the least variance term.
    pub min: Span,
    /// Which of them.
    pub floor: Floor,
    /// The longest timeout after back-off; at least `min`.
    pub max: Span,
    /// The timeout before any sample.
    pub init: Span,
    /// The least variance term: granularity of the clock and of timers.
    pub granularity: Span,
    /// Samples and timeouts are rounded up to a multiple of this; zero for none.
    pub tick: Span,
    /// Only what the left edge passes tells a round trip, and not what is there out of order: a
    /// habit of the reference simulator [incast 5.1], where [incast 2.1] takes both.
    pub edge_only: bool,
    /// Most doublings.
    pub backoff_max: u8,
    /// When they are forgotten.
    pub backoff_reset: BackoffReset,
    /// A timeout is stretched by up to so many thousandths at random, anew each time it is armed.
    pub stretch_per_mille: u16,
    /// Stretch only timeouts that were doubled: evidence that others wait as well [incast 8].
    pub stretch_only_backed_off: bool,
    /// Divide gains by half the segments in flight, where every acknowledgement is a sample (RFC
    /// 7323).
    pub weighted: bool,
}

impl RtoConfig {
    /// Without a floor, in the lab [incast 2.1].
    pub const FINE: RtoConfig = RtoConfig {
        min: Span::ZERO,
        floor: Floor::Whole,
        max: Span::from_ms(60_000),
        init: Span::from_ms(1_000),
        granularity: Span::from_us(1),
        tick: Span::ZERO,
        edge_only: false,
        backoff_max: 6,
        backoff_reset: BackoffReset::Karn,
        stretch_per_mille: 0,
        stretch_only_backed_off: false,
        weighted: false,
    };

    /// 200 ms on the variance, jiffies of 1 ms: Linux of 2009 [incast 2.1].
    pub const STOCK: RtoConfig = RtoConfig {
        min: Span::from_ms(200),
        floor: Floor::Variance,
        max: Span::from_ms(120_000),
        init: Span::from_ms(3_000),
        granularity: Span::from_ms(1),
        tick: Span::from_ms(1),
        backoff_max: 15,
        backoff_reset: BackoffReset::Timestamp,
        ..RtoConfig::FINE
    };
}

/// The estimator and the back-off of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rto {
    /// Smoothed round trip in eighths of a nanosecond; zero before the first sample.
    srtt8: u64,
    /// Its mean deviation in quarters of a nanosecond.
    rttvar4: u64,
    base: Span,
    backoff: u8,
}

impl Rto {
    pub(crate) fn new(config: &RtoConfig) -> Rto {
        Rto { srtt8: 0, rttvar4: 0, base: config.init.min(config.max), backoff: 0 }
    }

    /// Smoothed round trip; `None` before the first sample.
    pub fn srtt(&self) -> Option<Span> {
        (self.srtt8 > 0).then(|| Span::from_ns((self.srtt8 >> 3).max(1)))
    }

    /// Mean deviation of the round trip.
    pub fn rttvar(&self) -> Span {
        Span::from_ns(self.rttvar4 >> 2)
    }

    /// The timeout without back-off and stretch.
    pub fn base(&self) -> Span {
        self.base
    }

    /// Doublings so far.
    pub fn backoff(&self) -> u8 {
        self.backoff
    }

    /// A round trip was measured, with so many segments in flight.
    pub(crate) fn sample(&mut self, config: &RtoConfig, rtt: Span, in_flight: u32) {
        let r = rounded_up(rtt.as_ns().max(1), config.tick.as_ns());
        if self.srtt8 == 0 {
            self.srtt8 = r.saturating_mul(8);
            self.rttvar4 = r.saturating_mul(2);
        } else {
            let weight = if config.weighted { i64::from(in_flight.div_ceil(2).max(1)) } else { 1 };
            let srtt = self.srtt8 >> 3;
            let deviation = srtt.abs_diff(r) as i64 - (self.rttvar4 >> 2) as i64;
            self.rttvar4 = self.rttvar4.saturating_add_signed(deviation / weight);
            let change = r as i64 - srtt as i64;
            self.srtt8 = self.srtt8.saturating_add_signed(change / weight).max(1);
        }
        self.recompute(config);
    }

    fn recompute(&mut self, config: &RtoConfig) {
        let srtt = self.srtt8 >> 3;
        let variance = config.granularity.as_ns().max(self.rttvar4);
        let (min, max) = (config.min.as_ns(), config.max.as_ns());
        let whole = match config.floor {
            Floor::Whole => srtt.saturating_add(variance).max(min),
            Floor::Variance => srtt.saturating_add(variance.max(min)),
        };
        self.base = Span::from_ns(rounded_up(whole.min(max), config.tick.as_ns()));
    }

    /// A timeout was for nothing: the round trip was this long (RFC 4015).
    pub(crate) fn raise(&mut self, config: &RtoConfig, rtt: Span) {
        let r = rounded_up(rtt.as_ns().max(1), config.tick.as_ns());
        self.srtt8 = self.srtt8.max(r.saturating_mul(8));
        self.rttvar4 = self.rttvar4.max(r.saturating_mul(2));
        self.recompute(config);
    }

    /// The SYN had to be sent again and told no round trip (RFC 6298).
    pub(crate) fn be_careful(&mut self, config: &RtoConfig) {
        if self.srtt8 == 0 {
            self.base = Span::from_ms(3_000).min(config.max);
        }
        self.backoff = 0;
    }

    /// A timer ran out.
    pub(crate) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    pub(crate) fn forget_backoff(&mut self) {
        self.backoff = 0;
    }

    /// When a timer that is armed now runs out.
    pub(crate) fn deadline(&self, config: &RtoConfig, now: Instant, rng: &mut Stream) -> Instant {
        let mut ns = self.base.as_ns();
        let stretches =
            config.stretch_per_mille > 0 && (self.backoff > 0 || !config.stretch_only_backed_off);
        if stretches {
            // A fresh draw of U[0, r), in parts of 2^20.
            let part = rng.below(1 << 20);
            let stretch = u128::from(ns) * u128::from(config.stretch_per_mille) * u128::from(part);
            ns = ns.saturating_add(((stretch / 1000) >> 20) as u64);
        }
        let doublings = u32::from(self.backoff.min(config.backoff_max).min(32));
        let ns = ns.saturating_mul(1 << doublings).min(config.max.as_ns()).max(1);
        now + Span::from_ns(ns)
    }
}

const fn rounded_up(ns: u64, tick: u64) -> u64 {
    if tick == 0 { ns } else { ns.div_ceil(tick).saturating_mul(tick) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::Purpose;

    fn sampled(config: &RtoConfig, us: &[u64]) -> Rto {
        let mut rto = Rto::new(config);
        us.iter().for_each(|&us| rto.sample(config, Span::from_us(us), 1));
        rto
    }

    #[test]
    fn incast_2_1_the_estimator_is_that_of_rfc_6298() {
        let rto = sampled(&RtoConfig::FINE, &[100]);
        assert_eq!((rto.srtt(), rto.rttvar()), (Some(Span::from_us(100)), Span::from_us(50)));
        assert_eq!(rto.base(), Span::from_us(300));
        let rto = sampled(&RtoConfig::FINE, &[100, 180]);
        // RTTVAR first, with the old SRTT: 50 + (80 - 50) / 4; then SRTT 100 + 80 / 8.
        assert_eq!((rto.srtt(), rto.rttvar()), (Some(Span::from_us(110)), Span::from_ns(57_500)));
        assert_eq!(rto.base(), Span::from_us(340));
    }

    #[test]
    fn incast_2_1_the_floor_is_on_the_whole_or_on_the_variance() {
        let whole = RtoConfig { min: Span::from_ms(200), ..RtoConfig::FINE };
        assert_eq!(sampled(&whole, &[100]).base(), Span::from_ms(200));
        // Linux: a flow in a rack shows 201 to 204 ms, with ticks of 1 to 4 ms.
        assert_eq!(sampled(&RtoConfig::STOCK, &[100]).base(), Span::from_ms(201));
        let tick = Span::from_ms(4);
        let coarse = RtoConfig { tick, granularity: tick, ..RtoConfig::STOCK };
        assert_eq!(sampled(&coarse, &[100]).base(), Span::from_ms(204));
    }

    #[test]
    fn incast_2_1_without_a_floor_jiffies_still_wait_for_two_of_them() {
        // The one-line change of Linux of 2009, by the rule of this estimator [incast 0a].
        let jiffies = RtoConfig { min: Span::ZERO, ..RtoConfig::STOCK };
        let settled = sampled(&jiffies, &[100; 40]);
        assert_eq!(settled.base(), Span::from_ms(2));
    }

    #[test]
    fn incast_2_1_back_off_doubles_to_its_bounds() {
        let config = RtoConfig { max: Span::from_ms(5), ..RtoConfig::FINE };
        let mut rng = Stream::keyed(1, 0, Purpose::Test);
        let mut rto = sampled(&config, &[100]);
        let mut waits = alloc::vec::Vec::new();
        for _ in 0..8 {
            let wait = rto.deadline(&config, Instant::ZERO, &mut rng).since(Instant::ZERO);
            waits.push(wait.as_ns() / 1000);
            rto.back_off();
        }
        assert_eq!(waits, [300, 600, 1200, 2400, 4800, 5000, 5000, 5000]);
    }

    #[test]
    fn incast_2_1_stretch_is_drawn_anew_and_below_its_bound() {
        let config = RtoConfig { stretch_per_mille: 500, ..RtoConfig::FINE };
        let mut rng = Stream::keyed(1, 0, Purpose::Test);
        let rto = sampled(&config, &[100]);
        let mut sum = 0;
        for _ in 0..1000 {
            let wait = rto.deadline(&config, Instant::ZERO, &mut rng).as_ns();
            assert!((300_000..450_000).contains(&wait), "{wait}");
            sum += wait;
        }
        assert!((370_000..380_000).contains(&(sum / 1000)), "{sum}");
        let only = RtoConfig { stretch_only_backed_off: true, ..config };
        assert_eq!(rto.deadline(&only, Instant::ZERO, &mut rng).as_ns(), 300_000);
    }

    #[test]
    fn incast_2_14_a_round_trip_of_nothing_is_a_nanosecond_and_granularity_protects() {
        let rto = sampled(&RtoConfig::FINE, &[0, 0, 0]);
        assert!(rto.base() >= RtoConfig::FINE.granularity, "{}", rto.base());
    }
}
