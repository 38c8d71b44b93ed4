//! The world of services: clients ask services, services ask each other, controllers stop and
//! continue them.
//!
//! A service has replicas on cores of their own or on those of a host. A request visits a replica
//! and goes through steps: computing, locks, calls, waits. Each replica, and each population of
//! clients, is a process group that controllers of the probe family may freeze.
//!
//! **What a frozen group does: nothing.** Its threads keep their place, the rest of what they
//! compute stays as it is. **What goes on:** messages in flight, timers and waits for devices,
//! other groups on the same host, the refill of CPU quotas. What arrives for a frozen group stays
//! with the kernel and is taken up, in the order in which it came, when the group goes on. A
//! population of clients can live in virtual time instead: then the rest of its waits and of its
//! gaps between arrivals is kept.
//!
//! **Common random numbers.** What a visit draws depends on the seed, the client, the number of its
//! request and the place in the tree of calls, and on nothing else. A faster, a slowed and an
//! unchanged system meet the same work.
//!
//! **Reading order.** [`network`] says what there is, [`faults`] what goes wrong with stopping,
//! [`report`] what a run comes to. `program` turns steps into operations, `cores` and `replica`
//! hold state, `world` drives.

mod cores;
pub mod faults;
pub mod network;
mod program;
mod replica;
pub mod report;
mod world;

pub use faults::Faults;
pub use network::{
    Arriving, Balance, Cache, Call, Clients, Discipline, Endpoint, Host, Law, Lock, Network,
    NetworkError, Place, Pool, Quota, Service, Step,
};
pub use report::{Done, Ended, Observer, Outcome, Unobserved, Used};
pub use world::{Alone, CountAt, Setup, Wiring, run};
