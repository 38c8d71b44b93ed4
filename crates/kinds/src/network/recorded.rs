//! Recorded messages, and measured shares of who sends to whom.

use super::messages::of_list;
use super::traffic::Recording;
use crate::csv::{Table, open};
use cavy_core::family::Node;
use cavy_lab::net::traffic::Weights;
use cavy_lab::net::{PS_PER_NS, Ps, Submission};
use cavy_study::plan::{Files, PlanError};
use cavy_workload::sizes::Sizes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Messages as they were recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Sender and message, from the first one's time on.
    pub messages: Arc<[(Node, Submission)]>,
    /// How long they are.
    pub sizes: Sizes,
    /// When the last one is sent.
    pub last: Ps,
}

/// Messages that a recording must have.
const MESSAGES_MIN: usize = 100;

/// The number in `h12`.
pub(super) fn number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix('h')?;
    let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if all { digits.parse().ok() } else { None }
}

/// A fault at a cell.
fn wrong(table: &Table, row: &csv::StringRecord, column: usize, what: &str) -> PlanError {
    PlanError::text(format!("{}: {what}", table.place(row, column))).in_file(&table.name)
}

/// Reads the messages of `plan` for a network of `hosts` hosts. It names one of `files`.
pub fn messages(plan: &Recording, files: &Files, hosts: u32) -> Result<Recorded, PlanError> {
    let ratio = plan.rate_ratio;
    if !(0.001..=1_000.0).contains(&ratio) {
        return Err(PlanError::field("traffic.rate_ratio", ratio, "0.001 to 1000")
            .hint("2 makes messages come twice as fast as they were recorded"));
    }
    let mut table = open(files, &plan.file)?;
    let columns = [&plan.time, &plan.from, &plan.to, &plan.bytes];
    let mut places = [0; 4];
    for (place, column) in places.iter_mut().zip(columns) {
        *place = table.column(column)?;
    }
    let [time, from, to, bytes] = places;
    let mut names: BTreeMap<String, u32> = BTreeMap::new();
    let mut all = Vec::new();
    let mut row = csv::StringRecord::new();
    while table.next(&mut row)? {
        let at_ns = table.time_ns(&row, time, plan.unit, 0)?;
        let length_bytes = table.size(&row, bytes)?;
        let mut host = |column: usize| {
            let name = row.get(column).unwrap_or("");
            let next = names.len() as u32;
            match names.get(name) {
                _ if name.is_empty() => Err(wrong(&table, &row, column, "the host is missing")),
                Some(&known) => Ok(known),
                None => {
                    names.insert(name.to_string(), next);
                    Ok(next)
                }
            }
        };
        let ends = (host(from)?, host(to)?);
        if ends.0 == ends.1 {
            return Err(wrong(&table, &row, to, "a message from a host to itself")
                .hint("such messages use no network; leave them out"));
        }
        all.push((at_ns, ends, length_bytes));
    }
    if all.len() < MESSAGES_MIN {
        let count = all.len();
        let message = format!("the trace has {count} messages; at least {MESSAGES_MIN} are needed");
        return Err(PlanError::text(message).in_file(&table.name));
    }
    let nodes = nodes(&names, hosts).map_err(|fault| fault.in_file(&table.name))?;
    let first_ns = all.iter().map(|one| one.0).min().unwrap_or(0);
    let mut messages: Vec<(Node, Submission)> = all
        .iter()
        .map(|&(at_ns, (from, to), length_bytes)| {
            let at = ((at_ns - first_ns) as f64 * PS_PER_NS as f64 / ratio).round() as Ps;
            let to = nodes[to as usize];
            (nodes[from as usize], Submission { at, to, length_bytes, asks: false, class: 0 })
        })
        .collect();
    messages.sort_by_key(|(_, message)| message.at);
    Ok(Recorded {
        sizes: of_list(all.iter().map(|one| one.2).collect())?,
        last: messages.last().map_or(0, |(_, message)| message.at),
        messages: messages.into(),
    })
}

/// The hosts that `names`, counted as they appear, stand for.
fn nodes(names: &BTreeMap<String, u32>, hosts: u32) -> Result<Vec<Node>, PlanError> {
    let are_numbers = names.keys().all(|name| number(name).is_some());
    let mut nodes = vec![Node(0); names.len()];
    for (name, &index) in names {
        nodes[index as usize] = Node(number(name).filter(|_| are_numbers).unwrap_or(index));
    }
    let most = nodes.iter().map(|node| node.0).max().unwrap_or(0);
    if most < hosts {
        return Ok(nodes);
    }
    let needed = most + 1;
    Err(PlanError::text(format!("the trace needs {needed} hosts, and the network has {hosts}"))
        .hint(format!("raise the number of hosts in `network` to {needed}")))
}

/// Reads the file of `matrix`, one of `files`, for a network of `hosts` hosts.
pub fn matrix(file: &str, files: &Files, hosts: u32) -> Result<Weights, PlanError> {
    let mut table = open(files, file)?;
    let (from, to) = (table.column("from")?, table.column("to")?);
    let weight = table.column("weight")?;
    let mut entries = Vec::new();
    let mut row = csv::StringRecord::new();
    while table.next(&mut row)? {
        let host = |column: usize| {
            let name = row.get(column).unwrap_or("");
            number(name).filter(|number| *number < hosts).map(Node).ok_or_else(|| {
                let last = hosts - 1;
                wrong(
                    &table,
                    &row,
                    column,
                    &format!("`{name}` is no host; it must be h0 to h{last}"),
                )
            })
        };
        let ends = (host(from)?, host(to)?);
        if ends.0 == ends.1 {
            return Err(wrong(&table, &row, to, "a host that sends to itself")
                .hint("such messages use no network; leave them out"));
        }
        let share = table.number(&row, weight)?;
        if !(share.is_finite() && share >= 0.0) {
            let what = format!("{share} must be a number, not negative");
            return Err(wrong(&table, &row, weight, &what));
        }
        entries.push((ends.0, ends.1, share));
    }
    Weights::matrix(hosts, &entries).ok_or_else(|| {
        PlanError::text("all weights are 0: nobody sends anything")
            .in_file(&table.name)
            .hint("the first line is `from,to,weight`; each further line is a pair of hosts")
    })
}
