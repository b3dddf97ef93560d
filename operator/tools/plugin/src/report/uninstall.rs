//! What removing Millrace would delete, what it would leave, and what blocks it.

use kube::{Resource, ResourceExt};
use millrace_crds::FINALIZER;
use millrace_crds::v1alpha1::{
    DeletionPolicy, EdgePool, GatewayPool, TelemetryPipeline, TelemetrySchema, TelemetryTopic,
};
use millrace_reports::units::format_plural;
use serde::Serialize;

use crate::facts::Gap;

/// All objects of a namespace or cluster.
#[derive(Clone, Debug, Default)]
pub struct Installed {
    /// Pipelines.
    pub pipelines: Vec<TelemetryPipeline>,
    /// Topics.
    pub topics: Vec<TelemetryTopic>,
    /// Tables.
    pub schemas: Vec<TelemetrySchema>,
    /// Edge pools.
    pub edges: Vec<EdgePool>,
    /// Gateway pools.
    pub gateways: Vec<GatewayPool>,
    /// Parts that could not be read.
    pub gaps: Vec<Gap>,
}

/// The effects of a removal.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UninstallReport {
    /// Deleted with all data, by an object's policy.
    pub data_deleted: Vec<String>,
    /// Deleted: pods and Kubernetes objects.
    pub deleted: Vec<String>,
    /// Stays outside Kubernetes.
    pub stays: Vec<String>,
    /// Objects that wait for the operator: it must run until they are gone.
    pub waits: Vec<String>,
    /// The steps, in this order.
    pub order: Vec<String>,
    /// Parts that could not be read.
    pub gaps: Vec<Gap>,
}

/// Returns the effects of removing the installed objects.
#[must_use]
pub fn uninstall_report(installed: &Installed) -> UninstallReport {
    let mut report = UninstallReport { gaps: installed.gaps.clone(), ..Default::default() };
    for pipeline in &installed.pipelines {
        add_pipeline(&mut report, installed, pipeline);
    }
    for topic in installed.topics.iter().filter(|it| !is_owned(*it)) {
        let what = format!("topic {} ({})", topic_name(topic), namespaced_name(topic));
        add_by_policy(
            &mut report,
            topic.spec.deletion_policy,
            topic.spec.ownership.is_shared(),
            what,
        );
    }
    for schema in installed.schemas.iter().filter(|it| !is_owned(*it)) {
        let what = format!("tables of {} ({})", table_pattern(schema), namespaced_name(schema));
        add_by_policy(
            &mut report,
            schema.spec.deletion_policy,
            schema.spec.ownership.is_shared(),
            what,
        );
    }
    add_pools(&mut report, installed);
    report.waits.extend(installed.pipelines.iter().filter_map(waiting_object));
    report.waits.extend(installed.topics.iter().filter_map(waiting_object));
    report.waits.extend(installed.schemas.iter().filter_map(waiting_object));
    report.order = removal_order(installed);
    report
}

fn add_pipeline(report: &mut UninstallReport, installed: &Installed, pipeline: &TelemetryPipeline) {
    let policy = pipeline.spec.deletion_policy;
    let shared = pipeline.spec.ownership.is_shared();
    report.deleted.push(format!("TelemetryPipeline {}", namespaced_name(pipeline)));
    for topic in installed.topics.iter().filter(|it| is_child(*it, pipeline)) {
        let what = format!("topic {} ({})", topic_name(topic), namespaced_name(pipeline));
        add_by_policy(report, policy, shared, what);
    }
    for schema in installed.schemas.iter().filter(|it| is_child(*it, pipeline)) {
        add_by_policy(
            report,
            policy,
            shared,
            format!("tables of {} ({})", table_pattern(schema), namespaced_name(pipeline)),
        );
    }
}

fn add_pools(report: &mut UninstallReport, installed: &Installed) {
    for pool in &installed.edges {
        let pods = pool.status.as_ref().map_or(0, |status| status.replicas);
        let what = format!(
            "EdgePool {}, {} and its Service: its clients lose their endpoint",
            namespaced_name(pool),
            format_plural(pods, "pod")
        );
        report.deleted.push(what);
    }
    for pool in &installed.gateways {
        let pods = pool.status.as_ref().map_or(0, |status| status.replicas);
        let waiting = pool.status.as_ref().and_then(|status| status.lag.as_ref());
        let behind = waiting.map(|lag| lag.messages).filter(|messages| *messages > 0);
        let behind = behind
            .map(|messages| format!("; {} unread in Kafka", format_plural(messages, "message")));
        report.deleted.push(format!(
            "GatewayPool {}, {}{}",
            namespaced_name(pool),
            format_plural(pods, "pod"),
            behind.unwrap_or_default()
        ));
    }
}

fn add_by_policy(report: &mut UninstallReport, policy: DeletionPolicy, shared: bool, what: String) {
    match (policy, shared) {
        (DeletionPolicy::Delete, false) => report.data_deleted.push(what),
        (DeletionPolicy::Delete, true) => report.stays.push(format!("{what}: shared")),
        (DeletionPolicy::Retain, _) => report.stays.push(what),
    }
}

fn removal_order(installed: &Installed) -> Vec<String> {
    let mut order = Vec::new();
    let mut objects: Vec<String> = installed.pipelines.iter().map(delete_command).collect();
    objects.extend(installed.edges.iter().filter(|it| !is_owned(*it)).map(delete_command));
    objects.extend(installed.gateways.iter().filter(|it| !is_owned(*it)).map(delete_command));
    objects.extend(installed.topics.iter().filter(|it| !is_owned(*it)).map(delete_command));
    objects.extend(installed.schemas.iter().filter(|it| !is_owned(*it)).map(delete_command));
    order.append(&mut objects);
    order.push(
        "wait until they are deleted, with the operator running: it removes their finalizers"
            .to_owned(),
    );
    order.push("helm uninstall millrace --namespace millrace-system".to_owned());
    order.push(
        "helm uninstall millrace-crds retains the definitions; kubectl delete crd \
         NAME.millrace.dev deletes them with all their objects in all namespaces"
            .to_owned(),
    );
    order
}

fn delete_command<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let namespace = object.namespace().unwrap_or_default();
    format!("kubectl -n {namespace} delete {} {}", K::plural(&()), object.name_any())
}

fn waiting_object<K: Resource<DynamicType = ()>>(object: &K) -> Option<String> {
    let ours = object.finalizers().iter().any(|one| one == FINALIZER);
    let leaving = object.meta().deletion_timestamp.as_ref();
    ours.then(|| {
        let since = leaving.map(|at| format!(", being deleted since {}", at.0));
        format!(
            "{} {} (finalizer {FINALIZER}){}",
            K::kind(&()),
            namespaced_name(object),
            since.unwrap_or_default()
        )
    })
}

fn is_owned<K: Resource>(object: &K) -> bool {
    object.owner_references().iter().any(|owner| owner.kind == "TelemetryPipeline")
}

fn is_child<K: Resource>(object: &K, pipeline: &TelemetryPipeline) -> bool {
    let uid = pipeline.metadata.uid.as_deref();
    let owners = object.owner_references();
    object.namespace() == pipeline.namespace()
        && owners.iter().any(|owner| Some(&*owner.uid) == uid)
}

fn namespaced_name<K: Resource>(object: &K) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

fn topic_name(topic: &TelemetryTopic) -> String {
    let named = topic.spec.topic_name.as_ref().map(|name| name.as_str().to_owned());
    named.unwrap_or_else(|| topic.name_any())
}

fn table_pattern(schema: &TelemetrySchema) -> String {
    let target = &schema.spec.clickhouse;
    format!("{}.{}_*", target.database(), target.table_prefix())
}
