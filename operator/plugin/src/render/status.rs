//! The one screen.

use millrace_crds::v1alpha1::CoordinationStatus;

use super::{Cell, Page, Paint, Palette, Table, ago, bytes, count, gaps, rate};
use crate::report::{Finding, Path, PodLine, RolloutLine, Severity, StatusReport, Told};

/// A pipeline's screen.
#[must_use]
pub fn status(report: &StatusReport<'_>, palette: Palette) -> String {
    let mut page = Page::new(palette);
    head(&mut page, report);
    for path in &report.paths {
        draw(&mut page, path, report);
    }
    wrong(&mut page, &report.findings);
    changes(&mut page, &report.rollouts);
    coordination(&mut page, report.coordination);
    pods(&mut page, &report.pod_list);
    gaps(&mut page, &report.gaps);
    page.finish()
}

fn head(page: &mut Page, report: &StatusReport<'_>) {
    let palette = page.palette();
    let (word, paint) = match (&*report.ready, report.healthy) {
        ("True", true) => ("Ready", Paint::Good),
        ("True", false) => ("Ready, with losses", Paint::Warn),
        ("False", _) => ("NOT READY", Paint::Bad),
        _ => ("NOT KNOWN", Paint::Warn),
    };
    let name = palette.paint(&format!("{}/{}", report.namespace, report.name), Paint::Bold);
    let word = palette.paint(word, paint);
    let reason = palette.paint(&format!("({})", report.reason), Paint::Dim);
    page.line(&format!("TelemetryPipeline {name}  {word} {reason}"));
    let mut parts = Vec::new();
    parts.extend(report.pods.as_ref().map(|pods| format!("pods {pods}")));
    parts.extend(report.lag_seconds.map(|seconds| {
        let bound = report.lag_bound_seconds.map(|bound| format!(" (bound {})", ago(bound)));
        format!("lag {}{}", ago(seconds), bound.unwrap_or_default())
    }));
    parts.extend(report.schema_revision.as_ref().map(|it| format!("tables {it}")));
    parts.extend(report.image.as_ref().map(|image| format!("image {image}")));
    if !parts.is_empty() {
        page.wrapped("  ", "  ", &parts.join(", "), Paint::Plain);
    }
    for endpoint in &report.endpoints {
        page.line(&palette.paint(&format!("  clients send to {endpoint}"), Paint::Dim));
    }
}

fn draw(page: &mut Page, path: &Path, report: &StatusReport<'_>) {
    let over = report.interval_seconds.map(|seconds| format!(" (rates over {seconds:.0} s)"));
    page.heading(&format!("{}{}", path.signal, over.unwrap_or_default()));
    let mut table = Table::new(2);
    for edge in &path.edges {
        let mut told = flow(edge.in_per_second, edge.out_per_second, edge.held);
        let refused = edge.refused.filter(|count| *count > 0);
        told.push(match refused {
            Some(refused) => {
                let now = edge.refused_per_second.filter(|it| *it > 0.0).map(rate);
                let now = now.map(|now| format!(", {now} now")).unwrap_or_default();
                let why = edge.refused_reason.as_deref().unwrap_or("?");
                Cell::of(format!("refused {} ({why}){now}", count(refused))).painted(Paint::Warn)
            }
            None => Cell::of(edge.refused.map_or("", |_none| "refused 0")),
        });
        told.push(partial(edge.told));
        row(&mut table, "edge", &edge.pool, pods_cell(Some(&edge.pods)), told);
    }
    let topic = &path.topic;
    let mut told = vec![
        number(
            "waiting",
            topic.waiting_messages.map(|messages| format!("{} msg", count(messages))),
        ),
        number("oldest", topic.oldest_seconds.map(|seconds| ago(seconds.round() as i64))),
        Cell::default(),
    ];
    told.push(lost("lost", topic.lost_messages, "msg"));
    told.push(partial(topic.told));
    let partitions = topic.partitions.map(|it| format!("{it} parts"));
    row(&mut table, "topic", &topic.name, Cell::of(partitions.unwrap_or_default()), told);
    let gateway = &path.gateway;
    let mut told = flow(gateway.in_per_second, gateway.out_per_second, gateway.held);
    let mut letters = lost("dead letters", gateway.dead_letters, "");
    if let (Some(reason), true) = (&gateway.dead_letters_reason, gateway.dead_letters > 0) {
        let text = format!("dead letters {} ({reason})", count(gateway.dead_letters));
        letters = Cell::of(text).painted(Paint::Warn);
    }
    told.push(letters);
    told.push(partial(gateway.told));
    let pool = gateway.pool.as_deref().unwrap_or("?");
    row(&mut table, "gateway", pool, pods_cell(gateway.pods.as_deref()), told);
    let revision = path.tables.revision.as_deref();
    let revision = revision.map_or("not verified".to_owned(), |it| format!("revision {it}"));
    table.row(vec!["table".into(), Cell::of(&*path.tables.name), "".into(), Cell::of(revision)]);
    page.table(&table);
}

fn row(table: &mut Table, hop: &str, name: &str, pods: Cell, told: Vec<Cell>) {
    let mut cells = vec![hop.into(), name.into(), pods];
    cells.extend(told);
    table.row(cells);
}

fn flow(taken: Option<f64>, passed: Option<f64>, held: Option<u64>) -> Vec<Cell> {
    vec![
        number("in", taken.map(rate)),
        number("out", passed.map(rate)),
        number("held", held.map(count)),
    ]
}

fn number(word: &str, value: Option<String>) -> Cell {
    Cell::of(value.map(|value| format!("{word} {value}")).unwrap_or_else(|| format!("{word} ?")))
}

/// Sums that lack pods say so.
fn partial(told: Told) -> Cell {
    let text = format!("({} of {} pods told)", told.answered, told.pods);
    Cell::of(if told.is_partial() { text } else { String::new() }).painted(Paint::Warn)
}

fn lost(word: &str, number: i64, unit: &str) -> Cell {
    let text = format!("{word} {} {unit}", count(number)).trim_end().to_owned();
    match number > 0 {
        true => Cell::of(text).painted(Paint::Bad),
        false => Cell::of(text),
    }
}

fn pods_cell(pods: Option<&str>) -> Cell {
    let Some(pods) = pods else { return Cell::of("?/?") };
    let full = pods.split_once('/').is_some_and(|(ready, wanted)| ready == wanted);
    Cell::of(pods).painted(if full { Paint::Good } else { Paint::Bad })
}

fn wrong(page: &mut Page, findings: &[Finding]) {
    if findings.is_empty() {
        page.heading("NOTHING IS WRONG");
        return;
    }
    page.heading("WHAT IS WRONG");
    for one in findings {
        let (mark, paint) = match one.severity {
            Severity::Broken => ("x", Paint::Bad),
            Severity::Loss => ("!", Paint::Bad),
            Severity::Unknown => ("?", Paint::Warn),
            Severity::Advice => ("i", Paint::Warn),
        };
        let since = one.for_seconds.map(|seconds| format!(", for {}", ago(seconds)));
        let text = format!(
            "{} {}: {} is {}, {}{}",
            one.kind,
            one.name,
            one.condition,
            one.status,
            one.reason,
            since.unwrap_or_default()
        );
        page.wrapped(&format!("  {mark} "), "    ", &text, paint);
        page.wrapped("      ", "      ", &one.message, Paint::Plain);
        if let Some(remedy) = &one.remedy {
            let text = format!("{} ({})", remedy.text, remedy.section);
            page.wrapped("      -> ", "         ", &text, Paint::Bold);
        }
    }
}

fn changes(page: &mut Page, rollouts: &[RolloutLine]) {
    if rollouts.is_empty() {
        return;
    }
    page.heading("CHANGES");
    for line in rollouts {
        let since = line.for_seconds.map(|seconds| format!(", for {}", ago(seconds)));
        let held = line.annotation.as_ref().map(|word| format!(", annotation {word}"));
        let text = format!(
            "{} {}: {} {}{}{}",
            line.kind,
            line.pool,
            line.stage,
            line.reason,
            since.unwrap_or_default(),
            held.unwrap_or_default()
        );
        page.wrapped("  ", "    ", &text, Paint::Warn);
    }
    page.line("  kubectl millrace rollout status has the figures");
}

fn coordination(page: &mut Page, status: Option<&CoordinationStatus>) {
    let Some(status) = status else { return };
    page.heading("COORDINATION");
    let told = |word: &str, value: Option<&String>| value.map(|it| format!("{word} {it}"));
    let figure = |word: &str, value: Option<i64>| value.map(|it| format!("{word} {it}"));
    let parts = [
        told("servers", status.servers.as_ref()),
        told("leader", status.leader.as_ref()),
        told("ClickHouse sessions", status.sessions.as_ref()),
        figure("requests waiting", status.outstanding_requests),
        figure("requests for a million rows", status.requests_per_million_rows),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    page.wrapped("  ", "    ", &parts.join(", "), Paint::Plain);
    if status.tables.is_empty() {
        return;
    }
    let mut table = Table::new(2);
    table.head(&["TABLE", ">REQUESTS/M ROWS", ">REQUESTS/PART", ">ROWS/PART"]);
    let cell = |value: Option<i64>| Cell::number(value.map(count));
    for load in &status.tables {
        table.row(vec![
            Cell::of(&*load.table),
            cell(load.requests_per_million_rows),
            cell(load.requests_per_part),
            cell(load.rows_per_part),
        ]);
    }
    page.table(&table);
}

fn pods(page: &mut Page, lines: &[PodLine<'_>]) {
    if lines.is_empty() {
        return;
    }
    page.heading("PODS");
    let mut table = Table::new(2);
    table.head(&["NAME", "STATE", ">RESTARTS", ">IN", ">OUT", ">MEMORY", ">CPU", "NODE"]);
    for line in lines {
        let pod = line.pod;
        let (state, paint) = match (pod.ready, &*pod.state) {
            (true, "Running") => ("Ready".to_owned(), Paint::Good),
            (false, "Running") => ("not ready".to_owned(), Paint::Bad),
            (_, other) => (other.to_owned(), Paint::Bad),
        };
        let restarts = Cell::number(Some(pod.restarts.to_string()));
        table.row(vec![
            Cell::of(&*pod.name),
            Cell::of(state).painted(paint),
            restarts.painted(if pod.restarts > 0 { Paint::Warn } else { Paint::Plain }),
            Cell::number(line.in_per_second.map(rate)),
            Cell::number(line.out_per_second.map(rate)),
            Cell::number(line.memory_bytes.map(bytes)),
            Cell::number(line.cpu_millicores.map(|it| format!("{it:.0}m"))),
            Cell::of(pod.node.as_deref().unwrap_or("-")),
        ]);
    }
    page.table(&table);
    for pod in lines.iter().map(|line| line.pod).filter(|pod| pod.restarts > 0) {
        if let Some(ended) = &pod.ended {
            page.wrapped("  ", "    ", &format!("{} ended last by {ended}", pod.name), Paint::Warn);
        }
    }
}
