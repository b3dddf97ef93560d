//! `dead-letters`: the collector's own tool, in a ready gateway pod, by `kubectl exec`. It has the
//! pool's brokers, log-in and topics there, so that nobody needs them on a laptop.

use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use super::exec::{self, CONFIG};
use super::watch::facts;
use super::{Answer, Session};
use crate::args::{DeadLetters, Named, Output, Place};
use crate::error::Error;
use crate::gather::Depth;

/// What a person does where no gateway pod is ready.
const INSTEAD: &str = "run millrace-collector dead-letters with --brokers yourself \
                       (docs/operations.md#dead-letters)";

/// Runs it; what the tool prints goes through as it is.
pub(super) async fn run(
    session: &Session,
    place: &Place,
    output: Output,
    args: &DeadLetters,
) -> Result<Answer, Error> {
    let (word, args) = args.parts();
    if output == Output::Json && word != "list" {
        return Err(Error::Impossible(format!(
            "dead-letters {word} prints what the collector's tool prints, which is no JSON: leave \
             -o json out"
        )));
    }
    let named = Named { pipeline: args.pipeline.clone() };
    let facts = facts(session, &named, Depth::Pods).await?;
    let pod = exec::gateway(&facts, INSTEAD)?;
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
    Answer::of(String::new(), &Value::Null)
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
    let mut words = exec::words(place, namespace, pod);
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
