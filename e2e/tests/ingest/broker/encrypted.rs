//! Kafka over TLS with SCRAM-SHA-512 and ClickHouse over HTTPS, all parts real: as the production
//! sample connects.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use millrace_certificates::Authority;
use millrace_e2e::collector::{Collector, Ports};
use millrace_e2e::lab::{GROUP, Lab, LabOptions};
use millrace_e2e::{http, wait};
use millrace_stack::clickhouse;
use millrace_stack::kafka::{BrokerOptions, Credentials, Listener, TlsListener};
use millrace_stack::service::{KeyStore, Secret};

/// For a load of some ten thousand spans on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);
const USER: &str = "edge";
const PASSWORD: &str = "s3cret";

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// A lab whose broker and engine have an encrypted listener, with a certificate of this authority.
fn lab(authority: &Authority) -> Lab {
    let identity = authority.sign("127.0.0.1");
    let key_store = KeyStore::from_pem(&identity.key_pem(), &identity.pem());
    let engine_tls = Some(clickhouse::TlsListener { port: 0, key_store: key_store.clone() });
    let tls = TlsListener { listener: Listener::LOOPBACK, key_store };
    let (user, password) = (Secret::new(USER).unwrap(), Secret::new(PASSWORD).unwrap());
    let sasl = Some((Listener::LOOPBACK, Credentials { user, password }));
    let broker = BrokerOptions { sasl, tls: Some(tls), ..BrokerOptions::default() };
    Lab::with(LabOptions { broker, engine_tls, ..LabOptions::default() }).unwrap()
}

/// The connection, in the form in which the operator renders the sample's.
fn connection(lab: &Lab, folder: &Path, authority: &Authority, password: &str) -> String {
    let path = |name, text: &str| write(folder, name, text).display().to_string();
    format!(
        "    connection:\n      bootstrapServers: [\"{}\"]\n      tls: {{caFile: \"{}\"}}\n      \
         sasl:\n        mechanism: SCRAM-SHA-512\n        usernameFile: \"{}\"\n        \
         passwordFile: \"{}\"\n",
        lab.broker.tls_bootstrap().unwrap(),
        path("ca.crt", &authority.pem()),
        path("username", USER),
        path("password", password),
    )
}

fn start(lab: &Lab, name: &str, ports: Ports, settings: &str) -> Collector {
    Collector::start(lab.folder(), name, ports, settings).unwrap()
}

fn edge(lab: &Lab, name: &str, connection: &str) -> Collector {
    let ports = Ports::free().unwrap();
    let settings = format!(
        "receivers:\n  otlp:\n    grpc: {{address: \"{}\"}}\n    http: {{address: \"{}\"}}\n\
         exporters:\n  kafka:\n{connection}",
        ports.grpc, ports.http,
    );
    start(lab, name, ports, &settings)
}

fn gateway(lab: &Lab, connection: &str, authority: &Path) -> Collector {
    let settings = format!(
        "receivers:\n  kafka:\n{connection}    groupId: {GROUP}\n    workers: 1\n\
         exporters:\n  clickhouse:\n    endpoints: [\"{}\"]\n    database: otel\n    \
         attributes: JSON\n    tls: {{caFile: \"{}\"}}\n    \
         credentials: {{usernameFile: \"{}\", passwordFile: \"{}\"}}\n",
        lab.engine.tls_url().unwrap(),
        authority.display(),
        lab.user_file().display(),
        lab.password_file().display(),
    );
    start(lab, "gateway", Ports::free().unwrap(), &settings)
}

/// Waits until a collector isn't ready for this cause.
fn expect_cause(collector: &Collector, cause: &str) -> Result<()> {
    wait::until(&format!("{} to report {cause}", collector.name()), LIMIT, || {
        let answer = http::get(collector.ports.admin, "/readyz")?;
        let text = answer.text();
        ensure!(answer.status == 503 && text.contains(cause), "{} {text}", answer.status);
        Ok(())
    })
}

/// Scenario: an edge and a gateway that trust the authority of broker and engine and have their
/// passwords.
/// Guarantee: every acknowledged span is stored once and unaltered. Slow: a broker and an engine
/// start.
#[test]
fn spans_pass_an_encrypted_broker_and_engine() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("brokers");
    let lab = lab(&authority);
    let connection = connection(&lab, folder.path(), &authority, PASSWORD);
    let trusted = folder.path().join("ca.crt");
    let mut edge = edge(&lab, "edge", &connection);
    let mut gateway = gateway(&lab, &connection, &trusted);
    edge.ready().unwrap();
    gateway.ready().unwrap();
    let verdict = lab.load(&edge, 71, 20_000).run(lab.folder(), LIMIT).unwrap();
    assert_eq!((verdict.sent, verdict.stored), (20_000, 20_000), "{}", verdict.line);
    let bad = (verdict.missing, verdict.duplicated, verdict.altered);
    assert_eq!(bad, (0, 0, 0), "{}", verdict.line);
}

/// Scenario: an edge that trusts another authority, and one with a wrong password. Guarantee:
/// neither is ready; each reports its own cause and what to check. Slow: a broker and an engine
/// start.
#[test]
fn an_untrusted_broker_and_a_rejected_password_are_distinguished() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("brokers");
    let lab = lab(&authority);
    let other = Authority::new("others");
    for (name, trusted, password, cause, advice) in [
        ("untrusting", &other, PASSWORD, "certificate verify failed", "check the CA"),
        ("rejected", &authority, "wr0ng", "Authentication failed", "check the user name"),
    ] {
        let files = folder.path().join(name);
        fs::create_dir(&files).unwrap();
        let edge = edge(&lab, name, &connection(&lab, &files, trusted, password));
        expect_cause(&edge, cause).unwrap();
        expect_cause(&edge, advice).unwrap();
        let text = http::get(edge.ports.admin, "/readyz").unwrap().text();
        assert!(!text.contains("senders retry"), "{text}");
    }
}

/// Scenario: a gateway that trusts the broker's authority and another one for the engine.
/// Guarantee: it isn't ready, and states that the certificate is the cause and what to check. Slow:
/// a broker and an engine start.
#[test]
fn an_untrusted_engine_is_named_by_its_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("servers");
    let lab = lab(&authority);
    let connection = connection(&lab, folder.path(), &authority, PASSWORD);
    let other = write(folder.path(), "other.crt", &Authority::new("others").pem());
    let gateway = gateway(&lab, &connection, &other);
    expect_cause(&gateway, "invalid peer certificate").unwrap();
    expect_cause(&gateway, "check the CA certificate").unwrap();
}
