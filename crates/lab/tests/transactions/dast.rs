//! DAST in the wide-area world: closed forms, failures, and that every run is serializable.

use crate::faults;
use crate::town::{Mix, go, network, percentile};
use cavy_core::{Instant, Span};
use cavy_lab::net::{OutageKind, What};
use cavy_lab::wan::{Jitter, Rule, Which};
use cavy_txn::Layout;
use cavy_txn::dast::{Config, Mode};

fn config(mode: Mode) -> Config {
    Config::new(Layout::new(3, 2), mode)
}

#[test]
fn a_quiet_run_is_serializable_in_precise_and_paper_mode() {
    for mode in [Mode::Precise, Mode::Paper] {
        let config = config(mode);
        let mut setup = network(&config);
        setup.check = true;
        let town = go(&config, &setup, Mix::all());
        let (irt, crt) = (town.latencies(false), town.latencies(true));
        // 4D + 4d, then the last of the clocks, and 2d for the decision's log: 221.9 ms.
        let median = percentile(&crt, 50.0);
        if mode == Mode::Precise {
            assert!((220.5..224.0).contains(&median), "CRT p50 {median}");
        }
        // Nothing waits for a region's values there but clocks, so IRTs see them less.
        let median = percentile(&irt, 50.0);
        assert!((10.0..14.0).contains(&median), "IRT p50 {median}");
        assert_eq!(town.judge(), Ok(()));
    }
}

/// Where nothing can fail, a message to a whole region is one entry of the queue of events. A rule
/// that never applies takes that away, and nothing may change: not even where records are stored
/// in no time, which ends before whatever else arrives in that instant.
#[test]
fn what_arrives_together_is_heard_as_if_it_came_alone() {
    for (sync_us, across_jitter_us) in [(0, 0), (500, 0), (0, 200)] {
        let config = config(Mode::Precise);
        let mut together = network(&config);
        together.disk.sync = Span::from_us(sync_us);
        for link in &mut together.links {
            if link.one_way > Span::from_ms(10) && across_jitter_us > 0 {
                link.jitter = Jitter::Even(Span::from_us(across_jitter_us));
            }
        }
        let mut alone = together.clone();
        let never = Which { since: Instant::NEVER, ..Which::any() };
        alone.faults.rules.push(Rule { which: never, what: What::Down });
        let both = [&together, &alone].map(|setup| go(&config, setup, Mix::all()).report);
        assert_eq!(both[0], both[1]);
        assert!(both[0].counts.messages > 100_000, "{:?}", both[0].counts);
    }
}

/// The artifact runs what comes late, out of order `[dast 2.12]`: nothing is dropped, so nobody has
/// to ask again, and values come.
#[test]
fn clause_2_12_artifact_mode_drops_nothing_that_comes_late() {
    // Anticipated from clocks that are held back, transactions across regions may come so early in
    // the order that others wait for them for 250 ms.
    let config = Config { physical_est: true, ..config(Mode::Artifact) };
    let setup = network(&config);
    let mix = Mix {
        crt_percent: 30,
        two_shards_percent: 40,
        dependent_percent: 60,
        rows: 1_000,
        ..Mix::all()
    };
    let town = go(&config, &setup, mix);
    let (irt, crt) = (town.latencies(false), town.latencies(true));
    let (irt_most, crt_most) = (percentile(&irt, 100.0), percentile(&crt, 100.0));
    // Whoever waits for what was dropped asks again after 250 ms, and a client after 2 s.
    assert!(irt.len() > 500 && irt_most < 250.0, "{} IRTs, up to {irt_most} ms", irt.len());
    assert!(crt.len() > 100 && crt_most < 450.0, "{} CRTs, up to {crt_most} ms", crt.len());
    // A round trip to its node, and one to another replica.
    let median = percentile(&irt, 50.0);
    assert!((9.9..12.6).contains(&median), "IRT p50 {median}");
}

/// Whose pieces wait is behind what comes late with an earlier timestamp `[dast 2.7, 2.12]`: clocks
/// of a region stay below a transaction that waits for a value, so those within the region come
/// late, and are not held up by its rows.
#[test]
fn clause_2_12_artifact_mode_runs_late_ones_before_those_that_wait() {
    let config = config(Mode::Artifact);
    let mut setup = network(&config);
    setup.duration = Span::from_ms(4_000);
    // All want the same rows, and a third waits for a value from another region.
    let mix = Mix {
        crt_percent: 30,
        two_shards_percent: 0,
        dependent_percent: 100,
        read_percent: 0,
        rows: 1,
        ..Mix::all()
    };
    let town = go(&config, &setup, mix);
    let irt = town.latencies(false);
    let p90 = percentile(&irt, 90.0);
    assert!(irt.len() > 500 && p90 < 20.0, "{} IRTs, p90 {p90} ms", irt.len());
}

/// Single-shard IRTs under free arrivals `[dast 0.2]`: P(L <= l) = ((l - 3d) / sync)^(3 (S - 1))
/// from 4d on. Think time breaks the lock of closed loops with the reports.
#[test]
fn closed_form_of_single_shard_irts() {
    for shards in [2, 4] {
        let config = Config::new(Layout::new(1, shards), Mode::Precise);
        let mut setup = network(&config);
        setup.duration = Span::from_ms(20_000);
        let think = Span::from_ms(41);
        let town = go(&config, &setup, Mix { think, clients_per_shard: 3, ..Mix::single_shard() });
        let all = town.latencies(false);
        assert!(all.len() > 2_000, "{}", all.len());
        for percent in [25.0f64, 50.0, 75.0, 90.0] {
            let exponent = f64::from(3 * (shards - 1));
            let expected = (7.5 + 5.0 * (percent / 100.0).powf(1.0 / exponent)).max(10.0);
            let found = percentile(&all, percent);
            assert!(
                (found - expected).abs() < 0.3,
                "S = {shards}, p{percent}: {found}, {expected}"
            );
        }
    }
}

#[test]
fn a_fault_leaves_every_run_serializable_and_everything_ends() {
    let test = "dast::a_fault_leaves_every_run_serializable";
    faults::try_seeds(&config(Mode::Precise), test, faults::seeds(300));
}

/// As live, where one machine carries the reports of a whole cluster.
#[test]
fn a_fault_does_no_harm_where_stewards_hear_and_make_one_report_of_several() {
    let test = "dast::a_fault_does_no_harm";
    let config = Config { stewards_every: 4, ..config(Mode::Precise) };
    faults::try_seeds(&config, test, faults::seeds(10));
}

/// A coordinator that tells replicas itself that a transaction is decided, and no steward.
#[test]
fn a_fault_does_no_harm_where_commits_go_direct() {
    let test = "dast::a_fault_does_no_harm_where_commits";
    let config = Config { commit_via_steward: false, ..config(Mode::Precise) };
    faults::try_seeds(&config, test, faults::seeds(20));
}

/// A node whose disk was replaced comes back, and comes back again when it fails later: its new log
/// tells only of the lives since.
#[test]
fn a_node_whose_disk_was_lost_comes_back_more_than_once() {
    for durable in [false, true] {
        let config = Config { durable, ..config(Mode::Precise) };
        let mut setup = network(&config);
        for (from, until, kind) in [(500, 700, OutageKind::Wipe), (1_200, 1_400, OutageKind::Crash)]
        {
            setup.faults.outages.push(faults::outage(1, from, until, kind));
        }
        assert_eq!(go(&config, &setup, Mix::all()).judge(), Ok(()), "durable {durable}");
    }
}

/// What failures cost `[dast E7]`, with the bounds of the specification.
mod stalls {
    use super::*;
    use crate::faults::{at, outage};
    use crate::town::Town;
    use cavy_core::family::Node;
    use cavy_lab::net::OutageKind;
    use cavy_lab::wan::{Setup, Site};
    use cavy_txn::Region;

    /// When it happens, in milliseconds.
    const FROM: u64 = 1_000;

    fn run(fault: impl Fn(&mut Setup, Layout)) -> Town<Config> {
        let config = config(Mode::Precise);
        let mut setup = network(&config);
        fault(&mut setup, config.layout);
        let town = go(&config, &setup, Mix { clients_per_shard: 9, rows: 40, ..Mix::all() });
        assert_eq!(town.judge(), Ok(()));
        town
    }

    /// Latencies of a sort in `region` (or in all others) of transactions under way after the
    /// fault, sorted; but not of clients of `dead`, which have to ask somebody else.
    fn after(town: &Town<Config>, crt: bool, region: u16, here: bool, dead: Node) -> Vec<f64> {
        let layout = town.layout;
        let mut all: Vec<f64> = Vec::new();
        for (id, (since, until, _)) in &town.callers.answered {
            let client = id.client - 1;
            let home = town.callers.home(client);
            let asked = layout.replica(home, client / layout.shards());
            let sort = (town.callers.asked[id].kind == 3) == crt;
            let place = (layout.region_of(home) == Region(region)) == here;
            if sort && place && asked != dead && *until > at(FROM) {
                all.push(until.since(*since).as_us() / 1e3);
            }
        }
        all.sort_unstable_by(f64::total_cmp);
        all
    }

    /// The longest, less what is usual.
    fn stall(all: &[f64]) -> f64 {
        percentile(all, 100.0) - percentile(all, 50.0)
    }

    fn unchanged(town: &Town<Config>, calm: &Town<Config>, dead: Node) {
        let tail = |town| percentile(&after(town, false, 0, false, dead), 95.0);
        let (now, usual) = (tail(town), tail(calm));
        println!("elsewhere: IRT p95 {now:.1} ms, without the fault {usual:.1} ms");
        assert!((now - usual).abs() < 2.0, "IRT p95 elsewhere {now}, without the fault {usual}");
    }

    #[test]
    fn clause_e7_failures_stall_no_longer_than_they_may() {
        let calm = run(|_, _| {});
        let nobody = Node(u32::MAX);

        let dead = Node(0);
        let town = run(|setup, _| {
            setup.faults.outages.push(outage(dead.0, FROM, 0, OutageKind::Crash));
        });
        let irt = stall(&after(&town, false, 0, true, dead));
        let crt = stall(&after(&town, true, 0, false, dead));
        println!(
            "a replica fails: IRT {irt:.0} ms; CRTs of others, its own unresolved {crt:.0} ms"
        );
        assert!(irt <= 130.0, "a replica: IRTs of its region stall for {irt} ms");
        assert!(crt <= 800.0, "a coordinator: CRTs of others stall for {crt} ms");
        unchanged(&town, &calm, dead);

        let town = run(|setup, layout| {
            let steward = layout.replica_nodes();
            setup.faults.outages.push(outage(steward, FROM, 0, OutageKind::Crash));
        });
        let irt = stall(&after(&town, false, 0, true, nobody));
        let crt = stall(&after(&town, true, 0, true, nobody));
        println!("a steward fails: IRT {irt:.0} ms, CRT {crt:.0} ms");
        assert!(irt <= 250.0, "a steward: IRTs of its region stall for {irt} ms");
        assert!(crt <= 500.0, "a steward: CRTs of its region stall for {crt} ms");
        unchanged(&town, &calm, nobody);

        let town = run(|setup, _| {
            setup.faults.cut_off(Site(0), at(FROM), at(FROM + 1_500));
        });
        let own = stall(&after(&town, false, 0, true, nobody));
        let crt = stall(&after(&town, true, 0, false, nobody));
        println!(
            "a region is cut off for 1.5 s: its own IRT {own:.0} ms, CRTs of others {crt:.0} ms"
        );
        unchanged(&town, &calm, nobody);
    }
}
