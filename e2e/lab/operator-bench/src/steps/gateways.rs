//! Gateway pools of many tenants, each with its own Secret for ClickHouse: what one operator costs
//! while nothing happens. There is no Kafka, so lag is unknown and no pool gets Ready: the pods are.

use std::collections::BTreeMap;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use super::{IN_FLIGHT, NAMESPACE, World, name};
use crate::operator::{Operator, sum};
use crate::pods;
use crate::say;
use crate::standin::{FieldChanges, Requests, StandIn, StatusChanges};

/// After the start, until the sessions and windows of a new operator are filled.
const SETTLE: std::time::Duration = std::time::Duration::from_secs(60);

impl World {
    /// All steps with gateway pools.
    pub(super) async fn gateway_steps(&self) -> Result<()> {
        pods::serve().await?;
        self.make_secrets().await?;
        self.bring_about(|index| gateway(index, self.settings.tenants)).await?;
        let operator = self.start_again().await?;
        say::progress(&format!("settling for {} s", SETTLE.as_secs()));
        tokio::time::sleep(SETTLE).await;
        self.rest(&operator).await?;
        operator.end("-TERM")
    }

    async fn make_secrets(&self) -> Result<()> {
        let secrets = self.children("v1", "Secret");
        stream::iter((0..self.settings.tenants).map(tables))
            .map(|name| {
                let secrets = secrets.clone();
                async move {
                    let secret: DynamicObject = serde_json::from_value(secret(&name))?;
                    secrets.create(&PostParams::default(), &secret).await?;
                    anyhow::Ok(())
                }
            })
            .buffer_unordered(IN_FLIGHT)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(())
    }

    /// Nothing happens for a while.
    async fn rest(&self, operator: &Operator) -> Result<()> {
        let quiet_for = self.settings.quiet_for;
        say::progress(&format!("nothing happens for {} s", quiet_for.as_secs()));
        let requests = || self.standin.as_ref().map(StandIn::requests).unwrap_or_default();
        let changes =
            || self.standin.as_ref().map(StandIn::take_status_changes).unwrap_or_default();
        let (before, first, _) = (operator.metrics()?, requests(), changes());
        let (cpu, mut memory) = (operator.cpu_seconds()?, operator.resident_bytes()?);
        for _ in 0..quiet_for.as_secs() {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            memory = memory.max(operator.resident_bytes()?);
        }
        let (after, seconds) = (operator.metrics()?, quiet_for.as_secs_f64());
        let asked = came(&first, &requests());
        let reconciles =
            super::reconciled(&after, self.kind()) - super::reconciled(&before, self.kind());
        let failed =
            sum(&after, "reconciles_total") - sum(&before, "reconciles_total") - reconciles;
        self.say(
            "converged",
            json!({
                "resources": self.settings.count,
                "tenants": self.settings.tenants,
                "watch_secrets": self.settings.watch_secrets,
                "seconds": seconds,
                "ready": self.board.ready(),
                "requests": asked.values().sum::<u64>(),
                "requests_by_kind": asked,
                "status_fields_changed": described(&changes()),
                "reconciles": reconciles,
                "reconciles_other": failed,
                "writes": sum(&after, "writes_total") - sum(&before, "writes_total"),
                "rss_bytes_most": memory,
                "cores": (operator.cpu_seconds()? - cpu) / seconds,
            }),
        );
        Ok(())
    }
}

/// How often each field of a status changed, and the newest change of each.
fn described(changes: &StatusChanges) -> Value {
    let one = |(path, it): (&String, &FieldChanges)| {
        let (before, now) = &it.last;
        (path.clone(), json!({"count": it.count, "last": [before, now]}))
    };
    Value::Object(changes.iter().map(one).collect())
}

/// What came between two counts.
fn came(before: &Requests, after: &Requests) -> BTreeMap<String, u64> {
    let since = |(what, count): (&String, &u64)| {
        let came = count - before.get(what).unwrap_or(&0);
        (came > 0).then(|| (what.clone(), came))
    };
    after.iter().filter_map(since).collect()
}

fn tables(tenant: usize) -> String {
    format!("tenant-{tenant:05}-clickhouse")
}

fn secret(name: &str) -> Value {
    // `name` and `password`, encoded.
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
        "data": {"username": "bmFtZQ==", "password": "cGFzc3dvcmQ="}})
}

fn gateway(index: usize, tenants: usize) -> Value {
    let secret = tables(index % tenants.max(1));
    let key = |key: &str| json!({"name": secret, "key": key});
    let login = json!({"type": "Password", "usernameSecret": key("username"),
        "passwordSecret": key("password")});
    json!({
        "apiVersion": "millrace.dev/v1alpha1",
        "kind": "GatewayPool",
        "metadata": {"name": name(index), "namespace": NAMESPACE},
        "spec": {
            "kafka": {"bootstrapServers": ["kafka.example:9092"]},
            "clickhouse": {"endpoints": ["http://clickhouse.example:8123"],
                "database": format!("tenant_{index}"), "authentication": login},
            "consumerGroup": format!("group-{index}"),
            "signals": {"traces": {}},
        }
    })
}
