//! Hosts around a switch.

use crate::owner::{self, Owner};
use crate::queues::{self, PortCounters};
use crate::space::Space;
use crate::{Error, script, tools};
use std::net::Ipv4Addr;

/// Levels of a port.
pub const LEVELS: usize = 8;

/// Which links keep the rate of the plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shaped {
    /// All, in both directions.
    All,
    /// The switch's port to this host alone; everything else is as fast as the machine. Where only
    /// one port is narrow, this costs less of the processor, so that faster links can be had.
    PortTo(u16),
}

/// What is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Hosts, 2 to 64.
    pub hosts: u16,
    /// Rate of each link that is shaped.
    pub link_bits_per_s: u64,
    /// Which ones are.
    pub shaped: Shaped,
    /// Room of each level at each port of the switch.
    pub level_bytes: u64,
    /// Does the switch look at levels? If not, all packets share the queue of level 0.
    pub levels: bool,
}

impl Plan {
    /// Room for what waits at a host's own interface.
    pub const HOST_QUEUE_BYTES: u64 = 1 << 20;

    /// How far a link may be ahead of its rate.
    pub const BURST_BYTES: u32 = script::BURST_BYTES;

    /// What `packets` of so many `bytes` in all, as the kernel counts them, take of a link, where
    /// none is shorter than the shortest frame.
    pub fn wire_bytes(packets: u64, bytes: u64) -> u64 {
        bytes + packets * u64::from(script::UNCOUNTED_BYTES)
    }

    /// Hosts at 100 Mb/s: slow enough that a packet takes longer than the software that sends it
    /// `[homa 7.6]`. A quarter of a megabyte a level is what a shallow switch has for a port.
    pub fn slow(hosts: u16) -> Plan {
        let shaped = Shaped::All;
        Plan { hosts, link_bits_per_s: 100_000_000, shaped, level_bytes: 256_000, levels: true }
    }

    /// The address of a host.
    pub fn address(host: u16) -> Ipv4Addr {
        // At most 64 hosts.
        Ipv4Addr::new(10, 77, 0, (host + 1).min(250) as u8)
    }
}

/// A network that stands until this is dropped.
#[derive(Debug)]
pub struct Testbed {
    plan: Plan,
    owner: Owner,
    hosts: Vec<Space>,
}

impl Testbed {
    /// Removes what dead builders left, and builds.
    ///
    /// # Errors
    /// Without the right to make namespaces, without iproute2, or on a kernel that lacks a part;
    /// what was made until then is removed.
    pub fn up(plan: Plan) -> Result<Testbed, Error> {
        owner::remove_leftovers()?;
        let owner = Owner::this_process()?;
        // From here on, dropping it removes whatever is there.
        let mut testbed = Testbed { plan, owner, hosts: Vec::new() };
        script::build(&plan, &testbed.owner)?;
        script::leave_sockets(&testbed.owner)?;
        for host in 0..plan.hosts {
            testbed.hosts.push(Space::open(&testbed.owner.host(host))?);
        }
        Ok(testbed)
    }

    /// What was built.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The hosts.
    pub fn hosts(&self) -> &[Space] {
        &self.hosts
    }

    /// Turns levels at the switch on or off; packets that wait stay where they are.
    ///
    /// # Errors
    /// When `tc` fails.
    pub fn set_levels(&mut self, levels: bool) -> Result<(), Error> {
        if self.plan.levels != levels {
            script::set_levels(&self.plan, &self.owner, levels)?;
            self.plan.levels = levels;
        }
        Ok(())
    }

    /// What the switch's ports have counted so far, by host.
    ///
    /// # Errors
    /// When `tc` fails or says what is not understood.
    pub fn ports(&self) -> Result<Vec<PortCounters>, Error> {
        (0..self.plan.hosts).map(|host| self.port(host)).collect()
    }

    /// What the switch's port to one host has counted so far.
    ///
    /// # Errors
    /// As [`Testbed::ports`].
    pub fn port(&self, host: u16) -> Result<PortCounters, Error> {
        queues::read(&self.owner.switch(), &script::port(host))
    }

    /// Packets that found no room at a host's own interface so far, all hosts together.
    ///
    /// # Errors
    /// As [`Testbed::ports`].
    pub fn dropped_at_hosts(&self) -> Result<u64, Error> {
        let all = (0..self.plan.hosts).map(|host| queues::read(&self.owner.host(host), "eth0"));
        all.map(|counters| counters.map(|counters| counters.dropped())).sum()
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.hosts.clear();
        self.owner.remove();
    }
}

/// Why there can be no testbed here; `None` when nothing is known to be in its way.
pub fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("making network namespaces needs root".to_string());
    }
    for tool in ["ip", "tc"] {
        if let Err(error) = tools::version(tool) {
            return Some(error.message().to_string());
        }
    }
    None
}
