//! The load generator's judge against a real ClickHouse engine: rows that went the collector's own
//! way (bytes to Native blocks) are verified, and a row that is lost, doubled or changed is found.

use std::time::Duration;

use crate::tables::ddl::client::{block_on, client};
use millrace_columns::{BlockSet, BodyCompression, Options};
use millrace_ddl::render::insert_statement;
use millrace_ddl::{
    AttributeStorage, DdlClient, Declared, MigrateOptions, Signals, TableName, TableOptions,
    converge_servers,
};
use millrace_loadgen::{
    CheckOptions, CheckReport, LoadPlan, LoadShape, SendState, check_load, encode_request,
};
use millrace_schema::build_table;
use millrace_stack::clickhouse::{Engine, EngineOptions};

struct Bench {
    engine: Engine,
    client: DdlClient,
    options: CheckOptions,
}

impl Bench {
    fn start(attributes: AttributeStorage) -> Self {
        let engine = Engine::start(EngineOptions::default()).unwrap();
        let client = client(&engine);
        let tables = TableOptions { attributes, ..TableOptions::default() };
        let name = || "otel".parse().unwrap();
        let declared = Declared::uniform(name(), name(), Signals::ALL, &tables);
        block_on(converge_servers(&client, &declared, &MigrateOptions::new("test"))).unwrap();
        let options = CheckOptions {
            attributes,
            deadline: Duration::from_secs(1),
            ..CheckOptions::new(name(), name())
        };
        Self { engine, client, options }
    }

    /// Stores requests as a gateway does.
    fn store(&self, plan: &LoadPlan, requests: std::ops::Range<u64>) {
        let options = Options { attributes: self.options.attributes, ..Options::default() };
        let mut blocks = BlockSet::new(plan.shape.signal(), &options);
        for number in requests {
            blocks.append(&encode_request(plan, number)).unwrap();
        }
        for insert in blocks.take_inserts(BodyCompression::Lz4) {
            let (database, prefix) = (&self.options.database, &self.options.prefix);
            let name = TableName::new(database, prefix, insert.table);
            let header =
                insert_statement(&name, &build_table(insert.table, self.options.attributes));
            let query = header.sql().replace('`', "%60").replace(' ', "%20");
            let path = format!("/?decompress=1&async_insert=0&query={query}");
            let answer = self.engine.request(&path, &[], &insert.body.concat()).unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
    }

    fn check(&self, acked: &SendState) -> CheckReport {
        block_on(check_load(acked, &self.client, &self.options, |_| {})).unwrap()
    }
}

fn plan(count: u64, shape: LoadShape) -> LoadPlan {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    LoadPlan::new(shape, count, count, now.as_nanos() as u64)
}

fn all_acked(plan: &LoadPlan) -> SendState {
    let mut acked = SendState::new(plan.clone());
    for number in 0..plan.request_count() {
        assert!(acked.acknowledged.insert(number) && acked.attempted.insert(number));
    }
    acked
}

const SHAPES: [LoadShape; 4] =
    [LoadShape::Lean, LoadShape::Rich, LoadShape::Logs, LoadShape::Metrics];

/// Scenario: every signal and shape through both variants, two runs of spans in one table.
/// Guarantee: each run is verified, every column of every row, without seeing the other. Slow: two
/// engines start, and each column of 44,000 records is compared.
#[test]
fn stored_rows_are_verified_in_both_variants() {
    for attributes in [AttributeStorage::Json, AttributeStorage::Map] {
        let bench = Bench::start(attributes);
        for shape in SHAPES {
            let plan = plan(5_500, shape);
            bench.store(&plan, 0..plan.request_count());
            let report = bench.check(&all_acked(&plan));
            assert_eq!(
                report.to_string(),
                "verified: sent=5500 stored=5500 missing=0 duplicated=0 altered=0",
                "{attributes:?} {shape:?} {:?}",
                report.examples
            );
        }
    }
}

/// Scenario: a request is lost, another stored twice, and one row has another duration.
/// Guarantee: counted to the span.
#[test]
fn lost_doubled_and_changed_rows_are_found() {
    let bench = Bench::start(AttributeStorage::Json);
    let plan = plan(10_000, LoadShape::Lean);
    bench.store(&plan, 0..6);
    bench.store(&plan, 7..10);
    bench.store(&plan, 3..4);
    let id = bench.engine.query("SELECT SpanId FROM otel.otel_traces LIMIT 1").unwrap();
    bench
        .engine
        .query(&format!(
            "ALTER TABLE otel.otel_traces UPDATE Duration = 7 WHERE SpanId = '{}' \
             SETTINGS mutations_sync = 2",
            id.trim()
        ))
        .unwrap();
    let report = bench.check(&all_acked(&plan));
    assert!(!report.is_clean());
    assert_eq!((report.sent, report.stored, report.missing), (10_000, 9_000, 1_000));
    assert_eq!(report.duplicated, 1_000);
    assert_eq!(report.altered, 1, "{:?}", report.examples);
}

/// Scenario: points are lost, doubled, and one histogram's bucket is another. Guarantee: counted to
/// the point, over five tables, in the Map variant too.
#[test]
fn lost_doubled_and_changed_points_are_found() {
    let bench = Bench::start(AttributeStorage::Map);
    let plan = plan(4_000, LoadShape::Metrics);
    bench.store(&plan, 0..3);
    bench.store(&plan, 1..2);
    let table = "otel.otel_metrics_histogram";
    let time =
        bench.engine.query(&format!("SELECT max(toUnixTimestamp64Nano(TimeUnix)) FROM {table}"));
    let change = "UPDATE BucketCounts = arrayPushBack(BucketCounts, 1)";
    let which = format!("toUnixTimestamp64Nano(TimeUnix) = {}", time.unwrap().trim());
    let settings = "SETTINGS mutations_sync = 2";
    bench.engine.query(&format!("ALTER TABLE {table} {change} WHERE {which} {settings}")).unwrap();
    let report = bench.check(&all_acked(&plan));
    assert_eq!((report.sent, report.stored, report.missing), (4_000, 3_000, 1_000));
    assert_eq!((report.duplicated, report.altered), (1_000, 1), "{:?}", report.examples);
}
