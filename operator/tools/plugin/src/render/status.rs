//! Renders a pipeline's status.

use millrace_crds::v1alpha1::{CoordinationStatus, RouteStatus, Signal};

use super::{
    Paint, Palette, TextCell, TextPage, TextTable, format_bytes, format_count, format_duration,
    format_plural, format_rate, push_gaps,
};
use crate::report::{
    Finding, PodLine, ProblemGroup, ReportingPods, RolloutLine, Severity, SignalPath, StatusReport,
    group_findings,
};

/// Renders one pipeline.
#[must_use]
pub fn render_status(report: &StatusReport<'_>, palette: Palette) -> String {
    let mut page = TextPage::new(palette);
    push_head(&mut page, report);
    for path in &report.paths {
        push_path(&mut page, path, report);
    }
    push_routes(&mut page, report.routes);
    push_findings(&mut page, &report.findings, report.documentation_url.as_deref());
    push_rollouts(&mut page, &report.rollouts);
    push_coordination(&mut page, report.coordination);
    push_pods(&mut page, &report.pod_list);
    push_gaps(&mut page, &report.gaps);
    page.into_text()
}

fn push_head(page: &mut TextPage, report: &StatusReport<'_>) {
    let palette = page.palette();
    let (word, paint) = match (&*report.ready, report.healthy) {
        ("True", true) => ("Ready", Paint::Good),
        ("True", false) => ("Ready, with losses", Paint::Warn),
        ("False", _) => ("NOT READY", Paint::Bad),
        _ => ("UNKNOWN", Paint::Warn),
    };
    let name = palette.paint(&format!("{}/{}", report.namespace, report.name), Paint::Bold);
    let word = palette.paint(word, paint);
    let reason = palette.paint(&format!("({})", report.reason), Paint::Dim);
    page.push_line(&format!("TelemetryPipeline {name}  {word} {reason}"));
    let mut parts = Vec::new();
    parts.extend(report.pods.as_ref().map(|pods| format!("pods {pods}")));
    parts.extend(report.lag_seconds.map(|seconds| {
        let bound =
            report.lag_bound_seconds.map(|bound| format!(" (bound {})", format_duration(bound)));
        format!("lag {}{}", format_duration(seconds), bound.unwrap_or_default())
    }));
    parts.extend(report.schema_revision.as_ref().map(|it| format!("tables {it}")));
    parts.extend(report.image.as_ref().map(|image| format!("image {image}")));
    if !parts.is_empty() {
        page.push_wrapped("  ", "  ", &parts.join(", "), Paint::Plain);
    }
    for endpoint in &report.endpoints {
        page.push_line(&palette.paint(&format!("  clients send to {endpoint}"), Paint::Dim));
    }
}

fn push_path(page: &mut TextPage, path: &SignalPath, report: &StatusReport<'_>) {
    let over = report.interval_seconds.map(|seconds| format!(" (rates over {seconds:.0} s)"));
    page.push_heading(&format!("{}{}", path.signal, over.unwrap_or_default()));
    let mut table = TextTable::new(2);
    for edge in &path.edges {
        let mut cells = flow_cells(edge.in_per_second, edge.out_per_second, edge.in_flight);
        let refused = edge.refused.filter(|count| *count > 0);
        cells.push(match refused {
            Some(refused) => {
                let now = edge.refused_per_second.filter(|it| *it > 0.0).map(format_rate);
                let now = now.map(|now| format!(", {now} now")).unwrap_or_default();
                let why = edge.refused_reason.as_deref().unwrap_or("?");
                TextCell::text(format!("rejected {} ({why}){now}", format_count(refused)))
                    .with_paint(Paint::Warn)
            }
            None => TextCell::text(edge.refused.map_or("", |_none| "rejected 0")),
        });
        cells.push(partial_cell(edge.reporting));
        push_hop(&mut table, "edge", &edge.pool, pods_cell(Some(&edge.pods)), cells);
    }
    let topic = &path.topic;
    let mut cells = vec![
        number_cell(
            "behind",
            topic.waiting_messages.map(|messages| format!("{} msg", format_count(messages))),
        ),
        number_cell(
            "oldest",
            topic.oldest_seconds.map(|seconds| format_duration(seconds.round() as i64)),
        ),
        TextCell::default(),
    ];
    cells.push(lost_cell("lost", topic.lost_messages, "msg"));
    cells.push(partial_cell(topic.reporting));
    let partitions = topic.partitions.map(|it| format_plural(it, "partition"));
    push_hop(
        &mut table,
        "topic",
        &topic.name,
        TextCell::text(partitions.unwrap_or_default()),
        cells,
    );
    let gateway = &path.gateway;
    let mut cells = flow_cells(gateway.in_per_second, gateway.out_per_second, gateway.in_flight);
    let mut dead_letters = lost_cell("dead letters", gateway.dead_letters, "");
    if let (Some(reason), true) = (&gateway.dead_letters_reason, gateway.dead_letters > 0) {
        let text = format!("dead letters {} ({reason})", format_count(gateway.dead_letters));
        dead_letters = TextCell::text(text).with_paint(Paint::Warn);
    }
    cells.push(dead_letters);
    cells.push(partial_cell(gateway.reporting));
    let pool = gateway.pool.as_deref().unwrap_or("?");
    push_hop(&mut table, "gateway", pool, pods_cell(gateway.pods.as_deref()), cells);
    let revision = path.tables.revision.as_deref();
    let revision = revision.map_or("not verified".to_owned(), |it| format!("revision {it}"));
    table.push_row(vec![
        "table".into(),
        TextCell::text(&*path.tables.name),
        "".into(),
        TextCell::text(revision),
    ]);
    page.push_table(&table);
}

fn push_hop(table: &mut TextTable, hop: &str, name: &str, pods: TextCell, figures: Vec<TextCell>) {
    let mut cells = vec![hop.into(), name.into(), pods];
    cells.extend(figures);
    table.push_row(cells);
}

fn flow_cells(accepted: Option<f64>, passed: Option<f64>, in_flight: Option<u64>) -> Vec<TextCell> {
    vec![
        number_cell("in", accepted.map(format_rate)),
        number_cell("out", passed.map(format_rate)),
        number_cell("in flight", in_flight.map(format_count)),
    ]
}

fn number_cell(word: &str, value: Option<String>) -> TextCell {
    TextCell::text(
        value.map(|value| format!("{word} {value}")).unwrap_or_else(|| format!("{word} ?")),
    )
}

/// Marks sums that lack pods.
fn partial_cell(reporting: ReportingPods) -> TextCell {
    let text = format!("({} of {} pods reported)", reporting.answered, reporting.pods);
    TextCell::text(if reporting.is_partial() { text } else { String::new() })
        .with_paint(Paint::Warn)
}

fn lost_cell(word: &str, number: i64, unit: &str) -> TextCell {
    let text = format!("{word} {} {unit}", format_count(number)).trim_end().to_owned();
    match number > 0 {
        true => TextCell::text(text).with_paint(Paint::Bad),
        false => TextCell::text(text),
    }
}

fn pods_cell(pods: Option<&str>) -> TextCell {
    let Some(pods) = pods else { return TextCell::text("?/?") };
    let full = pods.split_once('/').is_some_and(|(ready, desired)| ready == desired);
    TextCell::text(pods).with_paint(if full { Paint::Good } else { Paint::Bad })
}

/// Lists routes: what was routed since the pods started, and the lag of whoever reads the topic.
fn push_routes(page: &mut TextPage, routes: &[RouteStatus]) {
    if routes.is_empty() {
        return;
    }
    page.push_heading("ROUTES");
    let mut table = TextTable::new(2);
    table.push_head(&["STEP", "SIGNAL", "TOPIC", ">RECORDS", "CONSUMER", ">LAG"]);
    for route in routes {
        let consumer = route.consumer.as_ref();
        let consumer = consumer.map(|it| format!("{} {}/{}", it.kind, it.namespace, it.name));
        let lag = route.lag.as_ref();
        let seconds = lag.and_then(|lag| lag.seconds).map(format_duration);
        let is_late = lag.is_some_and(|lag| !lag.within_bound);
        table.push_row(vec![
            TextCell::text(&*route.step),
            TextCell::text(Signal::from(route.signal).as_str()),
            TextCell::text(&*route.topic),
            TextCell::number(route.records.map(format_count)),
            TextCell::text(consumer.unwrap_or_else(|| "-".to_owned())),
            TextCell::number(seconds).with_paint(if is_late { Paint::Bad } else { Paint::Plain }),
        ]);
    }
    page.push_table(&table);
    for RouteStatus { step, message, .. } in routes {
        if let Some(message) = message {
            page.push_wrapped("  ", "    ", &format!("{step}: {message}"), Paint::Warn);
        }
    }
}

fn push_findings(page: &mut TextPage, findings: &[Finding], book: Option<&str>) {
    if findings.is_empty() {
        page.push_heading("NO PROBLEMS");
        return;
    }
    page.push_heading("PROBLEMS");
    for ProblemGroup { objects, main: one } in group_findings(findings) {
        let (mark, paint) = match one.severity {
            Severity::Broken => ("x", Paint::Bad),
            Severity::Loss => ("!", Paint::Bad),
            Severity::Unknown => ("?", Paint::Warn),
            Severity::Advice => ("i", Paint::Warn),
        };
        let since = one.for_seconds.map(|seconds| format!(", for {}", format_duration(seconds)));
        let text = format!(
            "{}: {} is {}, {}{}",
            objects.join(", "),
            one.condition,
            one.status,
            one.reason,
            since.unwrap_or_default()
        );
        page.push_wrapped(&format!("  {mark} "), "    ", &text, paint);
        page.push_wrapped("      ", "      ", &one.message, Paint::Plain);
        if let Some(remedy) = &one.remedy {
            let text = format!("{} ({})", remedy.text, remedy.address(book));
            page.push_wrapped("      -> ", "         ", &text, Paint::Bold);
        }
    }
}

fn push_rollouts(page: &mut TextPage, rollouts: &[RolloutLine]) {
    if rollouts.is_empty() {
        return;
    }
    page.push_heading("ROLLOUTS");
    for line in rollouts {
        let since = line.for_seconds.map(|seconds| format!(", for {}", format_duration(seconds)));
        let held = line.action.map(|action| format!(", rolloutAction {}", action.as_str()));
        let text = format!(
            "{} {}: {} {}{}{}",
            line.kind,
            line.pool,
            line.stage,
            line.reason,
            since.unwrap_or_default(),
            held.unwrap_or_default()
        );
        page.push_wrapped("  ", "    ", &text, Paint::Warn);
    }
    page.push_line("  figures: kubectl millrace rollout status");
}

fn push_coordination(page: &mut TextPage, status: Option<&CoordinationStatus>) {
    let Some(status) = status else { return };
    page.push_heading("COORDINATION");
    let labeled = |word: &str, value: Option<&String>| value.map(|it| format!("{word} {it}"));
    let figure = |word: &str, value: Option<i64>| value.map(|it| format!("{word} {it}"));
    let parts = [
        labeled("servers", status.servers.as_ref()),
        labeled("leader", status.leader.as_ref()),
        labeled("ClickHouse sessions", status.sessions.as_ref()),
        figure("outstanding requests", status.outstanding_requests),
        figure("requests per million rows", status.requests_per_million_rows),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    page.push_wrapped("  ", "    ", &parts.join(", "), Paint::Plain);
    if status.tables.is_empty() {
        return;
    }
    let mut table = TextTable::new(2);
    table.push_head(&["TABLE", ">REQUESTS/M ROWS", ">REQUESTS/PART", ">ROWS/PART"]);
    let cell = |value: Option<i64>| TextCell::number(value.map(format_count));
    for load in &status.tables {
        table.push_row(vec![
            TextCell::text(&*load.table),
            cell(load.requests_per_million_rows),
            cell(load.requests_per_part),
            cell(load.rows_per_part),
        ]);
    }
    page.push_table(&table);
}

fn push_pods(page: &mut TextPage, lines: &[PodLine<'_>]) {
    if lines.is_empty() {
        return;
    }
    page.push_heading("PODS");
    let mut table = TextTable::new(2);
    table.push_head(&["NAME", "STATE", ">RESTARTS", ">IN", ">OUT", ">MEMORY", ">CPU", "NODE"]);
    for line in lines {
        let pod = line.pod;
        let (state, paint) = match (pod.ready, &*pod.state) {
            (true, "Running") => ("Ready".to_owned(), Paint::Good),
            (false, "Running") => ("not ready".to_owned(), Paint::Bad),
            (_, other) => (other.to_owned(), Paint::Bad),
        };
        let restarts = TextCell::number(Some(pod.restarts.to_string()));
        table.push_row(vec![
            TextCell::text(&*pod.name),
            TextCell::text(state).with_paint(paint),
            restarts.with_paint(if pod.restarts > 0 { Paint::Warn } else { Paint::Plain }),
            TextCell::number(line.in_per_second.map(format_rate)),
            TextCell::number(line.out_per_second.map(format_rate)),
            TextCell::number(line.memory_bytes.map(format_bytes)),
            TextCell::number(line.cpu_millicores.map(|it| format!("{it:.0}m"))),
            TextCell::text(pod.node.as_deref().unwrap_or("-")),
        ]);
    }
    page.push_table(&table);
    for pod in lines.iter().map(|line| line.pod).filter(|pod| pod.restarts > 0) {
        if let Some(ended) = &pod.ended {
            page.push_wrapped(
                "  ",
                "    ",
                &format!("{} last terminated: {ended}", pod.name),
                Paint::Warn,
            );
        }
    }
}
