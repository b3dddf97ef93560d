//! A client for requests about topics. It joins no group and reads nothing: on a consumer's
//! connection a request waits for the fetch before it, which may wait long for messages. One client
//! serves the complete source; the library supports many threads.

use std::sync::{Arc, Mutex, PoisonError};

use millrace_kafka_tokens::{ErrorEvents, KafkaClient, TokenSource};
use rdkafka::consumer::{BaseConsumer, DefaultConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};

use super::settings::SourceSettings;

/// A client for queries.
pub(super) type QueryConsumer = BaseConsumer<DefaultConsumerContext>;

/// The client, created when it is first needed, and the tokens of all clients of the source.
#[derive(Default)]
pub(super) struct QueryClient(Mutex<Option<(Arc<QueryConsumer>, Option<TokenSource>)>>);

impl QueryClient {
    /// Returns the client. A failure to create one is retried by the next call.
    pub(super) fn ensure_client(
        &self,
        settings: &SourceSettings,
    ) -> KafkaResult<Arc<QueryConsumer>> {
        self.ensure_parts(settings).map(|(client, _)| client)
    }

    /// Hands tokens to a consumer of the source, if it authenticates by them.
    pub(super) fn authenticate<T: KafkaClient>(
        &self,
        settings: &SourceSettings,
        consumer: &Arc<T>,
    ) -> KafkaResult<()> {
        if let (_, Some(tokens)) = self.ensure_parts(settings)? {
            tokens.attach(consumer, ErrorEvents::Polled);
        }
        Ok(())
    }

    fn ensure_parts(
        &self,
        settings: &SourceSettings,
    ) -> KafkaResult<(Arc<QueryConsumer>, Option<TokenSource>)> {
        // Each change leaves a complete value behind.
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = parts.as_ref() {
            return Ok(known.clone());
        }
        let mut config = settings.reading_client();
        config.remove("group.id");
        let client: Arc<QueryConsumer> = Arc::new(config.create()?);
        let tokens = settings.tokens.clone().map(TokenSource::start).transpose();
        let tokens = tokens.map_err(|error| KafkaError::ClientCreation(error.to_string()))?;
        if let Some(tokens) = &tokens {
            tokens.attach(&client, ErrorEvents::Unpolled);
        }
        Ok(parts.insert((client, tokens)).clone())
    }
}
