//! Renders an effective spec.

use serde_json::Value;

use super::{Paint, Palette, TextPage, format_plural};
use crate::report::{EffectiveField, EffectiveSpec};

/// Column at which the mark of a default begins, where the line is shorter.
const MARK_COLUMN: usize = 44;
const MARK: &str = "# default";
const INHERITED_MARK: &str = "# signals.defaults";

/// Renders each field on a line; defaults are marked.
#[must_use]
pub fn render_effective_spec(spec: &EffectiveSpec, palette: Palette) -> String {
    let mut page = TextPage::new(palette);
    let namespace = spec.namespace.iter().map(|it| format!("{it}/")).collect::<String>();
    let name = palette.paint(&format!("{namespace}{}", spec.name), Paint::Bold);
    let written = spec.fields.iter().filter(|it| it.value.is_some()).count();
    let written = format_plural(written as u64, "field");
    let defaults = spec.fields.iter().filter(|it| is_default(it)).count();
    page.push_line(&format!("{} {name}  {written} set, {defaults} by default", spec.kind));
    page.push_line("spec:");
    for field in &spec.fields {
        push_field(&mut page, field, palette);
    }
    page.into_text()
}

fn is_default(field: &EffectiveField) -> bool {
    !field.is_section && field.value.is_none()
}

fn push_field(page: &mut TextPage, field: &EffectiveField, palette: Palette) {
    let (name, depth) = &field.label;
    let indent = "  ".repeat(depth + 1);
    if field.is_section {
        page.push_line(&format!("{indent}{name}:"));
        return;
    }
    let text = match (&field.value, &field.default) {
        (Some(Value::String(text)), _) => text.clone(),
        (Some(value), _) => value.to_string(),
        (None, Some(default)) => default.clone(),
        (None, None) => "not set".to_owned(),
    };
    let line = format!("{indent}{name}: {text}");
    match is_default(field) {
        true => {
            let line = format!("{line:<MARK_COLUMN$} {MARK}");
            page.push_line(&palette.paint(&line, Paint::Dim));
        }
        false if field.inherited => {
            page.push_line(&format!("{line:<MARK_COLUMN$} {INHERITED_MARK}"));
        }
        false => page.push_line(&line),
    }
}
