//! The figures that reports and plots have, and how far rounds lie apart.

use serde_json::Value;

use super::matrix::Cell;
use super::record::Records;

/// The figures of a report: a heading, and how to find it in a round's result.
pub(crate) const FIGURES: [(&str, Find); 6] = [
    ("seconds", |result| all(result)["window_seconds"].as_f64()),
    ("operations/s", |result| all(result)["per_second"].as_f64()),
    ("p99 ms", |result| Some(all(result)["latency_us"]["99"].as_f64()? / 1e3)),
    ("server CPU s", |result| result["server_cpu_seconds"].as_f64()),
    ("server MiB", |result| Some(result["server_memory_bytes_max"].as_f64()? / 1_048_576.0)),
    // Of `inserts`: what one of them asks, as the servers counted it.
    ("requests each", |result| {
        let all = all(result);
        Some(all["requests"]["at_servers"].as_f64()? / all["operations"].as_f64()?)
    }),
];
pub(crate) type Find = fn(&Value) -> Option<f64>;

/// Least, median and most of some rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let half = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[half - 1], values[half]),
            _ => values[half],
        };
        Some(Self { least, median, most })
    }
}

fn all(result: &Value) -> &Value {
    let kinds = result["kinds"].as_array().map(Vec::as_slice).unwrap_or_default();
    kinds.iter().find(|kind| kind["kind"] == "all").unwrap_or(&Value::Null)
}

pub(crate) fn spreads(cell: &Cell, records: &Records) -> (usize, Vec<Option<Spread>>) {
    let name = cell.name();
    let of = |(_, find): &(&str, Find)| Spread::of(records.of(&name).filter_map(find).collect());
    (records.of(&name).count(), FIGURES.iter().map(of).collect())
}

/// Three digits are more than the spread of most rounds deserves.
pub(crate) fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: no round, one, an even number. Guarantee: nothing; itself; the middle of two.
    #[test]
    fn a_spread_has_the_middle_and_the_ends() {
        assert_eq!(Spread::of(Vec::new()), None);
        let of = |values: &[f64]| Spread::of(values.to_vec()).unwrap();
        assert_eq!(of(&[2.0]), Spread { least: 2.0, median: 2.0, most: 2.0 });
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), Spread { least: 1.0, median: 2.5, most: 4.0 });
    }
}
