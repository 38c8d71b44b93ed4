//! What the machine is and was like: kept with every result, because a shared machine can be the
//! reason for any tail `[persephone 7.7]`.

use crate::load::clock::{self, Wait};
use crate::load::ledger;
use cavy_core::{Instant, Span};
use cavy_lab::statistics::quantile;
use serde::Serialize;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// Gaps between two reads of the clock from this length on count as stalls.
pub const STALL_SPAN: Span = Span::from_us(2);

/// The machine, as far as it matters for latency.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    /// Release of the kernel.
    pub kernel: String,
    /// Model of the processor.
    pub processor: String,
    /// Cores this process may run on.
    pub cores: usize,
    /// How the kernel schedules this process: `other` shares cores by weight, `fifo` and `rr` go
    /// before all others.
    pub scheduling: &'static str,
    /// The same for the senders, which may have asked to go first; empty when there were none.
    pub senders: &'static str,
    /// How late the kernel may wake a sleeper, for senders, in nanoseconds.
    pub timer_slack_ns: Option<u64>,
    /// Before the run.
    pub before: Moment,
    /// After the run.
    pub after: Moment,
    /// Share of all processor time that the hypervisor gave to others during the run.
    pub steal_ratio: Option<f64>,
    /// What this machine needs for the parts of a request, measured before the run.
    pub floors: Option<Floors>,
}

/// The machine at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Moment {
    /// Mean number of runnable threads over 1, 5 and 15 minutes.
    pub load_average: Option<[f64; 3]>,
    /// Processor time so far in ticks: stolen, and all.
    #[serde(skip)]
    pub ticks: Option<(u64, u64)>,
    /// What a spinning thread met.
    pub jitter: Option<Jitter>,
}

/// A thread that only reads the clock, and how long it was kept from doing so.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Jitter {
    /// How long it spun, in milliseconds.
    pub span_ms: f64,
    /// Stalls: gaps of at least [`STALL_SPAN`].
    pub stalls: u64,
    /// Share of the time spent in stalls.
    pub stalled_ratio: f64,
    /// Median stall.
    pub stall_p50_us: f64,
    /// Its 99th percentile.
    pub stall_p99_us: f64,
    /// The longest.
    pub stall_max_us: f64,
    /// Stalls at least this long take a thousandth of the time: what one request in a thousand
    /// meets through no fault of the server. Zero when stalls take less than that altogether.
    pub met_p999_us: f64,
}

/// What the machine needs at least.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Floors {
    /// One read of the clock.
    pub clock_read_ns: f64,
    /// How late a sleep of 200 us ends, median.
    pub sleep_late_p50_us: f64,
    /// Its 99th percentile.
    pub sleep_late_p99_us: f64,
    /// 64 bytes to an echoing thread and back over loopback TCP, median.
    pub tcp_echo_p50_us: Option<f64>,
    /// Its 99th percentile.
    pub tcp_echo_p99_us: Option<f64>,
}

fn file(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

impl Machine {
    /// Looks at the machine before a run, with a jitter probe of `probe` and floors, or without
    /// when that is zero.
    pub fn before(probe: Span) -> Machine {
        let cpuinfo = file("/proc/cpuinfo");
        let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(':')).map_or("", |(_, name)| name);
        Machine {
            kernel: file("/proc/sys/kernel/osrelease").trim().to_string(),
            processor: model.trim().to_string(),
            scheduling: scheduling_here(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            floors: (!probe.is_zero()).then(Floors::measure),
            before: Moment::look(probe),
            ..Machine::default()
        }
    }

    /// Looks again after it.
    pub fn after(&mut self, probe: Span) {
        self.after = Moment::look(probe);
        if let (Some(before), Some(after)) = (self.before.ticks, self.after.ticks) {
            let stolen = after.0.saturating_sub(before.0);
            let all = after.1.saturating_sub(before.1);
            self.steal_ratio = (all > 0).then(|| stolen as f64 / all as f64);
        }
    }

    /// The longer of what the two probes say one request in a thousand meets.
    pub fn met_p999_us(&self) -> Option<f64> {
        let probes = [self.before.jitter, self.after.jitter];
        probes.iter().flatten().map(|probe| probe.met_p999_us).reduce(f64::max)
    }
}

impl Moment {
    fn look(probe: Span) -> Moment {
        Moment {
            load_average: load_average(&file("/proc/loadavg")),
            ticks: ticks(&file("/proc/stat")),
            jitter: (!probe.is_zero()).then(|| Jitter::probe(probe)),
        }
    }
}

fn load_average(text: &str) -> Option<[f64; 3]> {
    let mut numbers = text.split_whitespace().map(|word| word.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// The scheduling policy of the current thread, as in [`Machine::scheduling`].
pub fn scheduling_here() -> &'static str {
    scheduling(&file("/proc/thread-self/stat"))
}

/// The scheduling policy of a thread, from its `stat`: field 41, where the name in parentheses is
/// field 2 and may hold anything.
fn scheduling(text: &str) -> &'static str {
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    match fields.split_whitespace().nth(38) {
        Some("0") => "other",
        Some("1") => "fifo",
        Some("2") => "rr",
        Some("3") => "batch",
        Some("5") => "idle",
        Some("6") => "deadline",
        _ => "unknown",
    }
}

/// Stolen and all ticks of the line `cpu` of `/proc/stat`: user nice system idle iowait irq softirq
/// steal guest guest_nice. Guests are part of user time already.
fn ticks(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    Some((*numbers.get(7)?, numbers.iter().take(8).sum()))
}

impl Jitter {
    /// Spins for `span`.
    pub fn probe(span: Span) -> Jitter {
        let start = clock::now();
        let end = start + span;
        let mut stalls: Vec<Span> = Vec::with_capacity(4096);
        let mut before = start;
        while before < end {
            let time = clock::now();
            let gap = time.since(before);
            if gap >= STALL_SPAN {
                stalls.push(gap);
            }
            before = time;
        }
        Jitter::of(stalls, before.since(start))
    }

    fn of(mut stalls: Vec<Span>, spun: Span) -> Jitter {
        stalls.sort();
        let at = |ratio: f64| {
            let index = (stalls.len() as f64 * ratio) as usize;
            stalls.get(index.min(stalls.len().saturating_sub(1))).map_or(0.0, |gap| gap.as_us())
        };
        let total: u64 = stalls.iter().map(|gap| gap.as_ns()).sum();
        let mut longer_ns = 0;
        let met = stalls.iter().rev().find(|gap| {
            longer_ns += gap.as_ns();
            longer_ns >= spun.as_ns() / 1000
        });
        Jitter {
            span_ms: spun.as_us() / 1e3,
            stalls: stalls.len() as u64,
            stalled_ratio: total as f64 / spun.as_ns().max(1) as f64,
            stall_p50_us: at(0.5),
            stall_p99_us: at(0.99),
            stall_max_us: at(1.0),
            met_p999_us: met.map_or(0.0, |gap| gap.as_us()),
        }
    }
}

impl Floors {
    fn measure() -> Floors {
        const READS: u32 = 2_000;
        let start = clock::now();
        for _ in 0..READS {
            std::hint::black_box(clock::now());
        }
        let clock_read_ns = clock::now().since(start).as_ns() as f64 / f64::from(READS);
        let sleeps = std::thread::spawn(|| {
            clock::sharpen_timers();
            quantiles((0..100).map(|_| {
                let deadline = clock::now() + Span::from_us(200);
                Wait::Sleep.until(deadline).since(deadline)
            }))
        });
        let sleeps = sleeps.join().unwrap_or_default();
        let echo = tcp_echo(500);
        Floors {
            clock_read_ns,
            sleep_late_p50_us: sleeps.0,
            sleep_late_p99_us: sleeps.1,
            tcp_echo_p50_us: echo.map(|echo| echo.0),
            tcp_echo_p99_us: echo.map(|echo| echo.1),
        }
    }
}

/// Median and 99th percentile in microseconds.
fn quantiles(spans: impl Iterator<Item = Span>) -> (f64, f64) {
    let mut times = ledger::times();
    for span in spans {
        ledger::record(&mut times, span);
    }
    let at = |p| quantile::of_histogram(&times, p).map_or(0.0, |ns| ns as f64 / 1e3);
    (at(0.5), at(0.99))
}

/// Round trips of 64 bytes between two threads; `None` when loopback does not work.
fn tcp_echo(rounds: usize) -> Option<(f64, f64)> {
    const PATIENCE: Option<Duration> = Some(Duration::from_secs(2));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    let mut near = TcpStream::connect(listener.local_addr().ok()?).ok()?;
    let (mut far, _) = listener.accept().ok()?;
    for stream in [&near, &far] {
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(PATIENCE).ok()?;
    }
    let echo = std::thread::spawn(move || {
        let mut bytes = [0u8; 64];
        while far.read_exact(&mut bytes).is_ok() && far.write_all(&bytes).is_ok() {}
    });
    let mut trips: Vec<Span> = Vec::with_capacity(rounds);
    let mut bytes = [7u8; 64];
    for _ in 0..rounds {
        let sent: Instant = clock::now();
        near.write_all(&bytes).ok()?;
        near.read_exact(&mut bytes).ok()?;
        trips.push(clock::now().since(sent));
    }
    drop(near);
    let _ = echo.join();
    Some(quantiles(trips.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read() {
        assert_eq!(load_average("0.07 0.56 1.17 1/123 456\n"), Some([0.07, 0.56, 1.17]));
        assert_eq!(load_average(""), None);
        assert_eq!(ticks("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 0"), Some((8, 36)));
        assert_eq!(ticks("cpu  1 2"), None);
        let stat = format!("7 (a b) c) S {} 99 1 0", "0 ".repeat(36).trim());
        assert_eq!(scheduling(&stat), "fifo");
        assert_eq!(scheduling(""), "unknown");
        assert_ne!(scheduling(&file("/proc/thread-self/stat")), "unknown");
    }

    #[test]
    fn a_probe_weighs_stalls_by_the_time_they_take() {
        let stalls = [vec![Span::from_us(2); 10], vec![Span::from_us(900); 2]].concat();
        let jitter = Jitter::of(stalls, Span::from_ms(1_000));
        assert_eq!(jitter.stalls, 12);
        assert_eq!(jitter.stall_p50_us, 2.0);
        assert_eq!(jitter.stall_max_us, 900.0);
        // 1 ms is a thousandth of the time; the two long stalls are 1.8 ms.
        assert_eq!(jitter.met_p999_us, 900.0);
        let calm = Jitter::of(vec![Span::from_us(2)], Span::from_ms(1_000));
        assert_eq!(calm.met_p999_us, 0.0);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let mut machine = Machine::before(Span::from_ms(5));
        machine.after(Span::from_ms(5));
        assert!(!machine.kernel.is_empty() && machine.cores > 0);
        let floors = machine.floors.expect("floors were asked for");
        assert!(floors.clock_read_ns > 0.0 && floors.tcp_echo_p50_us > Some(0.0));
        assert!(machine.before.jitter.is_some_and(|jitter| jitter.span_ms >= 5.0));
    }
}
