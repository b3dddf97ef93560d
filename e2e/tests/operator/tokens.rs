//! SASL OAUTHBEARER with a real broker and a provider on loopback: tokens that expire, a provider
//! that is away, and one that refuses. The operator's sessions and the collector's producer.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use millrace_config::{Compression, KafkaConnection, SecretFile};
use millrace_crds::Reason;
use millrace_kafka_tokens::{
    AwsIdentity, AwsMskIamSettings, OAuthSettings, SecretText, TokenSettings,
};
use millrace_operator::kafka::{
    Brokers, ConnectionSettings, Pace, Sessions, TopicChange, TopicObservation,
};
use millrace_sink_kafka::{Producer, Shipment, StoredPosition, Traits, create_producer};
use millrace_stack::kafka::{Broker, BrokerOptions, Credentials, Listener};
use millrace_stack::service::Secret;
use rdkafka::producer::BaseRecord;
use rdkafka::types::RDKafkaErrorCode;

/// Longest wait for the provider or the broker: both share busy processors.
const PATIENCE: Duration = Duration::from_secs(60);

/// A provider of unsigned tokens.
#[derive(Clone)]
struct Provider {
    port: u16,
    state: Arc<(Mutex<ProviderState>, Condvar)>,
}

#[derive(Default)]
struct ProviderState {
    is_away: bool,
    issued: u32,
    refused: u32,
}

impl Provider {
    fn start(lifetime_seconds: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let provider = Self { port, state: Arc::default() };
        let served = provider.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                served.answer(stream.unwrap(), lifetime_seconds);
            }
        });
        provider
    }

    fn answer(&self, mut stream: TcpStream, lifetime: u64) {
        let mut request = String::new();
        let mut buffer = [0; 4096];
        while !request.contains("grant_type=client_credentials") {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(read) => request.push_str(&String::from_utf8_lossy(&buffer[..read])),
            }
        }
        let mut state = self.state.0.lock().unwrap();
        // base64 of millrace:s3cret
        let is_known = request.to_lowercase().contains(&"authorization: basic".to_lowercase())
            && request.contains("bWlsbHJhY2U6czNjcmV0");
        let (status, body) = match (state.is_away, is_known) {
            (true, _) => ("503 Service Unavailable", "{}".to_owned()),
            (false, false) => ("403 Forbidden", r#"{"error":"invalid_client"}"#.to_owned()),
            (false, true) => {
                let token = unsigned_token(lifetime);
                ("200 OK", format!(r#"{{"access_token":"{token}","expires_in":{lifetime}}}"#))
            }
        };
        match status.starts_with("200") {
            true => state.issued += 1,
            false => state.refused += 1,
        }
        let length = body.len();
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        let _ = stream.write_all((head + &body).as_bytes());
        self.state.1.notify_all();
    }

    fn set_away(&self, is_away: bool) {
        self.state.0.lock().unwrap().is_away = is_away;
    }

    fn wait_for(&self, reached: impl Fn(&ProviderState) -> bool) {
        let state = self.state.0.lock().unwrap();
        let waited = self.state.1.wait_timeout_while(state, PATIENCE, |state| !reached(state));
        assert!(!waited.unwrap().1.timed_out(), "the provider was not asked");
    }

    fn issued(&self) -> u32 {
        self.state.0.lock().unwrap().issued
    }

    fn settings(&self, secret: &str) -> OAuthSettings {
        OAuthSettings {
            token_endpoint: format!("http://127.0.0.1:{}/token", self.port).parse().unwrap(),
            client_id: "millrace".to_owned(),
            client_secret: SecretText::Text(secret.to_owned()),
            scope: Some("kafka".to_owned()),
            ca: None,
        }
    }
}

/// An unsigned JWS, which the broker's validator for tests accepts until it expires.
fn unsigned_token(lifetime_seconds: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let expires = now + lifetime_seconds as f64;
    let claims = format!(r#"{{"sub":"millrace","iat":{now},"exp":{expires},"scope":"kafka"}}"#);
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode(&claims))
}

fn broker() -> Broker {
    let credentials =
        Credentials { user: Secret::new("nobody").unwrap(), password: Secret::random() };
    let sasl = Some((Listener::LOOPBACK, credentials));
    Broker::start(BrokerOptions { sasl, accepts_tokens: true, ..BrokerOptions::default() }).unwrap()
}

async fn create_topic(sessions: &Sessions, settings: ConnectionSettings) {
    let create = TopicChange::Create {
        partitions: 1,
        replication_factor: Some(1),
        settings: BTreeMap::new(),
    };
    sessions.change_topic(settings, "t", create).await.unwrap();
}

/// A message that reports its result to the test.
struct Message(mpsc::SyncSender<Result<(), RDKafkaErrorCode>>);

impl Shipment for Message {
    fn handle_result(self, result: Result<StoredPosition, (RDKafkaErrorCode, &[u8])>) {
        let _ = self.0.send(result.map(|_position| ()).map_err(|(code, _)| code));
    }
}

/// Sends a message and waits for its result.
fn send(producer: &Producer<Message>) -> mpsc::Receiver<Result<(), RDKafkaErrorCode>> {
    let (sender, results) = mpsc::sync_channel(64);
    let record =
        BaseRecord::<(), str, Box<Message>>::with_opaque_to("t", Box::new(Message(sender)));
    assert!(producer.send(record.payload("span")).is_ok());
    results
}

fn producer(address: &str, provider: &Provider, secret: SecretFile) -> Producer<Message> {
    let text = format!(
        "bootstrapServers: ['{address}']\nsasl:\n  mechanism: OAUTHBEARER\n  oauth:\n    \
         tokenEndpoint: http://127.0.0.1:{}/token\n    clientId: millrace\n    \
         clientSecretFile: {secret}\n",
        provider.port
    );
    let connection: KafkaConnection = serde_norway::from_str(&text).unwrap();
    let traits = Traits {
        compression: Compression::None,
        max_message_bytes: 1_000_000,
        messages_per_batch: 1_000,
        delivery_timeout: Some(PATIENCE),
        response_timeout: Duration::from_secs(10),
    };
    create_producer(&connection, &traits).unwrap()
}

/// Scenario: tokens of three seconds, after which the broker closes connections that have not
/// authenticated again; then a provider that is away for longer than a token lasts. Guarantee: the
/// producer delivers across renewals, and again once the provider is back. Slow: a broker starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_producer_outlasts_its_tokens_and_their_provider() {
    let (broker, provider) = (broker(), Provider::start(3));
    let address = broker.sasl_bootstrap().unwrap();
    let sessions = Sessions::new(Pace::AT_ONCE);
    create_topic(&sessions, ConnectionSettings::from_servers(&broker.bootstrap(), None)).await;
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "s3cret\n").unwrap();
    let producer = producer(&address, &provider, SecretFile::new(secret).unwrap());
    for token in 1..=4 {
        provider.wait_for(|state| state.issued >= token);
        assert_eq!(send(&producer).recv_timeout(PATIENCE), Ok(Ok(())), "token {token}");
    }
    provider.set_away(true);
    // Requests fail after 0, 1, 3 and 7 seconds: by then the last token has expired.
    provider.wait_for(|state| state.refused >= 4);
    let during = send(&producer);
    provider.set_away(false);
    assert_eq!(during.recv_timeout(PATIENCE), Ok(Ok(())));
}

/// Scenario: the operator creates and observes a topic by tokens, over several of them; then a wrong
/// client secret. Guarantee: administration works across renewals, and the refusal is an
/// authentication failure that names the endpoint and not the secret. Slow: a broker starts.
#[tokio::test(flavor = "multi_thread")]
async fn the_operator_administers_by_tokens() {
    let (broker, provider) = (broker(), Provider::start(3));
    let address = broker.sasl_bootstrap().unwrap();
    let sessions = Sessions::new(Pace::AT_ONCE);
    let settings = || ConnectionSettings::with_tokens(&address, provider.settings("s3cret"));
    create_topic(&sessions, settings()).await;
    for _ in 0..2 {
        let issued = provider.issued();
        provider.wait_for(|state| state.issued > issued + 1);
        let grow = TopicChange::Grow { partitions: 1 };
        let _ = sessions.change_topic(settings(), "t", grow).await;
        let observed = sessions.observe_topic(settings(), "t").await.unwrap();
        assert!(matches!(observed, TopicObservation::Exists { partitions: 1, .. }), "{observed:?}");
    }
    let wrong = ConnectionSettings::with_tokens(&address, provider.settings("wr0ng"));
    let refused = sessions.observe_topic(wrong, "t").await.unwrap_err();
    assert_eq!(refused.reason, Reason::KafkaAuthenticationFailed, "{refused}");
    assert!(refused.message.contains("/token: it answered 403"), "{refused}");
    assert!(!refused.message.contains("wr0ng"), "{refused}");
}

/// Scenario: a token for Amazon MSK at a broker whose validator accepts unsigned JWS only. Guarantee:
/// the client library sends it, and the broker's refusal is an authentication failure. Only AWS can
/// check the signature itself. Slow: a broker starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_for_msk_is_an_authentication_failure() {
    let broker = broker();
    let address = broker.sasl_bootstrap().unwrap();
    let text = |text: &str| SecretText::Text(text.to_owned());
    let identity = AwsIdentity::Keys {
        access_key_id: text("AKIDEXAMPLE"),
        secret_access_key: text("wJalrXUtnFEMI"),
    };
    let tokens = AwsMskIamSettings { region: "eu-central-1".to_owned(), identity };
    let settings = ConnectionSettings::with_tokens(&address, TokenSettings::AwsMskIam(tokens));
    let refused = Sessions::new(Pace::AT_ONCE).observe_topic(settings, "t").await.unwrap_err();
    assert_eq!(refused.reason, Reason::KafkaAuthenticationFailed, "{refused}");
    assert!(!refused.message.contains("wJalrXUtnFEMI"), "{refused}");
}
