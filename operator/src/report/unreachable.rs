//! Conditions of kinds that represent something outside Kubernetes, when it can't be reached or
//! refuses. Pure.

use millrace_crds::{ConditionStatus, ConditionType, Reason};

use crate::error::{ReconcileStep, StepError};
use crate::report::conditions::{Conditions, RETRIES};

/// States `SecretsFound`. An error that is not about Secrets occurred after they were found, unless
/// the API server itself failed while they were read.
pub fn state_secrets(conditions: &mut Conditions, error: Option<&StepError>) {
    use ConditionType::SecretsFound;
    match error {
        Some(error) if is_about_secrets(error.reason) => {
            conditions.set_false(SecretsFound, error.reason, error.cause());
        }
        Some(error) if is_unread(error) => {
            conditions.set_unknown(SecretsFound, error.reason, error.cause());
        }
        _ => conditions.set_true(SecretsFound, Reason::Reconciled, "every Secret exists"),
    }
}

/// States `fact`, `Progressing` and `Stalled` after a failure: unknown where nothing could be
/// observed, false where the other system refused; stalled where only a person can help.
pub fn state_failure(conditions: &mut Conditions, fact: ConditionType, error: &StepError) {
    let message = error.cause();
    let status = match is_unobservable(error.reason) {
        true => ConditionStatus::Unknown,
        false => ConditionStatus::False,
    };
    conditions.state_condition(fact, status, error.reason, message.as_str());
    match needs_a_person(error) {
        true => conditions.set_progress((false, true), error.reason, &message),
        false => conditions.set_progress((true, false), error.reason, RETRIES),
    }
}

fn is_unread(error: &StepError) -> bool {
    error.reason == Reason::ApiServerFailed && error.step == ReconcileStep::Observe
}

fn is_about_secrets(reason: Reason) -> bool {
    matches!(reason, Reason::SecretMissing | Reason::SecretKeyMissing)
}

fn is_unobservable(reason: Reason) -> bool {
    is_about_secrets(reason)
        || matches!(
            reason,
            Reason::KafkaUnreachable
                | Reason::KafkaHostUnknown
                | Reason::KafkaAuthenticationFailed
                | Reason::KafkaTlsFailed
                | Reason::ClickHouseUnreachable
                | Reason::ClickHouseHostUnknown
                | Reason::ClickHouseAuthenticationFailed
                | Reason::ClickHouseTlsFailed
                | Reason::ClickHouseKeeperLost
                | Reason::ApiServerFailed
        )
}

/// Returns whether only a person can resolve a failure. It is retried all the same, less often.
pub fn needs_a_person(error: &StepError) -> bool {
    error.category.needs_a_person()
        || is_about_secrets(error.reason)
        || matches!(
            error.reason,
            Reason::KafkaAuthenticationFailed
                | Reason::KafkaNotAuthorized
                | Reason::KafkaTlsFailed
                | Reason::TooFewBrokers
                | Reason::TopicSettingRejected
                | Reason::ClickHouseAuthenticationFailed
                | Reason::ClickHouseNotAuthorized
                | Reason::ClickHouseTlsFailed
                | Reason::ClickHouseVersionUnsupported
                | Reason::ClickHouseKeeperMissing
                | Reason::MigrationJournalNewer
                | Reason::SpecInvalid
                | Reason::HostNotAllowed
                | Reason::HeldByAnother
        )
}
