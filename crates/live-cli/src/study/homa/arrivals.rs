//! Who sends what to whom, and when: drawn before the run, the same for all peers and for the lab.

use super::peers::Tuning;
use crate::faults::Fault;
use cavy_core::family::Node;
use cavy_core::{Digest, Span};
use cavy_homa::wire::DATA_BYTES;
use cavy_lab::net::traffic::{OpenLoop, Traffic as _};
use cavy_lab::net::{Bins, PS_PER_NS};
use cavy_testbed::Plan;
use cavy_workload::sizes::{self, Framing, Published, Sizes};

/// The longest message of the Linux module, and the shortest that names the length of its answer
/// `[homa 4.1]`.
pub const BYTES: (u32, u32) = (8, 1_000_000);
/// Length of all answers of the slowdown runs: traffic is as good as one-way, and that a message
/// has arrived is known where it was sent, by the same clock.
pub const ANSWER_BYTES: u32 = 8;
/// Ethernet with preamble, check and gap, IP and UDP.
pub const LOWER_BYTES: u32 = 38 + 28;
/// Payload of a full packet of Homa over UDP in 1500 bytes.
pub const PACKET_BYTES: u32 = 1500 - 28 - DATA_BYTES as u32;
/// A full packet on a link, with preamble and gap.
pub const FRAME_MAX_BYTES: u32 = PACKET_BYTES + DATA_BYTES as u32 + LOWER_BYTES;
/// Messages sent without a grant reach so far: seven packets, as in the paper `[homa 7.6]`.
pub const RTT_BYTES: u32 = 7 * PACKET_BYTES;
/// A GRANT on the wire.
const GRANT_BYTES: u32 = 33 + LOWER_BYTES;
/// Lengths are drawn in strata of so many messages a host, so that short runs have their load.
const BLOCK: u32 = 128;

/// Messages of a known distribution at a stated load.
#[derive(Clone, Debug)]
pub struct Demand {
    /// `W4` and so on.
    pub workload: Published,
    /// Truncated.
    pub sizes: Sizes,
    /// Share of each link that messages, grants and answers take.
    pub load: f64,
    /// Messages of one host.
    pub rate_per_s: f64,
    /// Of each link.
    pub link_bits_per_s: u64,
    /// Deciles of the number of messages, and the last per cent.
    pub bins: Bins,
}

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When, from the beginning.
    pub at: Span,
    /// Who sends it.
    pub from: u16,
    /// Who receives it.
    pub to: u16,
    /// Its length.
    pub bytes: u32,
    /// Its number among those of its sender.
    pub number: u64,
}

/// All messages of one run.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// In order of time.
    pub all: Vec<Arrival>,
    /// Messages before this time are in no figure.
    pub warmup: Span,
    /// None is sent from here on.
    pub length: Span,
    /// The same seed draws the same for the lab.
    pub seed: u64,
}

impl Demand {
    /// `load` as a share of the link, from the mean of the sizes, which are those of a workload,
    /// truncated.
    pub fn new(
        (workload, sizes): (Published, Sizes),
        load: f64,
        plan: &Plan,
    ) -> Result<Demand, Fault> {
        let beside = DATA_BYTES as u32 + LOWER_BYTES;
        let framing = Framing {
            unscheduled_bytes: RTT_BYTES,
            unscheduled_packet: (PACKET_BYTES, beside),
            scheduled_packet: (PACKET_BYTES, beside),
            grant_bytes: GRANT_BYTES,
            ..Framing::default()
        };
        // Each host answers as many messages as it sends.
        let answer = framing.wire_bytes(ANSWER_BYTES) as f64;
        let message = sizes.mean_bytes() / sizes::payload_ratio(&sizes, &framing);
        let rate_per_s = load * plan.link_bits_per_s as f64 / (8.0 * (message + answer));
        let bins = Bins::deciles(&sizes);
        Ok(Demand {
            workload,
            sizes,
            load,
            rate_per_s,
            link_bits_per_s: plan.link_bits_per_s,
            bins,
        })
    }

    /// As in names of tables, such as `w4-80`.
    pub fn id(&self) -> String {
        format!("{}-{:.0}", self.workload.name().to_lowercase(), 100.0 * self.load)
    }

    /// As in titles.
    pub fn label(&self) -> String {
        format!("{} at {:.0} %", self.workload.name(), 100.0 * self.load)
    }

    /// What Homa is tuned to.
    pub fn tuning(&self) -> Tuning<'_> {
        Tuning { like: self.workload, sizes: &self.sizes, boosts_tails: false }
    }

    /// The longest of the shorter half of messages.
    pub fn short_bytes(&self) -> u32 {
        self.sizes.quantile(0.5)
    }

    /// What arrives at `hosts` hosts within `length`, of which the warm-up does not count.
    pub fn draw(
        &self,
        hosts: u16,
        (warmup, length): (Span, Span),
        seed: u64,
    ) -> Result<Arrivals, Fault> {
        let mut traffic = self.traffic(hosts, seed)?;
        let mut all = Vec::new();
        for host in 0..hosts {
            for number in 0.. {
                let Some(one) = traffic.next(Node(host.into()), 0) else { break };
                let at = Span::from_ns(one.at / PS_PER_NS);
                if at >= length {
                    break;
                }
                // There are fewer than 2^16 hosts.
                let to = one.to.0 as u16;
                all.push(Arrival { at, from: host, to, bytes: one.length_bytes, number });
            }
        }
        all.sort_by_key(|one| (one.at, one.from, one.number));
        if all.last().is_none_or(|last| last.at < warmup) {
            return Err(Fault::new("the run is too short: no message falls into it"));
        }
        Ok(Arrivals { all, warmup, length, seed })
    }

    /// The same as the lab's own traffic.
    pub fn traffic(
        &self,
        hosts: u16,
        seed: u64,
    ) -> Result<cavy_lab::net::traffic::OpenTraffic, Fault> {
        let open = OpenLoop {
            block: Some(BLOCK),
            asks: true,
            ..OpenLoop::all_to_all(hosts.into(), self.sizes.clone(), self.rate_per_s)
        };
        open.start(hosts.into(), seed).map_err(|error| Fault::new(error.to_string()))
    }
}

impl Arrivals {
    /// A fingerprint.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest::new();
        for one in &self.all {
            digest.fold(one.at.as_ns());
            digest.fold(u64::from(one.from) << 48 | u64::from(one.to) << 32 | u64::from(one.bytes));
        }
        digest.value()
    }
}

#[cfg(test)]
impl Demand {
    /// Of a published workload, cut as the program's plan cuts it.
    pub fn published(workload: Published, load: f64, plan: &Plan) -> Demand {
        let sizes = workload.sizes().clamped(BYTES.0, BYTES.1).expect("both are lengths");
        Demand::new((workload, sizes), load, plan).expect("a demand")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_what_is_asked_for() {
        let plan = Plan::slow(6);
        for workload in [Published::W3, Published::W4] {
            let demand = Demand::published(workload, 0.8, &plan);
            let times = (Span::from_ms(6_000), Span::from_ms(60_000));
            let arrivals = demand.draw(6, times, 1).unwrap();
            let payload: u64 = arrivals.all.iter().map(|one| u64::from(one.bytes)).sum();
            let share = payload as f64 * 8.0 / 60.0 / 6.0 / plan.link_bits_per_s as f64;
            // Headers, grants and answers are the rest of 0.8.
            assert!((0.6..0.76).contains(&share), "{}: {share}", demand.label());
        }
    }

    #[test]
    fn truncated_means_are_those_of_the_module_s_benchmark() {
        let mean = |workload| Demand::published(workload, 0.8, &Plan::slow(6)).sizes.mean_bytes();
        // [homa 4.1], from the tables before they were thinned.
        for (workload, published) in
            [(Published::W3, 2_423.0), (Published::W4, 60_175.0), (Published::W5, 385_316.0)]
        {
            let ratio = mean(workload) / published;
            assert!((0.95..1.05).contains(&ratio), "{}: {ratio}", workload.name());
        }
    }

    #[test]
    fn nobody_sends_to_itself_and_seeds_differ() {
        let demand = Demand::published(Published::W4, 0.5, &Plan::slow(6));
        let times = (Span::from_ms(200), Span::from_ms(2_000));
        let draw = |seed| demand.draw(6, times, seed).unwrap();
        assert!(draw(1).all.iter().all(|one| one.from != one.to && one.to < 6));
        assert_eq!(draw(1).digest(), draw(1).digest());
        assert_ne!(draw(1).digest(), draw(2).digest());
    }
}
