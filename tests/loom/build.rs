//! Sets `cfg(loom)` for this package alone: set for all, it would compile everything that live
//! stands on a second time.

fn main() {
    println!("cargo::rerun-if-changed=build.rs\ncargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rustc-cfg=loom");
}
