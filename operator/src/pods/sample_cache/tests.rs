//! Tests of the private parts of `pods/board.rs`.

use std::net::{IpAddr, Ipv4Addr};

use tokio::sync::Notify;

use super::*;

/// A source that answers when notified.
#[derive(Default)]
struct Slow {
    go: Notify,
    asked: Mutex<usize>,
}

impl PodSource for Slow {
    fn scrape_pods<'a>(
        &'a self,
        targets: &'a [PodTarget],
        now: Timestamp,
    ) -> BoxFuture<'a, ScrapeResults> {
        *self.asked.lock().unwrap() += targets.len();
        async move {
            self.go.notified().await;
            let sample = Arc::new(PodSample { at: now.as_second(), ..PodSample::default() });
            targets.iter().map(|it| (it.pod.clone(), Ok(sample.clone()))).collect()
        }
        .boxed()
    }
}

/// Scenario: a pod that is slow to answer, queried three times in the meantime. Guarantee: no query
/// waits for it, it is scraped once, and its answer is returned once it has arrived.
#[tokio::test]
async fn nobody_waits_for_a_pod_and_it_is_asked_once() {
    let slow = Arc::new(Slow::default());
    let board = PodSampleCache::new(slow.clone());
    let targets = [PodTarget { pod: "a-0".into(), address: IpAddr::V4(Ipv4Addr::LOCALHOST) }];
    let now = Timestamp::from_second(7).unwrap();
    for _ in 0..3 {
        assert!(board.scrape_pods(&targets, now).await.is_empty());
        tokio::task::yield_now().await;
    }
    slow.go.notify_one();
    let look = loop {
        let look = board.scrape_pods(&targets, now).await;
        if !look.is_empty() {
            break look;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(look["a-0"].as_ref().map(|sample| sample.at), Ok(7));
    assert_eq!(*slow.asked.lock().unwrap(), 1);
}

/// Scenario: a pool of more pods than one scrape queries at once. Guarantee: each of them is
/// queried once, and all their answers arrive.
#[tokio::test]
async fn all_pods_of_a_large_pool_are_asked() {
    let slow = Arc::new(Slow::default());
    let board = PodSampleCache::new(slow.clone());
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let target = |at| PodTarget { pod: format!("a-{at}"), address };
    let targets: Vec<_> = (0..PODS_MAX * 2 + 1).map(target).collect();
    let now = Timestamp::from_second(7).unwrap();
    while board.scrape_pods(&targets, now).await.len() < targets.len() {
        slow.go.notify_waiters();
        tokio::task::yield_now().await;
    }
    assert_eq!(*slow.asked.lock().unwrap(), targets.len());
}
