//! The golden runs as exports that any WebAssembly host can call.
//!
//! The module must have no imports: one would mean that something below found a clock, a source of
//! randomness or a console. `run.mjs` checks that and compares the digests.

#[path = "../coords.rs"]
mod coords;
#[path = "../golden.rs"]
mod golden;
#[path = "../net.rs"]
mod net;
#[path = "../services.rs"]
mod services;
#[path = "../wan.rs"]
mod wan;

use cavy_lab::pending::Heap4;
use coords::COORDS;
use golden::GOLDEN;
use net::NET;
use services::SERVICES;
use wan::WAN;

/// A golden run of some world.
enum Run {
    Cpu(usize),
    Wan(usize),
    Services(usize),
    Net(usize),
    Coords(usize),
}

/// Runs are numbered through the worlds, in this order.
fn run(index: u32) -> Run {
    let index = index as usize;
    let (wan, services) = (GOLDEN.len(), GOLDEN.len() + WAN.len());
    let net = services + SERVICES.len();
    let coords = net + NET.len();
    match index {
        _ if index < wan => Run::Cpu(index),
        _ if index < services => Run::Wan(index - wan),
        _ if index < net => Run::Services(index - services),
        _ if index < coords => Run::Net(index - net),
        _ => Run::Coords(index - coords),
    }
}

fn name(index: u32) -> &'static str {
    match run(index) {
        Run::Cpu(one) => GOLDEN[one].name,
        Run::Wan(one) => WAN[one].0,
        Run::Services(one) => SERVICES[one].0,
        Run::Net(one) => NET[one].0,
        Run::Coords(one) => COORDS[one].0,
    }
}

/// How many golden runs there are.
#[unsafe(no_mangle)]
pub extern "C" fn golden_count() -> u32 {
    (GOLDEN.len() + WAN.len() + SERVICES.len() + NET.len() + COORDS.len()) as u32
}

/// Where the name of run `index` lies in memory, as UTF-8.
#[unsafe(no_mangle)]
pub extern "C" fn golden_name(index: u32) -> *const u8 {
    name(index).as_ptr()
}

/// How long it is.
#[unsafe(no_mangle)]
pub extern "C" fn golden_name_bytes(index: u32) -> u32 {
    name(index).len() as u32
}

/// The digest written down for run `index`.
#[unsafe(no_mangle)]
pub extern "C" fn golden_digest(index: u32) -> u64 {
    match run(index) {
        Run::Cpu(one) => GOLDEN[one].digest,
        Run::Wan(one) => WAN[one].1,
        Run::Services(one) => SERVICES[one].1,
        Run::Net(one) => NET[one].1,
        Run::Coords(one) => COORDS[one].1,
    }
}

/// Makes run `index` and returns the digest found.
#[unsafe(no_mangle)]
pub extern "C" fn golden_run(index: u32) -> u64 {
    match run(index) {
        Run::Cpu(one) => GOLDEN[one].run(),
        Run::Wan(one) => wan::echo(&wan::setup(one as u32), &mut Heap4::new()).0.trail.digest(),
        Run::Services(one) => services::digest(&SERVICES[one]),
        Run::Net(one) => net::digest(&NET[one], &mut Heap4::new()),
        Run::Coords(one) => coords::digest(&COORDS[one]),
    }
}
