//! `dead-letters`: runs the collector's own tool in a ready gateway pod, by `kubectl exec`. The
//! pool's brokers, credentials and topics are there, so that no laptop needs them.

use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use super::CONFIG;
use crate::args::{ClusterArgs, DeadLetterCommand, Named, Output};
use crate::command::exec;
use crate::command::watch::read_facts;
use crate::command::{CommandOutput, CommandSession};
use crate::error::Error;
use crate::gather::Depth;

/// The advice if no gateway pod is ready.
const INSTEAD: &str = "run millrace-collector dead-letters with --brokers yourself \
                       (page Lost data and dead letters)";

/// Runs the command; the tool's output passes unchanged.
pub(in crate::command) async fn run(
    session: &CommandSession,
    cluster_args: &ClusterArgs,
    output: Output,
    args: &DeadLetterCommand,
) -> Result<CommandOutput, Error> {
    let (word, args) = args.tool_command();
    if output == Output::Json && word != "list" {
        return Err(Error::Impossible(format!(
            "dead-letters {word} has no JSON output: omit -o json"
        )));
    }
    let named = Named { pipeline: args.pipeline.clone() };
    let facts = read_facts(session, &named, Depth::Pods).await?;
    let pod = exec::ready_gateway(&facts, INSTEAD)?;
    let words = kubectl_invocation(cluster_args, facts.namespace(), &pod, word, output, &args.rest);
    let ended = Command::new(&args.kubectl).args(&words).stdin(Stdio::null()).status().await;
    let ended = ended.map_err(|error| Error::Program {
        program: args.kubectl.display().to_string(),
        cause: error.to_string(),
    })?;
    if !ended.success() {
        return Err(Error::Impossible(format!(
            "the tool failed in pod {pod} ({ended}); it needs the right create pods/exec in \
             namespace {}",
            facts.namespace()
        )));
    }
    CommandOutput::from_report(String::new(), &Value::Null)
}

/// Returns kubectl's arguments.
fn kubectl_invocation(
    cluster_args: &ClusterArgs,
    namespace: &str,
    pod: &str,
    word: &str,
    output: Output,
    rest: &[String],
) -> Vec<String> {
    let mut words = exec::kubectl_args(cluster_args, namespace, pod);
    words.extend(["dead-letters", word].map(str::to_owned));
    words.extend(["--config".to_owned(), CONFIG.to_owned()]);
    if output == Output::Json {
        words.extend(["--output".to_owned(), "json".to_owned()]);
    }
    words.extend(rest.iter().cloned());
    words
}

#[cfg(test)]
mod tests {
    use super::{ClusterArgs, Output, kubectl_invocation};

    /// Scenario: another kubeconfig and context, JSON, options of the tool. Guarantee: kubectl gets
    /// the kubeconfig and context before its command, and the tool its options after `--`.
    #[test]
    fn the_tool_gets_its_options_and_kubectl_the_place() {
        let place = ClusterArgs {
            namespace: None,
            context: Some("prod".to_owned()),
            kubeconfig: Some("/tmp/k".into()),
        };
        let rest = ["--reason".to_owned(), "truncated".to_owned()];
        let words =
            kubectl_invocation(&place, "obs", "prod-gateway-0", "list", Output::Json, &rest);
        assert_eq!(
            words.join(" "),
            "--kubeconfig /tmp/k --context prod -n obs exec prod-gateway-0 -c collector -- \
             /usr/local/bin/millrace-collector dead-letters list --config \
             /etc/millrace/config/collector.yaml --output json --reason truncated"
        );
    }
}
