//! Whole conversations with the kernel of this machine, in both roles ([incast 7.4]).
//!
//! Each cell is a namespace with a TUN device: the kernel's TCP on one side, ours on the other.
//! Without root they are skipped, and say so. `CAVY_OCTETS` asks for longer transfers than those
//! of every test run, `CAVY_CONNECTIONS` for more short connections.

use cavy_core::Span;
use cavy_stack::{Faults, Options, Stack};
use cavy_tcp::{Config, Congestion, Ecn, RtoConfig};
use cavy_testbed::{Plan, Testbed, obstacle};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Testbeds bear the name of their process, which has one at a time.
static ONE: Mutex<()> = Mutex::new(());

/// What a setting in the environment says, or what is asked for without.
fn setting(name: &str, without: u64) -> u64 {
    std::env::vars().find(|(key, _)| key == name).map_or(without, |(_, value)| {
        value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value:?}"))
    })
}

fn spaces() -> Option<(MutexGuard<'static, ()>, Testbed)> {
    if let Some(why) = obstacle().or_else(cavy_stack::obstacle) {
        println!("SKIPPED: {why}");
        return None;
    }
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let testbed = Testbed::up(Plan::slow(2)).unwrap_or_else(|error| panic!("{error}"));
    Some((one, testbed))
}

const OURS: Ipv4Addr = Ipv4Addr::new(10, 88, 1, 1);
const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 88, 1, 254);

fn options() -> Options {
    Options::new("10.88.1.0/24".parse().expect("a prefix"))
}

/// The octet at a place of a stream: a place that is wrong is seen.
fn octet(at: u64, salt: u64) -> u8 {
    let mixed = (at / 8 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).to_le_bytes()[(at % 8) as usize]
}

fn send(mut to: impl Write, octets: u64, salt: u64) -> io::Result<()> {
    let mut at = 0;
    let mut chunk = Vec::new();
    while at < octets {
        // Of all lengths.
        let length = (octets - at).min(1 + at * 7 % 20_011);
        chunk.clear();
        chunk.extend((at..at + length).map(|at| octet(at, salt)));
        to.write_all(&chunk)?;
        at += length;
    }
    Ok(())
}

fn receive(mut from: impl Read, octets: u64, salt: u64) -> io::Result<()> {
    let mut at = 0;
    let mut chunk = vec![0; 30_011];
    loop {
        let length = from.read(&mut chunk)?;
        if length == 0 {
            assert_eq!(at, octets, "the stream is as long as it was written");
            return Ok(());
        }
        for (place, &found) in chunk[..length].iter().enumerate() {
            assert_eq!(found, octet(at + place as u64, salt), "at {}", at + place as u64);
        }
        at += length as u64;
    }
}

/// Both directions of one connection at once: ours sends `ours`, the kernel's `theirs`.
fn exchange(ours: &cavy_stack::Stream, theirs: &TcpStream, octets: u64) {
    ours.set_timeout(Some(Duration::from_secs(60)));
    thread::scope(|scope| {
        scope.spawn(|| {
            send(ours, octets, 1).expect("ours writes");
            ours.shutdown(Shutdown::Write);
        });
        scope.spawn(|| {
            send(theirs, octets, 2).expect("the kernel's writes");
            theirs.shutdown(Shutdown::Write).expect("shut");
        });
        scope.spawn(|| receive(theirs, octets, 1).expect("the kernel reads ours"));
        receive(ours, octets, 2).expect("ours reads the kernel's");
    });
}

#[derive(Clone, Copy)]
struct Cell {
    name: &'static str,
    sysctls: &'static [(&'static str, &'static str)],
    control: Option<&'static str>,
    /// Of the kernel's socket; 0 for what the kernel does.
    buffer_bytes: usize,
    options: fn(&mut Options),
    megabytes: u64,
}

const PLAIN: Cell =
    Cell { name: "", sysctls: &[], control: None, buffer_bytes: 0, options: |_| {}, megabytes: 2 };

fn lossy(options: &mut Options, lost: u16, overtaken: u16, doubled: u16) {
    options.faults = Some(Faults {
        lost_per_mille: lost,
        overtaken_per_mille: overtaken,
        doubled_per_mille: doubled,
        seed: 7,
    });
}

fn tiny(options: &mut Options) {
    options.tcp.receive_buffer_bytes = 3_000;
    options.send_buffer_bytes = 5_000;
}

const CELLS: &[Cell] = &[
    Cell { name: "clean reno", control: Some("reno"), megabytes: 10, ..PLAIN },
    Cell { name: "clean cubic", control: Some("cubic"), megabytes: 10, ..PLAIN },
    Cell { name: "clean bbr", control: Some("bbr"), ..PLAIN },
    Cell {
        name: "ours newreno",
        options: |options| options.tcp.congestion = Congestion::NewReno,
        ..PLAIN
    },
    Cell {
        name: "1 % lost, reno",
        control: Some("reno"),
        options: |o| lossy(o, 10, 0, 0),
        ..PLAIN
    },
    Cell {
        name: "1 % lost, cubic",
        control: Some("cubic"),
        options: |o| lossy(o, 10, 0, 0),
        ..PLAIN
    },
    Cell { name: "overtaking", options: |o| lossy(o, 0, 20, 0), ..PLAIN },
    Cell { name: "copies", options: |o| lossy(o, 0, 0, 20), ..PLAIN },
    Cell { name: "all of them", options: |o| lossy(o, 10, 20, 10), ..PLAIN },
    Cell { name: "mtu 576", options: |options| options.mtu = 576, ..PLAIN },
    Cell { name: "tiny windows", buffer_bytes: 4_096, options: tiny, megabytes: 1, ..PLAIN },
    Cell {
        name: "kernel without SACK",
        sysctls: &[("tcp_sack", "0")],
        options: |o| lossy(o, 5, 0, 0),
        megabytes: 1,
        ..PLAIN
    },
    Cell {
        name: "ours without SACK",
        options: |o| {
            o.tcp.sack = false;
            lossy(o, 5, 0, 0)
        },
        megabytes: 1,
        ..PLAIN
    },
    Cell {
        name: "kernel without timestamps",
        sysctls: &[("tcp_timestamps", "0")],
        options: |o| lossy(o, 5, 0, 0),
        ..PLAIN
    },
    Cell {
        name: "ours without timestamps",
        options: |o| {
            o.tcp.stamps = None;
            lossy(o, 5, 0, 0)
        },
        ..PLAIN
    },
    Cell {
        name: "marks agreed on",
        sysctls: &[("tcp_ecn", "1")],
        options: |o| {
            o.tcp.ecn = Ecn::Classic;
            lossy(o, 5, 0, 0)
        },
        ..PLAIN
    },
    Cell { name: "no scaling", sysctls: &[("tcp_window_scaling", "0")], ..PLAIN },
    Cell {
        name: "ours as Linux",
        options: |o| o.tcp = Config { mss_bytes: 1460, ..Config::linux(Congestion::Cubic) },
        ..PLAIN
    },
    Cell {
        name: "no floor",
        options: |o| o.tcp.rto = RtoConfig { min: Span::ZERO, ..o.tcp.rto },
        ..PLAIN
    },
];

fn set(sysctls: &[(&str, &str)]) {
    for (name, value) in sysctls {
        let path = format!("/proc/sys/net/ipv4/{name}");
        std::fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
        let said = std::fs::read_to_string(&path).expect("it can be read");
        assert_eq!(said.trim(), *value, "{path}");
    }
}

/// A socket of the kernel's, with what the cell says of it. `None` where the kernel has no such
/// congestion control.
fn socket(cell: &Cell) -> Option<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket");
    if let Some(control) = cell.control
        && let Err(error) = socket.set_tcp_congestion(control.as_bytes())
    {
        println!("SKIPPED: {}: {error}", cell.name);
        return None;
    }
    if cell.buffer_bytes > 0 {
        socket.set_recv_buffer_size(cell.buffer_bytes).expect("a buffer");
        socket.set_send_buffer_size(cell.buffer_bytes).expect("a buffer");
    }
    Some(socket)
}

fn run(cell: &Cell) {
    set(cell.sysctls);
    let mut options = options();
    (cell.options)(&mut options);
    let octets = setting("CAVY_OCTETS", cell.megabytes << 20);
    let stack = Stack::open(options).unwrap_or_else(|error| panic!("{}: {error}", cell.name));
    let began = ms_now();
    // The kernel opens.
    let listener = stack.bind(SocketAddrV4::new(OURS, 80), 8).expect("a port");
    let Some(client) = socket(cell) else { return };
    let (ours, theirs) = thread::scope(|scope| {
        let ours = scope.spawn(|| listener.accept().expect("a connection").0);
        client.connect(&SockAddr::from(SocketAddrV4::new(OURS, 80))).expect("it opens");
        (ours.join().expect("accepted"), TcpStream::from(client))
    });
    exchange(&ours, &theirs, octets);
    drop((ours, theirs, listener));
    // We open.
    let Some(server) = socket(cell) else { return };
    server.set_reuse_address(true).expect("an option");
    server.bind(&SockAddr::from(SocketAddrV4::new(KERNEL, 81))).expect("a port");
    server.listen(4).expect("it listens");
    let server = TcpListener::from(server);
    let (ours, theirs) = thread::scope(|scope| {
        let theirs = scope.spawn(|| server.accept().expect("a connection").0);
        let ours = stack.connect(SocketAddrV4::new(KERNEL, 81)).expect("it opens");
        (ours, theirs.join().expect("accepted"))
    });
    exchange(&ours, &theirs, octets);
    drop((ours, theirs));
    let metrics = stack.metrics();
    println!(
        "{}: 4 x {} octets in {:.0} ms; {} segments, {} again, {} timeouts ({} spurious), {} fast",
        cell.name,
        octets,
        ms_now() - began,
        metrics.segments,
        metrics.retransmitted,
        metrics.timeouts,
        metrics.spurious,
        metrics.fast_recoveries
    );
    assert_eq!(metrics.damaged.get("sum"), None);
    if cell.name.starts_with("clean") {
        assert_eq!(metrics.ended.get("reset"), None, "{metrics:?}");
    }
}

/// Milliseconds on the monotonic clock.
fn ms_now() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

#[test]
fn every_octet_arrives_once_and_in_order_whatever_the_network_does() {
    let Some((_one, testbed)) = spaces() else { return };
    // A host of its own for those whose kernel is told something.
    for cell in CELLS {
        let host = &testbed.hosts()[usize::from(!cell.sysctls.is_empty())];
        host.within(|| run(cell)).unwrap_or_else(|error| panic!("{}: {error}", cell.name));
        let all = [
            ("tcp_sack", "1"),
            ("tcp_timestamps", "1"),
            ("tcp_window_scaling", "1"),
            ("tcp_ecn", "2"),
        ];
        host.within(|| set(&all)).expect("settings are back");
    }
}

#[test]
fn short_connections_leave_nothing_behind() {
    let Some((_one, testbed)) = spaces() else { return };
    let many = setting("CAVY_CONNECTIONS", 1_000) as usize;
    testbed.hosts()[0]
        .within(|| {
            let mut options = options();
            options.tcp.time_wait = Span::from_ms(20);
            let stack = Stack::open(options).unwrap_or_else(|error| panic!("{error}"));
            let listener = stack.bind(SocketAddrV4::new(OURS, 80), 64).expect("a port");
            thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..many {
                        let (mut stream, _) = listener.accept().expect("a connection");
                        let mut asked = [0; 3];
                        stream.read_exact(&mut asked).expect("a question");
                        stream.write_all(&asked).expect("an answer");
                    }
                });
                for number in 0..many {
                    let mut client = TcpStream::connect((OURS, 80)).expect("it opens");
                    let asked = [1, number as u8, (number >> 8) as u8];
                    client.write_all(&asked).expect("a question");
                    let mut answer = Vec::new();
                    client.read_to_end(&mut answer).expect("an answer and an end");
                    assert_eq!(answer, asked);
                }
            });
            let server = TcpListener::bind((KERNEL, 82)).expect("a port");
            thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..many {
                        let (mut stream, _) = server.accept().expect("a connection");
                        io::copy(&mut stream.try_clone().expect("a copy"), &mut stream)
                            .expect("an echo");
                    }
                });
                for number in 0..many {
                    let to = SocketAddrV4::new(KERNEL, 82);
                    let stream = stack.connect(to).expect("it opens");
                    let asked = [2, number as u8, (number >> 8) as u8];
                    (&stream).write_all(&asked).expect("a question");
                    stream.shutdown(Shutdown::Write);
                    let mut answer = Vec::new();
                    (&stream).read_to_end(&mut answer).expect("an answer and an end");
                    assert_eq!(answer, asked);
                }
            });
            let began = ms_now();
            let mut metrics = stack.metrics();
            while metrics.connections > 0 && ms_now() - began < 30_000.0 {
                thread::sleep(Duration::from_millis(10));
                metrics = stack.metrics();
            }
            println!("{metrics:?}");
            assert_eq!((metrics.connections, metrics.overflowed), (0, 0), "{metrics:?}");
            assert_eq!(metrics.ended.get("closed"), Some(&(2 * many as u64)), "{metrics:?}");
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_port_where_nobody_listens_refuses_and_pings_are_answered() {
    let Some((_one, testbed)) = spaces() else { return };
    testbed.hosts()[0]
        .within(|| {
            let stack = Stack::open(options()).unwrap_or_else(|error| panic!("{error}"));
            let _listener = stack.bind(SocketAddrV4::new(OURS, 80), 1).expect("a port");
            let error = TcpStream::connect((OURS, 81)).expect_err("nobody listens");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            let to = SocketAddrV4::new(KERNEL, 99);
            let error = stack.connect(to).expect_err("nobody listens there either");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            // A prefix is one process's.
            let again = Stack::open(options()).err().expect("the prefix is in use");
            assert!(again.to_string().contains("in use"), "{again}");
            let other = stack.bind(SocketAddrV4::new(OURS, 80), 1).expect_err("taken");
            assert_eq!(other.kind(), io::ErrorKind::AddrInUse);
            let foreign = stack.bind(SocketAddrV4::new(KERNEL, 80), 1).expect_err("not ours");
            assert_eq!(foreign.kind(), io::ErrorKind::AddrNotAvailable);
        })
        .unwrap_or_else(|error| panic!("{error}"));
}
