//! What a plan must keep to that is run between hosts of one machine.

use super::buffer::{BufferPlan, PerPortPlan};
use super::plan::{FabricPlan, FramingPlan, LivePlan, NetworkPlan, TopologyName};
use super::traffic::{ArrivalsName, TrafficPlan};
use crate::live::for_the_lab;
use cavy_study::plan::PlanError;

/// Levels of a port, which have its buffer in equal parts where messages are sent.
pub const LEVELS: u64 = 8;

/// The most hosts of a testbed; servers of blocks share those that there are.
const HOSTS_MAX: u16 = 64;

/// Hosts around one switch, as a testbed builds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Star {
    /// Hosts.
    pub hosts: u16,
    /// Rate of a host's link.
    pub link_bits_per_s: u64,
    /// What a port of the switch keeps.
    pub port_bytes: u64,
}

/// The command that runs the plan.
pub(super) fn command(plan: &NetworkPlan) -> Option<&'static str> {
    match plan.traffic {
        TrafficPlan::AllToAll(_) | TrafficPlan::Incast(_) => Some("cavy live study --plan"),
        TrafficPlan::Blocks(_) => Some("cavy live tcp study --plan"),
        _ => None,
    }
}

/// Can hosts on this machine do what the plan says?
pub(super) fn check(plan: &NetworkPlan) -> Result<(), PlanError> {
    let lab = |field: &str, what: &str| Err(for_the_lab(field, what));
    let star = star(&plan.network)?;
    if let Some(live) = &plan.live {
        measured(live, &plan.traffic)?;
    }
    if !plan.phases.is_empty() {
        return lab("phases", "one mix of messages");
    }
    if star.hosts > HOSTS_MAX && !matches!(plan.traffic, TrafficPlan::Blocks(_)) {
        return Err(PlanError::field("network.hosts", star.hosts, "2 to 64 in a live run"));
    }
    match &plan.traffic {
        TrafficPlan::AllToAll(own) => {
            if own.arrivals != ArrivalsName::Poisson {
                return lab("traffic.arrivals", "Poisson arrivals");
            }
            if !own.stratified {
                return lab("traffic.stratified", "sizes drawn in strata");
            }
            let Some(messages) = &plan.messages else { return Ok(()) };
            if messages.workload.is_none() {
                return Err(PlanError::text("`messages` names no `workload`")
                    .hint("a live run sends W1 to W5: its levels are those measured for them"));
            }
            let cut = (messages.min_bytes.unwrap_or(0), messages.max_bytes.unwrap_or(u32::MAX));
            if cut.0 < 8 || cut.1 > 1_000_000 {
                let must = "at least 8 with `messages.max_bytes` at most 1000000";
                return Err(PlanError::field("messages.min_bytes", cut.0, must)
                    .hint("a live message says in its first bytes how long its answer is"));
            }
            Ok(())
        }
        TrafficPlan::Blocks(own) if own.block_bytes.is_none() => {
            lab("traffic.fragment_bytes", "blocks of one size: `traffic.block_bytes`")
        }
        TrafficPlan::Blocks(own) if own.outstanding.is_some() => {
            lab("traffic.outstanding", "a client that asks all servers at once")
        }
        TrafficPlan::Blocks(own) if own.background.is_some() => {
            lab("traffic.background", "the client and its servers alone")
        }
        _ => Ok(()),
    }
}

/// Can it be measured so?
fn measured(live: &LivePlan, traffic: &TrafficPlan) -> Result<(), PlanError> {
    if !matches!(traffic, TrafficPlan::Blocks(_)) {
        return Err(PlanError::text("`live` is set, but it is for blocks")
            .hint("leave it out; messages and incast last as long as `run.duration_ms` says"));
    }
    if !(0.1..=3_600.0).contains(&live.seconds) {
        return Err(PlanError::field("live.seconds", live.seconds, "0.1 to 3600"));
    }
    for (place, cells) in live.cells.iter().enumerate() {
        let field = |key: &str| format!("live.cells.{place}.{key}");
        if let Some(wrong) = cells.servers.iter().find(|one| !(1..=256).contains(*one)) {
            return Err(PlanError::field(field("servers"), wrong, "1 to 256")
                .hint("more than 16 servers share the hosts of the testbed"));
        }
        let most = cells.servers.iter().copied().max().unwrap_or(1);
        if let Some(bytes) = cells.block_bytes
            && !(u64::from(most)..=1 << 30).contains(&bytes)
        {
            let must = "so much that each server sends a byte, and at most 2^30";
            return Err(PlanError::field(field("block_bytes"), bytes, must));
        }
    }
    Ok(())
}

/// The network, where a testbed can be like it.
pub fn star(network: &FabricPlan) -> Result<Star, PlanError> {
    let lab = |field: &str, what: &str| Err(for_the_lab(field, what));
    if network.topology != TopologyName::Star {
        let value = "no star";
        return Err(PlanError::field("network.topology", value, "`star` in a live run"));
    }
    if network.host_down_gbps.is_some() {
        return lab("network.host_down_gbps", "links as fast in both directions");
    }
    if network.propagation_us != 0.0 {
        return lab("network.propagation_us", "the machine's own way between its hosts");
    }
    if network.round_trips.is_some() {
        return lab("network.round_trips", "the machine's own way between its hosts");
    }
    if network.loss_ratio != 0.0 {
        return lab("network.loss_ratio", "what its switch drops");
    }
    if !network.starts.is_empty() {
        return lab("network.starts", "hosts that are there from the beginning");
    }
    if network.framing != FramingPlan::Ethernet {
        return lab("network.framing", "Ethernet");
    }
    let hosts = network.hosts.unwrap_or(0);
    let hosts = u16::try_from(hosts).ok().filter(|hosts| (2..=257).contains(hosts));
    let hosts = hosts.ok_or_else(|| {
        PlanError::field("network.hosts", network.hosts.unwrap_or(0), "2 to 257 in a live run")
    })?;
    let gbps = network.host_gbps;
    if !(0.01..=10.0).contains(&gbps) {
        return Err(PlanError::field("network.host_gbps", gbps, "0.01 to 10 in a live run"));
    }
    let Some(BufferPlan::PerPort(PerPortPlan { per_port_bytes: port_bytes })) = network.buffer
    else {
        return Err(PlanError::text("`network.buffer` does not say what a port keeps")
            .hint("write `buffer = { per_port_bytes = 2_048_000 }`"));
    };
    if !(3_100..=1 << 30).contains(&port_bytes) {
        let must = "3100 to 1073741824 in a live run";
        return Err(PlanError::field("network.buffer.per_port_bytes", port_bytes, must));
    }
    let link_bits_per_s = (gbps * 1e9).round() as u64;
    Ok(Star { hosts, link_bits_per_s, port_bytes })
}
