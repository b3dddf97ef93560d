//! Version v1alpha1: one file for each kind, and what they share.

// Each printer column has its own `type_`; the lint takes them for a duplicate.
#![allow(clippy::duplicated_attributes)]

mod connections;
mod edge;
mod gateway;
mod pipeline;
mod pools;
mod processing;
mod receivers;
pub(crate) mod rules;
mod schema;
mod signals;
mod table;
mod topic;

/// Calls a macro with the types of all kinds, in the order of the reference.
#[macro_export]
macro_rules! with_kinds {
    ($called:ident) => {
        $called! { TelemetryPipeline, EdgePool, GatewayPool, TelemetryTopic, TelemetrySchema }
    };
}

pub use connections::authentication::{
    CaSource, CertificateSecret, ClickHouseAuthentication, ClickHouseAuthenticationType,
    ClickHouseLogin, KafkaAuthentication, KafkaAuthenticationType, KafkaAwsMskIam, KafkaLogin,
    KafkaOAuth, MissingField, PasswordSecret, SaslMechanism, Username,
};
pub use connections::connection::{
    ClickHouseAdmin, ClickHouseTarget, ClickHouseTls, KafkaAdmin, KafkaConnection, KafkaTls,
};
pub use connections::coordination::{
    Coordination, CoordinationLimits, CoordinationStatus, CoordinationTable, CoordinationTls,
};
pub use connections::secrets::{CredentialsRef, SecretKeyRef};
pub use edge::{
    Acknowledge, Compression, EdgeBuffer, EdgeMode, EdgePool, EdgePoolSpec, EdgePoolStatus,
    EdgeRolloutSettings, EdgeSettings, EdgeSignal, IpFamily, IpFamilyPolicy, PartitionBy,
    PendingChange, PendingStage, ServiceSettings, ServiceType, TrafficPolicy,
};
pub use gateway::{
    Acknowledged, Delivery, GatewayPool, GatewayPoolSpec, GatewayPoolStatus, GatewaySettings,
    GatewaySignal, GroupProtocol, HotPartition, LearnedCapacity, Scaling, SizingSignals,
    SizingStatus, SizingTerms,
};
pub use pipeline::signals::{PipelineSignal, PipelineSignals, SignalDefaults};
pub use pipeline::{
    ChildStatus, PipelineEdge, PipelineEdgeStatus, TelemetryPipeline, TelemetryPipelineSpec,
    TelemetryPipelineStatus,
};
pub use pools::collector::{Allocator, CollectorSettings};
pub use pools::nodes::{LogsLostStatus, NodeBehind, NodeLost, NodesStatus};
pub use pools::own_telemetry::{OwnOtlp, OwnTelemetry, OwnTls, SecretHeader};
pub use pools::pods::{
    DisruptionBudgetSettings, ExtraMetadata, NetworkPolicySettings, PodTemplate, ResourceLimits,
    ResourceRequests, Resources, ServiceAccountSettings,
};
pub use pools::rollout::{
    CanarySettings, RolloutAction, RolloutFigures, RolloutReport, RolloutSettings, RolloutStage,
    RolloutStatus, RolloutUnit,
};
pub use pools::status::{LagStatus, PodCount, TallyPart, TallyProcess, TallyStatus};
pub use pools::tuning::{EdgeProducer, GatewayBatch, OtlpLimits};
pub use processing::enrichment::{EnrichStep, OnConflict, PodAssociation, PodMetadataStep};
pub use processing::redaction::{
    BlockedKeys, DropAction, HashAction, HashEncoding, KeyList, MaskAction, ReadySet, RedactAction,
    RedactPattern, RedactStep, SetAction,
};
pub use processing::routes::{PoolRouteStatus, RouteConsumer, RouteStatus};
pub use processing::sampling::{
    LogRandomness, MissingRandomness, SampleMode, SampleRatio, SampleRule, SampleStep,
};
pub use processing::{
    DropStep, ErrorMode, ProcessedSignal, ProcessingStep, RouteStep, StatementContext,
};
pub use receivers::discovery::{
    AnnotatedSelection, KubernetesDiscovery, LabelOperator, LabelRequirement, LabelSelector,
    MonitorSelection,
};
pub use receivers::scrape::{
    OverflowPolicy, PrometheusReceiver, ScrapeJob, ScrapeLimits, TargetAssignment,
};
pub use receivers::scrape_access::{
    ClientRef, ScrapeAuthorization, ScrapeBasicAuth, ScrapeOAuth2, ScrapeProxy, ScrapeScheme,
    ScrapeTls, TokenRef,
};
pub use receivers::scrape_rules::{RelabelAction, RelabelRule, ScrapeHttpList};
pub use receivers::scrape_status::TargetsStatus;
pub use receivers::{
    ContainersReceiver, Encoding, FilesReceiver, KernelReceiver, Multiline, NamespaceWeight,
    OtlpReceiver, Parse, ParseFormat, PodMetadata, Receivers, ServerTls, StackTraces, StartAt,
    TimeFormat, Timestamp,
};
pub use schema::{
    ChangePolicy, SchemaApproval, SchemaDifference, TelemetrySchema, TelemetrySchemaSpec,
    TelemetrySchemaStatus,
};
pub use signals::{DeletionPolicy, Ownership, PerSignal, Signal, TopicManagement, TopicSettings};
pub use table::ttl::TableTtl;
pub use table::{
    AttributeIndex, AttributeOf, Attributes, BodyIndex, Compatibility as TableCompatibility,
    Compression as TableCompression, Engine, Indexes, Layout, Materialized, MaterializedType,
    PartitionBy as TablePartitionBy, Replication, ReplicationMode, Storage, TableSettings,
    TypedPath,
};
pub use topic::{TelemetryTopic, TelemetryTopicSpec, TelemetryTopicStatus};
