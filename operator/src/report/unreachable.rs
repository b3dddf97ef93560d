//! Conditions of kinds that stand for something outside Kubernetes, when it can't be reached or
//! refuses. Pure.

use millrace_crds::{ConditionType, Reason};

use crate::error::{StepError, chain};
use crate::report::conditions::Conditions;

/// States SecretsFound. An error that is not about Secrets came after they were found, unless the
/// API server itself failed.
pub fn state_secrets(conditions: &mut Conditions, error: Option<&StepError>) {
    use ConditionType::SecretsFound;
    match error {
        Some(error) if is_about_secrets(error.reason) => {
            conditions.fails(SecretsFound, error.reason, words(error));
        }
        Some(error) if error.reason == Reason::ApiServerFailed => {
            conditions.unknown(SecretsFound, error.reason, words(error));
        }
        _ => conditions.holds(SecretsFound, Reason::AsAsked, "every Secret is there"),
    }
}

/// States `fact`, Progressing and Stalled after a failure: unknown where nothing could be observed,
/// false where the other system refused; stalled where only a person can help.
pub fn state_failure(conditions: &mut Conditions, fact: ConditionType, error: &StepError) {
    let message = words(error);
    if could_not_look(error.reason) {
        conditions.unknown(fact, error.reason, message.as_str());
    } else {
        conditions.fails(fact, error.reason, message.as_str());
    }
    if needs_a_person(error) {
        conditions.fails(ConditionType::Progressing, error.reason, message.as_str());
        conditions.holds(ConditionType::Stalled, error.reason, message.as_str());
    } else {
        conditions.holds(ConditionType::Progressing, error.reason, "tried again by itself");
        conditions.fails(ConditionType::Stalled, error.reason, "tried again by itself");
    }
}

/// The cause; the log has the step.
fn words(error: &StepError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), chain)
}

fn is_about_secrets(reason: Reason) -> bool {
    matches!(reason, Reason::SecretMissing | Reason::SecretKeyMissing)
}

fn could_not_look(reason: Reason) -> bool {
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

/// A failure that waiting does not end. It is retried all the same, less often.
pub fn needs_a_person(error: &StepError) -> bool {
    error.category.needs_a_person()
        || is_about_secrets(error.reason)
        || matches!(
            error.reason,
            Reason::KafkaAuthenticationFailed
                | Reason::KafkaNotAuthorized
                | Reason::KafkaTlsFailed
                | Reason::ReplicationImpossible
                | Reason::TopicSettingRefused
                | Reason::ClickHouseAuthenticationFailed
                | Reason::ClickHouseNotAuthorized
                | Reason::ClickHouseTlsFailed
                | Reason::ClickHouseVersionUnsupported
                | Reason::ClickHouseKeeperMissing
                | Reason::MigrationJournalBroken
                | Reason::SpecInvalid
                | Reason::HostNotAllowed
                | Reason::HeldByAnother
        )
}
