//! Lists objects once and then watches them, from one version to the next. They are listed again
//! when the API server no longer has the version, or sent an unreadable event.
//!
//! The objects are stored by the [`ObjectStore`]; this module has no other limit.

use std::time::Duration;

use crate::api::event::{Object, WatchEvent};
use crate::api::watch_loop::{WatchSource, limit_watch};
use crate::api::{ApiEndpoint, ApiError, ListQuery, WatchRequest, WatchStream};

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

    /// Counts a failed watch.
    fn count_failure(&mut self, error: &ApiError);

    /// Reports a failed watch, unless the next one only begins with a list.
    fn report_failure(&mut self, error: &ApiError);
}

/// A list and its watches.
pub(crate) struct ListWatch<S> {
    endpoint: ApiEndpoint,
    question: WatchRequest,
    listing: ListQuery,
    store: S,
    /// The version from which the next watch continues; `None` before a list.
    version: Option<String>,
    has_progress: bool,
}

impl<S: ObjectStore> WatchSource for ListWatch<S> {
    /// Lists the objects if necessary, then runs one watch to its end.
    async fn watch_once(&mut self, duration: Duration) -> Result<(), ApiError> {
        let version = match self.version.clone() {
            Some(version) => version,
            None => self.list_all().await?,
        };
        let mut answer = self.endpoint.open_watch(&self.question, &version, duration).await?;
        self.store.record_answered();
        limit_watch(duration, self.follow_events(&mut answer)).await
    }

    fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.has_progress)
    }

    fn record_failure(&mut self, error: &ApiError) {
        self.store.count_failure(error);
        match error {
            ApiError::Expired => self.version = None,
            error => self.store.report_failure(error),
        }
    }
}

impl<S: ObjectStore> ListWatch<S> {
    pub(crate) fn new(
        endpoint: ApiEndpoint,
        question: WatchRequest,
        listing: ListQuery,
        store: S,
    ) -> Self {
        Self { endpoint, question, listing, store, version: None, has_progress: false }
    }

    /// Lists all objects. Returns the version from which a watch continues.
    async fn list_all(&mut self) -> Result<String, ApiError> {
        let (mut all, mut next) = (S::All::default(), String::new());
        loop {
            let page = self.endpoint.fetch_page(&self.question, &self.listing, &next).await?;
            for item in page.items {
                self.store.add_listed(&mut all, item);
            }
            next = page.metadata.next;
            if next.is_empty() || self.store.is_full(&all) {
                self.store.replace_all(all);
                self.version = Some(page.metadata.resource_version.clone());
                return Ok(page.metadata.resource_version);
            }
        }
    }

    async fn follow_events(&mut self, answer: &mut WatchStream) -> Result<(), ApiError> {
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
                    self.store.remove_object(&object.metadata.name);
                    object.metadata.resource_version
                }
                WatchEvent::Upserted(object) => {
                    let version = object.metadata.resource_version.clone();
                    self.store.upsert_object(object);
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
