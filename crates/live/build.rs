//! Declares `cfg(loom)`, which `tests/loom` sets for the files that it shares with this room.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout()
        .write_all(b"cargo::rerun-if-changed=build.rs\ncargo::rustc-check-cfg=cfg(loom)\n")
}
