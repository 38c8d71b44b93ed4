//! Bandwidth that receivers leave unused although somebody would send `[homa 5.5]`.

use super::clock::{Ps, ps};
use super::observer::Observer;
use super::packets::InFlight;
use super::setup::Setup;
use super::topology::{Egress, Place, PortClass};
use cavy_core::family::Node;

/// Measures for how long downlinks are idle while their receiver withholds: it knows a message that
/// is not complete and does not let its sender send. Only the transport knows, so `withheld` is
/// asked after each of its steps.
#[derive(Clone, Debug)]
pub struct Waste<F> {
    withheld: F,
    hosts: Vec<Downlink>,
    from: Ps,
    to: Ps,
}

#[derive(Clone, Copy, Debug, Default)]
struct Downlink {
    withholding: bool,
    busy_until: Ps,
    /// Up to when `wasted` and `idle` are counted.
    counted_to: Ps,
    wasted: Ps,
    idle: Ps,
}

impl<F> Waste<F> {
    /// For a run of `setup`, from the end of its warm-up to the end of submissions.
    pub fn new(setup: &Setup, withheld: F) -> Self {
        let hosts = setup.network.topology.hosts() as usize;
        Waste {
            withheld,
            hosts: vec![Downlink::default(); hosts],
            from: ps(setup.warmup),
            to: ps(setup.duration),
        }
    }

    /// Shares of the time that downlinks were (idle while their receiver withheld, idle), the mean
    /// over all hosts. Ask when the run is over.
    pub fn shares(&mut self) -> (f64, f64) {
        let (mut wasted, mut idle) = (0.0, 0.0);
        for host in 0..self.hosts.len() {
            self.count(host, self.to);
            wasted += self.hosts[host].wasted as f64;
            idle += self.hosts[host].idle as f64;
        }
        let all = (self.to - self.from) as f64 * self.hosts.len() as f64;
        (wasted / all, idle / all)
    }

    /// Share of the time that each host's downlink was idle while the host withheld. Ask when the
    /// run is over.
    pub fn by_host(&mut self) -> Vec<f64> {
        (0..self.hosts.len()).for_each(|host| self.count(host, self.to));
        let time = (self.to - self.from) as f64;
        self.hosts.iter().map(|host| host.wasted as f64 / time).collect()
    }

    /// Counts what has passed up to `now`, during which nothing changed but that sending ended.
    #[inline]
    fn count(&mut self, host: usize, now: Ps) {
        let (from, to) = (self.from, now.min(self.to));
        let host = &mut self.hosts[host];
        let idle = to.saturating_sub(host.busy_until.max(host.counted_to).max(from));
        host.idle += idle;
        if host.withholding {
            host.wasted += idle;
        }
        host.counted_to = host.counted_to.max(now);
    }
}

impl<M, H, F: FnMut(&M) -> bool> Observer<M, H> for Waste<F> {
    #[inline]
    fn began(&mut self, port: &Egress, _: &InFlight<H>, at: Ps, until: Ps) {
        if port.class == PortClass::Downlink
            && let Place::Host(host) = port.to
        {
            self.count(host as usize, at);
            self.hosts[host as usize].busy_until = until;
        }
    }

    #[inline]
    fn stepped(&mut self, host: Node, machine: &M, at: Ps) {
        let host = host.0 as usize;
        let withholding = (self.withheld)(machine);
        if withholding != self.hosts[host].withholding {
            self.count(host, at);
            self.hosts[host].withholding = withholding;
        }
    }
}
