//! What search copies when p changes, and when; and what tables say.

use crate::sections::run;
use crate::verdict_errs_rarely;
use cavy_kinds::search::changes::{Change, next, stages};
use cavy_kinds::search::copier::{CHUNK, Copier};
use cavy_kinds::search::{SearchPlan, SearchResult};
use cavy_lab::theory;
use cavy_report::model::Cell;
use cavy_study::draw;
use cavy_study::outcome::Standing;
use cavy_study::plan::Files;
use cavy_study::point::Manner;
use cavy_study::subject::Subject;

fn clusters(p: u32) -> Vec<Vec<u32>> {
    (0..p).map(|j| (0..48).filter(|server| server % p == j).collect()).collect()
}

/// Every change of a whole factor: what is read is what is taken in, everybody is in one new
/// cluster, and totals are those of the specification.
#[test]
fn clause_3_1_what_is_copied_is_read_somewhere() {
    for change in [Change::Merge, Change::Dissolve, Change::Shards, Change::Reindex] {
        for (p, q) in [(48, 24), (24, 6), (12, 6), (6, 12), (6, 48)] {
            let (old, new) = (clusters(p), next(&clusters(p), q as usize));
            let mut all: Vec<u32> = new.concat();
            all.sort_unstable();
            assert_eq!((new.len(), all), (q as usize, (0..48).collect::<Vec<u32>>()));
            let mut copied = 0.0;
            for stage in stages(change, 48, &old, &new) {
                let sum = |all: &[f64]| all.iter().sum::<f64>();
                let (read, merged) = (sum(&stage.read), sum(&stage.merged));
                let known = if stage.local { 0.0 } else { merged };
                assert!((read - known).abs() < 1e-9, "{change:?}, {p} to {q}: {read} {merged}");
                copied += known;
            }
            let (old_p, new_p) = (f64::from(p), f64::from(q));
            let moved = 48.0 * (1.0 / new_p - 1.0 / old_p);
            match change {
                // Every copy of every document is made anew, wherever it was before.
                Change::Reindex => assert!((copied - 48.0 / new_p).abs() < 1e-9, "{copied}"),
                _ if q > p && change != Change::Shards => assert_eq!(copied, 0.0),
                Change::Merge => assert!((copied - moved).abs() < 1e-9),
                // Half of the clusters dissolve: half as much again [roar 2.8].
                Change::Dissolve if p == 2 * q => {
                    assert!((copied - 1.5 * moved).abs() < 1e-9, "{copied} of {moved}");
                }
                Change::Dissolve => assert!(copied > moved),
                Change::Shards => assert!(copied > moved),
            }
        }
    }
}

#[test]
fn copies_keep_to_their_share_and_make_up_for_what_they_waited() {
    // A tenth of a processor for each track, on a server without queries.
    let mut copier = Copier::new([0, 1_000_000_000], 20, true, 0);
    let mut free_at = 0;
    let half = copier.copy(&mut free_at, 5_000_000_000);
    assert_eq!(half, 500_000_000);
    // Busy for half a second: what was not copied then is copied at once.
    free_at = 5_500_000_000;
    let more = copier.copy(&mut free_at, 5_700_000_000);
    // Pieces take half a millisecond, so that the last one is due five milliseconds before the end.
    assert_eq!((more, free_at), (70_000_000, 5_695_500_000));
    assert!(!copier.is_done());
    copier.copy(&mut free_at, 20_000_000_000);
    assert!(copier.is_done());
}

#[test]
fn copies_do_not_wait_for_ever() {
    let mut copier = Copier::new([0, 1_000_000_000], 20, true, 0);
    let mut free_at = 60_000_000_000;
    assert_eq!(copier.copy(&mut free_at, 900_000_000), 0);
    assert_eq!(copier.copy(&mut free_at, 1_100_000_000), CHUNK);
}

/// 4,000 queries have a mean and no 99th percentile. With too many there is neither.
#[test]
fn a_choice_of_p_says_why_there_is_none() {
    for (per_s, mean, tail) in
        [(100, None, "too few queries"), (5_000, Some("none keeps up"), "none keeps up")]
    {
        let made = run::<SearchPlan>(
            &format!(
                "kind = \"search\"\ntitle = \"t\"\nservers = 12\norder = \"interleaved\"\n\
                 documents = 1000\nfixed_ms = 1\ndocument_us = 10\np = 1\nqueries_per_s = {per_s}\n\
                 [[schemes]]\nscheme = \"roar\"\n[sweep]\np = [1, 2]\n\
                 [run]\nqueries = 2200\nwarmup_queries = 200\nreplications = 2\n"
            ),
            false,
        );
        let tables = &draw::figures(&made, "test")[0].tables;
        let table = tables.iter().find(|table| table.id == "choices-base").expect("a table");
        let why = |head: &str| {
            let at = table.columns.iter().position(|column| column == head).expect("a column");
            match &table.rows[0][at] {
                Cell::Missing(why) => Some(why.as_str()),
                _ => None,
            }
        };
        for head in ["p, least mean", "mean (ms)"] {
            assert_eq!(why(head), mean, "{head} at {per_s}/s");
        }
        for head in ["p, least p99", "p99 (ms)", "copies"] {
            assert_eq!(why(head), Some(tail), "{head} at {per_s}/s");
        }
    }
}

const SERVERS: &str = "kind = \"search\"\ntitle = \"t\"\nservers = 4\norder = \"interleaved\"\n\
                       documents = 100_000\nfixed_ms = 1\ndocument_us = 0.2\n";

/// The mean of each point of a plan, with its digest.
fn means(text: &str) -> Vec<(f64, String)> {
    let made = run::<SearchPlan>(text, false);
    let one = |result: &SearchResult| {
        assert_eq!((result.wrong, result.partial), (0, 0), "{}", result.label);
        (result.latency.mean_ms.as_ref().expect("queries").value, result.digest.clone())
    };
    made.results.iter().map(one).collect()
}

#[test]
fn servers_of_several_processors_are_one_queue_with_all_of_them() {
    // M/D/6 each: two servers of three processors for either half.
    let schemes =
        ["roar", "ptn", "sw", "opt"].map(|one| format!("[[schemes]]\nscheme = \"{one}\"\n"));
    let text = format!(
        "{SERVERS}cores = 3\np = 2\nload = 0.75\n{}[run]\nqueries = 42_000\nreplications = 8\n",
        schemes.concat()
    );
    let made = run::<SearchPlan>(&text, false);
    assert_eq!(made.results.len(), 4);
    for result in &made.results {
        let mean = result.latency.mean_ms.as_ref().expect("queries");
        let half = mean.interval().half_width();
        let theory = result.theory_mean_ms.expect("identical servers");
        assert!(half < 0.01 * theory, "{}: {half} of {theory}", result.label);
        assert!((mean.value - theory).abs() < 2.0 * half, "{} and {theory}", mean.value);
        // 0.75 of what scanning takes, and a millisecond of every eleven on top.
        assert!((result.busy_ratio - 0.75 * 1.1).abs() < 0.01, "{}", result.busy_ratio);
    }
}

/// Near saturation few queues decide a percentile, and replications differ less than they should.
/// With 90 % of PTN's processors busy, 37 of 40 intervals of a p99 that rested on 25 bursts held
/// it, and with 95 %, 32 of 40 that rested on six.
#[test]
fn percentiles_that_rest_on_few_bursts_are_named() {
    let at = |load: f64| {
        let text = format!(
            "{SERVERS}p = 4\nload = {load}\n[[schemes]]\nscheme = \"ptn\"\n\
             [run]\nqueries = 20_000\nreplications = 4\n"
        );
        run::<SearchPlan>(&text, false)
    };
    // One queue of 6 ms a query, 0.9 of the time busy: 1.2 s until it has forgotten. All runs
    // together take 533 s.
    let made = at(0.75);
    let bursts = made.results[0].latency.p99_ms.as_ref().and_then(|p99| p99.bursts);
    assert!(bursts.is_some_and(|bursts| (bursts - 4.44).abs() < 0.01), "{bursts:?}");
    let said = SearchPlan::remarks(&made).join(" ");
    for part in [
        "At 1 of 1 points some percentile rests on few bursts of queries: the p99 under PTN",
        "rests on about 4 bursts, and its 95 % interval needs 30.",
        "With run.queries = 140\u{a0}000 all have enough.",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!SearchPlan::remarks(&at(0.3)).join(" ").contains("bursts"));
}

fn standings(text: &str) -> Vec<(Standing, String)> {
    let made = run::<SearchPlan>(text, false);
    made.results.into_iter().map(|result| (result.standing, result.note)).collect()
}

/// Four servers of 6 ms a sub-query do 166.7 queries a second, whoever deals parts out, and with
/// machines as without.
#[test]
fn what_servers_cannot_do_is_known_by_arithmetic() {
    for (scheme, more) in [
        ("roar", ""),
        ("ptn", ""),
        ("shards", ""),
        ("sw", ""),
        ("opt", ""),
        ("roar", "scheduler = { policy = \"c_fcfs\" }\n"),
    ] {
        let at = |per_s: f64| {
            let [one] = &standings(&format!(
                "{SERVERS}p = 4\nqueries_per_s = {per_s:?}\n{more}[[schemes]]\n\
                 scheme = \"{scheme}\"\n[run]\nqueries = 3_000\nreplications = 3\n"
            ))[..] else {
                panic!("one point")
            };
            one.clone()
        };
        let (standing, note) = at(167.0);
        assert_eq!(standing, Standing::Unstable, "{scheme} {more}");
        assert_eq!(note, "queries ask for 1.002 of what the servers can do", "{scheme} {more}");
        assert_eq!(at(120.0), (Standing::Stable, String::new()), "{scheme} {more}");
    }
    // Two of four servers hold all that two ask for: 1 + 10 ms each.
    let random = |per_s: f64| {
        standings(&format!(
            "{SERVERS}p = 2\nqueries_per_s = {per_s:?}\n[[schemes]]\nscheme = \"rand\"\n\
             c = 1\nbest_of = 1\n[run]\nqueries = 3_000\nreplications = 3\n"
        ))
    };
    assert_eq!(random(182.0)[0].0, Standing::Unstable);
    assert_eq!(random(100.0)[0].0, Standing::Stable);
}

/// Equal ranges on servers of two speeds: the slow ones do 166.7 queries a second, and all
/// together could do 250, which is what arithmetic knows. `CAVY_SEEDS=200` as for regions.
#[test]
fn error_rates_of_the_verdict_on_both_sides_of_what_slow_servers_do() {
    for (per_s, stable) in [(150.0, true), (160.0, true), (175.0, false)] {
        let text = format!(
            "{SERVERS}speeds = [1, 2]\np = 4\nqueries_per_s = {per_s:?}\n[[schemes]]\n\
             scheme = \"roar\"\nranges = \"equal\"\n[run]\nqueries = 12_000\n"
        );
        let plan: SearchPlan =
            toml::from_str(&text[text.find("servers").expect("keys")..]).expect("a plan");
        let scenario = plan.scenario(&Files::NONE).expect("a scenario");
        let what = format!("slow servers at {per_s}/s");
        verdict_errs_rarely(&what, 5, stable, |seed| {
            let replicate = |seed| {
                SearchPlan::replicate(&scenario, seed, 0, &Manner::default()).expect("a run")
            };
            let runs: Vec<_> = (3 * seed..3 * seed + 3).map(replicate).collect();
            plan.summarize(&scenario, &runs).standing
        });
    }
}

/// A key that nothing comes of is named, and taken where something does.
#[test]
fn keys_without_effect_are_refused() {
    let check = |more: &str| {
        let text = format!("{SERVERS}p = 4\nload = 0.5\n{more}\n[[schemes]]\nscheme = \"roar\"\n");
        let plan: SearchPlan =
            toml::from_str(&text[text.find("servers").expect("keys")..]).expect("a plan");
        plan.scenario(&Files::NONE).map(drop).map_err(|error| error.to_string())
    };
    let scheduler = "scheduler = { policy = \"c_fcfs\" }";
    for (key, with) in [
        ("hedge_ms = 20", scheduler),
        ("hedge_percent = 9", scheduler),
        ("margin_ms = 50", scheduler),
        ("copy_percent = 50", scheduler),
        ("copies_wait = false", scheduler),
        ("run.duration_s = 90", scheduler),
        ("run.warmup_s = 9", scheduler),
        ("balance_percent = 20", "balance_s = 5"),
        ("updates_per_s = 100", "update_us = 10"),
    ] {
        let said = check(key).expect_err(key);
        for part in [key, with] {
            let name = part.split(' ').next().expect("a name");
            assert!(said.contains(name), "{part}: {said}");
        }
        check(&format!("{key}\n{with}")).expect(key);
    }
    let said = check("balance_s = 60").expect_err("no border would ever move");
    assert!(said.contains("`balance_s` is 60; it must be below run.duration_s"), "{said}");
    check("balance_s = 60\nrun.duration_s = 90").expect("it is looked at once");
}

/// Queries that end before the time does: what was busy was so while they came.
#[test]
fn machines_are_as_busy_as_their_queries_say() {
    let text = format!(
        "{SERVERS}p = 4\nqueries_per_s = 100\nscheduler = {{ policy = \"c_fcfs\" }}\n\
         [[schemes]]\nscheme = \"roar\"\n[run]\nqueries = 3_000\nduration_s = 60\n\
         replications = 3\n"
    );
    let made = run::<SearchPlan>(&text, false);
    let (busy, served) = (made.results[0].busy_ratio, made.results[0].served_per_s.value);
    assert!((busy - 0.6).abs() < 0.03 && (served - 100.0).abs() < 5.0, "{busy}, {served}/s");
}

/// p goes up and down, so that servers copy half of the time: for 60 % of their processors, in
/// stretches of ten milliseconds, while parts of queries take eleven or twenty-one.
fn changing(more: &str) -> String {
    let events: String = (4..40)
        .map(|half| {
            let (at_s, p) = (f64::from(half) / 2.0, 2 + half % 2 * 2);
            format!("[[events]]\nevent = \"spread\"\nat_s = {at_s:?}\np = {p}\n")
        })
        .collect();
    format!(
        "{SERVERS}p = 4\nload = 0.4\nspeeds = [0.05]\ncopies_wait = false\ncopy_percent = 60\n\
         margin_ms = 10_000\n{more}[[schemes]]\nscheme = \"roar\"\n{events}\
         [run]\nqueries = 100_000\nduration_s = 20\nwarmup_s = 2\nreplications = 5\n"
    )
    .replacen("documents = 100_000", "documents = 10_000", 1)
}

#[test]
fn a_scheduler_tells_queries_from_copies() {
    let scheduled = |policy: &str| changing(&format!("scheduler = {{ policy = {policy} }}\n"));
    let one = |text: String| means(&text).swap_remove(0);
    let (plain, digest) = one(changing(""));
    // The default has a name.
    assert_eq!(one(scheduled("\"c_fcfs\"")), (plain, digest));
    let (first, _) = one(scheduled("\"fixed_priority\""));
    let (stopped, _) = one(scheduled("\"preemptive_priority\""));
    // Copies delay queries most when these come last, then when they take turns; less if a copy
    // under way alone is waited for, and least if that is stopped too.
    let (last, _) = one(scheduled("\"edf\", deadlines_us = { query = 1_000_000, copy = 1 }"));
    let all = [stopped, first, plain, last];
    assert!(all.windows(2).all(|pair| pair[0] < 0.97 * pair[1]), "{all:?}");
}

#[test]
fn a_scheduler_is_what_theory_says_of_it() {
    // Every query asks all four servers alike, so each is M/D/1, and all are done at one time.
    let text = |more: &str, load: f64| {
        format!(
            "{SERVERS}p = 4\nmargin_ms = 100_000\nload = {load}\n{more}[[schemes]]\n\
             scheme = \"roar\"\nranges = \"equal\"\n\
             [run]\nqueries = 100_000\nduration_s = 100\nwarmup_s = 5\nreplications = 5\n"
        )
    };
    // A millisecond and a quarter of twenty; ten messages take 50 us each, of which two count.
    let (service, network, load) = (6.0, 0.1, 0.6);
    let busy = load * 6.0 / 5.0;
    let one = |more: &str| {
        let made = run::<SearchPlan>(&text(more, load), false);
        let mean = made.results[0].latency.mean_ms.clone().expect("queries");
        (mean.value - network, mean.interval().half_width())
    };
    let shared = theory::processor_sharing_mean_sojourn(service, busy);
    let per_ms = busy / service;
    let turns = service + theory::md1_mean_wait(per_ms, service);
    let two = service + theory::mdn_mean_wait(2, 2.0 * per_ms, service);
    for (more, exact) in [
        ("scheduler = { policy = \"c_fcfs\" }\n", turns),
        ("scheduler = { policy = \"lcfs\" }\n", turns),
        ("scheduler = { policy = \"processor_sharing\" }\n", shared),
        ("scheduler = { policy = \"lcfs\", preemptive = true }\n", shared),
        ("cores = 2\nscheduler = { policy = \"c_fcfs\" }\n", two),
    ] {
        let (mean, half) = one(more);
        let close = (mean - exact).abs() < 2.0 * half + 0.02 * exact;
        assert!(half < 0.05 * exact && close, "{more}: {mean} within {half}, {exact}");
    }
}

/// Twelve servers of three speeds on two rings: a front end that plans over both has the delay that
/// the planner has without machines, which is another one than on one ring.
#[test]
fn clause_2_6_4_machines_on_two_rings_are_as_fast_as_a_plan_without_them() {
    let text = |rings: u32, more: &str| {
        format!(
            "kind = \"search\"\ntitle = \"t\"\nservers = 12\norder = \"interleaved\"\n\
             speeds = [0.5, 1.0, 1.5]\ndocuments = 100_000\nfixed_ms = 1\ndocument_us = 0.2\n\
             p = 3\nload = 0.5\n{more}[[schemes]]\nscheme = \"roar\"\n\
             rings = {rings}\n[run]\nqueries = 20_000\nwarmup_queries = 2_000\n\
             duration_s = 60\nwarmup_s = 5\nreplications = 5\n"
        )
    };
    let one = |rings: u32, more: &str| {
        let made = run::<SearchPlan>(&text(rings, more), false);
        let result = &made.results[0];
        assert_eq!((result.wrong, result.partial), (0, 0));
        let mean = result.latency.mean_ms.as_ref().expect("queries");
        (mean.value, mean.interval().half_width(), result.copies)
    };
    let network = 0.1;
    let machines = "margin_ms = 100_000\nscheduler = { policy = \"c_fcfs\" }\n";
    let (alone, _, once) = one(1, "");
    let (planned, off, copies) = one(2, "");
    let (mean, half, stored) = one(2, machines);
    assert!(off < 0.02 * planned && half < 0.02 * mean, "{off} of {planned}, {half} of {mean}");
    let apart = (mean - network - planned).abs();
    assert!(apart < 2.0 * (off + half), "{mean} with machines, {planned} without");
    assert!(planned < 0.95 * alone, "{planned} on two rings, {alone} on one");
    // A copy more for each ring: 12/3 and one, or two.
    assert!((copies - stored).abs() < 1e-9 && (copies - once - 1.0).abs() < 1e-9, "{copies}");
}

/// All servers of a ring crash and are back with empty disks, while p is changed: the other ring
/// answers for everything, and fills them.
#[test]
fn clause_2_6_4_a_ring_that_dies_takes_nothing_with_it() {
    let text = |rings: u32, crash: &str| {
        format!(
            "{SERVERS}servers = 12\np = 3\nload = 0.2\ncopy_percent = 100\n[[schemes]]\n\
             scheme = \"roar\"\nrings = {rings}\n[[events]]\nevent = \"crash\"\nat_s = 3\n\
             until_s = 8\nloses_disk = true\n{crash}\n[[events]]\nevent = \"spread\"\n\
             at_s = 5\np = 2\n[run]\nqueries = 100_000\nduration_s = 20\nwarmup_s = 1\n\
             replications = 5\n"
        )
        .replacen("servers = 4\n", "", 1)
    };
    let one = |rings: u32, crash: &str| {
        run::<SearchPlan>(&text(rings, crash), false).results.swap_remove(0)
    };
    let two = one(2, "ring = 1");
    assert_eq!((two.wrong, two.partial, two.met_ratio.value), (0, 0, 1.0));
    let left: Vec<u32> = two.phases[0].draws.iter().map(|draw| draw.holders_least).collect();
    assert_eq!(left, [2; 5], "every document is on two of the six that are left, or on three");
    assert!(two.phases[1].reached_s.is_some(), "p falls though a ring is dead");
    assert_eq!(two.phases[0].what, "ring 1 crashes and loses its disks");
    // Of one ring half of the servers have not everything.
    assert!(one(1, "servers = 6").partial > 0);
}

/// Two of eight servers are half as fast from some time on: theirs becomes a fourteenth of the ring
/// each, and a seventh that of the others.
#[test]
fn clause_2_10_ranges_follow_what_servers_take() {
    let text = |percent: u32| {
        format!(
            "kind = \"search\"\ntitle = \"t\"\nservers = 8\ndocuments = 100_000\np = 3\n\
             load = 0.3\ncosts = \"learned\"\nbalance_s = 3\nbalance_percent = {percent}\n\
             [[schemes]]\nscheme = \"roar\"\n[[events]]\nevent = \"slow\"\nat_s = 4\n\
             until_s = 100\nservers = 2\nspeed_ratio = 0.5\n\
             [run]\nqueries = 100_000\nduration_s = 20\nwarmup_s = 1\nreplications = 5\n"
        )
    };
    for (percent, least, most) in [(5, 1.11, 1.16), (1_000, 1.0, 1.000_01)] {
        let made = run::<SearchPlan>(&text(percent), false);
        let result = &made.results[0];
        let found = result.balance.as_ref().expect("it balances");
        // By the speeds that the plan says, which they had at first.
        let ends = &found.imbalance[6];
        assert!(ends.min() >= least && ends.max() <= most, "{ends:?}");
        assert!(percent > 5 || found.steps.value > 1.0, "{:?}", found.steps);
        if percent > 5 {
            // Nothing moved: that is zero, without a sign, and no query came meanwhile.
            let nothing = [found.steps.value, found.moved.value, found.copied.value];
            assert_eq!(nothing.map(f64::to_bits), [0; 3], "{nothing:?}");
            assert!(found.moving.mean_ms.is_none());
        }
        assert_eq!((result.wrong, result.partial), (0, 0));
    }
}

#[test]
fn front_ends_hear_of_a_server_that_slows_down_if_they_learn() {
    let text = |more: &str| {
        format!(
            "{SERVERS}servers = 12\np = 3\nload = 0.4\n{more}[[schemes]]\nscheme = \"roar\"\n\
             [[events]]\nevent = \"slow\"\nat_s = 2\nuntil_s = 40\nservers = 2\n\
             speed_ratio = 0.4\n[run]\nqueries = 100_000\nduration_s = 12\nwarmup_s = 4\n\
             replications = 3\n"
        )
        .replacen("servers = 4\n", "", 1)
    };
    let one = |text: String| means(&text).swap_remove(0).0;
    let (known, learned) = (one(text("")), one(text("costs = \"learned\"\n")));
    let well = one(text("").replace("speed_ratio = 0.4", "speed_ratio = 1"));
    assert!(known > 1.3 * well && learned < 0.9 * known, "{well}, {known}, {learned}");
}

#[test]
fn every_draw_of_a_crash_says_how_many_copies_it_left() {
    let crash = |at_s: u32, servers: u32| {
        format!(
            "[[events]]\nevent = \"crash\"\nat_s = {at_s}\nuntil_s = {}\nservers = {servers}\n",
            at_s + 1
        )
    };
    // Three servers have each document, and six when p is halved.
    let text = format!(
        "{SERVERS}p = 4\nload = 0.1\n[[schemes]]\nscheme = \"roar\"\nranges = \"equal\"\n\
         {}{}[[events]]\nevent = \"spread\"\nat_s = 12\np = 2\n{}\
         [run]\nqueries = 100_000\nduration_s = 40\nwarmup_s = 1\nreplications = 3\n",
        crash(2, 1),
        crash(6, 11),
        crash(36, 1)
    )
    .replacen("servers = 4\n", "servers = 12\n", 1);
    let made = run::<SearchPlan>(&text, false);
    let phases = &made.results[0].phases;
    let left: Vec<Vec<u32>> = phases
        .iter()
        .map(|phase| phase.draws.iter().map(|draw| draw.holders_least).collect())
        .collect();
    assert_eq!(left, [vec![2; 3], vec![0; 3], vec![], vec![5; 3]]);
    assert!(phases[0].draws.iter().all(|draw| draw.during_ratio.is_some()));
}

#[test]
fn clause_8_4_a_deadline_costs_coverage_and_bounds_every_answer() {
    // One server works at a fifth of its speed, and nobody knows it: its parts are late.
    let text = |more: &str| {
        format!(
            "{SERVERS}servers = 12\np = 3\nload = 0.3\nmargin_ms = 1_000\n{more}[[schemes]]\n\
             scheme = \"roar\"\n[[events]]\nevent = \"slow\"\nat_s = 2\nuntil_s = 40\n\
             speed_ratio = 0.2\n[run]\nqueries = 100_000\nduration_s = 12\nwarmup_s = 4\n\
             replications = 3\n"
        )
        .replacen("servers = 4\n", "", 1)
    };
    let one = |more: &str| run::<SearchPlan>(&text(more), false).results.swap_remove(0);
    let (free, bound) = (one(""), one("deadline_ms = 15\n"));
    assert_eq!((free.wrong, bound.wrong), (0, 0), "each id is met once or said to be lost");
    assert_eq!((free.partial, free.timed_out_ratio, free.met_ratio.value), (0, 0.0, 1.0));
    let tail = |of: &SearchResult| of.latency.get("p95_ms").map(|one| one.value);
    let (without, with) = (tail(&free).expect("queries"), tail(&bound).expect("queries"));
    // Buckets of the histogram are a thousandth wide.
    assert!(without > 20.0 && with < 15.1, "{without} and {with} ms");
    // A part is a third of the documents, or two parts are late at once.
    let (met, late) = (bound.met_ratio.value, bound.timed_out_ratio);
    assert!(late > 0.01 && met > 1.0 - late && met < 1.0 - late / 4.0, "{met} met, {late} late");
}
