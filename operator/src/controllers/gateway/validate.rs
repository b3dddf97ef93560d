//! From a spec to checked values. Pure: no client.

use std::num::NonZeroU16;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use millrace_config as config;
use millrace_crds::v1alpha1::{Attributes, Delivery, GatewayPool, GroupProtocol, SizingStatus};
use millrace_rollout::Observation;

use super::retention_loss::Losses;
use super::rollout::{self, Decision, Watched};
use super::size;
use super::template_resources::{self, TemplateResources};
use crate::cache::claims::Claim;
use crate::cache::sizing::Sizing;
use crate::context::Images;
use crate::error::{Invalid, StepError};
use crate::kafka::lag_board::{LagObservation, LagQuery};
use crate::pool::draft::{self, Draft};
use crate::pool::names::{PoolNames, Role};
use crate::pool::secrets::{CurrentSecrets, SecretUses, SecretsSeen};
use crate::pool::template::{self, PodPlan};
use crate::pool::{connection, memory, workload};

/// Worker threads of one pod at most: as many as the collector takes.
const WORKERS_MAX: u64 = 256;
/// Least share of the record budget per worker: 4 MiB of fetches, which are at most a quarter of
/// it.
const WORKER_BYTES: u64 = 16 << 20;

/// A draft, and what was observed for it.
#[derive(Debug)]
pub(super) struct Observed {
    /// What the spec alone says.
    pub(super) draft: Draft,
    /// Its Secrets as read.
    pub(super) found: SecretsSeen,
    /// Today's Secrets, for the templates that the StatefulSet holds and keeps.
    pub(super) current: CurrentSecrets,
    /// The StatefulSet as it is, if it exists.
    pub(super) live: Option<StatefulSet>,
    /// Whose lag counts.
    pub(super) lag_query: LagQuery,
    /// The lag, or why it is not known.
    pub(super) lag: Result<LagObservation, StepError>,
    /// What its pods lost so far.
    pub(super) losses: Losses,
    /// What is read for its rollout.
    pub(super) watched: Watched,
    /// Whether its tables are being migrated.
    pub(super) migrates: bool,
    /// Its sizing data, the newest lag sample included.
    pub(super) kept: Sizing,
    /// When all this was seen.
    pub(super) now: Timestamp,
}

impl Observed {
    /// The figures of the live StatefulSet.
    pub(super) fn figures(&self) -> Option<Observation> {
        self.live.as_ref().map(workload::stateful_set)
    }
}

/// Everything needed to build the pool's objects and to report on it.
#[derive(Debug)]
pub(super) struct Validated<'a> {
    /// The pool.
    pub(super) pool: &'a GatewayPool,
    /// What was observed.
    pub(super) observed: &'a Observed,
    /// Digest of the Secrets' content.
    pub(super) secrets_digest: Option<String>,
    /// The decision about the pool's size, whole.
    pub(super) sizing: SizingStatus,
    /// The decision about its rollout, whole.
    pub(super) rollout: Decision,
    /// What its template gives each pod.
    pub(super) template: TemplateResources,
    /// What to remember once it is applied and reported.
    pub(super) kept: Sizing,
}

/// Checks the spec alone.
///
/// # Errors
/// When the spec cannot work as written.
pub(super) fn draft(pool: &GatewayPool, images: &Images) -> Result<Draft, Invalid> {
    let running = pool.status.as_ref().and_then(|status| status.image.as_deref());
    let names = PoolNames::of(pool, Role::Gateway)?;
    let mut secrets = SecretUses::default();
    let config = settings(pool, &names, &mut secrets)?;
    let settings = &pool.spec.settings;
    draft::draft(
        config,
        &PodPlan {
            names: &names,
            image: &template::image(&pool.spec.collector, images, running),
            user: images.user,
            resources: template::written(&settings.resources),
            theirs: &settings.pod_template,
            per_node: false,
            secrets: &secrets,
            buffer: None,
            reads_files: false,
            docker_directory: None,
            reads_kernel: false,
            watches_pods: false,
            reads_share: false,
            follows_monitors: false,
            drain_seconds: settings.drain_seconds,
            ports: &[],
            revision_label: None,
        },
    )
}

/// Whose lag counts.
pub(super) fn lag_query(pool: &GatewayPool, names: &PoolNames) -> LagQuery {
    let signals = pool.spec.signals.iter();
    let topics = signals.map(|(signal, is)| {
        is.topic_name.as_ref().map_or(signal.default_topic(), |name| name.as_str()).to_owned()
    });
    let bound_seconds = pool.spec.settings.scaling.lag_bound_seconds;
    LagQuery {
        namespace: names.namespace.clone(),
        kafka: pool.spec.kafka.clone(),
        group: consumer_group(pool, names),
        topics: topics.collect(),
        bound: Duration::from_secs(u64::from(bound_seconds)),
    }
}

/// What a pool claims in Kafka.
pub(super) fn claim(pool: &GatewayPool) -> Option<Claim> {
    let group = consumer_group(pool, &PoolNames::of(pool, Role::Gateway).ok()?);
    let servers = pool.spec.kafka.bootstrap_servers.iter();
    let things = servers.map(|server| format!("consumer group {group} on {}", server.as_str()));
    let advice = "another consumerGroup (in a new pool)";
    Some(Claim { things: things.collect(), shared: pool.spec.shared, advice })
}

/// The pool's consumer group.
fn consumer_group(pool: &GatewayPool, names: &PoolNames) -> String {
    pool.spec.settings.consumer_group.as_ref().map_or_else(
        || format!("millrace.{}.{}", names.namespace, names.pool),
        |group| group.as_str().to_owned(),
    )
}

/// The collector's settings for the pool.
fn settings(
    pool: &GatewayPool,
    names: &PoolNames,
    secrets: &mut SecretUses,
) -> Result<config::Config, Invalid> {
    let signals = pool.spec.signals.iter();
    let (_, limit_bytes) = pool.spec.settings.resources.memory.bytes();
    // A gateway takes no requests: a message too long for it is a dead letter.
    let memory = memory::settings(pool.spec.collector.allocator, limit_bytes, 0)?;
    let receiver = config::KafkaReceiver {
        connection: connection::kafka(&pool.spec.kafka, secrets)?,
        group_id: connection::checked("consumerGroup", &consumer_group(pool, names))?,
        group_instance_id_env: Some(connection::checked("pods", template::POD_NAME_ENV)?),
        topics: connection::topics(signals.map(|(signal, is)| (signal, is.topic_name.as_ref())))?,
        delivery: match pool.spec.settings.delivery {
            Delivery::AtLeastOnce => config::Delivery::AtLeastOnce,
            Delivery::EffectivelyOnce => config::Delivery::EffectivelyOnce,
        },
        group_protocol: match pool.spec.settings.group_protocol {
            GroupProtocol::Classic => config::GroupProtocol::Classic,
            GroupProtocol::Consumer => config::GroupProtocol::Consumer,
        },
        workers: workers(pool, limit_bytes / 100 * u64::from(memory.budget_percent)),
        ..config::KafkaReceiver::default()
    };
    let nested_depth = u8::try_from(pool.spec.settings.nested_depth);
    let exporter = config::ClickHouseExporter {
        nested_depth: nested_depth.unwrap_or(u8::MAX),
        ..connection::clickhouse(&pool.spec.clickhouse, attributes(pool)?, secrets)?
    };
    let deadline_seconds = pool.spec.settings.drain_seconds;
    Ok(config::Config {
        memory,
        shutdown: config::Shutdown { deadline_seconds, ..config::Shutdown::default() },
        telemetry: connection::own_telemetry(
            pool.spec.settings.telemetry.as_ref(),
            names,
            secrets,
        )?,
        receivers: config::Receivers { kafka: Some(receiver), ..Default::default() },
        exporters: config::Exporters { kafka: None, clickhouse: Some(exporter) },
        ..config::Config::default()
    })
}

/// Worker threads for the largest CPU that pods may get: a process fixes their number at its start,
/// and CPU added in place needs threads to use it. No more than the record budget has room for.
/// Without a range, the collector counts its own cores.
fn workers(pool: &GatewayPool, budget_bytes: u64) -> Option<NonZeroU16> {
    let settings = &pool.spec.settings;
    let most = settings.scaling.cpu_max.as_ref()?.millicores();
    let (_, start) = settings.resources.cpu.millicores();
    let cores = most.max(start?).div_ceil(1_000).min(budget_bytes / WORKER_BYTES);
    u16::try_from(cores.clamp(1, WORKERS_MAX)).ok().and_then(NonZeroU16::new)
}

/// How attributes are stored; the same for the whole pool.
fn attributes(pool: &GatewayPool) -> Result<config::Attributes, Invalid> {
    let mut ways = pool.spec.signals.iter().map(|(_, is)| is.attributes);
    let first = ways.next().unwrap_or_default();
    if ways.any(|way| way != first) {
        return Err(Invalid::spec(
            "spec.signals: one pool stores attributes one way; write the same attributes for each \
             signal, or make a pool for each way",
        ));
    }
    Ok(match first {
        Attributes::Json => config::Attributes::Json,
        Attributes::Map => config::Attributes::Map,
    })
}

/// Joins the spec with what was observed; decides the size and the rollout's next step.
///
/// # Errors
/// When a Secret or a key of one is missing.
pub(super) fn validate<'a>(
    pool: &'a GatewayPool,
    observed: &'a Observed,
) -> Result<Validated<'a>, Invalid> {
    let secrets_digest = observed.found.digest()?;
    let (mut sizing, mut kept) = size::decide(pool, observed);
    let rollout = rollout::decide(pool, observed, secrets_digest.as_deref(), sizing.replicas);
    let template = template_resources::decide(pool, observed, &rollout, &mut sizing, &mut kept);
    Ok(Validated { pool, observed, secrets_digest, sizing, rollout, template, kept })
}
