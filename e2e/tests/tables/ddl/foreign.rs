//! Tables that Rotel's tool, the OpenTelemetry Collector's exporter and ClickStack make, each
//! signal and each kind of metric, with rows in every one: recognised, taken over, and nothing
//! lost. Their columns, keys and indexes are test data, written down from research into each one's
//! statements.

use std::collections::BTreeMap;

use crate::tables::ddl::client::{block_on, client};
use millrace_ddl::{
    AttributeStorage, Declared, MigrateOptions, Severity, Signals, StepClass, TableOptions,
    TableOrigin, migrate_server, observe_declared, plan_migration,
};
use millrace_stack::clickhouse::{Engine, EngineOptions};

const MAP: &str = "Map(LowCardinality(String), String)";

/// Rows put into each table before it is taken over.
const ROWS: u64 = 7;

/// One writer's way: which statements it makes.
#[derive(Clone, Copy)]
pub(crate) struct Writer {
    pub(crate) whose: TableOrigin,
    pub(crate) attributes: AttributeStorage,
    /// Its statements since the exporter's 0.151, and ClickStack's of 2026.
    is_newest: bool,
}

impl Writer {
    pub(crate) fn new(whose: TableOrigin, attributes: AttributeStorage) -> Self {
        Self { whose, attributes, is_newest: false }
    }

    fn is(self, whose: TableOrigin) -> bool {
        self.whose == whose
    }

    fn is_json(self) -> bool {
        self.attributes == AttributeStorage::Json
    }

    /// `column set`, where the Collector's JSON tables keep the names beside it.
    fn set(self, column: &str) -> String {
        match (self.is_json(), self.is(TableOrigin::Collector)) {
            (false, _) => format!("{column} {MAP}"),
            (true, false) => format!("{column} JSON"),
            (true, true) => {
                format!("{column} JSON, {column}Keys Array(LowCardinality(String))")
            }
        }
    }

    fn nested_set(self) -> &'static str {
        if self.is_json() { "JSON" } else { MAP }
    }

    fn map_indexes(self, columns: &[(&str, &str)]) -> String {
        if self.is_json() {
            return String::new();
        }
        let each = |(column, short): &(&str, &str)| {
            format!(
                ", INDEX idx_{short}_key mapKeys({column}) TYPE bloom_filter(0.01) GRANULARITY 1, \
                 INDEX idx_{short}_value mapValues({column}) TYPE bloom_filter(0.01) GRANULARITY 1"
            )
        };
        columns.iter().map(each).collect()
    }

    pub(crate) fn statements(self) -> Vec<String> {
        let mut all = vec!["CREATE DATABASE db".to_owned()];
        all.extend(self.traces());
        all.push(self.logs());
        all.extend(self.metrics());
        all
    }

    fn traces(self) -> [String; 3] {
        let sampled = match self.whose {
            TableOrigin::ClickStack => ", SampleRate UInt64 MATERIALIZED 1",
            TableOrigin::Collector if self.is_newest => {
                ", SpanAttributeItems Array(String) ALIAS arrayMap(kv -> concat(kv.1, '=', kv.2), \
                 CAST(SpanAttributes, 'Array(Tuple(String, String))'))"
            }
            _ => "",
        };
        let set = self.nested_set();
        let (resource, span) = (self.set("ResourceAttributes"), self.set("SpanAttributes"));
        let indexes = self
            .map_indexes(&[("ResourceAttributes", "res_attr"), ("SpanAttributes", "span_attr")]);
        [
            format!(
                "CREATE TABLE db.otel_traces (Timestamp DateTime64(9) CODEC(Delta, ZSTD(1)), \
                 TraceId String CODEC(ZSTD(1)), SpanId String CODEC(ZSTD(1)), ParentSpanId String \
                 CODEC(ZSTD(1)), TraceState String CODEC(ZSTD(1)), SpanName LowCardinality(String) \
                 CODEC(ZSTD(1)), SpanKind LowCardinality(String) CODEC(ZSTD(1)), ServiceName \
                 LowCardinality(String) CODEC(ZSTD(1)), {resource}, ScopeName String \
                 CODEC(ZSTD(1)), ScopeVersion String CODEC(ZSTD(1)), {span}, Duration UInt64 \
                 CODEC(ZSTD(1)), StatusCode LowCardinality(String) CODEC(ZSTD(1)), StatusMessage \
                 String CODEC(ZSTD(1)), Events Nested (Timestamp DateTime64(9), Name \
                 LowCardinality(String), Attributes {set}) CODEC(ZSTD(1)), Links Nested (TraceId \
                 String, SpanId String, TraceState String, Attributes {set}) \
                 CODEC(ZSTD(1)){sampled}, INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) \
                 GRANULARITY 1{indexes}, INDEX idx_duration Duration TYPE minmax GRANULARITY 1) \
                 ENGINE = MergeTree PARTITION BY toDate(Timestamp) ORDER BY (ServiceName, \
                 SpanName, toDateTime(Timestamp)) SETTINGS index_granularity = 8192, \
                 ttl_only_drop_parts = 1"
            ),
            "CREATE TABLE db.otel_traces_trace_id_ts (TraceId String CODEC(ZSTD(1)), Start \
             DateTime CODEC(Delta, ZSTD(1)), End DateTime CODEC(Delta, ZSTD(1)), INDEX \
             idx_trace_id TraceId TYPE bloom_filter(0.01) GRANULARITY 1) ENGINE = MergeTree \
             PARTITION BY toDate(Start) ORDER BY (TraceId, Start) SETTINGS index_granularity = 8192"
                .to_owned(),
            "CREATE MATERIALIZED VIEW db.otel_traces_trace_id_ts_mv TO db.otel_traces_trace_id_ts \
             AS SELECT TraceId, min(Timestamp) AS Start, max(Timestamp) AS End FROM \
             db.otel_traces WHERE TraceId != '' GROUP BY TraceId"
                .to_owned(),
        ]
    }

    fn logs(self) -> String {
        let seconds = match (self.is_json(), self.whose) {
            (true, TableOrigin::Rotel) => "",
            _ => "TimestampTime DateTime DEFAULT toDateTime(Timestamp), ",
        };
        let tail = match (self.is_json(), self.whose) {
            (false, TableOrigin::Rotel) => "",
            (_, TableOrigin::ClickStack) => {
                ", EventName String, `__hdx_materialized_k8s.pod.name` LowCardinality(String) \
                 MATERIALIZED ResourceAttributes['k8s.pod.name']"
            }
            _ => ", EventName String CODEC(ZSTD(1))",
        };
        let order = match (self.is_json(), self.whose) {
            (_, TableOrigin::Collector) => {
                "(toStartOfFiveMinutes(Timestamp), ServiceName, Timestamp)"
            }
            (true, _) => "(ServiceName, Timestamp)",
            (false, _) => "(ServiceName, TimestampTime, Timestamp)",
        };
        let [resource, scope, log] =
            ["ResourceAttributes", "ScopeAttributes", "LogAttributes"].map(|name| self.set(name));
        format!(
            "CREATE TABLE db.otel_logs (Timestamp DateTime64(9) CODEC(Delta(8), ZSTD(1)), \
             {seconds}TraceId String CODEC(ZSTD(1)), SpanId String CODEC(ZSTD(1)), TraceFlags \
             UInt8, SeverityText LowCardinality(String) CODEC(ZSTD(1)), SeverityNumber UInt8, \
             ServiceName LowCardinality(String) CODEC(ZSTD(1)), Body String CODEC(ZSTD(1)), \
             ResourceSchemaUrl LowCardinality(String) CODEC(ZSTD(1)), {resource}, ScopeSchemaUrl \
             LowCardinality(String) CODEC(ZSTD(1)), ScopeName String CODEC(ZSTD(1)), ScopeVersion \
             LowCardinality(String) CODEC(ZSTD(1)), {scope}, {log}{tail}, INDEX idx_trace_id \
             TraceId TYPE bloom_filter(0.001) GRANULARITY 1, INDEX idx_body Body TYPE \
             tokenbf_v1(32768, 3, 0) GRANULARITY 8) ENGINE = MergeTree PARTITION BY \
             toDate(Timestamp) ORDER BY {order} SETTINGS index_granularity = 8192, \
             ttl_only_drop_parts = 1"
        )
    }

    /// The type of points' times: whole seconds in newer tables with Map.
    fn point_time(self) -> &'static str {
        if self.is_newest && !self.is_json() { "DateTime" } else { "DateTime64(9)" }
    }

    fn metrics(self) -> Vec<String> {
        let exemplars = format!(
            "Exemplars Nested (FilteredAttributes {}, TimeUnix {}, Value Float64, SpanId String, \
             TraceId String) CODEC(ZSTD(1))",
            self.nested_set(),
            self.point_time()
        );
        let bounds = "Count UInt64 CODEC(Delta, ZSTD(1)), Sum Float64 CODEC(ZSTD(1))";
        let range = "Min Float64 CODEC(ZSTD(1)), Max Float64 CODEC(ZSTD(1))";
        let exponential = match self.whose {
            TableOrigin::Collector => "exp_histogram",
            _ => "exponential_histogram",
        };
        [
            ("gauge", format!("Value Float64 CODEC(ZSTD(1)), Flags UInt32, {exemplars}")),
            (
                "sum",
                format!(
                    "Value Float64 CODEC(ZSTD(1)), Flags UInt32, {exemplars}, \
                     AggregationTemporality Int32, IsMonotonic Boolean CODEC(Delta, ZSTD(1))"
                ),
            ),
            (
                "histogram",
                format!(
                    "{bounds}, BucketCounts Array(UInt64), ExplicitBounds Array(Float64), \
                     {exemplars}, Flags UInt32, {range}, AggregationTemporality Int32"
                ),
            ),
            (
                exponential,
                format!(
                    "{bounds}, Scale Int32, ZeroCount UInt64, PositiveOffset Int32, \
                     PositiveBucketCounts Array(UInt64), NegativeOffset Int32, \
                     NegativeBucketCounts Array(UInt64), {exemplars}, Flags UInt32, {range}, \
                     AggregationTemporality Int32"
                ),
            ),
            (
                "summary",
                format!(
                    "{bounds}, ValueAtQuantiles Nested (Quantile Float64, Value Float64) \
                     CODEC(ZSTD(1)), Flags UInt32"
                ),
            ),
        ]
        .into_iter()
        .map(|(kind, own)| self.metric(kind, &own))
        .collect()
    }

    /// Whether points are sorted by the hour and a hash of their attributes.
    fn is_by_hour(self) -> bool {
        self.is(TableOrigin::ClickStack) || (self.is_newest && !self.is_json())
    }

    fn metric(self, kind: &str, own: &str) -> String {
        let [resource, scope, point] =
            ["ResourceAttributes", "ScopeAttributes", "Attributes"].map(|name| self.set(name));
        let order = match self.is_json() {
            _ if self.is_by_hour() => {
                "(ServiceName, MetricName, toStartOfHour(TimeUnix), cityHash64(Attributes), \
                 TimeUnix)"
            }
            true => "(ServiceName, MetricName, toUnixTimestamp64Nano(TimeUnix))",
            false => "(ServiceName, MetricName, Attributes, toUnixTimestamp64Nano(TimeUnix))",
        };
        let mut indexes = self.map_indexes(&[
            ("ResourceAttributes", "res_attr"),
            ("ScopeAttributes", "scope_attr"),
            ("Attributes", "attr"),
        ]);
        if self.is_newest {
            indexes.push_str(", INDEX idx_time_minmax TimeUnix TYPE minmax GRANULARITY 1");
        }
        let time = self.point_time();
        format!(
            "CREATE TABLE db.otel_metrics_{kind} ({resource}, ResourceSchemaUrl String \
             CODEC(ZSTD(1)), ScopeName String CODEC(ZSTD(1)), ScopeVersion String CODEC(ZSTD(1)), \
             {scope}, ScopeDroppedAttrCount UInt32 CODEC(ZSTD(1)), ScopeSchemaUrl String \
             CODEC(ZSTD(1)), ServiceName LowCardinality(String) CODEC(ZSTD(1)), MetricName String \
             CODEC(ZSTD(1)), MetricDescription String CODEC(ZSTD(1)), MetricUnit String \
             CODEC(ZSTD(1)), {point}, StartTimeUnix {time} CODEC(Delta, ZSTD(1)), TimeUnix {time} \
             CODEC(Delta, ZSTD(1)), {own}{indexes}) ENGINE = MergeTree PARTITION BY \
             toDate(TimeUnix) ORDER BY {order} SETTINGS index_granularity = 8192, \
             ttl_only_drop_parts = 1"
        )
    }
}

fn lines(engine: &Engine, query: &str) -> Vec<String> {
    engine.query(query).unwrap().lines().map(str::to_owned).collect()
}

/// The columns of a table that its writer names in an insert, each with its type.
fn inserted(engine: &Engine, table: &str) -> Vec<(String, String)> {
    let query = format!(
        "SELECT name, type FROM system.columns WHERE database = 'db' AND table = '{table}' AND \
         default_kind = '' ORDER BY position"
    );
    let split = |line: String| {
        let (name, ty) = line.split_once('\t').unwrap();
        (format!("`{name}`"), ty.replace("\\'", "'"))
    };
    lines(engine, &query).into_iter().map(split).collect()
}

/// A value of each type that differs by row and is not the type's zero; `n` is the row.
fn value(ty: &str) -> String {
    match ty {
        "String" | "LowCardinality(String)" => "concat('v', toString(n))".to_owned(),
        "DateTime64(9)" => "fromUnixTimestamp64Nano(toInt64(1790000000000000000 + n))".to_owned(),
        "DateTime" => "toDateTime(1790000000 + n)".to_owned(),
        "Bool" => "(n % 2 = 1)".to_owned(),
        "JSON" => "CAST(concat('{\"a\":{\"b\":', toString(n), '}}'), 'JSON')".to_owned(),
        MAP => format!("CAST(map('k', toString(n)), '{MAP}')"),
        _ => match ty.strip_prefix("Array(").and_then(|rest| rest.strip_suffix(')')) {
            Some(inner) => format!("[{}]", value(inner)),
            None => format!("CAST(n + 1, '{ty}')"),
        },
    }
}

/// Puts rows with a value in every column, as the table's own writer would.
fn fill(engine: &Engine, table: &str) {
    let columns = inserted(engine, table);
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let values: Vec<String> = columns.iter().map(|(_, ty)| value(ty)).collect();
    let query = format!(
        "INSERT INTO db.{table} ({}) SELECT {} FROM (SELECT number AS n FROM numbers({ROWS}))",
        names.join(", "),
        values.join(", ")
    );
    engine.query(&query).unwrap();
}

/// Every row of a table in the columns it had before, as text.
fn rows(engine: &Engine, table: &str, columns: &[(String, String)]) -> Vec<String> {
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let mut rows = lines(engine, &format!("SELECT {} FROM db.{table}", names.join(", ")));
    rows.sort_unstable();
    rows
}

/// Scenario: tables made by Rotel, by the OpenTelemetry Collector and by ClickStack, with Map and
/// JSON attributes, all signals and all five kinds of metrics, with rows in every one. Guarantee:
/// recognised and on record; the plan is additive and drops nothing; every row reads back as it
/// was; their own insert works before and after, and ours after, into every table. Slow: seven
/// engines start, one for each writer, and eight tables are made, changed and read in each.
#[test]
fn other_writers_tables_are_taken_over_with_every_row() {
    for writer in [
        Writer::new(TableOrigin::Rotel, AttributeStorage::Map),
        Writer::new(TableOrigin::Rotel, AttributeStorage::Json),
        Writer::new(TableOrigin::Collector, AttributeStorage::Map),
        Writer::new(TableOrigin::Collector, AttributeStorage::Json),
        Writer::new(TableOrigin::ClickStack, AttributeStorage::Map),
        Writer { is_newest: true, ..Writer::new(TableOrigin::Collector, AttributeStorage::Map) },
        Writer { is_newest: true, ..Writer::new(TableOrigin::ClickStack, AttributeStorage::Map) },
    ] {
        take_over(writer);
    }
}

fn take_over(writer: Writer) {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let client = client(&engine);
    for statement in writer.statements() {
        engine.query(&statement).unwrap_or_else(|error| panic!("{statement}\n{error}"));
    }
    let tables = lines(
        &engine,
        "SELECT name FROM system.tables WHERE database = 'db' AND engine = 'MergeTree'",
    );
    assert_eq!(tables.len(), 8, "{tables:?}");
    let whose = format!("{} {:?}", writer.whose, writer.attributes);
    // The lookup's rows come from the spans.
    for table in tables.iter().filter(|table| !table.ends_with("_ts")) {
        fill(&engine, table);
    }
    let mut before = BTreeMap::new();
    for table in &tables {
        let columns = inserted(&engine, table);
        let found = rows(&engine, table, &columns);
        assert_eq!(found.len() as u64, ROWS, "{whose}: {table}");
        before.insert(table.clone(), (columns, found));
    }
    let options = TableOptions { attributes: writer.attributes, ..TableOptions::default() };
    let name = |text: &str| text.parse().unwrap();
    let wanted = Declared::uniform(name("db"), name("otel"), Signals::ALL, &options);
    block_on(async {
        let seen = observe_declared(&client, &wanted).await.unwrap();
        assert_eq!(millrace_ddl::detect_origin(&wanted, &seen), writer.whose, "{whose}");
        let planned = plan_migration(&wanted, &seen);
        assert!(planned.blocked.is_empty(), "{whose}: {:?}", planned.blocked);
        for step in &planned.steps {
            assert_eq!(step.class, StepClass::MetadataOnly, "{whose}: {}", step.what);
            assert!(!step.statement.sql().contains("DROP"), "{whose}");
        }
        let mut options = MigrateOptions::new("test");
        options.retries = 0;
        let done = migrate_server(&client, &wanted, &options).await.unwrap();
        assert_eq!(done.adopted, Some(writer.whose), "{whose}");
        let breaking: Vec<_> =
            done.drift.iter().filter(|drift| drift.severity == Severity::Breaking).collect();
        assert!(breaking.is_empty(), "{whose}: {breaking:?}");
        // Points sorted by their attributes stay so, and nothing is said of it.
        let drift = done.drift.iter().map(ToString::to_string);
        let moved = drift.filter(|it| it.contains("metrics") && it.contains("sorting key is"));
        // Our table of exponential histograms is made beside the Collector's.
        let tables = if writer.is(TableOrigin::Collector) { 4 } else { 5 };
        assert_eq!(moved.count(), if writer.is_by_hour() { tables } else { 0 }, "{whose}");
        // What coarser times lose is said: of both times of each point, and those of exemplars.
        let drift = done.drift.iter().map(ToString::to_string);
        let coarser = drift.filter(|it| it.ends_with("times lose precision"));
        let is_coarser = writer.point_time() == "DateTime";
        let columns = if is_coarser { 2 * tables + tables - 1 } else { 0 };
        assert_eq!(coarser.count(), columns, "{whose}");
        let again = migrate_server(&client, &wanted, &options).await.unwrap();
        assert!(again.applied.done.is_empty(), "{whose}: {:?}", again.applied.done);
    });
    for (table, (columns, found)) in &before {
        assert_eq!(&rows(&engine, table, columns), found, "{whose}: {table}");
    }
    for (table, (columns, _)) in &before {
        // Their writer's insert, whose column list is the one before.
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(", ");
        let again = format!("INSERT INTO db.{table} ({names}) SELECT {names} FROM db.{table}");
        engine.query(&again).unwrap_or_else(|error| panic!("{whose}: {again}\n{error}"));
    }
    for table in wanted.tables() {
        let columns: Vec<_> =
            table.table.insert_columns().map(|column| format!("`{}`", column.name)).collect();
        let (name, columns) = (&table.name, columns.join(", "));
        let copy = format!("INSERT INTO {name} ({columns}) SELECT {columns} FROM {name}");
        engine.query(&copy).unwrap_or_else(|error| panic!("{whose}: {copy}\n{error}"));
    }
    let count = engine.query("SELECT count() FROM db.otel_metrics_summary").unwrap();
    assert_eq!(count.trim(), (4 * ROWS).to_string(), "{whose}");
}
