//! Homa ports of endpoints that share a host.
//!
//! UDP sockets have ports of their own. A raw socket is given every packet of the protocol for its
//! address, so two endpoints with one Homa port would take, answer and end each other's calls. A
//! port is held by a socket whose name says so, in the namespace that goes with the network's: the
//! system frees it when the process ends, however it does.

use super::options::{Carrier, Options};
use cavy_homa::wire::CLIENT_PORT_MIN;
use std::io;
use std::net::IpAddr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Ports that an endpoint holds, as long as this lives.
#[derive(Debug, Default)]
pub(super) struct Held(#[allow(dead_code, reason = "held, not used")] Vec<UnixDatagram>);

fn hold(ip: IpAddr, port: u16) -> io::Result<UnixDatagram> {
    let name = SocketAddr::from_abstract_name(format!("cavy-homa/{ip}/{port}"))?;
    UnixDatagram::bind_addr(&name)
}

/// Takes the ports that `options` ask for, and chooses the one to ask from if they leave that open,
/// beginning with one that follows from `random`. A client port is held for all addresses of the
/// host, a server's for its own.
pub(super) fn take(options: &mut Options, serves: bool, random: u64) -> io::Result<Held> {
    let any = options.client_port == 0;
    if options.carrier == Carrier::Udp {
        options.client_port = if any { CLIENT_PORT_MIN } else { options.client_port };
        return Ok(Held::default());
    }
    let everywhere = IpAddr::from([0, 0, 0, 0]);
    let mut held = Vec::new();
    if serves {
        held.push(hold(options.bind.ip(), options.server_port)?);
    }
    if !any {
        held.push(hold(everywhere, options.client_port)?);
        return Ok(Held(held));
    }
    let first = random as u16;
    for step in 0..CLIENT_PORT_MIN {
        let port = first.wrapping_add(step) | CLIENT_PORT_MIN;
        match hold(everywhere, port) {
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
