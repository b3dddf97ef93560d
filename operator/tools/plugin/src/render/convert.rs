//! Renders the account of a Collector's configuration: entries that need attention come last, where
//! people read them.

use millrace_convert::{AccountEntry, Fate};

use super::{Paint, Palette, TextPage, format_count};

/// Renders the list, by fate.
#[must_use]
pub fn render_conversion(entries: &[AccountEntry], palette: Palette) -> String {
    let mut page = TextPage::new(palette);
    let mut sums = Vec::new();
    for (heading, what, paint, is_such) in KINDS {
        let found: Vec<&AccountEntry> =
            entries.iter().filter(|entry| is_such(&entry.fate)).collect();
        sums.push(format!("{} {what}", format_count(found.len() as u64)));
        if found.is_empty() {
            continue;
        }
        page.push_heading(heading);
        for entry in found {
            page.push_wrapped("  ", "    ", &entry_line(entry), paint);
        }
    }
    page.push_line("");
    page.push_line(&sums.join(", "));
    page.into_text()
}

/// A kind of entries: heading, its word in the sum, colour, and a filter.
type EntryKind = (&'static str, &'static str, Paint, fn(&Fate) -> bool);

const KINDS: [EntryKind; 4] = [
    ("CARRIED OVER", "carried over", Paint::Plain, |fate| matches!(fate, Fate::Carried { .. })),
    ("NOT NEEDED", "not needed", Paint::Dim, |fate| matches!(fate, Fate::NotNeeded { .. })),
    ("TO FILL IN", "to fill in", Paint::Warn, |fate| matches!(fate, Fate::FillIn { .. })),
    ("WITHOUT A COUNTERPART", "without a counterpart", Paint::Bad, |fate| {
        matches!(fate, Fate::Left { .. })
    }),
];

fn entry_line(entry: &AccountEntry) -> String {
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
