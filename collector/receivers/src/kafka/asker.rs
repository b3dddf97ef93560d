//! A client for requests about topics. It joins no group and reads nothing: on a consumer's
//! connection a request waits for the fetch before it, which may wait long for messages. One client
//! serves the whole source; the library supports many threads.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::consumer::{BaseConsumer, DefaultConsumerContext};
use rdkafka::error::KafkaResult;

use super::settings::SourceSettings;

/// A client that asks.
pub(super) type Client = BaseConsumer<DefaultConsumerContext>;

/// The client, made when it is first needed.
#[derive(Default)]
pub(super) struct Asker(Mutex<Option<Arc<Client>>>);

impl Asker {
    /// The client. Fails when there can be none, and is tried again the next time.
    pub(super) fn client(&self, settings: &SourceSettings) -> KafkaResult<Arc<Client>> {
        // What is behind the lock is whole whenever it is let go.
        let mut client = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = client.as_ref() {
            return Ok(Arc::clone(known));
        }
        let mut config = settings.reading_client();
        config.remove("group.id");
        let made = Arc::new(config.create()?);
        *client = Some(Arc::clone(&made));
        Ok(made)
    }
}
