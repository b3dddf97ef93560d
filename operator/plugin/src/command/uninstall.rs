//! `uninstall --check`: reads all objects and says what would happen. It deletes nothing.

use serde::Serialize;

use super::{Answer, Session};
use crate::args::Uninstall;
use crate::error::{Error, chain};
use crate::facts::Gap;
use crate::gather::Kind;
use crate::{render, report};

/// Runs it.
pub(super) async fn run(session: &Session, args: &Uninstall) -> Result<Answer, Error> {
    let namespace = (!args.all_namespaces).then(|| session.cluster.namespace());
    let mut gaps = Vec::new();
    // Without pipelines there is nothing to say.
    let pipelines = session.cluster.list(namespace, "").await?;
    let installed = report::Installed {
        pipelines,
        topics: read(session, namespace, "topics", &mut gaps).await,
        schemas: read(session, namespace, "tables", &mut gaps).await,
        edges: read(session, namespace, "edge pools", &mut gaps).await,
        gateways: read(session, namespace, "gateway pools", &mut gaps).await,
        gaps,
    };
    let report = report::uninstall(&installed);
    let text = render::uninstall(&report, session.palette);
    Answer::of(text, &Report { namespace, report: &report })
}

#[derive(Serialize)]
struct Report<'a> {
    namespace: Option<&'a str>,
    #[serde(flatten)]
    report: &'a report::UninstallReport,
}

async fn read<K: Kind>(
    session: &Session,
    namespace: Option<&str>,
    what: &str,
    gaps: &mut Vec<Gap>,
) -> Vec<K> {
    session.cluster.list(namespace, "").await.unwrap_or_else(|error| {
        gaps.push(Gap { what: what.to_owned(), why: chain(&error) });
        Vec::new()
    })
}
