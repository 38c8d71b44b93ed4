//! The golden runs as exports that any WebAssembly host can call.
//!
//! The module must have no imports: one would mean that something below found a clock, a source of
//! randomness or a console. `run.mjs` checks that and compares the digests.

#[path = "../golden.rs"]
mod golden;

use golden::GOLDEN;

/// How many golden runs there are.
#[unsafe(no_mangle)]
pub extern "C" fn golden_count() -> u32 {
    GOLDEN.len() as u32
}

/// Where the name of run `index` lies in memory, as UTF-8.
#[unsafe(no_mangle)]
pub extern "C" fn golden_name(index: u32) -> *const u8 {
    GOLDEN[index as usize].name.as_ptr()
}

/// How long it is.
#[unsafe(no_mangle)]
pub extern "C" fn golden_name_bytes(index: u32) -> u32 {
    GOLDEN[index as usize].name.len() as u32
}

/// The digest written down for run `index`.
#[unsafe(no_mangle)]
pub extern "C" fn golden_digest(index: u32) -> u64 {
    GOLDEN[index as usize].digest
}

/// Makes run `index` and returns the digest found.
#[unsafe(no_mangle)]
pub extern "C" fn golden_run(index: u32) -> u64 {
    GOLDEN[index as usize].run()
}
