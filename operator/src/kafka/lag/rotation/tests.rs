//! Tests of the private parts of `kafka/lag/rotation.rs`.

use futures::future::{BoxFuture, FutureExt, join_all};
use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::error::{ReconcileStep, StepError};
use crate::kafka::client::connection::ConnectionSettings;
use crate::kafka::lag::lag_cache::{LagCache, LagQuery, LagSource};
use crate::kafka::sessions::{PASSING_MAX, SESSIONS_MAX};

/// The interval between a pool's reconciles.
const RECONCILES: Duration = Duration::from_secs(10);

fn connection(number: usize) -> ConnectionHash {
    ConnectionSettings::from_servers(&format!("k{number}:9092"), None).compute_identity()
}

fn request(group: &str) -> LagRequest {
    let bound = Duration::from_secs(60);
    LagRequest { group: group.to_owned(), topics: vec!["t".into()], bound }
}

/// Returns a lag that is known by this number.
fn observed_at(messages: u64) -> LagObservation {
    LagObservation {
        partitions: 1,
        partitions_max: 1,
        messages,
        seconds: Some(0.0),
        within_bound: true,
        offsets: Vec::new(),
        observed_at: Timestamp::UNIX_EPOCH,
    }
}

/// Observations: which groups each was of.
#[derive(Default)]
struct Observations(Mutex<Vec<Vec<String>>>);

impl Observations {
    fn observe(&self, requests: &[LagRequest], fails: bool) -> Vec<LagResult> {
        let mut all = self.0.lock().unwrap();
        all.push(requests.iter().map(|it| it.group.clone()).collect());
        let lag = observed_at(all.len() as u64);
        let result = || if fails { Err(Failure::queue_full()) } else { Ok(lag.clone()) };
        requests.iter().map(|_| result()).collect()
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Scenario: two groups of a connection and one of another are queried every ten seconds for five
/// minutes, by pools that began at different times, as by the operator. Guarantee: one observation
/// is of all groups of a connection, each connection is observed at most every 15 s, and no group's
/// answer is older than 15 s.
#[tokio::test(start_paused = true)]
async fn groups_of_one_connection_are_observed_together() {
    let (rotation, observed) = (Rotation::default(), Observations::default());
    let made: Mutex<HashMap<u64, Instant>> = Mutex::default();
    let pool = async |connection_number: usize, group: &str, begins: u64| {
        tokio::time::sleep(Duration::from_secs(begins)).await;
        for _ in 0..30 {
            let observe = async |all: Vec<LagRequest>| {
                let results = observed.observe(&all, false);
                made.lock().unwrap().insert(observed.count() as u64, Instant::now());
                results
            };
            let (of, began) = (connection(connection_number), Instant::now());
            let lag = rotation.query_lag(of, request(group), Pace::default(), observe).await;
            let at = made.lock().unwrap()[&lag.unwrap().messages];
            assert!(at.elapsed() <= REUSED_FOR, "{group}: {:?}", at.elapsed());
            tokio::time::sleep_until(began + Duration::from_secs(10)).await;
        }
    };
    tokio::join!(pool(0, "a", 0), pool(0, "b", 3), pool(1, "c", 5));
    let all = observed.0.into_inner().unwrap();
    let count = |groups: &[&str]| all.iter().filter(|it| *it == groups).count();
    assert_eq!((count(&["a"]), count(&["b"])), (1, 0), "{all:?}");
    assert!(count(&["a", "b"]) <= 300 / 15 && count(&["c"]) <= 300 / 15, "{all:?}");
}

/// Scenario: a connection fails; then its group is queried with other topics. Guarantee: the
/// failure is returned for 30 s, so that it holds no permit; another request gets its own answer.
#[tokio::test(start_paused = true)]
async fn a_failed_connection_is_tried_again_after_half_a_minute() {
    let (rotation, observed) = (Rotation::default(), Observations::default());
    let query = async |request: LagRequest| {
        let observe = async |all: Vec<LagRequest>| observed.observe(&all, true);
        rotation.query_lag(connection(0), request, Pace::AT_ONCE, observe).await.unwrap_err()
    };
    for seconds in [0, 10, 19] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        query(request("a")).await;
    }
    assert_eq!(observed.count(), 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    query(request("a")).await;
    assert_eq!(observed.count(), 2);
    query(LagRequest { topics: Vec::new(), ..request("a") }).await;
    assert_eq!(observed.count(), 3);
}

/// Scenario: a group and then its connection are no longer queried. Guarantee: neither is observed
/// or stored for longer than two minutes.
#[tokio::test(start_paused = true)]
async fn what_is_no_longer_queried_is_dropped() {
    let (rotation, observed) = (Rotation::default(), Observations::default());
    let query = async |number: usize, group: &str| {
        let observe = async |all: Vec<LagRequest>| observed.observe(&all, false);
        rotation
            .query_lag(connection(number), request(group), Pace::AT_ONCE, observe)
            .await
            .unwrap()
    };
    query(0, "a").await;
    query(0, "b").await;
    tokio::time::sleep(FORGOTTEN_AFTER).await;
    query(0, "b").await;
    assert_eq!(observed.0.lock().unwrap().last().unwrap(), &["b"]);
    tokio::time::sleep(FORGOTTEN_AFTER).await;
    query(1, "c").await;
    assert_eq!(rotation.0.lock().unwrap().connections.len(), 1);
}

/// Connections beyond the cached ones, each with one group, as [`Sessions`] serves them.
struct Crowd {
    rotation: Rotation,
    passes: tokio::sync::Semaphore,
    log_in: Duration,
    began: Instant,
}

impl LagSource for Crowd {
    fn observe_lag<'a>(
        &'a self,
        query: &'a LagQuery,
    ) -> BoxFuture<'a, Result<LagObservation, StepError>> {
        let observe = async |all: Vec<LagRequest>| {
            let _pass = self.passes.acquire().await;
            tokio::time::sleep(self.log_in).await;
            let at = u64::try_from(self.began.elapsed().as_millis()).unwrap();
            all.iter().map(|_| Ok(observed_at(at))).collect()
        };
        let of = ConnectionSettings::from_servers(&query.group, None).compute_identity();
        let lag = self.rotation.query_lag(of, request(&query.group), Pace::default(), observe);
        async { lag.await.map_err(|failure| failure.at_step(ReconcileStep::Observe)) }.boxed()
    }
}

/// Returns the greatest age, in seconds, of a figure in the status of any of a thousand pools with a
/// log-in each, in the third and fourth minute. Pools reconcile every ten seconds, each at its own
/// time, and a status lasts until the next reconcile.
async fn greatest_age(log_in: Duration) -> f64 {
    const POOLS: usize = 1_000 - SESSIONS_MAX;
    let (passes, rotation) = (tokio::sync::Semaphore::new(PASSING_MAX), Rotation::default());
    let crowd = Crowd { rotation, passes, log_in, began: Instant::now() };
    let began = crowd.began;
    let cache = LagCache::new(Arc::new(crowd));
    let pools = (0..POOLS).map(|number| {
        let query = LagQuery {
            namespace: "telemetry".into(),
            kafka: serde_json::from_value(json!({"bootstrapServers": ["kafka:9092"]})).unwrap(),
            group: format!("k{number}:9092"),
            topics: vec!["t".into()],
            bound: Duration::from_secs(60),
        };
        let cache = &cache;
        async move {
            let mut next = began + RECONCILES.mul_f64(number as f64 / POOLS as f64);
            let mut greatest = Duration::ZERO;
            while began.elapsed() < Duration::from_secs(240) {
                tokio::time::sleep_until(next).await;
                let lag = cache.observe_lag(&query).await;
                next += RECONCILES;
                if began.elapsed() >= Duration::from_secs(120) {
                    let at = began + Duration::from_millis(lag.unwrap().messages);
                    greatest = greatest.max(next.duration_since(at));
                }
            }
            greatest
        }
    });
    let ages = join_all(pools).await;
    ages.into_iter().max().unwrap_or_default().as_secs_f64()
}

/// Scenario: a thousand pools, each with a log-in of its own, whose log-ins take 250 ms, or a second.
/// Guarantee: in the first case no figure gets older than 30 s. In the second one the permits are the
/// limit, each connection has its turn, and no figure gets older than 75 s.
#[tokio::test(start_paused = true)]
async fn a_thousand_log_ins_are_at_most_30_seconds_old() {
    let quick = greatest_age(Duration::from_millis(250)).await;
    assert!(quick <= 30.0, "{quick} s");
    let slow = greatest_age(Duration::from_secs(1)).await;
    assert!(slow <= 75.0, "{slow} s");
}
