//! Sums what a pipeline's edge pools routed to other topics, and finds who reads those: gateway
//! pools of other pipelines, whose own statuses have the lag. No request: the pools are those that
//! this process watches.
//!
//! Limits: a consumer's lag is as old as this pipeline's last reconcile, at most a minute. A Kafka
//! cluster is known by its addresses as written, as in [`crate::cache::claims`].

use kube::ResourceExt;
use millrace_crds::v1alpha1::{
    GatewayPool, KafkaConnection, LagStatus, PoolRouteStatus, RouteConsumer, RouteStatus, Signal,
    TelemetryPipeline,
};

use super::apply::Edge;
use crate::context::Context;

/// What a route without a consumer means, and the remedy.
const NO_CONSUMER: &str = "no GatewayPool that this operator watches reads the topic, so its records stay in Kafka until \
     they expire: declare a pipeline with this topic, or remove the step";

/// A gateway pool that reads a topic.
#[derive(Debug)]
struct TopicConsumer {
    topic: String,
    signal: Signal,
    consumer: RouteConsumer,
    lag: Option<LagStatus>,
}

/// Returns the routes of a pipeline's status.
pub(super) fn report_routes(
    context: &Context,
    pipeline: &TelemetryPipeline,
    edges: &[Edge],
) -> Vec<RouteStatus> {
    let routes = sum_routes(edges.iter().flat_map(|edge| &edge.status.routes));
    if routes.is_empty() {
        return routes;
    }
    let consumers = find_consumers(context, &pipeline.spec.kafka, &routes);
    routes.into_iter().map(|route| add_consumer(route, consumers.as_deref())).collect()
}

/// Sums the routes of all pools; the same step of two pools is one.
fn sum_routes<'a>(of_pools: impl Iterator<Item = &'a PoolRouteStatus>) -> Vec<RouteStatus> {
    let mut routes: Vec<RouteStatus> = Vec::new();
    for PoolRouteStatus { step, signal, topic, records, observed_at: _ } in of_pools {
        let is_it =
            |it: &&mut RouteStatus| (&it.step, it.signal, &it.topic) == (step, *signal, topic);
        match routes.iter_mut().find(is_it) {
            Some(route) => {
                let sum = route.records.into_iter().chain(*records).reduce(i64::saturating_add);
                route.records = sum;
            }
            None => routes.push(RouteStatus {
                step: step.clone(),
                signal: *signal,
                topic: topic.clone(),
                records: *records,
                consumer: None,
                lag: None,
                message: None,
            }),
        }
    }
    routes
}

/// Returns who reads the topics of the routes, sorted by namespace and name. `None` while not all
/// gateway pools are known.
fn find_consumers(
    context: &Context,
    kafka: &KafkaConnection,
    routes: &[RouteStatus],
) -> Option<Vec<TopicConsumer>> {
    let mut consumers = Vec::new();
    for packed in context.stores.if_read::<GatewayPool>()? {
        // A pool that can't be read has no gateways that could.
        let Ok(pool) = packed.unpack().0 else { continue };
        let servers = &kafka.bootstrap_servers;
        if !pool.spec.kafka.bootstrap_servers.iter().any(|server| servers.contains(server)) {
            continue;
        }
        for (signal, read) in pool.spec.signals.iter() {
            let topic = read.topic_name.as_ref().map_or(signal.default_topic(), |it| it.as_str());
            if routes.iter().any(|route| is_read(route, signal, topic)) {
                consumers.push(TopicConsumer {
                    topic: topic.to_owned(),
                    signal,
                    consumer: identify_consumer(&pool),
                    lag: pool.status.as_ref().and_then(|status| status.lag.clone()),
                });
            }
        }
    }
    let key = |it: &TopicConsumer| (it.consumer.namespace.clone(), it.consumer.name.clone());
    consumers.sort_by_key(key);
    Some(consumers)
}

fn is_read(route: &RouteStatus, signal: Signal, topic: &str) -> bool {
    route.topic == topic && Signal::from(route.signal) == signal
}

/// Returns the pipeline that owns the pool, else the pool.
fn identify_consumer(pool: &GatewayPool) -> RouteConsumer {
    let namespace = pool.namespace().unwrap_or_default();
    let owner = pool.owner_references().iter().find(|it| it.kind == "TelemetryPipeline");
    let (kind, name) = match owner {
        Some(owner) => (owner.kind.clone(), owner.name.clone()),
        None => ("GatewayPool".to_owned(), pool.name_any()),
    };
    RouteConsumer { kind, namespace, name }
}

fn add_consumer(mut route: RouteStatus, consumers: Option<&[TopicConsumer]>) -> RouteStatus {
    let Some(consumers) = consumers else { return route };
    let of_topic = |it: &&TopicConsumer| is_read(&route, it.signal, &it.topic);
    match consumers.iter().find(of_topic) {
        Some(found) => {
            route.consumer = Some(found.consumer.clone());
            route.lag.clone_from(&found.lag);
        }
        None => route.message = Some(NO_CONSUMER.to_owned()),
    }
    route
}
