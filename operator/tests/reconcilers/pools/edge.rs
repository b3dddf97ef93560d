//! What the edge pool's reconciler does against an API server in memory.

mod change;
mod node_canary;
mod node_logs;

use crate::reconcilers::support::apiserver::Write;
use crate::reconcilers::support::world::World;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::EdgePool;
use millrace_operator::cluster::patch_status;
use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::error::Category;
use serde_json::json;

pub(crate) const POOL: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/edgepools/prod";
pub(crate) const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/telemetry/deployments/prod-edge";
const SERVICE: &str = "/api/v1/namespaces/telemetry/services/prod-edge";
const USER: &str = "/api/v1/namespaces/telemetry/secrets/kafka-user";

pub(crate) fn pool() -> serde_json::Value {
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePool", "metadata": {},
        "spec": {
            "kafka": {
                "bootstrapServers": ["kafka:9093"],
                "authentication": {
                    "type": "ScramSha512",
                    "usernameSecret": {"name": "kafka-user", "key": "username"},
                    "passwordSecret": {"name": "kafka-user", "key": "password"}
                }
            },
            "signals": {"traces": {}, "logs": {"topicName": "my_logs"}},
            "replicas": 3,
        }
    })
}

fn secret(password: &str) -> serde_json::Value {
    let encode = |text: &str| serde_json::to_value(k8s_openapi::ByteString(text.into())).unwrap();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {},
        "data": {"username": encode("edge"), "password": encode(password)}})
}

pub(crate) fn world() -> World {
    let world = World::new();
    world.server.put(USER, secret("hunter2"));
    world.server.put(POOL, pool());
    world
}

async fn settle(world: &World) {
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    world.finish_rollouts();
    for _ in 0..3 {
        world.reconcile::<EdgePools>(POOL).await.unwrap();
    }
    world.server.take_writes();
    world.server.take_event_reasons();
}

/// Scenario: a new pool is reconciled, its pods come up. Guarantee: every object is there, Ready
/// only after the pods, and the status says what a user needs.
#[tokio::test]
async fn a_new_pool_gets_its_objects_and_is_ready_only_with_its_pods() {
    let world = world();
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let deployment = world.server.get(DEPLOYMENT).unwrap();
    assert_eq!(deployment["spec"]["replicas"], 3);
    let owner = &deployment["metadata"]["ownerReferences"][0];
    assert_eq!(owner["kind"], "EdgePool");
    // A pipeline that deletes the pool waits for its pods by this.
    assert_eq!(owner["blockOwnerDeletion"], true);
    assert!(!world.is_ready(POOL));
    world.finish_rollouts();
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert!(world.is_ready(POOL), "{:?}", world.condition(POOL, "Ready"));
    let status = world.server.get(POOL).unwrap()["status"].clone();
    assert_eq!(status["pods"], "3/3");
    assert_eq!(status["endpoint"], "prod-edge.telemetry.svc:4317");
    assert_eq!(status["image"], "millrace/collector:0.1.0-system");
}

/// Scenario: a ready pool is deleted and made again under its name, with the same spec, before its
/// reconcile writes what it found. Guarantee: the new pool's status isn't touched; the old one's
/// was until then.
#[tokio::test]
async fn a_status_is_written_only_onto_the_object_it_was_found_for() {
    let world = world();
    settle(&world).await;
    let object = world.server.get(POOL).unwrap();
    let pool: EdgePool = serde_json::from_value(object).unwrap();
    let mut found = pool.status.clone().unwrap();
    found.pods = Some("2/3".to_owned());
    let write = async || patch_status(&world.context, &pool, pool.status.as_ref(), &found).await;
    assert!(write().await.unwrap());
    assert_eq!(world.server.get(POOL).unwrap()["status"]["pods"], "2/3");

    world.server.delete(POOL);
    assert!(!write().await.unwrap(), "there is none");
    world.server.put(POOL, self::pool());
    assert!(!write().await.unwrap(), "it is another");
    assert_eq!(world.server.get(POOL).unwrap()["status"], serde_json::Value::Null);
}

/// Scenario: the ConfigMap of a new pool. Guarantee: the collector itself accepts it, and it names
/// files, no secret.
#[tokio::test]
async fn the_rendered_configuration_is_accepted_by_the_collectors_own_check() {
    let world = world();
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let path = world.server.paths().into_iter().find(|path| path.contains("/configmaps/")).unwrap();
    let config = world.server.get(&path).unwrap();
    assert_eq!(config["immutable"], true);
    let text = config["data"]["collector.yaml"].as_str().unwrap();
    let settings = millrace_config::Config::load(text).unwrap();
    // Clients are served until Services route elsewhere.
    assert_eq!(settings.shutdown.announce_seconds, 5);
    assert!(text.contains("/etc/millrace/secrets/kafka-user/password"), "{text}");
    assert!(text.contains("my_logs"), "{text}");
    let all = format!("{:?}", world.server.snapshot());
    assert_eq!(all.matches("hunter2").count(), 0);
}

/// Scenario: pools with a buffer on disk: on the node's own, and on a claim of a class. Guarantee:
/// the collector's settings name a folder in a volume that is larger than the buffer, is sent
/// before the pod ends, and belongs to the pod alone; nothing else of the pod's restrictions
/// changes.
#[tokio::test]
async fn a_buffer_has_a_volume_that_holds_it() {
    for class in [None, Some("fast")] {
        let world = world();
        let mut wanted = pool();
        wanted["spec"]["buffer"] = json!({"maxBytes": "2Gi"});
        if let Some(class) = class {
            wanted["spec"]["buffer"]["storageClassName"] = class.into();
        }
        world.server.put(POOL, wanted);
        settle(&world).await;
        let settings = world.collector_settings();
        let millrace_config::CollectorMode::Edge { exporter, .. } = settings.mode else {
            panic!("no edge")
        };
        let millrace_config::EdgeExporter::Kafka(kafka) = exporter else { panic!("no Kafka") };
        let buffer = kafka.buffer.unwrap();
        assert_eq!((buffer.max_bytes.get(), buffer.drain), (2 << 30, true));
        let pod = world.server.get(DEPLOYMENT).unwrap()["spec"]["template"]["spec"].clone();
        let container = &pod["containers"][0];
        let mounts = container["volumeMounts"].as_array().unwrap();
        let mount = mounts.iter().find(|mount| mount["name"] == "buffer").unwrap();
        let folder = mount["mountPath"].as_str().unwrap();
        assert!(buffer.path.starts_with(folder) && mount.get("readOnly").is_none());
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(pod["securityContext"]["fsGroup"], 65_532);
        let volumes = pod["volumes"].as_array().unwrap();
        let volume = volumes.iter().find(|volume| volume["name"] == "buffer").unwrap();
        let requested = container["resources"]["requests"].get("ephemeral-storage");
        assert_eq!(requested, class.is_none().then_some(&json!("2304Mi")));
        if class.is_some() {
            let claim = &volume["ephemeral"]["volumeClaimTemplate"]["spec"];
            assert_eq!(claim["storageClassName"], "fast");
            assert_eq!(claim["resources"]["requests"]["storage"], "2304Mi");
        } else {
            assert_eq!(volume["emptyDir"]["sizeLimit"], "2304Mi");
        }
        world.reconcile::<EdgePools>(POOL).await.unwrap();
        assert_eq!(world.server.take_writes(), [], "a converged reconcile writes nothing");
    }
}

/// Volumes of the node in a pod.
fn host_paths(spec: &serde_json::Value) -> Vec<serde_json::Value> {
    let volumes = spec["volumes"].as_array().unwrap().iter();
    volumes.filter(|it| !it["hostPath"].is_null()).cloned().collect()
}

/// Scenario: a pool on each node reads its containers' logs. Guarantee: the collector is told so;
/// the pod sees the node's logs read-only and a directory of its pool's own, and has one right of
/// root's, to read; a try of a change has both, by which Pod Security judges it. A pool that reads
/// no files has none of it.
#[tokio::test]
async fn a_pool_that_reads_a_nodes_files_gets_them_and_no_more() {
    let world = world();
    let mut wanted = pool();
    wanted["spec"]["mode"] = "DaemonSet".into();
    wanted["spec"].as_object_mut().unwrap().remove("replicas");
    wanted["spec"]["receivers"] = json!({
        "containers": {"startAt": "End", "followAnnotations": false,
            "weights": [{"namespace": "shop", "weight": 3}], "parse": {"format": "JSON", "body": ["text"],
            "timestamp": {"fields": ["ts"], "format": "UnixMillis"}}},
        "files": [{"include": ["/var/log/a/*.log"], "encoding": "UTF-16LE",
            "multiline": {"stackTraces": "NodeJs"},
            "parse": {"format": "Regex", "pattern": "^(?P<level>[A-Z]+)"}}]});
    world.server.put(POOL, wanted);
    let daemon_set = DEPLOYMENT.replace("deployments", "daemonsets");
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let settings = world.collector_settings();
    let millrace_config::CollectorMode::Edge { sources, positions, .. } = settings.mode else {
        panic!("no edge")
    };
    assert_eq!(sources.names(), ["otlp", "containers", "files"]);
    let containers = sources.containers.unwrap();
    assert_eq!(containers.start_at, millrace_config::StartAt::End);
    let weight = millrace_config::NamespaceWeight { namespace: "shop".to_owned(), weight: 3 };
    assert_eq!((containers.follow_annotations, containers.weights), (false, vec![weight]));
    let usual = millrace_config::Parse::default();
    let timestamp = millrace_config::Timestamp {
        fields: vec!["ts".to_owned()],
        format: millrace_config::TimeFormat::UnixMillis,
        layout: None,
    };
    let expected = millrace_config::Parse {
        format: millrace_config::ParseFormat::Json,
        body: vec!["text".to_owned()],
        timestamp: Some(timestamp),
        ..usual.clone()
    };
    assert_eq!(containers.parse, expected);
    let expected = millrace_config::Parse {
        format: millrace_config::ParseFormat::Regex,
        pattern: Some("^(?P<level>[A-Z]+)".to_owned()),
        ..usual
    };
    assert_eq!(sources.files[0].parse, expected);
    assert_eq!(sources.files[0].include, ["/var/log/a/*.log"]);
    let traces = Some(millrace_config::StackTraces::NodeJs);
    let multiline = millrace_config::Multiline { stack_traces: traces, ..Default::default() };
    assert_eq!(sources.files[0].multiline, Some(multiline));
    assert_eq!(sources.files[0].encoding, millrace_config::Encoding::Utf16Le);
    let pod = world.server.get(&daemon_set).unwrap()["spec"]["template"]["spec"].clone();
    let volume = |name: &str| {
        let volumes = pod["volumes"].as_array().unwrap();
        volumes.iter().find(|volume| volume["name"] == name).unwrap()["hostPath"]["path"].clone()
    };
    assert_eq!(volume("node-logs"), "/var/log");
    assert_eq!(volume("positions"), "/var/lib/millrace/telemetry.prod-edge");
    let container = &pod["containers"][0];
    let mounts = container["volumeMounts"].as_array().unwrap();
    let mount = |name: &str| mounts.iter().find(|mount| mount["name"] == name).unwrap();
    assert_eq!(mount("node-logs")["readOnly"], true);
    assert_eq!(mount("positions")["mountPath"], positions.directory.to_str().unwrap());
    let rights = json!({"add": ["DAC_READ_SEARCH"], "drop": ["ALL"]});
    assert_eq!(container["securityContext"]["capabilities"], rights);
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    assert_eq!(pod["securityContext"]["runAsUser"], 0);
    world.server.edit(&daemon_set, |set| {
        set["status"] = json!({"observedGeneration": 1, "desiredNumberScheduled": 1,
            "currentNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": 1,
            "numberAvailable": 1, "numberMisscheduled": 0});
    });
    world.server.edit(POOL, |pool| {
        pool["spec"]["receivers"]["containers"]["startAt"] = "Beginning".into();
    });
    for _ in 0..3 {
        world.reconcile::<EdgePools>(POOL).await.unwrap();
    }
    let try_pod = world.server.paths().into_iter().find(|path| path.contains("-try-")).unwrap();
    let tried = world.server.get(&try_pod).unwrap();
    assert_eq!(host_paths(&tried["spec"]), host_paths(&pod));
    let rights = &tried["spec"]["containers"][0]["securityContext"];
    assert_eq!(*rights, container["securityContext"]);
    assert_eq!(tried["spec"]["automountServiceAccountToken"], false);
    let plain = {
        let world = self::world();
        world.reconcile::<EdgePools>(POOL).await.unwrap();
        world.server.get(DEPLOYMENT).unwrap().to_string()
    };
    assert!(!plain.contains("hostPath") && !plain.contains("DAC_READ_SEARCH"), "{plain}");
}

/// Scenario: a pool reads containers' files of nodes with cri-dockerd. Guarantee: the collector is
/// told where Docker's files are, and the pod sees that directory, where links lead, read-only.
#[tokio::test]
async fn dockers_log_files_are_mounted_where_links_lead() {
    let world = world();
    let folder = "/data/docker/containers";
    world.server.put(POOL, reading(json!({"dockerDirectory": folder})));
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let settings = world.collector_settings();
    let millrace_config::CollectorMode::Edge { sources, .. } = settings.mode else {
        panic!("no edge")
    };
    let containers = sources.containers.unwrap();
    assert_eq!(containers.docker_directory.as_deref(), Some(std::path::Path::new(folder)));
    let daemon_set = DEPLOYMENT.replace("deployments", "daemonsets");
    let pod = world.server.get(&daemon_set).unwrap()["spec"]["template"]["spec"].clone();
    let named = |list: &serde_json::Value| {
        let all = list.as_array().unwrap().iter();
        all.clone().find(|it| it["name"] == "docker-logs").unwrap().clone()
    };
    let host = json!({"path": folder, "type": "Directory"});
    assert_eq!(named(&pod["volumes"])["hostPath"], host);
    let mount = named(&pod["containers"][0]["volumeMounts"]);
    let expected = json!({"name": "docker-logs", "mountPath": folder, "readOnly": true});
    assert_eq!(mount, expected);
}

/// Scenario: a pool on each node reads its kernel's log, alone. Guarantee: the collector is told
/// so; the pod sees that device read-only, its pool's directory and its node's name; its container
/// is privileged, as nothing less opens the device, and says nothing that the API server refuses
/// beside that; a try of a change has the same, by which Pod Security judges both.
#[tokio::test]
async fn a_pool_that_reads_a_nodes_kernel_is_privileged_as_its_tries_are() {
    let world = world();
    let mut wanted = reading(json!({}));
    wanted["spec"]["receivers"] = json!({"kernel": {}});
    world.server.put(POOL, wanted);
    let daemon_set = DEPLOYMENT.replace("deployments", "daemonsets");
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let settings = world.collector_settings();
    let millrace_config::CollectorMode::Edge { sources, positions, .. } = settings.mode else {
        panic!("no edge")
    };
    assert_eq!(sources.names(), ["otlp", "kernel"]);
    let pod = world.server.get(&daemon_set).unwrap()["spec"]["template"]["spec"].clone();
    let volumes = pod["volumes"].as_array().unwrap();
    let host = |name: &str| {
        let found = volumes.iter().find(|volume| volume["name"] == name);
        found.map(|volume| volume["hostPath"].clone())
    };
    assert_eq!(host("kmsg"), Some(json!({"path": "/dev/kmsg", "type": "CharDevice"})));
    assert_eq!(host("positions").unwrap()["path"], "/var/lib/millrace/telemetry.prod-edge");
    assert_eq!(host("node-logs"), None);
    let container = &pod["containers"][0];
    let mounts = container["volumeMounts"].as_array().unwrap();
    let mount = |name: &str| mounts.iter().find(|mount| mount["name"] == name).unwrap();
    assert_eq!(mount("kmsg")["readOnly"], true);
    assert_eq!(mount("kmsg")["mountPath"], sources.kernel.unwrap().device.to_str().unwrap());
    assert_eq!(mount("positions")["mountPath"], positions.directory.to_str().unwrap());
    let rights = json!({"privileged": true, "readOnlyRootFilesystem": true});
    assert_eq!(container["securityContext"], rights);
    assert_eq!(container["env"][1]["name"], "NODE_NAME");
    assert_eq!(pod["securityContext"]["runAsUser"], 0);
    assert_eq!(pod["automountServiceAccountToken"], false);
    world.server.edit(&daemon_set, |set| {
        set["status"] = json!({"observedGeneration": 1, "desiredNumberScheduled": 1,
            "currentNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": 1,
            "numberAvailable": 1, "numberMisscheduled": 0});
    });
    world.server.edit(POOL, |pool| pool["spec"]["compression"] = "Lz4".into());
    for _ in 0..3 {
        world.reconcile::<EdgePools>(POOL).await.unwrap();
    }
    let try_pod = world.server.paths().into_iter().find(|path| path.contains("-try-")).unwrap();
    let tried = world.server.get(&try_pod).unwrap();
    assert_eq!(tried["spec"]["containers"][0]["securityContext"], rights);
    assert_eq!(tried["spec"]["containers"][0]["args"][0], "validate");
    assert_eq!(host_paths(&tried["spec"]), host_paths(&pod));
}

pub(crate) const BINDING: &str =
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/pod-access";

pub(crate) const NAMESPACES_BINDING: &str =
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/namespace-access";

/// A pool on each node that reads containers.
pub(crate) fn reading(more: serde_json::Value) -> serde_json::Value {
    let mut wanted = pool();
    wanted["spec"]["mode"] = "DaemonSet".into();
    wanted["spec"].as_object_mut().unwrap().remove("replicas");
    wanted["spec"]["receivers"] = json!({"containers": more});
    wanted
}

/// Scenario: a pool reads containers' files, with pods watched, then not; one of its predecessors in
/// the binding is gone, a person is in it too. Guarantee: its pods have a token and their node's
/// name, its account the right, and both are taken back; the collector is told what to watch; the
/// person stays, the account that is gone goes; nothing is written again.
#[tokio::test]
async fn a_pool_that_watches_pods_has_a_token_and_the_right_to_it() {
    let world = world();
    let subject = |kind: &str, name: &str| {
        json!({"kind": kind, "name": name,
        "namespace": "telemetry"})
    };
    let person = subject("User", "ann");
    world.server.put(
        BINDING,
        json!({"apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding", "metadata": {"name": "pod-access"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [person, subject("ServiceAccount", "gone-edge")]}),
    );
    world.server.put(
        POOL,
        reading(json!({"labels": ["app"], "annotations": ["a/*"],
        "namespaces": ["shop"]})),
    );
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    world.sweep_access().await.unwrap();
    let subjects = || world.server.get(BINDING).unwrap()["subjects"].clone();
    assert_eq!(subjects(), json!([person, subject("ServiceAccount", "prod-edge")]));
    let daemon_set = DEPLOYMENT.replace("deployments", "daemonsets");
    let pod = || world.server.get(&daemon_set).unwrap()["spec"]["template"]["spec"].clone();
    assert_eq!(pod()["automountServiceAccountToken"], true);
    let node = &pod()["containers"][0]["env"][1];
    assert_eq!(node["name"], "NODE_NAME");
    assert_eq!(node["valueFrom"]["fieldRef"]["fieldPath"], "spec.nodeName");
    let text = world.settings_text();
    for line in ["podMetadata: KubernetesApi", "- app", "- a/*", "- shop"] {
        assert!(text.contains(line), "{text}");
    }
    world.server.take_writes();
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert!(!world.server.take_writes().iter().any(|write| write.path == BINDING));
    world.server.put(POOL, reading(json!({"podMetadata": "FilePath"})));
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    world.sweep_access().await.unwrap();
    assert_eq!(subjects(), json!([person]));
}

/// Scenario: a pool's pods run as an account that its spec names; then somebody takes that account
/// out of the binding; then the pool runs on nodes no more. Guarantee: the right goes to the
/// account that pods run as, and not to the operator's own for the pool; it is given again within
/// five minutes; it is revoked when the mode changes.
#[tokio::test]
async fn the_right_to_watch_pods_follows_the_account_of_the_pods() {
    let world = world();
    let subject =
        |name: &str| json!({"kind": "ServiceAccount", "name": name, "namespace": "telemetry"});
    world.server.put(
        BINDING,
        json!({"apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding", "metadata": {"name": "pod-access"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}}),
    );
    let subjects = || world.server.get(BINDING).unwrap()["subjects"].clone();
    let mut named = reading(json!({}));
    named["spec"]["podTemplate"] = json!({"spec": {"serviceAccountName": "readers"}});
    world.server.put(POOL, named);
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert_eq!(subjects(), json!([subject("readers")]));

    world.server.edit(BINDING, |binding| binding["subjects"] = json!([]));
    world.pass(299);
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert_eq!(subjects(), json!([]));
    world.pass(1);
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert_eq!(subjects(), json!([subject("readers")]));

    world.server.put(POOL, reading(json!({})));
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    // The change has reached all pods.
    world.server.edit(&DEPLOYMENT.replace("deployments", "daemonsets"), |set| {
        set["spec"]["template"]["spec"]["serviceAccountName"] = "prod-edge".into();
        let annotations = set["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove("millrace.dev/rollout-baseline");
    });
    world.sweep_access().await.unwrap();
    assert_eq!(subjects(), json!([subject("prod-edge")]));
    world.server.put(POOL, pool());
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    world.sweep_access().await.unwrap();
    assert_eq!(subjects(), json!([]));
}

/// Scenario: a pool reads the containers of namespaces with labels, then of named ones. Guarantee: its
/// account may watch namespaces only meanwhile.
#[tokio::test]
async fn a_pool_that_chooses_namespaces_by_labels_has_the_right_to_watch_them() {
    let world = world();
    for binding in [BINDING, NAMESPACES_BINDING] {
        let name = binding.rsplit('/').next().unwrap();
        world.server.put(
            binding,
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name}, "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}}),
        );
    }
    let account = json!({"kind": "ServiceAccount", "name": "prod-edge", "namespace": "telemetry"});
    let of = |binding: &str| world.server.get(binding).unwrap()["subjects"].clone();
    let expression = json!({"key": "quiet", "operator": "DoesNotExist"});
    let selector = json!({"matchLabels": {"team": "shop"}, "matchExpressions": [expression]});
    for (receiver, subjects) in [
        (json!({"namespaceSelector": selector}), json!([account])),
        (json!({"namespaces": ["shop"]}), json!([])),
    ] {
        world.server.put(POOL, reading(receiver));
        world.reconcile::<EdgePools>(POOL).await.unwrap();
        world.sweep_access().await.unwrap();
        assert_eq!((of(BINDING), of(NAMESPACES_BINDING)), (json!([account]), subjects));
    }
}

/// Scenario: a pool reads the containers of all namespaces, then of those with labels. Guarantee: its
/// account may not watch namespaces at first, and the collector is told the selector then.
#[tokio::test]
async fn a_selector_of_namespaces_reaches_the_collector() {
    for (receiver, lines) in [
        (json!({}), [false; 3]),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "shop"}, "matchExpressions": [
                {"key": "quiet", "operator": "DoesNotExist"}]}}),
            [true; 3],
        ),
    ] {
        let world = world();
        world.server.put(
            NAMESPACES_BINDING,
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "namespace-access"}, "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}}),
        );
        world.server.put(POOL, reading(receiver));
        world.reconcile::<EdgePools>(POOL).await.unwrap();
        let subjects = world.server.get(NAMESPACES_BINDING).unwrap()["subjects"].clone();
        assert_eq!(subjects.is_array(), lines[0]);
        let text = world.settings_text();
        let wanted = ["namespaceSelector:", "team: shop", "- key: quiet"];
        assert_eq!(wanted.map(|line| text.contains(line)), lines, "{text}");
    }
}

/// Scenario: labels that are none. Guarantee: the pool is refused, with the field.
#[tokio::test]
async fn a_selector_of_what_is_no_label_is_refused() {
    let world = world();
    let selector = json!({"matchLabels": {"a,b": "c"}});
    world.server.put(POOL, reading(json!({"namespaceSelector": selector})));
    world.reconcile::<EdgePools>(POOL).await.unwrap_err();
    let status = world.server.get(POOL).unwrap()["status"].to_string();
    assert!(status.contains("namespaceSelector.matchLabels.a,b: not a valid label"), "{status}");
}

/// Scenario: the binding isn't there, or the operator may not read it. Guarantee: the pool is made
/// all the same.
#[tokio::test]
async fn a_pool_without_the_right_to_watch_pods_is_made_all_the_same() {
    for refused in [None, Some(403)] {
        let world = world();
        world.server.put(POOL, reading(json!({})));
        let fault = move |_: &http::Method, path: &str| refused.filter(|_| path == BINDING);
        world.server.set_fault(Some(Box::new(fault)));
        world.reconcile::<EdgePools>(POOL).await.unwrap();
        assert!(world.server.get(&DEPLOYMENT.replace("deployments", "daemonsets")).is_some());
    }
}

/// Scenario: a settled pool is looked at again, also much later. Guarantee: nothing is written and
/// no event is published.
#[tokio::test]
async fn a_converged_reconcile_writes_nothing() {
    let world = world();
    settle(&world).await;
    for _ in 0..3 {
        world.pass(600);
        world.reconcile::<EdgePools>(POOL).await.unwrap();
    }
    assert_eq!(world.server.take_writes(), []);
    assert_eq!(world.server.take_event_reasons(), Vec::<String>::new());
}

/// Scenario: each owned object is deleted by hand. Guarantee: it is back after one reconcile, the
/// same as before, and nothing else is written but it (and the status while pods come up).
#[tokio::test]
async fn each_deleted_child_comes_back() {
    let world = world();
    settle(&world).await;
    let children: Vec<String> =
        world.server.paths().into_iter().filter(|path| path != POOL && path != USER).collect();
    assert_eq!(children.len(), 6, "{children:?}");
    for child in children {
        let before = world.server.get(&child).unwrap()["spec"].clone();
        world.server.delete(&child);
        world.reconcile::<EdgePools>(POOL).await.unwrap();
        let after = world.server.get(&child).unwrap_or_else(|| panic!("{child} is not back"));
        assert_eq!(after["spec"], before);
        let status = format!("{POOL}/status");
        let others: Vec<Write> = world.server.take_writes();
        assert!(others.iter().all(|write| write.path == child || write.path == status));
        settle(&world).await;
    }
}

/// Scenario: a user edits fields of owned objects. Guarantee: put back in one reconcile, told by a
/// warning that names the field; fields the operator does not manage stay.
#[tokio::test]
async fn an_edit_by_hand_is_put_back_and_told() {
    let world = world();
    settle(&world).await;
    world.server.edit(DEPLOYMENT, |live| {
        live["spec"]["template"]["spec"]["containers"][0]["image"] = "evil:1".into();
        live["metadata"]["annotations"]["theirs"] = "kept".into();
    });
    world.server.edit(SERVICE, |live| {
        live["metadata"]["labels"]["app.kubernetes.io/component"] = "nothing".into();
    });
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let live = world.server.get(DEPLOYMENT).unwrap();
    let image = &live["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "millrace/collector:0.1.0-system");
    assert_eq!(live["metadata"]["annotations"]["theirs"], "kept");
    let service = world.server.get(SERVICE).unwrap();
    assert_eq!(service["metadata"]["labels"]["app.kubernetes.io/component"], "edge");
    assert!(world.server.take_event_reasons().contains(&"DriftRepaired".to_owned()));
}

/// Scenario: the Secret of a pool stays missing, then exists. Guarantee: each reconcile until then is
/// a failure, which the controller retries less and less often; the category says that a change of
/// something else may end it. An invalid spec waits for a change of the spec.
#[tokio::test]
async fn a_pool_that_stays_invalid_fails_until_it_is_repaired() {
    let world = world();
    world.server.delete(USER);
    for _ in 0..3 {
        let failed = world.reconcile::<EdgePools>(POOL).await.unwrap_err();
        assert_eq!((failed.reason, failed.category), (Reason::SecretMissing, Category::External));
        assert!(failed.is_reported());
    }
    world.server.put(USER, secret("hunter2"));
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    world.server.edit(POOL, |pool| {
        pool["spec"]["resources"] = json!({"limits": {"memory": "1Mi"}});
    });
    let failed = world.reconcile::<EdgePools>(POOL).await.unwrap_err();
    assert_eq!((failed.reason, failed.category), (Reason::SpecInvalid, Category::Invalid));
}

/// Scenario: the Secret is missing, then lacks a key, then is complete. Guarantee: a condition and
/// one event with the stable reason, no pods in vain; all is well once it is complete.
#[tokio::test]
async fn a_missing_secret_is_told_and_waited_for() {
    let world = world();
    world.server.delete(USER);
    world.reconcile::<EdgePools>(POOL).await.unwrap_err();
    world.reconcile::<EdgePools>(POOL).await.unwrap_err();
    let (status, reason, _) = world.condition(POOL, "SecretsFound").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "SecretMissing"));
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "SecretMissing");
    assert_eq!(world.server.take_event_reasons(), ["SecretMissing"]);
    assert!(world.server.get(DEPLOYMENT).is_none());
    let mut partial = secret("x");
    partial["data"].as_object_mut().unwrap().remove("password");
    world.server.put(USER, partial);
    world.reconcile::<EdgePools>(POOL).await.unwrap_err();
    assert_eq!(world.condition(POOL, "SecretsFound").unwrap().1, "SecretKeyMissing");
    world.server.put(USER, secret("hunter2"));
    settle(&world).await;
    assert!(world.is_ready(POOL));
}

/// Scenario: a password is rotated. Guarantee: the pod template changes, so pods roll; a change of
/// a key nobody uses changes nothing.
#[tokio::test]
async fn a_changed_secret_rolls_the_pods_and_an_unused_key_does_not() {
    let world = world();
    settle(&world).await;
    let template =
        |world: &World| world.server.get(DEPLOYMENT).unwrap()["spec"]["template"].clone();
    let before = template(&world);
    world.server.edit(USER, |secret| secret["data"]["other"] = "eA==".into());
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert_eq!(template(&world), before);
    world.server.put(USER, secret("hunter3"));
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert_ne!(template(&world), before);
    assert!(!world.is_ready(POOL));
}

/// Scenario: the configuration changes. Guarantee: a new ConfigMap beside the old one, which stays
/// until the rollout is complete and is then removed.
#[tokio::test]
async fn an_old_configuration_stays_until_no_pod_needs_it() {
    let world = world();
    settle(&world).await;
    let maps = |world: &World| {
        world.server.paths().into_iter().filter(|path| path.contains("/configmaps/")).count()
    };
    world.server.edit(POOL, |pool| pool["spec"]["signals"]["metrics"] = json!({}));
    for _ in 0..3 {
        world.reconcile::<EdgePools>(POOL).await.unwrap();
        world.finish_tries();
        assert_eq!(maps(&world), 2);
    }
    world.finish_rollouts();
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert_eq!(maps(&world), 1);
    assert!(world.is_ready(POOL));
}

/// Scenario: the pool becomes a DaemonSet, which finds no node, then two. Guarantee: the Deployment
/// serves until the new pods are up, then it goes, and its budget with it.
#[tokio::test]
async fn a_changed_mode_leaves_no_second_workload_and_no_gap() {
    let world = world();
    settle(&world).await;
    world.server.edit(POOL, |pool| {
        pool["spec"]["mode"] = "DaemonSet".into();
        pool["spec"].as_object_mut().unwrap().remove("replicas");
    });
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert!(world.server.get(DEPLOYMENT).is_some());
    assert!(!world.is_ready(POOL));
    let daemon_set = DEPLOYMENT.replace("deployments", "daemonsets");
    for nodes in [0, 2] {
        world.server.edit(&daemon_set, |set| {
            set["status"] = json!({"observedGeneration": 1, "desiredNumberScheduled": nodes,
                "currentNumberScheduled": nodes, "updatedNumberScheduled": nodes,
                "numberReady": nodes, "numberAvailable": nodes, "numberMisscheduled": 0});
        });
        world.reconcile::<EdgePools>(POOL).await.unwrap();
        assert_eq!(world.server.get(DEPLOYMENT).is_some(), nodes == 0);
    }
    assert!(world.is_ready(POOL));
    assert!(!world.server.paths().iter().any(|path| path.contains("poddisruptionbudgets")));
}

/// Scenario: an object of a child's name exists and is someone else's. Guarantee: it is left alone
/// and the condition says so.
#[tokio::test]
async fn an_object_made_by_hand_is_never_taken_over() {
    let world = world();
    let theirs =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": {"ports": []}});
    world.server.put(SERVICE, theirs);
    let before = world.server.get(SERVICE).unwrap();
    let error = world.reconcile::<EdgePools>(POOL).await.unwrap_err();
    assert_eq!(error.reason.as_str(), "OwnedByAnother");
    assert_eq!(world.server.get(SERVICE).unwrap(), before);
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "OwnedByAnother");
}

/// Scenario: a pool is made anew under its name while its objects remain: orphaned, as by
/// `kubectl delete --cascade=orphan`, or with the earlier uid, as from a backup; in a third case one
/// of them has other labels, in a fourth another owner. Guarantee: objects with the pool's labels are
/// adopted without being made anew; the others are refused.
#[tokio::test]
async fn objects_of_an_earlier_pool_of_the_name_are_adopted_by_their_labels() {
    let orphaned = |service: &mut serde_json::Value| {
        service["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    };
    let relabeled = |service: &mut serde_json::Value| {
        service["metadata"]["ownerReferences"] = json!([]);
        service["metadata"]["labels"]["app.kubernetes.io/instance"] = "other".into();
    };
    let theirs = |service: &mut serde_json::Value| {
        service["metadata"]["ownerReferences"][0]["name"] = "other".into();
    };
    let unchanged = |_: &mut serde_json::Value| {};
    type Edit = fn(&mut serde_json::Value);
    let edits: [Edit; 4] = [orphaned, unchanged, relabeled, theirs];
    for (change, is_adopted) in edits.into_iter().zip([true, true, false, false]) {
        let world = world();
        settle(&world).await;
        world.server.edit(SERVICE, change);
        let before = world.server.get(SERVICE).unwrap();
        world.server.delete(POOL);
        world.server.put(POOL, pool());
        let uid = world.server.get(POOL).unwrap()["metadata"]["uid"].clone();
        let outcome = world.reconcile::<EdgePools>(POOL).await;
        let after = world.server.get(SERVICE).unwrap();
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
        if !is_adopted {
            assert_eq!(outcome.unwrap_err().reason.as_str(), "OwnedByAnother");
            assert_eq!(after, before);
            continue;
        }
        outcome.unwrap();
        for path in [SERVICE, DEPLOYMENT] {
            let owners = &world.server.get(path).unwrap()["metadata"]["ownerReferences"];
            assert_eq!(owners.as_array().unwrap().len(), 1, "{path}: {owners}");
            assert_eq!(owners[0]["uid"], uid, "{path}");
        }
    }
}

/// Scenario: a paused pool is changed. Guarantee: only its status is written, and it is not Ready;
/// once resumed the change goes out.
#[tokio::test]
async fn a_paused_pool_writes_only_its_status() {
    let world = world();
    settle(&world).await;
    world.server.edit(POOL, |pool| {
        pool["spec"]["paused"] = true.into();
        pool["spec"]["replicas"] = 5.into();
    });
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let writes = world.server.take_writes();
    assert!(writes.iter().all(|write| write.path == format!("{POOL}/status")), "{writes:?}");
    assert_eq!(world.server.get(DEPLOYMENT).unwrap()["spec"]["replicas"], 3);
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "PausedBySpec");
    world.server.edit(POOL, |pool| pool["spec"]["paused"] = false.into());
    settle(&world).await;
    assert_eq!(world.server.get(DEPLOYMENT).unwrap()["spec"]["replicas"], 5);
    assert!(world.is_ready(POOL));
}

/// Scenario: a pool whose name leaves no room. Guarantee: a condition that says how long it may be;
/// nothing is made, nothing is retried in vain.
#[tokio::test]
async fn a_name_that_is_too_long_is_told() {
    let world = World::new();
    let path = POOL.replace("prod", &"p".repeat(60));
    world.server.put(&path, pool());
    world.reconcile::<EdgePools>(&path).await.unwrap_err();
    assert_eq!(world.condition(&path, "Ready").unwrap().1, "SpecInvalid");
    assert_eq!(world.condition(&path, "Stalled").unwrap().0, "True");
    assert_eq!(world.server.paths(), [path]);
}

/// Scenario: an object that does not parse, and one being deleted. Guarantee: the first is told by
/// an event and left alone, the second gets no new children.
#[tokio::test]
async fn broken_and_leaving_objects_are_left_alone() {
    let world = world();
    world.server.edit(POOL, |pool| pool["spec"]["replicas"] = "many".into());
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert_eq!(world.server.take_event_reasons(), ["Unparsable"]);
    world.server.put(POOL, pool());
    world.server.edit(POOL, |pool| {
        pool["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    });
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert_eq!(world.server.take_writes(), []);
}

/// Scenario: the operator dies, or the API server fails, before and after each single write.
/// Guarantee: whatever was cut off, further reconciles end in the same state as the quiet run.
#[tokio::test]
async fn every_crash_point_ends_in_the_same_state() {
    let quiet = world();
    settle(&quiet).await;
    let wanted = quiet.server.snapshot();
    for code in [409, 500, 429] {
        for cut in 0..8 {
            let world = world();
            let mut seen = 0;
            world.server.set_fault(Some(Box::new(move |method, path| {
                if method == http::Method::GET || path.contains("/events") {
                    return None;
                }
                seen += 1;
                (seen == cut + 1).then_some(code)
            })));
            let _ = world.reconcile::<EdgePools>(POOL).await;
            world.server.set_fault(None);
            settle(&world).await;
            assert_eq!(
                world.server.snapshot().keys().collect::<Vec<_>>(),
                wanted.keys().collect::<Vec<_>>()
            );
            for (path, value) in world.server.snapshot() {
                if path != POOL {
                    let owner_free = |mut value: serde_json::Value| {
                        value["metadata"].as_object_mut().unwrap().remove("ownerReferences");
                        value
                    };
                    assert_eq!(owner_free(value), owner_free(wanted[&path].clone()), "{path}");
                }
            }
            assert!(world.is_ready(POOL), "code {code}, cut {cut}");
        }
    }
}

/// Scenario: pools of each allocator, with room and with little. Guarantee: records have half of the
/// limit, with `mimalloc` less than a third of it and room for the longest requests; a limit that
/// can't hold them is refused with one that can.
#[tokio::test]
async fn what_records_may_take_goes_by_the_allocator() {
    for (allocator, limit, percent) in [
        ("System", "1Gi", Some(50)),
        ("jemalloc", "1Gi", Some(50)),
        ("mimalloc", "1Gi", Some(30)),
        ("mimalloc", "128Mi", Some(32)),
        ("mimalloc", "96Mi", None),
        ("System", "96Mi", Some(50)),
    ] {
        let world = World::new();
        world.server.put(USER, secret("hunter2"));
        let mut pool = pool();
        pool["spec"]["collector"] = json!({"allocator": allocator});
        pool["spec"]["resources"] = json!({"limits": {"memory": limit}});
        world.server.put(POOL, pool);
        let outcome = world.reconcile::<EdgePools>(POOL).await;
        assert_eq!(outcome.is_ok(), percent.is_some(), "{allocator} {limit}");
        match percent {
            Some(percent) => {
                let settings = world.collector_settings();
                assert_eq!(settings.memory.budget_percent, percent, "{allocator} {limit}");
            }
            None => assert_eq!(world.condition(POOL, "Ready").unwrap().1, "SpecInvalid"),
        }
    }
}

/// Scenario: a pool with another spec, whose workload the API server refuses: once by 429, then for
/// good by 422. Guarantee: after the first nothing is false and nothing is stuck; after the second
/// it is stalled.
#[tokio::test]
async fn a_blip_is_told_from_a_permanent_refusal() {
    let world = world();
    settle(&world).await;
    let says = |type_: &str| world.condition(POOL, type_).unwrap().0;
    for (code, pods, stalled) in [(429, "Unknown", "False"), (422, "False", "True")] {
        world.server.set_fault(Some(Box::new(move |method, path| {
            let writes = *method == http::Method::PATCH || *method == http::Method::POST;
            (writes && path.contains("/telemetry/services/")).then_some(code)
        })));
        let port = if code == 429 { "a" } else { "b" };
        world.server.edit(SERVICE, |it| it["spec"]["ports"][0]["name"] = port.into());
        world.reconcile::<EdgePools>(POOL).await.unwrap_err();
        let told = [says("PodsReady"), says("Ready"), says("Stalled")];
        assert_eq!(told, [pods, pods, stalled], "{code}");
    }
}

/// Scenario: a cluster that assigns user and group ids itself. Guarantee: pods name none, and still
/// may not run as root.
#[tokio::test]
async fn pods_name_no_user_where_the_cluster_assigns_them() {
    let mut world = world();
    let user = |world: &World| {
        let pod = world.server.get(DEPLOYMENT).unwrap()["spec"]["template"]["spec"].clone();
        pod["securityContext"].clone()
    };
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert_eq!(user(&world)["runAsUser"], 65_532);
    world.server.delete(DEPLOYMENT);
    world.restart("0.1.0");
    std::sync::Arc::get_mut(&mut world.context).unwrap().images.user = None;
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    for id in ["runAsUser", "runAsGroup", "fsGroup"] {
        assert!(user(&world)[id].is_null(), "{id}");
    }
    assert_eq!(user(&world)["runAsNonRoot"], true);
}

/// Scenario: a pool declares limits, its producer and further settings; then requests that are too
/// long for its memory. Guarantee: the collector gets them; the second is refused with a sufficient
/// limit.
#[tokio::test]
async fn limits_and_further_settings_reach_the_collector() {
    let world = world();
    world.server.edit(POOL, |pool| {
        pool["spec"]["receivers"]["otlp"]["limits"] =
            json!({"grpcMessageBytes": "16Mi", "requestSeconds": 60});
        pool["spec"]["producer"] = json!({"lingerMillis": 0, "deliveryTimeoutSeconds": 50});
        pool["spec"]["config"] = json!({"receivers": {"otlp": {"limits": {"idleSeconds": 300}}}});
    });
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    world.collector_settings();
    let text = world.settings_text();
    for line in [
        "grpcMessageBytes: 16Mi",
        "requestSeconds: 60",
        "lingerMillis: 0",
        "deliveryTimeoutSeconds: 50",
        "idleSeconds: 300",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    world.server.edit(POOL, |pool| {
        pool["spec"]["receivers"]["otlp"]["limits"] = json!({"httpBodyBytes": "128Mi"});
        pool["spec"]["resources"] = json!({"limits": {"memory": "256Mi"}});
    });
    world.reconcile::<EdgePools>(POOL).await.unwrap_err();
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "SpecInvalid");
    let message = world.message(POOL, "Ready");
    assert!(message.contains("write 513Mi or more"), "{message}");
}

/// Scenario: a pool declares resource attributes, one with a quote. Guarantee: the collector gets
/// rules that it accepts; without attributes it gets none.
#[tokio::test]
async fn resource_attributes_become_rules() {
    let world = world();
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    assert!(!world.settings_text().contains("processing"));
    let world = self::world();
    world.server.edit(POOL, |pool| {
        pool["spec"]["resourceAttributes"] = json!({"k8s.cluster.name": "prod", "q": "a\"b"});
    });
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    world.collector_settings();
    let text = world.settings_text();
    assert!(text.contains("k8s.cluster.name"), "{text}");
    assert!(text.contains("== nil"), "{text}");
}
