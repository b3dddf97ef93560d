//! Sums up the statuses of a pipeline's children; and events for what changed.
//!
//! A pipeline adds nothing to readiness: each of its conditions is a child's, about the child's
//! newest spec, and `Ready` needs all of them.

use kube::Resource;
use millrace_crds::v1alpha1::{
    PipelineEdgeStatus, PodCount, TelemetryPipeline, TelemetryPipelineStatus,
};
use millrace_crds::{ConditionStatus, ConditionType, Reason};

use super::apply::{Applied, Edge};
use super::child::{Child, Fact};
use super::validate;
use crate::cluster::{is_paused, patch_status};
use crate::context::Context;
use crate::error::{Invalid, StepError};
use crate::report::conditions::Conditions;
use crate::report::plaintext;
use crate::report::spread;

/// How the steps before ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Nothing was applied: the spec cannot work as written.
    Invalid(Invalid),
    /// The children, as far as applying got.
    Applied(Box<Applied>),
    /// It is being deleted, and this child must be gone before more can be.
    Leaving(String),
}

/// The conditions that make a pipeline ready, in the order in which they come true.
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
pub(super) async fn report(
    context: &Context,
    pipeline: &TelemetryPipeline,
    outcome: &Outcome,
) -> Result<(), StepError> {
    let before = pipeline.status.clone().unwrap_or_default();
    let mut conditions =
        Conditions::new(&before.conditions, pipeline.metadata.generation, context.clock.now());
    let mut status = TelemetryPipelineStatus {
        observed_generation: pipeline.metadata.generation,
        attributes: validate::attributes(pipeline).ok().or(before.attributes),
        ..before.clone()
    };
    match outcome {
        Outcome::Invalid(invalid) => {
            state_all_false(&mut conditions, invalid.reason, &invalid.message);
        }
        Outcome::Leaving(first) => {
            let message = format!(
                "it is being deleted, and {first} must be gone first; deletionPolicy: Retain ends \
                 this: topics and tables that are not being deleted yet stay"
            );
            state_all_false(&mut conditions, Reason::Waiting, &message);
            conditions.holds(ConditionType::Progressing, Reason::Waiting, message);
        }
        Outcome::Applied(applied) => {
            state_facts(&mut conditions, applied);
            // Children that were not reached keep their last report.
            if applied.failure.is_none() {
                fill(&mut status, applied);
            }
        }
    }
    let spec = &pipeline.spec;
    plaintext::state(&mut conditions, Some(&spec.kafka), Some(&spec.clickhouse), None);
    let engines = spec.signals.iter().map(|(signal, is)| (signal, is.table.engine));
    spread::state(&mut conditions, &spec.clickhouse, engines);
    conditions.paused(is_paused(pipeline));
    conditions.conclude(REQUIRED);
    status.conditions = conditions.clone().into_conditions();
    if patch_status(context, pipeline, pipeline.status.as_ref(), &status).await? {
        for notice in conditions.notices() {
            context.events.publish(&pipeline.object_ref(&()), notice).await;
        }
    }
    Ok(())
}

/// Nothing is known to hold: children don't have the spec yet, or are going.
fn state_all_false(conditions: &mut Conditions, reason: Reason, message: &str) {
    for type_ in REQUIRED {
        conditions.fails(*type_, reason, message);
    }
    conditions.fails(ConditionType::Progressing, reason, message);
    if reason == Reason::SpecInvalid {
        conditions.holds(ConditionType::Stalled, reason, message);
    } else {
        conditions.fails(ConditionType::Stalled, reason, message);
    }
}

fn state_facts(conditions: &mut Conditions, applied: &Applied) {
    let Applied { topics, schema, edges, gateway, failure, .. } = applied;
    let failure = failure.as_ref();
    let all: Vec<&Child> = children(applied).collect();
    let ready = ConditionType::Ready;
    let says = |child: &Option<Child>, type_| {
        child.as_ref().map_or_else(|| unseen(failure), |child| child.fact(type_))
    };
    // The schema is come to after all topics.
    let rest = schema.is_none().then(|| unseen(failure));
    let topics = topics.iter().map(|topic| topic.fact(ready)).chain(rest);
    let rest = (edges.len() < applied.edges_wanted).then(|| unseen(failure));
    let edges = edges.iter().map(|edge| edge.child.fact(ready)).chain(rest);
    let pods = says(gateway, ConditionType::PodsReady);
    let lag = says(gateway, ConditionType::LagWithinBound);
    let unseen_secrets = failure.filter(|_| gateway.is_none()).map(|it| unseen(Some(it)));
    let summed = [
        (ConditionType::SecretsFound, secrets(&all, unseen_secrets), "every Secret is there"),
        (ConditionType::TopicsReady, first_failing(topics), "all topics are ready"),
        (
            ConditionType::SchemaReady,
            says(schema, ready),
            "the tables are at the revision asked for",
        ),
        (ConditionType::EdgeReady, first_failing(edges), "all edge pods are updated and available"),
        (ConditionType::GatewayReady, pods, "all gateway pods are updated and available"),
        (ConditionType::LagWithinBound, lag, "lag is within its bound"),
    ];
    let mut waiting = None;
    for (type_, fact, good) in summed {
        let message = if fact.holds() { good.to_owned() } else { fact.message.clone() };
        conditions.state(type_, fact.status, fact.reason, message);
        if !fact.holds() && waiting.is_none() {
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
        state_logs_lost(conditions, &applied.edges);
    }
    let stalled = all.iter().find(|child| child.stalled()).map(|child| child.fact(ready));
    let refused = failure.filter(|failure| failure.category.needs_a_person());
    let stalled = stalled.or_else(|| refused.map(|failure| unseen(Some(failure))));
    match failure.filter(|_| stalled.is_none()) {
        Some(failure) => {
            let again = "tried again by itself";
            conditions.holds(ConditionType::Progressing, failure.reason, again);
            conditions.fails(ConditionType::Stalled, failure.reason, again);
        }
        None => state_progress(conditions, waiting, stalled),
    }
}

/// Losses and dead letters from the gateway. A pool that doesn't exist yet has none, like a new
/// one.
fn state_history(conditions: &mut Conditions, gateway: &Child) {
    for (type_, none) in [
        (ConditionType::DataLost, Reason::NothingLost),
        (ConditionType::DeadLettersKept, Reason::NoDeadLetters),
        (ConditionType::DeduplicationAtRisk, Reason::DeduplicationCovered),
    ] {
        match gateway.history(type_).filter(|fact| fact.reason != none) {
            Some(fact) => conditions.state(type_, fact.status, fact.reason, fact.message),
            None => conditions.fails(type_, none, "no gateway has told of any"),
        }
    }
}

/// `CoordinationHealthy` from the schema. Absent if no table needs it.
fn state_coordination(conditions: &mut Conditions, schema: &Child) {
    let type_ = ConditionType::CoordinationHealthy;
    match schema.history(type_) {
        Some(fact) => conditions.state(type_, fact.status, fact.reason, fact.message),
        None => conditions.drop(type_),
    }
}

/// `LogsLost` from the edge pools: the worst that one of them says. Absent if none reads nodes'
/// logs.
fn state_logs_lost(conditions: &mut Conditions, edges: &[Edge]) {
    use ConditionStatus::{False, True, Unknown};
    let type_ = ConditionType::LogsLost;
    let facts: Vec<Fact> = edges.iter().filter_map(|edge| edge.child.history(type_)).collect();
    let of = |status| facts.iter().find(|fact| fact.status == status);
    match of(True).or_else(|| of(Unknown)).or_else(|| of(False)) {
        Some(fact) => conditions.state(type_, fact.status, fact.reason, fact.message.as_str()),
        None => conditions.drop(type_),
    }
}

/// What is known of a child that was not reached: refused, if the API server refuses it
/// permanently; else nothing.
fn unseen(failure: Option<&StepError>) -> Fact {
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
        (Some(fact), _) => {
            conditions.fails(Progressing, fact.reason, fact.message.as_str());
            conditions.holds(Stalled, fact.reason, fact.message);
        }
        (None, Some(fact)) => {
            conditions.holds(Progressing, fact.reason, fact.message);
            conditions.fails(Stalled, Reason::Applying, "nothing is stuck");
        }
        (None, None) => {
            conditions.fails(Progressing, Reason::Settled, "no change is under way");
            conditions.fails(Stalled, Reason::Settled, "nothing is stuck");
        }
    }
}

/// Whether any child reports a missing Secret. A child that was not reconciled yet says nothing
/// about Secrets; its own condition keeps the pipeline from being ready.
///
/// `unseen` is about the children that were not reached.
fn secrets(children: &[&Child], unseen: Option<Fact>) -> Fact {
    let denied = children.iter().find(|child| child.denies(ConditionType::SecretsFound));
    if let Some(child) = denied {
        return child.fact(ConditionType::SecretsFound);
    }
    let (status, reason) = (ConditionStatus::True, Reason::AsAsked);
    let found = Fact { status, reason, message: String::new() };
    // Whatever ended the reconcile, it doesn't say that a Secret is missing.
    unseen.map_or(found, |unseen| Fact { status: ConditionStatus::Unknown, ..unseen })
}

/// The first condition that does not hold, or one that does.
fn first_failing(conditions: impl Iterator<Item = Fact>) -> Fact {
    let mut last = None;
    for fact in conditions {
        if !fact.holds() {
            return fact;
        }
        last = Some(fact);
    }
    last.unwrap_or(Fact {
        status: ConditionStatus::Unknown,
        reason: Reason::NotObserved,
        message: "nothing is asked for".into(),
    })
}

fn fill(status: &mut TelemetryPipelineStatus, applied: &Applied) {
    let gateway = &applied.gateway_status;
    let count = |wanted, ready| PodCount { wanted, ready };
    let at_gateway = count(gateway.replicas, gateway.ready_replicas);
    let edges = applied.edges.iter().map(|Edge { name, child: _, status }| PipelineEdgeStatus {
        name: name.as_str().to_owned(),
        pods: count(status.replicas, status.ready_replicas),
        endpoint: status.endpoint.clone(),
    });
    status.edges = edges.collect();
    let pods = status.edges.iter().map(|edge| &edge.pods).chain([&at_gateway]);
    let sum = pods.fold(PodCount::default(), |sum, pods| {
        count(sum.wanted.saturating_add(pods.wanted), sum.ready.saturating_add(pods.ready))
    });
    status.pods = Some(format!("{}/{}", sum.ready, sum.wanted));
    status.gateway = Some(at_gateway);
    status.lag.clone_from(&gateway.lag);
    status.schema_revision.clone_from(&applied.schema_revision);
    status.endpoint = status.edges.first().and_then(|edge| edge.endpoint.clone());
    status.children = children(applied).map(Child::line).collect();
}

/// All children that were reached.
fn children(applied: &Applied) -> impl Iterator<Item = &Child> {
    let Applied { topics, schema, edges, gateway, .. } = applied;
    topics.iter().chain(schema).chain(edges.iter().map(|edge| &edge.child)).chain(gateway)
}
