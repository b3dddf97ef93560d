//! The console over its listener: pages of what the process holds, to whom, with which headers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{BoxFuture, FutureExt};
use millrace_console::links::Links;
use millrace_crds::v1alpha1::{EdgePool, GatewayPool, TelemetryPipeline, TelemetrySchema};
use millrace_observe::{http_listener, listen};
use millrace_operator::console::{Access, Console};
use millrace_operator::context::Context;
use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::pods::{
    FigureSource, PodCounters, PodDeadLetters, PodProducers, PodTarget, ScrapeError,
};
use millrace_reports::facts::parse_sample;
use millrace_reports::{DeadLetterEntry, DeadLetterSample, ProducedBytes, ProducerSample};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::reconcilers::support::world::{World, store};
use crate::reconcilers::support::{GATEWAY_POOL, GATEWAY_SET, gateway_pool};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Pods that count a thousand more spans at each reading.
#[derive(Default)]
struct Counting {
    readings: AtomicUsize,
    dead_letter_readings: AtomicUsize,
}

impl FigureSource for Counting {
    fn read_figures<'a>(&'a self, targets: &'a [PodTarget]) -> BoxFuture<'a, PodCounters> {
        let records = self.readings.fetch_add(1, Ordering::Relaxed) * 1_000;
        let text = format!(
            "millrace_budget_bytes 1\nprocess_start_time_seconds 5\nmillrace_records_in_total{{signal=\"traces\"}} {records}\n"
        );
        let one = |target: &PodTarget| {
            let PodTarget { pod, address } = target.clone();
            let read = parse_sample(&text);
            (
                target.pod.clone(),
                read.map_err(|cause| ScrapeError::Unreadable { pod, address, cause }),
            )
        };
        let answers: BTreeMap<_, _> = targets.iter().map(one).collect();
        async move { answers }.boxed()
    }

    fn read_producers<'a>(&'a self, edges: &'a [PodTarget]) -> BoxFuture<'a, PodProducers> {
        let one = |target: &PodTarget| {
            let producer = ProducedBytes {
                service: format!("sender-of-{}", target.pod),
                namespace: "shop".to_owned(),
                bytes: 4_096,
            };
            let sample = ProducerSample { seconds: 2.0, producers: vec![producer] };
            (target.pod.clone(), Ok(sample))
        };
        let answers: BTreeMap<_, _> = edges.iter().map(one).collect();
        async move { answers }.boxed()
    }

    fn read_dead_letters<'a>(&'a self, gateways: &'a [PodTarget]) -> BoxFuture<'a, PodDeadLetters> {
        self.dead_letter_readings.fetch_add(1, Ordering::Relaxed);
        let one = |target: &PodTarget| {
            let dead_letter = DeadLetterEntry {
                topic: format!("dead-letters-of-{}", target.pod),
                ..DeadLetterEntry::default()
            };
            (target.pod.clone(), Ok(DeadLetterSample { dead_letters: vec![dead_letter] }))
        };
        let answers: BTreeMap<_, _> = gateways.iter().map(one).collect();
        async move { answers }.boxed()
    }
}

fn pipeline(namespace: &str, name: &str, ready: bool) -> Value {
    let (status, reason) = if ready { ("True", "Reconciled") } else { ("False", "PodCrashing") };
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryPipeline",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}"),
                     "generation": 1},
        "spec": {"kafka": {"bootstrapServers": ["kafka:9092"]},
                 "clickhouse": {"endpoints": ["http://clickhouse:8123"]},
                 "signals": {"traces": {}}},
        "status": {"observedGeneration": 1, "conditions": [{
            "type": "Ready", "status": status, "reason": reason,
            "message": format!("{name}: <b>pods</b> keep crashing"), "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    })
}

/// A served console.
struct Served {
    address: SocketAddr,
    pods: Arc<Counting>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<()>,
}

impl Served {
    async fn of(context: Arc<Context>, access: Access) -> Self {
        let links = Links {
            grafana: Some("https://grafana.example/d/x?var-pool={pipeline}".parse().unwrap()),
            clickhouse: Some("https://ch.example/play#{database}.{table}".parse().unwrap()),
        };
        let pods = Arc::<Counting>::default();
        let console = Console::new(context, access, pods.clone(), links);
        let bound = listen::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = bound.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let answer = move |request| console.clone().handle_request(request);
        let stopped = async move { drop(stopped.await) };
        let task = tokio::spawn(http_listener::serve(bound, answer, stopped));
        Self { address, pods, stop: Some(stop), task }
    }

    /// An answer, head and all; `more` are lines of the request's head.
    async fn ask(&self, line: &str, more: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let host = if more.contains("host:") { "" } else { "host: localhost\r\n" };
        let head = format!("{line} HTTP/1.1\r\n{host}{more}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // Closing a connection with unread bytes resets it after the answer.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path}"), "").await
    }

    async fn end(mut self) {
        drop(self.stop.take());
        self.task.await.unwrap();
    }
}

fn token_file() -> PathBuf {
    let path = std::env::temp_dir().join(format!("millrace-console-token-{}", std::process::id()));
    std::fs::write(&path, TOKEN).unwrap();
    path
}

/// Scenario: requests without the token, with another, with it; other methods and pages; a head
/// over the limit. Guarantee: nothing is said of any pipeline without the token, a browser is asked
/// for it, and what is answered forbids scripts and is not kept.
#[tokio::test]
async fn nothing_is_told_without_the_token() {
    let context = World::new().context;
    store::<TelemetryPipeline>(&context, vec![pipeline("shop", "prod", false)]);
    let path = token_file();
    let served = Served::of(context, Access::Token(path.clone())).await;
    for line in ["GET /", "GET /pipelines/shop/prod", "POST /", "GET /nothing"] {
        for more in ["", "authorization: Bearer 0123456789abcdef0123456789abcdee\r\n"] {
            let answer = served.ask(line, more).await;
            assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
            assert!(answer.contains("www-authenticate: Basic realm=\"millrace\""), "{answer}");
            assert!(!answer.contains("prod") && !answer.contains("shop"), "{answer}");
        }
    }
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    let list = served.ask("GET /", &bearer).await;
    assert!(list.starts_with("HTTP/1.1 200 ") && list.contains("pipelines/shop/prod"), "{list}");
    for header in [
        "content-security-policy: default-src 'none'; style-src 'sha256-",
        "frame-ancestors 'none'",
        "cache-control: no-store",
        "referrer-policy: no-referrer",
        "x-content-type-options: nosniff",
        "content-type: text/html; charset=utf-8",
    ] {
        assert!(list.contains(header), "{header}: {list}");
    }
    assert!(served.ask("POST /", &bearer).await.starts_with("HTTP/1.1 405 "));
    assert!(served.ask("GET /pipelines/shop/none", &bearer).await.starts_with("HTTP/1.1 404 "));
    assert!(served.ask("GET /metrics", &bearer).await.starts_with("HTTP/1.1 404 "));
    let flood = format!("x: {}\r\n", "y".repeat(9_000));
    assert!(served.ask("GET /", &flood).await.starts_with("HTTP/1.1 431 "));
    std::fs::remove_file(&path).unwrap();
    assert!(served.ask("GET /", &bearer).await.starts_with("HTTP/1.1 503 "), "no token, no page");
    served.end().await;
}

/// Scenario: more pipelines than a page has, one in twelve not Ready, in two namespaces. Guarantee:
/// a page has its bound and leads to the next; filters by name and state find theirs; a message with
/// markup is words.
#[tokio::test]
async fn a_list_has_its_bound_and_filters() {
    let context = World::new().context;
    let all = (0..1_200).map(|at| {
        pipeline(if at % 2 == 0 { "shop" } else { "bank" }, &format!("p{at:04}"), at % 12 != 0)
    });
    store::<TelemetryPipeline>(&context, all.collect());
    let served = Served::of(context, Access::Guarded).await;
    let rows = |page: &str| page.matches("href=\"pipelines/").count();
    let first = served.get("/").await;
    assert!(first.contains("1,200 of 1,200 pipelines"), "{first}");
    assert_eq!(rows(&first), 100);
    assert!(first.contains("from=100") && !first.contains("p0200"), "{first}");
    let last = served.get("/?from=1150").await;
    assert_eq!(rows(&last), 50);
    let troubled = served.get("/?state=troubled").await;
    assert!(troubled.contains("100 of 1,200 pipelines need attention"), "{troubled}");
    assert!(troubled.contains("&lt;b&gt;pods&lt;/b&gt;") && !troubled.contains("<b>pods"));
    let named = served.get("/?namespace=bank&name=p0001").await;
    assert!(named.contains("1 of 1,200 pipelines") && named.contains("pipelines/bank/p0001"));
    assert_eq!(rows(&served.get("/?namespace=shop&name=p0001").await), 0);
    served.end().await;
}

/// Puts events of the pool, its pods and others.
fn put_events(world: &World) {
    for (name, kind, object, note) in [
        ("of-a-pool", "GatewayPool", "prod", "sized to 2 pods"),
        ("of-a-pod", "Pod", "prod-gateway-0", "back-off <restarting>"),
        ("of-a-pod-that-ended", "Pod", "prod-gateway-try-1f", "no such image"),
        ("of-another-pod", "Pod", "database-0", "disk full"),
        ("of-another-pool", "GatewayPool", "elsewhere", "sized to 9 pods"),
    ] {
        let is_pod = kind == "Pod";
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": name, "namespace": "telemetry"},
            "regarding": {"kind": kind, "name": object, "namespace": "telemetry"},
            "reportingController": if is_pod { "kubelet" } else { "millrace-operator" },
            "type": if is_pod { "Warning" } else { "Normal" }, "reason": "BackOff", "note": note,
            "eventTime": "1970-01-01T00:01:00.000000Z",
        });
        let path = format!("/apis/events.k8s.io/v1/namespaces/telemetry/events/{name}");
        world.server.put(&path, event);
    }
}

/// Scenario: a pool of two gateways whose size was decided twice, and an edge; its pipeline is
/// looked at, at once again, and once the reading is old. Guarantee: the page has its pods and
/// decisions, and the producers that the edge reports, which gateways aren't asked for; pods are
/// asked once for both of the first looks, and rates come with the next reading. Dead letters are
/// read from the gateways only when they are opened, and that page doesn't reload.
#[tokio::test]
async fn a_page_shows_what_the_process_holds() {
    let world = World::new();
    world.server.put(GATEWAY_POOL, gateway_pool(json!({"scaling": {"minReplicas": 2}})));
    for _ in 0..3 {
        world.reconcile::<GatewayPools>(GATEWAY_POOL).await.unwrap();
        world.finish_rollouts();
        world.pass(100);
    }
    world.run_pods(GATEWAY_SET, json!({}));
    for ordinal in 0..2 {
        let pod = format!("/api/v1/namespaces/telemetry/pods/prod-gateway-{ordinal}");
        world.server.edit(&pod, |pod| pod["status"]["phase"] = "Running".into());
    }
    let mut edge = world.server.get("/api/v1/namespaces/telemetry/pods/prod-gateway-1").unwrap();
    edge["metadata"]["labels"]["app.kubernetes.io/component"] = "edge".into();
    edge["metadata"]["name"] = "prod-edge-0".into();
    world.server.put("/api/v1/namespaces/telemetry/pods/prod-edge-0", edge);
    let mut pool = world.server.get(GATEWAY_POOL).unwrap();
    let uid = pool["metadata"]["uid"].as_str().unwrap().to_owned();
    assert!(!world.context.console_history.decisions_of(&uid).is_empty(), "decisions are kept");
    pool["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryPipeline", "name": "prod",
        "uid": "uid-prod",
    }]);
    let mut others = pool.clone();
    others["metadata"]["name"] = "others".into();
    others["metadata"]["ownerReferences"][0]["uid"] = "uid-others".into();
    store::<TelemetryPipeline>(&world.context, vec![pipeline("telemetry", "prod", false)]);
    store::<GatewayPool>(&world.context, vec![pool, others]);
    store::<EdgePool>(&world.context, Vec::new());
    store::<TelemetrySchema>(&world.context, Vec::new());
    put_events(&world);
    let served = Served::of(world.context.clone(), Access::Loopback).await;
    let foreign = served.ask("GET /pipelines/telemetry/prod", "host: evil.example\r\n").await;
    assert!(foreign.starts_with("HTTP/1.1 403 "), "{foreign}");
    let page = served.get("/pipelines/telemetry/prod").await;
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    for part in ["prod-gateway-0", "prod-gateway-1", "Rates need two readings", "Sizing over time"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("others") && !page.contains("No decision since"), "{page}");
    for part in ["1 of 1 edge pod", "sender-of-prod-edge-0", "2.0 KiB/s", "100.0 %"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("sender-of-prod-gateway"), "{page}");
    for part in ["sized to 2 pods", "back-off &lt;restarting&gt;", "no such image"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("disk full") && !page.contains("elsewhere"), "{page}");
    assert!(page.contains("\"https://grafana.example/d/x?var-pool=prod\""), "{page}");
    assert!(page.contains("\"https://ch.example/play#otel.otel_traces\""), "{page}");
    assert!(!world.context.console_history.day_of(&uid).is_empty(), "the day has a slot");
    let again = served.get("/pipelines/telemetry/prod").await;
    assert!(again.contains("Rates need two readings"), "one reading serves both: {again}");
    let reads = || served.pods.dead_letter_readings.load(Ordering::Relaxed);
    assert_eq!(reads(), 0, "nobody opened the dead letters");
    let opened = served.get("/pipelines/telemetry/prod?dead-letters=1").await;
    for part in ["dead-letters-of-prod-gateway-0", "dead-letters-of-prod-gateway-1", "2 of 2 pods"]
    {
        assert!(opened.contains(part), "{part}: {opened}");
    }
    assert!(!opened.contains("dead-letters-of-prod-edge"), "{opened}");
    assert!(page.contains("http-equiv=\"refresh\"") && !opened.contains("http-equiv"), "{opened}");
    assert_eq!(reads(), 1);
    world.pass(10);
    let later = served.get("/pipelines/telemetry/prod").await;
    // A thousand records of each of two gateways in ten seconds.
    assert!(later.contains("200/s") && later.contains("rate interval"), "{later}");
    served.end().await;
}
