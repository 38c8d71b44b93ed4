//! Tables for a terminal, readable at 80 columns and without color.
//!
//! The caller knows the width and whether color is wanted; nothing here asks the terminal.

use comfy_table::{
    Attribute, Cell as Box, CellAlignment, Color, ColumnConstraint, ContentArrangement, LineStyle,
    Table as Grid, TableStyle, Width,
};

use crate::model::{Cell, Claim, Table, Verdict};
use crate::units;
use crate::words::{self, grouped, tally};

/// Below this width every column shrinks as it must.
const ROOMY: usize = 76;
/// From this width on the statement of a claim has room beside its numbers.
const WIDE: usize = 110;
/// From this width on, what the reviewers read has room as well.
const WIDER: usize = 140;

/// Three lines and no boxes: a table prints on paper and survives a copy into a message.
const RULED: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// The claims that could be judged as a table, then why each that is not plainly reproduced is not,
/// then the others by what was missing, then the tally.
///
/// Ends with a line feed. `width` is in columns; below 40 it is taken as 40.
pub fn claims(claims: &[Claim], width: usize, color: bool) -> String {
    if claims.is_empty() {
        return "no claims\n".into();
    }
    let width = width.max(40);
    let wide = width >= WIDE;
    let reviewed = width >= WIDER && claims.iter().any(|claim| claim.reviewers.is_some());

    let mut heads = vec!["claim"];
    if wide {
        heads.push("what it says");
    }
    heads.push("published");
    if reviewed {
        heads.push("reviewers");
    }
    heads.extend(["ours", "accepted", "verdict"]);

    let (short, judged): (Vec<&Claim>, Vec<&Claim>) =
        claims.iter().partition(|claim| claim.is_unmeasured());
    let mut grid = grid(width, color);
    grid.set_header(heads.iter().map(|head| head_cell(head, color)));
    for claim in &judged {
        let mut row = vec![Box::new(&claim.id)];
        if wide {
            row.push(Box::new(&claim.statement));
        }
        row.push(Box::new(&claim.published));
        if reviewed {
            row.push(Box::new(claim.reviewers.as_deref().unwrap_or("")));
        }
        let spread = claim.spread();
        let ours =
            if spread.is_empty() { claim.ours() } else { format!("{}\n{spread}", claim.ours()) };
        row.push(Box::new(ours));
        row.push(Box::new(claim.accepted()));
        row.push(verdict(claim.verdict, color));
        grid.add_row(row);
    }
    if width >= ROOMY {
        hold(&mut grid, heads.len(), width);
    }

    let mut out = if judged.is_empty() { String::new() } else { lines(&mut grid) };
    let mut notes = String::new();
    for claim in judged {
        if claim.verdict != Verdict::Reproduced && !claim.evidence.is_empty() {
            let note = format!("{}, {}: {}", claim.id, claim.verdict.words(), claim.evidence);
            wrap(&note, width, &mut notes);
        }
    }
    let alike = |claim: &'_ Claim| (claim.verdict.words(), claim.evidence.clone());
    for ((verdict, evidence), claims) in grouped(short, alike) {
        wrap(&unjudged(verdict, &evidence, &claims), width, &mut notes);
    }
    if !out.is_empty() && !notes.is_empty() {
        out.push('\n');
    }
    out.push_str(&notes);
    out.push('\n');
    wrap(&tally(claims), width, &mut out);
    out
}

/// Whom it is about, of many the first few, and the reason once.
fn unjudged(verdict: &str, evidence: &str, claims: &[&Claim]) -> String {
    const NAMED: usize = 6;
    let names: Vec<&str> = claims.iter().take(NAMED).map(|claim| claim.id.as_str()).collect();
    let more = match claims.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}, {verdict}: {evidence}", names.join(", "))
}

/// Keeps names whole, which are for `cavy explain`, and numbers, unless they would leave no room.
fn hold(grid: &mut Grid, columns: usize, width: usize) {
    let [ours, accepted, verdict] = [columns - 3, columns - 2, columns - 1];
    let published = if width >= WIDE { 2 } else { 1 };
    let widths = grid.column_max_content_widths();
    let mut whole = vec![0, ours];
    if width >= WIDE {
        whole.extend([accepted, verdict]);
    }
    let mut constrain = |index: usize, constraint| {
        if let Some(column) = grid.column_mut(index) {
            column.set_constraint(constraint);
        }
    };
    constrain(published, ColumnConstraint::LowerBoundary(Width::Fixed(10)));
    constrain(verdict, ColumnConstraint::LowerBoundary(Width::Fixed(11)));
    for index in whole {
        if usize::from(widths[index]) <= width * 2 / 5 {
            constrain(index, ColumnConstraint::ContentWidth);
        }
    }
}

/// One table under its headline. Ends with a line feed; `width` as in [`claims`].
///
/// No number and no word is ever broken: columns that do not fit beside the others follow below,
/// with the columns that tell rows apart repeated before them.
pub fn table(table: &Table, width: usize, color: bool) -> String {
    let table = &*units::table(table);
    let width = width.max(40);
    let mut out = String::new();
    if !table.title.is_empty() {
        out.push_str(&table.title);
        out.push('\n');
    }
    for columns in stacked(table, width) {
        let mut grid = grid(width, color);
        grid.set_header(columns.iter().map(|&index| head_cell(&table.columns[index], color)));
        for row in &table.rows {
            grid.add_row(columns.iter().map(|&index| match &row[index] {
                Cell::Missing(why) if color => Box::new(why).add_attribute(Attribute::Dim),
                cell => Box::new(words::cell(cell)),
            }));
        }
        for (place, &index) in columns.iter().enumerate() {
            if let Some(column) = grid.column_mut(place) {
                if words::is_numeric(&table.rows, index) {
                    column.set_cell_alignment(CellAlignment::Right);
                }
                let least = least_width(table, index).min(width.saturating_sub(GAP));
                column.set_constraint(at_least(least));
            }
        }
        out.push_str(&lines(&mut grid));
    }
    if table.rows.is_empty() {
        out.push_str("no rows\n");
    }
    out
}

/// Blanks that a column takes beside its content.
const GAP: usize = 2;

fn at_least(width: usize) -> ColumnConstraint {
    let width = u16::try_from(width + GAP - 1).unwrap_or(u16::MAX);
    ColumnConstraint::LowerBoundary(Width::Fixed(width))
}

/// Characters of the longest part that must stay whole.
fn least(text: &str) -> usize {
    text.split([' ', '\n']).map(|word| word.chars().count()).max().unwrap_or(0)
}

/// The least width of a column: of its head, and of its cells.
fn least_width(table: &Table, index: usize) -> usize {
    let cells = table.rows.iter().map(|row| least(&words::cell(&row[index])));
    cells.chain([least(&table.columns[index])]).max().unwrap_or(0)
}

/// Columns in groups that fit `width` each. Every group begins with the columns that tell rows
/// apart.
fn stacked(table: &Table, width: usize) -> Vec<Vec<usize>> {
    let count = table.columns.len();
    let need = |columns: &[usize]| -> usize {
        columns.iter().map(|&index| least_width(table, index) + GAP).sum()
    };
    let all: Vec<usize> = (0..count).collect();
    // A rule is one character longer than what stands under it.
    if need(&all) < width + GAP {
        return vec![all];
    }
    let keys: Vec<usize> = (0..telling(table)).collect();
    let mut groups = Vec::new();
    let mut group = keys.clone();
    for index in keys.len()..count {
        group.push(index);
        if need(&group) >= width + GAP && group.len() > keys.len() + 1 {
            group.pop();
            groups.push(std::mem::replace(&mut group, keys.clone()));
            group.push(index);
        }
    }
    groups.push(group);
    groups
}

/// How many of the first columns tell all rows apart; one if no few do.
fn telling(table: &Table) -> usize {
    /// More would be a table of keys.
    const MOST: usize = 4;
    let tells = |columns: &usize| {
        let mut seen: Vec<Vec<String>> = Vec::new();
        table.rows.iter().all(|row| {
            let key: Vec<String> = row.iter().take(*columns).map(words::cell).collect();
            let is_new = !seen.contains(&key);
            seen.push(key);
            is_new
        })
    };
    (1..=MOST.min(table.columns.len().saturating_sub(1))).find(tells).unwrap_or(1)
}

fn grid(width: usize, color: bool) -> Grid {
    let mut grid = Grid::new();
    grid.load_style(RULED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX))
        .force_no_tty();
    if color {
        grid.enforce_styling();
    }
    grid
}

fn head_cell(text: &str, color: bool) -> Box {
    let cell = Box::new(text);
    if color { cell.add_attribute(Attribute::Bold) } else { cell }
}

fn verdict(verdict: Verdict, color: bool) -> Box {
    let cell = Box::new(verdict.words());
    if !color {
        return cell;
    }
    match verdict {
        Verdict::Reproduced => cell.fg(Color::DarkGreen),
        Verdict::Explained => cell.fg(Color::DarkCyan),
        Verdict::NotReproduced => cell.fg(Color::DarkRed).add_attribute(Attribute::Bold),
        Verdict::TooShort | Verdict::TooNoisy | Verdict::NotAtThisScale => {
            cell.fg(Color::DarkYellow)
        }
    }
}

/// Lines without the blanks that fill the last column.
fn lines(grid: &mut Grid) -> String {
    for column in grid.column_iter_mut() {
        column.set_padding((0, 1));
    }
    let mut out = String::new();
    for line in grid.lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Breaks at blanks; lines after the first are indented by two. A longer word stays whole.
fn wrap(text: &str, width: usize, out: &mut String) {
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            out.push_str("\n  ");
            used = 2;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out.push('\n');
}
