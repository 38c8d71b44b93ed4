//! What a pool and a set of slots have in common: workers, types, a policy, and what is wrong with
//! them.

use crate::record::pool::{self, Recording};
use cavy_core::Span;
use cavy_core::family::cpu::Kind;
use cavy_sched::config::AnyPolicy;
use cavy_sched::workers::WORKERS_MAX;
use cavy_sched::{Policy, PolicyError, TypeHint, darc};
use std::path::PathBuf;
use std::time::Duration;

/// DARC as it suits real threads: workers are shared out by occupancy, wake-ups included, and types
/// ordered by the service time that workers measure ([persephone 7.3, 8.2 O2]); windows of 5 000
/// completions, and the one in which a change was noticed is thrown away ([persephone 8.2 O3]). The
/// paper's own parameters are [`darc::Config::default`].
pub fn darc() -> Policy {
    let config = darc::Config {
        window: 5_000,
        by_occupancy: true,
        discard_straddling: true,
        ..darc::Config::default()
    };
    Policy::Darc { config, hinted: false }
}

/// Why a pool or slots cannot be built or resized.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The machine refuses the configuration.
    #[error("{0}")]
    Policy(#[from] PolicyError),
    /// Closures cannot be stopped half-way.
    #[error(
        "policy {name} preempts requests, and a closure cannot be preempted; take darc, c-FCFS, \
         d-FCFS or a priority policy (preemptive ones run in the lab)"
    )]
    Preemptive {
        /// The policy.
        name: &'static str,
    },
    /// Two types have one name.
    #[error("type {name:?} is named twice; each type needs a name of its own")]
    TypeTwice {
        /// The name.
        name: String,
    },
    /// A hint for a type that is not there.
    #[error("hint for type {name:?}, which is not among the types {known:?}")]
    HintWithoutType {
        /// The name in the hint.
        name: String,
        /// The registered names.
        known: Vec<String>,
    },
    /// A policy that starts from hints lacks one.
    #[error(
        "the policy starts from hints, and type {name:?} has none; give .hint({name:?}, mean, \
         ratio)"
    )]
    HintMissing {
        /// The type without a hint.
        name: String,
    },
    /// A hint that cannot be.
    #[error("hint for type {name:?}: {what}")]
    HintRange {
        /// The type.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A core that this process may not use.
    #[error("core {core} is not among the cores this process may use, {allowed:?}")]
    Core {
        /// The core asked for.
        core: usize,
        /// Those allowed.
        allowed: Vec<usize>,
    },
    /// No cores to pin to.
    #[error("the list of cores to pin to is empty; name cores or leave pinning out")]
    NoCores,
    /// This system cannot pin.
    #[error("threads cannot be pinned on this system")]
    PinUnsupported,
    /// A thread did not start.
    #[error("cannot start thread {name}: {source}")]
    Spawn {
        /// Its name.
        name: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The recording cannot be written.
    #[error("cannot record to {}: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The pool is shut down.
    #[error("the pool is shut down")]
    Shutdown,
}

/// Most requests a rehearsal remembers here; its memory is taken when the machine is built.
const TRACE_MAX: usize = 10_000_000;

/// What machines take on trust, and a user's file may get wrong.
pub(crate) fn check_policy(policy: &Policy) -> Result<(), PolicyError> {
    if let Policy::Darc { config, .. } = policy
        && let darc::sizing::Sizing::Rehearsed(terms) = &config.sizing
        && terms.trace > TRACE_MAX
    {
        let (name, value) = ("trace", terms.trace as f64);
        return Err(PolicyError::Range { name, value, must: "at most 10 million" });
    }
    Ok(())
}

/// Workers, types and policy, checked.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) workers: u16,
    pub(crate) names: Vec<String>,
    pub(crate) hints: Vec<(String, TypeHint)>,
    pub(crate) policy: Policy,
    pub(crate) queue_limit: u32,
    pub(crate) seed: u64,
    pub(crate) record: Option<PathBuf>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            workers: 1,
            names: vec!["any".to_string()],
            hints: Vec::new(),
            policy: darc(),
            queue_limit: 4_096,
            seed: 1,
            record: None,
        }
    }
}

impl Setup {
    pub(crate) fn hint(&mut self, name: &str, mean: Duration, ratio: f64) {
        let mean = Span::from_ns(u64::try_from(mean.as_nanos()).unwrap_or(u64::MAX));
        self.hints.push((name.to_string(), TypeHint { mean, ratio }));
    }

    /// One hint a type, in order; a placeholder where none was given and none is needed.
    pub(crate) fn type_hints(&self) -> Result<Vec<TypeHint>, BuildError> {
        for (name, hint) in &self.hints {
            if !self.names.contains(name) {
                let (name, known) = (name.clone(), self.names.clone());
                return Err(BuildError::HintWithoutType { name, known });
            }
            let what = if hint.mean.is_zero() {
                "its mean service time is 0; it must be longer"
            } else if !(0.0..=1.0).contains(&hint.ratio) {
                "its ratio must be between 0 and 1"
            } else {
                continue;
            };
            return Err(BuildError::HintRange { name: name.clone(), what });
        }
        let needed = match &self.policy {
            Policy::Darc { hinted, .. } => *hinted,
            _ => false,
        };
        let none = TypeHint { mean: Span::from_ms(1), ratio: 1.0 / self.names.len().max(1) as f64 };
        let of = |name: &String| {
            let given = self.hints.iter().rev().find(|(named, _)| named == name);
            match given {
                Some((_, hint)) => Ok(*hint),
                None if needed => Err(BuildError::HintMissing { name: name.clone() }),
                None => Ok(none),
            }
        };
        self.names.iter().map(of).collect()
    }

    pub(crate) fn machine(&self) -> Result<Box<dyn AnyPolicy>, BuildError> {
        for (index, name) in self.names.iter().enumerate() {
            if self.names[..index].contains(name) {
                return Err(BuildError::TypeTwice { name: name.clone() });
            }
        }
        let name = match self.policy {
            Policy::SlicedSingle { .. } => "sliced, single queue",
            Policy::SlicedMulti { .. } => "sliced, queue per type",
            Policy::ProcessorSharing { .. } => "processor sharing",
            _ => "",
        };
        if !name.is_empty() {
            return Err(BuildError::Preemptive { name });
        }
        check_policy(&self.policy)?;
        let hints = self.type_hints()?;
        Ok(cavy_sched::build(&self.policy, self.workers, &hints, self.queue_limit)?)
    }

    pub(crate) fn start_recording(&self) -> Result<Option<Recording>, BuildError> {
        let Some(path) = &self.record else { return Ok(None) };
        let header = pool::Header {
            version: pool::VERSION,
            workers: self.workers,
            types: self.names.clone(),
            hints: self.type_hints()?,
            policy: self.policy.clone(),
            queue_limit: self.queue_limit,
            seed: self.seed,
        };
        let recording = Recording::create(path, &header)
            .map_err(|source| BuildError::Record { path: path.clone(), source })?;
        Ok(Some(recording))
    }

    /// The type of this name.
    pub(crate) fn kind(&self, name: &str) -> Option<Kind> {
        let index = self.names.iter().position(|known| known == name)?;
        Some(Kind(index as u16 + 1))
    }

    pub(crate) fn check_workers(workers: u16) -> Result<(), BuildError> {
        if (1..=WORKERS_MAX).contains(&workers) {
            Ok(())
        } else {
            Err(PolicyError::Workers(workers).into())
        }
    }
}
