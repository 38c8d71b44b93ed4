//! What is measured, and for how long.

use super::plan::{FromServers, Measured};
use super::way::{Cell, WAYS, Way};
use crate::tcp::typed::Study;
use cavy_core::Span;

/// What those take that wait for timers.
const SLOW: f64 = 2.0;
/// What a measurement takes beside its length.
const BESIDE_S: f64 = 0.7;
/// What building a bed takes.
const BUILD_S: f64 = 5.0;
/// Cells that share a bed.
pub struct Site {
    pub mbit: u32,
    pub port_bytes: u32,
    /// Of most cells.
    pub block_bytes: usize,
    pub cells: Vec<Cell>,
}

/// All of it.
pub struct Programme {
    pub sites: Vec<Site>,
    pub repetitions: u16,
    length: Span,
}

impl Programme {
    /// What the plan says, and options say of it.
    pub fn new(args: &Study, on: &FromServers) -> Programme {
        let site = |&(mbit, port_bytes): &(u32, u32)| Site {
            mbit,
            port_bytes,
            block_bytes: on.block_bytes,
            cells: cells(args, on, mbit),
        };
        let mut sites: Vec<Site> = on.ports.iter().map(site).collect();
        sites.retain(|site| !site.cells.is_empty());
        let length = Span::from_ns((args.seconds.unwrap_or(on.seconds) * 1e9) as u64);
        Programme { sites, repetitions: on.repetitions, length }
    }

    /// How long a cell is measured.
    pub fn length(&self, cell: &Cell) -> Span {
        let ns = self.length.as_ns();
        if cell.way.slow { Span::from_ns((ns as f64 * SLOW) as u64) } else { Span::from_ns(ns) }
    }

    /// Measurements.
    pub fn runs(&self) -> usize {
        let cells: usize = self.sites.iter().map(|site| site.cells.len()).sum();
        cells * usize::from(self.repetitions)
    }

    /// What all of them take, with jitter probes of this length on both sides.
    pub fn minutes(&self, probe: Span) -> f64 {
        let cells = self.sites.iter().flat_map(|site| &site.cells);
        let cells: f64 = cells.map(|cell| self.length(cell).as_us() / 1e6).sum();
        let beside = BESIDE_S + 2.0 * probe.as_us() / 1e6;
        let runs = cells * f64::from(self.repetitions) + self.runs() as f64 * beside;
        (runs + BUILD_S * self.sites.len() as f64) / 60.0
    }
}

/// The plan's cells at this rate. `--ways` takes those ways, also such as the plan has no cell of;
/// `--servers` takes these numbers for all of them, and of longer blocks what the plan has.
fn cells(args: &Study, on: &FromServers, mbit: u32) -> Vec<Cell> {
    let asked = |way: &Way| args.ways.is_empty() || args.ways.iter().any(|name| name == way.name);
    let has = |servers: u16| args.servers.is_empty() || args.servers.contains(&servers);
    let mut all: Vec<Cell> = Vec::new();
    let mut add = |cell: Cell| {
        if !all.contains(&cell) {
            all.push(cell);
        }
    };
    let here = |some: &&Measured| some.mbit.is_none_or(|only| only == mbit);
    let (longer, usual): (Vec<&Measured>, Vec<&Measured>) = (on.measured.iter().filter(here))
        .partition(|some| some.block_bytes.is_some_and(|bytes| bytes != on.block_bytes));
    let cell = |way: Way, servers, block_bytes| Cell { way, servers, block_bytes };
    for way in WAYS.into_iter().filter(asked) {
        let named = |some: &&&Measured| some.ways.contains(&way.name);
        let mut servers: Vec<u16> =
            usual.iter().filter(named).flat_map(|some| &some.servers).copied().collect();
        if servers.is_empty() && !args.ways.is_empty() {
            servers.clone_from(&on.servers);
        }
        if !args.servers.is_empty() && !servers.is_empty() {
            servers.clone_from(&args.servers);
        }
        servers.into_iter().for_each(|servers| add(cell(way, servers, on.block_bytes)));
    }
    for some in longer {
        let ways = WAYS.into_iter().filter(|way| some.ways.contains(&way.name) && asked(way));
        let bytes = some.block_bytes.unwrap_or(on.block_bytes);
        for way in ways {
            let servers = some.servers.iter().filter(|servers| has(**servers));
            servers.for_each(|&servers| add(cell(way, servers, bytes)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> Study {
        Study {
            quick: false,
            mbit: Vec::new(),
            port_bytes: Vec::new(),
            servers: Vec::new(),
            ways: Vec::new(),
            seconds: None,
            repetitions: None,
            probe: Span::from_ms(100),
            out: "x".into(),
            resume: false,
            json: false,
            plan: None,
            print_plan: false,
        }
    }

    fn programme(args: &Study) -> Programme {
        let on = FromServers::of(args).unwrap_or_else(|fault| panic!("{}", fault.render()));
        Programme::new(args, &on)
    }

    #[test]
    fn the_quick_form_takes_four_minutes_at_most_and_measures_what_claims_ask_for() {
        let quick = programme(&Study { quick: true, ..args() });
        assert!(quick.minutes(Span::from_ms(100)) <= 4.0, "{}", quick.minutes(Span::from_ms(100)));
        let count = |site: &Site| site.cells.len();
        assert_eq!(quick.sites.iter().map(count).collect::<Vec<_>>(), [27, 11]);
        assert!(quick.sites[1].cells.iter().any(Cell::is_long));
        let seconds = |name| {
            let cell = quick.sites[0].cells.iter().find(|cell| cell.is(name, 16));
            quick.length(cell.expect("a cell")).as_us() / 1e6
        };
        assert_eq!((seconds("turns"), seconds("reno")), (1.2, 2.4));
    }

    #[test]
    fn the_full_form_measures_everybody_and_those_in_turn_with_more_servers() {
        let full = programme(&args());
        let count = |site: &Site| site.cells.len();
        let (slow, fast) = (WAYS.len() * 5 + 6 + 6, WAYS.len() * 5 + 6 + 2);
        assert_eq!(full.sites.iter().map(count).collect::<Vec<_>>(), [slow, slow, fast, fast]);
        let turns = full.sites[0].cells.iter().filter(|cell| cell.way.name == "turns");
        let servers = [1, 2, 4, 8, 16, 32, 64, 1, 16];
        assert_eq!(turns.map(|cell| cell.servers).collect::<Vec<_>>(), servers, "two of a fifth");
    }

    #[test]
    fn who_names_cells_gets_those_and_no_others() {
        let few = Study {
            mbit: vec![200],
            port_bytes: vec![32_000],
            servers: vec![1, 8],
            ways: vec!["turns".into()],
            quick: true,
            ..args()
        };
        let few = programme(&few);
        assert_eq!(few.sites.len(), 1);
        let names: Vec<String> = few.sites[0].cells.iter().map(Cell::id).collect();
        assert_eq!(names, ["turns-1-1048576", "turns-8-1048576"]);
        assert_eq!(few.runs(), 4);
    }
}
