//! What is measured, and for how long.

use super::plan::FromServers;
use super::way::{Cell, LONG_BLOCK_BYTES, WAYS, Way};
use crate::tcp::typed::Study;
use cavy_core::Span;

/// Seconds of a measurement, and of a quick one.
const SECONDS: (f64, f64) = (6.0, 1.2);
/// What those take that wait for timers.
const SLOW: f64 = 2.0;
/// What a measurement takes beside its length.
const BESIDE_S: f64 = 0.7;
/// What building a bed takes.
const BUILD_S: f64 = 5.0;
/// Numbers of servers in turn, who go beyond what the plan has, when nothing is said.
const SERVERS_IN_TURN: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];

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

/// The quick form: what claims ask for, and what tells that it is no chance.
const QUICK_SLOW_LINK: [(&str, &[u16]); 8] = [
    ("reno", &[1, 2, 4, 8, 16]),
    ("cubic", &[8, 16]),
    ("bbr", &[16]),
    ("rto-4000-quick", &[1, 8, 16]),
    ("ours-quick", &[1, 2, 4, 8, 16]),
    ("turns", &SERVERS_IN_TURN),
    ("no-turns", &[16]),
    ("twice", &[16]),
];
const QUICK_FAST_LINK: [(&str, &[u16]); 6] = [
    ("reno", &[1, 16]),
    ("cubic", &[16]),
    ("rto-8000", &[16]),
    ("rto-4000-quick", &[16]),
    ("ours-quick", &[1, 16]),
    ("turns", &[1, 16]),
];

impl Programme {
    pub fn new(args: &Study, on: &FromServers) -> Programme {
        let site = |&(mbit, port_bytes): &(u32, u32)| Site {
            mbit,
            port_bytes,
            block_bytes: on.block_bytes,
            cells: cells(args, on, mbit),
        };
        let mut sites: Vec<Site> = on.ports.iter().map(site).collect();
        sites.retain(|site| !site.cells.is_empty());
        let pick = |(full, quick)| if args.quick { quick } else { full };
        let seconds = args.seconds.unwrap_or(pick(SECONDS));
        let length = Span::from_ns((seconds * 1e9) as u64);
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

fn some<T: Copy>(asked: &[T], without: &[T]) -> Vec<T> {
    if asked.is_empty() { without.to_vec() } else { asked.to_vec() }
}

fn cells(args: &Study, on: &FromServers, mbit: u32) -> Vec<Cell> {
    let asked = |way: &Way| args.ways.is_empty() || args.ways.iter().any(|name| name == way.name);
    let mut cells = Vec::new();
    if args.quick && !on.own && args.ways.is_empty() && args.servers.is_empty() {
        let table: &[(&str, &[u16])] =
            if mbit <= 200 { &QUICK_SLOW_LINK } else { &QUICK_FAST_LINK };
        for (name, servers) in table {
            cells.extend(servers.iter().filter_map(|&servers| Cell::of(name, servers)));
        }
    } else {
        for way in WAYS.iter().filter(|way| asked(way)) {
            let usual: &[u16] = if way.name.starts_with("turns") && !on.own {
                &SERVERS_IN_TURN
            } else {
                &on.servers
            };
            let servers = some(&args.servers, usual);
            cells.extend(servers.iter().filter_map(|&servers| Cell::of(way.name, servers)));
        }
    }
    cells.iter_mut().for_each(|cell| cell.block_bytes = on.block_bytes);
    if on.own {
        return cells;
    }
    // Long blocks, for how long one takes, where a wire's time is less than a timeout.
    if mbit > 200 && (args.servers.is_empty() || args.servers.contains(&16)) {
        let long = ["reno", "ours-quick"].into_iter().filter_map(|name| Cell::of(name, 16));
        let long = long.filter(|cell| asked(&cell.way));
        cells.extend(long.map(|cell| Cell { block_bytes: LONG_BLOCK_BYTES, ..cell }));
    }
    cells
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
        assert_eq!(quick.sites.len(), 2);
        let named = QUICK_SLOW_LINK.iter().chain(&QUICK_FAST_LINK);
        named.for_each(|(name, _)| assert!(Cell::of(name, 1).is_some(), "{name}"));
        assert!(quick.sites[1].cells.iter().any(Cell::is_long));
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
        assert_eq!(names, ["turns-1-1", "turns-8-1"]);
        assert_eq!(few.runs(), 4);
    }
}
