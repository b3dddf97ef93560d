//! A replica that stands by, and one object that a bug meets: what the controllers' frame holds by
//! itself, against a server of lists and watches alone.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
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
use millrace_operator::reconcile::controller::{self, Reconciler};
use millrace_operator::reconcile::watches::WatchBuilder;
use millrace_operator::reconcile::{Next, WatchScope};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::reconcilers::support::world::World;

/// Long for anything that happens at once.
const SOON: Duration = Duration::from_secs(20);
/// What a pool's name says it does to its reconciler.
const BAD: &str = "bad";

/// Tells which generation of which pool it was run for; a bug of its own hits one.
struct Told;

static TOLD: Mutex<Option<mpsc::UnboundedSender<(String, i64)>>> = Mutex::new(None);

impl Reconciler for Told {
    type Object = EdgePool;

    fn add_watches(watching: WatchBuilder<EdgePool>) -> WatchBuilder<EdgePool> {
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

/// The same for a kind that claims something.
struct Claiming;

static CLAIMING: Mutex<Option<mpsc::UnboundedSender<String>>> = Mutex::new(None);

impl Reconciler for Claiming {
    type Object = EdgePool;

    const CLAIMS: bool = true;

    fn add_watches(watching: WatchBuilder<EdgePool>) -> WatchBuilder<EdgePool> {
        watching
    }

    async fn reconcile(_: &Context, pool: &EdgePool) -> Result<Next, StepError> {
        let telling = CLAIMING.lock().unwrap().clone();
        telling.unwrap().unbounded_send(pool.name_any()).unwrap();
        Ok(Next::OnChange)
    }
}

/// The same, for a test of its own.
struct Waiting;

static WAITING: Mutex<Option<mpsc::UnboundedSender<String>>> = Mutex::new(None);

impl Reconciler for Waiting {
    type Object = EdgePool;

    const CLAIMS: bool = true;

    fn add_watches(watching: WatchBuilder<EdgePool>) -> WatchBuilder<EdgePool> {
        watching
    }

    async fn reconcile(_: &Context, pool: &EdgePool) -> Result<Next, StepError> {
        let telling = WAITING.lock().unwrap().clone();
        telling.unwrap().unbounded_send(pool.name_any()).unwrap();
        Ok(Next::OnChange)
    }
}

/// Runs one object at a time, and counts those that run at once.
struct Single;

static SINGLE: Mutex<Option<mpsc::UnboundedSender<String>>> = Mutex::new(None);
static RUNNING: AtomicUsize = AtomicUsize::new(0);
static RUNNING_MAX: AtomicUsize = AtomicUsize::new(0);

impl Reconciler for Single {
    type Object = EdgePool;

    const CONCURRENCY: u16 = 1;

    fn add_watches(watching: WatchBuilder<EdgePool>) -> WatchBuilder<EdgePool> {
        watching
    }

    async fn reconcile(_: &Context, pool: &EdgePool) -> Result<Next, StepError> {
        let running = RUNNING.fetch_add(1, Ordering::SeqCst) + 1;
        RUNNING_MAX.fetch_max(running, Ordering::SeqCst);
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        let sender = SINGLE.lock().unwrap().clone();
        sender.unwrap().unbounded_send(pool.name_any()).unwrap();
        Ok(Next::OnChange)
    }
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
    let place = WatchScope::new(&client, None);
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

/// Scenario: an operator of two namespaces, whose first list comes at once and whose second one
/// late. Guarantee: no object that claims something is reconciled before both are read: an older
/// one may be in the other namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_claimed_before_all_namespaces_are_read() {
    let (sender, mut told) = mpsc::unbounded();
    *CLAIMING.lock().unwrap() = Some(sender);
    let (_events, events) = mpsc::unbounded();
    let (first, mut lists) = server(vec![pool("first", 1)], events);
    let (_others, others) = mpsc::unbounded();
    let (late, _late_lists) = server(vec![pool("second", 1)], others);
    let (open, opened) = watch::channel(false);
    let second = tower::service_fn(move |request: Request<client::Body>| {
        let (late, mut opened) = (late.clone(), opened.clone());
        async move {
            let _ = opened.wait_for(|is_open| *is_open).await;
            late.send(request).await
        }
    });
    let second = kube::Client::new(second, "telemetry");
    let context = World::new().context;
    let (_leads, leading) = watch::channel(true);
    let run = |client: kube::Client| {
        let place = WatchScope::new(&client, Some("telemetry"));
        controller::run::<Claiming>(context.clone(), place, leading.clone(), std::future::pending())
    };
    let running = tokio::spawn(futures::future::join(run(first), run(second)));

    timeout(SOON, lists.next()).await.unwrap().unwrap();
    let known = async {
        while context.stores.get::<EdgePool>("telemetry", "first").is_none() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, known).await.expect("the first namespace is read");
    let early = timeout(Duration::from_millis(200), told.next()).await;
    assert!(early.is_err(), "reconciled before the other namespace was read: {early:?}");
    open.send(true).unwrap();
    let mut seen = vec![
        timeout(SOON, told.next()).await.unwrap().unwrap(),
        timeout(SOON, told.next()).await.unwrap().unwrap(),
    ];
    seen.sort();
    assert_eq!(seen, ["first", "second"]);
    running.abort();
}

/// Scenario: an operator of two namespaces, of which the API server refuses one's list. Guarantee:
/// the other one's objects that claim something are reconciled; the refused one counts as unknown
/// for what needs all objects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_may_not_be_read_stops_no_other() {
    for code in [403, 404] {
        let (_events, events) = mpsc::unbounded();
        let (first, _lists) = server(vec![pool("first", 1)], events);
        let refused = tower::service_fn(move |_: Request<client::Body>| {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "code": code, "reason": "Forbidden", "message": "no rights"});
            let response = Response::builder().status(code).body(Body::from(status.to_string()));
            std::future::ready(Ok::<_, Infallible>(response.unwrap()))
        });
        let refused = kube::Client::new(refused, "closed");
        let context = World::new().context;
        let (_leads, leading) = watch::channel(true);
        let run = |client: kube::Client, namespace: &str| {
            let place = WatchScope::new(&client, Some(namespace));
            let (context, leading) = (context.clone(), leading.clone());
            controller::run::<Waiting>(context, place, leading, std::future::pending())
        };
        let (sender, mut told) = mpsc::unbounded();
        *WAITING.lock().unwrap() = Some(sender);
        let both = futures::future::join(run(first, "telemetry"), run(refused, "closed"));
        let running = tokio::spawn(both);
        assert_eq!(timeout(SOON, told.next()).await.unwrap().unwrap(), "first", "{code}");
        assert!(context.stores.if_read::<EdgePool>().is_none(), "{code}");
        running.abort();
    }
}

/// Scenario: an operator of three namespaces with four pools each, of a kind of which one object is
/// reconciled at once. Guarantee: that bound, of which the memory limit is made, holds for all
/// namespaces together, and every pool has its run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_share_the_bound_of_reconciles() {
    let (sender, mut done) = mpsc::unbounded();
    *SINGLE.lock().unwrap() = Some(sender);
    let context = World::new().context;
    let (_leads, leading) = watch::channel(true);
    let mut events = Vec::new();
    let runs = ["a", "b", "c"].map(|namespace| {
        let pools = (0..4).map(|number| {
            let mut pool = pool(&format!("{namespace}{number}"), 1);
            pool["metadata"]["namespace"] = namespace.into();
            pool
        });
        let (sender, receiver) = mpsc::unbounded();
        events.push(sender);
        let (client, _lists) = server(pools.collect(), receiver);
        let scope = WatchScope::new(&client, Some(namespace));
        let (context, leading) = (context.clone(), leading.clone());
        controller::run::<Single>(context, scope, leading, std::future::pending())
    });
    let running = tokio::spawn(futures::future::join_all(runs));
    let mut names = std::collections::BTreeSet::new();
    while names.len() < 12 {
        names.insert(timeout(SOON, done.next()).await.unwrap().unwrap());
    }
    assert_eq!(RUNNING_MAX.load(Ordering::SeqCst), 1);
    running.abort();
}
