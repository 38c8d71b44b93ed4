//! Plans for the live world.

use cavy_study::plan::PlanError;

/// A key that only the lab can do, and what a live run has in its place.
pub(crate) fn for_the_lab(field: &str, what: &str) -> PlanError {
    PlanError::text(format!("`{field}` is for the lab; a live run has {what}"))
        .hint(format!("leave out `{field}`, or take `world = \"lab\"`"))
}
