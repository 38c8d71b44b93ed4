//! How a configuration is written in a recording. The protocol rooms know no serde, so the forms
//! mirror their types field by field; a field added there fails to compile here.

use crate::record::span;
use cavy_core::Span;
use cavy_homa::config::{
    Adaptive, ClassedBy, Config, Granting, Incast, Informed, Learning, Limits, OldestGrants, Order,
    Pacing, Publish, Quick, Recovery, TailBoost,
};
use cavy_homa::cutoffs::Cutoffs;
use cavy_homa::packet::Layout;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Config", deny_unknown_fields)]
pub(super) struct ConfigForm {
    #[serde(with = "LayoutForm")]
    layout: Layout,
    link_bits_per_s: u64,
    overhead_bytes: u32,
    frame_min_bytes: u32,
    unscheduled_packet_bytes: u32,
    scheduled_packet_bytes: u32,
    unscheduled_bytes: u32,
    message_max_bytes: u32,
    empty_messages: bool,
    answers: bool,
    levels: u8,
    scheduled_levels: u8,
    #[serde(with = "cutoffs")]
    cutoffs: Cutoffs,
    cutoffs_known: bool,
    #[serde(with = "cutoffs")]
    own_cutoffs: Cutoffs,
    #[serde(with = "ClassedByForm")]
    classed_by: ClassedBy,
    #[serde(with = "span")]
    cutoffs_gap: Span,
    #[serde(with = "GrantingForm")]
    granting: Granting,
    #[serde(with = "TailBoostForm")]
    tail_boost: TailBoost,
    #[serde(with = "oldest_grants")]
    oldest_grants: Option<OldestGrants>,
    #[serde(with = "OrderForm")]
    order: Order,
    #[serde(with = "pacing")]
    pacing: Option<Pacing>,
    oldest_pick: u32,
    #[serde(with = "recovery")]
    recovery: Option<Recovery>,
    forget_answers: bool,
    refusals: bool,
    #[serde(with = "incast")]
    incast: Option<Incast>,
    #[serde(with = "quick")]
    quick: Option<Quick>,
    #[serde(with = "informed")]
    informed: Option<Informed>,
    #[serde(with = "learning")]
    learning: Option<Learning>,
    #[serde(with = "LimitsForm")]
    limits: Limits,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Layout", rename_all = "snake_case")]
enum LayoutForm {
    Simulator,
    Linux,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ClassedBy", rename_all = "snake_case")]
enum ClassedByForm {
    Length,
    Remaining,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Granting", rename_all = "snake_case", deny_unknown_fields)]
enum GrantingForm {
    Independent {
        window_bytes: u32,
        increment_bytes: u32,
    },
    Arrivals {
        overcommit: u8,
        window_bytes: u32,
        increment_bytes: u32,
        incoming_max_bytes: u32,
    },
    Spaced {
        overcommit: u8,
        window_wire_bytes: u32,
        #[serde(with = "adaptive")]
        adaptive: Option<Adaptive>,
    },
    Windows {
        overcommit: u8,
        window_bytes: u32,
        incoming_max_bytes: u32,
        increment_bytes: u32,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Adaptive", deny_unknown_fields)]
struct AdaptiveForm {
    idle_bytes: u32,
    most: u8,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "TailBoost", rename_all = "snake_case")]
enum TailBoostForm {
    Off,
    ScheduledPart,
    Length,
    Remaining,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "OldestGrants", deny_unknown_fields)]
struct OldestGrantsForm {
    share_per_mille: u32,
    increment_bytes: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Order", rename_all = "snake_case", deny_unknown_fields)]
enum OrderForm {
    ShortestRemaining,
    Aged { credit_per_mille: u32, floor_bytes: u32 },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Pacing", deny_unknown_fields)]
struct PacingForm {
    #[serde(with = "span")]
    backlog: Span,
    bypass_bytes: u32,
    rate_per_cent: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Recovery", deny_unknown_fields)]
struct RecoveryForm {
    #[serde(with = "span")]
    tick: Span,
    resend_ticks: u32,
    resend_interval_ticks: u32,
    resend_wait_max_ticks: u32,
    timeout_ticks: u32,
    ack_ticks: u32,
    #[serde(default = "one")]
    ack_wait_max_ticks: u32,
    #[serde(with = "span", default)]
    answer_kept: Span,
    #[serde(with = "span", default)]
    stranger_kept: Span,
    #[serde(with = "span")]
    resend_guard: Span,
    restart_always: bool,
    remember_ticks: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Incast", deny_unknown_fields)]
struct IncastForm {
    threshold: u32,
    marked_bytes: u32,
    automatic: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Quick", deny_unknown_fields)]
struct QuickForm {
    #[serde(with = "span")]
    rtt: Span,
    round_trips: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Informed", deny_unknown_fields)]
struct InformedForm {
    backlog_min: u8,
    spared_bytes: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Learning", deny_unknown_fields)]
struct LearningForm {
    #[serde(with = "span")]
    interval: Span,
    messages_min: u64,
    bytes_min: u64,
    keep_per_mille: u32,
    memory_bytes: u64,
    #[serde(with = "PublishForm")]
    publish: Publish,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Publish", rename_all = "snake_case", deny_unknown_fields)]
enum PublishForm {
    Deciles,
    Imbalance { per_mille: u32 },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Limits", deny_unknown_fields)]
struct LimitsForm {
    exchanges: u32,
    peers: u32,
    gaps: u32,
    waiting: u32,
    remembered: u32,
    buffer_bytes: u64,
    #[serde(default = "unbounded_bytes")]
    answer_bytes: u64,
    #[serde(default = "unbounded")]
    strangers: u32,
}

// What earlier recordings do not say was so.
fn one() -> u32 {
    1
}

fn unbounded_bytes() -> u64 {
    u64::MAX
}

fn unbounded() -> u32 {
    u32::MAX
}

/// Serde takes the form of another room's type for a field, not for what is in an option.
macro_rules! optional {
    ($name:ident, $type:ty, $form:literal) => {
        mod $name {
            use super::*;
            use serde::{Deserializer, Serializer};

            #[derive(Serialize, Deserialize)]
            struct Given(#[serde(with = $form)] $type);

            pub fn serialize<S: Serializer>(of: &Option<$type>, to: S) -> Result<S::Ok, S::Error> {
                of.map(Given).serialize(to)
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<Option<$type>, D::Error> {
                Ok(Option::<Given>::deserialize(from)?.map(|Given(value)| value))
            }
        }
    };
}

optional!(adaptive, Adaptive, "AdaptiveForm");
optional!(oldest_grants, OldestGrants, "OldestGrantsForm");
optional!(pacing, Pacing, "PacingForm");
optional!(recovery, Recovery, "RecoveryForm");
optional!(incast, Incast, "IncastForm");
optional!(quick, Quick, "QuickForm");
optional!(informed, Informed, "InformedForm");
optional!(learning, Learning, "LearningForm");

/// Cut-offs as (levels, bounds).
mod cutoffs {
    use super::*;
    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(cutoffs: &Cutoffs, to: S) -> Result<S::Ok, S::Error> {
        (cutoffs.levels(), cutoffs.bounds()).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Cutoffs, D::Error> {
        let (levels, bounds) = <(u8, Vec<u32>)>::deserialize(from)?;
        Cutoffs::new(levels, &bounds).ok_or_else(|| {
            D::Error::custom(format!("cut-offs {bounds:?} for {levels} levels; they must ascend"))
        })
    }
}
