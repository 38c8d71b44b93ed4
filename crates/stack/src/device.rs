//! The TUN device: made here, or made once by root and taken.

use crate::{Error, Options};
use std::fs;
use std::net::Ipv4Addr;
use tun_rs::{DeviceBuilder, SyncDevice};

/// The least that IPv4 demands of a link.
const MTU_MIN: u16 = 68;
/// Packets that wait for the stack's thread: a few milliseconds of a fast link.
const QUEUE_PACKETS: u32 = 4096;

const RIGHTS: &str = "run as root, or let root make a device once: `ip tuntap add dev cavy0 mode \
                      tun user NAME`, give it an address of the prefix, and name it";

/// Why no device can be made here; `None` when nothing is known to be in the way.
pub fn obstacle() -> Option<String> {
    match fs::File::options().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => None,
        Err(error) => Some(format!("cannot open /dev/net/tun: {error}")),
    }
}

pub(crate) fn open(options: &Options) -> Result<SyncDevice, Error> {
    if options.mtu < MTU_MIN {
        let message = format!("an MTU of {} is less than IPv4 allows", options.mtu);
        return Err(Error::new(message, "take 68 or more; 1500 is usual"));
    }
    if !options.prefix.contains(&options.kernel) {
        let message = format!("{} is not an address of {}", options.kernel, options.prefix);
        return Err(Error::new(message, "the kernel's own address must be one of the prefix"));
    }
    let routes = routes();
    let name = options.device.as_deref();
    let known =
        name.is_some_and(|name| fs::exists(format!("/sys/class/net/{name}")).unwrap_or(false));
    let other = routes.iter().find(|route| {
        let inside = options.prefix.contains(&route.to) && route.mask >= options.prefix.netmask();
        inside && Some(route.device.as_str()) != name
    });
    if let Some(route) = other {
        let message =
            format!("the prefix {} is in use: {} has {}", options.prefix, route.device, route.to);
        return Err(Error::new(
            message,
            "choose a prefix that no interface has: `ip route` shows them",
        ));
    }
    let mut builder = DeviceBuilder::new();
    if let Some(name) = name {
        builder = builder.name(name);
    }
    let placed = routes.iter().any(|route| Some(route.device.as_str()) == name);
    builder = if known && placed {
        // Root made it and gave it its place.
        builder.inherit_enable_state()
    } else {
        let queue = |builder: DeviceBuilder| {
            builder.with(|more| {
                more.tx_queue_len(QUEUE_PACKETS);
            })
        };
        queue(builder).mtu(options.mtu).ipv4(options.kernel, options.prefix.prefix_len(), None)
    };
    let made = builder.build_sync();
    let made = made.and_then(|tun| tun.set_nonblocking(true).map(|()| tun));
    let tun = made.map_err(|error| {
        let busy = error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error());
        let hint = if busy { "another process has it: choose another name" } else { RIGHTS };
        Error::of("cannot make a TUN device", error, hint)
    })?;
    Ok(tun)
}

/// A way that the kernel knows.
struct Route {
    device: String,
    to: Ipv4Addr,
    mask: Ipv4Addr,
}

/// The kernel's routes, as this thread's namespace has them.
fn routes() -> Vec<Route> {
    let text = fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
    let address =
        |hex: &str| u32::from_str_radix(hex, 16).ok().map(|n| Ipv4Addr::from(n.to_ne_bytes()));
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (to, mask) = (address(fields.get(1)?)?, address(fields.get(7)?)?);
        Some(Route { device: fields.first()?.to_string(), to, mask })
    };
    text.lines().skip(1).filter_map(route).collect()
}
