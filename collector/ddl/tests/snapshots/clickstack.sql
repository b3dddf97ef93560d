CREATE DATABASE IF NOT EXISTS `telemetry`;

CREATE TABLE IF NOT EXISTS `telemetry`.`acme_traces`
(
    `Timestamp` DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    `TraceId` String CODEC(ZSTD(1)),
    `SpanId` String CODEC(ZSTD(1)),
    `ParentSpanId` String CODEC(ZSTD(1)),
    `TraceState` String CODEC(ZSTD(1)),
    `SpanName` LowCardinality(String) CODEC(ZSTD(1)),
    `SpanKind` LowCardinality(String) CODEC(ZSTD(1)),
    `ServiceName` LowCardinality(String) CODEC(ZSTD(1)),
    `ResourceAttributes` Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    `ScopeName` String CODEC(ZSTD(1)),
    `ScopeVersion` String CODEC(ZSTD(1)),
    `SpanAttributes` Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    `Duration` UInt64 CODEC(ZSTD(1)),
    `StatusCode` LowCardinality(String) CODEC(ZSTD(1)),
    `StatusMessage` String CODEC(ZSTD(1)),
    `Events.Timestamp` Array(DateTime64(9)) CODEC(ZSTD(1)),
    `Events.Name` Array(LowCardinality(String)) CODEC(ZSTD(1)),
    `Events.Attributes` Array(Map(LowCardinality(String), String)) CODEC(ZSTD(1)),
    `Links.TraceId` Array(String) CODEC(ZSTD(1)),
    `Links.SpanId` Array(String) CODEC(ZSTD(1)),
    `Links.TraceState` Array(String) CODEC(ZSTD(1)),
    `Links.Attributes` Array(Map(LowCardinality(String), String)) CODEC(ZSTD(1)),
    `__hdx_materialized_rum.sessionId` String MATERIALIZED `ResourceAttributes`['rum.sessionId'] CODEC(ZSTD(1)),
    `SampleRate` UInt64 MATERIALIZED greatest(toUInt64OrZero(`SpanAttributes`['SampleRate']), 1) CODEC(ZSTD(1)),
    INDEX `idx_trace_id` `TraceId` TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX `idx_res_attr_value` mapValues(`ResourceAttributes`) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX `idx_span_attr_value` mapValues(`SpanAttributes`) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX `idx_rum_session_id` `__hdx_materialized_rum.sessionId` TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX `idx_lower_span_name` lower(`SpanName`) TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 8
)
ENGINE = MergeTree
PARTITION BY toDate(`Timestamp`)
ORDER BY (`ServiceName`, toDateTime(`Timestamp`))
SETTINGS index_granularity = 8192, vertical_merge_algorithm_min_rows_to_activate = 1, materialize_ttl_recalculate_only = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `telemetry`.`acme_traces_trace_id_ts`
(
    `TraceId` String CODEC(ZSTD(1)),
    `Start` DateTime CODEC(Delta(4), ZSTD(1)),
    `End` DateTime CODEC(Delta(4), ZSTD(1)),
    INDEX `idx_trace_id` `TraceId` TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(`Start`)
ORDER BY (`TraceId`, `Start`)
SETTINGS index_granularity = 8192, vertical_merge_algorithm_min_rows_to_activate = 1, materialize_ttl_recalculate_only = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `telemetry`.`acme_logs`
(
    `Timestamp` DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    `TimestampTime` DateTime DEFAULT toDateTime(`Timestamp`) CODEC(Delta(4), ZSTD(1)),
    `TraceId` String CODEC(ZSTD(1)),
    `SpanId` String CODEC(ZSTD(1)),
    `TraceFlags` UInt8,
    `SeverityText` LowCardinality(String) CODEC(ZSTD(1)),
    `SeverityNumber` UInt8,
    `ServiceName` LowCardinality(String) CODEC(ZSTD(1)),
    `Body` String CODEC(ZSTD(1)),
    `ResourceSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    `ResourceAttributes` Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    `ScopeSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeName` String CODEC(ZSTD(1)),
    `ScopeVersion` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeAttributes` Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    `LogAttributes` Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    `EventName` String CODEC(ZSTD(1)),
    `__hdx_materialized_k8s.cluster.name` LowCardinality(String) MATERIALIZED `ResourceAttributes`['k8s.cluster.name'] CODEC(ZSTD(1)),
    `__hdx_materialized_k8s.container.name` LowCardinality(String) MATERIALIZED `ResourceAttributes`['k8s.container.name'] CODEC(ZSTD(1)),
    `__hdx_materialized_k8s.deployment.name` LowCardinality(String) MATERIALIZED `ResourceAttributes`['k8s.deployment.name'] CODEC(ZSTD(1)),
    `__hdx_materialized_k8s.namespace.name` LowCardinality(String) MATERIALIZED `ResourceAttributes`['k8s.namespace.name'] CODEC(ZSTD(1)),
    `__hdx_materialized_k8s.node.name` LowCardinality(String) MATERIALIZED `ResourceAttributes`['k8s.node.name'] CODEC(ZSTD(1)),
    `__hdx_materialized_k8s.pod.name` LowCardinality(String) MATERIALIZED `ResourceAttributes`['k8s.pod.name'] CODEC(ZSTD(1)),
    `__hdx_materialized_k8s.pod.uid` LowCardinality(String) MATERIALIZED `ResourceAttributes`['k8s.pod.uid'] CODEC(ZSTD(1)),
    `__hdx_materialized_deployment.environment.name` LowCardinality(String) MATERIALIZED `ResourceAttributes`['deployment.environment.name'] CODEC(ZSTD(1)),
    INDEX `idx_trace_id` `TraceId` TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX `idx_res_attr_value` mapValues(`ResourceAttributes`) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX `idx_log_attr_value` mapValues(`LogAttributes`) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX `idx_lower_body` lower(`Body`) TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 8
)
ENGINE = MergeTree
PARTITION BY toDate(`TimestampTime`)
PRIMARY KEY (`ServiceName`, `TimestampTime`)
ORDER BY (`ServiceName`, `TimestampTime`, `Timestamp`)
SETTINGS index_granularity = 8192, vertical_merge_algorithm_min_rows_to_activate = 1, materialize_ttl_recalculate_only = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `telemetry`.`acme_metrics_gauge`
(
    `ResourceAttributes` Map(LowCardinality(String), LowCardinality(String)) CODEC(ZSTD(1)),
    `ResourceSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeName` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeVersion` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeAttributes` Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    `ScopeDroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    `ScopeSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    `ServiceName` LowCardinality(String) CODEC(ZSTD(1)),
    `MetricName` LowCardinality(String) CODEC(ZSTD(1)),
    `MetricDescription` LowCardinality(String) CODEC(ZSTD(1)),
    `MetricUnit` LowCardinality(String) CODEC(ZSTD(1)),
    `Attributes` Map(LowCardinality(String), LowCardinality(String)) CODEC(ZSTD(1)),
    `StartTimeUnix` DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    `TimeUnix` DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    `Value` Float64 CODEC(ZSTD(1)),
    `Flags` UInt32 CODEC(ZSTD(1)),
    `Exemplars.FilteredAttributes` Array(Map(LowCardinality(String), String)) CODEC(ZSTD(1)),
    `Exemplars.TimeUnix` Array(DateTime64(9)) CODEC(ZSTD(1)),
    `Exemplars.Value` Array(Float64) CODEC(ZSTD(1)),
    `Exemplars.SpanId` Array(String) CODEC(ZSTD(1)),
    `Exemplars.TraceId` Array(String) CODEC(ZSTD(1)),
    INDEX `idx_res_attr_value` mapValues(`ResourceAttributes`) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX `idx_attr_value` mapValues(`Attributes`) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX `idx_time_minmax` `TimeUnix` TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(`TimeUnix`)
ORDER BY (`ServiceName`, `MetricName`, toStartOfHour(`TimeUnix`), cityHash64(`Attributes`), `TimeUnix`)
SETTINGS index_granularity = 8192, vertical_merge_algorithm_min_rows_to_activate = 1, materialize_ttl_recalculate_only = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `telemetry`.`acme_metrics_sum`
(
    `ResourceAttributes` Map(LowCardinality(String), LowCardinality(String)) CODEC(ZSTD(1)),
    `ResourceSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeName` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeVersion` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeAttributes` Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    `ScopeDroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    `ScopeSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    `ServiceName` LowCardinality(String) CODEC(ZSTD(1)),
    `MetricName` LowCardinality(String) CODEC(ZSTD(1)),
    `MetricDescription` LowCardinality(String) CODEC(ZSTD(1)),
    `MetricUnit` LowCardinality(String) CODEC(ZSTD(1)),
    `Attributes` Map(LowCardinality(String), LowCardinality(String)) CODEC(ZSTD(1)),
    `StartTimeUnix` DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    `TimeUnix` DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    `Value` Float64 CODEC(ZSTD(1)),
    `Flags` UInt32 CODEC(ZSTD(1)),
    `Exemplars.FilteredAttributes` Array(Map(LowCardinality(String), String)) CODEC(ZSTD(1)),
    `Exemplars.TimeUnix` Array(DateTime64(9)) CODEC(ZSTD(1)),
    `Exemplars.Value` Array(Float64) CODEC(ZSTD(1)),
    `Exemplars.SpanId` Array(String) CODEC(ZSTD(1)),
    `Exemplars.TraceId` Array(String) CODEC(ZSTD(1)),
    `AggregationTemporality` Int32 CODEC(ZSTD(1)),
    `IsMonotonic` Bool CODEC(Delta(1), ZSTD(1)),
    INDEX `idx_res_attr_value` mapValues(`ResourceAttributes`) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX `idx_attr_value` mapValues(`Attributes`) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX `idx_time_minmax` `TimeUnix` TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(`TimeUnix`)
ORDER BY (`ServiceName`, `MetricName`, toStartOfHour(`TimeUnix`), cityHash64(`Attributes`), `TimeUnix`)
SETTINGS index_granularity = 8192, vertical_merge_algorithm_min_rows_to_activate = 1, materialize_ttl_recalculate_only = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `telemetry`.`acme_metrics_histogram`
(
    `ResourceAttributes` Map(LowCardinality(String), LowCardinality(String)) CODEC(ZSTD(1)),
    `ResourceSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeName` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeVersion` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeAttributes` Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    `ScopeDroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    `ScopeSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    `ServiceName` LowCardinality(String) CODEC(ZSTD(1)),
    `MetricName` LowCardinality(String) CODEC(ZSTD(1)),
    `MetricDescription` LowCardinality(String) CODEC(ZSTD(1)),
    `MetricUnit` LowCardinality(String) CODEC(ZSTD(1)),
    `Attributes` Map(LowCardinality(String), LowCardinality(String)) CODEC(ZSTD(1)),
    `StartTimeUnix` DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    `TimeUnix` DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    `Count` UInt64 CODEC(Delta(8), ZSTD(1)),
    `Sum` Float64 CODEC(ZSTD(1)),
    `BucketCounts` Array(UInt64) CODEC(ZSTD(1)),
    `ExplicitBounds` Array(Float64) CODEC(ZSTD(1)),
    `Exemplars.FilteredAttributes` Array(Map(LowCardinality(String), String)) CODEC(ZSTD(1)),
    `Exemplars.TimeUnix` Array(DateTime64(9)) CODEC(ZSTD(1)),
    `Exemplars.Value` Array(Float64) CODEC(ZSTD(1)),
    `Exemplars.SpanId` Array(String) CODEC(ZSTD(1)),
    `Exemplars.TraceId` Array(String) CODEC(ZSTD(1)),
    `Flags` UInt32 CODEC(ZSTD(1)),
    `Min` Float64 CODEC(ZSTD(1)),
    `Max` Float64 CODEC(ZSTD(1)),
    `AggregationTemporality` Int32 CODEC(ZSTD(1)),
    INDEX `idx_res_attr_value` mapValues(`ResourceAttributes`) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX `idx_attr_value` mapValues(`Attributes`) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX `idx_time_minmax` `TimeUnix` TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(`TimeUnix`)
ORDER BY (`ServiceName`, `MetricName`, toStartOfHour(`TimeUnix`), cityHash64(`Attributes`), `TimeUnix`)
SETTINGS index_granularity = 8192, vertical_merge_algorithm_min_rows_to_activate = 1, materialize_ttl_recalculate_only = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `telemetry`.`acme_metrics_exponential_histogram`
(
    `ResourceAttributes` Map(LowCardinality(String), LowCardinality(String)) CODEC(ZSTD(1)),
    `ResourceSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeName` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeVersion` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeAttributes` Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    `ScopeDroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    `ScopeSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    `ServiceName` LowCardinality(String) CODEC(ZSTD(1)),
    `MetricName` LowCardinality(String) CODEC(ZSTD(1)),
    `MetricDescription` LowCardinality(String) CODEC(ZSTD(1)),
    `MetricUnit` LowCardinality(String) CODEC(ZSTD(1)),
    `Attributes` Map(LowCardinality(String), LowCardinality(String)) CODEC(ZSTD(1)),
    `StartTimeUnix` DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    `TimeUnix` DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    `Count` UInt64 CODEC(Delta(8), ZSTD(1)),
    `Sum` Float64 CODEC(ZSTD(1)),
    `Scale` Int32 CODEC(ZSTD(1)),
    `ZeroCount` UInt64 CODEC(ZSTD(1)),
    `PositiveOffset` Int32 CODEC(ZSTD(1)),
    `PositiveBucketCounts` Array(UInt64) CODEC(ZSTD(1)),
    `NegativeOffset` Int32 CODEC(ZSTD(1)),
    `NegativeBucketCounts` Array(UInt64) CODEC(ZSTD(1)),
    `Exemplars.FilteredAttributes` Array(Map(LowCardinality(String), String)) CODEC(ZSTD(1)),
    `Exemplars.TimeUnix` Array(DateTime64(9)) CODEC(ZSTD(1)),
    `Exemplars.Value` Array(Float64) CODEC(ZSTD(1)),
    `Exemplars.SpanId` Array(String) CODEC(ZSTD(1)),
    `Exemplars.TraceId` Array(String) CODEC(ZSTD(1)),
    `Flags` UInt32 CODEC(ZSTD(1)),
    `Min` Float64 CODEC(ZSTD(1)),
    `Max` Float64 CODEC(ZSTD(1)),
    `AggregationTemporality` Int32 CODEC(ZSTD(1)),
    INDEX `idx_res_attr_value` mapValues(`ResourceAttributes`) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX `idx_attr_value` mapValues(`Attributes`) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX `idx_time_minmax` `TimeUnix` TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(`TimeUnix`)
ORDER BY (`ServiceName`, `MetricName`, toStartOfHour(`TimeUnix`), cityHash64(`Attributes`), `TimeUnix`)
SETTINGS index_granularity = 8192, vertical_merge_algorithm_min_rows_to_activate = 1, materialize_ttl_recalculate_only = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS `telemetry`.`acme_metrics_summary`
(
    `ResourceAttributes` Map(LowCardinality(String), LowCardinality(String)) CODEC(ZSTD(1)),
    `ResourceSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeName` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeVersion` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeAttributes` Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    `ScopeDroppedAttrCount` UInt32 CODEC(ZSTD(1)),
    `ScopeSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    `ServiceName` LowCardinality(String) CODEC(ZSTD(1)),
    `MetricName` LowCardinality(String) CODEC(ZSTD(1)),
    `MetricDescription` LowCardinality(String) CODEC(ZSTD(1)),
    `MetricUnit` LowCardinality(String) CODEC(ZSTD(1)),
    `Attributes` Map(LowCardinality(String), LowCardinality(String)) CODEC(ZSTD(1)),
    `StartTimeUnix` DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    `TimeUnix` DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    `Count` UInt64 CODEC(Delta(8), ZSTD(1)),
    `Sum` Float64 CODEC(ZSTD(1)),
    `ValueAtQuantiles.Quantile` Array(Float64) CODEC(ZSTD(1)),
    `ValueAtQuantiles.Value` Array(Float64) CODEC(ZSTD(1)),
    `Flags` UInt32 CODEC(ZSTD(1)),
    INDEX `idx_res_attr_value` mapValues(`ResourceAttributes`) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX `idx_attr_value` mapValues(`Attributes`) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX `idx_time_minmax` `TimeUnix` TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(`TimeUnix`)
ORDER BY (`ServiceName`, `MetricName`, toStartOfHour(`TimeUnix`), cityHash64(`Attributes`), `TimeUnix`)
SETTINGS index_granularity = 8192, vertical_merge_algorithm_min_rows_to_activate = 1, materialize_ttl_recalculate_only = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000;

CREATE MATERIALIZED VIEW IF NOT EXISTS `telemetry`.`acme_traces_trace_id_ts_mv` TO `telemetry`.`acme_traces_trace_id_ts`
AS SELECT
    `TraceId`,
    min(`Timestamp`) AS `Start`,
    max(`Timestamp`) AS `End`
FROM `telemetry`.`acme_traces`
WHERE `TraceId` != ''
GROUP BY `TraceId`;

