//! What was published: figures as plans, claims as data, and what is measured for them.
//!
//! **Problem.** A claim that nobody can check is an opinion.
//!
//! **Promise.** A source is one folder: the plans of its figures, its claims with their tolerances
//! and reasons, the functions that turn results into values, and the words around them. What the
//! claims expect is out of reach of the code that measures: the two meet in
//! `cavy_study::claim::judge`.
//!
//! **Not here.** No kind of plan, no simulation, no drawing that another source would want as well.
//!
//! **Reading order.** [`persephone`], then the others in any order.

pub mod dast;
pub mod homa;
pub mod htrae;
pub mod incast;
pub mod persephone;
pub mod roar;
pub mod slowpoke;

use cavy_study::source::Source;

/// All sources, in the order in which they are listed.
pub fn all() -> Vec<Source> {
    vec![
        persephone::source(),
        homa::source(),
        slowpoke::source(),
        incast::source(),
        dast::source(),
        htrae::source(),
        roar::source(),
    ]
}
