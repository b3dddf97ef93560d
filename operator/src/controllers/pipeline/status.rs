//! Sums up the statuses of a pipeline's children; and publishes events for changes.
//!
//! A pipeline adds nothing to readiness: each of its conditions is a child's, about the child's
//! newest spec, and `Ready` needs all of them.

use millrace_crds::v1alpha1::{
    Engine, PerSignal, PipelineEdgeStatus, PipelineSignal, PodCount, TelemetryPipeline,
    TelemetryPipelineStatus,
};
use millrace_crds::{ConditionStatus, ConditionType, Reason};

use super::apply::{Edge, ReachedChildren};
use super::child::{Child, Fact};
use super::{routes, validate};
use crate::cluster::write_status;
use crate::context::Context;
use crate::error::{ReconcileStep, StepError};
use crate::report::conditions::{Conditions, RETRIES};
use crate::report::declared::conclude_conditions;

/// The conditions that make a pipeline ready, in the order in which they become true.
const REQUIRED: &[ConditionType] = &[
    ConditionType::SecretsFound,
    ConditionType::TopicsReady,
    ConditionType::SchemaReady,
    ConditionType::EdgeReady,
    ConditionType::GatewayReady,
    ConditionType::LagWithinBound,
];

/// Writes the status if it changed.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn report_status(
    context: &Context,
    pipeline: &TelemetryPipeline,
    reached: &ReachedChildren,
    outcome: &Result<(), StepError>,
) -> Result<(), StepError> {
    write_changes(context, pipeline, |conditions, status| match outcome {
        Err(invalid) if invalid.step == ReconcileStep::Validate => {
            state_all_false(conditions, invalid.reason, &invalid.cause());
        }
        Err(failure) => state_facts(conditions, reached, Some(failure)),
        Ok(()) => {
            state_facts(conditions, reached, None);
            fill_status(status, reached, pipeline.spec.edges.is_empty());
            status.routes = routes::report_routes(context, pipeline, &reached.edges);
        }
    })
    .await
}

/// Reports that the pipeline is being deleted and waits until the child `first` is deleted.
///
/// # Errors
/// As [`report_status`].
pub(super) async fn report_deletion(
    context: &Context,
    pipeline: &TelemetryPipeline,
    first: &str,
) -> Result<(), StepError> {
    write_changes(context, pipeline, |conditions, _| {
        let message = format!(
            "waiting until {first} is deleted; deletionPolicy: Retain \
             stops the deletion of the remaining topics and tables"
        );
        state_all_false(conditions, Reason::Waiting, &message);
        conditions.set_true(ConditionType::Progressing, Reason::Waiting, message);
    })
    .await
}

/// Writes the status with the changes that `change` makes and with what follows from the spec.
async fn write_changes(
    context: &Context,
    pipeline: &TelemetryPipeline,
    change: impl FnOnce(&mut Conditions, &mut TelemetryPipelineStatus),
) -> Result<(), StepError> {
    let before = pipeline.status.clone().unwrap_or_default();
    let mut conditions =
        Conditions::new(&before.conditions, pipeline.metadata.generation, context.clock.now());
    let mut status = TelemetryPipelineStatus {
        observed_generation: pipeline.metadata.generation,
        attributes: validate::resolve_attributes(pipeline).ok().or(before.attributes),
        documentation_url: context.docs_url.clone(),
        ..before
    };
    change(&mut conditions, &mut status);
    status.retention = Some(describe_retention(&pipeline.spec.signals.with_defaults()));
    conclude_conditions(&mut conditions, pipeline, REQUIRED);
    write_status(context, pipeline, pipeline.status.as_ref(), &status, conditions).await?;
    Ok(())
}

/// Returns the retention of each signal's tables, as `traces 30d, logs Forever, metrics not
/// stored`.
fn describe_retention(signals: &PerSignal<PipelineSignal>) -> String {
    let of_signals = signals.iter().filter_map(|(signal, is)| {
        if is.table.engine() == Engine::Null {
            return Some(format!("{} not stored", signal.as_str()));
        }
        let ttl = is.table.ttl.as_ref()?;
        Some(format!("{} {ttl}", signal.as_str()))
    });
    of_signals.collect::<Vec<_>>().join(", ")
}

/// Sets all conditions to false: children don't have the spec yet, or are being deleted.
fn state_all_false(conditions: &mut Conditions, reason: Reason, message: &str) {
    for type_ in REQUIRED {
        conditions.set_false(*type_, reason, message);
    }
    conditions.set_progress((false, reason == Reason::SpecInvalid), reason, message);
}

/// Sums up the children; those that were not reached because of `failure` retain their last report.
fn state_facts(
    conditions: &mut Conditions,
    reached: &ReachedChildren,
    failure: Option<&StepError>,
) {
    let ReachedChildren { topics, schema, edges, gateway, edges_declared, .. } = reached;
    let all: Vec<&Child> = all_reached(reached).collect();
    let ready = ConditionType::Ready;
    let condition_of = |child: &Option<Child>, type_| {
        child.as_ref().map_or_else(|| unreached_fact(failure), |child| child.current_fact(type_))
    };
    // The schema is applied after all topics.
    let rest = schema.is_none().then(|| unreached_fact(failure));
    let topics = topics.iter().map(|topic| topic.current_fact(ready)).chain(rest);
    let rest = (edges.len() < *edges_declared).then(|| unreached_fact(failure));
    let edges = edges.iter().map(|edge| edge.child.current_fact(ready)).chain(rest);
    let pods = condition_of(gateway, ConditionType::PodsReady);
    let lag = condition_of(gateway, ConditionType::LagWithinBound);
    let unseen_secrets = failure.filter(|_| gateway.is_none()).map(|it| unreached_fact(Some(it)));
    let summed = [
        (ConditionType::SecretsFound, secrets_fact(&all, unseen_secrets), "every Secret exists"),
        (ConditionType::TopicsReady, first_failing(topics), "all topics are ready"),
        (
            ConditionType::SchemaReady,
            condition_of(schema, ready),
            "the tables have the desired revision",
        ),
        (ConditionType::EdgeReady, first_failing(edges), "all edge pods are updated and available"),
        (ConditionType::GatewayReady, pods, "all gateway pods are updated and available"),
        (ConditionType::LagWithinBound, lag, "lag is within its bound"),
    ];
    let mut waiting = None;
    for (type_, fact, good) in summed {
        let message = if fact.is_true() { good.to_owned() } else { fact.message.clone() };
        conditions.state_condition(type_, fact.status, fact.reason, message);
        if !fact.is_true() && waiting.is_none() {
            waiting = Some(fact);
        }
    }
    if let Some(schema) = schema {
        state_coordination(conditions, schema);
    }
    if let Some(gateway) = gateway {
        state_history(conditions, gateway);
    }
    if failure.is_none() {
        state_logs_lost(conditions, &reached.edges);
    }
    let stalled =
        all.iter().find(|child| child.is_stalled()).map(|child| child.current_fact(ready));
    let refused = failure.filter(|failure| failure.category.needs_a_person());
    let stalled = stalled.or_else(|| refused.map(|failure| unreached_fact(Some(failure))));
    match failure.filter(|_| stalled.is_none()) {
        Some(failure) => conditions.set_progress((true, false), failure.reason, RETRIES),
        None => state_progress(conditions, waiting, stalled),
    }
}

/// Sets the gateway's losses and dead letters. A pool that doesn't exist yet has none, like a new
/// one.
fn state_history(conditions: &mut Conditions, gateway: &Child) {
    for (type_, none) in [
        (ConditionType::DataLost, Reason::NoDataLost),
        (ConditionType::DeadLettersPresent, Reason::NoDeadLetters),
        (ConditionType::DeduplicationAtRisk, Reason::DeduplicationWindowSufficient),
    ] {
        match gateway.lasting_fact(type_).filter(|fact| fact.reason != none) {
            Some(fact) => conditions.state_condition(type_, fact.status, fact.reason, fact.message),
            None => conditions.set_false(type_, none, "no gateway has reported any"),
        }
    }
}

/// Sets `CoordinationHealthy` from the schema, or drops it if no table needs it.
fn state_coordination(conditions: &mut Conditions, schema: &Child) {
    let type_ = ConditionType::CoordinationHealthy;
    match schema.lasting_fact(type_) {
        Some(fact) => conditions.state_condition(type_, fact.status, fact.reason, fact.message),
        None => conditions.remove_condition(type_),
    }
}

/// Sets `LogsLost` to the worst report of an edge pool, or drops it if none reads nodes' logs.
fn state_logs_lost(conditions: &mut Conditions, edges: &[Edge]) {
    use ConditionStatus::{False, True, Unknown};
    let type_ = ConditionType::LogsLost;
    let facts: Vec<Fact> = edges.iter().filter_map(|edge| edge.child.lasting_fact(type_)).collect();
    let of = |status| facts.iter().find(|fact| fact.status == status);
    match of(True).or_else(|| of(Unknown)).or_else(|| of(False)) {
        Some(fact) => {
            conditions.state_condition(type_, fact.status, fact.reason, fact.message.as_str())
        }
        None => conditions.remove_condition(type_),
    }
}

/// Returns the fact about a child that was not reached: refused, if the API server refuses it
/// permanently; else unknown.
fn unreached_fact(failure: Option<&StepError>) -> Fact {
    let refused = failure.filter(|failure| failure.category.needs_a_person());
    Fact {
        status: refused.map_or(ConditionStatus::Unknown, |_| ConditionStatus::False),
        reason: failure.map_or(Reason::NotObserved, |failure| failure.reason),
        message: failure.map_or_else(String::new, StepError::cause),
    }
}

fn state_progress(conditions: &mut Conditions, waiting: Option<Fact>, stalled: Option<Fact>) {
    use ConditionType::{Progressing, Stalled};
    match (stalled, waiting) {
        (Some(fact), _) => conditions.set_progress((false, true), fact.reason, &fact.message),
        (None, Some(fact)) => {
            conditions.set_true(Progressing, fact.reason, fact.message);
            conditions.set_false(Stalled, Reason::Applying, "nothing is stuck");
        }
        (None, None) => conditions.set_idle(),
    }
}

/// Returns whether any child reports a missing Secret. A child that was not reconciled yet reports
/// nothing about Secrets; its own condition keeps the pipeline unready.
///
/// `unseen` is about the children that were not reached.
fn secrets_fact(children: &[&Child], unseen: Option<Fact>) -> Fact {
    let denied =
        children.iter().find(|child| child.is_currently_false(ConditionType::SecretsFound));
    if let Some(child) = denied {
        return child.current_fact(ConditionType::SecretsFound);
    }
    let (status, reason) = (ConditionStatus::True, Reason::Reconciled);
    let found = Fact { status, reason, message: String::new() };
    // The failure that ended the reconcile doesn't prove that a Secret is missing.
    unseen.map_or(found, |unseen| Fact { status: ConditionStatus::Unknown, ..unseen })
}

/// Returns the first condition that does not hold, or one that does.
fn first_failing(conditions: impl Iterator<Item = Fact>) -> Fact {
    let mut last = None;
    for fact in conditions {
        if !fact.is_true() {
            return fact;
        }
        last = Some(fact);
    }
    last.unwrap_or(Fact {
        status: ConditionStatus::Unknown,
        reason: Reason::NotObserved,
        message: "nothing is configured".into(),
    })
}

fn fill_status(
    status: &mut TelemetryPipelineStatus,
    reached: &ReachedChildren,
    has_default_edge: bool,
) {
    let gateway = &reached.gateway_status;
    let count = |desired, ready| PodCount { desired, ready };
    let at_gateway = count(gateway.replicas, gateway.ready_replicas);
    let edges = reached.edges.iter().map(|Edge { name, child: _, status }| PipelineEdgeStatus {
        name: name.as_str().to_owned(),
        default: has_default_edge,
        pods: count(status.replicas, status.ready_replicas),
        endpoint: status.endpoint.clone(),
    });
    status.edges = edges.collect();
    let pods = status.edges.iter().map(|edge| &edge.pods).chain([&at_gateway]);
    let sum = pods.fold(PodCount::default(), |sum, pods| {
        count(sum.desired.saturating_add(pods.desired), sum.ready.saturating_add(pods.ready))
    });
    status.pods = Some(format!("{}/{}", sum.ready, sum.desired));
    status.gateway = Some(at_gateway);
    status.lag.clone_from(&gateway.lag);
    status.schema_revision.clone_from(&reached.schema_revision);
    status.endpoint = status.edges.first().and_then(|edge| edge.endpoint.clone());
    status.children = all_reached(reached).map(Child::to_status).collect();
}

/// Returns all children that were reached.
fn all_reached(reached: &ReachedChildren) -> impl Iterator<Item = &Child> {
    let ReachedChildren { topics, schema, edges, gateway, .. } = reached;
    topics.iter().chain(schema).chain(edges.iter().map(|edge| &edge.child)).chain(gateway)
}
