//! What is fetched, as a plan of kind `network` that says `world = "live"`: the live run, and the
//! lab beside it, read the same file.

use super::way::{WAYS, named};
use crate::faults::{FAILED, Fault};
use crate::study::{plan, plans};
use crate::tcp::typed::Study;
use cavy_kinds::network::NetworkPlan;
use cavy_kinds::network::live::star;
use cavy_kinds::network::plan::LiveCells;
use cavy_kinds::network::traffic::TrafficPlan;
use cavy_report::model::{Cell, Table};
use cavy_study::plan::PlanError;
use cavy_study::plan::read::{Loaded, text_of};
use cavy_study::point;
use cavy_study::subject::Subject as _;
use std::path::Path;

/// Blocks from servers through a port.
pub struct FromServers {
    /// The user's own plan, which no claim is about.
    pub own: bool,
    /// Headline.
    pub title: String,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Numbers of servers, in rising order.
    pub servers: Vec<u16>,
    /// Rates of the port in Mb/s, each with what it keeps.
    pub ports: Vec<(u32, u32)>,
    /// Measurements of each cell.
    pub repetitions: u16,
    /// Length of a measurement.
    pub seconds: f64,
    /// Who is measured, with how many servers.
    pub measured: Vec<Measured>,
    plan: Loaded<NetworkPlan>,
}

/// Ways that are measured with the same numbers of servers.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    pub ways: Vec<&'static str>,
    pub servers: Vec<u16>,
    /// At this rate only, in Mb/s.
    pub mbit: Option<u32>,
    /// Where blocks are not those of the plan.
    pub block_bytes: Option<usize>,
}

impl Measured {
    /// The `place`th of a plan that is about these numbers of servers.
    fn of(place: usize, cells: &LiveCells, servers: &[u16]) -> Result<Measured, Fault> {
        let mut ways = Vec::new();
        for name in &cells.ways {
            let Some(way) = named(name) else {
                let field = format!("live.cells.{place}.ways");
                let known = WAYS.map(|way| way.name).join(", ");
                return Err(PlanError::field(field, format!("`{name}`"), "a way of the study")
                    .hint(format!("there are: {known}"))
                    .into());
            };
            ways.push(way.name);
        }
        let all = || WAYS.map(|way| way.name).to_vec();
        let own = &cells.servers;
        Ok(Measured {
            ways: if ways.is_empty() { all() } else { ways },
            servers: if own.is_empty() { servers.to_vec() } else { own.clone() },
            mbit: cells.host_gbps.map(|gbps| (gbps * 1e3).round() as u32),
            block_bytes: cells.block_bytes.map(|bytes| bytes as usize),
        })
    }
}

impl FromServers {
    /// The user's plan with `--plan`, else the program's, with what options say of it.
    pub fn of(args: &Study) -> Result<FromServers, Fault> {
        let mut overrides = Vec::new();
        let mut say = |key: &str, values: Vec<String>| {
            if !values.is_empty() {
                overrides.push(format!("{key}=[{}]", values.join(",")));
            }
        };
        let gbps = args.mbit.iter().map(|&mbit| format!("{:?}", f64::from(mbit) / 1e3));
        say("sweep.network.host_gbps", gbps.collect());
        let bytes = args.port_bytes.iter().map(u32::to_string).collect();
        say("sweep.network.buffer.per_port_bytes", bytes);
        // More servers than the plan has hosts share them; the lab has a host for each.
        let servers: Vec<u16> = args.servers.iter().copied().filter(|&one| one <= 16).collect();
        say("sweep.traffic.servers", servers.iter().map(u16::to_string).collect());
        overrides.extend(args.repetitions.map(|number| format!("run.replications={number}")));
        match &args.plan {
            Some(file) => {
                let text = text_of(file)?;
                let on = FromServers::read(&text, file, &overrides, args.quick)?;
                Ok(FromServers { own: true, ..on })
            }
            None => FromServers::read(plans::TCP, Path::new("tcp"), &overrides, args.quick),
        }
    }

    fn read(
        text: &str,
        file: &Path,
        overrides: &[String],
        quick: bool,
    ) -> Result<FromServers, Fault> {
        let plan: Loaded<NetworkPlan> = plan::read(text, file, overrides, quick)?;
        let name = &plan.name;
        let (mut blocks, mut servers, mut ports) = (Vec::new(), Vec::new(), Vec::new());
        for point in &plan.points {
            point.plan.check_live()?;
            let TrafficPlan::Blocks(own) = &point.plan.traffic else {
                return Err(Fault::new(format!("{name}: the plan is not about blocks"))
                    .hint(format!("`cavy live study --plan {name}` runs messages and incast")));
            };
            let star = star(&point.plan.network)?;
            let port = (star.link_bits_per_s / 1_000_000, star.port_bytes);
            ports.push((port.0 as u32, u32::try_from(port.1).unwrap_or(u32::MAX)));
            // A star has no more than 257 hosts.
            servers.push(own.servers as u16);
            blocks.push(own.block_bytes.unwrap_or(0) as usize);
        }
        ports.sort_unstable();
        ports.dedup();
        servers.sort_unstable();
        servers.dedup();
        blocks.dedup();
        let [block_bytes] = blocks[..] else {
            return Err(Fault::new(format!("{name}: its blocks are of several sizes"))
                .hint("a live study has one; vary the port or the number of servers"));
        };
        let live = plan.body.live.clone().unwrap_or_default();
        let everybody = [LiveCells::default()];
        let some = if live.cells.is_empty() { &everybody[..] } else { &live.cells };
        let measured = (0..).zip(some).map(|(place, cells)| Measured::of(place, cells, &servers));
        Ok(FromServers {
            own: false,
            seconds: live.seconds,
            measured: measured.collect::<Result<_, _>>()?,
            title: plan.frame.title.clone(),
            block_bytes,
            servers,
            ports,
            repetitions: plan
                .frame
                .run
                .replications
                .and_then(|n| u16::try_from(n).ok())
                .unwrap_or(1),
            plan,
        })
    }

    /// What the lab says of the same plan at one port, as `cavy run --set world=lab` has it.
    pub fn in_the_lab(&self, (mbit, port_bytes): (u32, u32)) -> Result<Table, Fault> {
        let mut rows = Vec::new();
        for one in &self.plan.points {
            let of = star(&one.plan.network)?;
            if (of.link_bits_per_s, of.port_bytes)
                != (u64::from(mbit) * 1_000_000, u64::from(port_bytes))
            {
                continue;
            }
            let outcome = point::run(one, &self.plan.files, &point::Manner::default());
            let outcome = outcome.map_err(|error| Fault::new(error.to_string()).code(FAILED))?;
            let TrafficPlan::Blocks(traffic) = &one.plan.traffic else { continue };
            let goodput = outcome.blocks.as_ref().map(|blocks| blocks.goodput_mbps());
            rows.push(vec![
                Cell::Text(one.label.clone()),
                Cell::Number(traffic.servers.into()),
                goodput.map_or_else(|| Cell::Missing("n/a".to_string()), Cell::Number),
            ]);
        }
        Ok(Table {
            id: format!("plan-in-the-lab-{mbit}-{}", port_bytes / 1000),
            title: format!(
                "The same plan in the lab at {mbit} Mb/s and {} kB, as `cavy run --set world=lab` \
                 has it",
                port_bytes / 1000
            ),
            columns: ["transport", "servers", "goodput (Mb/s)"].map(str::to_string).to_vec(),
            rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, quick: bool) -> Result<FromServers, String> {
        FromServers::read(text, Path::new("plan"), &[], quick).map_err(|fault| fault.render())
    }

    #[test]
    fn the_built_in_plan_has_the_numbers_of_the_specification() {
        let full = read(plans::TCP, false).expect("a plan");
        let ports = [(200, 32_000), (200, 64_000), (1000, 32_000), (1000, 64_000)];
        assert_eq!((&full.ports[..], full.repetitions), (&ports[..], 3));
        assert_eq!((full.block_bytes, &full.servers[..]), (1 << 20, &[1, 2, 4, 8, 16][..]));
        let quick = read(plans::TCP, true).expect("a plan");
        assert_eq!(quick.ports, [(200, 32_000), (1000, 32_000)]);
        assert_eq!(quick.repetitions, 2);
    }

    #[test]
    fn the_lab_runs_the_points_of_a_port() {
        let small =
            plans::TCP.replace("[1, 2, 4, 8, 16]", "[2]").replace("blocks = 21", "blocks = 3");
        let on = read(&small, true).expect("a plan");
        let table = on.in_the_lab((200, 32_000)).map_err(|fault| fault.render()).expect("a table");
        assert_eq!(table.rows.len(), 4, "a row a transport");
        let goodput = |row: &Vec<Cell>| match row[2] {
            Cell::Number(mbps) => mbps,
            _ => 0.0,
        };
        assert!(table.rows.iter().all(|row| (1.0..200.0).contains(&goodput(row))), "{table:?}");
    }

    #[test]
    fn what_cannot_run_live_is_said() {
        let with = |from: &str, to: &str| plans::TCP.replacen(from, to, 1);
        for (text, words) in [
            (with("world = \"live\"\n", ""), "write `world = \"live\"` at its top"),
            (with("hosts = 17", "hosts = 17\npropagation_us = 5.0"), "propagation_us"),
            (with("block_bytes = 1_048_576", "fragment_bytes = 65_536"), "fragment_bytes"),
            (
                with(
                    "\"traffic.servers\" = [1",
                    "\"traffic.block_bytes\" = [65_536, 131_072]\n\"traffic.servers\" = [1",
                ),
                "several sizes",
            ),
            (with("seconds = 6.0", "seconds = 0"), "live.seconds"),
            (with("\"turns-cubic\"", "\"tunrs\""), "live.cells.1.ways"),
            (with("servers = [32, 64]", "servers = [32, 512]"), "live.cells.1.servers"),
            (with("block_bytes = 4_194_304", "block_bytes = 3"), "live.cells.2.block_bytes"),
        ] {
            let said = read(&text, false).err().unwrap_or_else(|| panic!("{words}"));
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}
