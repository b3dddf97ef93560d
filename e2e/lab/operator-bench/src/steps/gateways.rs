//! Gateway pools of many tenants, each with its own Secret: what one operator costs while nothing
//! happens. Without Kafka lag is unknown and no pool gets Ready: the pods are.

use std::collections::BTreeMap;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::ByteString;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use super::{IN_FLIGHT, NAMESPACE, World, name};
use crate::brokers::{PASSWORD, TenantBroker};
use crate::figures::histogram_ms;
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
        let tenants = self.settings.tenants;
        let broker = match self.settings.has_kafka {
            true => Some(TenantBroker::start((0..tenants).map(user)).await?),
            false => None,
        };
        let bootstrap = broker.as_ref().map(TenantBroker::bootstrap).transpose()?;
        self.bring_about(|index| gateway(index, tenants, bootstrap.as_deref())).await?;
        let operator = self.start_again().await?;
        say::progress(&format!("settling for {} s", SETTLE.as_secs()));
        tokio::time::sleep(SETTLE).await;
        self.rest(&operator).await?;
        operator.end("-TERM")
    }

    async fn make_secrets(&self) -> Result<()> {
        let secrets = self.children("v1", "Secret");
        stream::iter(0..self.settings.tenants)
            .map(|tenant| {
                let secrets = secrets.clone();
                async move {
                    let secret: DynamicObject = serde_json::from_value(secret(tenant))?;
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
        let lag_age = |percent| histogram_ms(&before, &after, "lag_age_seconds", "", percent);
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
                "lag_ages": sum(&after, "lag_age_seconds_count") - sum(&before, "lag_age_seconds_count"),
                "lag_age_p50_at_most_ms": lag_age(50.0),
                "lag_age_p99_at_most_ms": lag_age(99.0),
                "lag_age_at_most_ms": lag_age(100.0),
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

/// The name of a tenant's user and Secret.
fn user(tenant: usize) -> String {
    format!("tenant-{tenant:05}")
}

fn secret(tenant: usize) -> Value {
    let name = user(tenant);
    let data = |text: &str| ByteString(text.as_bytes().to_vec());
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
        "data": {"username": data(&name), "password": data(PASSWORD)}})
}

fn gateway(index: usize, tenants: usize, kafka: Option<&str>) -> Value {
    let secret = user(index % tenants.max(1));
    let key = |key: &str| json!({"name": secret, "key": key});
    let login = |kind: &str| json!({"type": kind, "usernameSecret": key("username"), "passwordSecret": key("password")});
    let kafka = match kafka {
        Some(broker) => {
            json!({"bootstrapServers": [broker], "authentication": login("ScramSha512")})
        }
        None => json!({"bootstrapServers": ["kafka.example:9092"]}),
    };
    json!({
        "apiVersion": "millrace.dev/v1alpha1",
        "kind": "GatewayPool",
        "metadata": {"name": name(index), "namespace": NAMESPACE},
        "spec": {
            "kafka": kafka,
            "clickhouse": {"endpoints": ["http://clickhouse.example:8123"],
                "database": format!("tenant_{index}"), "authentication": login("Password")},
            "consumerGroup": format!("group-{index}"),
            "signals": {"traces": {}},
        }
    })
}
