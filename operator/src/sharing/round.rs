//! One round for one pool: read, ask pods, decide, hand over, write. What lasts is in the
//! documents; [`Memory`] only saves reads, and holds what pods last said. It must not change the
//! pool, its pods or its status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::EdgePool;
use millrace_monitors::Scraped;
use millrace_shares::{
    Decision, Entry, Input, Pod as Judged, PodName, SILENT_SECONDS, Seen, Share, Step as HandOver,
    Target, TargetId, Wanted, Weight, Write, assigned, decide, state, step,
};

use super::asked;
use super::sources::Sources;
use super::store::{self, Documents};
use crate::cache::scraping::Scraping;
use crate::context::Context;
use crate::error::{Category, Step, StepError};
use crate::monitors;
use crate::pods::{ShareAnswers, facts};
use crate::pool::names::{PoolNames, Role};
use crate::pool::observe;

/// Documents are read again so often, to find what somebody else did to them. Only this operator
/// writes them, so nothing waits for it.
const READ_EVERY_SECONDS: i64 = 60;

/// Pods are asked more often than this. Beyond it, time in which nobody asked is no silence: after
/// an outage of the API server one missed answer must not count as a death.
const ASKED_WITHIN_SECONDS: i64 = 10;

/// What is kept of a pool between rounds. Losing it costs reads, and 20 s until a dead pod is known
/// to be dead.
#[derive(Debug, Default)]
pub struct Memory {
    /// What is shared out, and what it was made of.
    sources: Option<Made>,
    monitors: monitors::Memory,
    documents: Option<(i64, Documents)>,
    /// When pods were last asked.
    asked_at: Option<i64>,
    seen: BTreeMap<PodName, Seen>,
    weights: BTreeMap<TargetId, Weight>,
}

/// Why nothing new is known: the reason, and the cause in words.
type Failure = (Reason, String);

/// What is shared out, of which generation of the pool, and of what was found in the cluster.
#[derive(Debug)]
struct Made {
    generation: Option<i64>,
    found: Option<Arc<Scraped>>,
    sources: Arc<Sources>,
}

/// The pods of a round.
struct Pods {
    /// All that are there, by the names of their shares.
    all: BTreeMap<PodName, Pod>,
    up: u64,
    down: u64,
    silent: u64,
}

/// One round. What it found is put where the pool's status is made of it.
///
/// # Errors
/// When the API server refuses or can't be reached, or somebody else wrote a document. The next
/// round reads all anew.
pub async fn round(
    context: &Context,
    pool: &EdgePool,
    memory: &mut Memory,
) -> Result<(), StepError> {
    let now = context.clock.now();
    let uid = pool.metadata.uid.as_deref().unwrap_or_default();
    let outcome = share_out(context, pool, memory, now.as_second()).await;
    let found = match &outcome {
        Ok(found) => Scraping { at: Some(now), ..found.clone() },
        Err(error) => {
            memory.documents = None;
            let failure = Some((error.reason, error.cause()));
            Scraping { failure, ..context.scraping.get(uid) }
        }
    };
    let waiting = found.targets.saturating_sub(found.shared);
    let counts = [found.shared, waiting, found.refused, found.up, found.down];
    context.metrics.targets_are(uid, Some(counts));
    context.scraping.put(uid, found, now);
    outcome.map(|_| ())
}

async fn share_out(
    context: &Context,
    pool: &EdgePool,
    memory: &mut Memory,
    now: i64,
) -> Result<Scraping, StepError> {
    let invalid = |invalid: crate::error::Invalid| {
        StepError::new(Step::Validate, Category::Invalid, invalid.reason, invalid.message)
    };
    let names = PoolNames::of(pool, Role::Edge).map_err(invalid)?;
    let (sources, failure) = memory.sources(context, pool).await?;
    let listed = observe::pods(context, &names.namespace, &names.selector()).await?;
    let mut documents = match memory.documents.take() {
        Some((at, documents)) if now < at + READ_EVERY_SECONDS => (at, documents),
        _ => {
            let mut read = Documents::read(context, &names).await?;
            read.tidy(context, &names).await?;
            (now, read)
        }
    };
    let pods = memory.ask(context, listed, &sources, now).await;
    memory.remember(&documents.1.shares(), &sources);
    let (decision, writes) = memory.decide(pool, &pods, &sources, &documents.1.shares(), now);
    for write in writes {
        match write {
            Write::Delete(name) => documents.1.delete(context, &names, &name).await?,
            Write::Put(name, share) => {
                let Some(owner) = pods.all.get(&name) else { continue };
                documents.1.put(context, &names, owner, &name, share).await?;
            }
        }
    }
    for placed in decision.placements.values().filter(|placed| placed.from.is_some()) {
        context.metrics.target_moved(placed.reason.word());
    }
    let shares = documents.1.shares();
    memory.documents = Some(documents);
    Ok(Scraping { failure, ..found(&decision, &pods, &sources, &shares) })
}

impl Memory {
    /// What the spec asks for and what is found in the cluster, worked out when either changes.
    /// While it can't be, what was shared out last stays, and why is returned beside it.
    async fn sources(
        &mut self,
        context: &Context,
        pool: &EdgePool,
    ) -> Result<(Arc<Sources>, Option<Failure>), StepError> {
        let found = match monitors::scraped(context, pool, &mut self.monitors).await {
            Ok(found) => found,
            Err(error) => match &self.sources {
                Some(made) => {
                    return Ok((made.sources.clone(), Some((error.reason, error.cause()))));
                }
                None => return Err(error),
            },
        };
        let generation = pool.metadata.generation;
        if let Some(made) = &self.sources
            && made.generation == generation
            && made.found.as_ref().map(Arc::as_ptr) == found.as_ref().map(Arc::as_ptr)
        {
            return Ok((made.sources.clone(), None));
        }
        let sources = Arc::new(asked::sources(pool, found.as_deref())?);
        self.sources = Some(Made { generation, found, sources: sources.clone() });
        Ok((sources, None))
    }

    /// Asks pods, and notes what they say.
    async fn ask(
        &mut self,
        context: &Context,
        listed: Vec<Pod>,
        sources: &Sources,
        now: i64,
    ) -> Pods {
        let named = listed.into_iter().map(|pod| {
            let (name, uid) = store::name_and_uid(&pod);
            (store::pod_name(&name, &uid), pod)
        });
        let all: BTreeMap<PodName, Pod> = named.collect();
        let targets: Vec<_> = all
            .values()
            .filter(|pod| !has_ended(pod))
            .filter_map(|pod| facts(pod).target())
            .collect();
        let answers = context.shares.ask(&targets).await;
        self.seen.retain(|name, _| all.contains_key(name));
        let unasked = self.asked_at.map_or(0, |at| now - at - ASKED_WITHIN_SECONDS).max(0);
        self.seen.values_mut().for_each(|seen| seen.heard_at += unasked);
        self.asked_at = Some(now);
        let mut pods = Pods { all, up: 0, down: 0, silent: 0 };
        for (name, pod) in &pods.all {
            let first = Seen { heard_at: now, ..Seen::default() };
            let seen = self.seen.entry(name.clone()).or_insert(first);
            seen.deleted = has_ended(pod);
            seen.terminating = pod.metadata.deletion_timestamp.is_some();
            match answer(&answers, pod) {
                Some(Ok(report)) => {
                    (seen.heard_at, seen.reported) = (now, Some(report.version.unwrap_or(0)));
                    pods.up += report.up;
                    pods.down += report.down;
                    for (id, samples) in report.samples() {
                        if let Some(source) = sources.targets.get(&id) {
                            let weight = Weight::of_scrape(samples, source.interval_seconds);
                            self.weights.insert(id, weight);
                        }
                    }
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "a pod does not tell of its share");
                    pods.silent += 1;
                }
                None => {}
            }
        }
        pods
    }

    /// Targets that were not measured since the operator began cost what documents say.
    fn remember(&mut self, shares: &BTreeMap<PodName, Share>, sources: &Sources) {
        self.weights.retain(|id, _| sources.targets.contains_key(id));
        for (id, entry) in shares.values().flat_map(|share| &share.targets) {
            if sources.targets.contains_key(id) {
                self.weights.entry(*id).or_insert(entry.weight);
            }
        }
    }

    fn decide(
        &self,
        pool: &EdgePool,
        pods: &Pods,
        sources: &Sources,
        shares: &BTreeMap<PodName, Share>,
        now: i64,
    ) -> (Decision, Vec<Write>) {
        let targets = sources.targets.iter().map(|(id, source)| {
            let (job, zone) = (source.entry.job.clone(), source.zone.clone());
            (*id, Target { job, weight: self.weights.get(id).copied(), zone })
        });
        let judged = pods.all.iter().map(|(name, pod)| {
            let seen = self.seen.get(name).copied().unwrap_or_default();
            let state = state(&seen, now, SILENT_SECONDS);
            (name.clone(), Judged { state, zone: zone(pod) })
        });
        let (targets, judged): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (targets.collect(), judged.collect());
        let mut policy = asked::policy(pool);
        if changes(pods.all.values()) {
            policy.moves_max = 0;
        }
        let before = assigned(shares);
        let decision =
            decide(&Input { targets: &targets, pods: &judged, assigned: &before, policy: &policy });
        let wanted = decision.placements.iter().filter_map(|(id, placed)| {
            let entry = sources.targets.get(id)?.entry.clone();
            let entry = Entry { weight: placed.weight, ..entry };
            Some((*id, Wanted { pod: placed.pod.clone()?, entry }))
        });
        let writes = step(&HandOver {
            shares,
            pods: &self.seen,
            wanted: &wanted.collect(),
            jobs: &sources.jobs,
            now,
            silent_seconds: SILENT_SECONDS,
        });
        (decision, writes)
    }
}

fn found(
    decision: &Decision,
    pods: &Pods,
    sources: &Sources,
    shares: &BTreeMap<PodName, Share>,
) -> Scraping {
    let figures = &decision.figures;
    let placed: BTreeSet<&TargetId> = shares.values().flat_map(|it| it.targets.keys()).collect();
    let shared = sources.targets.keys().filter(|id| placed.contains(id)).count();
    let milli: u64 = decision.placements.values().map(|placed| placed.weight.milli()).sum();
    Scraping {
        at: None,
        targets: sources.targets.len() as u64,
        shared: shared as u64,
        left_out: figures.left_out,
        up: pods.up,
        down: pods.down,
        monitors: sources.monitors,
        broken_monitors: sources.broken_monitors,
        refused: sources.refused,
        refusals: sources.refusals.clone(),
        silent_pods: pods.silent,
        ready_pods: decision.pods.len() as u64,
        pods_over_cap: figures.pods_over_cap,
        needed_pods: figures.needed_pods,
        samples_per_second: milli / 1_000,
        failure: None,
    }
}

fn answer<'a>(
    answers: &'a ShareAnswers,
    pod: &Pod,
) -> Option<&'a Result<crate::pods::ShareReport, crate::pods::ScrapeError>> {
    answers.get(pod.metadata.name.as_deref()?)
}

/// Whether its process is gone although its object is there: it was evicted, or ended by itself.
fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The zone of its node, where the cluster says it on pods (Kubernetes 1.35 and later).
fn zone(pod: &Pod) -> Option<String> {
    pod.metadata.labels.as_ref()?.get("topology.kubernetes.io/zone").cloned()
}

/// Whether pods of two revisions are there: a rollout, in which each target is to move once.
fn changes<'a>(pods: impl Iterator<Item = &'a Pod>) -> bool {
    let staying = pods.filter(|pod| pod.metadata.deletion_timestamp.is_none() && !has_ended(pod));
    let revision = |pod: &'a Pod| pod.metadata.labels.as_ref()?.get("pod-template-hash");
    staying.map(revision).collect::<BTreeSet<_>>().len() > 1
}
