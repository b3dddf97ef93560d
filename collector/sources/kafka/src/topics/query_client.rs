//! A client for requests about topics. It joins no group and reads nothing: on a consumer's
//! connection a request waits for the fetch before it, which may wait long for messages. One client
//! serves the complete source; the library supports many threads.

use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millrace_kafka_tokens::{ErrorEvents, KafkaClient, Rebootstrap, TokenSource};
use millrace_pipeline::mutex::lock;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _, DefaultConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::metadata::Metadata;

use crate::settings::SourceSettings;

/// A client for queries. Nobody polls it.
pub(crate) struct QueryConsumer {
    consumer: Arc<BaseConsumer<DefaultConsumerContext>>,
    rebootstrap: Rebootstrap,
}

impl QueryConsumer {
    pub(crate) fn create(config: &ClientConfig) -> KafkaResult<Self> {
        let consumer = Arc::new(config.create()?);
        Ok(Self { consumer, rebootstrap: Rebootstrap::of_client(config) })
    }

    /// Requests a topic's metadata, without one every topic's. After a failure the client may get
    /// its bootstrap servers again.
    pub(crate) fn request_metadata(
        &self,
        topic: Option<&str>,
        timeout: Duration,
    ) -> KafkaResult<Metadata> {
        self.rebootstrap.run_due(&*self.consumer, Instant::now());
        let answer = self.consumer.fetch_metadata(topic, timeout);
        if answer.is_err() {
            self.rebootstrap.report_unreachable(Instant::now());
        }
        answer
    }
}

impl Deref for QueryConsumer {
    type Target = BaseConsumer<DefaultConsumerContext>;

    fn deref(&self) -> &Self::Target {
        &self.consumer
    }
}

/// The client, created when it is first needed, and the tokens of all clients of the source.
#[derive(Default)]
pub(crate) struct QueryClient(Mutex<Option<(Arc<QueryConsumer>, Option<TokenSource>)>>);

impl QueryClient {
    /// Returns the client. A failure to create one is retried by the next call.
    pub(crate) fn ensure_client(
        &self,
        settings: &SourceSettings,
    ) -> KafkaResult<Arc<QueryConsumer>> {
        self.ensure_parts(settings).map(|(client, _)| client)
    }

    /// Hands tokens to a consumer of the source, if it authenticates by them.
    pub(crate) fn authenticate<T: KafkaClient>(
        &self,
        settings: &SourceSettings,
        consumer: &Arc<T>,
    ) -> KafkaResult<()> {
        if let (_, Some(tokens)) = self.ensure_parts(settings)? {
            tokens.attach(consumer, ErrorEvents::Polled);
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn is_created(&self) -> bool {
        lock(&self.0).is_some()
    }

    fn ensure_parts(
        &self,
        settings: &SourceSettings,
    ) -> KafkaResult<(Arc<QueryConsumer>, Option<TokenSource>)> {
        // Each change leaves a complete value behind.
        let mut parts = lock(&self.0);
        if let Some(known) = parts.as_ref() {
            return Ok(known.clone());
        }
        let mut config = settings.reading_client();
        config.remove("group.id");
        let client = Arc::new(QueryConsumer::create(&config)?);
        let tokens = settings.tokens.clone().map(TokenSource::start).transpose();
        let tokens = tokens.map_err(|error| KafkaError::ClientCreation(error.to_string()))?;
        if let Some(tokens) = &tokens {
            tokens.attach(&client.consumer, ErrorEvents::Unpolled);
        }
        Ok(parts.insert((client, tokens)).clone())
    }
}
