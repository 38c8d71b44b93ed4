//! Ports of endpoints that share a host.
//!
//! UDP sockets have ports of their own. A raw socket is given every packet of the protocol for its
//! address, so two endpoints with one port would take, answer and end each other's calls. A
//! port is held by a socket whose name says so, in the namespace that goes with the network's: the
//! system frees it when the process ends, however it does.

use super::options::{CLIENT_PORT_MIN, Carrier, Options};
use super::protocol::Protocol;
use std::io;
use std::net::IpAddr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Ports that an endpoint holds, as long as this lives.
#[derive(Debug, Default)]
pub(crate) struct Held(#[allow(dead_code, reason = "held, not used")] Vec<UnixDatagram>);

const EVERYWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

fn hold(protocol: &str, ip: IpAddr, port: u16) -> io::Result<UnixDatagram> {
    let name = SocketAddr::from_abstract_name(format!("cavy-{protocol}/{ip}/{port}"))?;
    UnixDatagram::bind_addr(&name)
}

/// Holds a server's port. A server at all addresses of the host gets the packets of each single
/// one, so it has no port that another has at any of them. Whoever comes looks after it has taken
/// its own: of two that come at once, at least one sees the other.
fn hold_server(protocol: &str, ip: IpAddr, port: u16) -> io::Result<UnixDatagram> {
    let held = hold(protocol, ip, port)?;
    let names = std::fs::read_to_string("/proc/net/unix")?;
    let mut holders = names.lines().filter_map(|line| holder(protocol, line, port));
    match holders.any(|other| overlap(ip, other)) {
        true => Err(io::ErrorKind::AddrInUse.into()),
        false => Ok(held),
    }
}

/// At which address a line of the list of Unix sockets says that somebody holds this port.
fn holder(protocol: &str, line: &str, port: u16) -> Option<IpAddr> {
    let (_, name) = line.split_once(&format!("@cavy-{protocol}/"))?;
    let (ip, held) = name.trim_end_matches(['@', '\0', ' ']).split_once('/')?;
    (held.parse() == Ok(port)).then(|| ip.parse().ok()).flatten()
}

/// Does a packet for one of these two different places also go to the other?
fn overlap(one: IpAddr, other: IpAddr) -> bool {
    one != other && (one == EVERYWHERE || other == EVERYWHERE)
}

/// Takes the ports that `options` ask for, and chooses the one to ask from if they leave that open,
/// beginning with one that follows from `random`. A client port is held for all addresses of the
/// host, a server's for its own, which may be all of them.
pub(crate) fn take<P: Protocol>(
    options: &mut Options<P>,
    serves: bool,
    random: u64,
) -> io::Result<Held> {
    let any = options.client_port == 0;
    if options.carrier == Carrier::Udp {
        options.client_port = if any { CLIENT_PORT_MIN } else { options.client_port };
        return Ok(Held::default());
    }
    let mut held = Vec::new();
    if serves {
        held.push(hold_server(P::MACHINE, options.bind.ip(), options.server_port)?);
    }
    if !any {
        held.push(hold(P::MACHINE, EVERYWHERE, options.client_port)?);
        return Ok(Held(held));
    }
    let first = random as u16;
    for step in 0..CLIENT_PORT_MIN {
        let port = first.wrapping_add(step) | CLIENT_PORT_MIN;
        match hold(P::MACHINE, EVERYWHERE, port) {
            Ok(socket) => {
                held.push(socket);
                options.client_port = port;
                return Ok(Held(held));
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_a_port_is_read_from_the_list_of_sockets() {
        let line = |name: &str| format!("0000000000000000: 00000002 0 0 0002 01 2151 {name}");
        let at = |text: &str| text.parse::<IpAddr>().ok();
        assert_eq!(holder("homa", &line("@cavy-homa/10.0.0.1/99"), 99), at("10.0.0.1"));
        assert_eq!(holder("homa", &line("@cavy-homa/0.0.0.0/99"), 99), Some(EVERYWHERE));
        for other in ["@cavy-homa/10.0.0.1/98", "@cavy-homa/x/99", "@other/10.0.0.1/99", ""] {
            assert_eq!(holder("homa", &line(other), 99), None, "{other}");
        }
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|text| at(text).expect("an address"));
        assert!(overlap(one, EVERYWHERE) && overlap(EVERYWHERE, other));
        assert!(!overlap(one, other) && !overlap(EVERYWHERE, EVERYWHERE));
    }
}
