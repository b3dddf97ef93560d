//! What a pool's `podTemplate`, `service` and `disruptionBudget` make of its objects, and how a
//! change of the template reaches its pods, against an API server in memory.

use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::controllers::gateway::GatewayPools;
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;
use crate::reconcilers::support::{GATEWAY_POOL, GATEWAY_SET, gateway_pool};

const POOL: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/edgepools/prod";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/telemetry/deployments/prod-edge";
const SERVICE: &str = "/api/v1/namespaces/telemetry/services/prod-edge";
const PODS: &str = "/api/v1/namespaces/telemetry/pods/prod-edge-";
const BUDGETS: &str = "/apis/policy/v1/namespaces/telemetry/poddisruptionbudgets/prod-";

async fn look(world: &World) {
    world.reconcile::<EdgePools>(POOL).await.unwrap();
}

async fn settled() -> World {
    let world = World::new();
    let pool = json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePool", "metadata": {},
        "spec": {"kafka": {"bootstrapServers": ["kafka:9092"]}, "signals": {"traces": {}}}
    });
    world.server.put(POOL, pool);
    look(&world).await;
    world.finish_rollouts();
    look(&world).await;
    assert!(world.is_ready(POOL));
    world
}

fn template(world: &World) -> Value {
    world.server.get(DEPLOYMENT).unwrap()["spec"]["template"].clone()
}

fn stage(world: &World) -> Value {
    world.server.get(POOL).unwrap()["status"]["pendingChange"]["stage"].clone()
}

fn writes(world: &World, spec: &Value) {
    world.server.edit(POOL, |pool| pool["spec"]["podTemplate"] = json!({"spec": spec}));
}

fn everything() -> Value {
    json!({
        "nodeSelector": {"pool": "ingest"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}},
        "runtimeClassName": "gvisor",
        "imagePullSecrets": [{"name": "registry"}],
        "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
        "serviceAccountName": "mine",
        "initContainers": [{"name": "before", "image": "before:1"}],
        "volumes": [{"name": "extra", "persistentVolumeClaim": {"claimName": "extra"}}],
        "containers": [
            {"name": "beside", "image": "beside:1", "args": ["run"],
                "ports": [{"containerPort": 9000}],
                "resources": {"limits": {"memory": "1024Mi"}}},
            {"name": "collector", "env": [{"name": "TZ", "value": "UTC"}],
                "volumeMounts": [{"name": "extra", "mountPath": "/extra"}]},
        ],
    })
}

/// Scenario: a template with all that users ask of pods. Guarantee: a separate pod tries the
/// collector alone first; then the Deployment has all of it beside what the operator builds, with
/// the template from before kept, and the converged pool writes nothing.
#[tokio::test]
async fn a_template_reaches_the_pods_as_a_judged_rollout() {
    let world = settled().await;
    let before = template(&world);
    writes(&world, &everything());
    look(&world).await;
    assert_eq!(stage(&world), "Validating");
    look(&world).await;
    assert_eq!(template(&world), before);
    let [(_, tries)] = world.server.select(|path| path.starts_with(PODS)).try_into().unwrap();
    let tried = &tries["spec"];
    assert_eq!(tried["containers"].as_array().unwrap().len(), 1);
    assert_eq!(tried["containers"][0]["args"][0], "validate");
    assert_eq!(tried["containers"][0]["env"][1]["name"], "TZ");
    assert_eq!(
        (&tried["initContainers"], &tried["runtimeClassName"]),
        (&Value::Null, &"gvisor".into())
    );
    assert!(!tries.to_string().contains("extra"), "{tries}");

    world.finish_tries();
    look(&world).await;
    assert_eq!(stage(&world), "RollingOut");
    let pod = template(&world)["spec"].clone();
    for field in ["nodeSelector", "tolerations", "affinity", "runtimeClassName", "dnsConfig"] {
        assert_eq!(pod[field], everything()[field], "{field}");
    }
    assert_eq!(pod["serviceAccountName"], "mine");
    assert_eq!(pod["initContainers"][0]["name"], "before");
    assert_eq!(pod["containers"][0]["args"], before["spec"]["containers"][0]["args"]);
    assert_eq!(pod["containers"][0]["env"][1]["value"], "UTC");
    assert_eq!(pod["containers"][1]["image"], "beside:1");
    assert_eq!(pod["volumes"][1]["name"], "extra");
    assert_eq!(pod["securityContext"], before["spec"]["securityContext"]);
    let live = world.server.get(DEPLOYMENT).unwrap();
    let kept = live["metadata"]["annotations"]["millrace.dev/rollout-baseline"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(kept).unwrap(), before);

    world.finish_rollouts();
    for _ in 0..2 {
        look(&world).await;
    }
    assert!(world.is_ready(POOL), "{:?}", world.condition(POOL, "Ready"));
    world.server.take_writes();
    look(&world).await;
    assert_eq!(world.server.take_writes(), []);
}

/// Scenario: a container beside the collector whose image can't be pulled, so that new pods never
/// get ready. Guarantee: the change is taken back.
#[tokio::test]
async fn a_container_that_fails_beside_the_collector_takes_the_change_back() {
    let world = settled().await;
    let before = template(&world);
    let pod = |name: &str, mut pod: Value, ready: bool| {
        let now = world.context.clock.now().to_string();
        pod["metadata"]["creationTimestamp"] = now.clone().into();
        let is_ready = if ready { "True" } else { "False" };
        pod["status"] = json!({
            "conditions": [{"type": "Ready", "status": is_ready, "lastTransitionTime": now}],
            "containerStatuses": [{"name": "collector", "ready": true, "image": "x",
                "imageID": "", "restartCount": 0, "state": {"running": {"startedAt": now}}}]});
        world.server.put(&format!("{PODS}{name}"), pod);
    };
    pod("old", before.clone(), true);
    writes(&world, &json!({"containers": [{"name": "beside", "image": "none:1"}]}));
    look(&world).await;
    look(&world).await;
    world.finish_tries();
    look(&world).await;
    assert_eq!(stage(&world), "RollingOut");
    pod("new", template(&world), false);
    for _ in 0..120 {
        world.pass(5);
        look(&world).await;
    }
    assert_eq!(stage(&world), "RolledBack");
    assert_eq!(template(&world), before);
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "RolledBack");
}

/// Scenario: a misspelt field, later one that belongs to the operator. Guarantee: the condition
/// names its path, nothing is changed, and the corrected spec goes out.
#[tokio::test]
async fn a_template_that_is_refused_changes_nothing() {
    let world = settled().await;
    let before = world.server.get(DEPLOYMENT).unwrap()["spec"].clone();
    for (spec, path) in [
        (json!({"tolerations": [{"operater": "Exists"}]}), "spec.podTemplate.spec.tolerations.0"),
        (
            json!({"containers": [{"name": "collector", "image": "x:1"}]}),
            "spec.podTemplate.spec.containers.collector.image",
        ),
    ] {
        writes(&world, &spec);
        world.reconcile::<EdgePools>(POOL).await.unwrap_err();
        assert_eq!(world.condition(POOL, "Ready").unwrap().1, "SpecInvalid");
        assert_eq!(world.condition(POOL, "Stalled").unwrap().0, "True");
        let conditions = world.server.get(POOL).unwrap()["status"]["conditions"].to_string();
        assert!(conditions.contains(path), "{conditions}");
        assert_eq!(world.server.get(DEPLOYMENT).unwrap()["spec"], before);
    }
    writes(&world, &json!({}));
    look(&world).await;
    assert!(world.is_ready(POOL), "{:?}", world.condition(POOL, "Ready"));
}

/// Scenario: a gateway pool's template changes. Guarantee: it waits for a trial, as a change of the
/// image does, and no pod's template changes before.
#[tokio::test]
async fn a_gateways_template_is_a_judged_rollout_too() {
    let world = World::new();
    let spec = json!({"replicas": 3, "rollout": {"canary": {"pods": 1}}});
    world.server.put(GATEWAY_POOL, gateway_pool(spec));
    let look = async || {
        world.reconcile::<GatewayPools>(GATEWAY_POOL).await.unwrap();
        world.pass(5);
    };
    for _ in 0..4 {
        look().await;
        world.finish_rollouts();
    }
    let template = || world.server.get(GATEWAY_SET).unwrap()["spec"]["template"].clone();
    let told = || world.server.get(GATEWAY_POOL).unwrap()["status"]["rollout"]["stage"].clone();
    assert_eq!(told(), "Stable");
    let before = template();
    world.server.edit(GATEWAY_POOL, |pool| {
        pool["spec"]["podTemplate"] = json!({"spec": {"priorityClassName": "ingest"}});
    });
    look().await;
    look().await;
    assert_eq!((told(), template()), ("Waiting".into(), before));
    world.finish_tries();
    look().await;
    assert_eq!(told(), "Canary");
    assert_eq!(template()["spec"]["priorityClassName"], "ingest");
    let strategy = &world.server.get(GATEWAY_SET).unwrap()["spec"]["updateStrategy"];
    assert_eq!(strategy["rollingUpdate"]["partition"], 2);
}

/// Scenario: all that a Service may have; then a label of the operator's. Guarantee: it reaches the
/// Service at once, beside what is the operator's; the label is refused by its path.
#[tokio::test]
async fn a_service_has_what_the_spec_says() {
    let world = settled().await;
    let said = json!({
        "type": "LoadBalancer", "loadBalancerClass": "service.k8s.aws/nlb",
        "loadBalancerSourceRanges": ["10.0.0.0/8"], "externalTrafficPolicy": "Local",
        "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv6", "IPv4"],
        "ipFamilyPolicy": "PreferDualStack",
    });
    world.server.edit(POOL, |pool| {
        pool["spec"]["service"] = said.clone();
        pool["spec"]["service"]["labels"] = json!({"team": "obs"});
        pool["spec"]["service"]["annotations"] = json!({"a.example/b": "c"});
    });
    look(&world).await;
    let service = world.server.get(SERVICE).unwrap();
    for (field, value) in said.as_object().unwrap() {
        assert_eq!(service["spec"][field], *value, "{field}");
    }
    assert_eq!(service["metadata"]["labels"]["team"], "obs");
    assert_eq!(service["metadata"]["labels"]["app.kubernetes.io/instance"], "prod");
    assert_eq!(service["metadata"]["annotations"]["a.example/b"], "c");
    assert!(world.is_ready(POOL));
    world.server.edit(POOL, |pool| {
        pool["spec"]["service"]["labels"] = json!({"app.kubernetes.io/instance": "x"});
    });
    world.reconcile::<EdgePools>(POOL).await.unwrap_err();
    let conditions = world.server.get(POOL).unwrap()["status"]["conditions"].to_string();
    assert!(conditions.contains("spec.service.labels.app.kubernetes.io/instance"), "{conditions}");
}

/// Scenario: both pools as they are by default, with a number, a percentage, a minimum, and without
/// a budget. Guarantee: one pod may be evicted, then as declared, then the budget is gone.
#[tokio::test]
async fn a_budget_follows_the_spec() {
    let world = settled().await;
    world.server.put(GATEWAY_POOL, gateway_pool(json!({"replicas": 2})));
    for (settings, most) in [
        (json!({}), Some(json!([1, null]))),
        (json!({"maxUnavailable": 3}), Some(json!([3, null]))),
        (json!({"maxUnavailable": "25%"}), Some(json!(["25%", null]))),
        (json!({"minAvailable": 2}), Some(json!([null, 2]))),
        (json!({"minAvailable": "60%"}), Some(json!([null, "60%"]))),
        (json!({"enabled": false}), None),
    ] {
        for pool in [POOL, GATEWAY_POOL] {
            world.server.edit(pool, |pool| pool["spec"]["disruptionBudget"] = settings.clone());
        }
        for _ in 0..2 {
            look(&world).await;
            world.reconcile::<GatewayPools>(GATEWAY_POOL).await.unwrap();
            world.finish_rollouts();
        }
        for role in ["edge", "gateway"] {
            let budget = world.server.get(&format!("{BUDGETS}{role}"));
            let found = budget.map(|budget| {
                let spec = &budget["spec"];
                json!([spec["maxUnavailable"], spec["minAvailable"]])
            });
            assert_eq!(found, most, "{role} {settings}");
        }
    }
}

/// Scenario: both pools declare annotations of their service accounts, change them, and remove
/// them; then a label that the operator owns. Guarantee: the accounts follow without a rollout; the
/// label is refused by field.
#[tokio::test]
async fn service_accounts_have_the_declared_annotations() {
    let world = settled().await;
    world.server.put(GATEWAY_POOL, gateway_pool(json!({"replicas": 2})));
    let accounts = "/api/v1/namespaces/telemetry/serviceaccounts/prod-";
    let role = |number: u32| json!({"eks.amazonaws.com/role-arn": format!("arn:{number}")});
    for wanted in [role(1), role(2), Value::Null] {
        for pool in [POOL, GATEWAY_POOL] {
            world.server.edit(pool, |pool| {
                let account = json!({"annotations": wanted});
                let account = if wanted.is_null() { json!({}) } else { account };
                pool["spec"]["serviceAccount"] = account;
            });
        }
        look(&world).await;
        world.reconcile::<GatewayPools>(GATEWAY_POOL).await.unwrap();
        world.finish_rollouts();
        for role in ["edge", "gateway"] {
            let account = world.server.get(&format!("{accounts}{role}")).unwrap();
            let found = &account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"];
            assert_eq!(*found, wanted["eks.amazonaws.com/role-arn"], "{role}");
        }
    }
    world.server.edit(POOL, |pool| {
        pool["spec"]["serviceAccount"] = json!({"labels": {"app.kubernetes.io/instance": "other"}});
    });
    world.reconcile::<EdgePools>(POOL).await.unwrap_err();
    let conditions = world.server.get(POOL).unwrap()["status"]["conditions"].to_string();
    assert!(conditions.contains("spec.serviceAccount.labels.app.kubernetes.io"), "{conditions}");
}
