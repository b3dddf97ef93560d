//! What may go wrong: what, where, and what to do next. A refusal by rights names the right.

use std::fmt;

/// A right that the API server asks for: what to put into a Role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Right {
    /// The verb: get, list, patch, create.
    pub verb: &'static str,
    /// The API group; empty for Kubernetes' core.
    pub group: String,
    /// The resource, with its subresource: `pods/proxy`.
    pub resource: String,
    /// The namespace; none for the whole cluster.
    pub namespace: Option<String>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, namespace } = self;
        let place = match namespace {
            Some(namespace) => format!("in namespace {namespace}"),
            None => "in the whole cluster".to_owned(),
        };
        let role = if namespace.is_some() { "Role" } else { "ClusterRole" };
        write!(
            f,
            "you may not {verb} {resource} {place}: ask for a {role} with apiGroups: \
             [\"{group}\"], resources: [{resource}], verbs: [{verb}]"
        )
    }
}

/// Why something could not be read or done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server answered 403.
    #[error("{0}")]
    Denied(Right),
    /// No such object.
    #[error("there is no {kind} {name} in namespace {namespace}: {hint}")]
    Missing {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Where it was looked for.
        namespace: String,
        /// What to do next.
        hint: String,
    },
    /// The cluster has no such kind.
    #[error(
        "this cluster has no {0}: install the chart millrace-crds, or name the right cluster with \
         --context"
    )]
    NotInstalled(String),
    /// No usable kubeconfig.
    #[error(
        "no usable kubeconfig: {0}; set KUBECONFIG, or write --kubeconfig FILE or --context NAME"
    )]
    Kubeconfig(String),
    /// The API server did not answer, or not usably.
    #[error("the API server did not answer {what}: {cause}")]
    Server {
        /// What was asked.
        what: String,
        /// Why, as far as is known.
        cause: String,
    },
    /// The API server refused the content of a request.
    #[error("the API server refuses {what}: {message}")]
    Refused {
        /// What was asked.
        what: String,
        /// Its own words.
        message: String,
    },
    /// Fields that another manager owns.
    #[error("{0}")]
    Conflict(String),
    /// More than one pipeline, and the command needs one.
    #[error("namespace {namespace} has several pipelines ({names}): name one of them")]
    Several {
        /// Where.
        namespace: String,
        /// Their names.
        names: String,
    },
    /// What was asked for can't be done with what there is.
    #[error("{0}")]
    Impossible(String),
    /// A file of the user's.
    #[error("{path}: {cause}")]
    File {
        /// Its path.
        path: String,
        /// What is wrong with it.
        cause: String,
    },
    /// Another program that a command runs.
    #[error("cannot run {program}: {cause}; put it on the PATH, or name it with --kubectl")]
    Program {
        /// Its name.
        program: String,
        /// Why.
        cause: String,
    },
}

impl Error {
    /// Sorts what the client says; `right` is the one that the request needs.
    #[must_use]
    pub fn of(error: kube::Error, right: Right, what: &str) -> Self {
        match error {
            kube::Error::Api(status) if status.is_forbidden() => {
                // An admission rule refuses with the same code, and is no question of rights.
                match status.message.contains("cannot ") || status.message.is_empty() {
                    true => Self::Denied(right),
                    false => Self::Refused { what: what.to_owned(), message: status.message },
                }
            }
            kube::Error::Api(status) if status.code == 401 => Self::Kubeconfig(format!(
                "the API server does not accept its credentials ({})",
                status.message
            )),
            kube::Error::Api(status) if status.code == 409 => Self::Conflict(status.message),
            kube::Error::Api(status) if status.code < 500 => {
                Self::Refused { what: what.to_owned(), message: status.message }
            }
            kube::Error::Api(status) => {
                Self::Server { what: what.to_owned(), cause: status.message }
            }
            other => Self::Server { what: what.to_owned(), cause: chain(&other) },
        }
    }
}

/// An error and its causes in one line; a cause that its effect repeats is left out.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = next.source();
    }
    text
}
