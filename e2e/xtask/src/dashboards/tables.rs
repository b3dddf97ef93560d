//! The dashboard that queries ClickHouse itself: state of tables, parts, merges and replicas. Its
//! queries are in `tables` next to this file; `e2e/tests/replicated/dashboard.rs` runs each on a
//! real engine.
//!
//! They read only `system` tables, so their cost does not depend on the number of rows.

use serde_json::{Value, json};

use super::{Head, Source, document};

/// Grafana's grid is 24 wide.
const WIDTH: usize = 24;
const HEIGHT: usize = 8;
/// Rates below are of minutes at least: parts come once a second from each gateway.
const INTERVAL: &str = "1m";
/// The macros and fields of queries are those of this version and later ones.
const PLUGIN_VERSION: &str = "4.0.0";

/// Databases with tables that keep rows.
const DATABASES: &str = include_str!("tables/databases.sql");

/// A part of the page.
struct Panel {
    title: &'static str,
    /// What it shows, and what to do when it looks bad.
    description: &'static str,
    shown: Shown,
    sql: &'static str,
}

/// How an answer is shown.
enum Shown {
    /// As rows, each number in a column of this name in Grafana's unit.
    Rows(&'static [(&'static str, &'static str)]),
    /// As curves in half of the page's width: time, name, value in Grafana's unit.
    Curves(&'static str),
}

/// The page's file name, and its JSON.
pub(super) fn page() -> (&'static str, Value) {
    let mut place = (0, 0);
    let panels = panels().iter().zip(1..).map(|(panel, id)| panel.json(id, &mut place)).collect();
    let head = Head {
        name: "tables",
        title: "Millrace / Tables",
        description: "The tables of one database, from the queried ClickHouse server: space, \
                      parts, merges, replicas, retention.",
        from: "now-6h",
    };
    (head.name, document(&head, Source::ClickHouse, vec![database()], panels))
}

fn source() -> Value {
    Source::ClickHouse.reference()
}

fn database() -> Value {
    json!({
        "name": "database", "label": "Database", "type": "query", "datasource": source(),
        "definition": DATABASES.trim_end(), "query": DATABASES.trim_end(),
        "includeAll": false, "multi": false, "refresh": 1, "sort": 1,
    })
}

impl Panel {
    /// Its JSON, at the next free place: columns, then lines of the grid.
    fn json(&self, id: usize, (x, y): &mut (usize, usize)) -> Value {
        let (kind, width, format, query_type) = match self.shown {
            Shown::Rows(_) => ("table", WIDTH, 1, "table"),
            Shown::Curves(_) => ("timeseries", WIDTH / 2, 0, "timeseries"),
        };
        if *x + width > WIDTH {
            (*x, *y) = (0, *y + HEIGHT);
        }
        let grid = json!({"x": *x, "y": *y, "w": width, "h": HEIGHT});
        *x += width;
        let (field_config, options) = self.shown.json();
        json!({
            "id": id,
            "type": kind,
            "title": self.title,
            "description": self.description,
            "datasource": source(),
            "gridPos": grid,
            "interval": INTERVAL,
            "fieldConfig": field_config,
            "options": options,
            "targets": [{
                "refId": "A", "datasource": source(), "editorType": "sql", "format": format,
                "queryType": query_type, "pluginVersion": PLUGIN_VERSION,
                "rawSql": self.sql.trim_end(),
            }],
        })
    }
}

impl Shown {
    fn json(&self) -> (Value, Value) {
        match self {
            Self::Rows(units) => {
                let overrides: Vec<Value> =
                    units.iter().map(|(column, unit)| in_unit(column, unit)).collect();
                let defaults = json!({"custom": {"filterable": true}});
                (
                    json!({"defaults": defaults, "overrides": overrides}),
                    json!({"showHeader": true, "cellHeight": "sm"}),
                )
            }
            Self::Curves(unit) => (
                json!({
                    "defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 8}},
                    "overrides": [],
                }),
                json!({"legend": {"displayMode": "list", "placement": "bottom"}}),
            ),
        }
    }
}

/// A column's unit; a share of a limit is a bar that turns yellow at a half, red at four fifths.
fn in_unit(column: &str, unit: &str) -> Value {
    let mut properties = vec![json!({"id": "unit", "value": unit})];
    if unit == LIMITED {
        properties[0] = json!({"id": "unit", "value": "percentunit"});
        let steps = json!([
            {"color": "green", "value": null}, {"color": "yellow", "value": 0.5},
            {"color": "red", "value": 0.8},
        ]);
        properties.extend([
            json!({"id": "min", "value": 0}),
            json!({"id": "max", "value": 1}),
            json!({"id": "thresholds", "value": {"mode": "absolute", "steps": steps}}),
            json!({"id": "custom.cellOptions", "value": {"type": "gauge", "mode": "basic"}}),
        ]);
    }
    json!({"matcher": {"id": "byName", "options": column}, "properties": properties})
}

/// Not one of Grafana's: a share of a limit.
const LIMITED: &str = "limited";

/// The panels, the ones that people look for first on top.
fn panels() -> Vec<Panel> {
    let mut all = tables_now();
    all.extend(over_time());
    all.extend(promises());
    all.extend(space());
    all.extend(troubles());
    all
}

/// State of the tables.
fn tables_now() -> Vec<Panel> {
    use Shown::Rows;
    vec![
        Panel {
            title: "Freshness",
            description: "Age of each table's newest row by its timestamp, and of the last written \
                          part. If a table ages while records flow, check its gateways' log.",
            shown: Rows(&[("Age", "s"), ("Last part written", "s")]),
            sql: include_str!("tables/freshness.sql"),
        },
        Panel {
            title: "Tables",
            description: "Ratio is uncompressed to compressed bytes.",
            shown: Rows(&[
                ("Rows", "short"),
                ("On disk", "bytes"),
                ("Bytes a row", "bytes"),
                ("Ratio", "none"),
            ]),
            sql: include_str!("tables/sizes.sql"),
        },
        Panel {
            title: "Parts of a partition",
            description: "The partitions with the most active parts, and the number at which \
                          ClickHouse rejects inserts (parts_to_throw_insert). It slows them down \
                          long before. If there are many, use larger batches or more merge \
                          threads.",
            shown: Rows(&[("Of that", LIMITED), ("Rows a part", "short")]),
            sql: include_str!("tables/parts.sql"),
        },
        Panel {
            title: "Merges",
            description: "Parts that wait for their first merge, and running merges. If the number \
                          only grows, merges fall behind inserts.",
            shown: Rows(&[("Longest", "s"), ("Bytes merged", "bytes"), ("Done", "percentunit")]),
            sql: include_str!("tables/merges.sql"),
        },
    ]
}

/// Inserts and merges over time.
fn over_time() -> Vec<Panel> {
    use Shown::Curves;
    vec![
        Panel {
            title: "Inserts",
            description: "Parts created by inserts: one for each batch and partition of a table. \
                          From system.part_log.",
            shown: Curves("cps"),
            sql: include_str!("tables/inserts.sql"),
        },
        Panel {
            title: "Rows of an insert",
            description: "The mean. Some thousands or more are good; many inserts of few rows make \
                          merges expensive. From system.part_log.",
            shown: Curves("short"),
            sql: include_str!("tables/insert_rows.sql"),
        },
        Panel {
            title: "Written",
            description: "Bytes written by inserts, merges, mutations and other replicas' parts. \
                          Merges divided by inserts is the write amplification. From \
                          system.part_log.",
            shown: Curves("Bps"),
            sql: include_str!("tables/written.sql"),
        },
        Panel {
            title: "Merge threads",
            description: "Busy threads on average. Near the pool's size (background_pool_size), \
                          merges fall behind. From system.part_log.",
            shown: Curves("short"),
            sql: include_str!("tables/merging.sql"),
        },
    ]
}

/// Guarantees of tables.
fn promises() -> Vec<Panel> {
    use Shown::Rows;
    vec![
        Panel {
            title: "Replicas",
            description: "This server's replica of each table. Read-only ones accept no inserts: \
                          check the condition CoordinationHealthy of the TelemetrySchema.",
            shown: Rows(&[("Delay", "s"), ("Oldest in queue", "s")]),
            sql: include_str!("tables/replicas.sql"),
        },
        Panel {
            title: "Deduplication",
            description: "Duration of a table's deduplication window at the highest insert rate of \
                          the selected time. Below five minutes, a retried insert may be stored \
                          twice: raise the window. From system.part_log.",
            shown: Rows(&[("Remembered for", "s")]),
            sql: include_str!("tables/deduplication.sql"),
        },
        Panel {
            title: "Retention",
            description: "Parts whose rows have all expired. The next TTL merge deletes them, \
                          within merge_with_ttl_timeout (4 hours).",
            shown: Rows(&[("Rows due", "short"), ("Bytes due", "bytes"), ("Overdue by", "s")]),
            sql: include_str!("tables/retention.sql"),
        },
    ]
}

/// Use of space.
fn space() -> Vec<Panel> {
    use Shown::Rows;
    vec![
        Panel {
            title: "Partitions",
            description: "Rows and bytes by partition (a day, unless layout.partitionBy is set), \
                          the newest first.",
            shown: Rows(&[("Rows", "short"), ("On disk", "bytes"), ("Ratio", "none")]),
            sql: include_str!("tables/days.sql"),
        },
        Panel {
            title: "Columns",
            description: "The 50 largest. Compact parts, which inserts create, store their columns \
                          together and are not counted here.",
            shown: Rows(&[
                ("On disk", "bytes"),
                ("Ratio", "none"),
                ("Of the table", "percentunit"),
            ]),
            sql: include_str!("tables/columns.sql"),
        },
    ]
}

/// Problems that a person must fix, and the server.
fn troubles() -> Vec<Panel> {
    use Shown::Rows;
    vec![
        Panel {
            title: "Detached parts",
            description: "Parts detached by ClickHouse or a user: their rows are not read. Broken \
                          parts of a replicated table were fetched again.",
            shown: Rows(&[("On disk", "bytes")]),
            sql: include_str!("tables/detached.sql"),
        },
        Panel {
            title: "Mutations",
            description: "Unfinished ones. Failed ones never end automatically: use KILL MUTATION.",
            shown: Rows(&[("Oldest", "s")]),
            sql: include_str!("tables/mutations.sql"),
        },
        Panel {
            title: "Disks",
            description: "Free: space available for inserts and merges.",
            shown: Rows(&[
                ("Size", "bytes"),
                ("Free", "bytes"),
                ("Kept free", "bytes"),
                ("Used", LIMITED),
            ]),
            sql: include_str!("tables/disks.sql"),
        },
        Panel {
            title: "Server",
            description: "The queried server; counts since its start. Delayed and rejected inserts \
                          are due to tables with too many parts.",
            shown: Rows(&[("Up for", "s")]),
            sql: include_str!("tables/server.sql"),
        },
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{DATABASES, Shown, panels};
    use crate::shell;

    /// The tables of `system` that a text names.
    fn system_tables(text: &str) -> BTreeSet<String> {
        let parts = text.split("system.").skip(1);
        let word = |c: char| c.is_ascii_lowercase() || c == '_';
        parts.map(|part| part.chars().take_while(|c| word(*c)).collect()).collect()
    }

    /// Scenario: every query. Guarantee: it reads `system` tables alone, is of the chosen database
    /// unless it is of the server, its columns in units are there, and no two panels share a query.
    #[test]
    fn queries_are_of_the_chosen_database() {
        let panels = panels();
        let all: BTreeSet<_> = panels.iter().map(|panel| panel.sql).collect();
        assert_eq!(all.len(), panels.len());
        for panel in &panels {
            let of_server = ["Disks", "Server"].contains(&panel.title);
            let chooses = panel.sql.contains("database = ${database:singlequote}");
            assert_eq!(chooses, !of_server, "{}", panel.title);
            let read = panel.sql.split("FROM ").skip(1).map(str::trim_start);
            for read in read {
                assert!(read.starts_with("system.") || read.starts_with('('), "{}", panel.title);
            }
            if let Shown::Rows(units) = panel.shown {
                for (column, _) in units {
                    let named = format!("AS \"{column}\"");
                    assert!(panel.sql.contains(&named), "{} has no {column}", panel.title);
                }
            }
        }
    }

    /// Scenario: the page for readers. Guarantee: the rights that it tells to give are for the tables
    /// that are read, and no others.
    #[test]
    fn the_page_names_the_rights() {
        let page = std::fs::read_to_string(shell::root().join("docs/dashboards.md")).unwrap();
        let grants = page.lines().filter(|line| line.starts_with("GRANT SELECT ON system."));
        let granted = system_tables(&grants.collect::<String>());
        let mut read = system_tables(DATABASES);
        read.extend(panels().iter().flat_map(|panel| system_tables(panel.sql)));
        assert_eq!(granted, read);
    }
}
