//! Translates a spec to checked values. Pure: no client.

use std::num::NonZeroU16;
use std::time::Duration;

use millrace_autoscale::Resources;
use millrace_config as config;
use millrace_crds::v1alpha1::{
    Attributes, Delivery, GatewayBatch, GatewayPool, GroupProtocol, SizingStatus,
};

use super::observed::Observed;
use super::rollout::{self, RolloutDecision};
use super::size;
use super::template_resources;
use crate::cache::claims::Claim;
use crate::cache::sizing::Sizing;
use crate::context::Images;
use crate::error::Invalid;
use crate::kafka::lag_cache::LagQuery;
use crate::pool::draft::{self, PoolDraft};
use crate::pool::names::{PoolNames, Role};
use crate::pool::secrets::SecretUses;
use crate::pool::settings::variants::same_variant;
use crate::pool::template::{self, PodPlan};
use crate::pool::{connection, memory, merge, overrides};

/// The maximum of worker threads of one pod, as in the collector.
const WORKERS_MAX: u64 = 256;
/// The minimum share of the record budget per worker: 4 MiB of fetches, which are at most a quarter
/// of it.
const WORKER_BYTES: u64 = 16 << 20;

/// The inputs for the pool's objects and report.
#[derive(Debug)]
pub(super) struct Validated<'a> {
    pub(super) pool: &'a GatewayPool,
    pub(super) observed: &'a Observed,
    pub(super) secrets_digest: Option<String>,
    pub(super) sizing: SizingStatus,
    pub(super) rollout: RolloutDecision,
    /// The resources of each pod in a template of the declared unit.
    pub(super) resources: Resources,
    /// The data to store after it is applied and reported.
    pub(super) memory: Sizing,
}

/// Checks the spec alone.
///
/// # Errors
/// When the spec cannot work as written.
pub(super) fn draft_pool(pool: &GatewayPool, images: &Images) -> Result<PoolDraft, Invalid> {
    let running = pool.status.as_ref().and_then(|status| status.image.as_deref());
    let names = PoolNames::of_pool(pool, Role::Gateway)?;
    let mut secrets = SecretUses::default();
    let config = collector_settings(pool, &names, &mut secrets)?;
    let settings = &pool.spec.settings;
    let account = &settings.service_account.metadata;
    merge::check_metadata("serviceAccount", account, Some(&names.labels()))?;
    draft::build_draft(
        config,
        &PodPlan {
            names: &names,
            image: &template::collector_image(&pool.spec.collector, images, running),
            user: images.user,
            resources: template::declared_resources(&settings.resources),
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

pub(super) fn claim_of_pool(pool: &GatewayPool) -> Option<Claim> {
    let group = consumer_group(pool, &PoolNames::of_pool(pool, Role::Gateway).ok()?);
    let servers = pool.spec.kafka.bootstrap_servers.iter();
    let things = servers.map(|server| format!("consumer group {group} on {}", server.as_str()));
    let advice = "another consumerGroup (in a new pool)";
    Some(Claim { things: things.collect(), shared: pool.spec.ownership.is_shared(), advice })
}

fn consumer_group(pool: &GatewayPool, names: &PoolNames) -> String {
    pool.spec.settings.consumer_group.as_ref().map_or_else(
        || format!("millrace.{}.{}", names.namespace, names.pool),
        |group| group.as_str().to_owned(),
    )
}

/// Returns the collector's settings for the pool.
fn collector_settings(
    pool: &GatewayPool,
    names: &PoolNames,
    secrets: &mut SecretUses,
) -> Result<config::Config, Invalid> {
    let signals = pool.spec.signals.iter();
    let (_, limit_bytes) = pool.spec.settings.resources.memory_bytes();
    // A gateway receives no requests: a message too long for it is a dead letter.
    let memory = memory::memory_settings(pool.spec.collector.allocator, limit_bytes, 0)?;
    let receiver = config::KafkaReceiver {
        connection: connection::build_kafka(&pool.spec.kafka, secrets)?,
        group_id: connection::parse_field("consumerGroup", &consumer_group(pool, names))?,
        group_instance_id_env: Some(connection::parse_field("pods", template::POD_NAME_ENV)?),
        topics: connection::build_topics(
            signals.map(|(signal, is)| (signal, is.topic_name.as_ref())),
        )?,
        delivery: same_variant!(pool.spec.settings.delivery, Delivery => config::Delivery {
            AtLeastOnce, EffectivelyOnce
        }),
        group_protocol: same_variant!(
            pool.spec.settings.group_protocol,
            GroupProtocol => config::GroupProtocol { Classic, Consumer }
        ),
        workers: worker_count(pool, limit_bytes / 100 * u64::from(memory.budget_percent)),
        ..config::KafkaReceiver::default()
    };
    let nested_depth = u8::try_from(pool.spec.settings.nested_depth);
    let exporter = config::ClickHouseExporter {
        nested_depth: nested_depth.unwrap_or(u8::MAX),
        batch: build_batch(&pool.spec.settings.batch),
        ..connection::build_clickhouse(&pool.spec.clickhouse, attribute_storage(pool)?, secrets)?
    };
    let deadline_seconds = pool.spec.settings.drain_seconds;
    let settings = config::Config {
        memory,
        shutdown: config::Shutdown { deadline_seconds, ..config::Shutdown::default() },
        telemetry: connection::build_telemetry(
            pool.spec.settings.telemetry.as_ref(),
            names,
            secrets,
        )?,
        receivers: config::Receivers { kafka: Some(receiver), ..Default::default() },
        exporters: config::Exporters { kafka: None, clickhouse: Some(exporter) },
        ..config::Config::default()
    };
    overrides::merge_config(settings, &pool.spec.settings.config)
}

fn build_batch(spec: &GatewayBatch) -> config::Batch {
    let usual = config::Batch::default();
    let GatewayBatch { max_rows, max_bytes, max_age_millis } = spec;
    config::Batch {
        max_rows: max_rows.unwrap_or(usual.max_rows),
        max_bytes: connection::byte_size(max_bytes.as_ref(), usual.max_bytes),
        max_age_millis: max_age_millis.unwrap_or(usual.max_age_millis),
    }
}

/// Returns the worker threads for the largest CPU that pods may get: a process fixes their number
/// at its start, and CPU added in place needs threads to use it. The record budget bounds them.
/// Without a range, the collector counts its own cores.
fn worker_count(pool: &GatewayPool, budget_bytes: u64) -> Option<NonZeroU16> {
    let settings = &pool.spec.settings;
    let most = settings.scaling.max_resources.cpu.as_ref()?.millicores();
    let (_, start) = settings.resources.cpu_millicores();
    let cores = most.max(start?).div_ceil(1_000).min(budget_bytes / WORKER_BYTES);
    u16::try_from(cores.clamp(1, WORKERS_MAX)).ok().and_then(NonZeroU16::new)
}

/// Returns how attributes are stored; the same for the complete pool.
fn attribute_storage(pool: &GatewayPool) -> Result<config::Attributes, Invalid> {
    let mut modes = pool.spec.signals.iter().map(|(_, is)| is.attributes);
    let first = modes.next().unwrap_or_default();
    if modes.any(|mode| mode != first) {
        return Err(Invalid::spec_invalid(
            "spec.signals: a pool writes one type of attributes; write the same attributes for each \
             signal, or create a pool for each type",
        ));
    }
    Ok(same_variant!(first, Attributes => config::Attributes { Json, Map }))
}

/// Joins the spec with the observation; decides the size and the rollout's next step.
///
/// # Errors
/// When a Secret or a key of one is missing.
pub(super) fn validate_pool<'a>(
    pool: &'a GatewayPool,
    observed: &'a Observed,
) -> Result<Validated<'a>, Invalid> {
    let secrets_digest = observed.secrets.combined_digest()?;
    let (sizing, memory) = size::decide_size(pool, observed);
    let rollout =
        rollout::decide_rollout(pool, observed, secrets_digest.as_deref(), sizing.replicas);
    let resources =
        template_resources::decide_resources(pool, observed, &rollout, &sizing, &memory);
    Ok(Validated { pool, observed, secrets_digest, sizing, rollout, resources, memory })
}
