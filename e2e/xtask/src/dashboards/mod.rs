//! Grafana dashboards as code: each is a list of panels ([`pages`]), written as the JSON that Grafana
//! reads into the chart. `cargo xtask codegen` writes them, a test compares, and `cluster/dashboards`
//! asks every query of a running Prometheus: no panel is empty.

mod pages;
mod query;

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

/// A page of Grafana.
struct Page {
    /// File name and part of the uid.
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// Whether its panels are of pools, which variables choose; otherwise of the operator.
    of_pools: bool,
    panels: Vec<Panel>,
}

/// A plot over time.
struct Panel {
    title: &'static str,
    /// What it shows, and what to do when it looks bad.
    description: &'static str,
    /// Grafana's name of the unit.
    unit: &'static str,
    queries: Vec<Query>,
}

/// A line, or several by labels.
struct Query {
    expr: String,
    legend: &'static str,
}

/// An empty plot.
fn panel(title: &'static str, unit: &'static str) -> Panel {
    Panel { title, description: "", unit, queries: Vec::new() }
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
    pages::pages().into_iter().map(|page| {
        let text = serde_json::to_string_pretty(&page.json()).unwrap_or_default();
        (format!("{FOLDER}/{}.json", page.name), text + "\n")
    })
}

impl Page {
    fn json(&self) -> Value {
        let panels: Vec<Value> =
            self.panels.iter().enumerate().map(|(place, panel)| panel.json(place)).collect();
        let mut variables = vec![json!({
            "name": "datasource", "label": "Data source", "type": "datasource",
            "query": "prometheus", "current": {}, "hide": 0,
        })];
        if self.of_pools {
            let metric = "millrace_build_info";
            variables.push(variable("namespace", "Namespace", metric));
            let metric = "millrace_build_info{namespace=~\"$namespace\"}";
            variables.push(variable("pool", "Pool", metric));
        }
        json!({
            "uid": format!("millrace-{}", self.name),
            "title": self.title,
            "description": self.description,
            "tags": ["millrace"],
            "schemaVersion": SCHEMA_VERSION,
            "editable": true,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": variables},
            "links": [{
                "type": "dashboards", "tags": ["millrace"], "title": "Millrace", "asDropdown": true,
                "includeVars": true, "keepTime": true,
            }],
            "panels": panels,
        })
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
    json!({"type": "prometheus", "uid": "${datasource}"})
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

    fn json(&self, place: usize) -> Value {
        let targets = self.queries.iter().zip('A'..).map(|(query, id)| {
            let Query { expr, legend } = query;
            json!({
                "refId": id.to_string(), "datasource": source(), "editorMode": "code",
                "expr": expr, "legendFormat": legend, "range": true,
            })
        });
        json!({
            "id": place + 1,
            "type": "timeseries",
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
            "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
            "targets": targets.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{files, pages::pages};
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
                let chooses = expr.contains("namespace=~\"$namespace\",pool=~\"$pool\"");
                assert_eq!(chooses, page.of_pools, "{}: {expr}", page.name);
                let has_rate = expr.contains("rate(");
                assert_eq!(has_rate, expr.contains("[$__rate_interval]"), "{}: {expr}", page.name);
            }
        }
    }
}
