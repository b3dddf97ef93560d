//! `logs`: the last lines of a pipeline's pods, by role and pool.

use serde_json::json;

use super::watch::read_facts;
use super::{CommandOutput, CommandSession};
use crate::args::{LogsArgs, RoleArg};
use crate::error::{Error, error_chain};
use crate::facts::{Gap, Role};
use crate::gather::{Depth, Logs};
use crate::render::{Paint, TextPage, push_gaps, sanitize_text};

/// Runs the command.
pub(super) async fn run(session: &CommandSession, args: &LogsArgs) -> Result<CommandOutput, Error> {
    let facts = read_facts(session, &args.named, Depth::Pods).await?;
    let role = args.role.map(|role| match role {
        RoleArg::Edge => Role::Edge,
        RoleArg::Gateway => Role::Gateway,
    });
    let mut chosen = facts.pods.clone();
    chosen.retain(|pod| role.is_none_or(|role| pod.role == role));
    chosen.retain(|pod| args.pool.as_ref().is_none_or(|pool| pod.pool == *pool));
    chosen.sort_by(|a, b| (a.role, &a.name).cmp(&(b.role, &b.name)));
    if chosen.is_empty() && facts.gaps.is_empty() {
        return Err(Error::Impossible(format!(
            "pipeline {} has no such pods: `kubectl millrace status` lists them",
            facts.name()
        )));
    }
    let part = Logs { lines: args.lines, previous: args.previous, since_seconds: args.since };
    let mut page = TextPage::new(session.palette);
    let mut pods = Vec::new();
    let mut not_read = facts.gaps.clone();
    for pod in &chosen {
        match session.cluster.read_log(facts.namespace(), &pod.name, part).await {
            Ok(text) => {
                let head = format!("==> {} ({}) <==", pod.name, pod.role.as_str());
                page.push_line(&session.palette.paint(&head, Paint::Bold));
                let lines: Vec<String> = text.lines().map(sanitize_text).collect();
                lines.iter().for_each(|line| page.push_line(line));
                pods.push(json!({"name": pod.name, "role": pod.role, "lines": lines}));
            }
            Err(error) => {
                let what = format!("the log of pod {}", pod.name);
                not_read.push(Gap { what, why: error_chain(&error) });
            }
        }
    }
    push_gaps(&mut page, &not_read);
    let report = json!({"namespace": facts.namespace(), "name": facts.name(), "pods": pods,
                        "gaps": not_read});
    let healthy = not_read.is_empty();
    Ok(CommandOutput { healthy, ..CommandOutput::from_report(page.into_text(), &report)? })
}
