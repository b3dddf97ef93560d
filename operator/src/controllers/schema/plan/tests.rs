//! Tests the private parts of `controllers/schema/plan.rs`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::super::validate::test_support::parse_schema;
use super::*;

const CONSENT: &str = "spec.consent";

fn drift(kind: ddl::DriftKind, severity: ddl::Severity) -> ddl::Drift {
    ddl::Drift { object: "otel.otel_traces".into(), kind, severity }
}

fn missing(column: &str) -> ddl::Drift {
    let kind = ddl::DriftKind::MissingColumn { column: column.into(), declared: "String".into() };
    drift(kind, ddl::Severity::Breaking)
}

fn left(drift: Vec<ddl::Drift>) -> RemainingSteps {
    RemainingSteps { drift, ..RemainingSteps::default() }
}

/// Returns a plan from an empty server, which creates everything.
fn first_plan(database: &str) -> ddl::MigrationPlan {
    let name = || database.parse().unwrap();
    let options = ddl::TableOptions::default();
    let declared = ddl::Declared::uniform(name(), name(), ddl::Signals::ALL, &options);
    ddl::plan_migration(&declared, &ddl::Observed::default())
}

fn object(changes: &str, approved: &str) -> TelemetrySchema {
    let text = "clickhouse: {endpoints: ['http://c:8123']}, signals: {traces: {}}";
    let mut object = parse_schema(&format!("{text}, changes: {changes}"));
    object.spec.approval.approved_plan = Some(approved.to_owned());
    object
}

/// Scenario: each policy, with no approval, another plan's, and this one's. Guarantee: Manual runs
/// nothing before exactly this plan is named; Automatic only additive steps; a named plan also
/// rewrites, by its own statements alone, and never destroys.
#[test]
fn a_plan_runs_as_far_as_policy_and_approval_go() {
    use ddl::StepClass::{MetadataOnly, Rewrite};
    let plan = first_plan("otel");
    let hash = plan.hash();
    let both = format!("0123456789ab, {hash}");
    // Of this plan, and of one for what the tables need by now: a step that adds, and one that
    // rewrites.
    let steps =
        [("otel", MetadataOnly), ("otel", Rewrite), ("now", MetadataOnly), ("now", Rewrite)];
    let steps = steps.map(|(of, class)| {
        let step = first_plan(of).steps.swap_remove(0);
        ddl::PlanStep { class, ..step }
    });
    for (changes, approved, expected) in [
        ("Automatic", "", [true, false, true, false]),
        ("Automatic", "0123456789ab", [true, false, true, false]),
        ("Automatic", &hash, [true, true, true, false]),
        ("Manual", "", [false; 4]),
        ("Manual", "0123456789ab", [false; 4]),
        ("Manual", &both, [true, true, false, false]),
    ] {
        let permit = permit_for(&object(changes, approved), &plan);
        let allowed = steps.each_ref().map(|step| permit.allows(step));
        assert_eq!(allowed, expected, "{changes} {approved}");
        let loss = ddl::Loss::Unagreed("otel.otel_traces.ttl".to_owned());
        assert!(!permit.allows(&ddl::PlanStep { loss, ..steps[0].clone() }));
    }
}

/// Scenario: a destructive and a rewriting step remain. Guarantee: the status reports what each
/// waits for, and names the plan.
#[test]
fn what_waits_says_for_what() {
    let mut step = first_plan("otel").steps[1].clone();
    step.class = ddl::StepClass::Destructive;
    step.loss = ddl::Loss::Unagreed("otel.otel_traces.ttl".to_owned());
    let mut waiting = left(vec![missing("SpanId")]);
    waiting.refused = vec![step.clone()];
    waiting.plans = vec!["b".into(), "a".into(), "b".into()];
    let standing = summarize_remaining(&waiting, CONSENT);
    assert_eq!(standing.trouble.unwrap().0, Reason::ConsentRequired);
    assert_eq!(standing.plan_hash.as_deref(), Some("a,b"));
    let advice = "list otel.otel_traces.ttl in spec.consent to allow it, or write a longer ttl";
    assert!(standing.pending[0].contains(advice), "{}", standing.pending[0]);
    step.loss = ddl::Loss::None;
    waiting.refused.push(step);
    assert_eq!(summarize_remaining(&waiting, CONSENT).waiting, Some(Reason::ApprovalRequired));
}

/// Scenario: the tables of a standalone object, and of a pipeline's. Guarantee: each waiting step
/// names the field that its user writes; the pipeline would overwrite the other one.
#[test]
fn consent_is_given_where_the_tables_are_declared() {
    let mut schema = object("Automatic", "");
    assert_eq!(consent_field(&schema), CONSENT);
    schema.metadata.owner_references = Some(vec![OwnerReference {
        kind: "TelemetryPipeline".to_owned(),
        ..OwnerReference::default()
    }]);
    assert_eq!(consent_field(&schema), "spec.schema.consent of the TelemetryPipeline");
}

/// Scenario: a drop has consent while a pool still runs an older collector. Guarantee: it waits
/// under its own reason, and names the pool.
#[test]
fn an_agreed_drop_waits_for_collectors() {
    let mut step = first_plan("otel").steps[1].clone();
    step.class = ddl::StepClass::Destructive;
    step.phase = ddl::Phase::Contract;
    step.loss = ddl::Loss::Agreed("otel.otel_traces.Old".to_owned());
    let mut waiting = left(Vec::new());
    waiting.refused = vec![step];
    waiting.outdated = Some("GatewayPool prod has not rolled out".to_owned());
    let standing = summarize_remaining(&waiting, CONSENT);
    assert_eq!(standing.waiting, Some(Reason::CollectorsOutdated));
    assert!(standing.pending[0].contains("waits: GatewayPool prod"), "{:?}", standing.pending);
    assert_eq!(standing.trouble, None);
}

/// Scenario: a column is missing, another is someone else's. Guarantee: the missing one is the
/// trouble, under its stable reason; both are reported.
#[test]
fn a_missing_column_is_the_trouble_and_an_extra_one_is_told() {
    let extra = ddl::DriftKind::ExtraColumn { column: "x".into(), live: "String".into() };
    let standing = summarize_remaining(
        &left(vec![drift(extra.clone(), ddl::Severity::Notice), missing("SpanId")]),
        CONSENT,
    );
    let (reason, message) = standing.trouble.unwrap();
    assert_eq!(reason, Reason::TableColumnMissing);
    assert!(message.contains("SpanId"), "{message}");
    assert_eq!(standing.drift.len(), 2);
    assert_eq!(standing.drift[1].table, "otel.otel_traces");
    assert!(!standing.drift[1].difference.starts_with("otel."));
    assert_eq!(
        summarize_remaining(&left(vec![drift(extra, ddl::Severity::Notice)]), CONSENT).trouble,
        None
    );
}

/// Scenario: a hundred differences, and one that two servers share. Guarantee: the status remains
/// small.
#[test]
fn a_status_shows_so_many_differences_and_no_more() {
    let many: Vec<_> = (0..100).map(|at| missing(&format!("c{at}"))).collect();
    assert_eq!(summarize_remaining(&left(many), CONSENT).drift.len(), SHOWN_MAX);
    assert_eq!(
        summarize_remaining(&left(vec![missing("c"), missing("c")]), CONSENT).drift.len(),
        1
    );
}
