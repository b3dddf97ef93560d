//! Runs the collector's own commands in a ready gateway pod, by `kubectl exec`: the pool's
//! credentials for Kafka and ClickHouse are there, so that no laptop needs them.

pub(super) mod dead_letters;
pub(super) mod test_run;

use millrace_crds::pods::CONTAINER;

use crate::args::ClusterArgs;
use crate::error::{Error, Right};
use crate::facts::{Facts, Role};

/// Where the operator mounts a collector's settings.
pub(super) const CONFIG: &str = "/etc/millrace/config/collector.yaml";
/// The path of the collector in its image.
const TOOL: &str = "/usr/local/bin/millrace-collector";

/// Returns a ready gateway pod; `instead` is the advice if there is none.
pub(super) fn ready_gateway(facts: &Facts, instead: &str) -> Result<String, Error> {
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

/// Returns kubectl's arguments that precede the tool's own.
pub(super) fn kubectl_args(cluster_args: &ClusterArgs, namespace: &str, pod: &str) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(kubeconfig) = &cluster_args.kubeconfig {
        words.extend(["--kubeconfig".to_owned(), kubeconfig.display().to_string()]);
    }
    if let Some(context) = &cluster_args.context {
        words.extend(["--context".to_owned(), context.clone()]);
    }
    let fixed = ["-n", namespace, "exec", pod, "-c", CONTAINER, "--", TOOL];
    words.extend(fixed.map(str::to_owned));
    words
}

/// Returns the required right.
pub(super) fn exec_right(namespace: &str) -> Right {
    Right {
        verb: "create",
        group: String::new(),
        resource: "pods/exec".to_owned(),
        namespace: Some(namespace.to_owned()),
    }
}
