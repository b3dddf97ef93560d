//! Lists objects once and then watches them, from one version to the next. They are listed again
//! when the API server no longer has the version, or sent an unreadable event.
//!
//! The objects are stored by the [`ObjectStore`]; this module has no other limit.

use std::time::Duration;

use crate::api::{ApiEndpoint, ApiError, ListQuery, WatchRequest, WatchStream};
use crate::event::{Object, WatchEvent};
use crate::watch_loop::limit_watch;

/// A store of listed objects.
pub(crate) trait ObjectStore: Send {
    /// The objects of an incomplete list.
    type All: Default + Send;

    /// Adds an object of a list.
    fn add_listed(&mut self, all: &mut Self::All, object: Object);

    /// Whether no further page of a list is needed.
    fn is_full(&self, _all: &Self::All) -> bool {
        false
    }

    /// Replaces the stored objects with a complete list.
    fn replace_all(&mut self, all: Self::All);

    /// Adds or replaces an object.
    fn upsert_object(&mut self, object: Object);

    /// Removes an object.
    fn remove_object(&mut self, name: &str);

    /// Handles the start of a watch's response.
    fn record_answered(&mut self);
}

/// A list and its watches.
pub(crate) struct ListWatch {
    endpoint: ApiEndpoint,
    question: WatchRequest,
    listing: ListQuery,
    /// The version from which the next watch continues; `None` before a list.
    version: Option<String>,
    has_progress: bool,
}

impl ListWatch {
    pub(crate) fn new(endpoint: ApiEndpoint, question: WatchRequest, listing: ListQuery) -> Self {
        Self { endpoint, question, listing, version: None, has_progress: false }
    }

    /// Lists the objects if necessary, then runs one watch to its end.
    pub(crate) async fn watch_once(
        &mut self,
        known: &mut impl ObjectStore,
        duration: Duration,
    ) -> Result<(), ApiError> {
        let version = match self.version.clone() {
            Some(version) => version,
            None => self.list_all(known).await?,
        };
        let mut answer = self.endpoint.open_watch(&self.question, &version, duration).await?;
        known.record_answered();
        limit_watch(duration, self.follow_events(known, &mut answer)).await
    }

    /// Returns whether the server has sent anything since the last call.
    pub(crate) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.has_progress)
    }

    /// Returns whether a failure only means that the next watch begins with a list.
    pub(crate) fn must_relist(&mut self, error: &ApiError) -> bool {
        let is_expired = matches!(error, ApiError::Expired);
        if is_expired {
            self.version = None;
        }
        is_expired
    }

    /// Lists all objects. Returns the version from which a watch continues.
    async fn list_all<K: ObjectStore>(&mut self, known: &mut K) -> Result<String, ApiError> {
        let (mut all, mut next) = (K::All::default(), String::new());
        loop {
            let page = self.endpoint.fetch_page(&self.question, &self.listing, &next).await?;
            for item in page.items {
                known.add_listed(&mut all, item);
            }
            next = page.metadata.next;
            if next.is_empty() || known.is_full(&all) {
                known.replace_all(all);
                self.version = Some(page.metadata.resource_version.clone());
                return Ok(page.metadata.resource_version);
            }
        }
    }

    async fn follow_events(
        &mut self,
        known: &mut impl ObjectStore,
        answer: &mut WatchStream,
    ) -> Result<(), ApiError> {
        while let Some(event) = answer.next().await? {
            self.has_progress = true;
            let version = match event {
                WatchEvent::Unreadable => {
                    // It may concern any object: all are listed again.
                    self.version = None;
                    return Err(ApiError::List("an event is too long or unknown".to_owned()));
                }
                WatchEvent::Bookmark(object) => object.metadata.resource_version,
                WatchEvent::Deleted(object) => {
                    known.remove_object(&object.metadata.name);
                    object.metadata.resource_version
                }
                WatchEvent::Upserted(object) => {
                    let version = object.metadata.resource_version.clone();
                    known.upsert_object(object);
                    version
                }
            };
            if !version.is_empty() {
                self.version = Some(version);
            }
        }
        Ok(())
    }
}
