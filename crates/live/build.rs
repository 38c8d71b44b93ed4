//! Declares `cfg(loom)`, under which the hand-offs are model-checked (`tests/loom.rs`).

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout()
        .write_all(b"cargo::rerun-if-changed=build.rs\ncargo::rustc-check-cfg=cfg(loom)\n")
}
