//! Processors: what is built in, attributes of pods for log files, and the others, which have no
//! counterpart. Fields as of contrib 0.15x.

use millrace_crds::v1alpha1::ContainersReceiver;

use crate::account::Fate;
use crate::draft::pool_path;
use crate::service::{Service, type_of};
use crate::tree::Node;
use crate::words;
use crate::work::Work;

/// Most labels, and most annotations, that are named.
const NAMES_MAX: usize = 64;
/// Longest name of a label, in bytes.
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

/// A processor in use. False if it stays behind.
pub(crate) fn processor(work: &mut Work, node: &Node<'_>, id: &str, service: &Service<'_>) -> bool {
    match &*type_of(id) {
        "batch" | "memorylimiter" => {
            work.account.not_needed(node, words::BUILT_IN);
            true
        }
        "k8sattributes" if service.follows(id, |kind| kind == "filelog") => {
            let only_files = !service.follows(id, |kind| kind != "filelog");
            let but = (!only_files).then(|| words::POD_ATTRIBUTES.to_owned());
            pod_attributes(work, node, but)
        }
        "k8sattributes" => {
            work.account.left(node, words::POD_ATTRIBUTES);
            false
        }
        _ => {
            work.account.left(node, format!("{} {}", words::PROCESSORS, words::IN_FRONT));
            false
        }
    }
}

/// Attributes of pods, for containers' files of the pool that reads them.
fn pod_attributes(work: &mut Work, node: &Node<'_>, but: Option<String>) -> bool {
    let reads = work.draft.edges.iter().find(|edge| edge.settings.receivers.containers.is_some());
    let Some(pool) = reads.map(|edge| edge.name.as_str().to_owned()) else {
        work.account.left(node, words::POD_ATTRIBUTES);
        return false;
    };
    let base = format!("{}.receivers.containers", pool_path(&pool));
    let whole = Fate::Carried { to: base.clone(), but };
    let mut fields = work.account.open(node, whole.clone());
    if let Some(extract) = fields.take("extract") {
        extraction(work, &extract, &base, &whole);
    }
    work.account.rest(fields, |name| match name {
        "auth_type"
        | "passthrough"
        | "pod_association"
        | "wait_for_metadata"
        | "wait_for_metadata_timeout"
        | "filter" => Fate::not_needed(
            "a file's path names the pod, and each pod of the pool asks for its node",
        ),
        "exclude" => Fate::not_needed("a pod's labels are those of the file's path"),
        _ => Fate::left(words::UNKNOWN),
    });
    true
}

fn extraction(work: &mut Work, node: &Node<'_>, base: &str, whole: &Fate) {
    let mut fields = work.account.open(node, Fate::not_needed("it asks for nothing"));
    if let Some(list) = fields.take("metadata") {
        for item in work.account.items(&list, "it asks for nothing") {
            match item.said().is_some_and(|name| KNOWN.contains(&&*name)) {
                true => work.account.put(&item, whole.clone()),
                false => work.account.left(&item, "records of log files have no such attribute"),
            }
        }
    }
    for (name, is_label) in [("labels", true), ("annotations", false)] {
        let Some(list) = fields.take(name) else { continue };
        for item in work.account.items(&list, "it asks for nothing") {
            named(work, &item, is_label, &format!("{base}.{name}"));
        }
    }
    work.account.rest(fields, |name| match name {
        "deployment_name_from_replicaset" => {
            Fate::not_needed("a Deployment is known by its ReplicaSet")
        }
        "otel_annotations" => Fate::left("annotations keep their names: name them in annotations"),
        _ => Fate::left(words::UNKNOWN),
    });
}

fn named(work: &mut Work, item: &Node<'_>, is_label: bool, to: &str) {
    let said = |name: &str| item.get(name).and_then(|it| it.said());
    let of_pod = said("from").is_none_or(|from| from == "pod");
    let key = said("key").filter(|key| {
        of_pod && !key.is_empty() && key.len() <= NAME_BYTES_MAX && !key.contains('*')
    });
    let Some(key) = key else {
        return work.account.left(
            item,
            "labels and annotations of pods, by name or by a beginning that ends in *",
        );
    };
    let receivers = work.draft.edges.iter_mut().map(|edge| &mut edge.settings.receivers);
    let mut full = false;
    for containers in receivers.filter_map(|it| it.containers.as_mut()) {
        let list = names(containers, is_label);
        full |= list.len() == NAMES_MAX;
        if !full && !list.contains(&key) {
            list.push(key.clone());
        }
    }
    let kind = if is_label { "label" } else { "annotation" };
    let ours = format!("k8s.pod.{kind}.{key}");
    match (full, said("tag_name") == Some(ours.clone())) {
        (true, _) => work.account.left(item, "at most 64 are named: write a beginning with *"),
        (false, true) => work.account.carried(item, to),
        (false, false) => {
            work.account.differs(item, to, format!("the attribute is named {ours}"));
        }
    }
}

fn names(containers: &mut ContainersReceiver, is_label: bool) -> &mut Vec<String> {
    match is_label {
        true => containers.labels.get_or_insert_default(),
        false => &mut containers.annotations,
    }
}
