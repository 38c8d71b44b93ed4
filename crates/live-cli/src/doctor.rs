//! `cavy-live doctor`: what this machine has of what live runs need, and how to get the rest.
//!
//! Rights and parts of the kernel are tried out in a namespace of the doctor's own, not guessed
//! from lists; it is removed at the end.

use crate::args;
use crate::faults::{FAILED, Fault};
use crate::terminal;
use cavy_groups::refuse::Mounts;
use cavy_groups::stage;
use cavy_groups::usage::Meter;
use cavy_live::load::machine::Machine;
use cavy_report::model::{Cell, Table};
use cavy_testbed::trial::Trial;
use cavy_testbed::{self as testbed, tools};
use serde::Serialize;
use socket2::{Domain, Protocol, Socket, Type};
use std::fs;
use std::process::ExitCode;

/// Cores below which a load generator and what it measures are in each other's way.
const CORES_MIN: usize = 2;
/// What a machine may add to one request in a thousand before tails of milliseconds are in doubt.
const JITTER_MAX_US: f64 = 100.0;
/// The number of Homa among the protocols of IP.
const HOMA: i32 = cavy_homa::wire::PROTOCOL as i32;

/// How something stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// It is there.
    Ok,
    /// It is not.
    Missing,
    /// It is there, and will be seen in results.
    Poor,
}

/// One line.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    /// What was found.
    found: String,
    needed_for: &'static str,
    /// What helps, where something is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    cure: Option<String>,
}

impl Check {
    /// `found` says what is there, or what went wrong.
    fn of(
        name: &'static str,
        found: Result<String, String>,
        needed_for: &'static str,
        cure: &str,
    ) -> Check {
        let state = if found.is_ok() { State::Ok } else { State::Missing };
        let cure = found.is_err().then(|| cure.to_string());
        Check { name, state, found: found.unwrap_or_else(|why| why), needed_for, cure }
    }

    fn poor_unless(self, good: bool, cure: &str) -> Check {
        match good || self.state != State::Ok {
            true => self,
            false => Check { state: State::Poor, cure: Some(cure.to_string()), ..self },
        }
    }
}

/// Runs the command.
pub fn doctor(args: &args::Doctor) -> Result<ExitCode, Fault> {
    let mut checks = rights();
    checks.extend(network());
    checks.extend(congestion_controls());
    checks.extend(tcp());
    checks.extend(processes());
    checks.extend(machine(args));
    if args.json {
        terminal::print_json(&serde_json::json!({ "checks": checks }))?;
    } else {
        terminal::print(&render(&checks))?;
    }
    let missing = checks.iter().any(|check| check.state == State::Missing);
    Ok(if missing { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

fn rights() -> Vec<Check> {
    const RIGHTS: [(&str, u32, &str); 3] = [
        ("CAP_NET_ADMIN", 12, "testbed: links and queues"),
        ("CAP_NET_RAW", 13, "Homa over IP, as the Linux module speaks it"),
        ("CAP_SYS_ADMIN", 21, "testbed: network namespaces"),
    ];
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = effective_rights(&status);
    let one = |(name, bit, needed_for)| {
        let there = effective.is_some_and(|all| all >> bit & 1 == 1);
        let found = if there { Ok("held".to_string()) } else { Err("not held".to_string()) };
        Check::of(name, found, needed_for, "run as root, or in a container that grants it")
    };
    RIGHTS.into_iter().map(one).collect()
}

/// The mask of rights that a process may use.
fn effective_rights(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn network() -> Vec<Check> {
    let mut checks = Vec::new();
    for tool in ["ip", "tc"] {
        let found = tools::version(tool).map(|version| format!("iproute2 {version}"));
        let found = found.map_err(|fault| fault.message().to_string());
        checks.push(Check::of(tool, found, "testbed", tools::CURE));
    }
    let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(HOMA)));
    checks.push(Check::of(
        "raw socket, protocol 146",
        raw.map(|_| "opens".to_string()).map_err(|error| error.to_string()),
        "Homa over IP",
        "run as root, or give the program the right: `setcap cap_net_raw+ep PROGRAM`; Homa over \
         UDP needs none",
    ));
    let trial = Trial::open();
    let missing = "run on a kernel that has it built in or as a module";
    let parts = testbed::trial::PARTS.into_iter().map(|part| {
        let found = match &trial {
            Ok(trial) => trial.works(&part).map(|()| "works".to_string()),
            Err(why) => Err(why.message().to_string()),
        };
        let found = found.map_err(|why| why.to_string());
        Check::of(part.name, found, part.needed_for, missing)
    });
    let space = match &trial {
        Ok(_) => Ok("can be made".to_string()),
        Err(why) => Err(why.message().to_string()),
    };
    let cure = "run as root; in a container, with CAP_SYS_ADMIN and a writable /run/netns";
    checks.push(Check::of("network namespaces", space, "testbed: each host is one", cure));
    checks.extend(parts);
    checks
}

fn congestion_controls() -> Vec<Check> {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let all = fs::read_to_string(FILE).unwrap_or_default();
    let one = |(name, wanted, cure)| {
        let there = all.split_whitespace().any(|one| one == wanted);
        let found = if there { Ok("available".to_string()) } else { Err("not there".to_string()) };
        Check::of(name, found, "study homa: peers of that name", cure)
    };
    [
        ("TCP cubic", "cubic", "`modprobe tcp_cubic`; without it that peer is skipped"),
        ("TCP bbr", "bbr", "`modprobe tcp_bbr`; without it that peer is skipped"),
    ]
    .map(one)
    .into()
}

/// What `tcp` and its study need beside a testbed. Programs of other hands only make its tests
/// fuller.
fn tcp() -> Vec<Check> {
    const RTO_MIN: &str = "/proc/sys/net/ipv4/tcp_rto_min_us";
    let tun = cavy_stack::obstacle().map_or(Ok("opens".to_string()), Err);
    let cure = "run as root, or let root make a device for you: `cavy-live tcp --help`";
    let device = Check::of("/dev/net/tun", tun, "tcp: a stack of one's own", cure);
    let rto_min = fs::read_to_string(RTO_MIN).map(|text| format!("{} us", text.trim()));
    let (rto_min, there) = (rto_min.unwrap_or("not there".to_string()), fs::exists(RTO_MIN));
    let rto_min = Check::of("tcp_rto_min_us", Ok(rto_min), "tcp study: tuned kernels", "");
    let cure = "run on Linux 6.11 or later, or leave out the ways `rto-...`";
    let mut checks = vec![device, rto_min.poor_unless(there.unwrap_or(false), cure)];
    for (name, option) in [("tshark", "--version"), ("iperf3", "--version"), ("nginx", "-v")] {
        let there = std::process::Command::new(name).arg(option).output();
        let there = there.is_ok_and(|output| output.status.success());
        let found = if there { "there" } else { "not there" };
        let check = Check::of(name, Ok(found.to_string()), "tests of tcp with others", "");
        checks.push(check.poor_unless(there, "install it; without it those tests are skipped"));
    }
    checks
}

/// What stops processes, what counts their CPU time, and whom a killed program left standing.
fn processes() -> Vec<Check> {
    let mounts = Mounts::find();
    let freezers = mounts.as_ref().map_err(Clone::clone).map(|mounts| match mounts.freezer {
        Some(_) => "cgroup v2 and v1".to_string(),
        None => "cgroup v2".to_string(),
    });
    let counted = mounts.and_then(|mounts| {
        let meter = Meter::open(&mounts.unified).map_err(|error| error.to_string());
        meter.map(|_| "by performance events of control groups".to_string())
    });
    let left = match stage::stale().len() {
        0 => Ok("nobody was left standing".to_string()),
        some => Err(format!("{some} programs were killed while they had stopped services")),
    };
    let events = "run as root, or set kernel.perf_event_paranoid to 0";
    vec![
        Check::of("freezer", freezers, "whatif: services are stopped", "mount cgroup v2"),
        Check::of("CPU time of groups", counted, "whatif: when services go on", events),
        Check::of("stopped services", left, "all go on", "run `cavy live whatif thaw`"),
    ]
}

fn machine(args: &args::Doctor) -> Vec<Check> {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let machine = Machine::before(args.probe);
    let source = fs::read_to_string(SOURCE).unwrap_or_default();
    let source = if source.trim().is_empty() { "unknown source" } else { source.trim() };
    let mut checks = Vec::new();
    let cores = Check::of(
        "cores",
        Ok(machine.cores.to_string()),
        "a generator beside what it measures",
        "",
    );
    checks.push(cores.poor_unless(machine.cores >= CORES_MIN, "take a machine with more"));
    if let Some(floors) = &machine.floors {
        let found = format!(
            "{source}, read in {:.0} ns; a sleep of 200 us ends {:.0} us late (p50), {:.0} us \
             (p99)",
            floors.clock_read_ns, floors.sleep_late_p50_us, floors.sleep_late_p99_us
        );
        let good = floors.clock_read_ns < 500.0 && floors.sleep_late_p99_us < JITTER_MAX_US;
        let cure = "choose `tsc` as clock source; leave the machine to the measurement";
        checks.push(Check::of("clock", Ok(found), "all latencies", "").poor_unless(good, cure));
    }
    if let Some(jitter) = &machine.before.jitter {
        let found = format!(
            "the machine itself delays one request in a thousand by {:.0} us; it stalls for {:.1} \
             % of the time, {:.0} us at the longest",
            jitter.met_p999_us,
            100.0 * jitter.stalled_ratio,
            jitter.stall_max_us
        );
        let good = jitter.met_p999_us <= JITTER_MAX_US;
        let cure = "end other programs; on a shared machine publish no latency below ten times \
                    that delay";
        checks.push(Check::of("jitter", Ok(found), "tails", "").poor_unless(good, cure));
    }
    checks
}

fn render(checks: &[Check]) -> String {
    let row = |check: &Check| {
        let state = match check.state {
            State::Ok => "ok",
            State::Missing => "MISSING",
            State::Poor => "poor",
        };
        [check.name, state, &check.found, check.needed_for, check.cure.as_deref().unwrap_or("")]
            .map(|text| Cell::Text(text.to_string()))
            .to_vec()
    };
    let table = Table {
        id: "doctor".to_string(),
        title: "What live runs need".to_string(),
        columns: ["what", "state", "found", "needed for", "cure"].map(str::to_string).to_vec(),
        rows: checks.iter().map(row).collect(),
    };
    cavy_report::terminal::table(&table, terminal::width(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_read_from_the_status_of_a_process() {
        assert_eq!(effective_rights("Name:\tx\nCapEff:\t0000000000003000\n"), Some(0x3000));
        assert_eq!(effective_rights("Name:\tx\n"), None);
        assert!(effective_rights(&fs::read_to_string("/proc/self/status").unwrap()).is_some());
    }

    #[test]
    fn what_is_missing_has_a_cure_and_what_is_there_has_none() {
        let missing = Check::of("a", Err("no".into()), "b", "c");
        assert_eq!((missing.state, missing.cure.as_deref()), (State::Missing, Some("c")));
        let there = Check::of("a", Ok("yes".into()), "b", "c");
        assert_eq!((there.state, &there.cure), (State::Ok, &None));
        assert_eq!(there.poor_unless(false, "d").state, State::Poor);
        assert_eq!(missing.poor_unless(false, "d").cure.as_deref(), Some("c"));
    }
}
