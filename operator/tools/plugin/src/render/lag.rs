//! Renders the lag of gateways.

use super::{
    Paint, Palette, TextCell, TextPage, TextTable, format_count, format_duration, format_plural,
    format_rate, push_gaps,
};
use crate::report::LagReport;

/// Maximum partitions shown of a topic, the largest lag first; JSON has all.
const PARTITIONS_MAX: usize = 12;

/// Renders a pipeline's lag.
#[must_use]
pub fn render_lag(report: &LagReport, palette: Palette) -> String {
    let mut page = TextPage::new(palette);
    match &report.pool {
        Some(pool) => {
            let age = pool.seconds.map_or("of unknown age".to_owned(), format_duration);
            let (word, paint) = match pool.within_bound {
                true => ("within", Paint::Good),
                false => ("ABOVE", Paint::Bad),
            };
            let word = palette.paint(word, paint);
            page.push_line(&format!(
                "{}/{}: {} behind, the oldest {age}: {word} the bound of {}",
                report.namespace,
                report.name,
                format_plural(pool.messages, "message"),
                format_duration(pool.bound_seconds)
            ));
        }
        None => page.push_line(&format!(
            "{}/{}: the operator has not observed the lag yet",
            report.namespace, report.name
        )),
    }
    for topic in &report.topics {
        let oldest = topic.seconds.map(|seconds| format_duration(seconds.round() as i64));
        let oldest = oldest.map(|age| format!(", the oldest {age}")).unwrap_or_default();
        page.push_heading(&format!(
            "{}: {} in {}{oldest}",
            topic.topic,
            format_plural(topic.messages, "message"),
            format_plural(topic.partitions.len() as u64, "partition")
        ));
        let mut partitions: Vec<_> = topic.partitions.iter().collect();
        partitions.sort_by_key(|one| (std::cmp::Reverse(one.messages), one.partition));
        let mut table = TextTable::new(2);
        table.push_head(&[">PARTITION", ">MESSAGES", ">OLDEST", ">GROWTH", "POD"]);
        for one in partitions.iter().take(PARTITIONS_MAX) {
            let grows = one.growth_per_second.is_some_and(|growth| growth > 0.0);
            table.push_row(vec![
                TextCell::number(Some(one.partition.to_string())),
                TextCell::number(Some(format_count(one.messages))),
                TextCell::number(
                    one.seconds.map(|seconds| format_duration(seconds.round() as i64)),
                ),
                TextCell::number(one.growth_per_second.map(format_rate)).with_paint(if grows {
                    Paint::Warn
                } else {
                    Paint::Plain
                }),
                TextCell::text(&*one.pod),
            ]);
        }
        page.push_table(&table);
        let more = partitions.len().saturating_sub(PARTITIONS_MAX);
        if more > 0 {
            page.push_line(&format!(
                "  and {} with a smaller lag; -o json has all",
                format_plural(more as u64, "partition")
            ));
        }
    }
    push_gaps(&mut page, &report.gaps);
    page.into_text()
}
