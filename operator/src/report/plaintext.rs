//! Passwords sent in plaintext: reported by a condition and an event, not refused. Pure.

use millrace_crds::v1alpha1::{
    ClickHouseTarget, KafkaConnection, PrometheusReceiver, SaslMechanism, ScrapeJob, ScrapeProxy,
    ScrapeScheme,
};
use millrace_crds::{ConditionType, Reason};

use crate::report::conditions::Conditions;

/// States `PasswordExposed` for a spec that sends a password in plaintext; otherwise nothing.
pub fn state(
    conditions: &mut Conditions,
    kafka: Option<&KafkaConnection>,
    clickhouse: Option<&ClickHouseTarget>,
    scraped: Option<&PrometheusReceiver>,
) {
    let told = [kafka.and_then(to_kafka), clickhouse.and_then(to_clickhouse)];
    let mut told: Vec<String> = told.into_iter().flatten().map(str::to_owned).collect();
    told.extend(scraped.and_then(to_targets));
    if told.is_empty() {
        conditions.drop(ConditionType::PasswordExposed);
    } else {
        let message = told.join("; ");
        conditions.holds(ConditionType::PasswordExposed, Reason::ConnectionUnencrypted, message);
    }
}

/// SCRAM proves knowledge of the password without sending it.
fn to_kafka(kafka: &KafkaConnection) -> Option<&'static str> {
    let KafkaConnection { bootstrap_servers: _, tls, sasl } = kafka;
    let sends = sasl.as_ref().is_some_and(|it| it.mechanism == SaslMechanism::Plain);
    (sends && tls.is_none()).then_some(
        "kafka.sasl with PLAIN sends the password as it is: set kafka.tls, or use SCRAM-SHA-512",
    )
}

fn to_clickhouse(target: &ClickHouseTarget) -> Option<&'static str> {
    let is_plain = target.endpoints.iter().any(|it| it.as_str().starts_with("http://"));
    (target.credentials_secret_ref.is_some() && is_plain)
        .then_some("clickhouse.endpoints with http:// are sent the password as it is: use https://")
}

/// The first job that does it is named; others may follow.
fn to_targets(receiver: &PrometheusReceiver) -> Option<String> {
    let exposed = |job: &ScrapeJob| {
        let (is_http, oauth2) = (job.scheme == ScrapeScheme::Http, job.oauth2.as_ref());
        let token_proxy = oauth2.and_then(|oauth2| oauth2.proxy.as_ref());
        let has_password = |proxy: &ScrapeProxy| proxy.credentials_secret_ref.is_some();
        if oauth2.is_some_and(|oauth2| oauth2.token_url.starts_with("http://")) {
            Some("oauth2.tokenUrl with http:// is sent the client's secret: use https://")
        } else if is_http && (job.authorization.is_some() || oauth2.is_some()) {
            Some("targets with scheme http are sent a token as it is: use https")
        } else if is_http && job.basic_auth.is_some() {
            Some("targets with scheme http are sent the password as it is: use https")
        } else if job.proxy.as_ref().is_some_and(has_password) {
            Some("proxy.credentialsSecretRef: the password goes to the proxy as it is")
        } else if token_proxy.is_some_and(has_password) {
            Some("oauth2.proxy.credentialsSecretRef: the password goes to the proxy as it is")
        } else {
            None
        }
    };
    let told = |job| exposed(job).map(|what| (&job.name, what));
    let (name, what) = receiver.jobs.iter().find_map(told)?;
    Some(format!("receivers.prometheus.jobs: {name}: {what}"))
}

#[cfg(test)]
#[path = "../../tests/unit/report/plaintext.rs"]
mod tests;
