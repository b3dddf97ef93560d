//! The common setup of producers: idempotent, all in-sync replicas, and a report of each message's
//! result.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use millrace_config::{Compression, KafkaConnection, SecretError};
use millrace_kafka_tokens::{
    ErrorEvents, Rebootstrap, TokenSettings, TokenSource, describe_refusal,
};
use millrace_pipeline::kafka_client;
use millrace_pipeline::mutex::lock;
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::producer::{BaseProducer, DeliveryResult, Producer as _, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;

use crate::produce::failure::Class;

/// The position of a stored message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredPosition {
    /// The partition.
    pub partition: i32,
    /// The offset; `None` if the broker only confirmed that it has the message already.
    pub offset: Option<i64>,
}

/// A message in flight, which receives its result.
pub trait Shipment: Send + Sync + 'static {
    /// Called once, from the producer's thread; for a message that failed with its bytes. Must not
    /// block.
    fn handle_result(self, result: Result<StoredPosition, (RDKafkaErrorCode, &[u8])>);
}

/// How long the producer's thread waits for events before it checks whether to end. The library
/// rounds a wait down to a millisecond and spins for the remainder: of 500 ms that is 0.002 core,
/// of the library's threaded producer, at 100 ms, 0.01. Ending waits for it.
const POLL: Duration = Duration::from_millis(500);

/// A producer of shipments, with a thread that reports each one's result. Clones share it.
pub struct Producer<S: Shipment> {
    inner: Arc<BaseProducer<Context<S>>>,
    thread: Arc<Deliveries>,
    /// Renews the client's tokens, if it authenticates by them.
    tokens: Option<TokenSource>,
}

impl<S: Shipment> Producer<S> {
    fn new(
        inner: BaseProducer<Context<S>>,
        tokens: Option<TokenSource>,
    ) -> Result<Self, std::io::Error> {
        let inner = Arc::new(inner);
        if let Some(tokens) = &tokens {
            tokens.attach(&inner, ErrorEvents::Polled);
        }
        let ends = Arc::new(AtomicBool::new(false));
        let (polled, ending) = (Arc::clone(&inner), Arc::clone(&ends));
        let poll = move || {
            while !ending.load(Ordering::Acquire) {
                polled.poll(POLL);
                polled.context().rebootstrap.run_due(&*polled, Instant::now());
            }
        };
        let thread = thread::Builder::new().name("kafka-deliveries".into()).spawn(poll)?;
        Ok(Self { inner, thread: Arc::new(Deliveries { ends, thread: Some(thread) }), tokens })
    }
}

impl<S: Shipment> Clone for Producer<S> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            thread: Arc::clone(&self.thread),
            tokens: self.tokens.clone(),
        }
    }
}

impl<S: Shipment> Deref for Producer<S> {
    type Target = BaseProducer<Context<S>>;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

/// A producer's thread, which ends with the last clone.
struct Deliveries {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // The last clone may be dropped with the last shipment, on this very thread.
        if let Some(thread) =
            self.thread.take().filter(|it| it.thread().id() != thread::current().id())
        {
            let _ = thread.join();
        }
    }
}

/// A producer that could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum ProducerError {
    /// A secret file of the connection can't be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The client library refused a setting, such as a certificate it can't read.
    #[error("cannot create the Kafka client: {0}")]
    Client(#[from] KafkaError),
    /// No thread could be started.
    #[error("cannot start the Kafka exporter's threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// The settings in which producers differ.
#[derive(Debug)]
pub struct Traits {
    /// How messages are compressed.
    pub compression: Compression,
    /// The longest message, in bytes, up to 900 MB.
    pub max_message_bytes: usize,
    /// The maximum messages in one batch, 1 to 1,000,000.
    pub messages_per_batch: u32,
    /// The time limit of a message; `None` for no limit.
    pub delivery_timeout: Option<Duration>,
    /// How long a broker's answer may take before its connection is closed.
    pub response_timeout: Duration,
}

/// The queue's limit in kibibytes: the library's own maximum, because the byte budget bounds the
/// queue and two bounds would only hide each other.
const QUEUE_KIB: &str = "2097151";

/// The maximum bytes of a message besides its value: key, headers, and the batch around it (61
/// bytes).
const MESSAGE_OVERHEAD_BYTES: usize = 16 * 1024;

/// Sets up a producer. Brokers are not contacted yet.
///
/// # Errors
/// A secret can't be read, or the client library refuses a setting.
pub fn create_producer<S: Shipment>(
    connection: &KafkaConnection,
    traits: &Traits,
) -> Result<Producer<S>, ProducerError> {
    let Traits {
        compression,
        max_message_bytes,
        messages_per_batch,
        delivery_timeout,
        response_timeout: answer_timeout,
    } = traits;
    let mut config = ClientConfig::new();
    for (name, value) in kafka_client::client_properties(connection)? {
        config.set(name, value);
    }
    let codec = match compression {
        Compression::Zstd => "zstd",
        Compression::Lz4 => "lz4",
        Compression::None => "none",
    };
    let timeout = delivery_timeout.map_or(0, |timeout| timeout.as_millis());
    config
        .set("enable.idempotence", "true")
        .set("acks", "all")
        // A topic that nobody created would get the broker's defaults instead of the user's
        // settings.
        .set("allow.auto.create.topics", "false")
        .set("compression.codec", codec)
        // The caller already makes messages big and late enough.
        .set("linger.ms", "0")
        .set("message.max.bytes", (max_message_bytes + MESSAGE_OVERHEAD_BYTES).to_string())
        .set("batch.size", (max_message_bytes + MESSAGE_OVERHEAD_BYTES).to_string())
        .set("batch.num.messages", messages_per_batch.to_string())
        .set("message.timeout.ms", timeout.to_string())
        .set("socket.timeout.ms", answer_timeout.as_millis().to_string())
        .set("queue.buffering.max.kbytes", QUEUE_KIB)
        .set("queue.buffering.max.messages", "1000000")
        .set("retry.backoff.ms", "100")
        .set("retry.backoff.max.ms", "2000");
    if *compression == Compression::Zstd {
        // Level 1 is a quarter cheaper than the default 3 and compresses OTLP no worse.
        config.set("compression.level", "1");
    }
    let producer = config.create_with_context(Context {
        last_error: Mutex::new(None),
        rebootstrap: Rebootstrap::of_client(&config),
        _shipments: std::marker::PhantomData,
    })?;
    let tokens = TokenSettings::of_connection(connection).map(TokenSource::start).transpose()?;
    Ok(Producer::new(producer, tokens)?)
}

/// Marks which shipments a context ends, without owning one.
type PhantomShipment<S> = std::marker::PhantomData<fn(S)>;

/// Receives the client library's reports.
pub struct Context<S> {
    /// The newest error of the complete client, as the reason why nothing is sent.
    last_error: Mutex<Option<(Instant, String)>>,
    rebootstrap: Rebootstrap,
    _shipments: PhantomShipment<S>,
}

impl<S> Context<S> {
    /// Returns the newest error of the client and what to do, if it is not older than `age`.
    pub(crate) fn recent_error(&self, age: Duration) -> Option<String> {
        let last = lock(&self.last_error);
        last.as_ref().filter(|(when, _)| when.elapsed() <= age).map(|(_, text)| text.clone())
    }
}

impl<S: Shipment> ClientContext for Context<S> {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // Errors and readiness report what matters; the library's own lines are for debugging.
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::error!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning => {
                tracing::info!(target: "librdkafka", facility, "{message}");
            }
            _ => tracing::debug!(target: "librdkafka", facility, "{message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = code_of(&error);
        tracing::debug!(%error, reason, "kafka client error");
        // "All brokers down" only summarises earlier errors.
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
            self.rebootstrap.report_unreachable(Instant::now());
            return;
        }
        let text = describe_refusal(code, reason)
            .unwrap_or_else(|| format!("{reason}; {}", Class::from_code(code).advice()));
        *lock(&self.last_error) = Some((Instant::now(), text));
    }
}

impl<S: Shipment> ProducerContext for Context<S> {
    type DeliveryOpaque = Box<S>;

    fn delivery(&self, result: &DeliveryResult<'_>, shipment: Box<S>) {
        shipment.handle_result(match result {
            Ok(message) => Ok(StoredPosition {
                partition: message.partition(),
                offset: Some(message.offset()).filter(|offset| *offset >= 0),
            }),
            Err((error, message)) => Err((code_of(error), message.payload().unwrap_or_default())),
        });
    }
}

/// Returns the code in an error. Those without one come from incorrect use of the library, and are
/// permanent.
#[must_use]
pub fn code_of(error: &KafkaError) -> RDKafkaErrorCode {
    error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail)
}
