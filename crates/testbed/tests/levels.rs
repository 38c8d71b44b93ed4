//! Levels on a real switch. Needs root; skipped with a reason elsewhere.

use cavy_testbed::queues::PortCounters;
use cavy_testbed::{Plan, Testbed, obstacle};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

const PORT: u16 = 4000;
/// Of each of two floods: together less than a level's queue holds.
const FLOOD_PACKETS: usize = 80;
const ATTEMPTS: usize = 10;
/// A protocol of IP for experiments (RFC 3692). Its raw sockets show the header of IP.
const RAW: i32 = 253;

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

/// How many packets of the floods arrive after the packet of each prober, which is sent when the
/// floods have filled the queue of the port to `server`; the link of that port takes 0.12 ms for
/// each.
fn overtaken(floods: &[UdpSocket; 2], probers: [&UdpSocket; 2], server: &UdpSocket) -> [usize; 2] {
    let to = server.local_addr().expect("an address");
    std::thread::scope(|scope| {
        let senders = floods.each_ref().map(|flood| {
            scope.spawn(move || {
                for _ in 0..FLOOD_PACKETS {
                    flood.send_to(&[0; 1_400], to).expect("sends");
                }
            })
        });
        senders.into_iter().for_each(|sender| sender.join().expect("a flood"));
        for (number, prober) in (1_u8..).zip(probers) {
            prober.send_to(&[number; 64], to).expect("sends");
        }
    });
    let mut after = [0; 2];
    let mut bytes = [0; 2_048];
    let mut seen = [false; 2];
    while let Ok(length) = server.recv(&mut bytes) {
        match (length, bytes[0]) {
            (64, number @ 1..=2) => seen[usize::from(number) - 1] = true,
            _ => after.iter_mut().zip(seen).for_each(|(after, seen)| *after += usize::from(seen)),
        }
    }
    assert_eq!(seen, [true; 2], "both probes arrive");
    after
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
    socket2::SockRef::from(&server).set_recv_buffer_size(1 << 20).expect("a buffer");
    let floods = [socket(&testbed, 0, 0), socket(&testbed, 1, 0)];
    let before = testbed.ports().expect("counters");
    // Two links feed one, so half of what they carry waits there, which is more than the sockets of
    // the floods hold: packets have left them. Threads that do not run at the time let the queue
    // drain, so there is more than one attempt; without levels none overtakes.
    let all: Vec<[usize; 2]> =
        (0..ATTEMPTS).map(|_| overtaken(&floods, [&high, &low], &server)).collect();
    assert!(all.iter().any(|[high, low]| *high >= low + FLOOD_PACKETS / 2), "{all:?}");
    let port = testbed.ports().expect("counters")[2].since(&before[2]);
    assert!(port.levels[0].packets >= (ATTEMPTS * FLOOD_PACKETS) as u64, "{port:?}");
    assert_eq!((port.levels[7].packets, port.levels[7].dropped), (ATTEMPTS as u64, 0), "{port:?}");

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
