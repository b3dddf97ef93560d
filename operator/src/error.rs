//! What can go wrong in a reconcile, and what follows from it.
//!
//! Every step wraps its own error enum in a [`StepError`]: the step it happened in, a category that
//! drives retry, event and metric, and a stable reason for conditions. It must not decide what a
//! condition says; that is the status step's.

use std::fmt;

use millrace_crds::Reason;

/// The five steps of a reconcile, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Reading outside systems.
    Observe,
    /// Checking what was read.
    Validate,
    /// Making the wanted objects, or a plan.
    Build,
    /// Writing the difference.
    Apply,
    /// Writing the status.
    Status,
}

impl Step {
    /// The step's name as metrics and logs give it.
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

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What kind of trouble it is; drives the retry delay and the `result` label of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// The object can't work as written: only a change of it helps, so it is reconciled again
    /// rarely.
    Invalid,
    /// Someone else wrote first (HTTP 409): try again soon with fresh eyes.
    Conflict,
    /// The API server refused us (HTTP 401, 403, 422): a role or an admission rule must change.
    Denied,
    /// The API server is away, slow or overloaded.
    Temporary,
    /// Kafka, ClickHouse or another thing outside Kubernetes is away or refuses.
    External,
}

impl Category {
    /// The category's name as metrics and logs give it.
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

    /// Whether only a person can end it: a retry would be refused too.
    #[must_use]
    pub const fn needs_a_person(self) -> bool {
        matches!(self, Self::Invalid | Self::Denied)
    }

    /// Classes an error of the Kubernetes client.
    #[must_use]
    pub fn of(error: &kube::Error) -> Self {
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

/// A failed step: where, of what category, under which stable reason, and the cause.
#[derive(Debug, thiserror::Error)]
#[error("{step} step failed: {source}")]
pub struct StepError {
    /// The step that failed.
    pub step: Step,
    /// What drives retry and metric.
    pub category: Category,
    /// The stable reason that conditions and events give.
    pub reason: Reason,
    /// Whether the object's status already reports it.
    is_told: bool,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl StepError {
    /// Wraps the error of a step.
    pub fn new(
        step: Step,
        category: Category,
        reason: Reason,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { step, category, reason, is_told: false, source: source.into() }
    }

    /// Wraps a Kubernetes client error that occurred while doing `what` (a verb phrase that names
    /// the object, for example `get Secret telemetry/kafka-user`).
    #[must_use]
    pub fn api(step: Step, what: impl Into<String>, source: kube::Error) -> Self {
        let category = Category::of(&source);
        Self::new(step, category, Reason::ApiServerFailed, ApiError { what: what.into(), source })
    }
}

impl StepError {
    /// The same, already in the object's status: the frame adds nothing.
    #[must_use]
    pub fn told(self) -> Self {
        Self { is_told: true, ..self }
    }

    /// Whether the object's status already reports it.
    #[must_use]
    pub const fn is_told(&self) -> bool {
        self.is_told
    }

    /// The cause without the step it occurred in, for conditions.
    #[must_use]
    pub fn cause(&self) -> String {
        chain(self.source.as_ref())
    }
}

/// A call to the API server that failed.
#[derive(Debug, thiserror::Error)]
#[error("failed to {what}: {source}{}", remedy(source))]
pub struct ApiError {
    /// A verb phrase naming the object.
    pub what: String,
    /// The client's error.
    pub source: kube::Error,
}

/// What a person can do about a refusal whose message doesn't say it.
fn remedy(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            "; allow it in the operator's role, or in the admission rule or quota that forbids it"
        }
        _ => "",
    }
}

/// The whole chain of causes on one line; the `Display` of most errors shows only the outermost.
#[must_use]
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Many enums already print their source; saying it twice helps nobody.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// A spec that cannot work as written, or not yet: what a condition says about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// The stable reason.
    pub reason: Reason,
    /// The field or Secret, what is wrong, and what to write instead.
    pub message: String,
}

impl Invalid {
    /// A field of the spec that cannot work.
    pub fn spec(message: impl Into<String>) -> Self {
        Self { reason: Reason::SpecInvalid, message: message.into() }
    }
}

impl From<Invalid> for StepError {
    /// It may end without a change of this object: it is retried, less and less often.
    fn from(invalid: Invalid) -> Self {
        Self::new(Step::Validate, Category::External, invalid.reason, invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn api(code: u16) -> kube::Error {
        kube::Error::Api(Status::failure("no", "No").with_code(code).boxed())
    }

    /// Scenario: the API server answers with each class of code. Guarantee: a conflict is retried
    /// soon, a refusal is told from an outage.
    #[test]
    fn answers_of_the_api_server_fall_into_their_category() {
        assert_eq!(Category::of(&api(409)), Category::Conflict);
        assert_eq!(Category::of(&api(403)), Category::Denied);
        assert_eq!(Category::of(&api(422)), Category::Denied);
        assert_eq!(Category::of(&api(429)), Category::Temporary);
        assert_eq!(Category::of(&api(503)), Category::Temporary);
    }

    /// Scenario: an error prints its source itself. Guarantee: the chain says it once.
    #[test]
    fn a_chain_says_each_cause_once() {
        let error = StepError::api(Step::Apply, "patch Service a/b", api(403));
        let text = chain(&error);
        assert_eq!(text.matches("patch Service a/b").count(), 1, "{text}");
    }
}
