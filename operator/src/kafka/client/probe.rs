//! Connects a client to a broker, or finds out why none can be reached.
//!
//! librdkafka's calls only report a timeout; the cause comes in its error events. They are
//! collected here, so that a wrong password is distinguished from a dead broker within seconds.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use millrace_crds::Reason;
use millrace_kafka_tokens::{ErrorEvents, TokenSettings, TokenSource};
use rdkafka::admin::AdminClient;
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::MetadataBroker;

use super::connection::{ConnectionSettings, LoginSource};
use crate::kafka::Deadline;
use crate::kafka::failure::{Failure, strip_variable_parts};
use crate::outbound::Outbound;

/// How long an attempt waits before it checks the error events.
const ATTEMPT: Duration = Duration::from_millis(1_500);

/// How long to try to reach a broker: a connection attempt to an address that drops packets ends
/// after 7 s, and then its cause is known.
const REACH_MAX: Duration = Duration::from_secs(8);

/// Maximum number of brokers of a cluster: the largest have some hundreds, and each costs the
/// library a thread.
const BROKERS_MAX: usize = 1_000;

/// Maximum number of different causes; further ones would repeat for other brokers.
const CAUSES_MAX: usize = 16;

/// Collects the error events of one client.
#[derive(Clone, Default)]
pub(in crate::kafka) struct Causes {
    found: Arc<Mutex<BTreeSet<(CauseRank, String)>>>,
    /// The number of lines of the library's log so far.
    log_lines: Arc<AtomicU64>,
}

/// The rank of a cause: the first one is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CauseRank {
    Authentication,
    Tls,
    Resolve,
    Transport,
}

impl CauseRank {
    fn from_code(code: RDKafkaErrorCode) -> Option<Self> {
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
    fn record_cause(&self, error: &KafkaError, text: &str) {
        let Some(weight) = error.rdkafka_error_code().and_then(CauseRank::from_code) else {
            return;
        };
        let mut causes = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if causes.len() < CAUSES_MAX {
            causes.insert((weight, strip_variable_parts(text)));
        }
    }

    /// Returns the failure for these causes. `servers`: the number of bootstrap servers; with fewer
    /// unresolved names, another server may still answer. `login`: where the
    /// credentials are from.
    fn conclusive_failure(&self, servers: usize, login: &LoginSource) -> Option<Failure> {
        let causes = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let first = |weight| causes.iter().find(|(each, _)| *each == weight).map(|(_, text)| text);
        if let Some(text) = first(CauseRank::Authentication) {
            let LoginSource { field, secret, is_own_identity } = login;
            let check = match secret {
                Some(name) => format!("check the credentials in Secret {name}, and {field}.type"),
                None if *is_own_identity => format!(
                    "check the IAM role of the operator's service account, its right \
                     kafka-cluster:Connect, and {field}.region"
                ),
                None => "set kafka.authentication".to_owned(),
            };
            let message = format!("Kafka rejected the operator's credentials: {text}; {check}");
            return Some(Failure::new(Reason::KafkaAuthenticationFailed, message));
        }
        if let Some(text) = first(CauseRank::Tls) {
            let message = format!(
                "the TLS connection to Kafka failed: {text}; check kafka.tls.ca and that the port \
                 speaks TLS"
            );
            return Some(Failure::new(Reason::KafkaTlsFailed, message));
        }
        let unresolved = causes.iter().filter(|(weight, _)| *weight == CauseRank::Resolve).count();
        match first(CauseRank::Resolve) {
            Some(text) if unresolved >= servers => {
                let message = format!("{text}; check the spelling of kafka.bootstrapServers");
                Some(Failure::new(Reason::KafkaHostUnknown, message))
            }
            _ => None,
        }
    }

    /// Returns the failure after the deadline.
    fn final_failure(&self, servers: usize, login: &LoginSource) -> Failure {
        if let Some(failure) = self.conclusive_failure(servers, login) {
            return failure;
        }
        let causes = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let cause = causes.first().map_or("no answer in time", |(_, text)| text.as_str());
        Failure::new(
            Reason::KafkaUnreachable,
            format!(
                "no Kafka broker answered: {cause}; check that it runs, and that no firewall or \
                 NetworkPolicy blocks the operator"
            ),
        )
    }
}

impl ClientContext for Causes {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        self.log_lines.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(facility, "librdkafka: {message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.record_cause(&error, reason);
    }
}

impl ConsumerContext for Causes {}

/// A client that has reached a broker.
pub(in crate::kafka) struct BrokerClient {
    /// The client for queries; it never joins a group.
    pub(in crate::kafka) consumer: Arc<BaseConsumer<Causes>>,
    /// Whether the client has a group, without which it can't query any group's commits.
    pub(in crate::kafka) in_group: bool,
    /// Whether a request to a group's coordinator is abandoned and still under way in the library.
    unusable: AtomicBool,
    /// The client that changes topics; created when first needed.
    admin: OnceLock<Arc<AdminClient<DefaultClientContext>>>,
    /// Renews the tokens of both clients.
    tokens: Option<TokenSource>,
}

impl BrokerClient {
    /// Reaches a broker by a request for the metadata of `topic`, which need not exist. `group` is
    /// one whose commits the credentials may read, if commits are needed. `outbound` must allow
    /// each broker that the cluster names before any is queried.
    ///
    /// # Errors
    /// When none can be reached, with the cause as far as known.
    pub(in crate::kafka) fn connect_to_broker(
        settings: &ConnectionSettings,
        outbound: &Outbound,
        topic: &str,
        group: Option<&str>,
        deadline: Deadline,
    ) -> Result<Self, Failure> {
        // Before there is a client: it connects as soon as it exists.
        not_refused(outbound, settings.bootstrap_servers())?;
        let causes = Causes::default();
        let mut config = settings.client_config();
        config.set("enable.auto.commit", "false").set("allow.auto.create.topics", "false");
        if let Some(group) = group {
            config.set("group.id", group);
        }
        let consumer: BaseConsumer<Causes> = config
            .create_with_context(causes.clone())
            .map_err(|error| unusable_connection(&error))?;
        let consumer = Arc::new(consumer);
        let tokens = start_tokens(settings, outbound, deadline)?;
        if let Some(tokens) = &tokens {
            tokens.attach(&consumer, ErrorEvents::Polled);
        }
        let reaching = Deadline::from_now(deadline.at_most(REACH_MAX));
        loop {
            let attempt = consumer.fetch_metadata(Some(topic), reaching.at_most(ATTEMPT));
            if let Ok(metadata) = attempt
                && !metadata.brokers().is_empty()
            {
                check_brokers_allowed(outbound, metadata.brokers(), reaching)?;
                let in_group = group.is_some();
                let unusable = AtomicBool::new(false);
                return Ok(Self { consumer, in_group, unusable, admin: OnceLock::new(), tokens });
            }
            poll_client(&consumer);
            if let Some(failure) =
                causes.conclusive_failure(settings.server_count(), settings.login_source())
            {
                return Err(failure);
            }
            if reaching.remaining_time().is_zero() {
                return Err(causes.final_failure(settings.server_count(), settings.login_source()));
            }
        }
    }

    pub(in crate::kafka) fn admin_client(
        &self,
        settings: &ConnectionSettings,
    ) -> Result<&AdminClient<DefaultClientContext>, Failure> {
        if let Some(known) = self.admin.get() {
            return Ok(known);
        }
        let made =
            settings.client_config().create().map_err(|error| unusable_connection(&error))?;
        let made = Arc::new(made);
        if let Some(tokens) = &self.tokens {
            tokens.attach(&made, ErrorEvents::Unpolled);
        }
        Ok(self.admin.get_or_init(|| made))
    }

    /// Records that the client must be closed soon: a request of it is abandoned.
    pub(super) fn mark_unusable(&self) {
        self.unusable.store(true, Ordering::Relaxed);
    }

    /// Returns whether the client must be closed.
    pub(in crate::kafka) fn is_unusable(&self) -> bool {
        self.unusable.load(Ordering::Relaxed)
    }

    /// Polls error events, so that they don't accumulate in a cached client.
    pub(in crate::kafka) fn poll_events(&self) {
        poll_client(&self.consumer);
    }
}

/// Requests the first token, if the connection needs one.
fn start_tokens(
    settings: &ConnectionSettings,
    outbound: &Outbound,
    deadline: Deadline,
) -> Result<Option<TokenSource>, Failure> {
    let Some(tokens) = settings.tokens() else { return Ok(None) };
    if let TokenSettings::OAuth(oauth) = tokens {
        let endpoint = &oauth.token_endpoint;
        if let Some(why) = outbound.refusal_of_host(endpoint.bare_host()) {
            let message = format!("token endpoint {endpoint}: {why}");
            return Err(Failure::new(Reason::HostNotAllowed, message));
        }
        not_refused(outbound, &format!("{}:{}", endpoint.host(), endpoint.port()))?;
    }
    // A signature is valid for each cluster that the identity may connect to, not only for this.
    let refused = settings.own_identity_for().filter(|it| !outbound.may_use_aws_identity(it));
    if let Some(namespace) = refused {
        let message = format!(
            "the operator's AWS identity is not for namespace {namespace}: add it to the chart's \
             aws.identityNamespaces, or set accessKeyIdSecret and secretAccessKeySecret in \
             kafka.admin.authentication"
        );
        return Err(Failure::new(Reason::KafkaAuthenticationFailed, message));
    }
    let tokens = TokenSource::start(tokens.clone()).map_err(|error| {
        let message = format!("cannot start the thread that requests tokens: {error}");
        Failure::new(Reason::KafkaUnreachable, message)
    })?;
    let first = tokens.wait_for_token(deadline.at_most(REACH_MAX));
    first.map_err(|reason| Failure::new(Reason::KafkaAuthenticationFailed, reason))?;
    Ok(Some(tokens))
}

/// Refuses a cluster that names brokers to which the operator may not connect. Resolves names until
/// the deadline; the client resolves the others.
fn check_brokers_allowed(
    outbound: &Outbound,
    brokers: &[MetadataBroker],
    deadline: Deadline,
) -> Result<(), Failure> {
    if brokers.len() > BROKERS_MAX {
        let message = format!("this cluster names more than {BROKERS_MAX} brokers as its own");
        return Err(Failure::new(Reason::KafkaRequestRejected, message));
    }
    for broker in brokers {
        let (host, port) = (broker.host(), broker.port());
        if let Some(why) = outbound.refusal_of_host(host) {
            let message = format!("a broker of this cluster is at {host}:{port}: {why}");
            return Err(Failure::new(Reason::HostNotAllowed, message));
        }
        if !deadline.remaining_time().is_zero() {
            not_refused(outbound, &format!("{host}:{port}"))?;
        }
    }
    Ok(())
}

fn not_refused(outbound: &Outbound, servers: &str) -> Result<(), Failure> {
    outbound.refused_among(servers).map_or(Ok(()), |(server, kind)| {
        let message = format!("{server} is at {kind}, to which the operator does not connect");
        Err(Failure::new(Reason::HostNotAllowed, message))
    })
}

/// Polls the error events; the client has no subscription. Lines of the library's log are before
/// them in the queue, and a poll that handles one returns nothing.
fn poll_client(consumer: &BaseConsumer<Causes>) {
    let lines = || consumer.context().log_lines.load(Ordering::Relaxed);
    loop {
        let before = lines();
        if consumer.poll(Duration::ZERO).is_none() && lines() == before {
            return;
        }
    }
}

fn unusable_connection(error: &KafkaError) -> Failure {
    Failure::new(Reason::SpecInvalid, format!("unusable Kafka connection: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes_of(errors: &[(RDKafkaErrorCode, &str)]) -> Causes {
        let causes = Causes::default();
        for (code, text) in errors {
            causes.record_cause(&KafkaError::Global(*code), text);
        }
        causes
    }

    /// Scenario: a wrong password, and brokers that then close the connection. Guarantee: the
    /// password is reported as the cause, at once.
    #[test]
    fn a_refused_password_outweighs_what_follows_from_it() {
        let causes = causes_of(&[
            (RDKafkaErrorCode::BrokerTransportFailure, "Disconnected"),
            (RDKafkaErrorCode::Authentication, "SASL authentication error"),
            (RDKafkaErrorCode::AllBrokersDown, "1/1 brokers are down"),
        ]);
        let secret = Some("kafka-user".to_owned());
        let login =
            LoginSource { field: "kafka.admin.authentication", secret, ..LoginSource::default() };
        let failure = causes.conclusive_failure(1, &login).unwrap();
        assert_eq!(failure.reason, Reason::KafkaAuthenticationFailed);
        let advice = "Secret kafka-user, and kafka.admin.authentication.type";
        assert!(failure.message.contains(advice), "{failure}");
    }

    /// Scenario: Amazon MSK refuses the operator's own AWS identity, for which no Secret exists.
    /// Guarantee: the message names the role and its right.
    #[test]
    fn a_refused_role_is_named_instead_of_a_secret() {
        let causes = causes_of(&[(RDKafkaErrorCode::Authentication, "Access denied")]);
        let field = "kafka.authentication";
        let login = LoginSource { field, secret: None, is_own_identity: true };
        let failure = causes.conclusive_failure(1, &login).unwrap();
        assert!(failure.message.contains("service account"), "{failure}");
        assert!(failure.message.contains("kafka-cluster:Connect"), "{failure}");
    }

    /// Scenario: one of two names does not resolve. Guarantee: no verdict, since the other may
    /// answer.
    #[test]
    fn one_unknown_name_of_two_is_no_verdict() {
        let causes =
            causes_of(&[(RDKafkaErrorCode::Resolve, "a:9092/bootstrap: Failed to resolve a")]);
        let none = LoginSource::default();
        assert_eq!(causes.conclusive_failure(2, &none), None);
        assert_eq!(causes.conclusive_failure(1, &none).unwrap().reason, Reason::KafkaHostUnknown);
        assert_eq!(causes.final_failure(2, &none).reason, Reason::KafkaUnreachable);
    }
}
