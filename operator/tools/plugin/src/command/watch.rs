//! `status`, `why`, `lag`, `top`: read-only commands.

use serde_json::json;

use super::{CommandOutput, CommandSession, reading_depth};
use crate::args::{Named, StatusArgs, Watched};
use crate::error::Error;
use crate::facts::Facts;
use crate::gather::Depth;
use crate::{render, report};

/// Shows one screen for each pipeline.
pub(super) async fn run_status(
    session: &CommandSession,
    args: &StatusArgs,
) -> Result<CommandOutput, Error> {
    let CommandSession { cluster, palette, now, .. } = session;
    let found = cluster.read_pipelines(args.pipeline.as_deref(), args.all_namespaces).await?;
    let mut facts = Vec::new();
    for pipeline in found {
        facts.push(cluster.read_facts(pipeline, reading_depth(args.interval), now()).await);
    }
    let reports: Vec<_> = facts.iter().map(report::status_report).collect();
    let texts: Vec<String> =
        reports.iter().map(|report| render::render_status(report, *palette)).collect();
    let healthy = reports.iter().all(|report| report.healthy);
    let answer = CommandOutput::from_report(texts.join("\n"), &json!({"pipelines": reports}))?;
    Ok(CommandOutput { healthy, ..answer })
}

/// Shows the sizing decision.
pub(super) async fn run_why(
    session: &CommandSession,
    named: &Named,
) -> Result<CommandOutput, Error> {
    let facts = read_facts(session, named, Depth::Statuses).await?;
    let report = report::sizing_report(&facts).ok_or_else(|| {
        let causes = facts.gaps.iter().map(|gap| format!("{}: {}", gap.what, gap.why));
        let causes: Vec<String> = causes.collect();
        Error::Impossible(match causes.is_empty() {
            true => format!(
                "pipeline {} has no GatewayPool yet: `kubectl millrace status` shows why",
                facts.name()
            ),
            false => causes.join("; "),
        })
    })?;
    CommandOutput::from_report(render::render_sizing(&report, session.palette), &report)
}

/// Shows the lag of gateways.
pub(super) async fn run_lag(
    session: &CommandSession,
    args: &Watched,
) -> Result<CommandOutput, Error> {
    let facts = read_facts(session, &args.named, reading_depth(args.interval)).await?;
    let report = report::lag_report(&facts);
    let healthy = report.pool.as_ref().is_some_and(|pool| pool.within_bound);
    let answer = CommandOutput::from_report(render::render_lag(&report, session.palette), &report)?;
    Ok(CommandOutput { healthy, ..answer })
}

/// Shows the resource use of pods.
pub(super) async fn run_top(
    session: &CommandSession,
    args: &Watched,
) -> Result<CommandOutput, Error> {
    let facts = read_facts(session, &args.named, reading_depth(args.interval)).await?;
    let pods = report::pod_lines(&facts);
    let name = format!("{}/{}", facts.namespace(), facts.name());
    let text = render::render_top(&name, &pods, &facts.gaps, session.palette);
    let report = json!({
        "namespace": facts.namespace(),
        "name": facts.name(),
        "intervalSeconds": facts.interval_seconds,
        "pods": pods,
        "gaps": facts.gaps,
    });
    CommandOutput::from_report(text, &report)
}

/// Returns the facts of the selected pipeline.
pub(super) async fn read_facts(
    session: &CommandSession,
    named: &Named,
    depth: Depth,
) -> Result<Facts, Error> {
    let pipeline = session.cluster.read_pipeline(named.pipeline.as_deref()).await?;
    Ok(session.cluster.read_facts(pipeline, depth, (session.now)()).await)
}
