//! Renders the effects of a changed file.

use serde_json::Value;

use super::{Paint, Palette, TextPage};
use crate::report::{EffectKind, FieldChange, PlanReport};

/// Maximum length of a shown value; JSON has the complete one.
const VALUE_MAX: usize = 160;

/// Renders the plan.
#[must_use]
pub fn render_plan(report: &PlanReport, palette: Palette) -> String {
    let mut page = TextPage::new(palette);
    let name = palette.paint(&format!("{}/{}", report.namespace, report.name), Paint::Bold);
    let what = match (report.new, report.changes.is_empty()) {
        (true, _) => "would be created",
        (false, true) => "would not change",
        (false, false) => "would change",
    };
    page.push_line(&format!("TelemetryPipeline {name} {what}; nothing was stored"));
    if let Some(conflicts) = &report.conflicts {
        page.push_wrapped("  ! ", "    ", conflicts, Paint::Warn);
        page.push_line("    apply needs --force-conflicts; the following assumes it");
    }
    if !report.new && !report.changes.is_empty() {
        page.push_heading("FIELDS");
        for change in &report.changes {
            push_change(&mut page, change);
        }
    }
    if !report.effects.is_empty() {
        page.push_heading("WHAT THE OPERATOR WOULD DO");
        for effect in &report.effects {
            let (mark, paint) = match effect.kind {
                EffectKind::Made => ("+", Paint::Good),
                EffectKind::Removed => ("-", Paint::Bad),
                EffectKind::Restart => ("!", Paint::Warn),
                EffectKind::Topic | EffectKind::Tables | EffectKind::InPlace => ("~", Paint::Plain),
            };
            let text = format!("{}: {}", effect.on, effect.text);
            page.push_wrapped(&format!("  {mark} "), "    ", &text, paint);
        }
    }
    for pending in &report.pending {
        let hash = pending.hash.as_ref().map(|hash| format!(" (spec.schema.approvedPlan: {hash})"));
        let schema = &pending.schema;
        let hash = hash.unwrap_or_default();
        page.push_heading(&format!("STATEMENTS ALREADY PENDING: TelemetrySchema {schema}{hash}"));
        for step in &pending.steps {
            page.push_wrapped("  ", "    ", step, Paint::Plain);
        }
    }
    if !report.not_covered.is_empty() {
        page.push_heading("NOT COVERED");
        for text in &report.not_covered {
            page.push_wrapped("  ", "    ", text, Paint::Dim);
        }
    }
    page.into_text()
}

fn push_change(page: &mut TextPage, change: &FieldChange) {
    let (before, after) =
        (change.before.as_ref().map(shorten_value), change.after.as_ref().map(shorten_value));
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
    page.push_wrapped("  ", "      ", &text, Paint::Plain);
}

fn shorten_value(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
