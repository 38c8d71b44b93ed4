//! What a run of DAST is set to, and the bugs that may be planted in it.

use crate::layout::Layout;
use cavy_core::Span;

/// Parameters of `[dast 2.13]` and the choices that tell the modes apart.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Who is where.
    pub layout: Layout,
    /// Between two reports of a node's clock.
    pub sync: Span,
    /// Stewards report once in so many `sync`, and hear one report of so many. They run nothing, so
    /// these tell them who is alive and how late it is, and replicas what is promised, which is
    /// `est` ahead. Several must fit into `fail_after`, and into `est`.
    pub stewards_every: u32,
    /// How far ahead of its clock a steward anticipates a CRT. At least a delay within the region
    /// and the skew of its clocks; where it is shorter than those and `sync` together, IRTs wait
    /// too.
    pub est: Span,
    /// Entries that may wait for values while one with a later timestamp runs; `None`: any number.
    pub lookahead: Option<u32>,
    /// A node that has not been heard for this long is taken out of its region's view.
    pub fail_after: Span,
    /// A CRT that is not decided after this long is resolved by its home region.
    pub crt_after: Span,
    /// A coordinator asks again for what it has not heard after this long.
    pub retry_after: Span,
    /// What ran is remembered for so much of timestamps, so that a retry does not run again.
    pub remember: Span,
    /// A region may be cut off for so long. Values, and decisions whose coordinator failed, are
    /// kept until then, because it asks for them when it is back.
    pub cut_max: Span,
    /// A clock that is further ahead than this is not followed.
    pub jump_max: Span,
    /// A decision is stored by a majority of the home shard before it is told. Without it the
    /// failure of a coordinator leaves its CRTs undecided.
    pub decision_log: bool,
    /// A follower runs an IRT only when it knows that a majority of each shard has it.
    pub follower_rule: bool,
    /// A coordinator tells that at once, and not only in its next report.
    pub tell_at_once: bool,
    /// Regions that wait for a value keep their clocks below the CRT: the source's rule.
    pub dependency_stretch: bool,
    /// Clocks stretch at all.
    pub stretch: bool,
    /// Commits go through the steward, which tells everybody in one instant.
    pub commit_via_steward: bool,
    /// No two CRTs share the physical part of their timestamp.
    pub unique_t: bool,
    /// Where they may: what the physical part counts. The artifact counts microseconds.
    pub grain: Span,
    /// The counter of a stretched timestamp is physical time.
    pub physical_k: bool,
    /// Coordinators and stewards anticipate from their physical clocks and not from stretched ones.
    pub physical_est: bool,
    /// Read-only transactions of one shard are read at one replica, without messages.
    pub fenced_reads: bool,
    /// Replicas keep all that they are told in their logs, and others rely on it when it is stored:
    /// a region comes back when all its replicas have failed at once. Otherwise they hold it in
    /// memory, and a majority of each shard must not fail.
    pub durable: bool,
    /// With such a log everything is stored anew after so many bytes, or after four times as many
    /// as that took the last time, so that what was stored before can go.
    pub checkpoint_bytes: u64,
    /// Answers carry the versions that were read and written, and machines tell what they applied.
    pub history: bool,
    /// What is wrong with this machine.
    pub bugs: Bugs,
}

/// The three ways to run it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Pieces run when nothing that they conflict with is before them `[dast 2.7]`.
    Precise,
    /// The source's rule: a region's clocks wait with a CRT that waits for a value.
    Paper,
    /// What the published artifact does, weaknesses included `[dast 2.12]`.
    Artifact,
}

impl Config {
    /// The defaults of `[dast 2.13]` in `mode`.
    pub fn new(layout: Layout, mode: Mode) -> Config {
        let precise = Config {
            layout,
            sync: Span::from_ms(5),
            stewards_every: 1,
            est: Span::from_ms(90),
            lookahead: None,
            fail_after: Span::from_ms(100),
            crt_after: Span::from_ms(500),
            retry_after: Span::from_ms(250),
            remember: Span::from_ms(30_000),
            cut_max: Span::from_ms(3_600_000),
            jump_max: Span::from_ms(10_000),
            decision_log: true,
            follower_rule: true,
            tell_at_once: true,
            dependency_stretch: false,
            stretch: true,
            commit_via_steward: true,
            unique_t: true,
            grain: Span::from_us(1),
            physical_k: true,
            physical_est: true,
            fenced_reads: false,
            durable: false,
            checkpoint_bytes: 4 << 20,
            history: false,
            bugs: Bugs::default(),
        };
        match mode {
            Mode::Precise => precise,
            Mode::Paper => Config { dependency_stretch: true, ..precise },
            Mode::Artifact => Config {
                lookahead: Some(5),
                decision_log: false,
                follower_rule: false,
                tell_at_once: false,
                commit_via_steward: false,
                // The source's rule too: `DastNotiManagerWait` `[dast 2.7]`.
                dependency_stretch: true,
                unique_t: false,
                physical_est: false,
                bugs: Bugs {
                    no_watermark: true,
                    no_promise: true,
                    first_answer: true,
                    answer_early: true,
                    run_late: true,
                    ..Bugs::default()
                },
                ..precise
            },
        }
    }
}

/// Bugs by the names of `[dast 5.8]`: for checkers, which must find each. The artifact has some.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bugs {
    /// M1: nobody waits for the clocks of others.
    pub no_watermark: bool,
    /// M2: one acknowledgement a shard is taken for a majority.
    pub one_ack: bool,
    /// M3: followers run what may not be stable.
    pub run_unstable: bool,
    /// M4: a commit that comes before its prepare is forgotten.
    pub drop_early_commit: bool,
    /// M6: the least of the anticipated timestamps is taken.
    pub least_timestamp: bool,
    /// M8: the steward's promise is not waited for.
    pub no_promise: bool,
    /// M9: a new steward is content with a majority.
    pub majority_freeze: bool,
    /// M10: what ran is forgotten by the wall clock of each replica.
    pub forget_by_wall: bool,
    /// M11: a commit is told once.
    pub commit_once: bool,
    /// M12: fenced reads do not wait for entries below them.
    pub read_above_unexecuted: bool,
    /// M13: a steward takes out whoever is silent, also when nobody is left who has state, and
    /// when it was the steward that stood still.
    pub hasty_steward: bool,
    /// M14: nobody is told of a channel between replicas that broke.
    pub ignore_broken: bool,
    /// M15: with a log, others are told that something is stored before it is.
    pub say_unstored: bool,
    /// M16: with a log, timestamps are not reserved.
    pub no_reservation: bool,
    /// M17: with a log, whoever comes back says of what it had coordinated that all is everywhere.
    pub forget_coordinated: bool,
    /// An IRT of several shards is answered after the coordinator's own.
    pub answer_early: bool,
    /// An IRT runs at its coordinator when one other replica of each shard has answered, which is a
    /// majority of its own shard only.
    pub first_answer: bool,
    /// What comes after something later has run is run all the same, out of order, and before what
    /// waits with a later timestamp. No clock is moved by what runs, and no CRT is refused.
    pub run_late: bool,
}
