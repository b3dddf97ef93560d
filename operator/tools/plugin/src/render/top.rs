//! Renders pods with their resource use.

use super::{
    Paint, Palette, TextCell, TextPage, TextTable, format_bytes, format_count, format_rate,
    push_gaps,
};
use crate::facts::Gap;
use crate::report::PodLine;

/// Renders a table of pods.
#[must_use]
pub fn render_top(name: &str, pods: &[PodLine<'_>], not_read: &[Gap], palette: Palette) -> String {
    let mut page = TextPage::new(palette);
    if pods.is_empty() {
        page.push_line(&format!("{name} has no pods: `kubectl millrace status` shows why"));
    } else {
        let mut table = TextTable::new(0);
        table.push_head(&[
            "POD",
            "ROLE",
            ">IN",
            ">OUT",
            ">CPU",
            ">LIMIT",
            ">MEMORY",
            ">LIMIT",
            ">BUDGET",
            ">ON DISK",
            ">RETRIES",
            ">RESTARTS",
        ]);
        for pod in pods {
            table.push_row(pod_row(pod));
        }
        page.push_table(&table);
    }
    push_gaps(&mut page, not_read);
    page.into_text()
}

fn pod_row(line: &PodLine<'_>) -> Vec<TextCell> {
    let pod = line.pod;
    let paint = if pod.ready { Paint::Plain } else { Paint::Bad };
    let full = line.budget_percent.is_some_and(|percent| percent >= 90);
    let resent = line.insert_retries_per_second.filter(|it| *it > 0.0);
    vec![
        TextCell::text(&*pod.name).with_paint(paint),
        pod.role.as_str().into(),
        TextCell::number(line.in_per_second.map(format_rate)),
        TextCell::number(line.out_per_second.map(format_rate)),
        TextCell::number(line.cpu_millicores.map(|it| format!("{it:.0}m"))),
        TextCell::number(pod.cpu_limit.clone()),
        TextCell::number(line.memory_bytes.map(format_bytes)),
        TextCell::number(pod.memory_limit.clone()),
        TextCell::number(line.budget_percent.map(|it| format!("{it} %"))).with_paint(if full {
            Paint::Warn
        } else {
            Paint::Plain
        }),
        TextCell::number(line.buffered_on_disk.map(format_count)),
        TextCell::number(resent.map(format_rate)),
        TextCell::number(Some(pod.restarts.to_string())),
    ]
}
