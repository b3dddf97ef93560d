//! Objects that are listed once and then watched, from one version to the next. All are listed anew
//! when the API server has forgotten the version, or told of something that can't be read.
//!
//! What is known of the objects is [`Known`]'s; this has no limit of its own.

use std::time::Duration;

use crate::again::within;
use crate::api::{Answer, ApiError, Endpoint, Listing, Question};
use crate::event::{Event, Object};

/// What is known of the objects.
pub(crate) trait Known: Send {
    /// All objects of a list.
    type All: Default + Send;

    /// Adds an object of a list.
    fn add(&mut self, all: &mut Self::All, object: Object);

    /// Whether no further page of a list is wanted.
    fn is_full(&self, _all: &Self::All) -> bool {
        false
    }

    /// A list is whole: it takes the place of what was known.
    fn replace(&mut self, all: Self::All);

    /// An object is there, or has changed.
    fn put(&mut self, object: Object);

    /// An object was deleted.
    fn gone(&mut self, name: &str);

    /// The API server has begun to answer a watch.
    fn is_answered(&mut self);
}

/// Where a list and its watches are.
pub(crate) struct Listed {
    endpoint: Endpoint,
    question: Question,
    listing: Listing,
    /// From where the next watch continues; none: a list comes first.
    version: Option<String>,
    has_told: bool,
}

impl Listed {
    pub(crate) fn new(endpoint: Endpoint, question: Question, listing: Listing) -> Self {
        Self { endpoint, question, listing, version: None, has_told: false }
    }

    /// A list if there was none, then one watch to its end.
    pub(crate) async fn once(
        &mut self,
        known: &mut impl Known,
        duration: Duration,
    ) -> Result<(), ApiError> {
        let version = match self.version.clone() {
            Some(version) => version,
            None => self.list(known).await?,
        };
        let mut answer = self.endpoint.watch(&self.question, &version, duration).await?;
        known.is_answered();
        within(duration, self.follow(known, &mut answer)).await
    }

    /// Whether the server has told anything since this was asked last.
    pub(crate) fn take_told(&mut self) -> bool {
        std::mem::take(&mut self.has_told)
    }

    /// Whether a failure says no more than that the next time begins with a list.
    pub(crate) fn begins_anew(&mut self, error: &ApiError) -> bool {
        let is_expired = matches!(error, ApiError::Expired);
        if is_expired {
            self.version = None;
        }
        is_expired
    }

    /// Reads all of them anew. The version from which a watch continues.
    async fn list<K: Known>(&mut self, known: &mut K) -> Result<String, ApiError> {
        let (mut all, mut next) = (K::All::default(), String::new());
        loop {
            let page = self.endpoint.page(&self.question, &self.listing, &next).await?;
            for item in page.items {
                known.add(&mut all, item);
            }
            next = page.metadata.next;
            if next.is_empty() || known.is_full(&all) {
                known.replace(all);
                self.version = Some(page.metadata.resource_version.clone());
                return Ok(page.metadata.resource_version);
            }
        }
    }

    async fn follow(
        &mut self,
        known: &mut impl Known,
        answer: &mut Answer,
    ) -> Result<(), ApiError> {
        while let Some(event) = answer.next().await? {
            self.has_told = true;
            let version = match event {
                Event::Unreadable => {
                    // It may be of any object: all are read again.
                    self.version = None;
                    return Err(ApiError::List("an event is too long or unknown".to_owned()));
                }
                Event::Mark(object) => object.metadata.resource_version,
                Event::Gone(object) => {
                    known.gone(&object.metadata.name);
                    object.metadata.resource_version
                }
                Event::Is(object) => {
                    let version = object.metadata.resource_version.clone();
                    known.put(object);
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
