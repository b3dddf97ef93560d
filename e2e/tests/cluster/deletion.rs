//! A deleted pipeline on a real cluster: its children go in order, and its data with it only where it
//! says so.

use std::time::Duration;

use anyhow::{anyhow, ensure};
use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{EDGE, NAME, OURS, Pipeline, Wish};
use millrace_e2e::wait;
use millrace_stack::Stack;
use serde_json::Value;

/// Scenario: a pipeline that says Delete, with rows, is deleted. Guarantee: its children go, the
/// gateway pool not before the edges' pods have ended, and its tables with them; applied again it is
/// Ready, with no row.
#[test]
fn a_deleted_pipeline_takes_its_data_along_if_it_says_so() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let wish = Wish { deletion_policy: "Delete", ..Wish::usual(&stack) };
    let mut pipeline = Pipeline::apply(&stack, &cluster, "delete", wish).unwrap();
    pipeline.ready().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let load = pipeline.load(&stack, 32, 20_000, None).unwrap();
    let verdict = load.run(folder.path(), Duration::from_secs(120)).unwrap();
    assert_eq!((verdict.stored, verdict.missing), (20_000, 0), "{}", verdict.line);
    let namespace = pipeline.namespace.name.clone();
    cluster
        .kubectl(&["-n", &namespace, "delete", "--wait=false", "telemetrypipeline", NAME])
        .unwrap();
    wait::until("the children to go", Duration::from_secs(180), || {
        let gateway = cluster.get(&namespace, "gatewaypool", NAME);
        if gateway.is_err()
            || gateway.is_ok_and(|it| it["metadata"]["deletionTimestamp"].is_string())
        {
            assert_eq!(cluster.edge_pods(&namespace, EDGE).unwrap().len(), 0);
        }
        let left: Vec<String> = pipeline.owned().unwrap().into_keys().collect();
        if left.is_empty() { Ok(()) } else { Err(anyhow!("{left:?}")) }
    })
    .unwrap();
    let tables = "SELECT count() FROM system.tables WHERE database = 'DATABASE'";
    assert_eq!(pipeline.query(&stack, tables).unwrap().trim(), "0");
    pipeline.change(|_| {}).unwrap();
    pipeline.ready().unwrap();
    assert_eq!(pipeline.rows(&stack).unwrap(), 0);
}

/// Scenario: a pipeline with rows is deleted, then applied again. Guarantee: its children go, its
/// topic and tables stay (deletion retains unless asked otherwise), and the new one finds the rows.
#[test]
fn a_deleted_pipeline_leaves_topics_and_tables() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let mut pipeline = Pipeline::apply(&stack, &cluster, "retain", Wish::usual(&stack)).unwrap();
    pipeline.ready().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let load = pipeline.load(&stack, 31, 20_000, None).unwrap();
    let verdict = load.run(folder.path(), Duration::from_secs(120)).unwrap();
    assert_eq!((verdict.stored, verdict.missing), (20_000, 0), "{}", verdict.line);
    let namespace = pipeline.namespace.name.clone();
    cluster.kubectl(&["-n", &namespace, "delete", "telemetrypipeline", NAME]).unwrap();
    wait::until("the children to go", Duration::from_secs(60), || {
        let left: Vec<String> = pipeline.owned().unwrap().into_keys().collect();
        if left.is_empty() { Ok(()) } else { Err(anyhow!("{left:?}")) }
    })
    .unwrap();
    assert_eq!(pipeline.rows(&stack).unwrap(), 20_000);
    pipeline.change(|_| {}).unwrap();
    pipeline.ready().unwrap();
    assert_eq!(pipeline.rows(&stack).unwrap(), 20_000);
    cluster.kubectl(&["delete", "namespace", &namespace, "--timeout=90s"]).unwrap();
}

/// Scenario: the pools of a pipeline are deleted without what they own, which only an administrator
/// does; the operator writes them again. Guarantee: the new pools adopt each object of the earlier
/// ones, under an admission that allows it only to whoever may delete them, and the pipeline is
/// Ready. Pods are replaced: hashes of Secrets differ between pools.
#[test]
fn pools_that_are_written_again_adopt_their_objects() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let pipeline = Pipeline::apply(&stack, &cluster, "adopted", Wish::usual(&stack)).unwrap();
    pipeline.ready().unwrap();
    let namespace = pipeline.namespace.name.as_str();
    let pools = [("edgepool", EDGE), ("gatewaypool", NAME)];
    let uids = || -> anyhow::Result<Vec<Value>> {
        let uid = |(kind, name)| Ok(cluster.get(namespace, kind, name)?["metadata"]["uid"].clone());
        pools.into_iter().map(uid).collect()
    };
    let objects = || {
        let kinds = "serviceaccounts,services,deployments,statefulsets,poddisruptionbudgets,\
                     networkpolicies";
        cluster.list(namespace, kinds, OURS)
    };
    let uids_of = |objects: &[Value]| -> Vec<Value> {
        objects.iter().map(|object| object["metadata"]["uid"].clone()).collect()
    };
    let (earlier, before) = (uids().unwrap(), uids_of(&objects().unwrap()));
    for (kind, name) in pools {
        cluster
            .kubectl(&["-n", namespace, "delete", kind, name, "--cascade=orphan", "--wait=false"])
            .unwrap();
    }
    wait::until("the new pools to own all objects", Duration::from_secs(60), || {
        let now = uids()?;
        ensure!(now.iter().all(|uid| !earlier.contains(uid)), "the pools are the earlier ones");
        let objects = objects()?;
        ensure!(uids_of(&objects) == before, "other objects");
        for object in objects {
            let owner = &object["metadata"]["ownerReferences"][0]["uid"];
            ensure!(now.contains(owner), "{} {}", object["kind"], object["metadata"]);
        }
        Ok(())
    })
    .unwrap();
    pipeline.ready().unwrap();
}
