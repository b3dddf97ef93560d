//! Operators of two clusters with one Kafka and one ClickHouse, both in memory: who holds a topic,
//! a consumer group or tables is on record there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt};
use millrace_crds::Reason;
use millrace_ddl as ddl;
use millrace_operator::cache::holders::Holders;
use millrace_operator::clickhouse::TableAccess;
use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::controllers::schema::Schemas;
use millrace_operator::controllers::topic::Topics;
use millrace_operator::holders::release_record;
use millrace_operator::kafka::Brokers;
use millrace_operator::kafka::{
    ConnectionSettings, Failure, HolderRecord, KafkaResource, TopicChange, TopicObservation,
};
use serde_json::{Value, json};

use crate::reconcilers::support::gateway_pool;
use crate::reconcilers::support::world::World;

const TOPIC: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetrytopics/prod";
const SCHEMA: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetryschemas/prod";
const POOL: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/gatewaypools/prod";
const SET: &str = "/apis/apps/v1/namespaces/telemetry/statefulsets/prod-gateway";
const ALL: [&str; 3] = [TOPIC, SCHEMA, POOL];
const DAY: i64 = 24 * 3_600;

/// What Kafka and ClickHouse keep.
#[derive(Default)]
struct Kept {
    topics: BTreeMap<String, BTreeMap<String, String>>,
    /// By what they are about and the topic they lie at.
    records: BTreeMap<(String, String), HolderRecord>,
    /// By signal: who wrote last, and when.
    rows: BTreeMap<String, (String, i64)>,
    second: i64,
    writes: usize,
    deleted: usize,
}

/// A Kafka and a ClickHouse, under any address.
#[derive(Default)]
struct Systems {
    kept: Mutex<Kept>,
    refuses_records: AtomicBool,
    is_kafka_down: AtomicBool,
}

impl Systems {
    fn writes(&self) -> usize {
        std::mem::take(&mut self.kept.lock().unwrap().writes)
    }

    fn may_record(&self) -> Result<(), Failure> {
        let message = "cannot read who holds it: group authorization failed".to_owned();
        match self.refuses_records.load(Ordering::SeqCst) {
            true => Err(Failure { reason: Reason::KafkaNotAuthorized, message, passes: false }),
            false => Ok(()),
        }
    }
}

impl Brokers for Systems {
    fn observe_topic<'a>(
        &'a self,
        _: ConnectionSettings,
        topic: &'a str,
    ) -> BoxFuture<'a, Result<TopicObservation, Failure>> {
        if self.is_kafka_down.load(Ordering::SeqCst) {
            let message = "no broker answered".to_owned();
            let failure = Failure { reason: Reason::KafkaUnreachable, message, passes: true };
            return async { Err(failure) }.boxed();
        }
        let settings = self.kept.lock().unwrap().topics.get(topic).cloned();
        let seen =
            settings.map_or(TopicObservation::Missing, |settings| TopicObservation::Exists {
                partitions: 12,
                replication_factor: 3,
                settings: settings.clone(),
                own_settings: settings,
            });
        async { Ok(seen) }.boxed()
    }

    fn change_topic<'a>(
        &'a self,
        _: ConnectionSettings,
        topic: &'a str,
        change: TopicChange,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        if let TopicChange::Create { settings, .. } | TopicChange::Set { own_settings: settings } =
            change
        {
            self.kept.lock().unwrap().topics.insert(topic.to_owned(), settings);
        }
        async { Ok(()) }.boxed()
    }

    fn delete_topic<'a>(
        &'a self,
        _: ConnectionSettings,
        topic: &'a str,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        let mut kept = self.kept.lock().unwrap();
        kept.topics.remove(topic);
        kept.records.retain(|(_, at), _| *at != topic);
        kept.deleted += 1;
        async { Ok(()) }.boxed()
    }

    fn read_records(
        &self,
        _: ConnectionSettings,
        place: KafkaResource,
    ) -> BoxFuture<'_, Result<Vec<HolderRecord>, Failure>> {
        let kept = self.kept.lock().unwrap();
        let of = format!("{place:?}");
        let found = kept.records.iter().filter(|((about, _), _)| *about == of);
        let found: Vec<HolderRecord> = found.map(|(_, entry)| entry.clone()).collect();
        let may = self.may_record();
        async { may.map(|()| found) }.boxed()
    }

    fn write_record(
        &self,
        _: ConnectionSettings,
        place: KafkaResource,
        entry: HolderRecord,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        let may = self.may_record();
        if may.is_ok() {
            let mut kept = self.kept.lock().unwrap();
            kept.records.insert((format!("{place:?}"), entry.topic.clone()), entry);
            kept.writes += 1;
        }
        async { may }.boxed()
    }
}

impl TableAccess for Systems {
    fn observe_tables<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<ddl::Observed, ddl::ClientError>> {
        async { Ok(ddl::exactly::observed_as_declared(declared)) }.boxed()
    }

    fn migrate_tables<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        _: &'a ddl::Declared,
        _: &'a ddl::MigrateOptions,
    ) -> BoxFuture<'a, Result<ddl::MigrationReport, ddl::MigrateError>> {
        panic!("the tables are as declared")
    }

    fn drop_all<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        _: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>> {
        self.kept.lock().unwrap().deleted += 1;
        async { Ok(()) }.boxed()
    }

    fn read_holders<'a>(
        &'a self,
        server: &'a ddl::DdlClient,
        _: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<Vec<ddl::RecordedHolder>, ddl::ClientError>> {
        if self.refuses_records.load(Ordering::SeqCst) {
            let endpoint = server.endpoint().clone();
            let refused = ddl::ClientError::Timeout { endpoint, waited: std::time::Duration::ZERO };
            return async { Err(refused) }.boxed();
        }
        let kept = self.kept.lock().unwrap();
        let held = kept.rows.iter().map(|(signal, (holder, at))| ddl::RecordedHolder {
            signal: signal.clone(),
            holder: holder.clone(),
            age: std::time::Duration::from_secs(u64::try_from(kept.second - at).unwrap()),
        });
        let held = held.collect();
        async { Ok(held) }.boxed()
    }

    fn record_holder<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        _: &'a ddl::Declared,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>> {
        let mut kept = self.kept.lock().unwrap();
        let at = kept.second;
        kept.rows.insert("traces".to_owned(), (holder.to_owned(), at));
        kept.writes += 1;
        async { Ok(()) }.boxed()
    }
}

/// A cluster whose operator shares these systems.
fn cluster(id: &str, systems: &Arc<Systems>, address: &str, more: &Value) -> World {
    let mut world = World::new();
    let context = Arc::get_mut(&mut world.context).unwrap();
    context.brokers = systems.clone();
    context.tables = systems.clone();
    context.holders = Holders::new(Some(id.to_owned()), Vec::new());
    let kafka = json!({"bootstrapServers": [format!("{address}:9092")]});
    let object = |kind: &str, mut spec: Value| {
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        json!({"apiVersion": "millrace.dev/v1alpha1", "kind": kind, "metadata": {}, "spec": spec})
    };
    let topic = json!({"kafka": kafka, "topicName": "otlp_traces"});
    world.server.put(TOPIC, object("TelemetryTopic", topic));
    let endpoints = [format!("http://{address}:8123")];
    let schema = json!({"clickhouse": {"endpoints": endpoints}, "signals": {"traces": {}}});
    world.server.put(SCHEMA, object("TelemetrySchema", schema));
    let mut pool = gateway_pool(json!({}))["spec"].take();
    pool["kafka"] = kafka;
    world.server.put(POOL, object("GatewayPool", pool));
    world
}

/// East came first; its systems have other names in the west.
fn two(more: &Value) -> (Arc<Systems>, World, World) {
    let systems = Arc::new(Systems::default());
    let (east, west) = (cluster("east", &systems, "a", more), cluster("west", &systems, "b", more));
    (systems, east, west)
}

/// Some time goes by, then each object is looked at once.
async fn look(systems: &Systems, world: &World, seconds: i64) {
    world.pass(seconds);
    systems.kept.lock().unwrap().second += seconds;
    let _ = world.reconcile::<Topics>(TOPIC).await;
    let _ = world.reconcile::<Schemas>(SCHEMA).await;
    let _ = world.reconcile::<GatewayPools>(POOL).await;
}

/// Why an object is not ready, and in what words.
fn told(world: &World, path: &str) -> (String, String) {
    let object = world.server.get(path).unwrap();
    let conditions = object["status"]["conditions"].as_array().unwrap().clone();
    let ready = conditions.iter().find(|it| it["type"] == "Ready").unwrap().clone();
    let text = |field: &str| ready[field].as_str().unwrap().to_owned();
    (text("reason"), text("message"))
}

fn refused(world: &World) -> [bool; 3] {
    ALL.map(|path| told(world, path).0 == "HeldByAnother")
}

/// Scenario: pipelines of one name and namespace in two clusters, with defaults, on one Kafka and
/// one ClickHouse that each calls otherwise. Guarantee: the second is refused topic, tables and
/// consumer group, each by a condition that names the first and its cluster; it makes no workload;
/// the first goes on, and a look at what is as it should be writes nothing.
#[tokio::test]
async fn the_second_cluster_is_refused_and_told_of_the_first() {
    let (systems, east, west) = two(&json!({}));
    look(&systems, &east, 0).await;
    assert_eq!(systems.writes(), 3);
    for _ in 0..2 {
        look(&systems, &west, 60).await;
        look(&systems, &east, 60).await;
    }
    assert_eq!((refused(&east), refused(&west)), ([false; 3], [true; 3]));
    assert_eq!(systems.writes(), 0);
    let things = ["topic otlp_traces is", "otel.otel_* on http://b", "millrace.telemetry.prod is"];
    for ((path, kind), thing) in
        ALL.iter().zip(["TelemetryTopic", "TelemetrySchema", "GatewayPool"]).zip(things)
    {
        let (_, message) = told(&west, path);
        assert!(message.contains(thing), "{message}");
        let holder = format!("held by {kind} prod in namespace telemetry of cluster east");
        assert!(message.contains(&holder), "{message}");
        assert_eq!(west.condition(path, "Stalled").unwrap().0, "True");
    }
    assert!(east.server.get(SET).is_some() && west.server.get(SET).is_none());
}

/// Scenario: both say that they share; one of them no longer does. Guarantee: both have everything,
/// and don't write over each other; then whoever shares is refused.
#[tokio::test]
async fn clusters_share_what_both_say_they_share() {
    let (systems, east, west) = two(&json!({"ownership": "Shared"}));
    for _ in 0..3 {
        look(&systems, &east, 60).await;
        look(&systems, &west, 60).await;
    }
    assert_eq!((refused(&east), refused(&west)), ([false; 3], [false; 3]));
    assert_eq!(systems.writes(), 3);
    for path in ALL {
        east.server.edit(path, |object| object["spec"]["ownership"] = "Exclusive".into());
    }
    look(&systems, &east, 60).await;
    look(&systems, &west, 60).await;
    assert_eq!((refused(&east), refused(&west)), ([false; 3], [true; 3]));
}

/// Scenario: two objects share a topic and declare different settings, which the second wrote last;
/// then Kafka is away for a while. Guarantee: the first reports the difference, also after the
/// outage, and never writes its settings again.
#[tokio::test]
async fn an_outage_makes_no_owner_write_its_settings_again() {
    let (systems, east, west) = two(&json!({"ownership": "Shared"}));
    for (world, retention) in [(&east, "1h"), (&west, "2h")] {
        world.server.edit(TOPIC, |topic| topic["spec"]["retention"] = retention.into());
        look(&systems, world, 60).await;
    }
    let retention = || systems.kept.lock().unwrap().topics["otlp_traces"]["retention.ms"].clone();
    assert_eq!(retention(), "7200000");
    for is_down in [false, true, true, false] {
        systems.is_kafka_down.store(is_down, Ordering::SeqCst);
        look(&systems, &east, 60).await;
        let expected = if is_down { "KafkaUnreachable" } else { "TopicSettingsConflict" };
        assert_eq!(told(&east, TOPIC).0, expected);
        assert_eq!(retention(), "7200000", "down: {is_down}");
    }
}

/// Scenario: the first one's objects are deleted, and what they stand for retained. Guarantee: they
/// give up what they held, and the second has it at its next look.
#[tokio::test]
async fn what_is_given_up_is_the_next_ones() {
    let (systems, east, west) = two(&json!({}));
    look(&systems, &east, 0).await;
    look(&systems, &west, 0).await;
    assert_eq!(refused(&west), [true; 3]);
    for kind in ["TelemetryTopic", "TelemetrySchema", "GatewayPool"] {
        release_record(&west.context, &format!("{kind}/telemetry/prod")).await;
    }
    look(&systems, &west, 60).await;
    assert_eq!(refused(&west), [true; 3], "who was refused gave up the holder's record");
    for kind in ["TelemetryTopic", "TelemetrySchema", "GatewayPool"] {
        release_record(&east.context, &format!("{kind}/telemetry/prod")).await;
    }
    look(&systems, &west, 60).await;
    assert_eq!(refused(&west), [false; 3]);
}

/// Scenario: the first cluster is no more. Guarantee: its records, renewed once a day until then,
/// count for a week; or the annotation with the holder's name takes them over at once, after which
/// the first one, if it comes back, is the one refused.
#[tokio::test]
async fn records_end_after_a_week_or_are_taken_over_by_name() {
    let (systems, east, west) = two(&json!({}));
    look(&systems, &east, 0).await;
    assert_eq!(systems.writes(), 3);
    west.pass(DAY);
    look(&systems, &east, DAY).await;
    assert_eq!(systems.writes(), 3);
    look(&systems, &west, 6 * DAY).await;
    assert_eq!(refused(&west), [true; 3]);
    look(&systems, &west, DAY + 60).await;
    assert_eq!(refused(&west), [false; 3]);

    let (systems, east, west) = two(&json!({}));
    look(&systems, &east, 0).await;
    for (path, kind) in ALL.iter().zip(["TelemetryTopic", "TelemetrySchema", "GatewayPool"]) {
        west.server.edit(path, |object| {
            let holder = format!("east/telemetry/{kind}/prod");
            object["spec"]["takesOver"] = holder.into();
        });
    }
    look(&systems, &west, 60).await;
    look(&systems, &east, 60).await;
    assert_eq!((refused(&east), refused(&west)), ([true; 3], [false; 3]));
}

/// Scenario: the credentials' user may not keep records, nor does ClickHouse answer about them.
/// Guarantee: everything works as without; that is told once of topic and pool, by an event.
#[tokio::test]
async fn without_records_everything_works_and_that_is_told() {
    let (systems, east, west) = two(&json!({}));
    systems.refuses_records.store(true, Ordering::SeqCst);
    for world in [&east, &west] {
        for _ in 0..3 {
            look(&systems, world, 60).await;
        }
        assert_eq!(refused(world), [false; 3]);
        assert!(world.is_ready(TOPIC) && world.server.get(SET).is_some());
        let told = world.server.take_event_reasons();
        let said = told.iter().filter(|reason| *reason == "HolderNotRecorded").count();
        assert_eq!(said, 2, "{told:?}");
    }
    assert_eq!(systems.writes(), 0);
}

/// Scenario: a refused object, and one that shares, are deleted with the policy Delete. Guarantee:
/// topic and tables, which are another's, stay; the objects go, and say so.
#[tokio::test]
async fn what_another_cluster_holds_is_not_deleted() {
    for shared in [false, true] {
        let (systems, east, west) =
            two(&json!({"ownership": if shared { "Shared" } else { "Exclusive" }}));
        look(&systems, &east, 0).await;
        look(&systems, &west, 0).await;
        west.server.take_event_reasons();
        for path in [TOPIC, SCHEMA] {
            let since = west.context.clock.now().to_string();
            west.server.edit(path, |object| {
                object["spec"]["deletionPolicy"] = "Delete".into();
                object["metadata"]["finalizers"] = json!(["millrace.dev/external"]);
                object["metadata"]["deletionTimestamp"] = since.into();
            });
        }
        west.reconcile::<Topics>(TOPIC).await.unwrap();
        west.reconcile::<Schemas>(SCHEMA).await.unwrap();
        assert_eq!(west.server.take_event_reasons(), ["HeldByAnother", "HeldByAnother"]);
        assert_eq!(systems.kept.lock().unwrap().deleted, 0);
        assert!(west.server.get(TOPIC).is_none() && west.server.get(SCHEMA).is_none());
    }
}

/// Scenario: a refused object is deleted with the policy Delete, and ClickHouse doesn't answer
/// whose the tables are; then it does. Guarantee: it is tried again, and the holder's tables stay.
#[tokio::test]
async fn tables_are_not_deleted_while_their_holder_is_unknown() {
    let (systems, east, west) = two(&json!({}));
    look(&systems, &east, 0).await;
    look(&systems, &west, 0).await;
    west.server.take_event_reasons();
    let since = west.context.clock.now().to_string();
    west.server.edit(SCHEMA, |object| {
        object["spec"]["deletionPolicy"] = "Delete".into();
        object["metadata"]["finalizers"] = json!(["millrace.dev/external"]);
        object["metadata"]["deletionTimestamp"] = since.into();
    });
    systems.refuses_records.store(true, Ordering::SeqCst);
    let failed = west.reconcile::<Schemas>(SCHEMA).await;
    assert_eq!(systems.kept.lock().unwrap().deleted, 0);
    assert_eq!(failed.unwrap_err().reason, Reason::ClickHouseUnreachable);
    systems.refuses_records.store(false, Ordering::SeqCst);
    west.reconcile::<Schemas>(SCHEMA).await.unwrap();
    assert_eq!(systems.kept.lock().unwrap().deleted, 0);
    assert_eq!(west.server.take_event_reasons(), ["HeldByAnother"]);
}

/// Scenario: another object of the same cluster is on record: one in a namespace that this operator
/// looks after, which is no more, and one in another namespace. Guarantee: the first is no
/// hindrance, since whoever exists there is known; the second is.
#[tokio::test]
async fn only_what_the_operator_can_not_see_is_believed_from_records() {
    for (namespace, held) in [("gone", false), ("elsewhere", true)] {
        let (systems, mut east, _) = two(&json!({}));
        let context = Arc::get_mut(&mut east.context).unwrap();
        let watched = vec!["telemetry".to_owned(), "gone".to_owned()];
        context.holders = Holders::new(Some("east".to_owned()), watched);
        let text = format!("v1:east/{namespace}/TelemetryTopic/old/alone");
        let topic = "otlp_traces".to_owned();
        let at_millis = east.context.clock.now().as_millisecond();
        let about = format!("{:?}", KafkaResource::Topic(topic.clone()));
        {
            let mut kept = systems.kept.lock().unwrap();
            kept.topics.insert(topic.clone(), BTreeMap::new());
            let entry = HolderRecord { topic: topic.clone(), text, at_millis };
            kept.records.insert((about, topic), entry);
        }
        let _ = east.reconcile::<Topics>(TOPIC).await;
        assert_eq!(told(&east, TOPIC).0 == "HeldByAnother", held, "{namespace}");
    }
}

/// Scenario: two objects of one cluster name one Kafka and one ClickHouse by different addresses;
/// the younger is looked at first. Guarantee: the older one holds all the same, and the other is
/// refused; none writes over the other again and again.
#[tokio::test]
async fn one_server_under_two_names_is_one() {
    let (systems, east, _) = two(&json!({}));
    let mut younger = Vec::new();
    for path in ALL {
        east.server.edit(path, |object| {
            object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        });
        let mut object = east.server.get(path).unwrap();
        object["metadata"] = json!({"creationTimestamp": "2026-02-01T00:00:00Z"});
        let other = path.replace("/telemetry/", "/other/");
        match path {
            SCHEMA => object["spec"]["clickhouse"]["endpoints"] = json!(["http://z:8123"]),
            _ => object["spec"]["kafka"]["bootstrapServers"] = json!(["z:9092"]),
        }
        if path == POOL {
            object["spec"]["consumerGroup"] = "millrace.telemetry.prod".into();
        }
        east.server.put(&other, object);
        younger.push(other);
    }
    for turn in 0..3 {
        east.pass(60);
        let _ = east.reconcile::<Topics>(&younger[0]).await;
        let _ = east.reconcile::<Schemas>(&younger[1]).await;
        let _ = east.reconcile::<GatewayPools>(&younger[2]).await;
        look(&systems, &east, 0).await;
        assert_eq!(systems.writes(), [6, 0, 0][turn]);
    }
    assert_eq!(refused(&east), [false; 3]);
    for path in &younger {
        let (reason, message) = told(&east, path);
        assert_eq!(reason, "HeldByAnother", "{message}");
        assert!(message.contains("prod in namespace telemetry of cluster east"), "{message}");
    }
}
