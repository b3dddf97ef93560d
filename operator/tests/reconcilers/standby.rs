//! A replica that stands by, and one object that a bug meets: what the controllers' frame holds by
//! itself, against a server of lists and watches alone.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use futures::StreamExt;
use futures::channel::mpsc;
use http::{Request, Response};
use kube::{ResourceExt, client};
use millrace_crds::v1alpha1::EdgePool;
use millrace_operator::context::Context;
use millrace_operator::error::StepError;
use millrace_operator::reconcile::controller::{self, Next, Place, Reconciler};
use millrace_operator::reconcile::watches::Watching;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::support::world::World;

/// Long for anything that happens at once.
const SOON: Duration = Duration::from_secs(20);
/// What a pool's name says it does to its reconciler.
const BAD: &str = "bad";

/// Tells which generation of which pool it was run for; a bug of its own hits one.
struct Told;

static TOLD: Mutex<Option<mpsc::UnboundedSender<(String, i64)>>> = Mutex::new(None);

impl Reconciler for Told {
    type Object = EdgePool;

    fn watches(watching: Watching<EdgePool>) -> Watching<EdgePool> {
        watching
    }

    async fn reconcile(_: &Context, pool: &EdgePool) -> Result<Next, StepError> {
        let told = (pool.name_any(), pool.metadata.generation.unwrap_or(0));
        let telling = TOLD.lock().unwrap().clone();
        telling.unwrap().unbounded_send(told).unwrap();
        assert_ne!(pool.name_any(), BAD, "a bug");
        Ok(Next::OnChange)
    }
}

fn pool(name: &str, generation: i64) -> Value {
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePool",
        "metadata": {
            "name": name, "namespace": "telemetry", "uid": name,
            "generation": generation, "resourceVersion": generation.to_string(),
        },
        "spec": {"kafka": {"bootstrapServers": ["kafka:9092"]}, "signals": {"traces": {}}},
    })
}

/// A client of a server that has these pools, tells of each list, and of what comes from `events`.
fn server(
    pools: Vec<Value>,
    events: mpsc::UnboundedReceiver<Value>,
) -> (kube::Client, mpsc::UnboundedReceiver<()>) {
    let (listed, lists) = mpsc::unbounded();
    let events = Arc::new(Mutex::new(Some(events)));
    let service = tower::service_fn(move |request: Request<client::Body>| {
        let query = request.uri().query().unwrap_or_default();
        let body = if query.contains("watch=true") {
            let events = events.lock().unwrap().take().expect("one watch");
            Body::from_stream(events.map(|event| Ok::<_, Infallible>(format!("{event}\n"))))
        } else {
            let _ = listed.unbounded_send(());
            let list = json!({
                "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePoolList",
                "metadata": {"resourceVersion": "1"}, "items": pools,
            });
            Body::from(list.to_string())
        };
        std::future::ready(Ok::<_, Infallible>(Response::new(body)))
    });
    (kube::Client::new(service, "telemetry"), lists)
}

/// Scenario: a replica stands by and sees a pool change; then it leads; one of two pools meets a
/// bug. Guarantee: nothing is reconciled before it leads; then each pool is, as it is by then and
/// without another list, and the bug stops only the pool that met it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_watches_and_reconciles_only_once_it_leads() {
    let (sender, mut told) = mpsc::unbounded();
    *TOLD.lock().unwrap() = Some(sender);
    let (change, events) = mpsc::unbounded();
    let (client, mut lists) = server(vec![pool("good", 1), pool(BAD, 1)], events);
    let context = World::new().context;
    let (leads, leading) = watch::channel(false);
    let place = Place::Cluster(client);
    let running = controller::run::<Told>(context.clone(), place, leading, std::future::pending());
    let running = tokio::spawn(running);

    timeout(SOON, lists.next()).await.unwrap().unwrap();
    change.unbounded_send(json!({"type": "MODIFIED", "object": pool("good", 2)})).unwrap();
    let kept = async {
        let generation = || {
            let pool = context.stores.get::<EdgePool>("telemetry", "good")?.unpack().0.ok()?;
            pool.metadata.generation
        };
        while generation() != Some(2) {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, kept).await.expect("the change is seen while standing by");
    assert!(told.try_recv().is_err(), "nothing is reconciled by who doesn't lead");

    leads.send(true).unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let told = timeout(SOON, told.next()).await.unwrap().unwrap();
        if !seen.contains(&told) {
            seen.push(told);
        }
    }
    seen.sort();
    assert_eq!(seen, [(BAD.to_owned(), 1), ("good".to_owned(), 2)]);
    assert!(lists.try_recv().is_err(), "what is known isn't listed again");

    change.unbounded_send(json!({"type": "MODIFIED", "object": pool("good", 3)})).unwrap();
    let next = async { while told.next().await != Some(("good".to_owned(), 3)) {} };
    timeout(SOON, next).await.expect("the other pool's bug stops nobody");
    running.abort();
}
