//! Errors of a reconcile, and how they are handled.
//!
//! Every step wraps its own error enum in a [`StepError`]: the step in which it occurred, a
//! category that determines retry, event and metric, and a stable reason for conditions. It must
//! not decide the content of a condition; the status step does.

use std::fmt;
use std::sync::Arc;

use millrace_crds::Reason;
pub use millrace_ddl::error_chain;

/// The five steps of a reconcile, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReconcileStep {
    /// Reads external systems.
    Observe,
    /// Checks what was read.
    Validate,
    /// Builds the desired objects, or a plan.
    Build,
    /// Writes the difference.
    Apply,
    /// Writes the status.
    Status,
}

impl ReconcileStep {
    /// Returns the step's name in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Validate => "validate",
            Self::Build => "build",
            Self::Apply => "apply",
            Self::Status => "status",
        }
    }
}

impl fmt::Display for ReconcileStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The category of an error. It determines the retry delay and the `result` label of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// The object can't work as written: only a change of it helps, so it is reconciled again
    /// rarely.
    Invalid,
    /// Another writer was first (HTTP 409): retry soon with a new read.
    Conflict,
    /// The API server refused us (HTTP 401, 403, 422): a role or an admission rule must change.
    Denied,
    /// The API server is unavailable, slow or overloaded.
    Temporary,
    /// Kafka, ClickHouse or another external system is unavailable or refuses.
    External,
}

impl Category {
    /// Returns the category's name in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Conflict => "conflict",
            Self::Denied => "denied",
            Self::Temporary => "temporary",
            Self::External => "external",
        }
    }

    /// Returns whether only a person can resolve it: a retry would be refused too.
    #[must_use]
    pub const fn needs_a_person(self) -> bool {
        matches!(self, Self::Invalid | Self::Denied)
    }

    /// Classifies an error of the Kubernetes client.
    #[must_use]
    pub fn from_kube(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                409 => Self::Conflict,
                400 | 401 | 403 | 405 | 422 => Self::Denied,
                _ => Self::Temporary,
            },
            _ => Self::Temporary,
        }
    }
}

/// A failed step: the step, the category, the stable reason, and the cause.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{step} step failed: {source}")]
pub struct StepError {
    /// The step that failed.
    pub step: ReconcileStep,
    /// The category, which determines retry and metric.
    pub category: Category,
    /// The stable reason for conditions and events.
    pub reason: Reason,
    /// Whether the object's status already reports it.
    is_reported: bool,
    source: Arc<dyn std::error::Error + Send + Sync>,
}

impl StepError {
    /// Wraps the error of a step.
    pub fn new(
        step: ReconcileStep,
        category: Category,
        reason: Reason,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { step, category, reason, is_reported: false, source: source.into().into() }
    }

    /// Wraps a Kubernetes client error that occurred while doing `what` (a verb phrase that names
    /// the object, for example `get Secret telemetry/kafka-user`).
    #[must_use]
    pub fn from_kube(step: ReconcileStep, what: impl Into<String>, source: kube::Error) -> Self {
        let category = Category::from_kube(&source);
        Self::new(step, category, Reason::ApiServerFailed, ApiError { what: what.into(), source })
    }

    /// Creates the error for a spec that can't work as written.
    pub fn spec_invalid(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::new(ReconcileStep::Validate, Category::Invalid, Reason::SpecInvalid, source)
    }

    /// Marks the error as already reported in the object's status: the caller adds nothing.
    #[must_use]
    pub fn mark_reported(self) -> Self {
        Self { is_reported: true, ..self }
    }

    /// Returns whether the object's status already reports it.
    #[must_use]
    pub const fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// Returns the cause without the step in which it occurred, for conditions.
    #[must_use]
    pub fn cause(&self) -> String {
        error_chain(self.source.as_ref())
    }
}

/// A call to the API server that failed.
#[derive(Debug, thiserror::Error)]
#[error("failed to {what}: {source}{}", remedy(source))]
pub struct ApiError {
    /// A verb phrase that names the object.
    pub what: String,
    /// The client's error.
    pub source: kube::Error,
}

/// Returns what a person can do about a refusal whose message doesn't state it.
fn remedy(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            "; allow it in the operator's role, or in the admission rule or quota that forbids it"
        }
        _ => "",
    }
}

/// A spec that cannot work as written, or not yet: the reason and message of a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// The stable reason.
    pub reason: Reason,
    /// The field or Secret, what is wrong, and what to write instead.
    pub message: String,
}

impl Invalid {
    /// Creates the error for a field of the spec that cannot work.
    pub fn spec_invalid(message: impl Into<String>) -> Self {
        Self { reason: Reason::SpecInvalid, message: message.into() }
    }
}

impl From<Invalid> for StepError {
    /// All but an invalid spec may end without a change of this object.
    fn from(invalid: Invalid) -> Self {
        let category = match invalid.reason {
            Reason::SpecInvalid => Category::Invalid,
            _ => Category::External,
        };
        Self::new(ReconcileStep::Validate, category, invalid.reason, invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn api_error(code: u16) -> kube::Error {
        kube::Error::Api(Status::failure("no", "No").with_code(code).boxed())
    }

    /// Scenario: the API server answers with each class of code. Guarantee: a conflict is retried
    /// soon, and a refusal is distinguished from an outage.
    #[test]
    fn answers_of_the_api_server_fall_into_their_category() {
        assert_eq!(Category::from_kube(&api_error(409)), Category::Conflict);
        assert_eq!(Category::from_kube(&api_error(403)), Category::Denied);
        assert_eq!(Category::from_kube(&api_error(422)), Category::Denied);
        assert_eq!(Category::from_kube(&api_error(429)), Category::Temporary);
        assert_eq!(Category::from_kube(&api_error(503)), Category::Temporary);
    }

    /// Scenario: an error prints its source itself. Guarantee: the chain contains it once.
    #[test]
    fn a_chain_says_each_cause_once() {
        let error = StepError::from_kube(ReconcileStep::Apply, "patch Service a/b", api_error(403));
        let text = error_chain(&error);
        assert_eq!(text.matches("patch Service a/b").count(), 1, "{text}");
    }
}
