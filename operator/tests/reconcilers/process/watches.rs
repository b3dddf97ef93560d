//! Watches of one controller keep out of each other's way, against a server of lists and watches
//! alone.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use futures::StreamExt;
use futures::channel::mpsc;
use http::{Request, Response, StatusCode};
use k8s_openapi::api::core::v1::Service;
use kube::client;
use millrace_crds::v1alpha1::EdgePool;
use millrace_operator::context::Context;
use millrace_operator::error::StepError;
use millrace_operator::reconcile::controller::{self, Reconciler};
use millrace_operator::reconcile::watches::WatchBuilder;
use millrace_operator::reconcile::{Next, WatchScope};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::reconcilers::support::world::World;

/// Longer than any back-off of a watch.
const LONG: Duration = Duration::from_secs(600);
/// Events are gathered for a moment; this is far below a back-off that has grown.
const SOON: Duration = Duration::from_secs(3);

/// Tells the generation it was run for.
struct Told;

static TOLD: Mutex<Option<mpsc::UnboundedSender<i64>>> = Mutex::new(None);

impl Reconciler for Told {
    type Object = EdgePool;

    fn add_watches(watching: WatchBuilder<EdgePool>) -> WatchBuilder<EdgePool> {
        watching.owns::<Service>(WatchScope::owned_config())
    }

    async fn reconcile(_: &Context, pool: &EdgePool) -> Result<Next, StepError> {
        let telling = TOLD.lock().unwrap().clone();
        telling.unwrap().unbounded_send(pool.metadata.generation.unwrap_or(0)).unwrap();
        Ok(Next::OnChange)
    }
}

fn pool(generation: i64) -> Value {
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePool",
        "metadata": {
            "name": "prod", "namespace": "telemetry", "uid": "prod",
            "generation": generation, "resourceVersion": generation.to_string(),
        },
        "spec": {"kafka": {"bootstrapServers": ["kafka:9092"]}, "signals": {"traces": {}}},
    })
}

/// A client of a server that has one pool, tells of it what comes from `events`, and refuses
/// everything about Services.
fn server(events: mpsc::UnboundedReceiver<Value>) -> kube::Client {
    let events = Arc::new(Mutex::new(Some(events)));
    let service = tower::service_fn(move |request: Request<client::Body>| {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let answer = if path.ends_with("/services") {
            let refusal = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "reason": "Forbidden", "message": "services is forbidden", "code": 403});
            let answer = Response::builder().status(StatusCode::FORBIDDEN);
            answer.body(Body::from(refusal.to_string())).unwrap()
        } else if query.contains("watch=true") {
            let events = events.lock().unwrap().take().expect("one watch");
            let lines = events.map(|event| Ok::<_, Infallible>(format!("{event}\n")));
            Response::new(Body::from_stream(lines))
        } else {
            let list = json!({
                "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePoolList",
                "metadata": {"resourceVersion": "1"}, "items": [pool(1)],
            });
            Response::new(Body::from(list.to_string()))
        };
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    kube::Client::new(service, "telemetry")
}

/// Scenario: the watch of one kind of children is refused all the time; the pool itself changes now
/// and then. Guarantee: each change is reconciled at once.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_slows_no_other() {
    let (sender, mut told) = mpsc::unbounded();
    *TOLD.lock().unwrap() = Some(sender);
    let (change, events) = mpsc::unbounded();
    let client = server(events);
    let context = World::new().context;
    let (_leads, leading) = watch::channel(true);
    let place = WatchScope::new(&client, None);
    let running = controller::run::<Told>(context.clone(), place, leading, std::future::pending());
    let running = tokio::spawn(running);
    assert_eq!(timeout(LONG, told.next()).await.unwrap(), Some(1));
    for generation in 2..12 {
        sleep(LONG / 10).await;
        change.unbounded_send(json!({"type": "MODIFIED", "object": pool(generation)})).unwrap();
        let begun = Instant::now();
        assert_eq!(timeout(LONG, told.next()).await.unwrap(), Some(generation));
        assert!(begun.elapsed() < SOON, "generation {generation}: {:?}", begun.elapsed());
    }
    running.abort();
}
