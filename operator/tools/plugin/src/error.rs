//! Errors: what failed, where, and what to do next. A denied request names the missing right.

use std::fmt;

/// A right that the API server requires: the content of a rule in a Role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Right {
    /// The verb: get, list, patch, create.
    pub verb: &'static str,
    /// The API group; empty for Kubernetes' core.
    pub group: String,
    /// The resource, with its subresource: `pods/proxy`.
    pub resource: String,
    /// The namespace; `None` for the complete cluster.
    pub namespace: Option<String>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, namespace } = self;
        let scope = match namespace {
            Some(namespace) => format!("in namespace {namespace}"),
            None => "in all namespaces".to_owned(),
        };
        let role = if namespace.is_some() { "Role" } else { "ClusterRole" };
        write!(
            f,
            "no right to {verb} {resource} {scope}: request a {role} with apiGroups: \
             [\"{group}\"], resources: [{resource}], verbs: [{verb}]"
        )
    }
}

/// Why a read or a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server answered 403.
    #[error("{0}")]
    Denied(Right),
    /// The object does not exist.
    #[error("{kind} {name} does not exist in namespace {namespace}: {hint}")]
    Missing {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The namespace that was searched.
        namespace: String,
        /// What to do next.
        hint: String,
    },
    /// The cluster has no such kind.
    #[error(
        "this cluster has no {0}: install the chart millrace-crds, or select another cluster with \
         --context"
    )]
    NotInstalled(String),
    /// No usable kubeconfig.
    #[error("no usable kubeconfig: {0}; set KUBECONFIG, --kubeconfig FILE or --context NAME")]
    Kubeconfig(String),
    /// The API server answered 401.
    #[error(
        "the API server does not accept the kubeconfig's credentials ({0}): log in again, or use \
         --kubeconfig FILE or --context NAME"
    )]
    Credentials(String),
    /// The API server did not answer, or its answer is unusable.
    #[error("no usable answer from the API server ({what}): {cause}")]
    Server {
        /// The request.
        what: String,
        /// The cause, as far as it is known.
        cause: String,
    },
    /// The API server refused the content of a request.
    #[error("the API server refuses {what}: {message}")]
    Refused {
        /// The request.
        what: String,
        /// The API server's message.
        message: String,
    },
    /// Fields that another manager owns.
    #[error("{0}")]
    Conflict(String),
    /// There are several pipelines, and the command needs one.
    #[error("namespace {namespace} has several pipelines ({names}): name one of them")]
    Several {
        /// The namespace.
        namespace: String,
        /// Their names.
        names: String,
    },
    /// The request is impossible in the present state.
    #[error("{0}")]
    Impossible(String),
    /// A file of the user's is unusable.
    #[error("{path}: {cause}")]
    File {
        /// Its path.
        path: String,
        /// The problem.
        cause: String,
    },
    /// A program that the command runs failed.
    #[error("cannot run {program}: {cause}; put it on the PATH, or name it with --kubectl")]
    Program {
        /// Its name.
        program: String,
        /// The cause.
        cause: String,
    },
}

impl Error {
    /// Classifies a client error; `right` is the one that the request needs.
    #[must_use]
    pub fn from_kube(error: kube::Error, right: Right, what: &str) -> Self {
        match error {
            kube::Error::Api(status) if status.is_forbidden() => {
                // An admission rule refuses with the same code, although no right is missing.
                match status.message.contains("cannot ") || status.message.is_empty() {
                    true => Self::Denied(right),
                    false => Self::Refused { what: what.to_owned(), message: status.message },
                }
            }
            kube::Error::Api(status) if status.code == 401 => Self::Credentials(status.message),
            kube::Error::Api(status) if status.code == 409 => Self::Conflict(status.message),
            kube::Error::Api(status) if status.code < 500 => {
                Self::Refused { what: what.to_owned(), message: status.message }
            }
            kube::Error::Api(status) => {
                Self::Server { what: what.to_owned(), cause: status.message }
            }
            other => Self::Server { what: what.to_owned(), cause: error_chain(&other) },
        }
    }
}

/// Returns an error and its causes in one line; a cause that its effect repeats is omitted.
#[must_use]
pub fn error_chain(error: &dyn std::error::Error) -> String {
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
