//! The page: one table for each scenario.

use std::fmt::Write;

use crate::rules::Rule;
use crate::scenario::{Play, Played, Scenario};

/// What was played.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// On what.
    pub scenario: Scenario,
    /// Each rule once, ours first.
    pub lines: Vec<(Rule, Played)>,
}

/// Plays every rule on every scenario.
#[must_use]
pub fn sheets(play: &Play) -> Vec<Sheet> {
    let mut sheets: Vec<Sheet> =
        Scenario::ALL.iter().map(|it| Sheet { scenario: *it, lines: Vec::new() }).collect();
    for rule in Rule::ALL {
        for (sheet, played) in sheets.iter_mut().zip(play.play(rule, &Scenario::ALL)) {
            sheet.lines.push((rule, played));
        }
    }
    sheets
}

/// The tables.
#[must_use]
pub fn markdown(sheets: &[Sheet]) -> String {
    let mut out = String::new();
    for sheet in sheets {
        let _ = writeln!(
            out,
            "## {}\n\n| rule | fullest pod over its share, % | emptiest under it, % | \
             fullest after the first decision, % | targets moved | samples moved, % | \
             decisions | fullest pod, % of the cap | nobody scrapes | in their zone, % | \
             first decision, CPU ms |\n\
             | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | \
             --: |",
            sheet.scenario.name()
        );
        for (rule, played) in &sheet.lines {
            let _ = writeln!(
                out,
                "| {} | {:.1} | {:.1} | {:.1} | {} | {:.2} | {} | {:.0} | {} | {:.0} | {:.0} |",
                rule.name(),
                played.end.over_percent,
                played.end.under_percent,
                played.worst_over_percent,
                played.moved.targets,
                played.moved.samples_percent,
                played.decisions,
                played.of_cap_percent,
                played.end.nobody,
                played.end.in_zone_percent,
                played.first_ms,
            );
        }
        let needed = sheet.lines.iter().find_map(|(_, played)| played.needed_pods);
        if let Some(pods) = needed {
            let _ = writeln!(out, "\nPods needed below the cap: {pods}.");
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}
