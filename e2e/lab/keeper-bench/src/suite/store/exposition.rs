//! A sample as Prometheus' text (1.0.0, with quoted names): what the collector scrapes. Made from
//! JSON alone.
//!
//! Every series is untyped, so all of them are gauges, and in one table. What `mntr` says in words
//! (`zk_server_state`) is a label `value` of a series that is 1.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

/// What of a sample is not `mntr`'s: its field, and the series' name.
const OWN: [(&str, &str); 3] = [
    ("second", "keeper_bench_round_seconds"),
    ("cpu_seconds", "keeper_bench_cpu_seconds"),
    ("memory_bytes", "keeper_bench_memory_bytes"),
];

/// One server at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    /// The labels of all its series: which server, of which round.
    labels: String,
    server: String,
    time_ms: u64,
    /// By name: further labels, and the number.
    values: BTreeMap<String, (String, String)>,
}

impl Point {
    /// None for a sample that doesn't say when it was taken.
    pub(crate) fn new(run: &str, sample: &Value) -> Option<Self> {
        let time_ms = sample["time_ms"].as_u64()?;
        let text = |name: &str| match &sample[name] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let labels = [("run", run.to_owned())]
            .into_iter()
            .chain(["cell", "repeat", "server"].map(|name| (name, text(name))))
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(&value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        let own = OWN.iter().filter_map(|(field, name)| {
            let number = sample[*field].as_f64()?;
            Some(((*name).to_owned(), (String::new(), number.to_string())))
        });
        let mntr = sample["mntr"].as_object().into_iter().flatten().filter_map(|(name, value)| {
            let value = value.as_str()?;
            Some((
                name.clone(),
                match value.parse::<f64>() {
                    Ok(_) => (String::new(), value.to_owned()),
                    Err(_) => (format!(",value=\"{}\"", escaped(value)), "1".to_owned()),
                },
            ))
        });
        let values = own.chain(mntr).collect();
        Some(Self { labels, server: text("server"), time_ms, values })
    }

    /// Which server of which round it is of. A scrape has one point of each.
    pub(crate) fn labels(&self) -> &str {
        &self.labels
    }

    /// What it is found by in a round: server, and milliseconds since 1970.
    pub(crate) fn key(&self) -> (&str, u64) {
        (&self.server, self.time_ms)
    }

    /// How many rows it becomes.
    pub(crate) fn names(&self) -> usize {
        self.values.len()
    }
}

/// A scrape's body. Lines of one name follow each other, as the format wants it.
pub(crate) fn body(points: &[Point]) -> String {
    let mut by_name: BTreeMap<&str, String> = BTreeMap::new();
    for Point { labels, time_ms, values, .. } in points {
        for (name, (more, number)) in values {
            let lines = by_name.entry(name).or_default();
            let _ = writeln!(lines, "{{\"{}\",{labels}{more}}} {number} {time_ms}", escaped(name));
        }
    }
    by_name.into_values().collect()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Scenario: two servers' samples, with numbers, words, a quote, a value that is missing, and
    /// one sample without a time. Guarantee: a line for each value, with its time, side by side by
    /// name; words are labels; what isn't known is left out.
    #[test]
    fn a_sample_is_a_line_for_each_value() {
        let sample = |server: u32| {
            json!({
                "cell": "a \"b\"", "repeat": 2, "server": server, "time_ms": 1_700_000_000_123_u64,
                "second": 1.5, "cpu_seconds": null, "memory_bytes": 7.0,
                "mntr": {"zk_avg_latency": "0.25", "zk_server_state": "leader"},
            })
        };
        let points: Vec<Point> =
            [0, 1].iter().filter_map(|server| Point::new("r", &sample(*server))).collect();
        assert_eq!(points[1].key(), ("1", 1_700_000_000_123));
        assert_eq!(points[1].names(), 4);
        let text = body(&points);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 8);
        let labels = r#"run="r",cell="a \"b\"",repeat="2",server="#;
        let at = "1700000000123";
        assert_eq!(lines[0], format!(r#"{{"keeper_bench_memory_bytes",{labels}"0"}} 7 {at}"#));
        assert_eq!(lines[1], format!(r#"{{"keeper_bench_memory_bytes",{labels}"1"}} 7 {at}"#));
        assert_eq!(lines[3], format!(r#"{{"keeper_bench_round_seconds",{labels}"1"}} 1.5 {at}"#));
        assert_eq!(lines[4], format!(r#"{{"zk_avg_latency",{labels}"0"}} 0.25 {at}"#));
        let leads = format!(r#"{{"zk_server_state",{labels}"0",value="leader"}} 1 {at}"#);
        assert_eq!(lines[6], leads);
        assert_eq!(Point::new("r", &json!({"cell": "a", "second": 1.0})), None);
    }
}
