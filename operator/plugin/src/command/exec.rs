//! The collector's own commands, in a ready gateway pod, by `kubectl exec`: the pool's log-ins to
//! Kafka and ClickHouse are there, so that nobody needs them on a laptop.

use millrace_crds::pods::CONTAINER;

use crate::args::Place;
use crate::error::{Error, Right};
use crate::facts::{Facts, Role};

/// Where the operator mounts a collector's settings.
pub(super) const CONFIG: &str = "/etc/millrace/config/collector.yaml";
/// Where images have the collector.
const TOOL: &str = "/usr/local/bin/millrace-collector";

/// A ready gateway pod; `instead` is what a person does where there is none.
pub(super) fn gateway(facts: &Facts, instead: &str) -> Result<String, Error> {
    let mut pods = facts.pods.iter().filter(|pod| pod.role == Role::Gateway && pod.ready);
    pods.next().map(|pod| pod.name.clone()).ok_or_else(|| {
        let why = facts.gaps.first().map(|gap| format!(" ({}: {})", gap.what, gap.why));
        Error::Impossible(format!(
            "pipeline {} has no ready gateway pod to run the collector's tool in{}: {instead}",
            facts.name(),
            why.unwrap_or_default()
        ))
    })
}

/// What kubectl is called with, before the tool's own words.
pub(super) fn words(place: &Place, namespace: &str, pod: &str) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(kubeconfig) = &place.kubeconfig {
        words.extend(["--kubeconfig".to_owned(), kubeconfig.display().to_string()]);
    }
    if let Some(context) = &place.context {
        words.extend(["--context".to_owned(), context.clone()]);
    }
    let fixed = ["-n", namespace, "exec", pod, "-c", CONTAINER, "--", TOOL];
    words.extend(fixed.map(str::to_owned));
    words
}

/// The right that it needs.
pub(super) fn right(namespace: &str) -> Right {
    Right {
        verb: "create",
        group: String::new(),
        resource: "pods/exec".to_owned(),
        namespace: Some(namespace.to_owned()),
    }
}
