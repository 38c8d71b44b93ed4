//! Tables as GitHub Markdown, for the README and the docs.

use crate::model::{Cell, Claim, Document, Table};
use crate::units;
use crate::words::{self, tally};

/// A page with the claims of a run: `claims.md`. It says nothing that differs between two runs of
/// the same seed and scale, so a repository can keep it and compare it with the next run.
pub fn claims_page(document: &Document) -> String {
    let scale = document.facts.iter().find(|(name, _)| name == "scale");
    let scale = scale.map_or("", |(_, says)| says.split(';').next().unwrap_or(""));
    format!(
        "# {}: claims\n\nMade by a run, seed {}, {scale}; not written by hand.\n\n{}",
        document.title,
        document.seed,
        claims(&document.claims)
    )
}

/// The claims as one table, then the tally. Ends with a line feed.
pub fn claims(claims: &[Claim]) -> String {
    if claims.is_empty() {
        return "No claims.\n".into();
    }
    let reviewed = claims.iter().any(|claim| claim.reviewers.is_some());
    let mut heads = vec!["Claim", "What it says", "Published"];
    if reviewed {
        heads.push("Reviewers");
    }
    heads.extend(["Ours", "Accepted", "Verdict"]);
    let mut out = String::new();
    push_row(&mut out, heads.iter().map(|head| (*head).to_owned()));
    push_row(&mut out, heads.iter().map(|_| "---".to_owned()));
    for claim in claims {
        let mut row = vec![
            format!("`{}`", claim.id.replace('|', "\\|")),
            escape(&claim.statement),
            escape(&claim.published),
        ];
        if reviewed {
            row.push(escape(claim.reviewers.as_deref().unwrap_or("")));
        }
        let spread = claim.spread();
        row.push(escape(&if spread.is_empty() {
            claim.ours()
        } else {
            format!("{} ({spread})", claim.ours())
        }));
        row.push(escape(&claim.accepted()));
        row.push(claim.verdict.words().to_owned());
        push_row(&mut out, row.into_iter());
    }
    out.push('\n');
    out.push_str(&tally(claims));
    out.push_str(".\n");
    out
}

/// One table, without its headline. Ends with a line feed.
pub fn table(table: &Table) -> String {
    let table = &*units::table(table);
    let mut out = String::new();
    push_row(&mut out, table.columns.iter().map(|head| escape(head)));
    push_row(
        &mut out,
        (0..table.columns.len()).map(|column| {
            if words::is_numeric(&table.rows, column) { "--:" } else { "---" }.to_owned()
        }),
    );
    for row in &table.rows {
        push_row(
            &mut out,
            row.iter().map(|cell| match cell {
                Cell::Missing(why) if !why.trim().is_empty() => format!("*{}*", escape(why)),
                cell => escape(&words::cell(cell)),
            }),
        );
    }
    out
}

fn push_row(out: &mut String, cells: impl Iterator<Item = String>) {
    for cell in cells {
        out.push_str("| ");
        out.push_str(&cell);
        out.push(' ');
    }
    out.push_str("|\n");
}

/// Text that neither ends the cell nor becomes markup.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '~' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}
