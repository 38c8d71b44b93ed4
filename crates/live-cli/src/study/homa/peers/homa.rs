//! Our endpoint, on UDP.

use super::super::arrivals::{LOWER_BYTES, PACKET_BYTES, RTT_BYTES};
use super::{MESSAGE_MAX_BYTES, PORT, Rig, blank, broken, wish};
use crate::args::HomaPeer;
use crate::faults::Fault;
use crate::study::homa::books::Ticket;
use bytes::Bytes;
use cavy_core::Span;
use cavy_homa::Config;
use cavy_homa::config::{ClassedBy, Granting, Incast, Pacing, TailBoost};
use cavy_homa::cutoffs::{Cutoffs, Packing, Shares, static_cutoffs};
use cavy_homa::wire::DATA_BYTES;
use cavy_live::homa::{Client, Handler, Lag, Options, Peer, Polling, Server};
use cavy_testbed::{Plan, Testbed};
use cavy_workload::sizes::{Published, Sizes};
use std::net::SocketAddr;

/// How long a call may take.
const DEADLINE: Span = Span::from_ms(30_000);
/// The levels of the network.
const LEVELS: u8 = 8;

/// Endpoints on all hosts.
pub struct Endpoints {
    servers: Vec<Server>,
    clients: Vec<Client>,
    at: Vec<Peer>,
}

/// What Homa is tuned to.
#[derive(Clone, Copy, Debug)]
pub struct Tuning<'a> {
    /// The workload whose split of levels is taken.
    pub like: Published,
    /// Lengths of messages, for cut-offs.
    pub sizes: &'a Sizes,
    /// Do the ends of messages go at the level of unscheduled bytes `[homa 2.8]`? At 80 % of W4
    /// they make up a third of the short messages' P99, and nobody gains by it. When a link is
    /// overloaded for good (incast), those at lower levels would never arrive without.
    pub boosts_tails: bool,
}

impl Tuning<'_> {
    /// How many levels are for unscheduled bytes, and how many senders are granted at once
    /// `[homa 2.6]`.
    fn levels(&self) -> (u8, u8) {
        match self.like {
            Published::W1 => (7, 1),
            Published::W2 => (5, 3),
            Published::W3 => (4, 4),
            Published::W4 | Published::W5 => (1, 7),
        }
    }
}

/// The configuration of the machine for messages of these sizes.
pub fn config(peer: HomaPeer, plan: &Plan, tuning: Tuning<'_>) -> Result<Config, Fault> {
    let (unscheduled, overcommit) = tuning.levels();
    let (unscheduled, unscheduled_bytes) = match peer {
        // All bytes are unscheduled, and all levels for them.
        HomaPeer::NoGrants => (LEVELS - 1, MESSAGE_MAX_BYTES as u32),
        _ => (unscheduled, RTT_BYTES),
    };
    let beside = DATA_BYTES as u32 + LOWER_BYTES;
    let packing = Packing {
        unscheduled_packet_bytes: PACKET_BYTES,
        unscheduled_overhead_bytes: beside,
        scheduled_packet_bytes: PACKET_BYTES,
        scheduled_overhead_bytes: beside,
        unscheduled_bytes,
        rtt_wire_bytes: 7 * (PACKET_BYTES + beside),
        ..Packing::SIMULATOR
    };
    let steps: Vec<(u32, f64)> = tuning.sizes.steps().collect();
    let cutoffs =
        static_cutoffs(&steps, LEVELS, unscheduled, ClassedBy::Length, &packing, Shares::EVEN);
    let cutoffs = cutoffs.ok_or_else(|| broken("no cut-offs fit these sizes"))?;
    let mut config = Config::cavy(cutoffs, overcommit, plan.link_bits_per_s, RTT_BYTES);
    // With a grant for each packet that arrives, and messages that leave the active set when they
    // are granted in full, what is on its way never becomes less: with answers of 10 KB a queue
    // that is once full stays full. So live, all that is on its way is bounded [homa 2.2, 2.7].
    config.granting = Granting::Windows {
        overcommit,
        window_bytes: 0,
        incoming_max_bytes: 10 * RTT_BYTES,
        increment_bytes: 2 * PACKET_BYTES,
    };
    if !tuning.boosts_tails || peer == HomaPeer::Basic {
        config.tail_boost = TailBoost::Off;
    }
    let rtt_wire_bytes = 7 * (PACKET_BYTES + beside);
    // Answers that nobody grants fill half of the level's room at most [homa 2.10].
    let most = plan.level_bytes / 2 / u64::from(rtt_wire_bytes);
    let threshold = u32::try_from(most).unwrap_or(u32::MAX).max(1);
    config.incast = Some(Incast { threshold, marked_bytes: 300, automatic: false });
    config.unscheduled_packet_bytes = PACKET_BYTES;
    config.scheduled_packet_bytes = PACKET_BYTES;
    config.overhead_bytes = LOWER_BYTES;
    // Two packets beyond the one on the link, so that it never waits for the software.
    let packet_ns = u64::from(PACKET_BYTES + beside) * 8_000_000_000 / plan.link_bits_per_s;
    config.pacing = Some(Pacing {
        backlog: Span::from_ns(2 * packet_ns),
        bypass_bytes: 1_000,
        rate_per_cent: 99,
    });
    if let Some(recovery) = &mut config.recovery {
        recovery.resend_ticks = patience(peer);
        recovery.resend_interval_ticks = patience(peer);
        // A process does not run for longer, now and then, than a network card does.
        recovery.timeout_ticks = 1_000;
        recovery.remember_ticks = 2_000;
    }
    config.limits.exchanges = 1 << 16;
    config.limits.remembered = 1 << 16;
    let fewer = |levels: u8, unscheduled: u8| {
        let fewer = cutoffs.fewer(levels, unscheduled);
        fewer.map(|cutoffs| config.with_cutoffs(cutoffs))
    };
    let config = match peer {
        HomaPeer::HomaP2 => fewer(2, 1).ok_or_else(|| broken("two levels do not fit"))?,
        HomaPeer::HomaP1 => config.with_cutoffs(Cutoffs::none(1)),
        HomaPeer::Basic => Config {
            granting: Granting::Independent {
                window_bytes: RTT_BYTES,
                increment_bytes: 5 * PACKET_BYTES,
            },
            oldest_grants: None,
            incast: None,
            ..config.with_cutoffs(Cutoffs::none(1))
        },
        HomaPeer::NoGrants => Config { unscheduled_bytes, incast: None, ..config },
        HomaPeer::NoIncastControl => Config { incast: None, ..config },
        _ => config,
    };
    config.check().map_err(|error| broken(error.to_string()))?;
    Ok(config)
}

/// Silent ticks, each ten round trips [`Config::cavy`], before a complaint: 8 ms at 100 Mb/s.
fn patience(peer: HomaPeer) -> u32 {
    match peer {
        // Those who lose packets at the switch want them soon; TCP waits for as long.
        HomaPeer::Basic | HomaPeer::NoGrants | HomaPeer::NoIncastControl => 25,
        // At 100 Mb/s and 80 % the longest messages wait for hundreds of milliseconds behind
        // shorter ones. Who complains of that gets again what waits at the switch.
        _ => 100,
    }
}

/// Opens an endpoint on each host.
pub fn start(peer: HomaPeer, testbed: &Testbed, tuning: Tuning<'_>) -> Result<Endpoints, Fault> {
    let config = config(peer, testbed.plan(), tuning)?;
    let mut servers = Vec::new();
    for (host, space) in (0..).zip(testbed.hosts()) {
        let at = SocketAddr::from((Plan::address(host), PORT));
        let options = Options {
            config,
            // Six threads that look before they sleep would take the cores from each other.
            polling: Polling::Block,
            deadline: DEADLINE,
            measure_lag: true,
            ..Options::udp(at)
        };
        let answers = blank();
        let handler = Handler::inline(move |question| {
            let bytes = wish(question.bytes()).unwrap_or(1);
            answers.slice(..bytes.clamp(1, answers.len()))
        });
        let server = space.within(|| Server::bind(&options, handler))?;
        servers.push(server.map_err(|error| broken(error.to_string()))?);
    }
    let clients = servers.iter().map(Server::client).collect();
    let at = servers.iter().map(|server| Peer::from(server.local_address())).collect();
    Ok(Endpoints { servers, clients, at })
}

impl Rig for Endpoints {
    fn send(&self, from: u16, to: u16, message: Bytes, ticket: Ticket) {
        let ends = self.clients.get(usize::from(from)).zip(self.at.get(usize::from(to)));
        if let Some((client, &at)) = ends {
            client.begin_then(at, message, None, move |outcome| ticket.end(outcome.is_ok()));
        }
    }

    fn sent_again(&self) -> Option<u64> {
        Some(self.servers.iter().map(|server| server.counters().machine.data_resent).sum())
    }

    fn lag(&self) -> Option<Lag> {
        let both = |all: Lag, one: Lag| Lag {
            looked: all.looked + &one.looked,
            sent: all.sent + &one.sent,
        };
        self.servers.iter().filter_map(Server::lag).reduce(both)
    }
}
