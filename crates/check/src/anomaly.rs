//! What can be wrong with a history, by its published name, and which model forbids it.

use serde::Serialize;
use std::fmt;

/// The class of an anomaly. Cycles have the names of Adya, Liskov and O'Neil, and of Elle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub enum Class {
    /// Writes interleave: a cycle of version order only.
    G0,
    /// A read of a write that was rolled back.
    G1a,
    /// A read of a version that its writer replaced itself.
    G1b,
    /// A cycle of version order and reads.
    G1c,
    /// A cycle with one overwritten read.
    #[serde(rename = "G-single")]
    GSingle,
    /// A cycle with several overwritten reads, no two of them next to each other.
    #[serde(rename = "G-nonadjacent")]
    GNonadjacent,
    /// A cycle with several overwritten reads.
    #[serde(rename = "G2-item")]
    G2,
    /// A transaction contradicts itself: it does not read what it wrote or read before.
    #[serde(rename = "internal")]
    Internal,
    /// A read of a value that nobody wrote.
    #[serde(rename = "phantom-value")]
    PhantomValue,
    /// An element is twice in a list that was read.
    #[serde(rename = "duplicate-element")]
    DuplicateElement,
    /// Two lists were read of which neither begins with the other.
    #[serde(rename = "incompatible-order")]
    IncompatibleOrder,
    /// Replicas applied a write that nobody asked for, or that was rolled back.
    #[serde(rename = "phantom-write")]
    PhantomWrite,
    /// Replicas applied the writes of a transaction to a key twice.
    #[serde(rename = "duplicate-write")]
    DuplicateWrite,
    /// A write was answered and no replica has it.
    #[serde(rename = "lost-write")]
    LostWrite,
    /// Replicas applied the writes of a key in different orders.
    #[serde(rename = "replica-divergence")]
    ReplicaDivergence,
    /// Replicas of a shard differ though nothing is under way.
    #[serde(rename = "state-divergence")]
    StateDivergence,
}

impl Class {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Class::G0 => "G0",
            Class::G1a => "G1a",
            Class::G1b => "G1b",
            Class::G1c => "G1c",
            Class::GSingle => "G-single",
            Class::GNonadjacent => "G-nonadjacent",
            Class::G2 => "G2-item",
            Class::Internal => "internal",
            Class::PhantomValue => "phantom-value",
            Class::DuplicateElement => "duplicate-element",
            Class::IncompatibleOrder => "incompatible-order",
            Class::PhantomWrite => "phantom-write",
            Class::DuplicateWrite => "duplicate-write",
            Class::LostWrite => "lost-write",
            Class::ReplicaDivergence => "replica-divergence",
            Class::StateDivergence => "state-divergence",
        }
    }
}

/// Which order of time closes a cycle, beside dependencies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Time {
    /// The order in which one client asked.
    Session,
    /// Real time among transactions of one region.
    Regional,
    /// Real time.
    RealTime,
}

impl Time {
    /// What it adds to the name of a class.
    pub fn suffix(self) -> &'static str {
        match self {
            Time::Session => "-process",
            Time::Regional => "-regional",
            Time::RealTime => "-realtime",
        }
    }
}

/// An anomaly's class and the order of time that it needs, if it needs one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name {
    /// The class.
    pub class: Class,
    /// The order that closes the cycle; `None` when dependencies alone do.
    pub time: Option<Time>,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.class.name())?;
        f.write_str(self.time.map_or("", Time::suffix))
    }
}

/// What a system promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// No G0.
    ReadUncommitted,
    /// No G0 and no G1.
    ReadCommitted,
    /// Cycles only with two overwritten reads next to each other.
    SnapshotIsolation,
    /// No cycle.
    Serializable,
    /// No cycle, with the order of each client.
    SessionSerializable,
    /// No cycle, with real time within each region.
    RegionalSerializable,
    /// No cycle, with real time.
    StrictSerializable,
}

impl Model {
    /// Does it forbid `name`?
    pub fn forbids(self, name: Name) -> bool {
        use Class::*;
        match name.time {
            Some(Time::Session) => {
                return matches!(self, Model::SessionSerializable | Model::StrictSerializable);
            }
            Some(Time::Regional) => {
                return matches!(self, Model::RegionalSerializable | Model::StrictSerializable);
            }
            Some(Time::RealTime) => return self == Model::StrictSerializable,
            None => {}
        }
        let committed = self != Model::ReadUncommitted;
        let snapshot = committed && self != Model::ReadCommitted;
        match name.class {
            G1a | G1b | G1c => committed,
            GSingle | GNonadjacent | Internal => snapshot,
            G2 => snapshot && self != Model::SnapshotIsolation,
            _ => true,
        }
    }

    /// Orders of time whose violations are looked for: those it forbids, and real time to be
    /// counted.
    pub fn times(self) -> &'static [Time] {
        match self {
            Model::ReadUncommitted | Model::ReadCommitted | Model::SnapshotIsolation => &[],
            Model::Serializable | Model::StrictSerializable => &[Time::RealTime],
            Model::SessionSerializable => &[Time::Session, Time::RealTime],
            Model::RegionalSerializable => &[Time::Regional, Time::RealTime],
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Model::ReadUncommitted => "read-uncommitted",
            Model::ReadCommitted => "read-committed",
            Model::SnapshotIsolation => "snapshot-isolation",
            Model::Serializable => "serializable",
            Model::SessionSerializable => "session-serializable",
            Model::RegionalSerializable => "regional-serializable",
            Model::StrictSerializable => "strict-serializable",
        }
    }
}
