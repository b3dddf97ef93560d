//! How far gateways are behind.

use super::{Cell, Page, Paint, Palette, Table, ago, count, gaps, rate};
use crate::report::LagReport;

/// Partitions shown of a topic, the most behind first; JSON has all.
const PARTITIONS_MAX: usize = 12;

/// A pipeline's lag.
#[must_use]
pub fn lag(report: &LagReport, palette: Palette) -> String {
    let mut page = Page::new(palette);
    match &report.pool {
        Some(pool) => {
            let age = pool.seconds.map_or("of unknown age".to_owned(), ago);
            let (word, paint) = match pool.within_bound {
                true => ("within", Paint::Good),
                false => ("ABOVE", Paint::Bad),
            };
            let word = palette.paint(word, paint);
            page.line(&format!(
                "{}/{}: {} messages wait, the oldest {age}: {word} the bound of {}",
                report.namespace,
                report.name,
                count(pool.messages),
                ago(pool.bound_seconds)
            ));
        }
        None => page.line(&format!(
            "{}/{}: the operator has not observed the lag yet",
            report.namespace, report.name
        )),
    }
    for topic in &report.topics {
        let oldest = topic.seconds.map(|seconds| ago(seconds.round() as i64));
        let oldest = oldest.map(|age| format!(", the oldest {age}")).unwrap_or_default();
        page.heading(&format!(
            "{}: {} messages in {} partitions{oldest}",
            topic.topic,
            count(topic.messages),
            topic.partitions.len()
        ));
        let mut partitions: Vec<_> = topic.partitions.iter().collect();
        partitions.sort_by_key(|one| (std::cmp::Reverse(one.messages), one.partition));
        let mut table = Table::new(2);
        table.head(&[">PARTITION", ">MESSAGES", ">OLDEST", ">GROWTH", "POD"]);
        for one in partitions.iter().take(PARTITIONS_MAX) {
            let grows = one.growth_per_second.is_some_and(|growth| growth > 0.0);
            table.row(vec![
                Cell::number(Some(one.partition.to_string())),
                Cell::number(Some(count(one.messages))),
                Cell::number(one.seconds.map(|seconds| ago(seconds.round() as i64))),
                Cell::number(one.growth_per_second.map(rate)).painted(if grows {
                    Paint::Warn
                } else {
                    Paint::Plain
                }),
                Cell::of(&*one.pod),
            ]);
        }
        page.table(&table);
        let more = partitions.len().saturating_sub(PARTITIONS_MAX);
        if more > 0 {
            page.line(&format!("  and {more} partitions with less; -o json has all"));
        }
    }
    gaps(&mut page, &report.gaps);
    page.finish()
}
