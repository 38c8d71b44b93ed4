//! How long packets may be where an endpoint lives.

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use std::net::IpAddr;

/// What is believed of an interface: from the least that one with IPv6 has to jumbo frames.
pub(crate) const RANGE: std::ops::RangeInclusive<u32> = 1_280..=9_000;

/// MTU of the interface with this address; of all that are up, the smallest, for the address that
/// stands for all of them. `None` where the system does not say, and for the loopback interface,
/// whose 64 KiB are no packets of a network.
pub(crate) fn of(ip: IpAddr) -> Option<u32> {
    let all = getifaddrs().ok()?;
    let up = all.filter(|one| one.flags.contains(InterfaceFlags::IFF_UP));
    let real = up.filter(|one| !one.flags.contains(InterfaceFlags::IFF_LOOPBACK));
    let mtus = real.filter_map(|one| {
        let address = one.address?;
        let at = match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(v4), _) => IpAddr::from(v4.ip()),
            (_, Some(v6)) => IpAddr::from(v6.ip()),
            _ => return None,
        };
        let meant = ip.is_unspecified() && at.is_ipv4() == ip.is_ipv4() || at == ip;
        meant.then(|| mtu(&one.interface_name)).flatten()
    });
    mtus.min()
}

fn mtu(interface: &str) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/mtu")).ok()?;
    Some(text.trim().parse::<u32>().ok()?.clamp(*RANGE.start(), *RANGE.end()))
}
