//! Converts processors: those that are built in, attributes of pods for log files, those that
//! become rules (`rules`), and the others, which have no counterpart. Fields as of contrib 0.15x.

use millrace_crds::v1alpha1::{ContainersReceiver, Signal};

use crate::account::Fate;
use crate::advice;
use crate::components::rules;
use crate::draft::pool_path;
use crate::service::{ServiceSection, type_of};
use crate::tree::Node;
use crate::work::Work;

/// Maximum labels, and maximum annotations, that are named.
pub(crate) const NAMES_MAX: usize = 64;
/// Maximum length of a label's name, in bytes.
const NAME_BYTES_MAX: usize = 317;

/// Attributes that log files' records have.
const KNOWN: [&str; 12] = [
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.pod.uid",
    "k8s.node.name",
    "k8s.container.name",
    "k8s.deployment.name",
    "k8s.replicaset.name",
    "k8s.statefulset.name",
    "k8s.daemonset.name",
    "k8s.cronjob.name",
    "k8s.job.name",
    "k8s.container.restart_count",
];

/// Converts a used processor. Returns false if it is not carried over.
pub(crate) fn convert_processor(
    work: &mut Work,
    node: &Node<'_>,
    id: &str,
    (signals, service): (&[Signal], &ServiceSection<'_>),
) -> bool {
    if let Some(is_carried) = rules::convert_rules(work, node, id, signals, service) {
        return is_carried;
    }
    match &*type_of(id) {
        "batch" | "memorylimiter" => {
            work.account.not_needed(node, advice::BUILT_IN);
            true
        }
        "k8sattributes" if service.has_receiver(id, |kind| kind == "filelog") => {
            pod_attributes(work, node)
        }
        "k8sattributes" => {
            work.account.unsupported(node, advice::POD_ATTRIBUTES);
            false
        }
        _ => {
            work.account.unsupported(node, format!("{} {}", advice::PROCESSORS, advice::IN_FRONT));
            false
        }
    }
}

/// Converts attributes of pods, for containers' files of the pool that reads them.
fn pod_attributes(work: &mut Work, node: &Node<'_>) -> bool {
    let reads = work.draft.edges.iter().find(|edge| edge.settings.receivers.containers.is_some());
    let Some(pool) = reads.map(|edge| edge.name.as_str().to_owned()) else {
        work.account.unsupported(node, advice::POD_ATTRIBUTES);
        return false;
    };
    let base = format!("{}.receivers.containers", pool_path(&pool));
    let fate = Fate::carried(base.clone());
    let mut fields = work.account.open_block(node, fate.clone());
    if let Some(extract) = fields.take_field("extract") {
        convert_extraction(work, &extract, &base, &fate);
    }
    work.account.account_remaining(fields, |name| match name {
        "auth_type"
        | "passthrough"
        | "pod_association"
        | "wait_for_metadata"
        | "wait_for_metadata_timeout"
        | "filter" => Fate::not_needed(
            "a file's path identifies the pod, and each collector watches the pods of its node",
        ),
        "exclude" => Fate::not_needed("the file's path identifies the pod"),
        _ => Fate::unsupported(advice::UNKNOWN),
    });
    true
}

fn convert_extraction(work: &mut Work, node: &Node<'_>, base: &str, fate: &Fate) {
    let mut fields = work.account.open_block(node, Fate::not_needed("it is empty"));
    if let Some(list) = fields.take_field("metadata") {
        for item in work.account.list_items(&list, "it is empty") {
            match item.plain_text().is_some_and(|name| KNOWN.contains(&&*name)) {
                true => work.account.add_entry(&item, fate.clone()),
                false => {
                    work.account.unsupported(&item, "records of log files have no such attribute")
                }
            }
        }
    }
    for (name, is_label) in [("labels", true), ("annotations", false)] {
        let Some(list) = fields.take_field(name) else { continue };
        for item in work.account.list_items(&list, "it is empty") {
            convert_named(work, &item, is_label, &format!("{base}.{name}"));
        }
    }
    work.account.account_remaining(fields, |name| match name {
        "deployment_name_from_replicaset" => {
            Fate::not_needed("the Deployment is derived from its ReplicaSet")
        }
        "otel_annotations" => {
            Fate::unsupported("annotations can't be renamed: list them in annotations")
        }
        _ => Fate::unsupported(advice::UNKNOWN),
    });
}

fn convert_named(work: &mut Work, item: &Node<'_>, is_label: bool, to: &str) {
    let Some(key) = pod_key(item) else {
        return work.account.unsupported(item, advice::POD_KEYS);
    };
    let receivers = work.draft.edges.iter_mut().map(|edge| &mut edge.settings.receivers);
    let mut full = false;
    for containers in receivers.filter_map(|it| it.containers.as_mut()) {
        let list = selected_names(containers, is_label);
        full |= list.len() == NAMES_MAX;
        if !full && !list.contains(&key) {
            list.push(key.clone());
        }
    }
    let kind = if is_label { "label" } else { "annotation" };
    let ours = format!("k8s.pod.{kind}.{key}");
    let named = item.get("tag_name").and_then(|it| it.plain_text());
    match (full, named == Some(ours.clone())) {
        (true, _) => work.account.unsupported(item, advice::POD_KEYS_FULL),
        (false, true) => work.account.carried(item, to),
        (false, false) => {
            work.account.differs(item, to, format!("the attribute is named {ours}"));
        }
    }
}

/// Returns the label or annotation of pods that an extraction names.
pub(crate) fn pod_key(item: &Node<'_>) -> Option<String> {
    let is_pods =
        item.get("from").is_none_or(|from| from.plain_text().is_some_and(|it| it == "pod"));
    object_key(item).filter(|_| is_pods)
}

/// Returns the label or annotation that an extraction names, of whatever object.
pub(crate) fn object_key(item: &Node<'_>) -> Option<String> {
    let key = item.get("key").and_then(|it| it.plain_text());
    key.filter(|key| !key.is_empty() && key.len() <= NAME_BYTES_MAX && !key.contains('*'))
}

pub(crate) fn selected_names(
    containers: &mut ContainersReceiver,
    is_label: bool,
) -> &mut Vec<String> {
    match is_label {
        true => containers.labels.get_or_insert_default(),
        false => &mut containers.annotations,
    }
}
