//! What plans can be about.
//!
//! **Problem.** A user's question is about a server, or about a network, and each has words of its
//! own.
//!
//! **Promise.** A kind is one folder: what can be written in such a plan, what is run for it, what
//! that came to, and what is drawn and said of it. All that is the same for every plan (sweeps,
//! replications, searches, rankings) is the room `study`'s. What several kinds are written with,
//! such as tables ([`csv`]) and scheduling policies ([`policy`]), lies beside them.
//!
//! **Not here.** No source of figures: those are plans of these kinds, in the room `sources`. No
//! kind knows another one.
//!
//! **Reading order.** [`server`], the first kind, then the others in any order.

mod bursts;
pub mod coords;
pub mod csv;
mod events;
mod halves;
mod latency;
mod live;
pub mod moment;
pub mod network;
pub mod policy;
pub mod regions;
pub mod search;
pub mod server;
pub mod services;
mod types;

pub use latency::Latency;

use cavy_study::kind::{Kind, Of};

/// All kinds, in the order in which they are listed.
///
/// Inlined so that reading, drawing and ranking, which are generic, are compiled where a program
/// asks for all kinds, and not in this room, whose worlds are optimised in every build.
#[inline]
pub fn all() -> Vec<Box<dyn Kind>> {
    vec![
        Box::new(Of::<server::ServerPlan>::new()),
        Box::new(Of::<network::NetworkPlan>::new()),
        Box::new(Of::<services::ServicesPlan>::new()),
        Box::new(Of::<regions::RegionsPlan>::new()),
        Box::new(Of::<coords::CoordsPlan>::new()),
        Box::new(Of::<search::SearchPlan>::new()),
    ]
}
