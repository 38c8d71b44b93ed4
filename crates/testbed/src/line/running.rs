//! A line that stands: its hosts, and what it can be told.

use super::carrier::{Carrier, Order, Report};
use super::plan::{Host, Plan, Rule};
use super::schedule::{Change, Schedule};
use crate::owner::{self, Owner};
use crate::space::Space;
use crate::{Error, tools};
use cavy_clock as clock;
use rustix::event::{EventfdFlags, eventfd};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tun_rs::{DeviceBuilder, SyncDevice};

/// The one interface of a host.
pub const DEVICE: &str = "line0";
/// Packets that wait in a tunnel until the line's thread has time for them.
const TUNNEL_PACKETS: u32 = 4_096;
/// How long the line's thread may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Hosts on a line; removed when this is dropped, and after kill -9 by whoever builds next.
#[derive(Debug)]
pub struct Line {
    plan: Plan,
    hosts: Vec<Space>,
    orders: Sender<Order>,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<io::Result<()>>>,
    owner: Owner,
}

impl Line {
    /// Removes what dead builders left, and builds.
    ///
    /// # Errors
    /// Without the right to make namespaces or tunnels, without iproute2, or when the kernel
    /// refuses a setting; what was made until then is removed.
    pub fn up(plan: Plan) -> Result<Line, Error> {
        owner::remove_leftovers()?;
        let owner = Owner::this_process()?;
        build(plan, owner).inspect_err(|_| owner.remove())
    }

    /// What was built.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The hosts, in the order of the plan.
    pub fn hosts(&self) -> &[Space] {
        &self.hosts
    }

    /// Changes ways, now. What is under way stays as it was.
    ///
    /// # Errors
    /// When the line's thread has ended.
    pub fn change(&self, rule: &Rule) -> Result<(), Error> {
        self.tell(Order::Change(rule.pairs(&self.plan.hosts), rule.setting))
    }

    /// What happened since the start, or since [`Line::forget`].
    ///
    /// # Errors
    /// As [`Line::change`], and when it does not answer.
    pub fn report(&self) -> Result<Report, Error> {
        let (to, answer) = sync_channel(1);
        self.tell(Order::Report(to))?;
        answer.recv_timeout(PATIENCE).map_err(|_| Error::new("the line does not answer"))
    }

    /// Counts from here on.
    ///
    /// # Errors
    /// As [`Line::change`].
    pub fn forget(&self) -> Result<(), Error> {
        self.tell(Order::Forget)
    }

    /// Packets that the tunnels had no room for, all hosts together: the line's thread was not
    /// there in time.
    ///
    /// # Errors
    /// When `ip` fails or says what is not understood.
    pub fn dropped_at_tunnels(&self) -> Result<u64, Error> {
        let dropped = |space: &Space| {
            let said =
                tools::run("ip", &["-n", space.name(), "-s", "-j", "link", "show", "dev", DEVICE])?;
            let said: Option<serde_json::Value> = serde_json::from_str(&said).ok();
            let count = said.as_ref().and_then(|all| all[0]["stats64"]["tx"]["dropped"].as_u64());
            count.ok_or_else(|| Error::new("`ip -s -j link` says what is not understood"))
        };
        self.hosts.iter().map(dropped).sum()
    }

    fn tell(&self, order: Order) -> Result<(), Error> {
        self.orders.send(order).map_err(|_| Error::new("the line has ended"))?;
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = self.tell(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.hosts.clear();
        self.owner.remove();
    }
}

fn build(plan: Plan, owner: Owner) -> Result<Line, Error> {
    let spaces = (0..plan.hosts.len()).map(|host| format!("netns add {}", owner.host(host as u16)));
    tools::batch("ip", None, &spaces.collect::<Vec<_>>())?;
    let (mut hosts, mut tunnels) = (Vec::new(), Vec::new());
    for (number, host) in (0..).zip(&plan.hosts) {
        let space = Space::open(&owner.host(number))?;
        let made = space.within(|| tunnel().and_then(|tunnel| set(&plan).map(|()| tunnel)))??;
        tools::batch(
            "ip",
            Some(space.name()),
            &[
                "link set lo up".to_string(),
                format!("link set {DEVICE} addrgenmode none"),
                format!("link set {DEVICE} mtu {} txqueuelen {TUNNEL_PACKETS} up", plan.mtu),
                format!("addr add {}/32 dev {DEVICE}", host.address),
            ],
        )?;
        tools::batch("ip", Some(space.name()), &routes(&plan, host))?;
        hosts.push(space);
        tunnels.push(made);
    }

    // Above, at most 256 hosts were read.
    let mut schedule = Schedule::new(plan.hosts.len() as u16, plan.seed, plan.room);
    for ((from, to), path) in plan.paths() {
        schedule.set(from, to, path);
    }
    for (number, host) in (0..).zip(&plan.hosts) {
        let ports = plan.ports(host);
        schedule.set_ports(number, ports.up, ports.down);
    }
    let start = clock::now();
    let later = plan.rules.iter().filter_map(|rule| rule.at.map(|at| (start + at, rule)));
    schedule.plan(later.flat_map(|(at, rule)| {
        let change = move |(from, to)| Change { at, from, to, setting: rule.setting };
        rule.pairs(&plan.hosts).into_iter().map(change)
    }));

    let broken = |error: &dyn std::fmt::Display| Error::new(format!("cannot carry: {error}"));
    let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
    let bell = Arc::new(bell.map_err(|error| broken(&error))?);
    let (orders, received) = channel();
    let carrier = Carrier {
        schedule,
        tunnels,
        by_address: (0..).zip(&plan.hosts).map(|(host, of)| (of.address, host)).collect(),
        orders: received,
        bell: Arc::clone(&bell),
        mtu: plan.mtu as usize,
    };
    let thread = std::thread::Builder::new().name("line".to_string());
    let thread = thread.spawn(|| carrier.run()).map_err(|error| broken(&error))?;
    Ok(Line { plan, hosts, orders, bell, thread: Some(thread), owner })
}

/// The way out, and the way of a host to itself. Congestion control is chosen here, because a
/// namespace may only take a default that the machine allows everybody, and what the machine allows
/// is not ours to change.
fn routes(plan: &Plan, host: &Host) -> Vec<String> {
    let address = host.address;
    let Some(name) = &plan.congestion_control else {
        return vec![format!("route add default dev {DEVICE} src {address}")];
    };
    let own = format!("{address} dev {DEVICE} table local proto kernel scope host src {address}");
    vec![
        format!("route add default dev {DEVICE} src {address} congctl {name}"),
        format!("route change local {own} congctl {name}"),
    ]
}

/// Makes the tunnel of the host that this thread is in.
fn tunnel() -> Result<SyncDevice, Error> {
    let made = DeviceBuilder::new().name(DEVICE).inherit_enable_state().build_sync();
    let ready = made.and_then(|tunnel| tunnel.set_nonblocking(true).map(|()| tunnel));
    ready.map_err(|error| {
        Error::new(format!("cannot make a tunnel: {error}"))
            .hint("it takes CAP_NET_ADMIN, and the device /dev/net/tun: `modprobe tun`")
    })
}

/// Settings of the kernel in the host that this thread is in; each is read back.
fn set(plan: &Plan) -> Result<(), Error> {
    // What a connection learned about a peer must not be there for the next one.
    let mut all = vec![("net.ipv4.tcp_no_metrics_save", "1")];
    all.extend(plan.sysctls.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    for (name, value) in all {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let said = fs::write(&path, value).and_then(|()| fs::read_to_string(&path));
        let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
        match said {
            Ok(said) if words(&said) == words(value) => {}
            Ok(said) => {
                let said = said.trim();
                return Err(Error::new(format!("{name} is {said} after it was set to {value}")));
            }
            Err(error) => {
                return Err(Error::new(format!("cannot set {name} to {value}: {error}"))
                    .hint("a kernel has only the settings it was built with"));
            }
        }
    }
    Ok(())
}
