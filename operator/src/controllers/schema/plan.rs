//! Compares each server's tables with the declaration, and judges what remains after the plan.
//! Pure.

use millrace_crds::Reason;
use millrace_crds::v1alpha1::{ChangePolicy, SchemaDifference, TelemetrySchema};
use millrace_ddl as ddl;

use super::observe::{Observed, Server};

/// The annotation that lets a plan run: its value names the plan, or several between commas.
pub(super) const APPROVAL: &str = "millrace.dev/approve-plan";

/// Differences and steps shown in a status; more help nobody.
const SHOWN_MAX: usize = 32;

/// The longest line of each, as the API allows.
const LINE_CHARS_MAX: usize = 250;

/// A plan for each server, in the servers' order; `None` for one that could not be read.
pub(super) struct Plan {
    pub(super) servers: Vec<Option<ddl::Plan>>,
    /// A pool that may still run an older collector: until then nothing is taken away.
    pub(super) outdated: Option<String>,
}

/// Plans the way for each server.
pub(super) fn plan(observed: &Observed) -> Plan {
    let Observed { declared, servers, coordination: _ } = observed;
    let one =
        |server: &Server| server.tables.as_ref().ok().map(|tables| ddl::plan(declared, tables));
    Plan { servers: servers.iter().map(one).collect(), outdated: None }
}

/// What may run of a server's plan, except what waits for collectors; `None`: nothing before a
/// person approves it.
pub(super) fn permit(schema: &TelemetrySchema, plan: &ddl::Plan) -> Option<ddl::Permit> {
    let named = schema.metadata.annotations.as_ref().and_then(|all| all.get(APPROVAL));
    let hash = plan.hash();
    if named.is_some_and(|named| named.split(',').any(|each| each.trim() == hash)) {
        return Some(ddl::Permit::up_to(ddl::StepClass::Rewrite));
    }
    match schema.spec.changes.unwrap_or_default() {
        ChangePolicy::Automatic => Some(ddl::Permit::ADDITIVE),
        ChangePolicy::Manual => None,
    }
}

/// How the tables of all servers compare with their declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// `None`: nothing that matters differs.
    pub(super) trouble: Option<(Reason, String)>,
    /// Steps that are planned and not run.
    pub(super) pending: Vec<String>,
    /// Names of the plans that wait, between commas.
    pub(super) plan_hash: Option<String>,
    /// Why steps wait.
    pub(super) waiting: Option<Reason>,
    /// What no statement mends, with advice.
    pub(super) blocked: Option<String>,
    /// Every difference, notices included.
    pub(super) drift: Vec<SchemaDifference>,
}

/// What remains on all servers that could be read.
#[derive(Default)]
pub(super) struct Left {
    pub(super) drift: Vec<ddl::Drift>,
    pub(super) refused: Vec<ddl::Step>,
    pub(super) blocked: Vec<ddl::Blocked>,
    /// Names of the plans that wait.
    pub(super) plans: Vec<String>,
    /// A pool that may still run an older collector.
    pub(super) outdated: Option<String>,
}

/// Judges what is left.
pub(super) fn judge(left: &Left) -> Standing {
    let Left { drift, refused, blocked, plans, outdated } = left;
    let outdated = outdated.as_deref();
    let mut pending: Vec<String> =
        refused.iter().map(|step| waiting_step(step, outdated)).collect();
    pending.dedup();
    pending.truncate(SHOWN_MAX);
    let is_unagreed = |step: &ddl::Step| matches!(step.loss, ddl::Loss::Unagreed(_));
    let waiting = match refused.as_slice() {
        [] => None,
        steps if steps.iter().all(is_unagreed) => Some(Reason::ConsentNeeded),
        steps if steps.iter().all(|step| waits_for_collectors(step, outdated)) => {
            Some(Reason::CollectorsOutdated)
        }
        _ => Some(Reason::ApprovalNeeded),
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
        let entry = SchemaDifference { table: each.object.clone(), difference: line(difference) };
        if shown.len() < SHOWN_MAX && !shown.contains(&entry) {
            shown.push(entry);
        }
    }
    Standing { trouble, pending, plan_hash, waiting, blocked, drift: shown }
}

/// Whether a step waits only for a pool that may still run an older collector.
fn waits_for_collectors(step: &ddl::Step, outdated: Option<&str>) -> bool {
    outdated.is_some()
        && step.phase == ddl::Phase::Contract
        && matches!(step.loss, ddl::Loss::Agreed(_))
}

/// A step that waits, and what it waits for.
fn waiting_step(step: &ddl::Step, outdated: Option<&str>) -> String {
    let consent = match &step.loss {
        ddl::Loss::Unagreed(name) => format!("; name {name} in spec.consent"),
        ddl::Loss::Agreed(_) if waits_for_collectors(step, outdated) => {
            format!("; waits: {}", outdated.unwrap_or_default())
        }
        ddl::Loss::None | ddl::Loss::Agreed(_) => String::new(),
    };
    line(&format!("{}: {} ({}{consent})", step.object, step.what, step.class))
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

#[cfg(test)]
#[path = "../../../tests/unit/controllers/schema/plan.rs"]
mod tests;
