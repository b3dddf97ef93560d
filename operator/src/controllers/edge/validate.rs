//! Translates a spec to checked values. Pure: no client.

use std::path::PathBuf;

use millrace_config as config;
use millrace_crds::v1alpha1::{
    Acknowledge, Compression, ContainersReceiver, EdgeMode, EdgePool, EdgeProducer, EdgeSettings,
    Encoding, FilesReceiver, KernelReceiver, LabelOperator, LabelRequirement, LabelSelector,
    Multiline, NamespaceWeight, OtlpLimits, Parse, ParseFormat, PartitionBy, PodMetadata,
    Receivers, StackTraces, StartAt, TimeFormat, Timestamp,
};

use crate::context::Images;
use crate::error::Invalid;
use crate::pool::draft::{self, PoolDraft};
use crate::pool::names::{PoolNames, Role};
use crate::pool::secrets::{SecretUses, SecretsObservation};
use crate::pool::settings::variants::same_variant;
use crate::pool::template::{self, OTLP_GRPC_PORT, OTLP_HTTP_PORT, PodPlan};
use crate::pool::{attributes, connection, discover, memory, merge, overrides, processing, scrape};

/// The ports of the pool's pods and Service.
pub(super) const PORTS: &[(&str, i32)] =
    &[("otlp-grpc", OTLP_GRPC_PORT), ("otlp-http", OTLP_HTTP_PORT)];

/// The time for which a stopping pod still serves clients: endpoints, proxies and load balancers
/// follow readiness within a second or two, and some poll.
const ANNOUNCE_SECONDS: u32 = 5;

/// The number of longest requests that an edge must hold: one being read, and one being sent to
/// Kafka. The collector has the same rule.
const REQUESTS_HELD: u64 = 2;

/// A draft, and the Secrets that it refers to.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) draft: PoolDraft,
    pub(super) secrets: SecretsObservation,
}

/// The inputs for the pool's objects.
#[derive(Clone, Debug)]
pub(super) struct Validated<'a> {
    pub(super) pool: &'a EdgePool,
    pub(super) draft: &'a PoolDraft,
    pub(super) secrets_digest: Option<String>,
}

/// Checks the spec alone.
///
/// # Errors
/// When the spec cannot work as written.
pub(super) fn draft_pool(pool: &EdgePool, images: &Images) -> Result<PoolDraft, Invalid> {
    let steps = &pool.spec.settings.processing;
    build_draft(pool, images).map_err(|refusal| processing::explain_refusal(steps, refusal))
}

fn build_draft(pool: &EdgePool, images: &Images) -> Result<PoolDraft, Invalid> {
    let running = pool.status.as_ref().and_then(|status| status.image.as_deref());
    let names = PoolNames::of_pool(pool, Role::Edge)?;
    let mut secrets = SecretUses::default();
    let config = collector_settings(pool, &names, &mut secrets)?;
    let settings = &pool.spec.settings;
    let is_deployment = settings.mode == EdgeMode::Deployment;
    let plan = PodPlan {
        names: &names,
        image: &template::collector_image(&pool.spec.collector, images, running),
        user: images.user,
        resources: template::declared_resources(&settings.resources),
        theirs: &settings.pod_template,
        per_node: !is_deployment,
        secrets: &secrets,
        buffer: settings.buffer.as_ref(),
        reads_files: settings.receivers.reads_files(),
        docker_directory: settings.receivers.docker_directory(),
        reads_kernel: settings.receivers.reads_kernel(),
        watches_pods: settings.watches_pods(),
        reads_share: settings.receivers.prometheus.is_some(),
        follows_monitors: discover::discovery_request(pool).is_some(),
        drain_seconds: settings.drain_seconds,
        ports: PORTS,
        revision_label: is_deployment.then_some("pod-template-hash"),
    };
    let draft = draft::build_draft(config, &plan)?;
    let account = &settings.service_account.metadata;
    merge::check_metadata("serviceAccount", account, Some(&names.labels()))?;
    merge::check_metadata("service", &settings.service.metadata, Some(&names.labels()))?;
    Ok(draft)
}

/// Returns the collector's settings for the pool.
fn collector_settings(
    pool: &EdgePool,
    names: &PoolNames,
    secrets: &mut SecretUses,
) -> Result<config::Config, Invalid> {
    let EdgeSettings {
        mode,
        receivers: Receivers { otlp, containers, files, kernel, prometheus },
        processing: steps,
        resource_attributes,
        drain_seconds,
        resources,
        telemetry,
        config: theirs,
        ..
    } = &pool.spec.settings;
    let mut receiver =
        config::OtlpReceiver { limits: build_limits(&otlp.limits), ..Default::default() };
    if let Some(tls) = &otlp.tls {
        let tls = connection::build_server_tls(tls, secrets)?;
        receiver.grpc.tls = Some(tls.clone());
        receiver.http.tls = Some(tls);
    }
    let rules = processing::build_processing(steps, *mode, secrets);
    let exporter = build_exporter(pool, secrets)?;
    let (_, limit_bytes) = resources.memory_bytes();
    let least_bytes = receiver.limits.longest_bytes() * REQUESTS_HELD;
    let settings = config::Config {
        memory: memory::memory_settings(pool.spec.collector.allocator, limit_bytes, least_bytes)?,
        shutdown: config::Shutdown {
            deadline_seconds: *drain_seconds,
            announce_seconds: ANNOUNCE_SECONDS.min(drain_seconds / 2),
        },
        telemetry: connection::build_telemetry(telemetry.as_ref(), names, secrets)?,
        positions: config::Positions { directory: template::POSITIONS_FOLDER.into() },
        processing: millrace_processing::Config {
            steps: attributes::attributes_step(resource_attributes)
                .into_iter()
                .chain(rules.steps)
                .collect(),
        },
        receivers: config::Receivers {
            otlp: Some(receiver),
            kafka: None,
            containers: containers.as_ref().map(containers_receiver),
            files: files.iter().map(files_receiver).collect(),
            kernel: kernel.as_ref().map(|KernelReceiver {}| config::KernelReceiver::default()),
            prometheus: prometheus
                .as_ref()
                .map(|it| scrape::build_receiver(it, secrets))
                .transpose()?,
        },
        exporters: config::Exporters { kafka: Some(exporter), clickhouse: None },
        ..config::Config::default()
    };
    overrides::merge_config(settings, theirs)
}

/// Returns how the pool's edges publish to Kafka.
fn build_exporter(
    pool: &EdgePool,
    secrets: &mut SecretUses,
) -> Result<config::KafkaExporter, Invalid> {
    let EdgeSettings { acknowledge, partition_by, compression, producer, buffer, .. } =
        &pool.spec.settings;
    let signals = pool.spec.signals.iter();
    Ok(config::KafkaExporter {
        connection: connection::build_kafka(&pool.spec.kafka, secrets)?,
        topics: connection::build_topics(
            signals.map(|(signal, is)| (signal, is.topic_name.as_ref())),
        )?,
        acknowledge: same_variant!(acknowledge, Acknowledge => config::Acknowledge {
            AfterKafka, AfterBuffering
        }),
        partition_by: same_variant!(partition_by, PartitionBy => config::PartitionBy {
            Any, TraceId
        }),
        compression: same_variant!(compression, Compression => config::Compression { Zstd, Lz4 }),
        buffer: buffer.as_ref().map(|buffer| config::DiskBuffer {
            path: template::BUFFER_FOLDER.into(),
            max_bytes: config::ByteSize::bytes(buffer.capacity_bytes()),
            drain: true,
        }),
        ..build_producer(producer)
    })
}

fn build_limits(spec: &OtlpLimits) -> config::OtlpLimits {
    let usual = config::OtlpLimits::default();
    let OtlpLimits {
        grpc_message_bytes,
        http_body_bytes,
        connections,
        answer_seconds,
        request_seconds,
    } = spec;
    config::OtlpLimits {
        grpc_message_bytes: connection::byte_size(
            grpc_message_bytes.as_ref(),
            usual.grpc_message_bytes,
        ),
        http_body_bytes: connection::byte_size(http_body_bytes.as_ref(), usual.http_body_bytes),
        connections: connections.unwrap_or(usual.connections),
        answer_seconds: answer_seconds.unwrap_or(usual.answer_seconds),
        request_seconds: request_seconds.unwrap_or(usual.request_seconds),
        ..usual
    }
}

fn build_producer(spec: &EdgeProducer) -> config::KafkaExporter {
    let usual = config::KafkaExporter::default();
    let EdgeProducer { linger_millis, max_message_bytes, delivery_timeout_seconds } = spec;
    config::KafkaExporter {
        linger_millis: linger_millis.unwrap_or(usual.linger_millis),
        max_message_bytes: connection::byte_size(
            max_message_bytes.as_ref(),
            usual.max_message_bytes,
        ),
        delivery_timeout_seconds: delivery_timeout_seconds
            .unwrap_or(usual.delivery_timeout_seconds),
        ..usual
    }
}

fn containers_receiver(containers: &ContainersReceiver) -> config::ContainersReceiver {
    let usual = config::ContainersReceiver::default();
    let ContainersReceiver {
        start_at: from,
        docker_directory,
        namespaces,
        namespace_selector,
        exclude_namespaces,
        pod_metadata,
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
        pod_metadata: same_variant!(pod_metadata, PodMetadata => config::PodMetadata {
            KubernetesApi, FilePath
        }),
        labels: labels.clone().unwrap_or(usual.labels),
        annotations: annotations.clone(),
        follow_annotations: *follow_annotations,
        weights: weights.collect(),
        multiline: lines.as_ref().map(build_multiline),
        parse: build_parse(fields.as_ref()),
        ..usual
    }
}

fn label_selector(selector: &LabelSelector) -> config::LabelSelector {
    let LabelSelector { match_labels, match_expressions } = selector;
    let requirement = |LabelRequirement { key, operator, values }: &LabelRequirement| {
        let operator = same_variant!(operator, LabelOperator => config::LabelOperator {
            In, NotIn, Exists, DoesNotExist
        });
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
        encoding: build_encoding(*of),
        parse: build_parse(fields.as_ref()),
        multiline: lines.as_ref().map(build_multiline),
        ..config::FilesReceiver::default()
    }
}

fn build_multiline(
    Multiline { start, indented, stack_traces: of }: &Multiline,
) -> config::Multiline {
    config::Multiline {
        start: start.clone(),
        indented: *indented,
        stack_traces: of.map(build_traces),
        ..config::Multiline::default()
    }
}

fn build_traces(of: StackTraces) -> config::StackTraces {
    same_variant!(of, StackTraces => config::StackTraces { Java, Python, Go, NodeJs, Rust })
}

fn build_parse(parse: Option<&Parse>) -> config::Parse {
    let usual = config::Parse::default();
    let Some(Parse { format, pattern, body, severity, timestamp }) = parse else { return usual };
    config::Parse {
        format: same_variant!(format, ParseFormat => config::ParseFormat {
            None, Json, Logfmt, Regex
        }),
        pattern: pattern.clone(),
        body: body.clone().unwrap_or(usual.body),
        severity: severity.clone().unwrap_or(usual.severity),
        timestamp: timestamp.as_ref().map(|Timestamp { fields, format, layout }| {
            config::Timestamp {
                fields: fields.clone(),
                format: same_variant!(format, TimeFormat => config::TimeFormat {
                    Rfc3339, UnixSeconds, UnixMillis, UnixMicros, UnixNanos, Layout
                }),
                layout: layout.clone(),
            }
        }),
    }
}

fn start_at(start_at: StartAt) -> config::StartAt {
    same_variant!(start_at, StartAt => config::StartAt { Beginning, End })
}

fn build_encoding(encoding: Encoding) -> config::Encoding {
    same_variant!(encoding, Encoding => config::Encoding { Utf8, Utf16Le, Utf16Be, Latin1 })
}

/// Joins the spec with the Secrets.
///
/// # Errors
/// When a Secret or a key of one is missing.
pub(super) fn validate_pool<'a>(
    pool: &'a EdgePool,
    observed: &'a Observed,
) -> Result<Validated<'a>, Invalid> {
    let Observed { draft, secrets: found } = observed;
    Ok(Validated { pool, draft, secrets_digest: found.combined_digest()? })
}
