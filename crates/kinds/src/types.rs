//! Types with their shares, as plans of several kinds have them.

use cavy_study::plan::PlanError;
use std::collections::BTreeSet;

/// The name in `"get"`, as objectives may have it.
pub(crate) fn type_name(whose: &str) -> &str {
    whose.trim_matches('"')
}

/// Checks `[[types]]`: names differ, shares are numbers from 0 and add up to 1 within 1e-6.
pub(crate) fn check(types: &[(&str, f64)]) -> Result<(), PlanError> {
    let mut names = BTreeSet::new();
    for (name, share) in types {
        if !names.insert(*name) {
            return Err(PlanError::text(format!("two types are called `{name}`")));
        }
        if !share.is_finite() || *share < 0.0 {
            let field = format!("types.{name}.share");
            return Err(PlanError::field(field, share, "a number from 0 to 1"));
        }
    }
    let total: f64 = types.iter().map(|(_, share)| share).sum();
    if (total - 1.0).abs() > 1e-6 {
        let each: Vec<String> =
            types.iter().map(|(name, share)| format!("{name} {share}")).collect();
        return Err(PlanError::text(format!("the shares of `types` add up to {total}, not 1"))
            .hint(format!("they are: {}", each.join(", "))));
    }
    Ok(())
}
