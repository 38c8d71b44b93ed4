//! Recordings of Governors: what each was told, so that a fresh one decides the same.
//!
//! A measurement has many Governors, one after the other, each with a configuration and a time of
//! its own. So a recording has many starts, and each says how its Governor was made. What is
//! written and compared else is what all recordings have ([`cavy_live::record::steps`]).

use crate::freezer::Lead;
use crate::world::{Hears, Told};
use cavy_core::family::probe::{Effect, Endpoint, Epoch, Group, Input, Set, Timer, Usage};
use cavy_core::{Cx, Instant, Machine as _, Out, Span};
use cavy_live::record::Summary;
use cavy_live::record::steps::{Fields, Header, Recorder, Said, Steps};
use cavy_whatif::daemon::Order;
use cavy_whatif::{Busy, Governor, Limits, Target, Windows};
use serde::{Deserialize, Serialize};
use std::io::{self, Write as _};
use std::path::Path;

/// What steps and their answers are made of.
pub use cavy_whatif::{Change, Config, Reading};

/// What headers say that they are about.
pub const MACHINE: &str = "governor";
/// Groups, windows and endpoints of one Governor at most, so that the memory of a replay is
/// bounded whatever a file says.
const MANY: usize = 4_096;

/// The header of a recording: whose the groups are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Names of groups, from 0.
    pub groups: Vec<String>,
}

/// A step of a Governor.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Another one begins.
    Start(Box<Config>),
    /// It is told something.
    Told(Told<Order>),
}

/// Governors that follow each other.
#[derive(Debug, Default)]
pub struct Governors {
    /// The one at work.
    pub now: Option<Governor>,
}

impl Steps for About {
    type Machine = Governors;
    type Step = Step;
    type Effect = Effect<Order, Reading>;
    type Timer = Timer;
    type Given = ();

    const NAME: &'static str = MACHINE;
    const MACHINES_MAX: u64 = u64::MAX;

    fn fresh(&self) -> Result<Governors, String> {
        match self.groups.len() <= MANY {
            true => Ok(Governors::default()),
            false => Err(format!("config.groups: at most {MANY}")),
        }
    }

    fn effects_max(governors: &Governors) -> usize {
        governors.now.as_ref().map_or(0, |governor| governor.effects_max())
    }

    fn timer(step: &Step) -> Option<Timer> {
        match step {
            Step::Told(Told::Expire(timer)) => Some(*timer),
            _ => None,
        }
    }

    /// The end of a pause takes a while, and is begun as much earlier.
    fn early(timer: Timer) -> Span {
        match timer {
            Timer::Thaw(_) => Lead::MAX,
            _ => Span::ZERO,
        }
    }

    fn take(
        step: Step,
        governors: &mut Governors,
        cx: &mut Cx<'_, Self::Effect, Timer>,
    ) -> Result<Option<()>, String> {
        let told = match step {
            Step::Told(told) => told,
            Step::Start(config) => {
                let governor = Governor::new(*config).map_err(|error| format!("start: {error}"))?;
                governors.now = Some(governor);
                Told::Start
            }
        };
        let governor = governors.now.as_mut().ok_or("no Governor has begun")?;
        told.take(governor, cx);
        Ok(None)
    }
}

impl Said for Step {
    fn write(&self, to: &mut Vec<u8>, at: Instant) -> io::Result<()> {
        let at = at.as_ns();
        let told = match self {
            Step::Start(config) => {
                let config = serde_json::to_string(&Kept::of(config))?;
                return write!(to, "[{at},\"start\",{config}]");
            }
            Step::Told(told) => told,
        };
        match told {
            // It stands with its configuration.
            Told::Start => Ok(()),
            Told::Expire(Timer::Thaw(Set(set))) => write!(to, "[{at},\"thaw\",{set}]"),
            Told::Expire(Timer::Lease) => write!(to, "[{at},\"lease\"]"),
            Told::Expire(Timer::Window) => write!(to, "[{at},\"window\"]"),
            Told::Expire(Timer::Tick) => write!(to, "[{at},\"tick\"]"),
            Told::Input(input) => write_input(to, at, input),
        }
    }

    fn read(word: &str, fields: &mut Fields) -> Result<Step, String> {
        let told = match word {
            "start" => {
                let value = fields.value("configuration")?;
                let kept: Kept = serde_json::from_value(value).map_err(|e| e.to_string())?;
                return Ok(Step::Start(Box::new(kept.config()?)));
            }
            "thaw" => Told::Expire(Timer::Thaw(Set(fields.small("set", 16)?))),
            "lease" => Told::Expire(Timer::Lease),
            "window" => Told::Expire(Timer::Window),
            "tick" => Told::Expire(Timer::Tick),
            _ => Told::Input(read_input(word, fields)?),
        };
        Ok(Step::Told(told))
    }

    fn begins(&self) -> bool {
        matches!(self, Step::Start(_))
    }
}

fn write_input(to: &mut Vec<u8>, at: u64, input: &Input<Order>) -> io::Result<()> {
    match input {
        Input::Used { group: Group(group), at: read, usage } => {
            let Usage { cpu, busy, runnable } = usage;
            let [cpu, busy, runnable] = [cpu, busy, runnable].map(|span| span.as_ns());
            write!(to, "[{at},\"used\",{group},{},{cpu},{busy},{runnable}]", read.as_ns())
        }
        Input::Visited { group: Group(group), endpoint: Endpoint(endpoint) } => {
            write!(to, "[{at},\"visited\",{group},{endpoint}]")
        }
        Input::Frozen { group: Group(group), epoch: Epoch(epoch), at: since } => {
            write!(to, "[{at},\"frozen\",{group},{epoch},{}]", since.as_ns())
        }
        Input::Thawed { group: Group(group), epoch: Epoch(epoch), at: since } => {
            write!(to, "[{at},\"thawed\",{group},{epoch},{}]", since.as_ns())
        }
        Input::Completed { requests } => write!(to, "[{at},\"completed\",{requests}]"),
        Input::Gone { group: Group(group) } => write!(to, "[{at},\"gone\",{group}]"),
        Input::Abort => write!(to, "[{at},\"abort\"]"),
        // Between controllers, and this world has one. A replay would refuse the line.
        Input::Met { .. } | Input::Rx { .. } => write!(to, "[{at},\"between\"]"),
    }
}

fn read_input(word: &str, fields: &mut Fields) -> Result<Input<Order>, String> {
    let span = |fields: &mut Fields, what| fields.small(what, 62).map(Span::from_ns);
    let at = |fields: &mut Fields| fields.small("since when", 62).map(Instant::from_ns);
    let group = |fields: &mut Fields| fields.small("group", 32).map(Group);
    let epoch = |fields: &mut Fields| fields.small("epoch", 62).map(Epoch);
    Ok(match word {
        "used" => Input::Used {
            group: group(fields)?,
            at: at(fields)?,
            usage: Usage {
                cpu: span(fields, "CPU time")?,
                busy: span(fields, "busy time")?,
                runnable: span(fields, "runnable time")?,
            },
        },
        "visited" => Input::Visited {
            group: group(fields)?,
            endpoint: Endpoint(fields.small("endpoint", 16)?),
        },
        "frozen" => Input::Frozen { group: group(fields)?, epoch: epoch(fields)?, at: at(fields)? },
        "thawed" => Input::Thawed { group: group(fields)?, epoch: epoch(fields)?, at: at(fields)? },
        "completed" => Input::Completed { requests: fields.small("requests", 32)? },
        "gone" => Input::Gone { group: group(fields)? },
        "abort" => Input::Abort,
        _ => {
            let word: String = word.chars().take(40).collect();
            return Err(format!("there is no step {word:?}"));
        }
    })
}

/// A configuration as a line has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    targets: Vec<KeptTarget>,
    rest: Vec<u32>,
    pause_min_ns: u64,
    pause_max_ns: u64,
    duty_max: f64,
    lease_ns: u64,
    tick_ns: u64,
    look_max_ns: u64,
    settle_ns: u64,
    length_ns: u64,
    pattern: Vec<bool>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptTarget {
    groups: Vec<u32>,
    change: KeptChange,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum KeptChange {
    Count { saved_ns: Vec<i64>, parallel: u32 },
    Clock { share: f64, parallel: u32, busy: KeptBusy },
    Delivered { share: f64, parallel: u32 },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeptBusy {
    Cpu,
    Wall,
    Runnable,
}

fn numbers(groups: &[Group]) -> Vec<u32> {
    groups.iter().map(|group| group.0).collect()
}

fn groups(numbers: Vec<u32>) -> Vec<Group> {
    numbers.into_iter().map(Group).collect()
}

impl Kept {
    fn of(config: &Config) -> Kept {
        let Config { targets, rest, limits, windows, hosts: _ } = config;
        let target = |one: &Target| KeptTarget {
            groups: numbers(&one.groups),
            change: match &one.change {
                Change::Count { saved_ns, parallel } => {
                    KeptChange::Count { saved_ns: saved_ns.clone(), parallel: *parallel }
                }
                Change::Clock { share, parallel, busy } => KeptChange::Clock {
                    share: *share,
                    parallel: *parallel,
                    busy: match busy {
                        Busy::Cpu => KeptBusy::Cpu,
                        Busy::Wall => KeptBusy::Wall,
                        Busy::Runnable => KeptBusy::Runnable,
                    },
                },
                Change::Delivered { share, parallel } => {
                    KeptChange::Delivered { share: *share, parallel: *parallel }
                }
            },
        };
        Kept {
            targets: targets.iter().map(target).collect(),
            rest: numbers(rest),
            pause_min_ns: limits.pause_min.as_ns(),
            pause_max_ns: limits.pause_max.as_ns(),
            duty_max: limits.duty_max,
            lease_ns: limits.lease.as_ns(),
            tick_ns: limits.tick.as_ns(),
            look_max_ns: limits.look_max.as_ns(),
            settle_ns: windows.settle.as_ns(),
            length_ns: windows.length.as_ns(),
            pattern: windows.pattern.clone(),
        }
    }

    /// The configuration, if its sizes are those of a measurement.
    fn config(self) -> Result<Config, String> {
        let spans = [
            self.pause_min_ns,
            self.pause_max_ns,
            self.lease_ns,
            self.tick_ns,
            self.look_max_ns,
            self.settle_ns,
            self.length_ns,
        ];
        // An hour, so that no sum of them overflows.
        if spans.iter().any(|&ns| ns > 3_600_000_000_000) {
            return Err("start: a span of more than an hour".to_string());
        }
        let count = |one: &KeptTarget| match &one.change {
            KeptChange::Count { saved_ns, .. } => one.groups.len() + saved_ns.len(),
            _ => one.groups.len(),
        };
        let targets: usize = self.targets.iter().map(count).sum();
        if targets + self.rest.len() + self.pattern.len() > MANY {
            return Err(format!("start: more than {MANY} groups, windows and endpoints"));
        }
        let target = |one: KeptTarget| Target {
            groups: groups(one.groups),
            change: match one.change {
                KeptChange::Count { saved_ns, parallel } => Change::Count { saved_ns, parallel },
                KeptChange::Clock { share, parallel, busy } => Change::Clock {
                    share,
                    parallel,
                    busy: match busy {
                        KeptBusy::Cpu => Busy::Cpu,
                        KeptBusy::Wall => Busy::Wall,
                        KeptBusy::Runnable => Busy::Runnable,
                    },
                },
                KeptChange::Delivered { share, parallel } => Change::Delivered { share, parallel },
            },
        };
        Ok(Config {
            targets: self.targets.into_iter().map(target).collect(),
            rest: groups(self.rest),
            limits: Limits {
                pause_min: Span::from_ns(self.pause_min_ns),
                pause_max: Span::from_ns(self.pause_max_ns),
                duty_max: self.duty_max,
                lease: Span::from_ns(self.lease_ns),
                tick: Span::from_ns(self.tick_ns),
                look_max: Span::from_ns(self.look_max_ns),
            },
            windows: Windows {
                settle: Span::from_ns(self.settle_ns),
                length: Span::from_ns(self.length_ns),
                pattern: self.pattern,
            },
            hosts: 0,
        })
    }
}

/// The seed of the random stream of each; Governors draw nothing.
pub(crate) const SEED: u64 = 1;

/// A recording in progress.
pub struct Record {
    recorder: Recorder<Step>,
    /// How the Governor is made that begins next.
    next: Option<Box<Config>>,
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record").finish_non_exhaustive()
    }
}

impl Record {
    /// A recording at `path` of Governors over these groups, from 0.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path, groups: Vec<String>) -> io::Result<Record> {
        let recorder = Recorder::create(path, &Header::new(&About { groups }, SEED))?;
        Ok(Record { recorder, next: None })
    }

    /// The Governor that begins next is made of `config`.
    pub fn next(&mut self, config: &Config) {
        self.next = Some(Box::new(config.clone()));
    }

    /// Writes the rest, and waits until the file is complete.
    ///
    /// # Errors
    /// Why the recording ended before the run did.
    pub fn finish(self) -> io::Result<Summary> {
        self.recorder.finish()
    }
}

impl Hears<Governor> for Record {
    fn taken(
        &mut self,
        at: Instant,
        told: Told<Order>,
        outs: &[Out<Effect<Order, Reading>, Timer>],
    ) {
        let step = match (told, self.next.take()) {
            (Told::Start, Some(config)) => Step::Start(config),
            // A Governor of which nobody said how it was made cannot be made again.
            (Told::Start, None) => return,
            (told, next) => {
                self.next = next;
                Step::Told(told)
            }
        };
        self.recorder.taken(at, step, outs, None::<&()>);
    }

    fn rest(&mut self, at: Instant) {
        self.recorder.rest(at);
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
