//! What a settled operator asks the API server, and how soon it sees what was done by hand: by
//! events alone, no time passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millrace_operator::cache::children::VERIFIED_FOR;
use serde_json::{Value, json};

use crate::reconcilers::support::apiserver::{ApiServer, Verdict};
use crate::simulation::cluster::{Pods, object, run_workloads, secret, secret_path, walked};
use crate::simulation::instance::{self, Instance, NAMESPACE, OURS, own_path};
use crate::simulation::outside::Beyond;

/// The Secret of a gateway pool.
const SECRET: &str = "kafka-user";
/// Looks that bring any of the objects here about.
const LOOKS: usize = 8;

struct Settled {
    server: ApiServer,
    beyond: Beyond,
    operator: Instance,
}

impl Settled {
    async fn of(kind: &str, spec: Value) -> Self {
        Self::with(kind, spec, |_| {}).await
    }

    async fn with(kind: &str, spec: Value, prepare: impl FnOnce(&ApiServer)) -> Self {
        let (server, beyond) = (ApiServer::default(), Beyond::new());
        prepare(&server);
        server.put(&walked(kind), object(kind, spec));
        let operator = Instance::start(&server, &beyond);
        let mut settled = Self { server, beyond, operator };
        for _ in 0..LOOKS {
            settled.operator.all_due();
            settled.look().await;
        }
        settled.server.take_writes();
        settled
    }

    /// Events come in, and what they woke is reconciled, until nothing more is woken.
    async fn look(&mut self) {
        for _ in 0..LOOKS {
            run_workloads(&self.server, || Some(Pods::Complete));
            self.operator.catch_up();
            let due: Vec<String> = self.operator.dirty.iter().cloned().collect();
            for path in due {
                self.operator.reconcile(&path).await.unwrap();
            }
        }
    }

    fn children(&self) -> Vec<String> {
        let owned = |it: &Value| !it["metadata"]["ownerReferences"].is_null();
        self.server.select(|_| true).into_iter().filter(|it| owned(&it.1)).map(|it| it.0).collect()
    }

    /// Adds another child to the object of `kind`, of which no watch tells.
    fn leave_over(&mut self, kind: &str, (group, plural): (&str, &str)) -> String {
        let owner = self.server.get(&walked(kind)).unwrap()["metadata"]["uid"].clone();
        let is_its = |it: &Value| it["metadata"]["ownerReferences"][0]["uid"] == owner;
        let children = self.server.select(|_| true).into_iter();
        let children: Vec<_> = children.filter(|it| is_its(&it.1)).collect();
        let same = children.iter().find(|it| instance::plural(&it.0) == plural);
        let mut left = same.map_or_else(|| json!({}), |it| it.1.clone());
        let metadata = &same.or(children.first()).unwrap().1["metadata"];
        left["metadata"] = json!({"labels": metadata["labels"],
            "ownerReferences": metadata["ownerReferences"]});
        let path = format!("/{group}/namespaces/{NAMESPACE}/{plural}/left-over");
        self.server.put(&path, left);
        (0..self.operator.watch_count()).for_each(|watch| self.operator.lose(watch));
        path
    }
}

fn edge() -> Value {
    json!({"kafka": {"bootstrapServers": ["kafka:9092"]}, "signals": {"traces": {}}})
}

/// An edge pool that reads logs of nodes.
fn on_nodes() -> Value {
    json!({"kafka": {"bootstrapServers": ["kafka:9092"]}, "signals": {"logs": {}},
        "mode": "DaemonSet", "receivers": {"kernel": {}}})
}

fn gateway() -> Value {
    json!({"kafka": {"bootstrapServers": ["kafka:9092"]}, "signals": {"traces": {}},
        "clickhouse": {"endpoints": ["http://clickhouse:8123"]}, "replicas": 2})
}

fn gateway_with_secret() -> Value {
    let key = |key: &str| json!({"name": SECRET, "key": key});
    let mut spec = gateway();
    spec["kafka"]["authentication"] = json!({"type": "ScramSha512",
        "usernameSecret": key("username"), "passwordSecret": key("password")});
    spec
}

fn pipeline() -> Value {
    json!({"kafka": {"bootstrapServers": ["kafka:9092"]}, "signals": {"traces": {}},
        "clickhouse": {"endpoints": ["http://clickhouse:8123"]}, "gateway": {"replicas": 2}})
}

/// Reads of a settled object's reconcile.
async fn reads(kind: &str, spec: Value) -> usize {
    reads_of(Settled::of(kind, spec).await, kind).await
}

/// Reads of its first reconcile by an operator that has just started, and knows nothing.
async fn first_reads(kind: &str, spec: Value) -> usize {
    let Settled { server, operator, .. } = Settled::of(kind, spec).await;
    drop(operator);
    let beyond = Beyond::new();
    let operator = Instance::start(&server, &beyond);
    let mut started = Settled { server, beyond, operator };
    started.operator.catch_up();
    reads_of(started, kind).await
}

async fn reads_of(mut settled: Settled, kind: &str) -> usize {
    let count = counted_reads(&settled.server);
    settled.operator.reconcile(&walked(kind)).await.unwrap();
    assert_eq!(settled.server.take_writes(), []);
    count.load(Ordering::SeqCst)
}

/// How often the API server is asked for something from now on.
fn counted_reads(server: &ApiServer) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    server.set_judge(Some(Box::new(move |method, _| {
        counted.fetch_add(usize::from(*method == http::Method::GET), Ordering::SeqCst);
        (Verdict::Do, 0)
    })));
    count
}

/// Runs a test's future where there is room for it: in a dev build they are large.
fn with_room<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(32 << 20).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(test());
    });
    thread.unwrap().join().unwrap();
}

/// Scenario: settled objects are looked at again. Guarantee: an edge pool, a pipeline and a gateway
/// pool, also one whose Secrets were just read, ask the API server nothing; an edge pool that reads
/// logs of nodes asks for its pods.
#[test]
fn a_converged_reconcile_reads_no_child() {
    with_room(|| async {
        assert_eq!(reads("edgepools", edge()).await, 0);
        assert_eq!(reads("edgepools", on_nodes()).await, 1);
        assert_eq!(reads("telemetrypipelines", pipeline()).await, 0);
        assert_eq!(reads("gatewaypools", gateway()).await, 0);
        assert_eq!(reads_of(settled_with_secret().await, "gatewaypools").await, 0);
    });
}

/// A settled gateway pool that logs in with a Secret.
async fn settled_with_secret() -> Settled {
    Settled::with("gatewaypools", gateway_with_secret(), |server| {
        server.put(&secret_path(SECRET), secret("first"));
    })
    .await
}

/// Scenario: the Secret of a settled gateway pool changes; in another one a pod's watch fails.
/// Guarantee: within 300 s the Secret is read and the new digest is in the pods' template; while the
/// watch isn't trusted, pods are listed.
#[test]
fn a_gateway_at_rest_reads_what_may_have_changed() {
    with_room(|| async {
        let mut settled = settled_with_secret().await;
        let digest = |settled: &Settled| {
            let sets = settled.server.select(|path| instance::plural(path) == "statefulsets");
            let annotations = &sets[0].1["spec"]["template"]["metadata"]["annotations"];
            annotations["millrace.dev/secrets-digest"].clone()
        };
        let before = digest(&settled);
        assert!(before.is_string());
        settled.server.put(&secret_path(SECRET), secret("second"));
        settled.operator.reconcile(&walked("gatewaypools")).await.unwrap();
        assert_eq!(digest(&settled), before, "it was read although it was just read");
        settled.beyond.pass(300);
        settled.operator.reconcile(&walked("gatewaypools")).await.unwrap();
        assert_ne!(digest(&settled), before);

        let mut settled = Settled::of("gatewaypools", gateway()).await;
        let reads = counted_reads(&settled.server);
        settled.operator.fail_pod_watch();
        settled.operator.reconcile(&walked("gatewaypools")).await.unwrap();
        assert_eq!(reads.load(Ordering::SeqCst), 1);
        settled.beyond.pass(60);
        settled.operator.reconcile(&walked("gatewaypools")).await.unwrap();
        assert_eq!(reads.load(Ordering::SeqCst), 1);
    });
}

/// Scenario: an operator starts and looks at settled objects. Guarantee: it writes nothing, and
/// reads no child of an edge pool: metadata tells that nobody changed them, and the watch of
/// workloads what they count. Of a gateway pool it reads the workload, twice.
#[test]
fn an_operator_that_starts_reads_only_gateways_workloads() {
    with_room(|| async {
        assert_eq!(first_reads("edgepools", edge()).await, 0);
        // The set as its controller holds it isn't verified yet.
        assert_eq!(first_reads("gatewaypools", gateway()).await, 2);
    });
}

/// Scenario: the pods of a settled edge pool go away one after the other, as its workload's own
/// controller counts. Guarantee: each count reaches the pool's status and costs no read.
#[test]
fn what_a_workload_counts_is_told_without_a_read() {
    with_room(|| async {
        let mut settled = Settled::of("edgepools", edge()).await;
        let workload = settled.children().into_iter().find(|it| it.contains("/deployments/"));
        let workload = workload.unwrap();
        let wanted = settled.server.get(&workload).unwrap()["spec"]["replicas"].as_u64().unwrap();
        let reads = counted_reads(&settled.server);
        for ready in (0..wanted).rev() {
            settled.server.edit(&workload, |it| it["status"]["readyReplicas"] = ready.into());
            settled.operator.catch_up();
            assert!(settled.operator.dirty.contains(&walked("edgepools")));
            settled.operator.reconcile(&walked("edgepools")).await.unwrap();
            let pool = settled.server.get(&walked("edgepools")).unwrap();
            assert_eq!(pool["status"]["readyReplicas"], ready, "{}", pool["status"]);
        }
        assert_eq!(reads.load(Ordering::SeqCst), 0);
    });
}

/// Scenario: each child of each kind is deleted, then edited, by hand. Guarantee: events alone
/// bring it back as it was; nothing waits for the look at everything.
#[test]
fn what_is_done_by_hand_is_seen_by_its_event() {
    with_room(|| async {
        let kinds = [
            ("edgepools", edge()),
            ("gatewaypools", gateway()),
            ("telemetrypipelines", pipeline()),
        ];
        for (kind, spec) in kinds {
            let mut settled = Settled::of(kind, spec).await;
            for child in settled.children() {
                let before = settled.server.get(&child).unwrap();
                settled.server.ask_to_delete(&child);
                while settled.server.collect_garbage() {}
                settled.look().await;
                let back = settled.server.get(&child).unwrap_or_else(|| panic!("{child} is gone"));
                assert_eq!(back["spec"], before["spec"], "{child}");
                settled.server.edit(&child, |it| {
                    it["metadata"]["labels"]["app.kubernetes.io/instance"] = "theirs".into();
                });
                settled.look().await;
                let back = settled.server.get(&child).unwrap();
                assert_eq!(back["metadata"]["labels"], before["metadata"]["labels"], "{child}");
            }
        }
    });
}

/// Scenario: watches break, each child goes meanwhile, and new lists are made. Guarantee: the lists
/// alone wake the owners.
#[test]
fn a_child_that_went_unseen_is_found_by_the_next_list() {
    with_room(|| async {
        let mut settled = Settled::of("edgepools", edge()).await;
        for child in settled.children() {
            for watch in 0..settled.operator.watch_count() {
                settled.operator.break_watch(watch);
            }
            settled.server.ask_to_delete(&child);
            // Our own kinds' watches hold: nothing but the lists of children may wake a pool.
            for watch in OURS.len()..settled.operator.watch_count() {
                settled.operator.list(watch);
            }
            let pool = own_path("edgepools", "prod");
            assert!(settled.operator.dirty.contains(&pool), "{child} was not missed");
            settled.look().await;
            assert!(settled.server.get(&child).is_some(), "{child} is gone");
        }
    });
}

/// Scenario: each kind of child that an owner may leave over is there once too often, and the watch
/// lost that event. Guarantee: a reconcile removes it once nothing counts as verified any more.
#[test]
fn a_leftover_of_which_no_watch_told_goes_in_time() {
    const POLICIES: (&str, &str) = ("apis/networking.k8s.io/v1", "networkpolicies");
    const BUDGETS: (&str, &str) = ("apis/policy/v1", "poddisruptionbudgets");
    const CONFIGS: (&str, &str) = ("api/v1", "configmaps");
    const EDGES: (&str, &str) = ("apis/millrace.dev/v1alpha1", "edgepools");
    const TOPICS: (&str, &str) = ("apis/millrace.dev/v1alpha1", "telemetrytopics");
    const SETS: (&str, &str) = ("apis/apps/v1", "daemonsets");
    const DEPLOYMENTS: (&str, &str) = ("apis/apps/v1", "deployments");
    with_room(|| async {
        let without = |mut spec: Value| {
            spec["disruptionBudget"] = json!({"enabled": false});
            spec["networkPolicy"] = json!({"enabled": false});
            spec
        };
        let kinds = [
            ("edgepools", without(edge()), &[POLICIES, BUDGETS, CONFIGS, SETS][..]),
            ("edgepools", without(on_nodes()), &[POLICIES, BUDGETS, CONFIGS, DEPLOYMENTS]),
            ("gatewaypools", without(gateway()), &[POLICIES, BUDGETS, CONFIGS]),
            ("telemetrypipelines", pipeline(), &[TOPICS, EDGES]),
        ];
        for (kind, spec, leftovers) in kinds {
            let mut settled = Settled::of(kind, spec).await;
            for leftover in leftovers {
                let left = settled.leave_over(kind, *leftover);
                settled.operator.reconcile(&walked(kind)).await.unwrap();
                assert_eq!(settled.server.take_writes(), [], "{left} was told of");
                settled.beyond.pass(VERIFIED_FOR.as_secs());
                settled.operator.list_own();
                settled.operator.reconcile(&walked(kind)).await.unwrap();
                assert!(settled.server.get(&left).is_none(), "{left} is left over");
                settled.operator.list_own();
                settled.server.take_writes();
            }
        }
    });
}
