//! Where records go: to the exporter's own topics, or to the topic of a route.

use std::sync::Arc;

use millrace_pipeline::publish::{PendingDelivery, Publish, PublishError, PublishRequest};
use millrace_wire::Signal;

/// A set of topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The exporter's own topics.
    Own,
    /// The topic of a route, by its position.
    Route(usize),
}

/// Names a topic of the exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TopicKey {
    pub(crate) destination: Destination,
    pub(crate) signal: Signal,
}

impl TopicKey {
    /// Returns the key of a signal's own topic.
    pub(crate) const fn own(signal: Signal) -> Self {
        Self { destination: Destination::Own, signal }
    }
}

/// Publishes to any destination.
pub(crate) trait PublishTo: Send + Sync {
    /// As [`Publish::publish`].
    fn publish_to(
        &self,
        destination: Destination,
        request: PublishRequest<'_>,
    ) -> Result<PendingDelivery, PublishError>;

    /// Whether there is a topic.
    fn has_topic(&self, topic: TopicKey) -> bool;
}

/// Publishes to one route.
struct RoutePublisher<P> {
    publisher: Arc<P>,
    destination: Destination,
}

impl<P: PublishTo> Publish for RoutePublisher<P> {
    fn publish(&self, request: PublishRequest<'_>) -> Result<PendingDelivery, PublishError> {
        self.publisher.publish_to(self.destination, request)
    }

    fn accepts_signal(&self, signal: Signal) -> bool {
        self.publisher.has_topic(TopicKey { destination: self.destination, signal })
    }
}

/// Returns a publisher to each of a number of routes.
pub(crate) fn route_publishers<P: PublishTo + 'static>(
    publisher: &Arc<P>,
    routes: usize,
) -> Vec<Arc<dyn Publish>> {
    let route = |position| -> Arc<dyn Publish> {
        let destination = Destination::Route(position);
        Arc::new(RoutePublisher { publisher: Arc::clone(publisher), destination })
    };
    (0..routes).map(route).collect()
}
