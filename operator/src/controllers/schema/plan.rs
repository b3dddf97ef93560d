//! Compares each server's tables with the declaration, and judges what remains after the plan.
//! Pure.

use kube::Resource;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{ChangePolicy, SchemaDifference, TelemetryPipeline, TelemetrySchema};
use millrace_ddl as ddl;

use super::observe::{Observed, ServerTables};

/// A status shows so many differences and steps; more help no one.
const SHOWN_MAX: usize = 32;

/// The longest line of each, which the API's schema limits.
const LINE_CHARS_MAX: usize = 250;

/// Plans the steps for each server, in the servers' order; `None` for one that could not be read.
pub(super) fn plan_servers(observed: &Observed) -> Vec<Option<ddl::MigrationPlan>> {
    let Observed { declared, servers, coordination: _ } = observed;
    let one = |server: &ServerTables| {
        server.tables.as_ref().ok().map(|tables| ddl::plan_migration(declared, tables))
    };
    servers.iter().map(one).collect()
}

/// Returns what may run of a server's plan by policy and approval, if no collector delays it.
pub(super) fn permit_for(schema: &TelemetrySchema, plan: &ddl::MigrationPlan) -> ddl::Permit {
    let permit = match schema.spec.approval.changes.unwrap_or_default() {
        ChangePolicy::Automatic => ddl::Permit::ADDITIVE,
        ChangePolicy::Manual => ddl::Permit::NOTHING,
    };
    let named = schema.spec.approval.approved_plan.as_ref();
    let hash = plan.hash();
    match named.is_some_and(|named| named.split(',').any(|each| each.trim() == hash)) {
        true => permit.with_approved(plan),
        false => permit,
    }
}

/// Returns whether the plan only continues a migration that began with these statements and was not
/// finished. Whoever approved that approved the plan: it has another hash only because some of its
/// statements are done.
pub(super) fn continues_migration(plan: &ddl::MigrationPlan, begun: &[String]) -> bool {
    let is_unagreed = |step: &&ddl::PlanStep| matches!(step.loss, ddl::Loss::Unagreed(_));
    let mut steps = plan.steps.iter().filter(|step| !is_unagreed(step)).peekable();
    steps.peek().is_some()
        && steps.all(|step| begun.iter().any(|statement| statement == step.statement.sql()))
}

/// How the tables of all servers compare with their declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TablesComparison {
    /// The first difference that matters, if any.
    pub(super) trouble: Option<(Reason, String)>,
    /// Planned steps that were not run.
    pub(super) pending: Vec<String>,
    /// The comma-separated hashes of the waiting plans.
    pub(super) plan_hash: Option<String>,
    /// The reason for which steps wait.
    pub(super) waiting: Option<Reason>,
    /// Differences that no statement fixes, with advice.
    pub(super) blocked: Option<String>,
    /// All differences, including notices.
    pub(super) drift: Vec<SchemaDifference>,
}

/// The remaining differences and steps on all servers that could be read.
#[derive(Default)]
pub(super) struct RemainingSteps {
    pub(super) drift: Vec<ddl::Drift>,
    pub(super) refused: Vec<ddl::PlanStep>,
    pub(super) blocked: Vec<ddl::Blocked>,
    /// The hashes of the waiting plans.
    pub(super) plans: Vec<String>,
    /// A pool that may still run an older collector.
    pub(super) outdated: Option<String>,
}

/// Returns the field in which a person allows a destructive step. A pipeline's list replaces that
/// of its schema, so the pipeline's field is named where there is one.
pub(super) fn consent_field(schema: &TelemetrySchema) -> &'static str {
    let mut owners = schema.metadata.owner_references.iter().flatten();
    match owners.any(|owner| owner.kind == TelemetryPipeline::kind(&())) {
        true => "spec.schema.consent of the TelemetryPipeline",
        false => "spec.consent",
    }
}

/// Judges the remaining differences and steps.
pub(super) fn summarize_remaining(left: &RemainingSteps, consent_field: &str) -> TablesComparison {
    let RemainingSteps { drift, refused, blocked, plans, outdated } = left;
    let outdated = outdated.as_deref();
    let mut pending: Vec<String> =
        refused.iter().map(|step| waiting_step(step, outdated, consent_field)).collect();
    pending.dedup();
    pending.truncate(SHOWN_MAX);
    let is_unagreed = |step: &ddl::PlanStep| matches!(step.loss, ddl::Loss::Unagreed(_));
    let waiting = match refused.as_slice() {
        [] => None,
        steps if steps.iter().all(is_unagreed) => Some(Reason::ConsentRequired),
        steps if steps.iter().all(|step| waits_for_collectors(step, outdated)) => {
            Some(Reason::CollectorsOutdated)
        }
        _ => Some(Reason::ApprovalRequired),
    };
    let breaking = drift.iter().find(|each| each.severity == ddl::Severity::Breaking);
    let trouble =
        breaking.map(|first| (waiting.unwrap_or_else(|| reason_of(first)), first.to_string()));
    let blocked = blocked
        .iter()
        .find(|each| each.drift.severity == ddl::Severity::Breaking)
        .map(|each| format!("{}; {}", each.drift, each.advice));
    let mut plans = plans.clone();
    plans.sort_unstable();
    plans.dedup();
    let plan_hash = (!plans.is_empty() && !pending.is_empty()).then(|| plans.join(","));
    let mut shown: Vec<SchemaDifference> = Vec::new();
    for each in drift {
        let text = each.to_string();
        let difference = text.strip_prefix(&format!("{}: ", each.object)).unwrap_or(&text);
        let entry =
            SchemaDifference { table: each.object.clone(), difference: to_line(difference) };
        if shown.len() < SHOWN_MAX && !shown.contains(&entry) {
            shown.push(entry);
        }
    }
    TablesComparison { trouble, pending, plan_hash, waiting, blocked, drift: shown }
}

/// Returns whether a step waits only for a pool that may still run an older collector.
fn waits_for_collectors(step: &ddl::PlanStep, outdated: Option<&str>) -> bool {
    outdated.is_some()
        && step.phase == ddl::Phase::Contract
        && matches!(step.loss, ddl::Loss::Agreed(_))
}

/// Returns a waiting step, and what it waits for.
fn waiting_step(step: &ddl::PlanStep, outdated: Option<&str>, consent_field: &str) -> String {
    let consent = match &step.loss {
        ddl::Loss::Unagreed(name) if name.ends_with(".ttl") => {
            format!(
                "; list {name} in {consent_field} to allow it, or write a longer ttl or Forever"
            )
        }
        ddl::Loss::Unagreed(name) => format!("; list {name} in {consent_field} to allow it"),
        ddl::Loss::Agreed(_) if waits_for_collectors(step, outdated) => {
            format!("; waits: {}", outdated.unwrap_or_default())
        }
        ddl::Loss::None | ddl::Loss::Agreed(_) => String::new(),
    };
    to_line(&format!("{}: {} ({}{consent})", step.object, step.what, step.class))
}

pub(super) fn reason_of(drift: &ddl::Drift) -> Reason {
    match drift.kind {
        ddl::DriftKind::MissingDatabase
        | ddl::DriftKind::MissingTable
        | ddl::DriftKind::MissingView => Reason::TableMissing,
        ddl::DriftKind::MissingColumn { .. } => Reason::TableColumnMissing,
        _ => Reason::TableDrifted,
    }
}

fn to_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LINE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
