//! Version v1alpha1: one file for each kind, and what they share.

// Each printer column has its own `type_`; the lint takes them for a duplicate.
#![allow(clippy::duplicated_attributes)]

mod collector;
mod connection;
mod coordination;
mod discovery;
mod edge;
mod gateway;
mod nodes;
mod own;
mod pipeline;
mod pods;
mod receivers;
mod rollout;
pub(crate) mod rules;
mod schema;
mod scrape;
mod scrape_access;
mod scrape_rules;
mod scraping;
mod signals;
mod status;
mod table;
mod topic;

pub use collector::{Allocator, CollectorSettings};
pub use connection::{
    CaRef, ClickHouseTarget, ClickHouseTls, CredentialsRef, KafkaConnection, KafkaSasl, KafkaTls,
    SaslMechanism, SecretRef,
};
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
pub use gateway::{
    Delivery, GatewayPool, GatewayPoolSpec, GatewayPoolStatus, GatewaySettings, GatewaySignal,
    GroupProtocol, HotPartition, LearnedCapacity, Scaling, SizingSignals, SizingStatus,
    SizingTerms,
};
pub use gateway::{ResizeStatus, ResizeWay};
pub use nodes::{LogsLostStatus, NodeBehind, NodeLost, NodesStatus};
pub use own::{OwnOtlp, OwnTelemetry, OwnTls, SecretHeader, SecretKeyRef};
pub use pipeline::{
    ChildStatus, PipelineEdge, PipelineEdgeStatus, PipelineSignal, TelemetryPipeline,
    TelemetryPipelineSpec, TelemetryPipelineStatus,
};
pub use pods::{
    CpuRange, DisruptionBudgetSettings, ExtraMetadata, MemoryRange, NetworkPolicySettings,
    PodTemplate, Resources,
};
pub use receivers::{
    ContainersReceiver, Encoding, FilesReceiver, KernelReceiver, Multiline, NamespaceWeight,
    OtlpReceiver, Parse, ParseFormat, Receivers, ServerTls, StartAt, TimeFormat, Timestamp, Traces,
};
pub use rollout::{
    CanarySettings, RolloutFigures, RolloutReport, RolloutSettings, RolloutStage, RolloutStatus,
    RolloutUnit,
};
pub use schema::{
    ChangePolicy, SchemaDifference, TelemetrySchema, TelemetrySchemaSpec, TelemetrySchemaStatus,
};
pub use scrape::{AtCap, PrometheusReceiver, ScrapeJob, ScrapeLimits, SharingSettings};
pub use scrape_access::{
    ClientRef, ScrapeAuthorization, ScrapeBasicAuth, ScrapeOAuth2, ScrapeProxy, ScrapeScheme,
    ScrapeTls, TokenRef,
};
pub use scrape_rules::{RelabelAction, RelabelRule, ScrapeHttpList};
pub use scraping::TargetsStatus;
pub use signals::{DeletionPolicy, PerSignal, Signal, TopicSettings};
pub use status::{LagStatus, PodCount, TallyCounted, TallyPart, TallyStatus};
pub use table::{
    AttributeIndex, AttributeOf, Attributes, BodyIndex, Compression as TableCompression, Engine,
    Indexes, Layout, Materialized, MaterializedType, OrderBy, PartitionBy as TablePartitionBy,
    Reader as TableReader, Replication, Storage, TableSettings, TypedPath,
};
pub use topic::{TelemetryTopic, TelemetryTopicSpec, TelemetryTopicStatus};
