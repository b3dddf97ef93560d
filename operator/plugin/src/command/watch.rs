//! `status`, `why`, `lag`, `top`: they read and change nothing.

use serde_json::json;

use super::{Answer, Session, depth};
use crate::args::{Named, Status, Watched};
use crate::error::Error;
use crate::facts::Facts;
use crate::gather::Depth;
use crate::{render, report};

/// One screen for each pipeline.
pub(super) async fn status(session: &Session, args: &Status) -> Result<Answer, Error> {
    let Session { cluster, palette, now, .. } = session;
    let found = cluster.pipelines(args.pipeline.as_deref(), args.all_namespaces).await?;
    let mut facts = Vec::new();
    for pipeline in found {
        facts.push(cluster.facts(pipeline, depth(args.interval), now()).await);
    }
    let reports: Vec<_> = facts.iter().map(report::status).collect();
    let texts: Vec<String> =
        reports.iter().map(|report| render::status(report, *palette)).collect();
    let healthy = reports.iter().all(|report| report.healthy);
    let answer = Answer::of(texts.join("\n"), &json!({"pipelines": reports}))?;
    Ok(Answer { healthy, ..answer })
}

/// The sizing decision.
pub(super) async fn why(session: &Session, named: &Named) -> Result<Answer, Error> {
    let facts = facts(session, named, Depth::Statuses).await?;
    let report = report::sizing(&facts).ok_or_else(|| {
        let causes = facts.gaps.iter().map(|gap| format!("{}: {}", gap.what, gap.why));
        let causes: Vec<String> = causes.collect();
        Error::Impossible(match causes.is_empty() {
            true => format!(
                "pipeline {} has no GatewayPool yet: `kubectl millrace status` says why",
                facts.name()
            ),
            false => causes.join("; "),
        })
    })?;
    Answer::of(render::sizing(&report, session.palette), &report)
}

/// How far gateways are behind.
pub(super) async fn lag(session: &Session, args: &Watched) -> Result<Answer, Error> {
    let facts = facts(session, &args.named, depth(args.interval)).await?;
    let report = report::lag(&facts);
    let healthy = report.pool.as_ref().is_some_and(|pool| pool.within_bound);
    let answer = Answer::of(render::lag(&report, session.palette), &report)?;
    Ok(Answer { healthy, ..answer })
}

/// What pods use.
pub(super) async fn top(session: &Session, args: &Watched) -> Result<Answer, Error> {
    let facts = facts(session, &args.named, depth(args.interval)).await?;
    let pods = report::pod_lines(&facts);
    let name = format!("{}/{}", facts.namespace(), facts.name());
    let text = render::top(&name, &pods, &facts.gaps, session.palette);
    let report = json!({
        "namespace": facts.namespace(),
        "name": facts.name(),
        "intervalSeconds": facts.interval_seconds,
        "pods": pods,
        "gaps": facts.gaps,
    });
    Answer::of(text, &report)
}

/// The facts of the one pipeline that is meant.
pub(super) async fn facts(session: &Session, named: &Named, depth: Depth) -> Result<Facts, Error> {
    let pipeline = session.cluster.pipeline(named.pipeline.as_deref()).await?;
    Ok(session.cluster.facts(pipeline, depth, (session.now)()).await)
}
