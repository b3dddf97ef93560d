//! `dead-letters`: the collector's own tool, in a ready gateway pod, by `kubectl exec`. It has the
//! pool's brokers, log-in and topics there, so that nobody needs them on a laptop.

use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use super::watch::facts;
use super::{Answer, Session};
use crate::args::{DeadLetters, Named, Output, Place};
use crate::error::Error;
use crate::facts::{Facts, Role};
use crate::gather::Depth;

/// Where the operator mounts a collector's settings.
const CONFIG: &str = "/etc/millrace/config/collector.yaml";
/// Where images have the collector.
const TOOL: &str = "/usr/local/bin/millrace-collector";

/// Runs it; what the tool prints goes through as it is.
pub(super) async fn run(
    session: &Session,
    place: &Place,
    output: Output,
    args: &DeadLetters,
) -> Result<Answer, Error> {
    let (word, args) = match args {
        DeadLetters::List(args) => ("list", args),
        DeadLetters::Show(args) => ("show", args),
        DeadLetters::Resend(args) => ("resend", args),
    };
    if output == Output::Json && word != "list" {
        return Err(Error::Impossible(format!(
            "dead-letters {word} prints what the collector's tool prints, which is no JSON: leave \
             -o json out"
        )));
    }
    let named = Named { pipeline: args.pipeline.clone() };
    let facts = facts(session, &named, Depth::Pods).await?;
    let pod = gateway(&facts)?;
    let words = invocation(place, facts.namespace(), &pod, word, output, &args.rest);
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
    Ok(Answer { text: String::new(), json: Value::Null, healthy: true })
}

fn gateway(facts: &Facts) -> Result<String, Error> {
    let mut pods = facts.pods.iter().filter(|pod| pod.role == Role::Gateway && pod.ready);
    pods.next().map(|pod| pod.name.clone()).ok_or_else(|| {
        let why = facts.gaps.first().map(|gap| format!(" ({}: {})", gap.what, gap.why));
        Error::Impossible(format!(
            "pipeline {} has no ready gateway pod to run the tool in{}: run millrace-collector \
             dead-letters with --brokers yourself (docs/operations.md#dead-letters)",
            facts.name(),
            why.unwrap_or_default()
        ))
    })
}

/// What kubectl is called with.
fn invocation(
    place: &Place,
    namespace: &str,
    pod: &str,
    word: &str,
    output: Output,
    rest: &[String],
) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(kubeconfig) = &place.kubeconfig {
        words.extend(["--kubeconfig".to_owned(), kubeconfig.display().to_string()]);
    }
    if let Some(context) = &place.context {
        words.extend(["--context".to_owned(), context.clone()]);
    }
    let fixed = ["-n", namespace, "exec", pod, "-c", "collector", "--", TOOL, "dead-letters", word];
    words.extend(fixed.map(str::to_owned));
    words.extend(["--config".to_owned(), CONFIG.to_owned()]);
    if output == Output::Json {
        words.extend(["--output".to_owned(), "json".to_owned()]);
    }
    words.extend(rest.iter().cloned());
    words
}

#[cfg(test)]
mod tests {
    use super::{Output, Place, invocation};

    /// Scenario: another kubeconfig and context, JSON, options of the tool. Guarantee: kubectl gets
    /// the place before its command, and the tool its options behind `--`.
    #[test]
    fn the_tool_gets_its_options_and_kubectl_the_place() {
        let place = Place {
            namespace: None,
            context: Some("prod".to_owned()),
            kubeconfig: Some("/tmp/k".into()),
        };
        let rest = ["--reason".to_owned(), "truncated".to_owned()];
        let words = invocation(&place, "obs", "prod-gateway-0", "list", Output::Json, &rest);
        assert_eq!(
            words.join(" "),
            "--kubeconfig /tmp/k --context prod -n obs exec prod-gateway-0 -c collector -- \
             /usr/local/bin/millrace-collector dead-letters list --config \
             /etc/millrace/config/collector.yaml --output json --reason truncated"
        );
    }
}
