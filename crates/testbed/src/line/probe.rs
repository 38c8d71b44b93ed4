//! What a line adds to what it was told: one-way times of stamped packets.

use super::running::Line;
use crate::Error;
use cavy_clock::{self as clock, Wait};
use cavy_core::{Instant, Span};
use hdrhistogram::Histogram;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// Packets are sent in trains, so often a second at most: a thread that sleeps is not woken for
/// each of 40,000.
const TRAINS_PER_S: u64 = 5_000;
/// Bytes of a packet's payload; the first 16 are its number and its stamp.
const BYTES: usize = 64;
const PORT: u16 = 4_078;
/// Delays beyond this count as this, in nanoseconds.
const MOST_NS: u64 = 60_000_000_000;

/// What was seen of one direction of a pair.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Packets that were sent.
    pub sent: u64,
    /// And arrived, each counted once.
    pub arrived: u64,
    /// Arrivals of those that had arrived before.
    pub again: u64,
    /// Arrivals after one that was sent later.
    pub overtaken: u64,
    /// From the stamp to the receiver's look, in nanoseconds.
    pub one_way: Histogram<u64>,
    /// Every delay in order of arrival, in nanoseconds.
    pub delays_ns: Vec<u64>,
    /// From the time a packet was to be sent to its stamp, in nanoseconds.
    pub sent_late: Histogram<u64>,
}

impl Seen {
    /// A quantile of what a packet took beyond `told`, in microseconds; negative when less.
    pub fn beyond_us(&self, told: Span, ratio: f64) -> f64 {
        self.one_way.value_at_quantile(ratio) as f64 / 1e3 - told.as_us()
    }
}

/// Sends `rate_per_s` packets a second from one host to another for so long, and waits for the
/// last.
///
/// # Errors
/// When a host cannot be entered or a socket not opened.
pub fn one_way(
    line: &Line,
    (from, to): (u16, u16),
    rate_per_s: u64,
    length: Span,
) -> Result<Seen, Error> {
    let address =
        |host: u16| SocketAddr::from((line.plan().hosts[usize::from(host)].address, PORT));
    let socket = |host: u16| {
        let open = || {
            let socket = UdpSocket::bind(address(host))?;
            socket.set_read_timeout(Some(Duration::from_millis(100)))?;
            Ok(socket)
        };
        let opened = line.hosts()[usize::from(host)].within(open)?;
        opened.map_err(|error: std::io::Error| Error::new(format!("cannot open a socket: {error}")))
    };
    let (sender, receiver) = (socket(from)?, socket(to)?);
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&receiver, 8 << 20);
    let most = rate_per_s * length.as_ns() / 1_000_000_000;
    std::thread::scope(|scope| {
        let receive = scope.spawn(|| receive(&receiver, most));
        let send = scope.spawn(|| send(&sender, address(to), rate_per_s, most));
        let panicked = || Error::new("a thread of the probe panicked");
        let sent_late = send.join().map_err(|_| panicked())?;
        let mut seen = receive.join().map_err(|_| panicked())?;
        seen.sent = sent_late.len();
        seen.sent_late = sent_late;
        Ok(seen)
    })
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_max(MOST_NS, 3).unwrap_or_else(|_| unreachable!("a minute and 3 digits"))
}

fn send(socket: &UdpSocket, to: SocketAddr, rate_per_s: u64, most: u64) -> Histogram<u64> {
    clock::go_first();
    clock::sharpen_timers();
    let train = rate_per_s.div_ceil(TRAINS_PER_S).max(1);
    let gap_ns = train * 1_000_000_000 / rate_per_s.max(1);
    let start = clock::now() + Span::from_ms(20);
    let mut late = empty();
    let mut packet = [0; BYTES];
    for number in 0..most {
        let due = start + Span::from_ns(number / train * gap_ns);
        if number % train == 0 {
            Wait::Sleep.until(due);
        }
        let now = clock::now();
        packet[..8].copy_from_slice(&number.to_le_bytes());
        packet[8..16].copy_from_slice(&now.as_ns().to_le_bytes());
        // What a full queue refuses is a packet that did not arrive.
        let _ = socket.send_to(&packet, to);
        late.saturating_record(now.since(due).as_ns());
    }
    late
}

fn receive(socket: &UdpSocket, most: u64) -> Seen {
    clock::go_first();
    let mut seen = Seen {
        sent: 0,
        arrived: 0,
        again: 0,
        overtaken: 0,
        one_way: empty(),
        delays_ns: Vec::with_capacity(most as usize),
        sent_late: empty(),
    };
    let mut came = vec![false; most as usize];
    let (mut highest, mut quiet) = (None, 0);
    let mut packet = [0; BYTES];
    // So long after the last one nothing comes any more.
    const QUIET_MAX: u32 = 15;
    // When all are there, copies may still come.
    while quiet < if seen.arrived < most { QUIET_MAX } else { 1 } {
        match socket.recv(&mut packet) {
            Ok(BYTES) => {
                let now = clock::now();
                quiet = 0;
                let word =
                    |at: usize| packet[at..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
                let (number, stamp) = (word(0), Instant::from_ns(word(8)));
                let Some(came) = came.get_mut(number as usize) else { continue };
                if std::mem::replace(came, true) {
                    seen.again += 1;
                    continue;
                }
                seen.arrived += 1;
                seen.overtaken += u64::from(highest.is_some_and(|highest| number < highest));
                highest = highest.max(Some(number));
                let took_ns = now.since(stamp).as_ns();
                seen.one_way.saturating_record(took_ns);
                seen.delays_ns.push(took_ns);
            }
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                quiet += 1;
            }
            Err(_) => break,
        }
    }
    seen
}
