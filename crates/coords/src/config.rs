//! What can be chosen, with defaults of [htrae 2.10].

use crate::map::{Line, SERVERS};
use core::fmt;

/// Which measurements are taken for detours, not for distances ([htrae 2.7]).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Detours {
    /// Suspect above this multiple of the estimate.
    pub over: f64,
    /// Suspect below this share of the estimate; 0 for never.
    pub under: f64,
    /// Suspect nobody before as many updates.
    pub after: u32,
}

impl Default for Detours {
    fn default() -> Self {
        Detours { over: 2.0, under: 0.0, after: 8 }
    }
}

impl Detours {
    pub(crate) fn suspects(self, rtt_ms: f64, estimate_ms: f64, updates: u32) -> bool {
        updates >= self.after
            && (rtt_ms > self.over * estimate_ms || rtt_ms < self.under * estimate_ms)
    }
}

/// Parameters of the model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// From distance to round-trip time.
    pub line: Line,
    /// Share of an error by which a coordinate moves, c_c.
    pub move_gain: f64,
    /// Added to `move_gain` at first, halved every eight updates: 0.25 makes the step begin at 0.5,
    /// which helps the tail ([htrae 2.10]).
    pub move_gain_extra: f64,
    /// Share by which a new error replaces the old, c_e.
    pub error_gain: f64,
    /// Relative error at first.
    pub error_start: f64,
    /// Greatest relative error.
    pub error_max: f64,
    /// Least relative error.
    pub error_min: f64,
    /// First height over the base of the line.
    pub height_start_ratio: f64,
    /// Least height, milliseconds.
    pub height_min_ms: f64,
    /// What heights count within a system, at most 1.
    pub same_system_factor: f64,
    /// Measurements to suspect; nobody when absent, which is the default.
    pub detours: Option<Detours>,
    /// Greatest round-trip time that is believed, milliseconds.
    pub rtt_max_ms: f64,
    /// Most that one measurement moves a coordinate, milliseconds; without a limit in the source. A
    /// defence against liars ([htrae 6]).
    pub step_max_ms: f64,
    /// A bug that the tests are to catch; `None` everywhere else.
    #[doc(hidden)]
    pub planted: Option<Planted>,
}

/// Bugs that the tests plant to show that they would be caught.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// Rounding lets places leave the sphere.
    NotNormalized,
    /// Feedback has the coordinate from after the asker's own update.
    FeedbackFromAfter,
    /// The time that a peer held a probe counts as distance.
    HeldCounted,
    /// Feedback is believed whatever probe it names.
    FeedbackUnproven,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            line: SERVERS,
            move_gain: 0.25,
            move_gain_extra: 0.0,
            error_gain: 0.25,
            error_start: 1.0,
            error_max: 1.0,
            error_min: 0.01,
            height_start_ratio: 0.5,
            height_min_ms: 0.1,
            same_system_factor: 0.8,
            detours: None,
            rtt_max_ms: 10_000.0,
            step_max_ms: f64::INFINITY,
            planted: None,
        }
    }
}

impl Config {
    /// The defaults, with a fitted line.
    pub fn with_line(line: Line) -> Config {
        Config { line, ..Config::default() }
    }

    /// Can a round trip have taken so long? Zero, negative, endless and no number cannot.
    pub(crate) fn believes(&self, rtt_ms: f64) -> bool {
        rtt_ms > 0.0 && rtt_ms <= self.rtt_max_ms
    }

    pub(crate) fn move_gain(&self, updates: u32) -> f64 {
        if self.move_gain_extra == 0.0 {
            return self.move_gain;
        }
        self.move_gain + self.move_gain_extra * libm::exp2(-f64::from(updates) / 8.0)
    }

    /// Refuses what no model can work with.
    pub fn check(&self) -> Result<(), ConfigError> {
        let wrong = |field, value, must| Err(ConfigError { field, value, must });
        let positive = [
            ("ms_per_km", self.line.ms_per_km),
            ("error_min", self.error_min),
            ("height_min_ms", self.height_min_ms),
            ("rtt_max_ms", self.rtt_max_ms),
        ];
        for (field, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return wrong(field, value, "above 0");
            }
        }
        let ratios = [
            ("move_gain", self.move_gain),
            ("error_gain", self.error_gain),
            ("same_system_factor", self.same_system_factor),
        ];
        for (field, value) in ratios {
            if !(value > 0.0 && value <= 1.0) {
                return wrong(field, value, "above 0 and at most 1");
            }
        }
        if !(0.0..=1.0).contains(&(self.move_gain + self.move_gain_extra)) {
            return wrong(
                "move_gain_extra",
                self.move_gain_extra,
                "at most 1 together with `move_gain`",
            );
        }
        if !(self.line.base_ms >= 0.0 && self.line.base_ms.is_finite()) {
            return wrong("base_ms", self.line.base_ms, "at least 0");
        }
        if !(0.0..=2.0).contains(&self.height_start_ratio) {
            return wrong("height_start_ratio", self.height_start_ratio, "0 to 2");
        }
        if !(self.error_start >= self.error_min && self.error_start <= self.error_max) {
            return wrong("error_start", self.error_start, "between `error_min` and `error_max`");
        }
        if self.step_max_ms.is_nan() || self.step_max_ms <= 0.0 {
            return wrong("step_max_ms", self.step_max_ms, "above 0");
        }
        Ok(())
    }
}

/// A parameter out of its range.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ConfigError {
    /// Which.
    pub field: &'static str,
    /// What it is.
    pub value: f64,
    /// What it must be.
    pub must: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {}, but must be {}", self.field, self.value, self.must)
    }
}

impl core::error::Error for ConfigError {}
