//! What goes wrong between a kernel and us, and who is in the way: links that fail, readers that
//! stop, peers that die, packets of strangers ([incast 2.4], [incast 2.12], [incast 2.14]).

#[path = "../scripts/icmp.rs"]
mod icmp;
mod many;
mod stops;

use cavy_core::Span;
use cavy_stack::{Metrics, Options, Stack, Stream};
use cavy_tcp::wire::{HEADERS_MAX_BYTES, Writer};
use cavy_tcp::{Flags, Segment};
use cavy_testbed::{Plan, Testbed, obstacle, tools};
use icmp::unreachable;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

static ONE: Mutex<()> = Mutex::new(());

const OURS: Ipv4Addr = Ipv4Addr::new(10, 88, 1, 1);
const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 88, 1, 254);
const PORT: u16 = 80;
/// How long one waits for what a busy machine does in seconds.
const ONE_MINUTE: Duration = Duration::from_secs(60);

/// Runs `work` in a host, with a stack there.
fn with_stack(change: impl FnOnce(&mut Options) + Send, work: impl FnOnce(&Stack, &str) + Send) {
    if let Some(why) = obstacle().or_else(cavy_stack::obstacle) {
        return println!("SKIPPED: {why}");
    }
    let _one: MutexGuard<'_, ()> = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let testbed = Testbed::up(Plan::slow(2)).unwrap_or_else(|error| panic!("{error}"));
    let host = &testbed.hosts()[0];
    let inside = || {
        let mut options = Options::new("10.88.1.0/24".parse().expect("a prefix"));
        options.device = Some("cavy0".to_string());
        change(&mut options);
        let stack = Stack::open(options).unwrap_or_else(|error| panic!("{error}"));
        work(&stack, host.name());
    };
    host.within(inside).unwrap_or_else(|error| panic!("{error}"));
}

/// A connection that the kernel opened: its end and ours.
fn pair(stack: &Stack) -> (TcpStream, Stream) {
    let listener = stack.bind(SocketAddrV4::new(OURS, PORT), 8).expect("a port");
    let theirs = TcpStream::connect((OURS, PORT)).expect("it opens");
    let (ours, _) = listener.accept().expect("a connection");
    ours.set_timeout(Some(Duration::from_secs(20)));
    theirs.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
    (theirs, ours)
}

/// Both directions still carry octets.
fn works(mut theirs: &TcpStream, ours: &Stream) {
    let mut ours = ours;
    let mut found = [0; 5];
    theirs.write_all(b"there").expect("the kernel's writes");
    ours.read_exact(&mut found).expect("ours reads");
    assert_eq!(&found, b"there");
    ours.write_all(b"again").expect("ours writes");
    theirs.read_exact(&mut found).expect("the kernel's reads");
    assert_eq!(&found, b"again");
}

/// Waits until the stack says so: a machine that does other work takes its time.
fn until(stack: &Stack, what: &str, holds: impl Fn(&Metrics) -> bool) -> Metrics {
    let began = cavy_clock::now();
    loop {
        let metrics = stack.metrics();
        if holds(&metrics) {
            return metrics;
        }
        let waited = cavy_clock::now().since(began);
        assert!(waited < Span::from_ms(30_000), "in vain: {what}: {metrics:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sets the device of the stack up or down.
fn link(space: &str, state: &str) {
    let args = ["-n", space, "link", "set", "cavy0", state];
    tools::run("ip", &args).unwrap_or_else(|error| panic!("{error}"));
}

fn octets(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

#[test]
fn an_end_that_dies_is_told_to_the_other() {
    with_stack(
        |_| {},
        |stack, _| {
            let (theirs, ours) = pair(stack);
            // As a process that is killed with unread data: the kernel resets.
            (&ours).write_all(b"unread").expect("ours writes");
            assert_eq!(theirs.peek(&mut [0]).expect("it came"), 1);
            drop(theirs);
            let error = (&ours).read(&mut [0]).expect_err("a reset");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            drop(ours);
            let (theirs, ours) = pair(stack);
            ours.abort();
            let error = (&theirs).read(&mut [0]).expect_err("a reset");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            // Half closed: what the other side still says is heard.
            let (mut theirs, ours) = pair(stack);
            ours.shutdown(Shutdown::Write);
            assert_eq!(theirs.read(&mut [0]).expect("an end"), 0);
            theirs.write_all(b"more").expect("the kernel's writes");
            drop(theirs);
            let mut said = String::new();
            (&ours).read_to_string(&mut said).expect("ours reads");
            assert_eq!(said, "more");
        },
    );
}

/// A packet of somebody who is not on the way.
fn forge(segment: &Segment, payload: &[u8]) -> Vec<u8> {
    let mut headers = [0; HEADERS_MAX_BYTES];
    let writer = Writer { from: KERNEL, to: OURS };
    let end = writer.headers(&mut headers, segment, [payload, &[]]);
    [&headers[..end], payload].concat()
}

/// How far apart a stranger's resets are.
const RESET_EVERY: u32 = 250_000;

#[test]
fn packets_of_strangers_neither_end_nor_spoil_a_connection() {
    with_stack(
        |_| {},
        |stack, _| {
            let (theirs, ours) = pair(stack);
            works(&theirs, &ours);
            let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).expect("raw");
            raw.set_header_included_v4(true).expect("an option");
            let to = SockAddr::from(SocketAddrV4::new(OURS, 0));
            let port = ours.peer_addr().port();
            let before = stack.metrics().packets_in;
            let mut sent = 0;
            let mut word = 1_u32;
            let kinds =
                [Flags::RST, Flags::RST.with(Flags::ACK), Flags::SYN, Flags::ACK, Flags::FIN];
            let mut send = |seq: u32, flags: Flags| {
                let mut segment = Segment::new(port, PORT, seq, flags);
                (segment.ack, segment.window) = (seq.rotate_left(9), 1_000);
                raw.send_to(&forge(&segment, b"spoilt"), &to).expect("it is sent");
                sent += 1;
                // The device keeps a few hundred packets for a thread that waits for a processor;
                // what it drops would prove nothing.
                if sent % 100 == 0 {
                    until(stack, "all came", |metrics| metrics.packets_in >= before + sent);
                }
            };
            for _ in 0..1_000 {
                for flags in kinds {
                    word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    send(word, flags);
                }
            }
            // And resets all around the circle, of which several fall into the window of 1 MiB. One
            // in 500 ms is asked back, the others are not [incast 2.4].
            (0..u32::MAX / RESET_EVERY).for_each(|at| send(at * RESET_EVERY, Flags::RST));
            works(&theirs, &ours);
            let metrics = stack.metrics();
            println!("{metrics:?}");
            // At most an answer each: strangers are not helped against others.
            // What carries octets is answered, as by Linux, since it cannot go back and forth.
            assert!(metrics.packets_out <= metrics.packets_in, "{metrics:?}");
            assert!(metrics.unanswered > 0, "{metrics:?}");
            // Ports where nobody is: a reset each, never longer than what asked.
            let before = stack.metrics();
            for port in 0..500 {
                let segment = Segment::new(9, 20_000 + port, 1, Flags::SYN);
                raw.send_to(&forge(&segment, &[]), &to).expect("it is sent");
                if port % 100 == 99 {
                    let came = before.packets_in + u64::from(port) + 1;
                    until(stack, "all came", |metrics| metrics.packets_in >= came);
                }
            }
            let resets = stack.metrics().packets_out - before.packets_out;
            assert!((1..=500).contains(&resets), "{resets}");
            works(&theirs, &ours);
        },
    );
}

/// Who is not on the way has to guess what is under way (RFC 5927).
#[test]
fn routers_that_lie_neither_end_nor_slow_a_connection() {
    with_stack(
        |_| {},
        |stack, _| {
            let (theirs, ours) = pair(stack);
            works(&theirs, &ours);
            let mss = ours.facts().expect("it is open").mss_bytes;
            let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).expect("raw");
            raw.set_header_included_v4(true).expect("an option");
            let to = SockAddr::from(SocketAddrV4::new(OURS, 0));
            let router = Ipv4Addr::new(198, 51, 100, 7);
            let before = stack.metrics().unreachable;
            let mut told = 0;
            for at in 0..2_000_u32 {
                let lost = Segment::new(PORT, ours.peer_addr().port(), at << 21, Flags::ACK);
                let mut about = [0; HEADERS_MAX_BYTES];
                Writer { from: OURS, to: KERNEL }.headers(&mut about, &lost, [&[], &[]]);
                // Nobody, no port, forbidden, and too long for all sorts of links.
                for (code, mtu) in [(1, 0), (3, 0), (13, 0), (4, 0), (4, 68), (4, 552)] {
                    let packet = unreachable(router, OURS, code, mtu, &about);
                    raw.send_to(&packet, &to).expect("it is sent");
                    told += 1;
                }
                if at % 20 == 0 {
                    until(stack, "all came", |metrics| metrics.unreachable >= before + told);
                }
            }
            until(stack, "all came", |metrics| metrics.unreachable >= before + told);
            works(&theirs, &ours);
            assert_eq!(ours.facts().expect("it is open").mss_bytes, mss);
        },
    );
}

#[test]
fn who_opens_half_connections_by_the_thousand_keeps_nobody_out() {
    with_stack(
        |_| {},
        |stack, _| {
            const BACKLOG: u16 = 32;
            let at = SocketAddrV4::new(OURS, PORT);
            let listener = stack.bind(at, BACKLOG).expect("a port");
            let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).expect("raw");
            raw.set_header_included_v4(true).expect("an option");
            let to = SockAddr::from(SocketAddrV4::new(OURS, 0));
            let before = stack.metrics().packets_in;
            let mut sent: u32 = 0;
            for served in 0..20 {
                // From addresses where nobody is; nothing there will answer.
                for _ in 0..500 {
                    let from = Ipv4Addr::from_bits(0xc633_6400 | (sent & 0xff));
                    let source = 1_024 + (sent >> 8) as u16;
                    let mut segment = Segment::new(source, PORT, sent, Flags::SYN);
                    segment.mss = Some(1_460);
                    let mut headers = [0; HEADERS_MAX_BYTES];
                    let writer = Writer { from, to: OURS };
                    let end = writer.headers(&mut headers, &segment, [&[], &[]]);
                    raw.send_to(&headers[..end], &to).expect("it is sent");
                    sent += 1;
                    if sent.is_multiple_of(100) {
                        let came = before + u64::from(sent);
                        until(stack, "all came", |metrics| metrics.packets_in >= came);
                    }
                }
                // Beside those that were served, which are remembered for a minute.
                let most = u64::from(BACKLOG) + served;
                assert!(stack.metrics().connections <= most, "{:?}", stack.metrics());
                // Amid them one who means it is served.
                let theirs = TcpStream::connect(at).expect("it opens");
                let (ours, _) = listener.accept().expect("a connection");
                works(&theirs, &ours);
            }
            let metrics = stack.metrics();
            println!("{metrics:?}");
            assert!(metrics.cookies >= 9_000, "{metrics:?}");
            assert_eq!(metrics.accepted, 20, "{metrics:?}");
        },
    );
}

#[test]
fn a_stack_that_ends_leaves_its_prefix_to_the_next() {
    with_stack(
        |_| {},
        |stack, _| {
            let server = TcpListener::bind((KERNEL, 81)).expect("a port");
            let ours = stack.connect(SocketAddrV4::new(KERNEL, 81)).expect("it opens");
            let (mut theirs, _) = server.accept().expect("a connection");
            assert!(ours.facts().expect("it is open").sack);
            let mut options = Options::new("10.89.1.0/24".parse().expect("a prefix"));
            options.device = Some("cavy1".to_string());
            for _ in 0..3 {
                let other = Stack::open(options.clone()).unwrap_or_else(|error| panic!("{error}"));
                let listener =
                    other.bind(SocketAddrV4::new(other.first_address(), 1), 4).expect("one");
                let mut client = TcpStream::connect(listener.local_addr()).expect("it opens");
                let (waits, _) = listener.accept().expect("a connection");
                thread::scope(|scope| {
                    let reads = scope.spawn(|| (&waits).read(&mut [0]));
                    thread::sleep(Duration::from_millis(20));
                    drop(other);
                    let error = reads.join().expect("it is told").expect_err("the stack has ended");
                    assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
                });
                assert!(client.read(&mut [0]).is_err(), "its peers are reset");
            }
            drop(ours);
            assert_eq!(theirs.read(&mut [0]).expect("an end"), 0);
        },
    );
}
