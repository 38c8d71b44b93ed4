//! The golden runs as exports that any WebAssembly host can call.
//!
//! The module must have no imports: one would mean that something below found a clock, a source of
//! randomness or a console. `run.mjs` checks that and compares the digests.

#[path = "../golden.rs"]
mod golden;
#[path = "../wan.rs"]
mod wan;

use cavy_lab::pending::Heap4;
use golden::GOLDEN;
use wan::WAN;

/// The run beyond those of [`GOLDEN`].
fn beyond(index: u32) -> usize {
    index as usize - GOLDEN.len()
}

fn name(index: u32) -> &'static str {
    GOLDEN.get(index as usize).map_or_else(|| WAN[beyond(index)].0, |golden| golden.name)
}

/// How many golden runs there are.
#[unsafe(no_mangle)]
pub extern "C" fn golden_count() -> u32 {
    (GOLDEN.len() + WAN.len()) as u32
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
    GOLDEN.get(index as usize).map_or_else(|| WAN[beyond(index)].1, |golden| golden.digest)
}

/// Makes run `index` and returns the digest found.
#[unsafe(no_mangle)]
pub extern "C" fn golden_run(index: u32) -> u64 {
    match GOLDEN.get(index as usize) {
        Some(golden) => golden.run(),
        None => {
            let setup = wan::setup(beyond(index) as u32);
            wan::echo(&setup, &mut Heap4::new()).0.trail.digest()
        }
    }
}
