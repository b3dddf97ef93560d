//! From a spec to checked values. Pure: no client.

use std::path::PathBuf;

use millrace_config as config;
use millrace_crds::v1alpha1::{
    Acknowledge, Compression, ContainersReceiver, EdgeMode, EdgePool, EdgeSettings, Encoding,
    FilesReceiver, KernelReceiver, LabelOperator, LabelRequirement, LabelSelector, Multiline,
    NamespaceWeight, Parse, ParseFormat, PartitionBy, Receivers, StartAt, TimeFormat, Timestamp,
    Traces,
};

use super::build::PORTS;
use crate::context::Images;
use crate::error::Invalid;
use crate::pool::draft::{self, Draft};
use crate::pool::names::{PoolNames, Role};
use crate::pool::secrets::{SecretUses, SecretsSeen};
use crate::pool::template::{self, PodPlan};
use crate::pool::{connection, discover, memory, merge, scrape};

/// How long a stopping pod still serves clients: endpoints, proxies and load balancers follow
/// readiness within a second or two, and some poll.
const ANNOUNCE_SECONDS: u32 = 5;

/// The longest requests that an edge must have room for: one being read, and one on its way to
/// Kafka. The collector's own rule.
const REQUESTS_HELD: u64 = 2;

/// A draft, and the Secrets it refers to.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// What the spec alone says.
    pub(super) draft: Draft,
    /// The Secrets as read.
    pub(super) found: SecretsSeen,
}

/// Everything needed to build the pool's objects.
#[derive(Clone, Debug)]
pub(super) struct Validated<'a> {
    /// The pool.
    pub(super) pool: &'a EdgePool,
    /// What the spec alone says.
    pub(super) draft: &'a Draft,
    /// Digest of the Secrets' content.
    pub(super) secrets_digest: Option<String>,
}

/// Checks the spec alone.
///
/// # Errors
/// When the spec cannot work as written.
pub(super) fn draft(pool: &EdgePool, images: &Images) -> Result<Draft, Invalid> {
    let running = pool.status.as_ref().and_then(|status| status.image.as_deref());
    let names = PoolNames::of(pool, Role::Edge)?;
    let mut secrets = SecretUses::default();
    let config = settings(pool, &names, &mut secrets)?;
    let settings = &pool.spec.settings;
    let is_deployment = settings.mode == EdgeMode::Deployment;
    let plan = PodPlan {
        names: &names,
        image: &template::image(&pool.spec.collector, images, running),
        user: images.user,
        resources: template::written(&settings.resources),
        theirs: &settings.pod_template,
        per_node: !is_deployment,
        secrets: &secrets,
        buffer: settings.buffer.as_ref(),
        reads_files: settings.receivers.reads_files(),
        docker_directory: settings.receivers.docker_directory(),
        reads_kernel: settings.receivers.reads_kernel(),
        watches_pods: settings.receivers.watches_pods(),
        reads_share: settings.receivers.prometheus.is_some(),
        follows_monitors: discover::wants(pool).is_some(),
        drain_seconds: settings.drain_seconds,
        ports: PORTS,
        revision_label: is_deployment.then_some("pod-template-hash"),
    };
    let draft = draft::draft(config, &plan)?;
    merge::check_metadata("service", &settings.service.metadata, Some(&names.labels()))?;
    Ok(draft)
}

/// The collector's settings for the pool.
fn settings(
    pool: &EdgePool,
    names: &PoolNames,
    secrets: &mut SecretUses,
) -> Result<config::Config, Invalid> {
    let EdgeSettings {
        receivers: Receivers { otlp, containers, files, kernel, prometheus },
        acknowledge,
        partition_by,
        compression,
        buffer,
        drain_seconds,
        resources,
        telemetry,
        ..
    } = &pool.spec.settings;
    let mut receiver = config::OtlpReceiver::default();
    if let Some(tls) = &otlp.tls {
        let tls = connection::server_tls(tls, secrets)?;
        receiver.grpc.tls = Some(tls.clone());
        receiver.http.tls = Some(tls);
    }
    let signals = pool.spec.signals.iter();
    let exporter = config::KafkaExporter {
        connection: connection::kafka(&pool.spec.kafka, secrets)?,
        topics: connection::topics(signals.map(|(signal, is)| (signal, is.topic_name.as_ref())))?,
        acknowledge: match acknowledge {
            Acknowledge::AfterKafka => config::Acknowledge::AfterKafka,
            Acknowledge::AfterBuffering => config::Acknowledge::AfterBuffering,
        },
        partition_by: match partition_by {
            PartitionBy::Any => config::PartitionBy::Any,
            PartitionBy::TraceId => config::PartitionBy::TraceId,
        },
        compression: match compression {
            Compression::Zstd => config::Compression::Zstd,
            Compression::Lz4 => config::Compression::Lz4,
        },
        buffer: buffer.as_ref().map(|buffer| config::DiskBuffer {
            path: template::BUFFER_FOLDER.into(),
            max_bytes: config::ByteSize::bytes(buffer.bytes()),
            drain: true,
        }),
        ..config::KafkaExporter::default()
    };
    let (_, limit_bytes) = resources.memory.bytes();
    let least_bytes = receiver.limits.longest_bytes() * REQUESTS_HELD;
    Ok(config::Config {
        memory: memory::settings(pool.spec.collector.allocator, limit_bytes, least_bytes)?,
        shutdown: config::Shutdown {
            deadline_seconds: *drain_seconds,
            announce_seconds: ANNOUNCE_SECONDS.min(drain_seconds / 2),
        },
        telemetry: connection::own_telemetry(telemetry.as_ref(), names, secrets)?,
        positions: config::Positions { directory: template::POSITIONS_FOLDER.into() },
        receivers: config::Receivers {
            otlp: Some(receiver),
            kafka: None,
            containers: containers.as_ref().map(containers_receiver),
            files: files.iter().map(files_receiver).collect(),
            kernel: kernel.as_ref().map(|KernelReceiver {}| config::KernelReceiver::default()),
            prometheus: prometheus.as_ref().map(|it| scrape::receiver(it, secrets)).transpose()?,
        },
        exporters: config::Exporters { kafka: Some(exporter), clickhouse: None },
        ..config::Config::default()
    })
}

fn containers_receiver(containers: &ContainersReceiver) -> config::ContainersReceiver {
    let usual = config::ContainersReceiver::default();
    let ContainersReceiver {
        start_at: from,
        docker_directory,
        namespaces,
        namespace_selector,
        exclude_namespaces,
        watch_pods,
        labels,
        annotations,
        follow_annotations,
        weights,
        multiline: lines,
        parse: fields,
    } = containers;
    let weights = weights.iter().map(|NamespaceWeight { namespace, weight }| {
        config::NamespaceWeight { namespace: namespace.clone(), weight: *weight }
    });
    config::ContainersReceiver {
        start_at: start_at(*from),
        docker_directory: docker_directory.as_ref().map(PathBuf::from),
        namespaces: namespaces.clone(),
        namespace_selector: namespace_selector.as_ref().map(label_selector),
        exclude_namespaces: exclude_namespaces.clone(),
        watch_pods: *watch_pods,
        labels: labels.clone().unwrap_or(usual.labels),
        annotations: annotations.clone(),
        follow_annotations: *follow_annotations,
        weights: weights.collect(),
        multiline: lines.as_ref().map(multiline),
        parse: parse(fields.as_ref()),
        ..usual
    }
}

fn label_selector(selector: &LabelSelector) -> config::LabelSelector {
    let LabelSelector { match_labels, match_expressions } = selector;
    let requirement = |LabelRequirement { key, operator, values }: &LabelRequirement| {
        let operator = match operator {
            LabelOperator::In => config::LabelOperator::In,
            LabelOperator::NotIn => config::LabelOperator::NotIn,
            LabelOperator::Exists => config::LabelOperator::Exists,
            LabelOperator::DoesNotExist => config::LabelOperator::DoesNotExist,
        };
        config::LabelRequirement { key: key.clone(), operator, values: values.clone() }
    };
    config::LabelSelector {
        match_labels: match_labels.clone(),
        match_expressions: match_expressions.iter().map(requirement).collect(),
    }
}

fn files_receiver(files: &FilesReceiver) -> config::FilesReceiver {
    let FilesReceiver {
        include,
        exclude,
        start_at: from,
        encoding: of,
        multiline: lines,
        parse: fields,
    } = files;
    config::FilesReceiver {
        include: include.clone(),
        exclude: exclude.clone(),
        start_at: start_at(*from),
        encoding: encoding(*of),
        parse: parse(fields.as_ref()),
        multiline: lines.as_ref().map(multiline),
        ..config::FilesReceiver::default()
    }
}

fn multiline(Multiline { start, indented, traces: of }: &Multiline) -> config::Multiline {
    config::Multiline {
        start: start.clone(),
        indented: *indented,
        traces: of.map(traces),
        ..config::Multiline::default()
    }
}

fn traces(of: Traces) -> config::Traces {
    match of {
        Traces::Java => config::Traces::Java,
        Traces::Python => config::Traces::Python,
        Traces::Go => config::Traces::Go,
        Traces::NodeJs => config::Traces::NodeJs,
        Traces::Rust => config::Traces::Rust,
    }
}

fn parse(parse: Option<&Parse>) -> config::Parse {
    let usual = config::Parse::default();
    let Some(Parse { format, pattern, body, severity, timestamp }) = parse else { return usual };
    config::Parse {
        format: match format {
            ParseFormat::None => config::ParseFormat::None,
            ParseFormat::Json => config::ParseFormat::Json,
            ParseFormat::Logfmt => config::ParseFormat::Logfmt,
            ParseFormat::Regex => config::ParseFormat::Regex,
        },
        pattern: pattern.clone(),
        body: body.clone().unwrap_or(usual.body),
        severity: severity.clone().unwrap_or(usual.severity),
        timestamp: timestamp.as_ref().map(|Timestamp { fields, format, layout }| {
            config::Timestamp {
                fields: fields.clone(),
                format: match format {
                    TimeFormat::Rfc3339 => config::TimeFormat::Rfc3339,
                    TimeFormat::UnixSeconds => config::TimeFormat::UnixSeconds,
                    TimeFormat::UnixMillis => config::TimeFormat::UnixMillis,
                    TimeFormat::UnixMicros => config::TimeFormat::UnixMicros,
                    TimeFormat::UnixNanos => config::TimeFormat::UnixNanos,
                    TimeFormat::Layout => config::TimeFormat::Layout,
                },
                layout: layout.clone(),
            }
        }),
    }
}

fn start_at(start_at: StartAt) -> config::StartAt {
    match start_at {
        StartAt::Beginning => config::StartAt::Beginning,
        StartAt::End => config::StartAt::End,
    }
}

fn encoding(encoding: Encoding) -> config::Encoding {
    match encoding {
        Encoding::Utf8 => config::Encoding::Utf8,
        Encoding::Utf16Le => config::Encoding::Utf16Le,
        Encoding::Utf16Be => config::Encoding::Utf16Be,
        Encoding::Latin1 => config::Encoding::Latin1,
    }
}

/// Joins the spec with the Secrets.
///
/// # Errors
/// When a Secret or a key of one is missing.
pub(super) fn validate<'a>(
    pool: &'a EdgePool,
    observed: &'a Observed,
) -> Result<Validated<'a>, Invalid> {
    let Observed { draft, found } = observed;
    Ok(Validated { pool, draft, secrets_digest: found.digest()? })
}
