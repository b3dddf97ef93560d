//! Version v1alpha1: one file for each kind, and what they share.

// Each printer column has its own `type_`; the lint takes them for a duplicate.
#![allow(clippy::duplicated_attributes)]

mod authentication;
mod collector;
mod connection;
mod control;
mod coordination;
mod discovery;
mod edge;
mod enrichment;
mod gateway;
mod nodes;
mod own_telemetry;
mod pipeline;
mod pipeline_signals;
mod pods;
mod processing;
mod receivers;
mod redaction;
mod rollout;
mod routes;
pub(crate) mod rules;
mod sampling;
mod schema;
mod scrape;
mod scrape_access;
mod scrape_rules;
mod scraping;
mod secrets;
mod signals;
mod status;
mod table;
mod table_ttl;
mod topic;
mod tuning;

pub use authentication::{
    CaSource, CertificateSecret, ClickHouseAuthentication, ClickHouseAuthenticationType,
    ClickHouseLogin, KafkaAuthentication, KafkaAuthenticationType, KafkaAwsMskIam, KafkaLogin,
    KafkaOAuth, MissingField, PasswordSecret, SaslMechanism, Username,
};
pub use collector::{Allocator, CollectorSettings};
pub use connection::{
    ClickHouseAdmin, ClickHouseTarget, ClickHouseTls, KafkaAdmin, KafkaConnection, KafkaTls,
};
pub use control::Controlled;
pub use coordination::{
    Coordination, CoordinationLimits, CoordinationStatus, CoordinationTable, CoordinationTls,
};
pub use discovery::{
    AnnotatedSelection, KubernetesDiscovery, LabelOperator, LabelRequirement, LabelSelector,
    MonitorSelection,
};
pub use edge::{
    Acknowledge, Compression, EdgeBuffer, EdgeMode, EdgePool, EdgePoolSpec, EdgePoolStatus,
    EdgeRolloutSettings, EdgeSettings, EdgeSignal, IpFamily, IpFamilyPolicy, PartitionBy,
    PendingChange, PendingStage, ServiceSettings, ServiceType, TrafficPolicy,
};
pub use enrichment::{EnrichStep, OnConflict, PodAssociation, PodMetadataStep};
pub use gateway::{
    Acknowledged, Delivery, GatewayPool, GatewayPoolSpec, GatewayPoolStatus, GatewaySettings,
    GatewaySignal, GroupProtocol, HotPartition, LearnedCapacity, Scaling, SizingSignals,
    SizingStatus, SizingTerms,
};
pub use nodes::{LogsLostStatus, NodeBehind, NodeLost, NodesStatus};
pub use own_telemetry::{OwnOtlp, OwnTelemetry, OwnTls, SecretHeader};
pub use pipeline::{
    ChildStatus, PipelineEdge, PipelineEdgeStatus, TelemetryPipeline, TelemetryPipelineSpec,
    TelemetryPipelineStatus,
};
pub use pipeline_signals::{PipelineSignal, PipelineSignals, SignalDefaults};
pub use pods::{
    DisruptionBudgetSettings, ExtraMetadata, NetworkPolicySettings, PodTemplate, ResourceLimits,
    ResourceRequests, Resources, ServiceAccountSettings,
};
pub use processing::{
    DropStep, ErrorMode, ProcessedSignal, ProcessingStep, RouteStep, StatementContext,
};
pub use receivers::{
    ContainersReceiver, Encoding, FilesReceiver, KernelReceiver, Multiline, NamespaceWeight,
    OtlpReceiver, Parse, ParseFormat, PodMetadata, Receivers, ServerTls, StackTraces, StartAt,
    TimeFormat, Timestamp,
};
pub use redaction::{
    BlockedKeys, DropAction, HashAction, HashEncoding, KeyList, MaskAction, ReadySet, RedactAction,
    RedactPattern, RedactStep, SetAction,
};
pub use rollout::{
    CanarySettings, RolloutAction, RolloutFigures, RolloutReport, RolloutSettings, RolloutStage,
    RolloutStatus, RolloutUnit,
};
pub use routes::{PoolRouteStatus, RouteReader, RouteStatus};
pub use sampling::{
    LogRandomness, MissingRandomness, SampleMode, SampleRatio, SampleRule, SampleStep,
};
pub use schema::{
    ChangePolicy, SchemaApproval, SchemaDifference, TelemetrySchema, TelemetrySchemaSpec,
    TelemetrySchemaStatus,
};
pub use scrape::{OverflowPolicy, PrometheusReceiver, ScrapeJob, ScrapeLimits, TargetAssignment};
pub use scrape_access::{
    ClientRef, ScrapeAuthorization, ScrapeBasicAuth, ScrapeOAuth2, ScrapeProxy, ScrapeScheme,
    ScrapeTls, TokenRef,
};
pub use scrape_rules::{RelabelAction, RelabelRule, ScrapeHttpList};
pub use scraping::TargetsStatus;
pub use secrets::{CredentialsRef, SecretKeyRef};
pub use signals::{DeletionPolicy, Ownership, PerSignal, Signal, TopicManagement, TopicSettings};
pub use status::{LagStatus, PodCount, TallyPart, TallyProcess, TallyStatus};
pub use table::{
    AttributeIndex, AttributeOf, Attributes, BodyIndex, Compatibility as TableCompatibility,
    Compression as TableCompression, Engine, Indexes, Layout, Materialized, MaterializedType,
    PartitionBy as TablePartitionBy, Replication, ReplicationMode, Storage, TableSettings,
    TypedPath,
};
pub use table_ttl::TableTtl;
pub use topic::{TelemetryTopic, TelemetryTopicSpec, TelemetryTopicStatus};
pub use tuning::{EdgeProducer, GatewayBatch, OtlpLimits};
