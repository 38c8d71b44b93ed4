//! What the machine, the network and the generator were like during a run.

use cavy_core::Span;
use cavy_lab::statistics::quantile;
use cavy_live::load::machine::scheduling_here;
use cavy_testbed::queues::PortCounters;
use cavy_testbed::{Error, Testbed};
use serde::{Deserialize, Serialize};
use std::fs;

/// Counters at one moment.
#[derive(Debug)]
pub struct Moment {
    /// Of all processors: working, stolen, all, and of the first those for interrupts and packets.
    ticks: (u64, u64, u64, u64),
    /// Of this process.
    own_ticks: u64,
    /// Waited for a processor, in nanoseconds, and how often threads were given one.
    waits: (u64, u64),
    ports: Vec<PortCounters>,
    dropped_at_hosts: u64,
    sent_again: u64,
}

/// What lies between two moments.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Health {
    /// Share of all processor time that was used, by whomever.
    pub busy_ratio: f64,
    /// By this process: hosts, transports and generator. What the kernel does for packets that
    /// arrive is partly counted here and partly with nobody.
    pub own_ratio: f64,
    /// By the kernel for interrupts and packets, whoever was running; partly in the former as well.
    pub kernel_ratio: f64,
    /// This process goes before all ordinary ones (`chrt --fifo`).
    pub goes_first: bool,
    /// Taken by other machines.
    pub steal_ratio: f64,
    /// Mean time that a thread which could run waited for a processor.
    pub wait_mean_us: f64,
    /// Packets that found no room at the switch.
    pub dropped: u64,
    /// Packets that found none at a host.
    pub dropped_at_hosts: u64,
    /// Packets sent again: what Homa says, QUIC's losses, the kernel's count for TCP.
    pub sent_again: u64,
    /// Packets that the switch sent, by level.
    pub packets: [u64; cavy_testbed::LEVELS],
}

impl Moment {
    /// Looks at everything. `sent_again` is what the peer counted; the kernel's TCP is added.
    /// Threads that end are not in the next look; so take both in one run.
    ///
    /// # Errors
    /// When `tc` fails, or a host cannot be entered.
    pub fn look(testbed: &Testbed, mut sent_again: u64) -> Result<Moment, Error> {
        for host in testbed.hosts() {
            // That of the thread; without it, it would be that of the process's first thread.
            let snmp = host.within(|| file("/proc/thread-self/net/snmp"))?;
            sent_again += tcp_sent_again(&snmp).unwrap_or(0);
        }
        Ok(Moment {
            ticks: ticks(&file("/proc/stat")).unwrap_or_default(),
            own_ticks: own_ticks(&file("/proc/self/stat")).unwrap_or_default(),
            waits: waits(),
            ports: testbed.ports()?,
            dropped_at_hosts: testbed.dropped_at_hosts()?,
            sent_again,
        })
    }

    /// What happened since `before`.
    pub fn since(&self, before: &Moment) -> Health {
        let all = self.ticks.2.saturating_sub(before.ticks.2).max(1) as f64;
        let share = |now: u64, then: u64| now.saturating_sub(then) as f64 / all;
        let slices = self.waits.1.saturating_sub(before.waits.1).max(1) as f64;
        let mut health = Health {
            busy_ratio: share(self.ticks.0, before.ticks.0),
            own_ratio: share(self.own_ticks, before.own_ticks),
            kernel_ratio: share(self.ticks.3, before.ticks.3),
            goes_first: scheduling_here() == "fifo",
            steal_ratio: share(self.ticks.1, before.ticks.1),
            wait_mean_us: self.waits.0.saturating_sub(before.waits.0) as f64 / slices / 1e3,
            dropped_at_hosts: self.dropped_at_hosts.saturating_sub(before.dropped_at_hosts),
            sent_again: self.sent_again.saturating_sub(before.sent_again),
            ..Health::default()
        };
        for (now, then) in self.ports.iter().zip(&before.ports) {
            let port = now.since(then);
            health.dropped += port.dropped();
            for (sum, level) in health.packets.iter_mut().zip(&port.levels) {
                *sum += level.packets;
            }
        }
        health
    }
}

impl Health {
    /// Share of all processor time that the threads of this process found taken: by whomever, or,
    /// where they go before all others, by themselves and the kernel.
    pub fn contended_ratio(&self) -> f64 {
        match self.goes_first {
            true => (self.own_ratio + self.kernel_ratio).min(self.busy_ratio),
            false => self.busy_ratio,
        }
    }
}

fn file(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Working, stolen, all and the kernel's ticks: user nice system idle iowait irq softirq steal.
fn ticks(stat: &str) -> Option<(u64, u64, u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let all: Vec<u64> =
        line.split_whitespace().map_while(|word| word.parse().ok()).take(8).collect();
    let (sum, idle) = (all.iter().sum::<u64>(), all.get(3)? + all.get(4)?);
    Some((sum - idle - all.get(7)?, *all.get(7)?, sum, all.get(5)? + all.get(6)?))
}

/// Fields 14 and 15, user and system, where field 2 is in parentheses and may hold anything.
fn own_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// All threads of this process together.
fn waits() -> (u64, u64) {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let each = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let mut words = text.split_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok());
        Some((words.next()?, words.next()?))
    });
    each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Segments that TCP sent again, from the second line that begins with `Tcp:`.
fn tcp_sent_again(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|name| name == "RetransSegs")?;
    values.split_whitespace().nth(place)?.parse().ok()
}

/// How late the generator was.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Lateness {
    /// Median.
    pub p50_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Share of messages that were later than one packet takes on the link.
    pub late_ratio: f64,
}

impl Lateness {
    /// Of all messages, in nanoseconds; `packet` is the time of a full packet.
    pub fn of(mut late_ns: Vec<u64>, packet: Span) -> Lateness {
        late_ns.sort_unstable();
        let count = late_ns.len();
        let at = |p| quantile::of_sorted(&late_ns, p).map_or(0.0, |ns| ns as f64 / 1e3);
        let late = count - late_ns.partition_point(|&ns| ns <= packet.as_ns());
        let (p50_us, p999_us) = (at(0.5), at(0.999));
        Lateness { p50_us, p999_us, late_ratio: late as f64 / count.max(1) as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read() {
        assert_eq!(ticks("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 0"), Some((19, 8, 36, 13)));
        assert_eq!(own_ticks("7 (a b) c) S 1 1 1 0 -1 4 1 0 0 0 20 30 0 0"), Some(50));
        let snmp = "Ip: a\nIp: 1\nTcp: Rto RetransSegs In\nTcp: 1 42 3\n";
        assert_eq!(tcp_sent_again(snmp), Some(42));
        assert!(tcp_sent_again(&file("/proc/thread-self/net/snmp")).is_some());
        assert!(ticks(&file("/proc/stat")).is_some());
    }

    #[test]
    fn lateness_counts_what_is_later_than_a_packet() {
        let late = Lateness::of((0..1_000).map(|i| i * 1_000).collect(), Span::from_us(899));
        assert_eq!((late.p50_us, late.late_ratio), (499.0, 0.1));
        assert_eq!(Lateness::of(Vec::new(), Span::from_us(1)).late_ratio, 0.0);
    }
}
