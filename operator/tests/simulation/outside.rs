//! Kafka and ClickHouse in memory: topics that only grow, tables that are as they were migrated.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use millrace_crds::Reason;
use millrace_ddl as ddl;
use millrace_operator::clickhouse::TableAccess;
use millrace_operator::context::Clock;
use millrace_operator::error::{Category, ReconcileStep, StepError};
use millrace_operator::kafka::Brokers;
use millrace_operator::kafka::lag_cache::{LagObservation, LagQuery, LagSource, PartitionOffsets};
use millrace_operator::kafka::{ConnectionSettings, Failure, TopicChange, TopicObservation};
use millrace_operator::pods::{PodSource, PodTarget, ScrapeResults, ShareResponses, ShareSource};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Topic {
    pub(crate) partitions: u32,
    pub(crate) settings: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct State {
    second: i64,
    kafka_away: bool,
    lag_above: bool,
    topics: BTreeMap<String, Topic>,
    /// What each database was last migrated to.
    tables: Databases,
    /// What they were since somebody last looked, and then; the present not among them.
    tables_before: Vec<Databases>,
    broken: Broken,
}

/// The tables of each database.
pub(crate) type Databases = BTreeMap<String, ddl::Observed>;

/// What is wrong with a simulation on purpose, to see that it is found out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Nothing.
    #[default]
    Nothing,
    /// Operators reconcile nothing.
    Idle,
    /// ClickHouse says that it migrated, and has not.
    Lying,
}

impl State {
    fn change_tables(&mut self, change: impl FnOnce(&mut Databases)) {
        if self.broken == Broken::Lying {
            return;
        }
        let before = self.tables.clone();
        self.tables_before.push(before);
        change(&mut self.tables);
    }
}

/// The world outside Kubernetes, and its clock; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beyond {
    state: Arc<Mutex<State>>,
}

/// Pods here have no address, so nobody is asked.
impl PodSource for Beyond {
    fn scrape_pods<'a>(
        &'a self,
        targets: &'a [PodTarget],
        _now: Timestamp,
    ) -> BoxFuture<'a, ScrapeResults> {
        assert!(targets.is_empty(), "{targets:?}");
        std::future::ready(ScrapeResults::new()).boxed()
    }
}

impl ShareSource for Beyond {
    fn query_shares<'a>(&'a self, targets: &'a [PodTarget]) -> BoxFuture<'a, ShareResponses> {
        assert!(targets.is_empty(), "{targets:?}");
        std::future::ready(ShareResponses::new()).boxed()
    }
}

impl Beyond {
    pub(crate) fn new() -> Self {
        let beyond = Self::default();
        beyond.state.lock().unwrap().second = 1_790_000_000;
        beyond
    }

    /// One in which something is wrong on purpose.
    pub(crate) fn broken(broken: Broken) -> Self {
        let beyond = Self::new();
        beyond.state.lock().unwrap().broken = broken;
        beyond
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.state.lock().unwrap().broken == Broken::Idle
    }

    /// The tables as they are, and as they were since this was last asked and at that time.
    pub(crate) fn take_tables(&self) -> Vec<Databases> {
        let mut state = self.state.lock().unwrap();
        let now = state.tables.clone();
        let mut all = std::mem::replace(&mut state.tables_before, vec![now.clone()]);
        all.push(now);
        all
    }

    pub(crate) fn pass(&self, seconds: i64) {
        self.state.lock().unwrap().second += seconds;
    }

    pub(crate) fn set_kafka_away(&self, away: bool) {
        self.state.lock().unwrap().kafka_away = away;
    }

    pub(crate) fn set_lag_above(&self, above: bool) {
        self.state.lock().unwrap().lag_above = above;
    }

    pub(crate) fn topics(&self) -> BTreeMap<String, Topic> {
        self.state.lock().unwrap().topics.clone()
    }

    fn reach(&self) -> Result<(), Failure> {
        let message = "cannot reach kafka:9092; check that it runs".to_owned();
        match self.state.lock().unwrap().kafka_away {
            true => Err(Failure { reason: Reason::KafkaUnreachable, message, passes: false }),
            false => Ok(()),
        }
    }
}

impl Clock for Beyond {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.state.lock().unwrap().second).unwrap()
    }
}

impl Brokers for Beyond {
    fn observe_topic<'a>(
        &'a self,
        _: ConnectionSettings,
        topic: &'a str,
    ) -> BoxFuture<'a, Result<TopicObservation, Failure>> {
        async move {
            self.reach()?;
            let state = self.state.lock().unwrap();
            Ok(match state.topics.get(topic) {
                None => TopicObservation::Missing,
                Some(topic) => TopicObservation::Exists {
                    partitions: topic.partitions,
                    replication_factor: 3,
                    settings: topic.settings.clone(),
                    own_settings: topic.settings.clone(),
                },
            })
        }
        .boxed()
    }

    fn change_topic<'a>(
        &'a self,
        _: ConnectionSettings,
        topic: &'a str,
        change: TopicChange,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        async move {
            self.reach()?;
            let mut state = self.state.lock().unwrap();
            match change {
                TopicChange::Create { partitions, settings, .. } => {
                    state.topics.entry(topic.to_owned()).or_insert(Topic { partitions, settings });
                }
                TopicChange::Grow { partitions } => {
                    if let Some(topic) = state.topics.get_mut(topic) {
                        assert!(partitions >= topic.partitions, "partitions never shrink");
                        topic.partitions = partitions;
                    }
                }
                TopicChange::Set { own_settings } => {
                    if let Some(topic) = state.topics.get_mut(topic) {
                        topic.settings = own_settings;
                    }
                }
            }
            Ok(())
        }
        .boxed()
    }

    fn delete_topic<'a>(
        &'a self,
        _: ConnectionSettings,
        topic: &'a str,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        async move {
            self.reach()?;
            self.state.lock().unwrap().topics.remove(topic);
            Ok(())
        }
        .boxed()
    }
}

impl TableAccess for Beyond {
    fn observe_tables<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<ddl::Observed, ddl::ClientError>> {
        let state = self.state.lock().unwrap();
        let seen = state.tables.get(declared.database.as_str()).cloned().unwrap_or_default();
        async move { Ok(seen) }.boxed()
    }

    fn migrate_tables<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
        options: &'a ddl::MigrateOptions,
    ) -> BoxFuture<'a, Result<ddl::MigrationReport, ddl::MigrateError>> {
        async move {
            let mut state = self.state.lock().unwrap();
            let name = declared.database.as_str().to_owned();
            let observed = state.tables.get(&name).cloned().unwrap_or_default();
            let before = ddl::find_drift(declared, &observed);
            let (done, refused) = ddl::plan_migration(declared, &observed)
                .steps
                .into_iter()
                .partition(|step| options.permit.allows(step));
            let mut tables = ddl::exactly::observed_as_declared(declared);
            // Tables of signals that are no longer declared stay.
            tables
                .tables
                .extend(observed.tables.into_iter().filter(|it| !declares(declared, &it.0)));
            state.change_tables(|all| {
                all.insert(name, tables);
            });
            Ok(ddl::MigrationReport {
                server: ddl::ServerFacts {
                    version: ddl::ServerVersion { year: 26, minor: 9 },
                    host: "clickhouse".into(),
                    keeper_sessions: None,
                },
                adopted: None,
                migrations: vec![1],
                applied: ddl::ApplyReport { done, refused },
                blocked: Vec::new(),
                before,
                drift: Vec::new(),
            })
        }
        .boxed()
    }

    fn drop_all<'a>(
        &'a self,
        _: &'a ddl::DdlClient,
        declared: &'a ddl::Declared,
    ) -> BoxFuture<'a, Result<(), ddl::ClientError>> {
        self.state.lock().unwrap().change_tables(|all| {
            all.remove(declared.database.as_str());
        });
        async move { Ok(()) }.boxed()
    }
}

fn declares(declared: &ddl::Declared, table: &str) -> bool {
    ddl::exactly::observed_as_declared(declared).tables.contains_key(table)
}

impl LagSource for Beyond {
    fn observe_lag<'a>(
        &'a self,
        _: &'a LagQuery,
    ) -> BoxFuture<'a, Result<LagObservation, StepError>> {
        let observed_at = self.now();
        let state = self.state.lock().unwrap();
        let (away, above) = (state.kafka_away, state.lag_above);
        async move {
            if away {
                let reason = Reason::KafkaUnreachable;
                let words = "no broker answers";
                return Err(StepError::new(
                    ReconcileStep::Observe,
                    Category::External,
                    reason,
                    words,
                ));
            }
            let messages: u64 = if above { 120_000 } else { 0 };
            let offsets = (0..12).map(|partition| PartitionOffsets {
                topic: "otlp_traces".into(),
                partition,
                committed: 0,
                end: i64::try_from(messages / 12).unwrap(),
            });
            Ok(LagObservation {
                partitions: 12,
                partitions_max: 12,
                messages,
                seconds: Some(if above { 600.0 } else { 0.0 }),
                within_bound: !above,
                offsets: offsets.collect(),
                observed_at,
            })
        }
        .boxed()
    }
}
