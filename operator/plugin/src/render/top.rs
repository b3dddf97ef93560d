//! Pods with what they use.

use super::{Cell, Page, Paint, Palette, Table, bytes, count, gaps, rate};
use crate::facts::Gap;
use crate::report::PodLine;

/// A table of pods.
#[must_use]
pub fn top(name: &str, pods: &[PodLine<'_>], not_read: &[Gap], palette: Palette) -> String {
    let mut page = Page::new(palette);
    if pods.is_empty() {
        page.line(&format!("{name} has no pods"));
    } else {
        let mut table = Table::new(0);
        table.head(&[
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
            ">RESENT",
            ">RESTARTS",
        ]);
        for pod in pods {
            table.row(row(pod));
        }
        page.table(&table);
    }
    gaps(&mut page, not_read);
    page.finish()
}

fn row(line: &PodLine<'_>) -> Vec<Cell> {
    let pod = line.pod;
    let paint = if pod.ready { Paint::Plain } else { Paint::Bad };
    let full = line.budget_percent.is_some_and(|percent| percent >= 90);
    let resent = line.insert_retries_per_second.filter(|it| *it > 0.0);
    vec![
        Cell::of(&*pod.name).painted(paint),
        pod.role.as_str().into(),
        Cell::number(line.in_per_second.map(rate)),
        Cell::number(line.out_per_second.map(rate)),
        Cell::number(line.cpu_millicores.map(|it| format!("{it:.0}m"))),
        Cell::number(pod.cpu_limit.clone()),
        Cell::number(line.memory_bytes.map(bytes)),
        Cell::number(pod.memory_limit.clone()),
        Cell::number(line.budget_percent.map(|it| format!("{it} %"))).painted(if full {
            Paint::Warn
        } else {
            Paint::Plain
        }),
        Cell::number(line.buffered_on_disk.map(count)),
        Cell::number(resent.map(rate)),
        Cell::number(Some(pod.restarts.to_string())),
    ]
}
