//! Grafana dashboards as code: each is a list of panels ([`pages`], [`fleet`] and [`tables`]), written as
//! the JSON that Grafana reads into the chart. `cargo xtask codegen` writes them, a test compares, and
//! every query is asked of a running Prometheus (`cluster/dashboards`) or engine
//! (`replicated/dashboard`): no panel is empty.

mod fleet;
mod pages;
mod query;
mod tables;

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::shell;

const FOLDER: &str = "charts/millrace/dashboards";

/// Grafana's grid is 24 wide; two panels stand side by side.
const PANEL_WIDTH: usize = 12;
const PANEL_HEIGHT: usize = 8;
/// The schema that Grafana 10 writes; later ones migrate it when they load it.
const SCHEMA_VERSION: u32 = 38;

/// What tells a page from others.
struct Head {
    /// File name and part of the uid.
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// The time that it shows at first goes back so far.
    from: &'static str,
}

/// Where a page's answers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Prometheus,
    ClickHouse,
}

/// A page of Prometheus' metrics.
struct Page {
    head: Head,
    about: About,
    panels: Vec<Panel>,
}

/// What a page is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// Pools, which variables choose.
    Pools,
    /// Pools, by what the chart's rules record of them.
    Records,
    /// The operator.
    Operator,
}

/// A plot over time, or the values that are true now.
struct Panel {
    title: &'static str,
    /// What it shows, and what to do when it looks bad.
    description: &'static str,
    /// Grafana's name of the unit.
    unit: &'static str,
    queries: Vec<Query>,
    is_now: bool,
}

/// A line, or several by labels.
struct Query {
    expr: String,
    legend: &'static str,
}

/// An empty plot.
fn panel(title: &'static str, unit: &'static str) -> Panel {
    Panel { title, description: "", unit, queries: Vec::new(), is_now: false }
}

/// Writes all of them.
pub(crate) fn write() -> Result<()> {
    for (path, text) in files() {
        let path = shell::root().join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn files() -> impl Iterator<Item = (String, String)> {
    let mut all = pages::pages();
    all.insert(0, fleet::page());
    let of_metrics = all.into_iter().map(|page| (page.head.name, page.json()));
    of_metrics.chain([tables::page()]).map(|(name, page)| {
        let text = serde_json::to_string_pretty(&page).unwrap_or_default();
        (format!("{FOLDER}/{name}.json"), text + "\n")
    })
}

/// A page as Grafana reads it. Its first variable is the data source, which the chart may choose.
fn document(head: &Head, source: Source, variables: Vec<Value>, panels: Vec<Value>) -> Value {
    let mut all = vec![json!({
        "name": "datasource", "label": "Data source", "type": "datasource",
        "query": source.plugin(), "current": {}, "hide": 0,
    })];
    all.extend(variables);
    json!({
        "uid": format!("millrace-{}", head.name),
        "title": head.title,
        "description": head.description,
        "tags": ["millrace"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": true,
        "graphTooltip": 1,
        "refresh": source.refresh(),
        "time": {"from": head.from, "to": "now"},
        "templating": {"list": all},
        "links": [{
            "type": "dashboards", "tags": ["millrace"], "title": "Millrace", "asDropdown": true,
            "includeVars": true, "keepTime": true,
        }],
        "panels": panels,
    })
}

impl Source {
    /// Grafana's name of the plugin.
    const fn plugin(self) -> &'static str {
        match self {
            Self::Prometheus => "prometheus",
            Self::ClickHouse => "grafana-clickhouse-datasource",
        }
    }

    /// How often a page asks again. ClickHouse asks Keeper or ZooKeeper about each replicated table.
    const fn refresh(self) -> &'static str {
        match self {
            Self::Prometheus => "30s",
            Self::ClickHouse => "1m",
        }
    }

    /// The chosen source of that kind.
    fn reference(self) -> Value {
        json!({"type": self.plugin(), "uid": "${datasource}"})
    }
}

impl Page {
    fn json(&self) -> Value {
        let panels = self.panels.iter().enumerate().map(|(place, panel)| panel.json(place));
        let variables = match self.about {
            About::Operator => Vec::new(),
            About::Pools => {
                let metric = "millrace_build_info";
                let chosen = format!("{metric}{{namespace=~\"$namespace\"}}");
                vec![variable("namespace", "Namespace", metric), variable("pool", "Pool", &chosen)]
            }
            About::Records => vec![variable("namespace", "Namespace", fleet::NAMED_BY)],
        };
        document(&self.head, Source::Prometheus, variables, panels.collect())
    }
}

/// Values of a label, all of them chosen at first.
fn variable(name: &str, label: &str, metric: &str) -> Value {
    let query = format!("label_values({metric}, {name})");
    json!({
        "name": name, "label": label, "type": "query", "datasource": source(),
        "definition": query, "query": {"query": query, "refId": "values"},
        "includeAll": true, "multi": true, "allValue": ".*", "refresh": 2, "sort": 1,
        "current": {"text": ["All"], "value": ["$__all"]},
    })
}

fn source() -> Value {
    Source::Prometheus.reference()
}

impl Panel {
    const fn says(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    fn line(mut self, expr: String, legend: &'static str) -> Self {
        self.queries.push(Query { expr, legend });
        self
    }

    /// Shows the values of the end of the chosen time alone.
    const fn now(mut self) -> Self {
        self.is_now = true;
        self
    }

    fn json(&self, place: usize) -> Value {
        let targets = self.queries.iter().zip('A'..).map(|(query, id)| {
            let Query { expr, legend } = query;
            json!({
                "refId": id.to_string(), "datasource": source(), "editorMode": "code",
                "expr": expr, "legendFormat": legend, "range": !self.is_now,
                "instant": self.is_now,
            })
        });
        let options = match self.is_now {
            true => json!({"textMode": "value_and_name", "graphMode": "none"}),
            false => json!({"legend": {"displayMode": "list", "placement": "bottom"}}),
        };
        json!({
            "id": place + 1,
            "type": if self.is_now { "stat" } else { "timeseries" },
            "title": self.title,
            "description": self.description,
            "datasource": source(),
            "gridPos": {
                "x": place % 2 * PANEL_WIDTH, "y": place / 2 * PANEL_HEIGHT,
                "w": PANEL_WIDTH, "h": PANEL_HEIGHT,
            },
            "fieldConfig": {
                "defaults": {"unit": self.unit, "min": 0, "custom": {"fillOpacity": 8}},
                "overrides": [],
            },
            "options": options,
            "targets": targets.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{About, files, pages::pages};
    use crate::shell;

    /// Scenario: the dashboards in the chart. Guarantee: they are what this code writes, and no
    /// other file lies beside them.
    #[test]
    fn the_chart_has_what_the_code_writes() {
        let folder = shell::root().join(super::FOLDER);
        let there: BTreeSet<_> =
            folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        let written: BTreeSet<_> = files().map(|(path, _)| shell::root().join(path)).collect();
        assert_eq!(there, written, "run `cargo xtask codegen`");
        for (path, text) in files() {
            let committed = std::fs::read_to_string(shell::root().join(&path)).unwrap();
            assert!(committed == text, "{path} is out of date: run `cargo xtask codegen`");
        }
    }

    /// Scenario: all panels. Guarantee: queries of pools' pages choose by the variables, and rates
    /// follow the scrape interval.
    #[test]
    fn queries_follow_the_variables() {
        for page in pages() {
            for query in page.panels.iter().flat_map(|panel| &panel.queries) {
                let expr = &query.expr;
                let name = page.head.name;
                let chooses = expr.contains("namespace=~\"$namespace\",pool=~\"$pool\"");
                assert_eq!(chooses, page.about == About::Pools, "{name}: {expr}");
                let has_rate = expr.contains("rate(");
                assert_eq!(has_rate, expr.contains("[$__rate_interval]"), "{name}: {expr}");
            }
        }
    }
}
