//! TCP as a network plan configures it.

use super::contestant::{FloorPlan, TcpPlan};
use super::transport::Surroundings;
use cavy_core::Span;
use cavy_study::plan::PlanError;
use cavy_tcp::{BackoffReset, Config, DelayedAck, Floor, RtoConfig};

/// Headers of IP and TCP without options.
const HEADERS_BYTES: u32 = 40;

/// The configuration that `plan` asks for.
pub fn config(plan: &TcpPlan, label: &str, around: &Surroundings<'_>) -> Result<Config, PlanError> {
    let field = |key: &str| format!("transports.{label}.{key}");
    let span = |key: &str, us: Option<f64>, usual: Span| match us {
        None => Ok(usual),
        Some(us) if (0.0..=3.6e9).contains(&us) => Ok(Span::try_from_us(us).unwrap_or(usual)),
        Some(us) => Err(PlanError::field(field(key), us, "a time from 0 to an hour")),
    };
    let ms = |ms: Option<f64>| ms.map(|ms| ms * 1e3);
    let fine = RtoConfig::FINE;
    let stretch = plan.rto_stretch_ratio.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&stretch) {
        return Err(PlanError::field(field("rto_stretch_ratio"), stretch, "from 0 to 1"));
    }
    let min = span("rto_min_us", plan.rto_min_us, Span::from_ms(200))?;
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
            _ => Floor::Whole,
        },
        init: span("rto_init_ms", ms(plan.rto_init_ms), fine.init)?,
        tick: span("rto_tick_us", plan.rto_tick_us, fine.tick)?,
        stretch_per_mille: (stretch * 1e3).round() as u16,
        backoff_reset: match plan.rto_forgets_early {
            Some(true) => BackoffReset::Timestamp,
            _ => BackoffReset::Karn,
        },
        ..fine
    };
    let plain = Config::reference(rto);
    let delay = span("delayed_ack_us", plan.delayed_ack_us, Span::ZERO)?;
    let mss = around.fabric.network.framing.mtu_bytes.saturating_sub(HEADERS_BYTES);
    Ok(Config {
        mss_bytes: mss as u16,
        initial_window: plan.window_packets.unwrap_or(plain.initial_window),
        sack: plan.sack.unwrap_or(plain.sack),
        dupthresh: plan.dupthresh.unwrap_or(plain.dupthresh),
        limited_transmit: plan.limited_transmit.unwrap_or(plain.limited_transmit),
        idle_restart: plan.idle_restart.unwrap_or(plain.idle_restart),
        delayed_ack: if delay.is_zero() { DelayedAck::Off } else { DelayedAck::Fixed(delay) },
        receive_buffer_bytes: plan.receive_buffer_bytes.unwrap_or(plain.receive_buffer_bytes),
        ..plain
    })
}
