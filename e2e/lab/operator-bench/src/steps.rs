//! The steps, in order; each gives its figures as one line.

mod gateways;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

use crate::board::Board;
use crate::figures::{histogram_ms, percentile_ms};
use crate::operator::{Metrics, NAMESPACE, Operator, sum};
use crate::say;
use crate::settings::{ApiServer, PoolKind, Settings};
use crate::standin::StandIn;

/// Requests of the bench at once.
const IN_FLIGHT: usize = 16;
/// Processor time that a pool asks for before it is changed: the default.
const CPU_MILLICORES: usize = 250;
/// How often something that is waited for is asked.
const POLL: Duration = Duration::from_millis(25);
/// A drift that takes longer to be put right is called lost.
const REPAIR_MAX: Duration = Duration::from_secs(60);
/// The lease of operators that are not to be taken over: an API server that shares its processors
/// with the bench may take seconds to renew one.
const LEASE_SECONDS: u32 = 30;
/// A standby that does nothing for this long has listed what there is.
const IDLE_FOR: Duration = Duration::from_secs(2);

/// The cluster as the bench uses it.
struct World {
    settings: Settings,
    standin: Option<StandIn>,
    client: Client,
    pools: Api<DynamicObject>,
    board: Board,
}

/// Runs all steps; removes the namespace at the end unless asked to keep it.
///
/// # Errors
/// The first step that could not be done.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let (standin, client) = match settings.api {
        ApiServer::Real => {
            (None, Client::try_default().await.context("no cluster; run `cargo xtask up`")?)
        }
        ApiServer::StandIn(latency) => {
            let standin = StandIn::start(latency).await?;
            let client = standin.client().await?;
            (Some(standin), client)
        }
    };
    let namespaces: Api<DynamicObject> = Api::all_with(client.clone(), &resource("", "Namespace"));
    let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let params = PatchParams::apply("operator-bench").force();
    namespaces.patch(NAMESPACE, &params, &Patch::Apply(&made)).await?;
    let pools = Api::namespaced_with(
        client.clone(),
        NAMESPACE,
        &resource("millrace.dev/v1alpha1", kind_name(settings.kind)),
    );
    let board = Board::watch(pools.clone());
    let world = World { settings, standin, client, pools, board };
    let outcome = match world.settings.kind {
        PoolKind::Edge => world.steps().await,
        PoolKind::Gateway => world.gateway_steps().await,
    };
    if !world.settings.keep && world.standin.is_none() {
        say::progress("removing the namespace");
        namespaces.delete(NAMESPACE, &DeleteParams::background()).await?;
    }
    outcome
}

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", "v1"));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

const fn kind_name(kind: PoolKind) -> &'static str {
    match kind {
        PoolKind::Edge => "EdgePool",
        PoolKind::Gateway => "GatewayPool",
    }
}

fn name(index: usize) -> String {
    format!("pool-{index:05}")
}

fn child(index: usize) -> String {
    format!("{}-edge", name(index))
}

impl World {
    async fn steps(&self) -> Result<()> {
        self.bring_about(pool).await?;
        let operator = self.start_again().await?;
        self.resync(&operator).await?;
        self.change(&operator).await?;
        self.drift(&operator).await?;
        self.take_over(operator).await
    }

    fn kind(&self) -> &'static str {
        kind_name(self.settings.kind)
    }

    fn say(&self, step: &str, figures: Value) {
        say::figures(step, &self.settings, figures);
    }

    fn operator(&self, name: &str, lease_seconds: u32) -> Result<Operator> {
        let kubeconfig = self.standin.as_ref().map(StandIn::kubeconfig);
        Operator::start(&self.settings, kubeconfig, name, lease_seconds)
    }

    /// All pools are written while an operator runs, which brings them about.
    async fn bring_about(&self, pool: impl Fn(usize) -> Value) -> Result<()> {
        let count = self.settings.count;
        say::progress(&format!("making {count} pools"));
        let operator = self.operator("first", LEASE_SECONDS)?;
        let began = Instant::now();
        stream::iter(0..count)
            .map(pool)
            .map(|pool| async move {
                let pool: DynamicObject = serde_json::from_value(pool)?;
                match self.pools.create(&PostParams::default(), &pool).await {
                    Ok(_) => Ok(()),
                    Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                    Err(error) => Err(anyhow::Error::from(error)),
                }
            })
            .buffer_unordered(IN_FLIGHT)
            .try_collect::<Vec<()>>()
            .await?;
        let written = began.elapsed();
        self.board.all_ready(count, self.settings.patience).await?;
        self.say(
            "made",
            json!({
                "resources": count,
                "written_s": seconds(written),
                "all_ready_s": seconds(began.elapsed()),
                "writes": sum(&operator.metrics()?, "writes_total"),
                "rss_bytes": operator.resident_bytes()?,
                "cpu_s": operator.cpu_seconds()?,
            }),
        );
        operator.end("-TERM")
    }

    /// An operator starts and finds everything as it should be.
    async fn start_again(&self) -> Result<Operator> {
        let count = self.settings.count;
        say::progress("cold start");
        let operator = self.operator("second", LEASE_SECONDS)?;
        let metrics = loop {
            tokio::time::sleep(POLL).await;
            match operator.metrics() {
                Ok(metrics) if reconciled(&metrics, self.kind()) >= count as f64 => break metrics,
                _ if operator.started.elapsed() > self.settings.patience => {
                    bail!("not everything was looked at within {:?}", self.settings.patience)
                }
                _ => {}
            }
        };
        self.say(
            "cold_start",
            json!({
                "resources": count,
                "all_observed_s": seconds(operator.started.elapsed()),
                "writes": sum(&metrics, "writes_total"),
                "rss_bytes": operator.resident_bytes()?,
                "cpu_s": operator.cpu_seconds()?,
            }),
        );
        Ok(operator)
    }

    /// Nothing happens for a while.
    async fn resync(&self, operator: &Operator) -> Result<()> {
        let Settings { count, quiet_for, .. } = self.settings;
        say::progress(&format!("nothing happens for {} s", quiet_for.as_secs()));
        let (before, cpu) = (operator.metrics()?, operator.cpu_seconds()?);
        let reads = || self.standin.as_ref().map(StandIn::reads);
        let (first, mut last, mut most) = (reads(), reads(), None);
        for _ in 0..quiet_for.as_secs() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = reads();
            most = most.max(now.zip(last).map(|(now, last)| now - last));
            last = now;
        }
        let after = operator.metrics()?;
        self.say(
            "converged",
            json!({
                "resources": count,
                "seconds": quiet_for.as_secs(),
                "reads": last.zip(first).map(|(last, first)| last - first),
                "reads_a_second_most": most,
                "reconciles": reconciled(&after, self.kind()) - reconciled(&before, self.kind()),
                "writes": sum(&after, "writes_total") - sum(&before, "writes_total"),
                "rss_bytes": operator.resident_bytes()?,
                "cpu_s": operator.cpu_seconds()? - cpu,
            }),
        );
        Ok(())
    }

    /// Specs change at a rate; each is waited for until its status is about it.
    async fn change(&self, operator: &Operator) -> Result<()> {
        let Settings { rate, change_for, count, .. } = self.settings;
        say::progress(&format!("{rate} changes a second"));
        let (before, cpu) = (operator.metrics()?, operator.cpu_seconds()?);
        let total = (f64::from(rate) * change_for.as_secs_f64()) as usize;
        let began = Instant::now();
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
        let mut running = tokio::task::JoinSet::new();
        for change in 0..total {
            ticks.tick().await;
            let (pools, board) = (self.pools.clone(), self.board.clone());
            let (name, patience) = (name(change % count), self.settings.patience);
            running.spawn(async move { changed(&pools, &board, &name, change, patience).await });
        }
        let sent = began.elapsed();
        let mut times = Vec::new();
        let mut writes = Vec::new();
        while let Some(outcome) = running.join_next().await {
            let (write, time) = outcome??;
            writes.push(write);
            times.push(time);
        }
        let taken_up = began.elapsed();
        let after = operator.metrics()?;
        let kind = "kind=\"EdgePool\",";
        let p99 = histogram_ms(&before, &after, "reconcile_duration_seconds", kind, 99.0);
        self.say(
            "changes",
            json!({
                "changes": total,
                "sent_per_s": (total as f64 / sent.as_secs_f64()).round(),
                "all_taken_up_s": seconds(taken_up),
                "writes": sum(&after, "writes_total") - sum(&before, "writes_total"),
                "cpu_s": operator.cpu_seconds()? - cpu,
                "change_to_status_p50_ms": percentile_ms(&times, 50.0),
                "change_to_status_p99_ms": percentile_ms(&times, 99.0),
                "change_written_p99_ms": percentile_ms(&writes, 99.0),
                "reconcile_p99_at_most_ms": p99,
                "queue_p99_at_most_ms":
                    histogram_ms(&before, &after, "queue_duration_seconds", kind, 99.0),
                "rss_bytes": operator.resident_bytes()?,
            }),
        );
        self.board.all_ready(count, self.settings.patience).await
    }

    /// Children are deleted and edited by hand.
    async fn drift(&self, operator: &Operator) -> Result<()> {
        say::progress("drift");
        let services = self.children("v1", "Service");
        let sets = self.children("apps/v1", "DaemonSet");
        let each = self.settings.count / self.settings.drifts.max(1);
        let indexes = (0..self.settings.drifts).map(|drift| drift * each.max(1));
        let indexes: Vec<usize> = indexes.filter(|index| *index < self.settings.count).collect();
        let deleted = stream::iter(indexes.clone())
            .map(|index| deleted(&services, index))
            .buffer_unordered(4)
            .try_collect::<Vec<_>>()
            .await?;
        let edited = stream::iter(indexes)
            .map(|index| edited(&sets, index))
            .buffer_unordered(4)
            .try_collect::<Vec<_>>()
            .await?;
        self.say(
            "drift",
            json!({
                "services_deleted": deleted.len(),
                "service_back_p99_ms": percentile_ms(&deleted, 99.0),
                "daemonsets_edited": edited.len(),
                "daemonset_back_p99_ms": percentile_ms(&edited, 99.0),
                "rss_bytes": operator.resident_bytes()?,
            }),
        );
        Ok(())
    }

    /// The leader is killed while another stands by; a child is deleted at that moment. Both have
    /// the lease that is asked for.
    async fn take_over(&self, operator: Operator) -> Result<()> {
        say::progress("take-over");
        operator.end("-TERM")?;
        let start = |name| self.operator(name, self.settings.lease_seconds);
        let leader = start("third")?;
        let count = self.settings.count as f64;
        let looked =
            || leader.metrics().is_ok_and(|metrics| reconciled(&metrics, self.kind()) >= count);
        wait_for("the leader has looked at everything", self.settings.patience, looked).await?;
        let standby = start("fourth")?;
        // It has listed everything when it has nothing left to do.
        let (mut worked, mut at) = (0.0, Instant::now());
        let rests = || {
            let cpu = standby.cpu_seconds().unwrap_or(0.0);
            if cpu > worked + 0.02 {
                (worked, at) = (cpu, Instant::now());
            }
            at.elapsed() >= IDLE_FOR && standby.metrics().is_ok()
        };
        wait_for("the standby has listed everything", self.settings.patience, rests).await?;
        let rss_bytes = standby.resident_bytes()?;
        let services = self.children("v1", "Service");
        let killed = Instant::now();
        leader.end("-KILL")?;
        let back = tokio::spawn(async move { deleted(&services, 0).await });
        let leads = || {
            standby.metrics().is_ok_and(|metrics| metrics.get("leader").is_some_and(|it| *it > 0.0))
        };
        wait_for("the standby leads", REPAIR_MAX, leads).await?;
        let led = killed.elapsed();
        back.await??;
        let repaired = killed.elapsed();
        let figures = json!({
            "lease_s": self.settings.lease_seconds,
            "leads_s": seconds(led),
            "deleted_service_back_s": seconds(repaired),
            "standby_rss_bytes": rss_bytes,
        });
        self.say("take_over", figures);
        standby.end("-TERM")
    }

    fn children(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource(api_version, kind))
    }
}

fn pool(index: usize) -> Value {
    json!({
        "apiVersion": "millrace.dev/v1alpha1",
        "kind": "EdgePool",
        "metadata": {"name": name(index), "namespace": NAMESPACE},
        "spec": {
            "kafka": {"bootstrapServers": ["kafka.example:9092"]},
            "signals": {"traces": {}},
            "mode": "DaemonSet",
            "podTemplate": {"spec": {"nodeSelector": {"operator-bench": "no-node-has-this"}}},
        }
    })
}

/// Finished reconciles of pools that went well.
fn reconciled(metrics: &Metrics, kind: &str) -> f64 {
    sum(metrics, &format!("reconciles_total{{kind=\"{kind}\",result=\"ok\"}}"))
}

/// One change: how long writing it took, and until the status was about it.
async fn changed(
    pools: &Api<DynamicObject>,
    board: &Board,
    name: &str,
    change: usize,
    patience: Duration,
) -> Result<(Duration, Duration)> {
    let began = Instant::now();
    // A change of the template that is no rollout.
    let cpu = format!("{}m", CPU_MILLICORES + change);
    let patch = json!({"spec": {"resources": {"requests": {"cpu": cpu}}}});
    let written = pools.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    let (generation, at) = (written.metadata.generation.unwrap_or(0), Instant::now());
    loop {
        if let Some(seen) = board.caught_up(name, generation) {
            // Counted from the answer: what the write itself took is not the operator's.
            return Ok((at - began, seen.saturating_duration_since(at)));
        }
        if at.elapsed() > patience {
            bail!("the change of {name} was not taken up within {patience:?}");
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Deletes a Service; gives the time until there is another.
async fn deleted(services: &Api<DynamicObject>, index: usize) -> Result<Duration> {
    let name = child(index);
    let before = services.get(&name).await?.metadata.uid;
    services.delete(&name, &DeleteParams::default()).await?;
    let began = Instant::now();
    until(&name, began, || async {
        Ok(services.get_opt(&name).await?.is_some_and(|it| it.metadata.uid != before))
    })
    .await
}

/// Edits a DaemonSet's image; gives the time until it is put back.
async fn edited(sets: &Api<DynamicObject>, index: usize) -> Result<Duration> {
    let name = child(index);
    let path = "/spec/template/spec/containers/0/image";
    let before = sets.get(&name).await?.data.pointer(path).cloned();
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "collector", "image": "changed.example/by-hand:1"}]}}}});
    sets.patch(&name, &PatchParams::default(), &Patch::Strategic(&patch)).await?;
    let began = Instant::now();
    until(&name, began, || async {
        Ok(sets.get(&name).await?.data.pointer(path) == before.as_ref())
    })
    .await
}

async fn until<F>(name: &str, began: Instant, mut holds: impl FnMut() -> F) -> Result<Duration>
where
    F: Future<Output = Result<bool>>,
{
    while !holds().await? {
        if began.elapsed() > REPAIR_MAX {
            bail!("{name} was not put right within {REPAIR_MAX:?}");
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(began.elapsed())
}

async fn wait_for(what: &str, patience: Duration, mut holds: impl FnMut() -> bool) -> Result<()> {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > patience {
            bail!("waited {patience:?} in vain until {what}");
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 100.0).round() / 100.0
}
