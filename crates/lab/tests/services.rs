//! The world of services: closed forms, steps, freezing and its faults, one seed one run.

#[path = "services/accuracy.rs"]
mod accuracy;
#[path = "services/allocation.rs"]
mod allocation;
#[path = "services/closed_forms.rs"]
mod closed_forms;
#[path = "services/delivered.rs"]
mod delivered;
#[path = "services/freezing.rs"]
mod freezing;
#[path = "services/seeds.rs"]
mod seeds;
#[path = "services/shared.rs"]
mod shared;
#[path = "services/stage.rs"]
mod stage;
#[path = "services/steps.rs"]
mod steps;
#[path = "services/whatif.rs"]
mod whatif;

#[path = "../../../tests/wasm/services.rs"]
mod golden;

#[test]
fn golden_digests() {
    for golden in &golden::SERVICES {
        let found = golden::digest(golden);
        println!("{}: 0x{found:016X}", golden.0);
        assert_eq!(found, golden.1, "{}: found 0x{found:016X}", golden.0);
    }
}
