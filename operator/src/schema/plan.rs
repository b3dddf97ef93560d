//! Compares each server's tables with the declaration, and judges what is left when the plan has
//! run. Pure.

use millrace_crds::Reason;
use millrace_crds::v1alpha1::SchemaDifference;
use millrace_ddl as ddl;

use super::observe::{Observed, Server};

/// What is run without asking: only what adds.
pub(super) const PERMIT: ddl::Permit = ddl::Permit::ADDITIVE;

/// Differences and steps shown in a status; more help nobody.
const SHOWN_MAX: usize = 32;

/// The longest line of each, as the API allows.
const LINE_CHARS_MAX: usize = 250;

/// A plan for each server, in the servers' order; `None` for one that could not be read.
pub(super) struct Plan {
    pub(super) servers: Vec<Option<ddl::Plan>>,
}

/// Plans the way for each server.
pub(super) fn plan(observed: &Observed) -> Plan {
    let Observed { declared, servers } = observed;
    let one =
        |server: &Server| server.tables.as_ref().ok().map(|tables| ddl::plan(declared, tables));
    Plan { servers: servers.iter().map(one).collect() }
}

/// How the tables of all servers stand to their declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// `None`: nothing that matters differs.
    pub(super) trouble: Option<(Reason, String)>,
    /// Steps that are planned and not run.
    pub(super) pending: Vec<String>,
    /// Every difference, notices included.
    pub(super) drift: Vec<SchemaDifference>,
}

/// Judges what is left: the differences of each server, and the steps that were not run.
pub(super) fn judge(drift: &[ddl::Drift], refused: &[ddl::Step]) -> Standing {
    let mut pending: Vec<String> = refused
        .iter()
        .map(|step| line(&format!("{}: {} ({})", step.object, step.what, step.class)))
        .collect();
    pending.dedup();
    pending.truncate(SHOWN_MAX);
    let breaking = drift.iter().find(|each| each.severity == ddl::Severity::Breaking);
    let trouble = breaking.map(|first| {
        let reason = if pending.is_empty() { reason_of(first) } else { Reason::ConsentNeeded };
        (reason, first.to_string())
    });
    let mut shown: Vec<SchemaDifference> = Vec::new();
    for each in drift {
        let text = each.to_string();
        let difference = text.strip_prefix(&format!("{}: ", each.object)).unwrap_or(&text);
        let entry = SchemaDifference { table: each.object.clone(), difference: line(difference) };
        if shown.len() < SHOWN_MAX && !shown.contains(&entry) {
            shown.push(entry);
        }
    }
    Standing { trouble, pending, drift: shown }
}

/// The stable reason of a difference.
pub(super) fn reason_of(drift: &ddl::Drift) -> Reason {
    match drift.kind {
        ddl::DriftKind::MissingDatabase
        | ddl::DriftKind::MissingTable
        | ddl::DriftKind::MissingView => Reason::TableMissing,
        ddl::DriftKind::MissingColumn { .. } => Reason::TableColumnMissing,
        _ => Reason::TableDrifted,
    }
}

fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LINE_CHARS_MAX).collect()
}

/// Cuts what changes from attempt to attempt off a server's words: its version and query ids.
pub(super) fn stable(text: &str) -> String {
    let text = text.split(" (version ").next().unwrap_or(text);
    text.split(", query_id").next().unwrap_or(text).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drift(kind: ddl::DriftKind, severity: ddl::Severity) -> ddl::Drift {
        ddl::Drift { object: "otel.otel_traces".into(), kind, severity }
    }

    fn missing(column: &str) -> ddl::Drift {
        let kind =
            ddl::DriftKind::MissingColumn { column: column.into(), declared: "String".into() };
        drift(kind, ddl::Severity::Breaking)
    }

    /// Scenario: a column is missing, another is of somebody else. Guarantee: the missing one is
    /// the trouble, under its stable reason; both are told.
    #[test]
    fn a_missing_column_is_the_trouble_and_an_extra_one_is_told() {
        let extra = ddl::DriftKind::ExtraColumn { column: "x".into(), live: "String".into() };
        let standing =
            judge(&[drift(extra.clone(), ddl::Severity::Notice), missing("SpanId")], &[]);
        let (reason, message) = standing.trouble.unwrap();
        assert_eq!(reason, Reason::TableColumnMissing);
        assert!(message.contains("SpanId"), "{message}");
        assert_eq!(standing.drift.len(), 2);
        assert_eq!(standing.drift[1].table, "otel.otel_traces");
        assert!(!standing.drift[1].difference.starts_with("otel."));
        assert_eq!(judge(&[drift(extra, ddl::Severity::Notice)], &[]).trouble, None);
    }

    /// Scenario: a hundred differences, on two servers the same. Guarantee: the status stays small.
    #[test]
    fn a_status_shows_so_many_differences_and_no_more() {
        let many: Vec<_> = (0..100).map(|at| missing(&format!("c{at}"))).collect();
        assert_eq!(judge(&many, &[]).drift.len(), SHOWN_MAX);
        assert_eq!(judge(&[missing("c"), missing("c")], &[]).drift.len(), 1);
    }
}
