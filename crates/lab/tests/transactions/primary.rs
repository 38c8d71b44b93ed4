//! The example of the guide "add a protocol": it is held to all that real protocols are held to.

#[path = "../../examples/primary/protocol.rs"]
mod protocol;

use crate::faults;
use crate::town::{Contestant, Mix, go, network, percentile};
use cavy_check::Model;
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_lab::net::OutageKind;
use cavy_txn::registers::Registers;
use cavy_txn::{Key, Layout, Region, Shard, Value};
use protocol::{PRIMARY, Primary, Words};

struct Example(Layout);

impl Contestant for Example {
    type Machine = Primary<Registers>;
    type Words = Words;

    fn layout(&self) -> Layout {
        self.0
    }
    fn sites(&self) -> Vec<Region> {
        (0..self.0.replica_nodes()).map(|node| self.0.region_of_node(Node(node))).collect()
    }
    fn machine(&self, node: Node) -> Self::Machine {
        Primary::new(node, Registers::default())
    }
    fn target(&self, _: u32, home: Shard, _: u32) -> Node {
        self.0.replica(home, 0)
    }
    fn promises(&self) -> Model {
        Model::StrictSerializable
    }
    fn rows(machine: &Self::Machine) -> Vec<(Key, Option<Value>)> {
        machine.store.rows().map(|(key, row)| (*key, row.value.clone())).collect()
    }
    fn left(_: &Self::Machine) -> Option<String> {
        None
    }
}

/// One node a shard: nobody else has the rows of the primary.
fn example() -> Example {
    Example(Layout { replicas: 1, ..Layout::new(3, 1) })
}

/// All that [`crate::town::Town::judge`] asks for, but that replicas agree: there are none.
fn judged(mix: Mix, seed: u64, fault: Option<OutageKind>) -> Result<Vec<f64>, String> {
    let example = example();
    let mut setup = network(&example);
    (setup.seed, setup.check) = (seed, true);
    setup.faults.outages.extend(fault.map(|kind| faults::outage(PRIMARY.0, 900, 1_400, kind)));
    let town = go(&example, &setup, mix);
    town.everything_ended()?;
    crate::judge::holds(&town.callers, &town.logs, Model::StrictSerializable)?;
    let mut all: Vec<f64> = town.latencies(false);
    all.extend(town.latencies(true));
    all.sort_unstable_by(f64::total_cmp);
    Ok(all)
}

#[test]
fn the_example_of_the_guide_is_strictly_serializable_and_takes_what_arithmetic_says() {
    for seed in 0..5 {
        let took = judged(Mix::all(), seed, None).unwrap();
        // A client beside the primary waits for the way to it and back, and so asks for most; the
        // others wait for a crossing more in both directions.
        let (near, far) = (percentile(&took, 50.0), percentile(&took, 99.0));
        assert!((near - 5.0).abs() < 0.2 && (far - 105.0).abs() < 0.2, "{near} {far}");
    }
}

#[test]
fn it_bears_a_pause_of_its_primary_and_not_its_crash() {
    for seed in 0..5 {
        assert!(judged(Mix::all(), seed, Some(OutageKind::Freeze)).is_ok());
    }
    // The rows were in its memory, and the oracle sees that they are gone.
    let mix = Mix { rows: 1, think: Span::ZERO, ..Mix::all() };
    let broken = (0..5).filter(|&seed| judged(mix, seed, Some(OutageKind::Crash)).is_err()).count();
    assert_eq!(broken, 5);
}
