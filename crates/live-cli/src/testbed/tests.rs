//! Levels on a real switch. Needs root; skipped with a reason elsewhere.

use super::queues::PortCounters;
use super::{Plan, Testbed, obstacle};
use cavy_core::Span;
use cavy_live::load::clock;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PORT: u16 = 4000;
const PROBES: usize = 40;
/// The number of Homa among the protocols of IP, whose raw sockets show the header of IP.
const RAW: i32 = cavy_homa::wire::PROTOCOL as i32;

fn at(host: u16) -> SocketAddr {
    SocketAddr::from((Plan::address(host), PORT))
}

/// A socket of a host whose packets have a level. Its small buffer lets its own link pace it.
fn socket(testbed: &Testbed, host: u16, level: u32) -> UdpSocket {
    let open = || {
        let socket = UdpSocket::bind(at(host)).expect("a socket");
        let options = socket2::SockRef::from(&socket);
        options.set_tos_v4(level << 5).expect("a level");
        options.set_send_buffer_size(1 << 15).expect("a buffer");
        socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        socket
    };
    testbed.hosts()[usize::from(host)].within(open).expect("a namespace")
}

/// The median round trip of small packets; those lost took half a second.
fn median(probe: &UdpSocket, to: SocketAddr) -> Span {
    let mut bytes = [0; 64];
    let mut times: Vec<Span> = (0..PROBES)
        .map(|_| {
            let start = clock::now();
            probe.send_to(&bytes, to).expect("sends");
            let _ = probe.recv_from(&mut bytes);
            clock::now().since(start)
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

/// Echoes, with the level at which a packet's own socket sends.
fn echo(socket: &UdpSocket, over: &AtomicBool) {
    let mut bytes = [0; 2_048];
    while !over.load(Ordering::Relaxed) {
        if let Ok((length, from)) = socket.recv_from(&mut bytes)
            && length < 1_000
        {
            let _ = socket.send_to(&bytes[..length], from);
        }
    }
}

fn flood(socket: &UdpSocket, to: SocketAddr, over: &AtomicBool) {
    let bytes = [0; 1_400];
    while !over.load(Ordering::Relaxed) {
        let _ = socket.send_to(&bytes, to);
    }
}

#[test]
fn levels_are_strict_and_tos_survives() {
    if let Some(reason) = obstacle() {
        eprintln!("SKIPPED: {reason}");
        return;
    }
    let mut testbed = Testbed::up(Plan::slow(5)).expect("a testbed");
    tos_survives(&testbed);
    let (server, high, low) =
        (socket(&testbed, 2, 7), socket(&testbed, 3, 7), socket(&testbed, 4, 0));
    let floods = [socket(&testbed, 0, 0), socket(&testbed, 1, 0)];
    let over = AtomicBool::new(false);
    let before = testbed.ports().expect("counters");
    let (first, last) = std::thread::scope(|scope| {
        scope.spawn(|| echo(&server, &over));
        for socket in &floods {
            scope.spawn(|| flood(socket, at(2), &over));
        }
        // Until the queue is full.
        std::thread::sleep(Duration::from_millis(300));
        let both = (median(&high, at(2)), median(&low, at(2)));
        over.store(true, Ordering::Relaxed);
        both
    });
    let port = testbed.ports().expect("counters")[2].since(&before[2]);
    // The link is full of what the lowest level sends, and that loses what does not fit.
    assert!(port.levels[0].dropped > 0 && port.levels[0].packets > 1_000, "{port:?}");
    assert_eq!(port.levels[7].dropped, 0);
    assert!(port.levels[7].packets >= PROBES as u64, "{port:?}");
    // A queue of 256 kB takes 20 ms at 100 Mb/s; a packet on the link takes 0.12 ms.
    assert!(last > Span::from_ms(8), "level 0 waits for the queue: {last}");
    assert!(first.as_us() * 4.0 < last.as_us(), "level 7: {first}, level 0: {last}");

    testbed.set_levels(false).expect("tc");
    let before = testbed.ports().expect("counters");
    high.send_to(&[0; 64], at(2)).expect("sends");
    std::thread::sleep(Duration::from_millis(100));
    let port: PortCounters = testbed.ports().expect("counters")[2].since(&before[2]);
    // What the floods left in their hosts' queues may still come: level 0 as well.
    assert_eq!(port.levels[7].packets, 0, "{port:?}");
    assert!(port.levels[0].packets >= 1, "{port:?}");
    testbed.set_levels(true).expect("tc");
}

/// A raw socket shows TOS as it arrives.
fn tos_survives(testbed: &Testbed) {
    let raw = || {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(RAW)));
        let socket = socket.expect("a raw socket");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        socket
    };
    let [from, to] = [0, 1].map(|host| testbed.hosts()[host].within(raw).expect("a namespace"));
    for level in 0..8_u32 {
        from.set_tos_v4(level << 5).expect("a level");
        from.send_to(b"hello", &SockAddr::from(at(1))).expect("sends");
        let mut packet = [0; 64];
        let length = std::io::Read::read(&mut &to, &mut packet).expect("arrives");
        assert_eq!((length, u32::from(packet[1]) >> 5), (25, level));
    }
}
