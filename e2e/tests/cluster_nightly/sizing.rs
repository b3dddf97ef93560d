//! Sizing on a real cluster under load: a gateway pool grows before its lag bound is broken and
//! shrinks after, the memory of its pods grows in place, and no acknowledged span is missing.
//!
//! Gateways get a thirtieth of a core, so that a load which one machine carries easily is too much
//! for one of them, and so little memory that the load comes near its limit.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use millrace_e2e::cluster::{Cluster, condition_of};
use millrace_e2e::loadgen::Load;
use millrace_e2e::pipeline::{NAME, Pipeline, Wish};
use millrace_e2e::wait;
use millrace_stack::Stack;
use serde_json::{Value, json};

/// What flows all the time, in spans a second: a fourth or fifth of what one gateway does.
const CALM_RATE: u64 = 5_000;
/// What comes on top for a while: together more than one gateway does with its reserve (27,000 to
/// 30,000 were measured with all of it used), and less than two do.
const RISE_RATE: u64 = 22_000;
/// Of the calm load, more than all of the test takes: it is ended as soon as the pool has shrunk.
const CALM_SPANS: u64 = CALM_RATE * 600;
/// Of the rise, more than the growth may take: it is ended as soon as the pool has grown.
const RISE_SPANS: u64 = RISE_RATE * (GROWTH_LIMIT.as_secs() + 30);
/// Memory limit at the start: an idle gateway uses half of it, one at work nine tenths.
const MEMORY_START: &str = "30Mi";
const MEMORY_START_MIB: u64 = 30;
/// Where one gateway falls behind, the bound is in danger and the pool grows at the next look but
/// one. On a machine where it just keeps up, there is too little in reserve: then the policy's window
/// of two minutes comes first. Half a minute each for the look before it and the pod after it, and
/// as much again for a busy machine.
const GROWTH_LIMIT: Duration = Duration::from_secs(120 + 2 * 30 + 60);
/// The load has to fade from the means (half a minute), to leave the minute it was counted in, and
/// the smaller size to suffice for half of the window.
const SHRINK_LIMIT: Duration = Duration::from_secs(240);
/// For a load to be sent, stored and looked up.
const LIMIT: Duration = Duration::from_secs(300);

fn gateway() -> Value {
    json!({
        "scaling": {
            "minReplicas": 1, "maxReplicas": 2, "lagBoundSeconds": 60, "catchUpSeconds": 60,
            "shrinkAfterSeconds": 30, "maxResources": {"memory": "256Mi"},
        },
        "resources": {
            "requests": {"memory": MEMORY_START, "cpu": "30m"},
            "limits": {"memory": MEMORY_START, "cpu": "30m"},
        },
    })
}

/// The pool as one look shows it.
struct Look {
    pool: Value,
    set: Value,
    first: Value,
}

impl Look {
    fn at(cluster: &Cluster, pipeline: &Pipeline<'_>) -> Result<Self> {
        let namespace = &pipeline.namespace.name;
        Ok(Self {
            pool: cluster.get(namespace, "gatewaypool", NAME)?,
            set: cluster.get(namespace, "statefulset", "p-gateway")?,
            first: cluster.get(namespace, "pod", "p-gateway-0")?,
        })
    }

    fn sizing(&self) -> &Value {
        &self.pool["status"]["sizing"]
    }

    /// The memory limit in force of the first gateway, in MiB; zero while the node does not tell.
    fn memory_mib(&self) -> u64 {
        let container = &self.first["status"]["containerStatuses"][0];
        let limit = container["resources"]["limits"]["memory"].as_str();
        let mebibytes = limit.and_then(|limit| limit.strip_suffix("Mi"));
        mebibytes.and_then(|it| it.parse().ok()).unwrap_or(0)
    }

    /// The first gateway is the same process of the same pod as at `before`.
    fn is_untouched_since(&self, before: &Self) -> Result<()> {
        let of = |look: &Self| {
            let container = &look.first["status"]["containerStatuses"][0];
            let id = container["containerID"].clone();
            (look.first["metadata"]["uid"].clone(), id, container["restartCount"].clone())
        };
        ensure!(of(self) == of(before), "gateway 0 was {:?}, is {:?}", of(before), of(self));
        ensure!(of(self).2 == 0, "gateway 0 restarted");
        Ok(())
    }

    /// The lag's bound was kept, as far as the newest look at it goes.
    fn is_within_bound(&self) -> Result<()> {
        let lag = condition_of(&self.pool, "LagWithinBound");
        ensure!(lag["reason"] != "LagAboveBound", "the bound was broken: {}", self.sizing());
        Ok(())
    }

    /// So many gateways are wanted, made and ready.
    fn has(&self, gateways: u64) -> bool {
        let status = &self.set["status"];
        self.sizing()["replicas"] == gateways
            && self.set["spec"]["replicas"] == gateways
            && status["replicas"] == gateways
            && status["readyReplicas"] == gateways
    }
}

fn load(pipeline: &Pipeline<'_>, stack: &Stack, seed: u64, count: u64, rate: u64) -> Load {
    pipeline.load(stack, seed, count, Some(rate)).unwrap()
}

/// Scenario: one gateway under a calm load; the load rises to more than it does, for a while, and
/// falls back. Guarantee: a second gateway comes before the lag's bound is broken and goes after;
/// the first one's memory limit is raised in the running container; it is never restarted or
/// replaced; all of both loads is stored once.
#[test]
fn a_pool_under_rising_load_grows_in_time_and_shrinks_after_without_loss() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let wish = Wish { gateway: Some(gateway()), ..Wish::usual(&stack) };
    let pipeline = Pipeline::apply(&stack, &cluster, "sizing", wish).unwrap();
    pipeline.ready().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let look = || Look::at(&cluster, &pipeline);
    let begin = look().unwrap();
    assert!(begin.has(1), "{}", begin.sizing());

    let calm = load(&pipeline, &stack, 71, CALM_SPANS, CALM_RATE);
    let calm = calm.start(folder.path()).unwrap();
    wait::until("a gateway's capacity to be known", LIMIT, || {
        let now = look()?;
        now.is_untouched_since(&begin)?;
        ensure!(now.sizing()["capacities"][0].is_object(), "{}", now.sizing());
        Ok(())
    })
    .unwrap();

    let (rose, folder) = (Instant::now(), folder.path());
    let rise = load(&pipeline, &stack, 72, RISE_SPANS, RISE_RATE).start(folder).unwrap();
    let mut broken = None;
    wait::until("a second gateway and more memory", GROWTH_LIMIT, || {
        let now = look()?;
        now.is_untouched_since(&begin)?;
        broken = broken.take().or(now.is_within_bound().err());
        let (both, memory) = (now.has(2), now.memory_mib());
        ensure!(both && memory > MEMORY_START_MIB, "{memory} MiB, {}", now.sizing());
        Ok(())
    })
    .unwrap();
    assert!(broken.is_none(), "{broken:?}");
    println!("grown {} s after the load rose", rose.elapsed().as_secs());
    rise.stop_sending().unwrap();
    let verdict = rise.verdict(LIMIT).unwrap();
    assert_eq!((verdict.missing, verdict.altered), (0, 0), "{}", verdict.line);
    assert_eq!(verdict.duplicated, 0, "{}", verdict.line);

    let fell = Instant::now();
    wait::until("one gateway to be enough again", SHRINK_LIMIT, || {
        let now = look()?;
        now.is_untouched_since(&begin)?;
        ensure!(now.has(1), "{}", now.sizing());
        Ok(())
    })
    .unwrap();
    println!("shrunk {} s after the load fell", fell.elapsed().as_secs());
    calm.stop_sending().unwrap();
    let verdict = calm.verdict(LIMIT).unwrap();
    assert_eq!((verdict.missing, verdict.altered), (0, 0), "{}", verdict.line);
    assert_eq!(verdict.duplicated, 0, "{}", verdict.line);
    look().unwrap().is_untouched_since(&begin).unwrap();
    pipeline.ready().unwrap();
}
