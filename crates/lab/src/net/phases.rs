//! Traffic that changes: open loops that follow each other.

use super::clock::{Ps, ps};
use super::traffic::{OpenLoop, OpenTraffic, Submission, Traffic, TrafficError};
use cavy_core::Span;
use cavy_core::family::Node;

/// Distance of the seeds of two phases.
const PHASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Open loops one after the other, each for its time; then nothing more is sent. Messages that are
/// under way when the next phase begins go on.
#[derive(Clone, Debug)]
pub struct Phases {
    phases: Vec<Phase>,
    /// For each host, the phase of its next message.
    at: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Phase {
    begins: Ps,
    ends: Ps,
    traffic: OpenTraffic,
}

impl Phases {
    /// The traffic among `hosts` hosts under `seed`. The first phase draws the numbers that it
    /// draws alone.
    pub fn start(
        phases: &[(OpenLoop, Span)],
        hosts: u32,
        seed: u64,
    ) -> Result<Phases, TrafficError> {
        let mut begins = 0;
        let mut all = Vec::with_capacity(phases.len());
        for (number, (open, length)) in (0u64..).zip(phases) {
            let ends = begins + ps(*length);
            let seed = seed.wrapping_add(PHASE.wrapping_mul(number));
            all.push(Phase { begins, ends, traffic: open.clone().start(hosts, seed)? });
            begins = ends;
        }
        Ok(Phases { phases: all, at: vec![0; hosts as usize] })
    }
}

impl Traffic for Phases {
    fn next(&mut self, host: Node, now: Ps) -> Option<Submission> {
        let place = self.at.get_mut(host.0 as usize)?;
        while let Some(phase) = self.phases.get_mut(*place) {
            if let Some(next) = phase.traffic.next(host, now) {
                let at = phase.begins + next.at;
                if at < phase.ends {
                    return Some(Submission { at, ..next });
                }
            }
            *place += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_workload::Sizes;

    fn open(bytes: u32, rate_per_s: f64) -> OpenLoop {
        OpenLoop::all_to_all(2, Sizes::constant(bytes).expect("a size"), rate_per_s)
    }

    #[test]
    fn phases_follow_each_other_and_end() {
        let ms = Span::from_ms(1);
        let phases = [(open(10, 1e6), ms), (open(20, 2e6), ms * 2)];
        let mut traffic = Phases::start(&phases, 2, 7).expect("legal");
        let mut counts = [0; 2];
        let mut last = 0;
        while let Some(next) = traffic.next(Node(1), 0) {
            let second = next.at >= ps(ms);
            assert_eq!(next.length_bytes, if second { 20 } else { 10 });
            assert!(next.at >= last && next.at < ps(ms * 3));
            last = next.at;
            counts[usize::from(second)] += 1;
        }
        assert!(
            (900..1100).contains(&counts[0]) && (3700..4300).contains(&counts[1]),
            "{counts:?}"
        );
    }
}
