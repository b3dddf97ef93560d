//! How long accounts keep the right to watch pods, with all pools in the operator's store.

use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::error::StepError;
use serde_json::{Value, json};

use crate::reconcilers::pools::edge::{
    BINDING, DEPLOYMENT, NAMESPACES_BINDING, POOL, pool, reading, world,
};
use crate::reconcilers::support::world::World;

/// A world with a binding, accounts, and a store of pools.
struct Pools {
    world: World,
}

const DAEMON_SET: &str = "/apis/apps/v1/namespaces/telemetry/daemonsets/prod-edge";

fn pod_path(name: &str) -> String {
    format!("/api/v1/namespaces/telemetry/pods/{name}")
}

impl Pools {
    fn new() -> Self {
        let world = world();
        world.server.put(
            BINDING,
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": "pod-access"}, "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}}),
        );
        Self { world }
    }

    /// Writes the pool as running as this account, and reconciles it.
    async fn run_as(&mut self, account: &str) {
        let mut pool = reading(json!({}));
        pool["spec"]["podTemplate"] = json!({"spec": {"serviceAccountName": account}});
        self.world.server.put(POOL, pool);
        self.world.sync_edge_pools();
        self.world.reconcile::<EdgePools>(POOL).await.unwrap();
    }

    /// A running pod with this label, as this account. Pods of edges belong to the pool's DaemonSet.
    fn put_pod(&self, name: &str, component: &str, account: &str) {
        let labels = json!({"app.kubernetes.io/name": "millrace-collector",
            "app.kubernetes.io/instance": "prod", "app.kubernetes.io/component": component});
        let set = self.world.server.get(DAEMON_SET).unwrap();
        let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "prod-edge",
            "uid": set["metadata"]["uid"], "controller": true}]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"labels": labels, "ownerReferences": owner},
            "spec": {"serviceAccountName": account, "containers": []},
            "status": {"phase": "Running"}});
        self.world.server.put(&pod_path(name), pod);
    }

    /// Ends the rollout of the account that the spec names.
    fn finish_rollout(&self, account: &str) {
        self.world.server.edit(DAEMON_SET, |set| {
            set["spec"]["template"]["spec"]["serviceAccountName"] = account.into();
            let annotations = set["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.remove("millrace.dev/rollout-baseline");
        });
    }

    /// Adds an account to the binding, as a person would.
    fn bind(&self, account: &str) {
        let account = json!({"kind": "ServiceAccount", "name": account, "namespace": "telemetry"});
        self.world.server.edit(BINDING, |binding| {
            binding["subjects"].as_array_mut().unwrap().push(account);
        });
    }

    /// A sweep five minutes later.
    async fn sweep(&mut self) -> Result<(), StepError> {
        self.world.pass(300);
        self.world.sweep_access().await
    }

    fn accounts(&self) -> Vec<String> {
        let subjects = self.world.server.get(BINDING).unwrap()["subjects"].clone();
        let names = subjects.as_array().into_iter().flatten();
        names.map(|subject: &Value| subject["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// Scenario: a pool's account changes while pods run as the earlier one; one of its pods after the
/// other is replaced. Guarantee: both accounts have the right until no pod runs as the earlier one,
/// which then loses it within five minutes.
#[tokio::test]
async fn an_account_keeps_the_right_until_no_pod_runs_as_it() {
    let mut pools = Pools::new();
    pools.run_as("readers").await;
    assert_eq!(pools.accounts(), ["readers"]);
    for name in ["prod-edge-a", "prod-edge-b"] {
        pools.put_pod(name, "edge", "readers");
    }
    pools.run_as("others").await;
    pools.finish_rollout("others");
    assert_eq!(pools.accounts(), ["readers", "others"]);
    pools.put_pod("prod-edge-a", "edge", "others");
    pools.sweep().await.unwrap();
    assert_eq!(pools.accounts(), ["readers", "others"]);
    pools.put_pod("prod-edge-b", "edge", "others");
    pools.sweep().await.unwrap();
    assert_eq!(pools.accounts(), ["others"]);
}

/// Scenario: somebody adds an account to the binding that only pods of others run as. Guarantee: it
/// is taken out.
#[tokio::test]
async fn an_account_of_other_pods_has_no_right() {
    let mut pools = Pools::new();
    pools.run_as("readers").await;
    pools.put_pod("other", "something", "person");
    pools.bind("person");
    pools.sweep().await.unwrap();
    assert_eq!(pools.accounts(), ["readers"]);
}

/// Scenario: an account in the binding whose pods have all labels of a pool's, but ended, have no
/// controller, or belong to a workload of somebody else. Guarantee: it loses the right.
#[tokio::test]
async fn a_label_alone_keeps_no_right() {
    let ended = |pod: &mut Value| pod["status"]["phase"] = "Succeeded".into();
    let alone = |pod: &mut Value| pod["metadata"]["ownerReferences"] = json!([]);
    let theirs = |pod: &mut Value| pod["metadata"]["ownerReferences"][0]["uid"] = "theirs".into();
    for change in [ended, alone, theirs] {
        let mut pools = Pools::new();
        pools.run_as("readers").await;
        let mut set = pools.world.server.get(DAEMON_SET).unwrap();
        set["metadata"] = json!({"uid": "theirs", "labels": set["metadata"]["labels"]});
        pools.world.server.put(&DAEMON_SET.replace("prod-edge", "theirs"), set);
        pools.put_pod("other", "edge", "person");
        pools.bind("person");
        pools.sweep().await.unwrap();
        assert_eq!(pools.accounts(), ["readers", "person"]);
        pools.world.server.edit(&pod_path("other"), change);
        pools.sweep().await.unwrap();
        assert_eq!(pools.accounts(), ["readers"]);
    }
}

/// Scenario: the spec names another account, and no pod runs as the earlier one for a moment, while
/// the DaemonSet's template still has it, or the template to which a failed change is rolled back.
/// Guarantee: the earlier one keeps the right until neither has it.
#[tokio::test]
async fn an_account_keeps_the_right_while_pods_may_run_as_it_again() {
    let mut pools = Pools::new();
    pools.run_as("readers").await;
    let template = pools.world.server.get(DAEMON_SET).unwrap()["spec"]["template"].clone();
    assert_eq!(template["spec"]["serviceAccountName"], "readers");
    pools.run_as("others").await;
    pools.finish_rollout("others");
    let others = pools.world.server.get(DAEMON_SET).unwrap();
    for in_annotation in [false, true] {
        pools.world.server.edit(DAEMON_SET, |set| {
            if in_annotation {
                let text = template.to_string().into();
                set["metadata"]["annotations"]["millrace.dev/rollout-baseline"] = text;
                set["spec"]["template"] = others["spec"]["template"].clone();
            } else {
                set["spec"]["template"] = template.clone();
            }
        });
        pools.sweep().await.unwrap();
        assert_eq!(pools.accounts(), ["readers", "others"], "{in_annotation}");
    }
    pools.world.server.put(DAEMON_SET, others);
    pools.sweep().await.unwrap();
    assert_eq!(pools.accounts(), ["others"]);
}

/// Scenario: the last pool is deleted, before its DaemonSet is; the API server fails when its account
/// is taken out of the binding. Guarantee: it loses the right once the DaemonSet is deleted, by a
/// later sweep.
#[tokio::test]
async fn the_last_pools_account_loses_the_right() {
    let mut pools = Pools::new();
    pools.run_as("readers").await;
    pools.world.server.delete(POOL);
    pools.sweep().await.unwrap();
    assert_eq!(pools.accounts(), ["readers"]);
    pools.world.server.delete(DAEMON_SET);
    let fault = |method: &http::Method, path: &str| {
        (path == BINDING && method == http::Method::PATCH).then_some(500)
    };
    pools.world.server.set_fault(Some(Box::new(fault)));
    assert!(pools.sweep().await.is_err());
    pools.world.server.set_fault(None);
    pools.sweep().await.unwrap();
    assert!(pools.accounts().is_empty());
}

/// Scenario: a pool no longer parses, as after a newer release wrote it. Guarantee: its account
/// keeps the right while its pods run.
#[tokio::test]
async fn a_pool_that_does_not_parse_keeps_the_right() {
    let mut pools = Pools::new();
    pools.run_as("readers").await;
    pools.put_pod("prod-edge-a", "edge", "readers");
    pools.world.server.edit(POOL, |pool| pool["spec"]["mode"] = json!("FromANewerRelease"));
    pools.sweep().await.unwrap();
    assert_eq!(pools.accounts(), ["readers"]);
}

/// Scenario: a pool no longer watches pods; its pods still run, as the account that had the right for
/// that, until the change has reached all of them. Guarantee: the account loses the right then.
#[tokio::test]
async fn an_account_whose_pool_needs_no_right_any_more_loses_it() {
    let mut pools = Pools::new();
    pools.run_as("readers").await;
    pools.put_pod("prod-edge-a", "edge", "readers");
    pools.world.server.edit(POOL, |pool| {
        pool["spec"]["receivers"]["containers"]["podMetadata"] = "FilePath".into();
        pool["status"] = json!({"observedGeneration": 1});
    });
    pools.sweep().await.unwrap();
    assert_eq!(pools.accounts(), ["readers"]);
    pools.world.server.edit(POOL, |pool| {
        pool["status"] = json!({"observedGeneration": pool["metadata"]["generation"]});
    });
    pools.sweep().await.unwrap();
    assert!(pools.accounts().is_empty());
}

/// Scenario: a pool in mode Deployment adds pods' metadata, and its account changes; a pod of its
/// ReplicaSet still runs as the earlier one; so does one of somebody else's ReplicaSet with the same
/// labels. Guarantee: the earlier account has the right until the pool's own pod has ended.
#[tokio::test]
async fn a_deployments_account_has_the_right_until_its_pods_have_ended() {
    let mut pools = Pools::new();
    let named = |account: &str| {
        let mut enriching = pool();
        enriching["spec"]["processing"] = json!([{"name": "pods", "enrich": {"podMetadata": {}}}]);
        enriching["spec"]["podTemplate"] = json!({"spec": {"serviceAccountName": account}});
        enriching
    };
    pools.world.server.put(POOL, named("readers"));
    pools.world.sync_edge_pools();
    pools.world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert_eq!(pools.accounts(), ["readers"]);
    for (name, set) in [("prod-edge-f6-a", "prod-edge-f6"), ("other-f6-a", "other-f6")] {
        let labels = json!({"app.kubernetes.io/name": "millrace-collector",
            "app.kubernetes.io/instance": "prod", "app.kubernetes.io/component": "edge",
            "pod-template-hash": "f6"});
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set,
            "uid": "set", "controller": true}]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"labels": labels, "ownerReferences": owner},
            "spec": {"serviceAccountName": "readers", "containers": []},
            "status": {"phase": "Running"}});
        pools.world.server.put(&pod_path(name), pod);
    }
    pools.world.server.put(POOL, named("others"));
    pools.world.sync_edge_pools();
    pools.world.reconcile::<EdgePools>(POOL).await.unwrap();
    // The change has reached the template.
    pools.world.server.edit(DEPLOYMENT, |deployment| {
        deployment["spec"]["template"]["spec"]["serviceAccountName"] = "others".into();
        if let Some(annotations) = deployment["metadata"]["annotations"].as_object_mut() {
            annotations.remove("millrace.dev/rollout-baseline");
        }
    });
    pools.sweep().await.unwrap();
    assert_eq!(pools.accounts(), ["readers", "others"]);
    pools.world.server.edit(&pod_path("prod-edge-f6-a"), |pod| {
        pod["status"]["phase"] = "Succeeded".into();
    });
    pools.sweep().await.unwrap();
    assert_eq!(pools.accounts(), ["others"]);
}

/// Scenario: a pool in mode Deployment gets a step that adds pods' metadata, then labels of their
/// namespaces too, then is one on nodes, then has the step no more. Guarantee: its account has the
/// right to what the step needs, its pods a token, and the collector watches the cluster's pods; on
/// nodes those of its node, whose name pods have; without the step all of it is revoked.
#[tokio::test]
async fn a_pool_that_enriches_records_may_watch_pods() {
    let world = world();
    for (path, name) in [(BINDING, "pod-access"), (NAMESPACES_BINDING, "namespace-access")] {
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "r"});
        world.server.put(
            path,
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": name}, "roleRef": role}),
        );
    }
    let accounts = |path: &str| world.server.get(path).unwrap()["subjects"].clone();
    let subjects = || accounts(BINDING);
    let own = json!([{"kind": "ServiceAccount", "name": "prod-edge", "namespace": "telemetry"}]);
    let mut enriching = pool();
    enriching["spec"]["processing"] =
        json!([{"name": "pods", "enrich": {"podMetadata": {"labels": ["app"]}}}]);
    world.server.put(POOL, enriching.clone());
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert_eq!(subjects(), own);
    let spec = |kind: &str| {
        let workload = world.server.get(&DEPLOYMENT.replace("deployments", kind)).unwrap();
        workload["spec"]["template"]["spec"].clone()
    };
    let has_node = |spec: &serde_json::Value| {
        let names = spec["containers"][0]["env"].as_array().unwrap().clone();
        names.iter().any(|variable| variable["name"] == "NODE_NAME")
    };
    assert_eq!(spec("deployments")["automountServiceAccountToken"], true);
    let text = world.settings_text();
    for line in ["podMetadata:", "scope: Cluster", "- Connection", "- app"] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(accounts(NAMESPACES_BINDING), Value::Null);
    enriching["spec"]["processing"][0]["enrich"]["podMetadata"]["namespaceLabels"] =
        json!(["team"]);
    world.server.put(POOL, enriching.clone());
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert_eq!((subjects(), accounts(NAMESPACES_BINDING)), (own.clone(), own.clone()));
    let mut on_nodes = enriching.clone();
    on_nodes["spec"]["mode"] = "DaemonSet".into();
    on_nodes["spec"].as_object_mut().unwrap().remove("replicas");
    world.server.put(POOL, on_nodes);
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert!(world.settings_text().contains("scope: Node"), "{}", world.settings_text());
    assert!(has_node(&spec("daemonsets")));
    assert_eq!(subjects(), own);
    world.server.put(POOL, pool());
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    world.sweep_access().await.unwrap();
    assert_eq!((subjects(), accounts(NAMESPACES_BINDING)), (json!([]), json!([])));
}
