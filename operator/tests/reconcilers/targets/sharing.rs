//! Sharing out scrape targets, against an API server in memory and pods that obey: they read their
//! documents there, and report what they took up.

use std::collections::{BTreeMap, BTreeSet};

use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::error::{Category, StepError};
use millrace_operator::pods::{ShareReport, TargetReport};
use millrace_operator::sharing::{self, POD_LABEL, POOL_LABEL, SHARE_KEY, SharingMemory};
use millrace_share_documents::{Share, TargetId, join_parts};
use serde_json::{Value, json};

use crate::reconcilers::pools::edge::{DEPLOYMENT, POOL, pool, world};
use crate::reconcilers::support::apiserver::Verdict;
use crate::reconcilers::support::world::World;

/// The time between two rounds.
const ROUND_SECONDS: i64 = 5;
const TARGETS: usize = 24;
/// The time between two scrapes of a target: three rounds.
const INTERVAL_SECONDS: i64 = 15;
const PODS: &str = "/api/v1/namespaces/telemetry/pods";

/// A pool with so many targets, of so long names, in jobs of 200.
fn scraping(targets: usize, name_bytes: usize) -> Value {
    let name = |number: usize| format!("{}{number}:9100", "t".repeat(name_bytes));
    let names: Vec<String> = (0..targets).map(name).collect();
    let jobs = names.chunks(200).zip(0..).map(|(targets, number)| {
        json!({"name": format!("job-{number}"), "targets": targets, "intervalSeconds": 15})
    });
    let mut wanted = pool();
    wanted["spec"]["signals"] = json!({"metrics": {}});
    wanted["spec"]["receivers"] = json!({"prometheus": {"jobs": jobs.collect::<Vec<_>>()}});
    wanted
}

/// A pool's pods, and what the operator remembers of it.
struct Fleet {
    world: World,
    memory: SharingMemory,
    /// What each pod has taken up.
    taken: BTreeMap<String, Share>,
    /// Pods whose processes ended, while their objects are there.
    dead: BTreeSet<String>,
    seconds: i64,
    /// The last scrape of each target.
    scrapes: BTreeMap<TargetId, (String, i64)>,
    /// The longest time between two scrapes of a target since this was last set to 0.
    longest_gap_seconds: i64,
    /// How long each target had no pod, at most, since this was last set to nothing.
    alone_seconds: BTreeMap<TargetId, i64>,
    longest_alone_seconds: i64,
}

impl Fleet {
    async fn new(wanted: Value, pods: &[&str]) -> Self {
        let world = world();
        world.server.put(POOL, wanted);
        world.reconcile::<EdgePools>(POOL).await.unwrap();
        let mut fleet = Self {
            world,
            memory: SharingMemory::default(),
            taken: BTreeMap::new(),
            dead: BTreeSet::new(),
            seconds: 0,
            scrapes: BTreeMap::new(),
            longest_gap_seconds: 0,
            alone_seconds: BTreeMap::new(),
            longest_alone_seconds: 0,
        };
        pods.iter().for_each(|pod| fleet.add(pod, "old"));
        fleet
    }

    /// With all targets scraped.
    async fn settled(pods: &[&str]) -> Self {
        let mut fleet = Self::new(scraping(TARGETS, 1), pods).await;
        fleet.rounds(12).await;
        assert_eq!(fleet.scraped(), TARGETS);
        (fleet.longest_alone_seconds, fleet.longest_gap_seconds) = (0, 0);
        fleet
    }

    fn add(&mut self, name: &str, revision: &str) {
        let deployment = self.world.server.get(DEPLOYMENT).unwrap();
        let mut labels = deployment["spec"]["selector"]["matchLabels"].clone();
        labels["pod-template-hash"] = revision.into();
        let number = name.bytes().last().unwrap();
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels},
            "status": {"podIP": format!("10.0.0.{number}"), "phase": "Running"}});
        self.world.server.put(&format!("{PODS}/{name}"), pod);
        self.taken.insert(name.to_owned(), Share::default());
    }

    /// Asks a pod to end. It does once its share is empty.
    fn end(&mut self, name: &str) {
        self.world.server.edit(&format!("{PODS}/{name}"), |pod| {
            pod["metadata"]["deletionTimestamp"] = "2026-09-21T14:13:20Z".into();
        });
    }

    /// Pods take up what is stored, and report it.
    fn pods_live(&mut self) {
        for (name, taken) in &mut self.taken {
            if self.dead.contains(name) {
                self.world.set_report(name, None);
                continue;
            }
            let uid = self.world.server.get(&format!("{PODS}/{name}")).unwrap();
            let uid = uid["metadata"]["uid"].as_str().unwrap();
            let maps = self.world.server.select(|path| path.contains("/configmaps/"));
            let mine = maps.iter().filter(|(_, map)| map["metadata"]["labels"][POD_LABEL] == uid);
            let texts: Vec<&str> =
                mine.map(|(_, map)| map["data"][SHARE_KEY].as_str().unwrap()).collect();
            match join_parts(texts.iter().copied()) {
                Ok(share) if share.version > taken.version => *taken = share,
                _ => {}
            }
            let report = |id| match self.scrapes.get(id) {
                Some((by, _)) if by == name => {
                    TargetReport { samples: Some(100), up: Some(true), error: None }
                }
                _ => TargetReport::default(),
            };
            let targets: BTreeMap<_, _> =
                taken.targets.keys().map(|id| (*id, report(id))).collect();
            let version = Some(taken.version).filter(|version| *version > 0);
            let up = targets.len() as u64;
            self.world.set_report(name, Some(ShareReport { version, targets, up, down: 0 }));
        }
    }

    /// Pods that were asked to end do, if they have nothing left.
    fn pods_end(&mut self) {
        let server = &self.world.server;
        let ends = |name: &str| {
            let pod = server.get(&format!("{PODS}/{name}")).unwrap();
            !pod["metadata"]["deletionTimestamp"].is_null()
        };
        self.taken.retain(|name, taken| {
            let stays = !ends(name) || !taken.targets.is_empty();
            if !stays {
                server.delete(&format!("{PODS}/{name}"));
            }
            stays
        });
    }

    /// One round of the operator, and five seconds of the pods. No target has two pods.
    async fn round(&mut self) -> Result<(), StepError> {
        self.pods_live();
        self.world.pass(ROUND_SECONDS);
        let pool = serde_json::from_value(self.world.server.get(POOL).unwrap()).unwrap();
        let outcome = sharing::run_round(&self.world.context, &pool, &mut self.memory).await;
        self.judge(ROUND_SECONDS);
        self.pods_live();
        self.judge(0);
        self.pods_end();
        outcome
    }

    async fn rounds(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.round().await.unwrap();
        }
    }

    fn judge(&mut self, seconds: i64) {
        let mut scraped = BTreeMap::new();
        for (name, taken) in self.taken.iter().filter(|(name, _)| !self.dead.contains(*name)) {
            for id in taken.targets.keys() {
                let other = scraped.insert(*id, name);
                assert_eq!(other, None, "{id} is scraped by {name} too");
            }
        }
        self.seconds += seconds;
        for (id, name) in &scraped {
            self.alone_seconds.insert(*id, 0);
            // Whichever pod has a target scrapes it at the same point of its interval.
            let point = (id.0 % 3) as i64 * ROUND_SECONDS;
            if seconds > 0 && self.seconds % INTERVAL_SECONDS == point {
                let scrape = ((*name).clone(), self.seconds);
                if let Some((_, before)) = self.scrapes.insert(*id, scrape) {
                    self.longest_gap_seconds = self.longest_gap_seconds.max(self.seconds - before);
                }
            }
        }
        for (_, alone) in self.alone_seconds.iter_mut().filter(|(id, _)| !scraped.contains_key(id))
        {
            *alone += seconds;
            self.longest_alone_seconds = self.longest_alone_seconds.max(*alone);
        }
    }

    /// How many targets living pods scrape.
    fn scraped(&self) -> usize {
        self.counts().values().sum()
    }

    fn counts(&self) -> BTreeMap<&str, usize> {
        let alive = self.taken.iter().filter(|(name, _)| !self.dead.contains(*name));
        alive.map(|(name, taken)| (name.as_str(), taken.targets.len())).collect()
    }

    /// Documents, by the names of their objects.
    fn documents(&self) -> Vec<String> {
        let maps = self.world.server.select(|path| path.contains("-share-"));
        maps.into_iter().map(|(path, _)| path.rsplit('/').next().unwrap().to_owned()).collect()
    }

    async fn status(&mut self) -> Value {
        self.world.reconcile::<EdgePools>(POOL).await.unwrap();
        self.world.server.get(POOL).unwrap()["status"].clone()
    }
}

/// Scenario: three pods, 24 targets. Guarantee: a third each; one ConfigMap for each pod, owned by
/// it and found by its uid; the pool's status has the figures; a reconcile leaves the documents, and
/// a round in which nothing changes writes nothing.
#[tokio::test]
async fn targets_are_shared_out_and_the_status_says_so() {
    let mut fleet = Fleet::settled(&["a", "b", "c"]).await;
    assert_eq!(fleet.counts(), [("a", 8), ("b", 8), ("c", 8)].into());
    let (path, map) = fleet.world.server.select(|path| path.ends_with("/a-share-a-0")).remove(0);
    assert!(path.starts_with("/api/v1/namespaces/telemetry/configmaps/"));
    let pod = fleet.world.server.get(&format!("{PODS}/a")).unwrap();
    let metadata = &map["metadata"];
    assert_eq!(metadata["ownerReferences"][0]["kind"], "Pod");
    assert_eq!(metadata["ownerReferences"][0]["uid"], pod["metadata"]["uid"]);
    assert_eq!(metadata["labels"][POD_LABEL], pod["metadata"]["uid"]);
    assert_eq!(metadata["labels"][POOL_LABEL], "prod");
    fleet.world.finish_rollouts();
    let status = fleet.status().await;
    let targets = &status["targets"];
    assert_eq!((&targets["total"], &targets["assigned"]), (&json!(24), &json!(24)));
    assert_eq!((&targets["up"], &targets["down"]), (&json!(24), &json!(0)));
    // (100 + 5) samples of 24 targets every 15 s.
    assert_eq!(targets["samplesPerSecond"], 168);
    let (shared, reason, _) = fleet.world.condition(POOL, "TargetsAssigned").unwrap();
    assert_eq!((shared.as_str(), reason.as_str()), ("True", "Reconciled"));
    assert_eq!(fleet.documents(), ["a-share-a-0", "b-share-a-0", "c-share-a-0"]);
    fleet.world.server.take_writes();
    fleet.rounds(3).await;
    assert_eq!(fleet.world.server.take_writes(), []);
}

/// Scenario: a pod's process dies, and its object stays; another is evicted; a third is deleted at
/// once. Guarantee: their targets are elsewhere within 30 s, those of the other two within 10 s.
#[tokio::test]
async fn a_dead_pods_targets_are_elsewhere_within_30_seconds() {
    let mut fleet = Fleet::settled(&["a", "b", "c", "d"]).await;
    fleet.dead.insert("b".to_owned());
    fleet.rounds(6).await;
    assert_eq!(fleet.scraped(), TARGETS);
    assert!((20..=30).contains(&fleet.longest_alone_seconds), "{}", fleet.longest_alone_seconds);
    fleet.longest_alone_seconds = 0;
    fleet.dead.insert("c".to_owned());
    fleet.world.server.edit(&format!("{PODS}/c"), |pod| pod["status"]["phase"] = "Failed".into());
    fleet.rounds(2).await;
    fleet.world.server.delete(&format!("{PODS}/d"));
    fleet.taken.remove("d");
    fleet.rounds(2).await;
    assert_eq!(fleet.counts(), [("a", TARGETS)].into());
    assert!(fleet.longest_alone_seconds <= 10, "{}", fleet.longest_alone_seconds);
    // What silent pods had is told to them, should they come back; the others' documents are gone.
    assert_eq!(fleet.documents(), ["a-share-a-0", "b-share-a-0"]);
}

/// Scenario: a network policy closes the way to every pod for two minutes, while Kubernetes counts
/// them as ready. Guarantee: no document is written, so each pod goes on with what it has.
#[tokio::test]
async fn pods_that_cannot_be_reached_keep_their_targets() {
    let mut fleet = Fleet::settled(&["a", "b"]).await;
    for name in ["a", "b"] {
        let ready = json!([{"type": "Ready", "status": "True",
            "lastTransitionTime": "2026-09-21T14:13:20Z"}]);
        let path = format!("{PODS}/{name}");
        fleet.world.server.edit(&path, |pod| pod["status"]["conditions"] = ready.clone());
        fleet.dead.insert(name.to_owned());
    }
    fleet.world.server.take_writes();
    fleet.rounds(24).await;
    assert_eq!(fleet.world.server.take_writes(), []);
    fleet.dead.clear();
    fleet.rounds(3).await;
    assert_eq!(fleet.counts(), [("a", 12), ("b", 12)].into());
}

/// Scenario: the API server is away for a minute, in which nobody asks pods; one of them misses the
/// first question after it, and answers again. Guarantee: it isn't taken for dead.
#[tokio::test]
async fn time_in_which_nobody_asked_is_no_silence() {
    let mut fleet = Fleet::settled(&["a", "b"]).await;
    let server = fleet.world.server.clone();
    server.set_fault(Some(Box::new(|_, _| Some(503))));
    for _ in 0..12 {
        assert!(fleet.round().await.is_err());
    }
    server.set_fault(None);
    fleet.dead.insert("b".to_owned());
    fleet.rounds(1).await;
    fleet.dead.clear();
    server.take_writes();
    fleet.rounds(3).await;
    assert_eq!(server.take_writes(), []);
    assert_eq!(fleet.counts(), [("a", 12), ("b", 12)].into());
}

/// Scenario: a pool of one pod gets two more, and loses two again, which hand over before they end.
/// Guarantee: all work, then the one has all; no target has two pods, and none is without one for
/// over a scrape's interval.
#[tokio::test]
async fn a_pool_is_scaled_from_one_pod_to_three_and_back() {
    let mut fleet = Fleet::settled(&["a"]).await;
    fleet.add("b", "old");
    fleet.add("c", "old");
    fleet.rounds(12).await;
    assert_eq!(fleet.counts(), [("a", 8), ("b", 8), ("c", 8)].into());
    fleet.end("a");
    fleet.end("c");
    fleet.rounds(12).await;
    assert_eq!(fleet.counts(), [("b", TARGETS)].into());
    assert!((1..=15).contains(&fleet.longest_alone_seconds), "{}", fleet.longest_alone_seconds);
}

/// Scenario: a pool of one pod gets a second one and, some seconds later, a third. Guarantee: all
/// work in the end, and no target that moved to the second pod moves on before it was scraped there:
/// none misses more than one scrape.
#[tokio::test]
async fn pods_that_start_one_after_another_cost_no_target_two_scrapes() {
    for rounds in 0..8 {
        let mut fleet = Fleet::settled(&["a"]).await;
        fleet.add("b", "old");
        fleet.rounds(rounds).await;
        fleet.add("c", "old");
        fleet.rounds(24).await;
        assert_eq!(fleet.counts(), [("a", 8), ("b", 8), ("c", 8)].into(), "{rounds} rounds");
        assert_eq!(fleet.longest_gap_seconds, 2 * INTERVAL_SECONDS, "{rounds} rounds");
    }
}

/// Scenario: in a rollout a new pod joins, then the old ones end. Guarantee: nothing moves for
/// balance while pods of two revisions are there; each target moves once.
#[tokio::test]
async fn in_a_rollout_each_target_moves_once() {
    let mut fleet = Fleet::settled(&["a", "b"]).await;
    fleet.add("c", "new");
    fleet.add("d", "new");
    fleet.rounds(6).await;
    assert_eq!(fleet.counts(), [("a", 12), ("b", 12), ("c", 0), ("d", 0)].into());
    fleet.end("a");
    fleet.rounds(6).await;
    assert_eq!(fleet.counts(), [("b", 12), ("c", 6), ("d", 6)].into());
    fleet.end("b");
    fleet.rounds(6).await;
    assert_eq!(fleet.counts(), [("c", 12), ("d", 12)].into());
}

/// Scenario: while pods join and leave, the operator ends at each of its writes, before or after it
/// was made, and a new one goes on. Guarantee: no target ever has two pods, and all have one in the
/// end.
#[tokio::test]
async fn an_operator_may_end_at_any_write() {
    for lost_answer in [false, true] {
        let mut fleet = Fleet::new(scraping(TARGETS, 1), &["a", "b", "c"]).await;
        for turn in 0..30 {
            match turn {
                6 => fleet.add("d", "old"),
                12 => fleet.end("a"),
                18 => drop(fleet.dead.insert("b".to_owned())),
                _ => {}
            }
            let mut left = turn % 3;
            let verdict = if lost_answer { Verdict::Lose } else { Verdict::Refuse(500) };
            fleet.world.server.set_judge(Some(Box::new(move |method, _| {
                let is_write = *method != http::Method::GET;
                left -= i32::from(is_write);
                (if is_write && left < 0 { verdict } else { Verdict::Do }, 0)
            })));
            let _ = fleet.round().await;
            fleet.memory = SharingMemory::default();
        }
        fleet.world.server.set_judge(None);
        fleet.rounds(20).await;
        assert_eq!(fleet.scraped(), TARGETS);
    }
}

/// Scenario: somebody edits a document, then deletes one. Guarantee: the operator's next write of it
/// is refused and none of that round follows; the next round begins with what is there, and in the
/// end all targets have a pod.
#[tokio::test]
async fn a_document_that_somebody_else_wrote_is_not_overwritten() {
    let mut fleet = Fleet::settled(&["a", "b"]).await;
    // They are read again once a minute: just now.
    fleet.rounds(2).await;
    let document = "/api/v1/namespaces/telemetry/configmaps/a-share-a-0";
    fleet.world.server.edit(document, |map| map["metadata"]["labels"]["x"] = "y".into());
    fleet.add("c", "old");
    let outcome = async {
        for _ in 0..3 {
            fleet.round().await?;
        }
        Ok::<_, StepError>(())
    };
    assert_eq!(outcome.await.unwrap_err().category, Category::Conflict);
    let status = fleet.status().await;
    assert!(status["conditions"].to_string().contains("targets are unchanged"), "{status}");
    fleet.rounds(12).await;
    assert_eq!(fleet.counts(), [("a", 8), ("b", 8), ("c", 8)].into());
    fleet.world.server.delete(document);
    fleet.taken.insert("a".to_owned(), Share { version: 9, ..Share::default() });
    fleet.rounds(24).await;
    assert_eq!(fleet.scraped(), TARGETS);
}

/// Scenario: two jobs' targets need more pods by the cap than there are. Guarantee: the status says
/// how many, and where the cap binds; all are scraped all the same.
#[tokio::test]
async fn the_status_says_how_many_pods_the_load_needs() {
    let mut wanted = scraping(TARGETS, 1);
    wanted["spec"]["receivers"]["prometheus"]["assignment"] =
        json!({"maxSamplesPerSecondPerPod": 60});
    let mut fleet = Fleet::new(wanted, &["a", "b"]).await;
    // Pods measure a target when they scrape it first.
    fleet.rounds(12).await;
    assert_eq!(fleet.scraped(), TARGETS);
    let status = fleet.status().await;
    // 168 samples per second, with 5 % between pods.
    assert_eq!(status["targets"]["neededPods"], 3);
    assert_eq!(status["targets"]["podsOverCapacity"], 2);
    let (reached, reason, _) = fleet.world.condition(POOL, "ScrapeCapacityReached").unwrap();
    assert_eq!((reached.as_str(), reason.as_str()), ("True", "CapacityReached"));
    fleet.add("c", "old");
    fleet.rounds(12).await;
    fleet.status().await;
    assert_eq!(fleet.world.condition(POOL, "ScrapeCapacityReached").unwrap().0, "False");
}

/// Scenario: a pod has more targets than one ConfigMap holds; the operator ends between the parts of
/// the next version, and a new one goes on. Guarantee: a whole version can be read at any time, none
/// is mixed, and old parts are removed.
#[tokio::test]
async fn a_share_in_parts_is_never_half_read() {
    let mut fleet = Fleet::new(scraping(3_000, 240), &["a"]).await;
    fleet.rounds(2).await;
    assert_eq!(fleet.documents(), ["a-share-a-0", "a-share-a-1"]);
    assert_eq!(fleet.scraped(), 3_000);
    for writes in 0..4 {
        fleet.world.server.edit(POOL, |pool| {
            let jobs = &mut pool["spec"]["receivers"]["prometheus"]["jobs"];
            jobs[0]["intervalSeconds"] = json!(20 + writes);
        });
        let mut left = writes;
        fleet.world.server.set_judge(Some(Box::new(move |method, _| {
            left -= i32::from(*method != http::Method::GET);
            (if left < 0 { Verdict::Refuse(500) } else { Verdict::Do }, 0)
        })));
        let _ = fleet.round().await;
        assert_eq!(fleet.scraped(), 3_000);
        fleet.memory = SharingMemory::default();
        fleet.world.server.set_judge(None);
        fleet.rounds(2).await;
        assert_eq!(fleet.documents().len(), 2, "{:?}", fleet.documents());
        let taken = &fleet.taken["a"];
        assert_eq!(taken.jobs["job-0"]["intervalSeconds"], 20 + writes);
        assert_eq!(fleet.scraped(), 3_000);
    }
}
