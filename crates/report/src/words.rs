//! The words that all drawings share, so that terminal, page and Markdown say the same.

use crate::model::{Cell, Claim, Figure, Verdict};
use crate::number::{coordinate, significant};

impl Verdict {
    /// All verdicts, in the order in which they are counted.
    pub const ALL: [Self; 6] = [
        Self::Reproduced,
        Self::Explained,
        Self::NotReproduced,
        Self::TooShort,
        Self::TooNoisy,
        Self::NotAtThisScale,
    ];

    /// The verdict as a reader sees it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Explained => "explained",
            Self::NotReproduced => "not reproduced",
            Self::TooShort => "too short to judge",
            Self::TooNoisy => "too noisy to publish",
            Self::NotAtThisScale => "not at this scale",
        }
    }

    /// One word for style sheets and file names.
    pub(crate) const fn slug(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Explained => "explained",
            Self::NotReproduced => "missed",
            Self::TooShort => "short",
            Self::TooNoisy => "noisy",
            Self::NotAtThisScale => "unscaled",
        }
    }
}

/// Text for a page: what would be markup is written as itself.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// How many claims there are and how many of them got which verdict:
/// `35 claims: 31 reproduced, 3 explained, 0 not reproduced, 1 too short to judge`. The parts add
/// up to the whole. Zeros are said of the first three only.
pub fn tally(claims: &[Claim]) -> String {
    let mut parts = Vec::new();
    for (verdict, count) in counts(claims) {
        let always =
            matches!(verdict, Verdict::Reproduced | Verdict::Explained | Verdict::NotReproduced);
        if count > 0 || always {
            parts.push(format!("{count} {}", verdict.words()));
        }
    }
    let plural = if claims.len() == 1 { "" } else { "s" };
    format!("{} claim{plural}: {}", claims.len(), parts.join(", "))
}

/// How many claims got each verdict, in the order of [`Verdict::ALL`].
pub fn counts(claims: &[Claim]) -> [(Verdict, usize); Verdict::ALL.len()] {
    Verdict::ALL
        .map(|verdict| (verdict, claims.iter().filter(|claim| claim.verdict == verdict).count()))
}

impl Claim {
    /// No value was measured, and so there is nothing to show in a row of a table.
    pub(crate) fn is_unmeasured(&self) -> bool {
        self.value.is_none() && matches!(self.verdict, Verdict::TooShort | Verdict::NotAtThisScale)
    }

    /// Our value with its unit; `not measured` when there is none.
    pub fn ours(&self) -> String {
        self.value.map_or_else(|| "not measured".into(), |value| with_unit(value, &self.unit))
    }

    /// The ends of our value, `11.9 to 12.8`; empty when they are unknown or equal.
    pub fn spread(&self) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) if low != high => range(low, high),
            _ => String::new(),
        }
    }

    /// The accepted range with its unit; empty when the claim has none.
    pub fn accepted(&self) -> String {
        let Some((low, high)) = self.tolerance else { return String::new() };
        match (low.is_finite(), high.is_finite()) {
            (true, true) if low == high => with_unit(low, &self.unit),
            (true, true) => format!("{} to {}", significant(low), with_unit(high, &self.unit)),
            (true, false) => format!("≥\u{a0}{}", with_unit(low, &self.unit)),
            (false, true) => format!("≤\u{a0}{}", with_unit(high, &self.unit)),
            (false, false) => "any".into(),
        }
    }

    /// Whether this claim is about that figure.
    pub(crate) fn is_about(&self, figure: &Figure) -> bool {
        figure.id == self.figure
            || figure
                .id
                .strip_prefix(&self.system)
                .and_then(|rest| rest.strip_prefix('.'))
                .is_some_and(|rest| rest == self.figure)
    }

    /// `persephone fig3`: claims with the same heading are drawn together.
    pub(crate) fn heading(&self) -> String {
        format!("{} {}", self.system, self.figure).trim().to_owned()
    }
}

/// Claims by what `of` says of them, in order of first appearance.
pub(crate) fn grouped<'a, K: PartialEq>(
    claims: impl IntoIterator<Item = &'a Claim>,
    of: impl Fn(&'a Claim) -> K,
) -> Vec<(K, Vec<&'a Claim>)> {
    let mut groups: Vec<(K, Vec<&Claim>)> = Vec::new();
    for claim in claims {
        let key = of(claim);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(claim),
            None => groups.push((key, vec![claim])),
        }
    }
    groups
}

/// `12.3 us`, but `12.3x` and `12.3%`.
pub(crate) fn with_unit(value: f64, unit: &str) -> String {
    let number = significant(value);
    match unit {
        "" => number,
        "x" | "%" => format!("{number}{unit}"),
        _ => format!("{number} {unit}"),
    }
}

/// `11.9 to 12.8`, which no table may break.
pub(crate) fn range(low: f64, high: f64) -> String {
    format!("{}\u{a0}to\u{a0}{}", significant(low), significant(high))
}

/// A cell as one line of text.
pub(crate) fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Number(value) => significant(*value),
        Cell::Setting(value) => coordinate(*value),
        Cell::Interval { value, low, high } => {
            format!("{} ({})", significant(*value), range(*low, *high))
        }
        Cell::Missing(why) => why.clone(),
    }
}

/// Whether a column holds numbers, or why there are none, and is therefore set flush right.
pub(crate) fn is_numeric(rows: &[Vec<Cell>], column: usize) -> bool {
    let mut cells = rows.iter().filter_map(|row| row.get(column)).peekable();
    cells.peek().is_some() && !cells.any(|cell| matches!(cell, Cell::Text(_)))
}

/// `12.3 s`, `3 min 20 s`.
pub(crate) fn duration(seconds: f64) -> String {
    if seconds.is_finite() && seconds >= 120.0 {
        let whole = seconds.round() as u64;
        format!("{} min {} s", whole / 60, whole % 60)
    } else {
        format!("{} s", significant(seconds))
    }
}

/// A name as part of an anchor or file name.
pub(crate) fn slug(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_printed_in_full() {
        assert_eq!(cell(&Cell::Setting(1_024.0)), "1\u{a0}024");
        assert_eq!(cell(&Cell::Number(1_024.0)), "1\u{a0}020");
    }
}
