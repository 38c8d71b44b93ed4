//! The line between the regions of a local cluster: each region is a network namespace, and the
//! process that started the cluster delays what goes from one to another, so that TCP sees the
//! distance as it would see a real one.

use crate::{Fault, talk};
use cavy_testbed::Error;
use cavy_testbed::line::control::Control;
use cavy_testbed::line::{Line, Plan};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

/// What there is instead.
const CURE: &str = "`--wan carrier` makes the same distances without it, and needs no right";

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let fault = Fault::new(&error);
        error.hints().iter().fold(fault, |fault, hint| fault.hint(hint))
    }
}

/// A line of one host for each region. `across_ms` is what a packet takes between any two, and
/// `jitter_ms` what it may take less or more.
///
/// # Errors
/// Without root, without tunnels, and for one region, which has no distances.
pub(crate) fn up(regions: u16, across_ms: f64, jitter_ms: f64) -> Result<Line, Fault> {
    if regions < 2 {
        return Err(Fault::input("--wan line needs two regions; there is one")
            .hint("`--wan carrier`, or a shape such as 3x2x3"));
    }
    if let Some(reason) = cavy_testbed::obstacle() {
        return Err(Fault::new(format!("--wan line cannot work here: {reason}"))
            .hint("run the command as root, for example with sudo")
            .hint(CURE));
    }
    let mut text = String::from("congestion_control = \"cubic\"\n");
    for region in 0..regions {
        // Into a string, which does not fail.
        let _ = writeln!(text, "[[site]]\nname = \"r{region}\"\nhosts = 1");
    }
    // Hosts are regions here, and what two nodes say to each other does not wait for what others
    // say. The order of a connection is TCP's.
    let _ = writeln!(text, "[[path]]\none_way_ms = {across_ms}\norder = \"free\"");
    let _ = writeln!(text, "jitter_ms = {jitter_ms}");
    let line = Plan::read(&text).and_then(Line::up);
    line.map_err(|error| Fault::from(error).hint(CURE))
}

/// As [`up`], where nothing says how distances are to be made: `None` where no line can stand.
pub(crate) fn try_up(regions: u16, across_ms: f64, jitter_ms: f64) -> Option<Line> {
    if regions < 2 || cavy_testbed::obstacle().is_some() {
        return None;
    }
    up(regions, across_ms, jitter_ms)
        .inspect_err(|fault| talk(&format!("distances are made by nodes: {}", fault.text())))
        .ok()
}

/// Does what `cavy live line set` and `report` say, until `ending`.
///
/// # Errors
/// When there is no place to listen.
pub(crate) fn listen(line: Arc<Line>, ending: Arc<AtomicBool>) -> Result<JoinHandle<()>, Fault> {
    let control = Control::open()?;
    let thread = std::thread::Builder::new().name("cavy-line-control".to_string());
    thread
        .spawn(move || control.serve(&line, &ending))
        .map_err(|error| Fault::new(format!("no thread for the line: {error}")))
}
