//! TCP as a network plan configures it.

use super::contestant::{
    CongestionPlan, EcnPlan, FloorPlan, LikePlan, RackPlan, SchedulePlan, TcpPlan,
};
use super::surroundings::Surroundings;
use cavy_core::Span;
use cavy_study::plan::PlanError;
use cavy_tcp::messages::Messages;
use cavy_tcp::{
    BackoffReset, Config, Congestion, DelayedAck, Ecn, Floor, Rack, RtoConfig, Schedule, Undo,
};

/// Headers of IP and TCP without options.
const HEADERS_BYTES: u32 = 40;

/// A host that keeps so many connections to another one; with none, each message has its own.
pub fn machine(config: &Config, kept: u16) -> Messages {
    let machine = Messages::new(*config).expect("the configuration was checked");
    if kept == 0 { machine.afresh() } else { machine.pool(kept) }
}

/// Connections that a host keeps to another one; none where each message has its own.
pub fn kept(plan: &TcpPlan, label: &str) -> Result<u16, PlanError> {
    let wrong =
        |value: u16, must| PlanError::field(format!("transports.{label}.connections"), value, must);
    match (plan.new_connections, plan.connections) {
        (_, Some(kept @ (0 | 1_001..))) => Err(wrong(kept, "1 to 1000")
            .hint("`new_connections = true` opens one for each message and keeps none")),
        (Some(true), Some(kept)) => {
            Err(wrong(kept, "left out where each message has a connection of its own")
                .hint("take away `new_connections`"))
        }
        (Some(true), None) => Ok(0),
        (_, kept) => Ok(kept.unwrap_or(1)),
    }
}

/// The configuration that `plan` asks for.
pub fn config(plan: &TcpPlan, label: &str, around: &Surroundings<'_>) -> Result<Config, PlanError> {
    let field = |key: &str| format!("transports.{label}.{key}");
    let span = |key: &str, us: Option<f64>, usual: Span| match us {
        None => Ok(usual),
        Some(us) if (0.0..=3.6e9).contains(&us) => Ok(Span::try_from_us(us).unwrap_or(usual)),
        Some(us) => Err(PlanError::field(field(key), us, "a time from 0 to an hour")),
    };
    let ms = |ms: Option<f64>| ms.map(|ms| ms * 1e3);
    let congestion = match plan.congestion {
        Some(CongestionPlan::Cubic) => Congestion::Cubic,
        _ => Congestion::NewReno,
    };
    let reno = plan.congestion == Some(CongestionPlan::Reno);
    if reno && plan.sack == Some(true) {
        return Err(PlanError::field(field("sack"), true, "false where `congestion` is `reno`")
            .hint("leave it out; `newreno` repairs by selective acknowledgements"));
    }
    if let Some(rack @ (RackPlan::Fine | RackPlan::Jiffies)) = plan.rack.filter(|_| reno) {
        let said = if rack == RackPlan::Fine { "fine" } else { "jiffies" };
        let must = "`off` where `congestion` is `reno`";
        return Err(PlanError::field(field("rack"), said, must).hint(
            "losses are found by time with selective acknowledgements only: take `newreno`",
        ));
    }
    let halves_window = plan.loss_halves_window == Some(true);
    if halves_window && congestion == Congestion::Cubic {
        let must = "false where `congestion` is `cubic`";
        return Err(PlanError::field(field("loss_halves_window"), true, must)
            .hint("cubic leaves seven tenths of the window; take `newreno`"));
    }
    let plain = match plan.like {
        Some(LikePlan::Linux) => Config::linux(congestion),
        Some(LikePlan::Fine) => Config::fine(congestion),
        _ => {
            let floor = RtoConfig { min: Span::from_ms(200), ..RtoConfig::FINE };
            Config { congestion, ..Config::reference(floor) }
        }
    };
    let fine = plain.rto;
    let stretch = plan.rto_stretch_ratio.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&stretch) {
        return Err(PlanError::field(field("rto_stretch_ratio"), stretch, "from 0 to 1"));
    }
    let min = span("rto_min_us", plan.rto_min_us, fine.min)?;
    let max = span("rto_max_ms", ms(plan.rto_max_ms), fine.max)?;
    if min > max {
        let must = format!("at most the longest timeout, {max}");
        return Err(PlanError::field(field("rto_min_us"), min, &must)
            .hint("raise `rto_max_ms`, or lower the floor"));
    }
    let rto = RtoConfig {
        min,
        max,
        floor: match plan.rto_floor {
            Some(FloorPlan::Variance) => Floor::Variance,
            Some(FloorPlan::Whole) => Floor::Whole,
            None => fine.floor,
        },
        init: span("rto_init_ms", ms(plan.rto_init_ms), fine.init)?,
        tick: span("rto_tick_us", plan.rto_tick_us, fine.tick)?,
        edge_only: plan.rto_edge_only.unwrap_or(fine.edge_only),
        stretch_per_mille: (stretch * 1e3).round() as u16,
        backoff_reset: match plan.rto_forgets_early {
            Some(true) => BackoffReset::Timestamp,
            Some(false) => BackoffReset::Karn,
            None => fine.backoff_reset,
        },
        ..fine
    };
    let delayed_ack = match plan.delayed_ack_us {
        None => plain.delayed_ack,
        Some(us) => match span("delayed_ack_us", Some(us), Span::ZERO)? {
            Span::ZERO => DelayedAck::Off,
            delay if plan.delayed_ack_of_fills == Some(true) => DelayedAck::Lazy(delay),
            delay => DelayedAck::Fixed(delay),
        },
    };
    let stamps = match plan.timestamps_us {
        None => plain.stamps,
        Some(us) => Some(span("timestamps_us", Some(us), Span::ZERO)?).filter(|t| !t.is_zero()),
    };
    let mut buffer = plan.receive_buffer_bytes.unwrap_or(plain.receive_buffer_bytes);
    let schedule = match (plan.schedule, plan.schedule_bytes) {
        (Some(SchedulePlan::Learned), Some(_)) => {
            let must = "left out where `schedule_bytes` says how much the port holds";
            return Err(
                PlanError::field(field("schedule"), "learned", must).hint("give one of the two")
            );
        }
        (None, None) => None,
        (_, room_bytes) => Some(Schedule { room_bytes, foreign: false }),
    };
    if schedule.is_some() && plan.receive_buffer_bytes.is_none() {
        // Without a shift windows are exact to the octet.
        buffer = 65_535;
    }
    let mss = around.fabric.network.framing.mtu_bytes.saturating_sub(HEADERS_BYTES);
    Ok(Config {
        mss_bytes: mss as u16,
        initial_window: plan.window_packets.unwrap_or(plain.initial_window),
        sack: plan.sack.unwrap_or(plain.sack && !reno),
        reno,
        dupthresh: plan.dupthresh.unwrap_or(plain.dupthresh),
        limited_transmit: plan.limited_transmit.unwrap_or(plain.limited_transmit),
        slow_start: plan.slow_start.unwrap_or(plain.slow_start),
        idle_restart: plan.idle_restart.unwrap_or(plain.idle_restart),
        grows_unused: plan.grows_unused.unwrap_or(plain.grows_unused),
        halves_window,
        ecn: match plan.ecn {
            None | Some(EcnPlan::Off) => Ecn::Off,
            Some(EcnPlan::Classic) => Ecn::Classic,
            Some(EcnPlan::Dctcp) => Ecn::Dctcp,
        },
        delayed_ack,
        stamps,
        rack: match plan.rack {
            None => plain.rack.filter(|_| !reno),
            Some(RackPlan::Off) => None,
            Some(RackPlan::Jiffies) => Some(Rack::JIFFIES),
            Some(RackPlan::Fine) => Some(Rack::FINE),
        },
        undo: match plan.undo {
            None => plain.undo,
            Some(true) => Undo::ALL,
            Some(false) => Undo::NONE,
        },
        schedule,
        receive_buffer_bytes: buffer,
        rto,
        ..plain
    })
}
