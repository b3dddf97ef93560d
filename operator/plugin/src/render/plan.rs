//! What a changed file would do.

use serde_json::Value;

use super::{Page, Paint, Palette};
use crate::report::{Change, EffectKind, PlanReport};

/// Longest value that is shown; JSON has all of it.
const VALUE_MAX: usize = 160;

/// The plan.
#[must_use]
pub fn plan(report: &PlanReport, palette: Palette) -> String {
    let mut page = Page::new(palette);
    let name = palette.paint(&format!("{}/{}", report.namespace, report.name), Paint::Bold);
    let what = match (report.new, report.changes.is_empty()) {
        (true, _) => "would be made",
        (false, true) => "would not change",
        (false, false) => "would change",
    };
    page.line(&format!("TelemetryPipeline {name} {what}; nothing was stored"));
    if let Some(conflicts) = &report.conflicts {
        page.wrapped("  ! ", "    ", conflicts, Paint::Warn);
        page.line("    apply needs --force-conflicts; what follows is with it");
    }
    if !report.new && !report.changes.is_empty() {
        page.heading("FIELDS");
        for change in &report.changes {
            field(&mut page, change);
        }
    }
    if !report.effects.is_empty() {
        page.heading("WHAT THE OPERATOR WOULD DO");
        for effect in &report.effects {
            let (mark, paint) = match effect.kind {
                EffectKind::Made => ("+", Paint::Good),
                EffectKind::Removed => ("-", Paint::Bad),
                EffectKind::Restart => ("!", Paint::Warn),
                EffectKind::Topic | EffectKind::Tables | EffectKind::InPlace => ("~", Paint::Plain),
            };
            let text = format!("{}: {}", effect.on, effect.text);
            page.wrapped(&format!("  {mark} "), "    ", &text, paint);
        }
    }
    for pending in &report.pending {
        let hash = pending.hash.as_ref().map(|hash| format!(" (millrace.dev/approve-plan={hash})"));
        let schema = &pending.schema;
        let hash = hash.unwrap_or_default();
        page.heading(&format!("STATEMENTS THAT WAIT ALREADY: TelemetrySchema {schema}{hash}"));
        for step in &pending.steps {
            page.wrapped("  ", "    ", step, Paint::Plain);
        }
    }
    if !report.not_told.is_empty() {
        page.heading("NOT TOLD");
        for text in &report.not_told {
            page.wrapped("  ", "    ", text, Paint::Dim);
        }
    }
    page.finish()
}

fn field(page: &mut Page, change: &Change) {
    let (before, after) = (change.before.as_ref().map(shown), change.after.as_ref().map(shown));
    let text = match (before, after) {
        (None, Some(after)) => format!("+ {}: {after}", change.path),
        (Some(before), None) => format!("- {}: {before}", change.path),
        (before, after) => format!(
            "~ {}: {} -> {}",
            change.path,
            before.unwrap_or_default(),
            after.unwrap_or_default()
        ),
    };
    page.wrapped("  ", "      ", &text, Paint::Plain);
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
