//! The part of the operator that is looked at: a test that does nothing unless it is started with
//! clusters to ask.

use std::time::Duration;

use millrace_operator::kafka::{Pace, Place, Sessions, Settings};

/// Its name as a test.
pub(crate) const TEST: &str = "asking::asks_clusters_if_started_with_any";
/// The servers of a cluster that is honest.
pub(crate) const HONEST: &str = "MILLRACE_TEST_HONEST";
/// Those of clusters that aren't, with spaces in between.
pub(crate) const HOSTILE: &str = "MILLRACE_TEST_HOSTILE";
/// Said each time that the honest one has answered.
pub(crate) const ANSWERED: &str = "the honest cluster answered";

/// Scenario: started by itself. Guarantee: none; it is what other tests start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout)]
async fn asks_clusters_if_started_with_any() {
    let (Ok(honest), Ok(hostile)) = (std::env::var(HONEST), std::env::var(HOSTILE)) else { return };
    let sessions = Sessions::new(Pace::AT_ONCE);
    for servers in hostile.split(' ') {
        let (sessions, settings) = (sessions.clone(), Settings::direct(servers, None));
        tokio::spawn(async move {
            let topics = ["t".to_owned()];
            let (lag, topic) = (
                async || {
                    let bound = Duration::from_secs(60);
                    sessions.observe_lag(settings.clone(), "g", &topics, bound).await.map(|_| ())
                },
                async || sessions.observe_topic(settings.clone(), "t").await.map(|_| ()),
            );
            loop {
                let (lag, topic) = tokio::join!(lag(), topic());
                for failure in [lag.err(), topic.err()].into_iter().flatten() {
                    println!("{}", failure.message);
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
    }
    let settings = Settings::direct(&honest, None);
    loop {
        match sessions.recorded(settings.clone(), Place::Topic("t".to_owned())).await {
            Ok(_) => println!("{ANSWERED}"),
            Err(failure) => println!("of the honest cluster: {}", failure.message),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
