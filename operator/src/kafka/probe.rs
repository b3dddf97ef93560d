//! Connects a client to a broker, or finds out why none can be reached.
//!
//! librdkafka's calls only report a timeout; the cause comes in its error events. They are
//! collected here, so that a wrong password is distinguished from a dead broker within seconds.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use millrace_crds::Reason;
use rdkafka::admin::AdminClient;
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::MetadataBroker;

use super::Deadline;
use super::connection::Settings;
use super::failure::{Failure, settled};
use crate::outbound::{Outbound, link_local_among};

/// How long an attempt waits before it checks the error events.
const ATTEMPT: Duration = Duration::from_millis(1_500);

/// How long to try to reach a broker: a connection attempt to an address that drops packets ends
/// after 7 s, and then its cause is known.
const REACH_MAX: Duration = Duration::from_secs(8);

/// Brokers of a cluster: the largest have some hundreds, and each costs the library a thread.
const BROKERS_MAX: usize = 1_000;

/// Different causes remembered; further ones would repeat for other brokers.
const CAUSES_MAX: usize = 16;

/// Collects the error events of one client.
#[derive(Clone, Default)]
pub(super) struct Causes(Arc<Mutex<BTreeSet<(Weight, String)>>>);

/// The rank of a cause: the first one is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    Authentication,
    Tls,
    Resolve,
    Transport,
}

impl Weight {
    fn of(code: RDKafkaErrorCode) -> Option<Self> {
        match code {
            RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed => {
                Some(Self::Authentication)
            }
            RDKafkaErrorCode::SSL => Some(Self::Tls),
            RDKafkaErrorCode::Resolve => Some(Self::Resolve),
            RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::OperationTimedOut => {
                Some(Self::Transport)
            }
            _ => None,
        }
    }
}

impl Causes {
    fn note(&self, error: &KafkaError, text: &str) {
        let Some(weight) = error.rdkafka_error_code().and_then(Weight::of) else { return };
        let mut causes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if causes.len() < CAUSES_MAX {
            causes.insert((weight, settled(text)));
        }
    }

    /// The failure for these causes. `servers`: the number of bootstrap servers; with fewer
    /// unresolved names, another server may still answer. `secret`: the Secret for the log-in.
    fn verdict(&self, servers: usize, secret: Option<&str>) -> Option<Failure> {
        let causes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = |weight| causes.iter().find(|(each, _)| *each == weight).map(|(_, text)| text);
        if let Some(text) = first(Weight::Authentication) {
            let check = match secret {
                Some(name) => format!(
                    "check user name and password in Secret {name}, and kafka.sasl.mechanism"
                ),
                None => "name a log-in in kafka.sasl".to_owned(),
            };
            let message = format!("Kafka refused to let the operator in: {text}; {check}");
            return Some(Failure::new(Reason::KafkaAuthenticationFailed, message));
        }
        if let Some(text) = first(Weight::Tls) {
            let message = format!(
                "no trusted connection to Kafka: {text}; check tls.caSecretRef and that the port \
                 speaks TLS"
            );
            return Some(Failure::new(Reason::KafkaTlsFailed, message));
        }
        let unresolved = causes.iter().filter(|(weight, _)| *weight == Weight::Resolve).count();
        match first(Weight::Resolve) {
            Some(text) if unresolved >= servers => {
                let message = format!("{text}; check the spelling of kafka.bootstrapServers");
                Some(Failure::new(Reason::KafkaHostUnknown, message))
            }
            _ => None,
        }
    }

    /// The failure after time ran out.
    fn last_word(&self, servers: usize, secret: Option<&str>) -> Failure {
        if let Some(failure) = self.verdict(servers, secret) {
            return failure;
        }
        let causes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cause = causes.first().map_or("no answer in time", |(_, text)| text.as_str());
        Failure::new(
            Reason::KafkaUnreachable,
            format!(
                "no Kafka broker answered: {cause}; check that it runs, and that nothing blocks \
                 the way"
            ),
        )
    }
}

impl ClientContext for Causes {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, "librdkafka: {message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.note(&error, reason);
    }
}

impl ConsumerContext for Causes {}

/// A client that has reached a broker.
pub(super) struct Link {
    /// Asks; it never joins a group.
    pub(super) consumer: BaseConsumer<Causes>,
    /// Whether it names a group, without which it can't ask for any group's commits.
    pub(super) in_group: bool,
    /// Changes topics; made when it is first needed.
    admin: OnceLock<AdminClient<DefaultClientContext>>,
}

impl Link {
    /// Reaches a broker by asking for the metadata of `topic`, which need not exist. `group` is one
    /// whose commits the log-in may read, if commits are wanted. Each broker that the cluster names
    /// must be allowed by `outbound` before any is asked.
    ///
    /// # Errors
    /// When none can be reached, with the cause as far as known.
    pub(super) fn reach(
        settings: &Settings,
        outbound: &Outbound,
        topic: &str,
        group: Option<&str>,
        deadline: Deadline,
    ) -> Result<Self, Failure> {
        let causes = Causes::default();
        let mut config = settings.client_config();
        config.set("enable.auto.commit", "false").set("allow.auto.create.topics", "false");
        if let Some(group) = group {
            config.set("group.id", group);
        }
        let consumer: BaseConsumer<Causes> =
            config.create_with_context(causes.clone()).map_err(|error| unusable(&error))?;
        not_link_local(settings.bootstrap_servers())?;
        let reaching = Deadline::within(deadline.at_most(REACH_MAX));
        loop {
            let attempt = consumer.fetch_metadata(Some(topic), reaching.at_most(ATTEMPT));
            if let Ok(metadata) = attempt
                && !metadata.brokers().is_empty()
            {
                allowed(outbound, metadata.brokers(), reaching)?;
                let in_group = group.is_some();
                return Ok(Self { consumer, in_group, admin: OnceLock::new() });
            }
            serve(&consumer);
            if let Some(failure) = causes.verdict(settings.servers(), settings.login_secret()) {
                return Err(failure);
            }
            if reaching.left().is_zero() {
                return Err(causes.last_word(settings.servers(), settings.login_secret()));
            }
        }
    }

    /// The client that changes topics.
    pub(super) fn admin(
        &self,
        settings: &Settings,
    ) -> Result<&AdminClient<DefaultClientContext>, Failure> {
        if let Some(known) = self.admin.get() {
            return Ok(known);
        }
        let made = settings.client_config().create().map_err(|error| unusable(&error))?;
        Ok(self.admin.get_or_init(|| made))
    }

    /// Takes error events, so that they don't pile up in a kept client.
    pub(super) fn serve(&self) {
        serve(&self.consumer);
    }
}

/// Refuses a cluster that names brokers to which the operator may not connect. Resolves names until
/// the deadline; the client resolves the rest.
fn allowed(
    outbound: &Outbound,
    brokers: &[MetadataBroker],
    deadline: Deadline,
) -> Result<(), Failure> {
    if brokers.len() > BROKERS_MAX {
        let message = format!("this cluster names more than {BROKERS_MAX} brokers as its own");
        return Err(Failure::new(Reason::KafkaRefused, message));
    }
    for broker in brokers {
        let (host, port) = (broker.host(), broker.port());
        if let Some(why) = outbound.refuses(host) {
            let message = format!("a broker of this cluster is at {host}:{port}: {why}");
            return Err(Failure::new(Reason::HostNotAllowed, message));
        }
        if !deadline.left().is_zero() {
            not_link_local(&format!("{host}:{port}"))?;
        }
    }
    Ok(())
}

fn not_link_local(servers: &str) -> Result<(), Failure> {
    link_local_among(servers).map_or(Ok(()), |server| {
        let message = format!("{server} is at a link-local address, which is not connected to");
        Err(Failure::new(Reason::HostNotAllowed, message))
    })
}

/// Serves the error events; the client is subscribed to nothing.
fn serve(consumer: &BaseConsumer<Causes>) {
    while consumer.poll(Duration::ZERO).is_some() {}
}

fn unusable(error: &KafkaError) -> Failure {
    Failure::new(Reason::SpecInvalid, format!("unusable Kafka connection: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caused(errors: &[(RDKafkaErrorCode, &str)]) -> Causes {
        let causes = Causes::default();
        for (code, text) in errors {
            causes.note(&KafkaError::Global(*code), text);
        }
        causes
    }

    /// Scenario: a wrong password, and brokers that then close the connection. Guarantee: the
    /// password is named as the cause, at once.
    #[test]
    fn a_refused_password_outweighs_what_follows_from_it() {
        let causes = caused(&[
            (RDKafkaErrorCode::BrokerTransportFailure, "Disconnected"),
            (RDKafkaErrorCode::Authentication, "SASL authentication error"),
            (RDKafkaErrorCode::AllBrokersDown, "1/1 brokers are down"),
        ]);
        let failure = causes.verdict(1, Some("kafka-user")).unwrap();
        assert_eq!(failure.reason, Reason::KafkaAuthenticationFailed);
        assert!(failure.message.contains("Secret kafka-user"), "{failure}");
    }

    /// Scenario: one of two names does not resolve. Guarantee: no verdict, the other may answer.
    #[test]
    fn one_unknown_name_of_two_is_no_verdict() {
        let causes =
            caused(&[(RDKafkaErrorCode::Resolve, "a:9092/bootstrap: Failed to resolve a")]);
        assert_eq!(causes.verdict(2, None), None);
        assert_eq!(causes.verdict(1, None).unwrap().reason, Reason::KafkaHostUnknown);
        assert_eq!(causes.last_word(2, None).reason, Reason::KafkaUnreachable);
    }
}
