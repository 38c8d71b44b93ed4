//! What a Governor is told before it begins.

use alloc::vec::Vec;
use cavy_core::Span;
use cavy_core::family::probe::Group;
use core::fmt;

/// Targets that one Governor has at most.
pub const TARGETS: usize = 4;

/// What a Governor does.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What is changed: none for a baseline, several for changes made together.
    pub targets: Vec<Target>,
    /// All other groups, clients included.
    pub rest: Vec<Group>,
    /// How pauses may be.
    pub limits: Limits,
    /// What is measured.
    pub windows: Windows,
    /// Hosts with a [`crate::Daemon`] each, controllers 1 to this number; 0 when the Governor stops
    /// groups itself.
    pub hosts: u32,
}

/// A service that is changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its replicas.
    pub groups: Vec<Group>,
    /// How it is changed.
    pub change: Change,
}

/// How a target is changed, and how the debt grows for it.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Each visit takes less, by endpoint; the last entry counts for all further ones. Below zero
    /// it takes more.
    Count {
        /// Time saved by a visit, in nanoseconds.
        saved_ns: Vec<i64>,
        /// Servers of what bounds the target: its cores in all replicas, or 1 for a lock ([slowpoke
        /// 2.1]).
        parallel: u32,
    },
    /// It works faster by a share of its busy time, 0 to 1; below zero it works slower.
    Clock {
        /// The share.
        share: f64,
        /// Servers of what bounds the target, in all replicas.
        parallel: u32,
        /// What busy means.
        busy: Busy,
    },
    /// It gets a share of its CPU time while all others stand ([slowpoke 0]).
    Delivered {
        /// The share, 0 to 1.
        share: f64,
        /// CPU time that the target is expected to get for each unit of time while others stand,
        /// for the first pause; later ones go by what was seen.
        parallel: u32,
    },
}

impl Change {
    /// Can it make the target slower?
    pub fn slows(&self) -> bool {
        match self {
            Change::Count { saved_ns, .. } => saved_ns.iter().any(|saved_ns| *saved_ns < 0),
            Change::Clock { share, .. } | Change::Delivered { share, .. } => *share < 0.0,
        }
    }
}

/// Which time of a target counts as busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Busy {
    /// CPU time over its servers: right for a saturated target on its own cores.
    #[default]
    Cpu,
    /// Time in which any of its threads ran or was ready.
    Wall,
    /// CPU time and waiting for cores, over its servers: where others take its cores away.
    Runnable,
}

/// How pauses may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The shortest pause: debts wait until they are as long.
    pub pause_min: Span,
    /// The longest pause: what is left of a debt waits.
    pub pause_max: Span,
    /// Share of time for which all may stand at most, below 1.
    pub duty_max: f64,
    /// For how long groups stand when the Governor is gone; at least twice the longest pause.
    pub lease: Span,
    /// How often usage of targets is read.
    pub tick: Span,
    /// The longest time between two readings while nobody stands. Up to it usage is read when a
    /// debt may be long enough for a pause; every tick when it is no longer than that. Only a
    /// single target of a single group is read less often.
    pub look_max: Span,
}

impl Default for Limits {
    /// [slowpoke 2.7]: 2 ms to 20 ms, read every ms, at most 0.85 of the time, lease 200 ms.
    fn default() -> Self {
        Limits {
            pause_min: Span::from_ms(2),
            pause_max: Span::from_ms(20),
            duty_max: 0.85,
            lease: Span::from_ms(200),
            tick: Span::from_ms(1),
            look_max: Span::ZERO,
        }
    }
}

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Windows {
    /// Time before a window of another manner than the one before, or the first, begins.
    pub settle: Span,
    /// Length of a window, at least; it ends with the next pause.
    pub length: Span,
    /// The manners of windows, repeated for ever: with pauses or without. ABBA is
    /// `[false, true, true, false]`.
    pub pattern: Vec<bool>,
}

impl Default for Windows {
    /// [slowpoke 2.7]: 2 s to settle, windows of 5 s, all of them with pauses.
    fn default() -> Self {
        Windows {
            settle: Span::from_ms(2_000),
            length: Span::from_ms(5_000),
            pattern: [true].to_vec(),
        }
    }
}

/// Why a Governor cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// More targets than [`TARGETS`].
    ManyTargets,
    /// A target has no groups, or a group is named twice.
    Groups,
    /// A share is 1 or more, or no number; or a target has no servers.
    Change,
    /// Pauses of no length, longest before shortest, a duty outside 0 to 1, no tick, or a lease
    /// below two pauses.
    Limits,
    /// Windows of no length or without a pattern.
    Windows,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfigError::ManyTargets => "more than 4 targets",
            ConfigError::Groups => "a target without groups, or a group named twice",
            ConfigError::Change => "a share of 1 or more, or a target without servers",
            ConfigError::Limits => "pauses, duty, tick or lease out of range",
            ConfigError::Windows => "windows of no length or without a pattern",
        })
    }
}

impl core::error::Error for ConfigError {}

impl Config {
    /// Whether a Governor can be made of it.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.targets.len() > TARGETS {
            return Err(ConfigError::ManyTargets);
        }
        let all = self.targets.iter().flat_map(|one| &one.groups).chain(&self.rest);
        let mut all: Vec<Group> = all.copied().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        if count != all.len() || self.targets.iter().any(|one| one.groups.is_empty()) {
            return Err(ConfigError::Groups);
        }
        let good = |one: &Target| match &one.change {
            Change::Count { saved_ns, parallel } => !saved_ns.is_empty() && *parallel > 0,
            Change::Clock { share, parallel, .. } => {
                share.is_finite() && *share < 1.0 && *parallel > 0
            }
            Change::Delivered { share, parallel } => (0.0..1.0).contains(share) && *parallel > 0,
        };
        if !self.targets.iter().all(good) {
            return Err(ConfigError::Change);
        }
        let Limits { pause_min, pause_max, duty_max, lease, tick, look_max: _ } = self.limits;
        let sound = !pause_min.is_zero()
            && pause_min <= pause_max
            && duty_max > 0.0
            && duty_max < 1.0
            && lease >= pause_max * 2
            && !tick.is_zero();
        if !sound {
            return Err(ConfigError::Limits);
        }
        if self.windows.length.is_zero() || self.windows.pattern.is_empty() {
            return Err(ConfigError::Windows);
        }
        Ok(())
    }
}
