//! Converts k8sattributes to an enrich step, for records of clients.

use millrace_crds::v1alpha1::{
    EnrichStep, ErrorMode, OnConflict, PodAssociation, PodMetadataStep, ProcessingStep, Signal,
};

use super::RuleProcessor;
use super::step::{processed_signal, step_path};
use crate::account::Fate;
use crate::advice;
use crate::components::processors::{NAMES_MAX, object_key, pod_key, selected_names};
use crate::tree::Node;
use crate::work::Work;

/// Attributes that the step sets.
const KNOWN: [&str; 12] = [
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.pod.uid",
    "k8s.node.name",
    "k8s.deployment.name",
    "k8s.replicaset.name",
    "k8s.statefulset.name",
    "k8s.daemonset.name",
    "k8s.cronjob.name",
    "k8s.job.name",
    "container.image.name",
    "container.image.tags",
];

/// What precedes the names of labels of namespaces.
const NAMESPACE_LABEL: &str = "k8s.namespace.label";

/// For what the processor restricts.
const ALL_PODS: &str = "the pods of each node (mode DaemonSet) or of the cluster are known";

/// For associations that the step doesn't have.
const ASSOCIATIONS: &str = "pods are found by connection, k8s.pod.uid, k8s.pod.ip, or \
                            k8s.namespace.name and k8s.pod.name";

pub(super) fn convert(work: &mut Work, node: &Node<'_>, processor: &RuleProcessor<'_>) {
    let mut step = processor.new_step(work, "");
    // The processor never rejects a request.
    step.error_mode = ErrorMode::Ignore;
    if processor.signals.len() < Signal::ALL.len() {
        step.signals = processor.signals.iter().map(|it| processed_signal(*it)).collect();
    }
    let path = format!("{}.enrich.podMetadata", step_path(&step.name));
    // The processor prefers what clients sent, and the address that they state.
    let mut metadata = PodMetadataStep {
        association: vec![PodAssociation::PodIp, PodAssociation::Connection],
        on_conflict: OnConflict::Keep,
        ..PodMetadataStep::default()
    };
    if work.draft.steps.iter().any(|(_, known)| known.enrich.is_some()) {
        return work.account.unsupported(node, "one step adds pods' metadata: join the two");
    }
    let written: Vec<Node<'_>> = node.get("pod_association").iter().flat_map(Node::items).collect();
    if !written.is_empty() && written.iter().all(|item| read_association(item).is_none()) {
        return work.account.unsupported(node, ASSOCIATIONS);
    }
    let fate = processor.carried(path.clone(), None);
    let mut fields = work.account.open_block(node, fate.clone());
    if let Some(list) = fields.take_field("pod_association") {
        let associations = convert_associations(work, &list, &path);
        if !associations.is_empty() {
            metadata.association = associations;
        }
    }
    if let Some(extract) = fields.take_field("extract") {
        convert_extraction(work, &extract, (&path, &fate), &mut metadata);
    }
    work.account.account_remaining(fields, |name| match name {
        "auth_type" => Fate::not_needed("pods use their service account"),
        "wait_for_metadata" | "wait_for_metadata_timeout" => {
            Fate::not_needed("records never wait for metadata")
        }
        "passthrough" => Fate::not_needed("edges know the pods themselves"),
        "filter" => Fate::not_needed(ALL_PODS),
        "exclude" => Fate::unsupported("delete the attributes of these pods with a statement"),
        _ => Fate::unsupported(advice::UNKNOWN),
    });
    label_files(work, &metadata);
    let enrich = Some(EnrichStep { pod_metadata: metadata });
    if let Err(why) = processor.push_step(work, ProcessingStep { enrich, ..step }) {
        work.account.unsupported(node, why);
    }
}

/// Selects the same labels and annotations for log files that are read too.
fn label_files(work: &mut Work, metadata: &PodMetadataStep) {
    let receivers = work.draft.edges.iter_mut().map(|edge| &mut edge.settings.receivers);
    for containers in receivers.filter_map(|it| it.containers.as_mut()) {
        for (names, is_label) in [(&metadata.labels, true), (&metadata.annotations, false)] {
            if names.is_empty() {
                continue;
            }
            let list = selected_names(containers, is_label);
            for name in names {
                if list.len() < NAMES_MAX && !list.contains(name) {
                    list.push(name.clone());
                }
            }
        }
    }
}

/// Converts associations; those that can't be converted are left.
fn convert_associations(work: &mut Work, list: &Node<'_>, path: &str) -> Vec<PodAssociation> {
    let mut associations = Vec::new();
    for item in work.account.list_items(list, "it is empty") {
        match read_association(&item) {
            Some(association) if associations.contains(&association) => {
                work.account.not_needed(&item, "it is listed before");
            }
            Some(association) => {
                associations.push(association);
                work.account.carried(&item, format!("{path}.association"));
            }
            None => work.account.unsupported(&item, ASSOCIATIONS),
        }
    }
    associations
}

fn read_association(item: &Node<'_>) -> Option<PodAssociation> {
    let sources = item.get("sources")?;
    let source = |source: Node<'_>| {
        let text = |name: &str| source.get(name).and_then(|it| it.plain_text());
        match text("from")?.as_str() {
            "connection" => Some("connection".to_owned()),
            "resource_attribute" => text("name"),
            _ => None,
        }
    };
    let mut names = sources.items().map(source).collect::<Option<Vec<String>>>()?;
    names.sort();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names.as_slice() {
        ["connection"] => Some(PodAssociation::Connection),
        ["k8s.pod.uid"] => Some(PodAssociation::PodUid),
        ["k8s.pod.ip"] => Some(PodAssociation::PodIp),
        ["k8s.namespace.name", "k8s.pod.name"] => Some(PodAssociation::PodName),
        _ => None,
    }
}

fn convert_extraction(
    work: &mut Work,
    node: &Node<'_>,
    (path, fate): (&str, &Fate),
    metadata: &mut PodMetadataStep,
) {
    let mut fields = work.account.open_block(node, Fate::not_needed("it is empty"));
    if let Some(list) = fields.take_field("metadata") {
        for item in work.account.list_items(&list, "it is empty") {
            match item.plain_text().as_deref() {
                Some(name) if KNOWN.contains(&name) => {
                    work.account.add_entry(&item, fate.clone());
                }
                Some("container.image.tag") => {
                    let tags = "the attribute is container.image.tags, a list";
                    work.account.differs(&item, path, tags);
                }
                _ => work.account.unsupported(&item, "the step sets no such attribute"),
            }
        }
    }
    for (name, kind) in [("labels", "label"), ("annotations", "annotation")] {
        let Some(list) = fields.take_field(name) else { continue };
        for item in work.account.list_items(&list, "it is empty") {
            let (names, list, prefix) = match kind {
                "label" if is_of_namespace(&item) => {
                    (&mut metadata.namespace_labels, "namespaceLabels", NAMESPACE_LABEL)
                }
                "label" => (&mut metadata.labels, name, "k8s.pod.label"),
                _ => (&mut metadata.annotations, name, "k8s.pod.annotation"),
            };
            convert_named(work, &item, (prefix, &format!("{path}.{list}")), names);
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

/// Whether an extraction is of the pod's namespace.
fn is_of_namespace(item: &Node<'_>) -> bool {
    item.get("from").and_then(|from| from.plain_text()).is_some_and(|from| from == "namespace")
}

fn convert_named(
    work: &mut Work,
    item: &Node<'_>,
    (prefix, to): (&str, &str),
    names: &mut Vec<String>,
) {
    let is_namespaces = prefix == NAMESPACE_LABEL;
    let key = if is_namespaces { object_key(item) } else { pod_key(item) };
    let Some(key) = key else {
        return work.account.unsupported(item, advice::POD_KEYS);
    };
    if names.len() == NAMES_MAX {
        return work.account.unsupported(item, advice::POD_KEYS_FULL);
    }
    let ours = format!("{prefix}.{key}");
    if !names.contains(&key) {
        names.push(key);
    }
    let named = item.get("tag_name").and_then(|it| it.plain_text());
    match named.is_some_and(|name| name == ours) {
        true => work.account.carried(item, to),
        false => work.account.differs(item, to, format!("the attribute is named {ours}")),
    }
}
