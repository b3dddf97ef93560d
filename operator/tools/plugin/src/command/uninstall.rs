//! `uninstall --check`: reads all objects and reports the effects of removing Millrace. It deletes
//! nothing.

use serde::Serialize;

use super::{CommandOutput, CommandSession};
use crate::args::Uninstall;
use crate::error::{Error, error_chain};
use crate::facts::Gap;
use crate::gather::NamespacedKind;
use crate::{render, report};

/// Runs the command.
pub(super) async fn run(
    session: &CommandSession,
    args: &Uninstall,
) -> Result<CommandOutput, Error> {
    let namespace = (!args.all_namespaces).then(|| session.cluster.namespace());
    let mut gaps = Vec::new();
    // Without the pipelines no report is possible.
    let pipelines = session.cluster.list(namespace, "").await?;
    let installed = report::Installed {
        pipelines,
        topics: list_or_gap(session, namespace, "topics", &mut gaps).await,
        schemas: list_or_gap(session, namespace, "tables", &mut gaps).await,
        edges: list_or_gap(session, namespace, "edge pools", &mut gaps).await,
        gateways: list_or_gap(session, namespace, "gateway pools", &mut gaps).await,
        gaps,
    };
    let report = report::uninstall_report(&installed);
    let text = render::render_uninstall(&report, session.palette);
    CommandOutput::from_report(text, &UninstallOutput { namespace, report: &report })
}

#[derive(Serialize)]
struct UninstallOutput<'a> {
    namespace: Option<&'a str>,
    #[serde(flatten)]
    report: &'a report::UninstallReport,
}

async fn list_or_gap<K: NamespacedKind>(
    session: &CommandSession,
    namespace: Option<&str>,
    what: &str,
    gaps: &mut Vec<Gap>,
) -> Vec<K> {
    session.cluster.list(namespace, "").await.unwrap_or_else(|error| {
        gaps.push(Gap { what: what.to_owned(), why: error_chain(&error) });
        Vec::new()
    })
}
