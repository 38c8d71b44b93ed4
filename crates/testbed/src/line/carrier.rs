//! The thread of a line: it takes packets from tunnels, keeps them by a schedule, and puts them
//! into the tunnels of their receivers.

use super::mark;
use super::path::Setting;
use super::schedule::{Counts, Due, Schedule};
use cavy_clock as clock;
use cavy_core::{Instant, Span};
use hdrhistogram::Histogram;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::{Errno, read, write};
use rustix::thread::ClockId;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use tun_rs::SyncDevice;

/// Packets taken from one tunnel before what is due is looked at again.
const BATCH: usize = 64;
/// Latenesses beyond this count as this, in nanoseconds.
const LATE_MAX_NS: u64 = 60_000_000_000;
/// Numbers of events that are no tunnels.
const BELL: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// What a line is told while it runs.
pub(super) enum Order {
    /// Changes the ways of these pairs.
    Change(Vec<(u16, u16)>, Setting),
    /// Says what happened until now.
    Report(SyncSender<Report>),
    /// Forgets how late it was, and what became of packets so far.
    Forget,
    /// Ends.
    Stop,
}

/// What happened on a line.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Report {
    /// Since it started, or was last told to forget.
    pub seconds: f64,
    /// All packets together.
    pub all: Counts,
    /// By sender and receiver, those that had any.
    #[serde(serialize_with = "as_list")]
    pub pairs: BTreeMap<(u16, u16), Counts>,
    /// Packets that are on their way.
    pub under_way: usize,
    /// Packets to an address that no host has, and what is no IPv4.
    pub unroutable: u64,
    /// Packets that the kernel refused to take back.
    pub refused: u64,
    /// What a packet was handed over later than it was due.
    pub late: Late,
    /// Share of one processor that the line's thread used.
    pub processor_ratio: f64,
    /// It goes before ordinary threads (`SCHED_FIFO`).
    pub goes_first: bool,
}

fn as_list<S: serde::Serializer>(
    pairs: &BTreeMap<(u16, u16), Counts>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(serde::Serialize)]
    struct Pair<'a> {
        from: u16,
        to: u16,
        #[serde(flatten)]
        counts: &'a Counts,
    }
    serializer.collect_seq(pairs.iter().map(|(&(from, to), counts)| Pair { from, to, counts }))
}

/// Lateness, in microseconds; zeros without packets.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize)]
pub struct Late {
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// The greatest.
    pub max_us: f64,
}

impl Report {
    /// Beyond this, a run on the line is in doubt.
    pub const LATE_P999_MAX_US: f64 = 1_000.0;

    /// Was the line itself so late that what ran on it should not be believed?
    pub fn in_doubt(&self) -> bool {
        self.late.p999_us > Report::LATE_P999_MAX_US || self.all.overflowed + self.refused > 0
    }
}

/// What the thread owns.
pub(super) struct Carrier {
    pub schedule: Schedule<Vec<u8>>,
    pub tunnels: Vec<SyncDevice>,
    pub by_address: BTreeMap<Ipv4Addr, u16>,
    pub orders: Receiver<Order>,
    pub bell: Arc<OwnedFd>,
    pub mtu: usize,
}

struct Books {
    late: Histogram<u64>,
    unroutable: u64,
    refused: u64,
    since: Instant,
    cpu_since: Span,
    /// Counts of the schedule when this began.
    before: BTreeMap<(u16, u16), Counts>,
    goes_first: bool,
}

impl Carrier {
    /// Carries packets until it is told to stop.
    pub fn run(mut self) -> io::Result<()> {
        let goes_first = clock::go_first();
        clock::sharpen_timers();
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let add = |fd: std::os::fd::BorrowedFd<'_>, number: u64| {
            epoll::add(&epoll, fd, EventData::new_u64(number), EventFlags::IN)
        };
        use std::os::fd::AsFd as _;
        add(self.bell.as_fd(), BELL)?;
        add(timer.as_fd(), TIMER)?;
        for (number, tunnel) in (0..).zip(&self.tunnels) {
            add(tunnel.as_fd(), number)?;
        }
        let mut books = self.books(goes_first)?;
        let mut events = Vec::with_capacity(self.tunnels.len() + 2);
        // Buffers of packets that have gone, for those to come.
        let mut spare: Vec<Vec<u8>> = Vec::new();
        let mut armed = None;
        loop {
            let next = self.schedule.next();
            if next != armed {
                arm(&timer, next)?;
                armed = next;
            }
            events.clear();
            match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let number = event.data.u64();
                match number {
                    BELL => {
                        let _ = read(&self.bell, &mut [0_u8; 8]);
                        if self.obey(&mut books) {
                            return Ok(());
                        }
                    }
                    TIMER => {
                        let _ = read(&timer, &mut [0_u8; 8]);
                        armed = None;
                    }
                    // There are at most 256 tunnels.
                    number => self.take_in(number as u16, &mut spare, &mut books)?,
                }
                self.hand_out(&mut spare, &mut books);
            }
        }
    }

    /// Takes what a host sends.
    fn take_in(
        &mut self,
        from: u16,
        spare: &mut Vec<Vec<u8>>,
        books: &mut Books,
    ) -> io::Result<()> {
        for _ in 0..BATCH {
            let mut packet = spare.pop().unwrap_or_default();
            packet.resize(self.mtu, 0);
            let length = match read(&self.tunnels[usize::from(from)], &mut packet[..]) {
                Ok(length) => length,
                Err(Errno::AGAIN | Errno::INTR) => {
                    spare.push(packet);
                    break;
                }
                Err(error) => return Err(error.into()),
            };
            let now = clock::now();
            packet.truncate(length);
            let to = mark::destination(&packet).and_then(|to| self.by_address.get(&to));
            let back = match to {
                // A tunnel takes no more than its MTU.
                Some(&to) => self.schedule.offer(now, (from, to), length as u32, packet),
                None => {
                    books.unroutable += 1;
                    Some(packet)
                }
            };
            spare.extend(back);
        }
        Ok(())
    }

    /// Hands over what is due.
    fn hand_out(&mut self, spare: &mut Vec<Vec<u8>>, books: &mut Books) {
        loop {
            let now = clock::now();
            let Some(due) = self.schedule.take(now, |packet| spare.push(packet)) else { return };
            let Due { to, at, marked, mut packet, .. } = due;
            if marked {
                mark::congestion(&mut packet);
            }
            if write(&self.tunnels[usize::from(to)], &packet).is_err() {
                books.refused += 1;
            }
            books.late.saturating_record(now.since(at).as_ns());
            spare.push(packet);
        }
    }

    /// Does what it was told; true when that is to end.
    fn obey(&mut self, books: &mut Books) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Change(pairs, setting)) => {
                    for (from, to) in pairs {
                        self.schedule.change(from, to, &setting);
                    }
                }
                Ok(Order::Report(to)) => {
                    let _ = to.try_send(self.report(books));
                }
                Ok(Order::Forget) => {
                    if let Ok(fresh) = self.books(books.goes_first) {
                        *books = fresh;
                    }
                }
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return true,
                Err(TryRecvError::Empty) => return false,
            }
        }
    }

    fn counts(&self) -> BTreeMap<(u16, u16), Counts> {
        let hosts = 0..self.schedule.hosts();
        let pairs = hosts.clone().flat_map(|from| hosts.clone().map(move |to| (from, to)));
        let all = pairs.map(|(from, to)| ((from, to), *self.schedule.counts(from, to)));
        all.filter(|(_, counts)| *counts != Counts::default()).collect()
    }

    fn books(&self, goes_first: bool) -> io::Result<Books> {
        let late = Histogram::new_with_max(LATE_MAX_NS, 3).map_err(io::Error::other)?;
        Ok(Books {
            late,
            unroutable: 0,
            refused: 0,
            since: clock::now(),
            cpu_since: processor(),
            before: self.counts(),
            goes_first,
        })
    }

    fn report(&self, books: &Books) -> Report {
        let at = |ratio| books.late.value_at_quantile(ratio) as f64 / 1e3;
        let passed = clock::now().since(books.since);
        let none = Counts::default();
        let since = |(pair, counts): ((u16, u16), Counts)| {
            (pair, counts.since(books.before.get(&pair).unwrap_or(&none)))
        };
        let pairs: BTreeMap<_, _> =
            self.counts().into_iter().map(since).filter(|(_, counts)| *counts != none).collect();
        Report {
            seconds: passed.as_us() / 1e6,
            all: pairs.values().fold(none, |sum, counts| sum.plus(counts)),
            pairs,
            under_way: self.schedule.under_way(),
            unroutable: books.unroutable,
            refused: books.refused,
            late: Late {
                p50_us: at(0.5),
                p99_us: at(0.99),
                p999_us: at(0.999),
                max_us: books.late.max() as f64 / 1e3,
            },
            processor_ratio: processor().saturating_sub(books.cpu_since).as_us()
                / passed.as_us().max(1.0),
            goes_first: books.goes_first,
        }
    }
}

/// Processor time of this thread so far.
fn processor() -> Span {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Span::from_ns(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// Rings at this time; never for `None`.
fn arm(timer: &OwnedFd, at: Option<Instant>) -> io::Result<()> {
    // Zero would disarm it, and a time that has passed rings at once.
    let ns = at.map_or(0, |at| at.as_ns().max(1));
    let it_value = Timespec {
        tv_sec: (ns / 1_000_000_000).try_into().unwrap_or(i64::MAX),
        tv_nsec: (ns % 1_000_000_000) as _,
    };
    let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval, it_value })?;
    Ok(())
}
