//! The operator on the local stack, installed as a user would: both charts, by the real Helm. An
//! operator that runs already is rolled, so that it is the one of the images just loaded.

use anyhow::Result;
use millrace_stack::Stack;

use crate::build::Loaded;
use crate::{say, shell};

/// Where the operator is installed.
pub(crate) const NAMESPACE: &str = "millrace-system";

/// What the images that are built and loaded here are called on the node. None is ever pulled.
const IMAGES: &str = "image.repository=docker.io/millrace/operator,\
                      collector.imageRepository=docker.io/millrace/collector";

/// The charts, by the real Helm. Local images keep their tags when they change, so pods of changed
/// ones are rolled: the operator by an annotation, collectors by deleting them.
pub(crate) fn charts(stack: &Stack, loaded: &Loaded) -> Result<()> {
    say::step("installing the charts millrace-crds and millrace with Helm");
    let charts = shell::root().join("charts");
    let chart = |name: &str| charts.join(name).to_string_lossy().into_owned();
    let crds = chart("millrace-crds");
    let operator = chart("millrace");
    shell::said("helm", &stack.helm(["upgrade", "--install", "millrace-crds", &crds, "--wait"])?)?;
    let mut args = vec!["upgrade", "--install", "millrace", &operator, "--wait", "--timeout", "3m"];
    args.extend(["--namespace", NAMESPACE, "--create-namespace", "--set", IMAGES]);
    // One operator: tests and the quick start read the console and metrics of the one that acts.
    args.extend(["--set", "replicas=1"]);
    // Pools may look for targets in their own namespace: nothing is watched before one does.
    args.extend(["--set", "discovery.enabled=true,podAccess.grant=true,shareAccess.grant=true"]);
    // For whoever forwards its port, and nobody else.
    args.extend(["--set", "console.enabled=true", "--set-string"]);
    let digest = format!("podAnnotations.image-digest={}", loaded.operator_digest);
    args.push(&digest);
    shell::said("helm", &stack.helm(args)?)?;
    let test = ["test", "millrace", "--namespace", NAMESPACE, "--timeout", "3m"];
    shell::said("helm", &stack.helm(test)?)?;
    if loaded.collectors_changed {
        let pods = "app.kubernetes.io/managed-by=millrace-operator";
        shell::said("kubectl", &stack.kubectl(["delete", "pods", "-A", "-l", pods])?)?;
    }
    Ok(())
}
