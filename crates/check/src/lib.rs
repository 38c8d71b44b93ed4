//! Judges histories of transactions.
//!
//! **Problem.** A store promises that its transactions are serializable. What its clients saw may
//! contradict that, and nobody sees it by looking.
//!
//! **Promise.** [`verdict::judge`] finds every contradiction that the history proves, in time
//! linear in its operations, and tells each as the smallest cycle of transactions that would have
//! to go before themselves, in words. It accuses nobody wrongly. Where the order of a key's
//! versions is known (lists that were read whole, or the replicas' own logs) nothing escapes it;
//! where it is not, the verdict says for how many keys [dast 5.8].
//!
//! **Not here.** No clock and no network: what is judged was recorded by somebody else. Predicates
//! are not judged, because no history here has them.
//!
//! **Reading order.** [`history`], then [`read`] (files) and [`versions`] (what depends on what),
//! then [`graph`], [`moments`] and [`cycle`], then [`verdict`]; [`anomaly`] has the names.
#![cfg_attr(test, allow(non_snake_case))]

pub mod anomaly;
pub mod atom;
pub mod cycle;
pub mod graph;
pub mod history;
pub mod moments;
pub mod read;
pub mod verdict;
pub mod versions;
mod words;

pub use anomaly::{Class, Model, Name, Time};
pub use atom::{Atom, Texts};
pub use history::History;
pub use verdict::{Anomaly, Options, Verdict, judge};
