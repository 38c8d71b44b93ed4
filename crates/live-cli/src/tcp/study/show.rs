//! Tables, plots, and values to hold against claims.

use super::MeasuredCell;
use super::programme::Site;
use super::way::{WAYS, Way};
use cavy_lab::statistics::quantile;
use cavy_report::model::{Axis, Cell, Figure, Panel, Point, Scale, Series, Table};
use cavy_trials::Finding;

/// A value over repetitions: median, smallest, greatest.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Over {
    median: f64,
    low: f64,
    high: f64,
}

fn over(values: impl Iterator<Item = f64>) -> Option<Over> {
    let all: Vec<f64> = values.collect();
    let low = all.iter().copied().reduce(f64::min)?;
    let high = all.iter().copied().reduce(f64::max)?;
    Some(Over { median: quantile::median(all)?, low, high })
}

/// Runs of one cell.
struct Of<'a>(Vec<&'a MeasuredCell>);

impl<'a> Of<'a> {
    fn new(all: &'a [MeasuredCell], mbit: u32, name: &str, servers: u16) -> Of<'a> {
        let at = |one: &&MeasuredCell| {
            (one.mbit, one.port_bytes) == (mbit, 32_000) && one.cell.is(name, servers)
        };
        Of(all.iter().filter(at).collect())
    }

    fn mbps(&self) -> Option<Over> {
        over(self.0.iter().map(|one| one.run.mbps))
    }

    /// Goodput of the blocks after those in which it may learn.
    fn settled_mbps(&self) -> Option<Over> {
        over(self.0.iter().filter_map(|one| {
            // The first is not among them.
            let blocks = one.run.blocks_ms.get(LEARNED_AFTER - 1..)?;
            let octets = (blocks.len() * one.cell.block_bytes) as f64;
            (!blocks.is_empty()).then(|| octets * 8.0 / blocks.iter().sum::<f64>() / 1e3)
        }))
    }

    fn blocks(&self) -> u64 {
        self.0.iter().map(|one| one.run.blocks_ms.len() as u64).sum()
    }

    fn p50_us(&self) -> Option<f64> {
        over(self.0.iter().map(|one| 1e3 * one.run.block_ms(0.5))).map(|over| over.median)
    }
}

/// A finding about goodput: judged as a median is, since rare stalls leave it alone.
fn finding(id: &str, value: Option<Over>, of: &[&Of<'_>], note: String) -> Option<Finding> {
    let value = value?;
    let runs: Vec<&&MeasuredCell> = of.iter().flat_map(|of| &of.0).collect();
    let doubted = runs.iter().filter(|one| !one.run.doubts().is_empty()).count();
    let scale_us = of.iter().filter_map(|of| of.p50_us()).reduce(f64::min);
    Some(
        Finding {
            value: Some(value.median),
            low: Some(value.low),
            high: Some(value.high),
            samples: of.iter().map(|of| of.blocks()).sum(),
            note,
            scale_us,
            doubted_ratio: Some(doubted as f64 / runs.len().max(1) as f64),
            ..Finding::nothing(&format!("live.tcp.{id}"))
        }
        .of_median(),
    )
}

/// Blocks after which a receiver must have learned what the port keeps (tcp-live 8).
const LEARNED_AFTER: usize = 20;

/// One over another: medians, and the ends against each other.
fn ratio(above: &Of<'_>, below: &Of<'_>) -> Option<Over> {
    of_both(above.mbps()?, below.mbps()?)
}

fn of_both(a: Over, b: Over) -> Option<Over> {
    (b.low > 0.0).then(|| Over {
        median: a.median / b.median,
        low: a.low / b.high,
        high: a.high / b.low,
    })
}

/// The worst ratio of `name` with these numbers of servers to itself with one, and where.
fn own(all: &[MeasuredCell], mbit: u32, name: &str, servers: &[u16], id: &str) -> Option<Finding> {
    let cells = servers.iter().map(|&servers| (servers, Of::new(all, mbit, name, servers)));
    worst_of(id, cells, |_| Of::new(all, mbit, name, 1), ratio)
}

/// The worst ratio to what is `below` at the same number of servers, and where.
fn worst_of<'a>(
    id: &str,
    cells: impl Iterator<Item = (u16, Of<'a>)>,
    below: impl Fn(u16) -> Of<'a>,
    ratio: fn(&Of<'a>, &Of<'a>) -> Option<Over>,
) -> Option<Finding> {
    let cells: Vec<_> = cells.filter(|(_, of)| !of.0.is_empty()).collect();
    let ratios = cells.iter().filter_map(|(n, of)| {
        let below = below(*n);
        ratio(of, &below).map(|ratio| (*n, of, below, ratio))
    });
    let (n, of, below, worst) = ratios.min_by(|a, b| a.3.median.total_cmp(&b.3.median))?;
    let note = format!("The worst of {} numbers of servers, {n}.", cells.len());
    finding(id, Some(worst), &[of, &below], note)
}

/// All values.
pub fn findings(all: &[MeasuredCell]) -> Vec<Finding> {
    let of = |mbit, name, servers| Of::new(all, mbit, name, servers);
    let one = |id: &str, of: Of<'_>| finding(id, of.mbps(), &[&of], String::new());
    let both = |id: &str, above: Of<'_>, below: Of<'_>| {
        finding(id, ratio(&above, &below), &[&above, &below], String::new())
    };
    let tuned = ["rto-8000", "rto-4000", "rto-4000-quick"].map(|name| of(1000, name, 16));
    let best = tuned.into_iter().filter(|of| of.mbps().is_some()).max_by(|a, b| {
        let of = |of: &Of<'_>| of.mbps().map_or(0.0, |over| over.median);
        of(a).total_cmp(&of(b))
    });
    let fits: Vec<Of<'_>> = [2, 4, 8, 16].map(|servers| of(200, "turns", servers)).into();
    let most = |value: fn(&MeasuredCell) -> u64| {
        over(fits.iter().flat_map(|of| &of.0).map(|one| value(one) as f64))
            .map(|over| Over { median: over.high, ..over })
    };
    let cured: Vec<&Of<'_>> = fits.iter().collect();
    let long = |name: &str| {
        Of(all
            .iter()
            .filter(|one| one.cell.is_long() && one.cell.way.name == name && one.mbit == 1000)
            .filter(|one| one.port_bytes == 32_000)
            .collect())
    };
    let short = |name: &str| {
        Of(all
            .iter()
            .filter(|one| one.cell.is_short() && one.cell.way.name == name && one.mbit == 200)
            .filter(|one| (one.port_bytes, one.cell.servers) == (32_000, 16))
            .collect())
    };
    let (slow, fast) = (long("reno"), long("ours-quick"));
    let block = |of: &Of<'_>, ratio| over(of.0.iter().map(|one| one.run.block_ms(ratio)));
    let latency = block(&slow, 0.5).zip(block(&fast, 0.5)).map(|(slow, fast)| Over {
        median: slow.median / fast.median,
        low: slow.low / fast.high,
        high: slow.high / fast.low,
    });
    let worst = block(&fast, 1.0).map(|over| Over { median: over.high, ..over });
    let words = block(&slow, 0.5).zip(block(&fast, 0.5)).map_or(String::new(), |(slow, fast)| {
        format!("{:.0} ms over {:.0} ms.", slow.median, fast.median)
    });
    [
        one("stock_16_1g", of(1000, "reno", 16)),
        both("tuned_16_1g", of(1000, "rto-4000-quick", 16), of(1000, "reno", 16)),
        both("tuned_8_200m", of(200, "rto-4000-quick", 8), of(200, "reno", 8)),
        one("ours_16_1g", of(1000, "ours-quick", 16)),
        best.and_then(|best| both("ours_over_tuned_16_1g", of(1000, "ours-quick", 16), best)),
        own(all, 200, "ours-quick", &[2, 4, 8, 16], "ours_own_200m"),
        finding("latency", latency, &[&slow, &fast], words),
        finding("latency_worst", worst, &[&fast], String::new())
            .map(|one| Finding { tail: true, ..one }),
        own(all, 200, "turns", &[2, 4, 8, 16, 32, 64], "cure_own_200m"),
        finding("cure_drops", most(|one| one.run.dropped), &cured, String::new()),
        finding("cure_timeouts", most(|one| one.run.timeouts), &cured, String::new()),
        own(all, 200, "learned", &[2, 4, 8, 16, 32, 64], "learned_own_200m"),
        worst_of(
            "learned_over_told_200m",
            [2, 4, 8, 16, 32, 64].map(|servers| (servers, of(200, "learned", servers))).into_iter(),
            |servers| of(200, "turns", servers),
            |learned, told| of_both(learned.settled_mbps()?, told.settled_mbps()?),
        ),
        both("cure_over_stock_16_1g", of(1000, "turns", 16), of(1000, "reno-rack", 16))
            .or_else(|| both("cure_over_stock_16_1g", of(1000, "turns", 16), of(1000, "reno", 16))),
        own(all, 1000, "turns", &[16], "cure_own_16_1g"),
        both("cure_over_stock_16_short", short("turns"), short("reno-rack")),
        both("control_no_turns", of(200, "no-turns", 16), of(200, "turns", 16)),
        both("control_twice", of(200, "twice", 16), of(200, "turns", 16)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// All of one bed.
pub fn figure(site: &Site, all: &[&MeasuredCell], again: &str) -> Figure {
    let place = format!("{} Mb/s, a port of {} kB", site.mbit, site.port_bytes / 1000);
    let usual = |one: &&&MeasuredCell| one.cell.block_bytes == site.block_bytes;
    let mut servers: Vec<u16> = all.iter().filter(usual).map(|one| one.cell.servers).collect();
    servers.sort_unstable();
    servers.dedup();
    let ways: Vec<Way> =
        WAYS.into_iter().filter(|way| all.iter().any(|one| one.cell.way == *way)).collect();
    let runs = |way: &Way, servers: u16| -> Vec<&MeasuredCell> {
        let is = |one: &&&MeasuredCell| one.cell.way == *way && one.cell.servers == servers;
        all.iter().filter(usual).filter(is).copied().collect()
    };
    let table = |id: &str, title: &str, cell: &dyn Fn(&[&MeasuredCell]) -> Cell| {
        let row = |way: &Way| {
            let mut row = vec![Cell::Text(way.label.to_string())];
            row.extend(servers.iter().map(|&servers| match &runs(way, servers)[..] {
                [] => Cell::Missing("not run".to_string()),
                runs => cell(runs),
            }));
            row
        };
        let heads = servers.iter().map(|servers| match servers {
            1 => "1 server".to_string(),
            many => format!("{many} servers"),
        });
        Table {
            id: id.to_string(),
            title: format!("{title}; {place}"),
            columns: ["who".to_string()].into_iter().chain(heads).collect(),
            rows: ways.iter().map(row).collect(),
        }
    };
    let interval = |over: Option<Over>| match over {
        Some(Over { median, low, high }) => Cell::Interval { value: median, low, high },
        None => Cell::Missing("n/a".to_string()),
    };
    let goodput = table("goodput", "Goodput, Mb/s", &|runs| {
        interval(over(runs.iter().map(|one| one.run.mbps)))
    });
    let lost = table("lost", "Packets dropped at the port, and timers that ran out", &|runs| {
        let sum = |of: fn(&MeasuredCell) -> u64| runs.iter().map(|one| of(one)).sum::<u64>();
        Cell::Text(format!("{}; {}", sum(|one| one.run.dropped), sum(|one| one.run.timeouts)))
    });
    let blocks = table("blocks", "Median and longest block, ms", &|runs| {
        let at = |ratio| over(runs.iter().map(|one| one.run.block_ms(ratio)));
        let (p50, most) = (at(0.5).map_or(0.0, |o| o.median), at(1.0).map_or(0.0, |o| o.high));
        Cell::Text(format!("{p50:.1}; {most:.0}"))
    });
    let mut tables = vec![goodput, lost, blocks];
    let long: Vec<&&MeasuredCell> = all.iter().filter(|one| !usual(one)).collect();
    if !long.is_empty() {
        tables.push(long_blocks(&long, &place));
    }
    tables.push(machine(all, &place));
    // Ways are compared at the number of servers that most of them have run with.
    let ran = |servers: u16| ways.iter().filter(|way| !runs(way, servers).is_empty()).count();
    let most = servers.iter().copied().max_by_key(|&servers| (ran(servers), servers)).unwrap_or(0);
    let found = ways.iter().filter_map(|way| {
        let mbps = over(runs(way, most).iter().map(|one| one.run.mbps))?.median;
        Some(format!("{} {mbps:.0}", way.label))
    });
    let found: Vec<String> = found.collect();
    Figure {
        id: format!("live.tcp.{}-{}", site.mbit, site.port_bytes / 1000),
        title: format!("Answers that collide: {place}"),
        shows: "A client asks all servers for equal parts of a block at once, and for the next \
                when it has the last part."
            .to_string(),
        claimed: "The stock kernel collapses, senders with fine timers do not, and a receiver \
                  that lets unchanged servers send in turn does not either."
            .to_string(),
        found: format!("Mb/s from {most} servers: {}.", found.join(", ")),
        command: again.to_string(),
        panels: vec![panel(&ways, &servers, &runs, &place)],
        maps: Vec::new(),
        tables,
    }
}

fn panel<'a>(
    ways: &[Way],
    servers: &[u16],
    runs: &dyn Fn(&Way, u16) -> Vec<&'a MeasuredCell>,
    place: &str,
) -> Panel {
    let point = |way: &Way, servers: u16| {
        let runs = runs(way, servers);
        let over = over(runs.iter().map(|one| one.run.mbps))?;
        Some(Point {
            x: f64::from(servers),
            y: Some(over.median),
            low: Some(over.low),
            high: Some(over.high),
            samples: runs.iter().map(|one| one.run.blocks_ms.len() as u64).sum(),
            stable: true,
        })
    };
    let series = ways.iter().map(|way| Series {
        label: way.label.to_string(),
        points: servers.iter().filter_map(|&servers| point(way, servers)).collect(),
    });
    let axis = |label: &str, unit: &str, scale| Axis {
        label: label.to_string(),
        unit: unit.to_string(),
        scale,
        min: None,
        max: None,
    };
    Panel {
        id: "goodput".to_string(),
        title: format!("Goodput over servers; {place}"),
        x: axis("Servers that answer at once", "", Scale::Log),
        y: axis("Goodput", "Mb/s", Scale::Linear),
        series: series.filter(|series| series.points.len() > 1).collect(),
        rules: Vec::new(),
    }
}

fn long_blocks(long: &[&&MeasuredCell], place: &str) -> Table {
    let row = |one: &&&MeasuredCell| {
        let (run, cell) = (&one.run, &one.cell);
        vec![
            Cell::Text(cell.way.label.to_string()),
            Cell::Text(cell.servers.to_string()),
            Cell::Text((cell.block_bytes >> 10).to_string()),
            Cell::Text((one.repetition + 1).to_string()),
            Cell::Text(run.blocks_ms.len().to_string()),
            Cell::Number(run.block_ms(0.5)),
            Cell::Number(run.block_ms(1.0)),
            Cell::Number(run.mbps),
        ]
    };
    let columns = [
        "who",
        "servers",
        "block, KiB",
        "repetition",
        "blocks",
        "median, ms",
        "longest, ms",
        "Mb/s",
    ];
    Table {
        id: "long".to_string(),
        title: format!("Blocks of another length; {place}"),
        columns: columns.map(str::to_string).to_vec(),
        rows: long.iter().map(row).collect(),
    }
}

/// What the machine was like.
fn machine(all: &[&MeasuredCell], place: &str) -> Table {
    let columns = [
        "who",
        "servers",
        "repetition",
        "busy (%)",
        "this process, kernel (%)",
        "steal (%)",
        "wait for a core (us)",
        "met p99.9 (us)",
        "sent again",
        "dropped at hosts",
        "doubts",
    ];
    let row = |one: &&MeasuredCell| {
        let health = &one.run.health;
        let met = one.run.weather.met_p999_us;
        let both = (100.0 * health.own_ratio, 100.0 * health.kernel_ratio);
        vec![
            Cell::Text(one.cell.way.label.to_string()),
            Cell::Text(one.cell.servers.to_string()),
            Cell::Text((one.repetition + 1).to_string()),
            Cell::Number(100.0 * health.busy_ratio),
            Cell::Text(format!("{:.0}, {:.0}", both.0, both.1)),
            Cell::Number(100.0 * health.steal_ratio),
            Cell::Number(health.wait_mean_us),
            met.map_or(Cell::Missing("no probe".to_string()), Cell::Number),
            Cell::Text(health.sent_again.to_string()),
            Cell::Text(health.dropped_at_hosts.to_string()),
            Cell::Text(one.run.doubts().join(", ")),
        ]
    };
    Table {
        id: "machine".to_string(),
        title: format!("The machine and the network during each run; {place}"),
        columns: columns.map(str::to_string).to_vec(),
        rows: all.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::bed::Run;
    use super::super::way::{BLOCK_BYTES, Cell as Talk, named};
    use super::*;
    use cavy_trials::health::Health;
    use cavy_trials::weather::Weather;

    fn measured(mbit: u32, name: &str, servers: u16, mbps: f64) -> MeasuredCell {
        let run = Run {
            blocks_ms: vec![1.0, 3.0, 2.0],
            mbps,
            dropped: 1,
            timeouts: 0,
            health: Health::default(),
            weather: Weather::default(),
        };
        let way = named(name).expect("a way");
        let cell = Talk { way, servers, block_bytes: BLOCK_BYTES };
        MeasuredCell { mbit, port_bytes: 32_000, cell, repetition: 0, run }
    }

    #[test]
    fn values_follow_from_the_cells_that_were_run_and_from_no_others() {
        // Twice as slow as one that is told, once twenty blocks are over, and slower before.
        let blocks = |long: f64, settled: f64, mbps: f64| {
            let mut run = measured(200, "turns", 1, mbps).run;
            run.blocks_ms = vec![long; 19].into_iter().chain([settled; 9]).collect();
            run
        };
        let (settled, told) = (blocks(500.0, 80.0, 60.0), blocks(40.0, 40.0, 171.0));
        let all = [
            measured(1000, "reno", 16, 40.0),
            measured(1000, "reno", 16, 60.0),
            measured(1000, "rto-4000-quick", 16, 500.0),
            measured(1000, "ours-quick", 16, 750.0),
            measured(200, "turns", 1, 180.0),
            measured(200, "turns", 8, 171.0),
            measured(200, "turns", 64, 90.0),
            measured(200, "learned", 1, 100.0),
            MeasuredCell { run: settled, ..measured(200, "learned", 8, 60.0) },
            MeasuredCell { run: told, ..measured(200, "turns", 8, 171.0) },
        ];
        let found = findings(&all);
        let value = |id: &str| {
            let one = found.iter().find(|one| one.id == format!("live.tcp.{id}"));
            one.and_then(|one| one.value)
        };
        assert_eq!(value("stock_16_1g"), Some(50.0));
        assert_eq!(value("tuned_16_1g"), Some(10.0));
        assert_eq!(value("ours_over_tuned_16_1g"), Some(1.5));
        assert_eq!(value("cure_own_200m"), Some(0.5));
        assert_eq!(value("learned_own_200m"), Some(0.6));
        assert_eq!(value("learned_over_told_200m"), Some(0.5));
        assert_eq!(value("cure_drops"), Some(1.0));
        assert_eq!(value("control_twice"), None);
        assert_eq!(value("latency"), None);
    }
}
