//! What became of a Collector's configuration: what has to be looked at last, where people read it.

use millrace_convert::{Entry, Fate};

use super::{Page, Paint, Palette, count};

/// The list, by what became of things.
#[must_use]
pub fn conversion(entries: &[Entry], palette: Palette) -> String {
    let mut page = Page::new(palette);
    let mut sums = Vec::new();
    for (heading, what, paint, is_such) in KINDS {
        let found: Vec<&Entry> = entries.iter().filter(|entry| is_such(&entry.fate)).collect();
        sums.push(format!("{} {what}", count(found.len() as u64)));
        if found.is_empty() {
            continue;
        }
        page.heading(heading);
        for entry in found {
            page.wrapped("  ", "    ", &line(entry), paint);
        }
    }
    page.line("");
    page.line(&sums.join(", "));
    page.finish()
}

/// A kind of entries: heading, its word in the sum, colour, and which they are.
type Kind = (&'static str, &'static str, Paint, fn(&Fate) -> bool);

const KINDS: [Kind; 4] = [
    ("CARRIED OVER", "carried over", Paint::Plain, |fate| matches!(fate, Fate::Carried { .. })),
    ("NOT NEEDED", "not needed", Paint::Dim, |fate| matches!(fate, Fate::NotNeeded { .. })),
    ("TO FILL IN", "to fill in", Paint::Warn, |fate| matches!(fate, Fate::FillIn { .. })),
    ("WITHOUT A COUNTERPART", "without a counterpart", Paint::Bad, |fate| {
        matches!(fate, Fate::Left { .. })
    }),
];

fn line(entry: &Entry) -> String {
    let at = entry.at.as_ref().map(ToString::to_string);
    let arrow = |to: &str| match &at {
        Some(at) => format!("{at} -> {to}"),
        None => to.to_owned(),
    };
    let at = at.clone().unwrap_or_default();
    match &entry.fate {
        Fate::Carried { to, but: None } => arrow(to),
        Fate::Carried { to, but: Some(but) } => format!("{}: {but}", arrow(to)),
        Fate::FillIn { to, what } => format!("{}: {what}", arrow(to)),
        Fate::NotNeeded { why } => format!("{at}: {why}"),
        Fate::Left { instead } => format!("{at}: {instead}"),
    }
}
