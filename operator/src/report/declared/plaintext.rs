//! Passwords sent in plaintext: reported by a condition and an event, not refused. Pure.

use millrace_crds::v1alpha1::{
    ClickHouseTarget, KafkaAuthentication, KafkaAuthenticationType, KafkaConnection,
    PrometheusReceiver, ScrapeJob, ScrapeProxy, ScrapeScheme,
};
use millrace_crds::{ConditionType, Reason};

use crate::report::conditions::Conditions;

/// States `CredentialsExposed` for a spec that sends a password in plaintext, and removes it
/// otherwise.
pub fn state_exposed_passwords(
    conditions: &mut Conditions,
    kafka: Option<&KafkaConnection>,
    clickhouse: Option<&ClickHouseTarget>,
    scraped: Option<&PrometheusReceiver>,
) {
    let exposures = [kafka.and_then(to_kafka), clickhouse.and_then(to_clickhouse)];
    let mut exposures: Vec<String> = exposures.into_iter().flatten().map(str::to_owned).collect();
    exposures.extend(scraped.and_then(to_targets));
    if exposures.is_empty() {
        conditions.remove_condition(ConditionType::CredentialsExposed);
    } else {
        let message = exposures.join("; ");
        conditions.set_true(
            ConditionType::CredentialsExposed,
            Reason::ConnectionUnencrypted,
            message,
        );
    }
}

/// Checks a connection to Kafka. SCRAM proves knowledge of the password without sending it.
fn to_kafka(kafka: &KafkaConnection) -> Option<&'static str> {
    let KafkaConnection { bootstrap_servers: _, tls, authentication, admin } = kafka;
    let admin = admin.as_ref().map(|admin| &admin.authentication);
    let logins = || authentication.iter().chain(admin);
    let has_type = |kind| logins().any(|it| it.r#type == kind);
    let is_http = |it: &KafkaAuthentication| {
        it.token_endpoint.as_ref().is_some_and(|url| url.starts_with("http://"))
    };
    if tls.is_none() && has_type(KafkaAuthenticationType::Plain) {
        Some(
            "kafka.authentication.type Plain sends the password in plaintext: set kafka.tls, or \
             use ScramSha512",
        )
    } else if tls.is_none() && has_type(KafkaAuthenticationType::OAuthBearer) {
        Some("kafka.authentication.type OAuthBearer sends the token in plaintext: set kafka.tls")
    } else if logins().any(is_http) {
        Some(
            "kafka.authentication.tokenEndpoint with http:// receives the client secret in \
             plaintext: use https://",
        )
    } else {
        None
    }
}

fn to_clickhouse(target: &ClickHouseTarget) -> Option<&'static str> {
    let is_plain = target.endpoints.iter().any(|it| it.as_str().starts_with("http://"));
    let authenticates = target.authentication.is_some() || target.admin.is_some();
    (authenticates && is_plain).then_some(
        "clickhouse.endpoints with http:// get the password or token in plaintext: use https://",
    )
}

/// Checks scrape jobs, and names the first one that exposes credentials; others may follow.
fn to_targets(receiver: &PrometheusReceiver) -> Option<String> {
    let exposed = |job: &ScrapeJob| {
        let (is_http, oauth2) = (job.scheme == ScrapeScheme::Http, job.oauth2.as_ref());
        let token_proxy = oauth2.and_then(|oauth2| oauth2.proxy.as_ref());
        let has_password = |proxy: &ScrapeProxy| proxy.credentials_secret.is_some();
        if oauth2.is_some_and(|oauth2| oauth2.token_url.starts_with("http://")) {
            Some(
                "oauth2.tokenUrl with http:// receives the client's secret in plaintext: use \
                 https://",
            )
        } else if is_http && (job.authorization.is_some() || oauth2.is_some()) {
            Some("targets with scheme http receive a token in plaintext: use https")
        } else if is_http && job.basic_auth.is_some() {
            Some("targets with scheme http receive the password in plaintext: use https")
        } else if job.proxy.as_ref().is_some_and(has_password) {
            Some("proxy.credentialsSecret: the proxy receives the password in plaintext")
        } else if token_proxy.is_some_and(has_password) {
            Some("oauth2.proxy.credentialsSecret: the proxy receives the password in plaintext")
        } else {
            None
        }
    };
    let exposed_job = |job| exposed(job).map(|what| (&job.name, what));
    let (name, what) = receiver.jobs.iter().find_map(exposed_job)?;
    Some(format!("receivers.prometheus.jobs: {name}: {what}"))
}

#[cfg(test)]
mod tests;
