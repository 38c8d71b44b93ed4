//! Makes figures of one system again and prints what they came to, with the processor time each took:
//! `figures [--full] homa.w3 homa.echo ...`. Without a report, a store or a terminal: for measuring.

use cavy_report::model::{Cell, Figure};
use cavy_study::figure::{Scale, choose, reproduce};
use cavy_study::point::Manner;
use cavy_study::runner::{Runner, Silent};
use cavy_study::store::Store;
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    let is_full = names.iter().any(|name| name == "--full");
    names.retain(|name| name != "--full");
    let scale = if is_full { Scale::Full } else { Scale::Quick };
    let store = Store::in_memory();
    let stop = AtomicBool::new(false);
    let runner = Runner {
        store: &store,
        progress: &Silent,
        stop: &stop,
        manner: Manner::default(),
        version: "figures",
    };
    for one in choose(&names)? {
        let begun = processor_s();
        let made = reproduce(&runner, &[one], scale, 1, "figures")?;
        for figure in &made.figures {
            print(figure);
            println!("{}: {:.1} s of processor time", figure.id, processor_s() - begun);
        }
        for claim in &made.claims {
            let value = claim.value.map_or("-".to_string(), |value| format!("{value:.3}"));
            println!(
                "{:?}\t{}\t{value}\t{}\t{:?}\t{}",
                claim.verdict, claim.id, claim.published, claim.tolerance, claim.evidence
            );
        }
    }
    Ok(())
}

fn print(figure: &Figure) {
    println!("== {} {}\n{}", figure.id, figure.title, figure.found);
    for table in &figure.tables {
        println!("-- {}\n{}", table.title, table.columns.join(" | "));
        for row in &table.rows {
            let cells = row.iter().map(|cell| match cell {
                Cell::Text(text) | Cell::Missing(text) => text.clone(),
                Cell::Number(value) | Cell::Interval { value, .. } => format!("{value:.3}"),
            });
            println!("{}", cells.collect::<Vec<_>>().join(" | "));
        }
    }
}

/// Processor time of this process, from the kernel's account.
fn processor_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or("");
    let ticks: f64 =
        after.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum();
    ticks / 100.0
}
