//! `cavy-live testbed`.

use crate::args::{TestbedDo, TestbedUp};
use crate::faults::{FAILED, Fault};
use crate::signals::{self, Second};
use crate::terminal;
use cavy_testbed::{LEVELS, Plan, Shaped, Testbed, obstacle, owner};
use serde_json::json;
use std::process::ExitCode;

/// Runs the command.
pub fn testbed(what: &TestbedDo) -> Result<ExitCode, Fault> {
    if let Some(reason) = obstacle() {
        return Err(Fault::new(format!("no testbed here: {reason}"))
            .code(FAILED)
            .hint("`cavy-live doctor` says what is missing, and its cure"));
    }
    match what {
        TestbedDo::Up(args) => up(args),
        TestbedDo::Down(args) => {
            let removed = owner::remove(|owner| args.all || !owner.lives())?;
            terminal::talk(&format!("removed {removed} namespaces"));
            Ok(ExitCode::SUCCESS)
        }
        TestbedDo::List => {
            for (name, owner) in owner::all()? {
                let lives = if owner.lives() { "stands" } else { "left over" };
                terminal::print(&format!("{name}  of process {}, {lives}\n", owner.process()))?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn up(args: &TestbedUp) -> Result<ExitCode, Fault> {
    // Before anything is made, so that an early Ctrl-C ends this as a late one does.
    let over = signals::told(Second::Waits)?;
    let plan = Plan {
        hosts: args.hosts,
        link_bits_per_s: u64::from(args.mbit) * 1_000_000,
        shaped: Shaped::All,
        level_bytes: u64::from(args.level_kb) * 1_000,
        levels: !args.no_levels,
    };
    let testbed = Testbed::up(plan)?;
    let hosts: Vec<_> = (0..plan.hosts)
        .zip(testbed.hosts())
        .map(|(host, space)| (space.name(), Plan::address(host).to_string()))
        .collect();
    if args.json {
        let hosts: Vec<_> =
            hosts.iter().map(|(name, at)| json!({ "name": name, "address": at })).collect();
        // One line, so that whoever reads it knows that it is whole.
        let said = json!({ "hosts": hosts, "link_bits_per_s": plan.link_bits_per_s });
        terminal::print(&format!("{said}\n"))?;
    } else {
        let levels = if plan.levels { LEVELS } else { 1 };
        terminal::print(&format!(
            "{} hosts around a switch, links of {} Mb/s, {levels} levels of {} kB a port\n",
            plan.hosts, args.mbit, args.level_kb
        ))?;
        for (name, at) in &hosts {
            terminal::print(&format!("{at}  ip netns exec {name} sh\n"))?;
        }
    }
    terminal::talk("Ctrl-C removes it");
    let _ = over.recv();
    drop(testbed);
    Ok(ExitCode::SUCCESS)
}
