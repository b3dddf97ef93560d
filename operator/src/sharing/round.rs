//! One round for one pool: read, query pods, decide, hand over, write. All lasting state is in the
//! documents; [`Memory`] only saves reads, and caches the pods' last reports. It must not change
//! the pool, its pods or its status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::EdgePool;
use millrace_monitors::DiscoveryResult;
use millrace_share_documents::{PodName, Share, TargetEntry, TargetId, Weight};
use millrace_shares::{
    CandidatePod as Judged, Decision, DecisionInput, DesiredTarget, HandoverInput as HandOver,
    PodObservation, SILENT_SECONDS, Target, Write, assign_targets, current_assignment, plan_writes,
    pod_state,
};

use super::sources::Sources;
use super::store::{self, Documents};
use super::{declared, set_scraping};
use crate::cache::scraping::Scraping;
use crate::context::Context;
use crate::error::{Category, StepError};
use crate::monitors;
use crate::pods::{ShareResponses, read_pod_state};
use crate::pool::names::{PoolNames, Role};
use crate::pool::observe;
use crate::telemetry::metrics::Counter;

/// Documents are read again this often, to detect changes by others. Only this operator writes
/// them, so nothing waits for it.
const READ_EVERY_SECONDS: i64 = 60;

/// Pods are queried more often than this. Beyond it, time without a query is no silence: after an
/// outage of the API server one missed answer must not count as a death.
const QUERIED_WITHIN_SECONDS: i64 = 10;

const MOVES: Counter<1> = Counter::new(
    "millrace_operator_target_moves_total",
    "Scrape targets that moved to another pod of their pool, by reason.",
    ["reason"],
);

/// The state of a pool between rounds. Losing it costs reads, and 20 s until a dead pod counts as
/// dead.
#[derive(Debug, Default)]
pub struct SharingMemory {
    /// The targets to share out, and their inputs.
    sources: Option<MadeSources>,
    monitors: monitors::MonitorMemory,
    documents: Option<(i64, Documents)>,
    /// When pods were last queried.
    queried_at: Option<i64>,
    observations: BTreeMap<PodName, PodObservation>,
    weights: BTreeMap<TargetId, Weight>,
    /// Targets that moved, with their new pods, until these have scraped them. A new operator moves
    /// them once more at worst.
    unscraped_moves: BTreeMap<TargetId, PodName>,
}

/// Why the targets are outdated: the reason, and the cause as text.
type Failure = (Reason, String);

/// The targets to share out, the generation of the pool, and the discovery result from which they
/// were computed.
#[derive(Debug)]
struct MadeSources {
    generation: Option<i64>,
    discovered: Option<Arc<DiscoveryResult>>,
    sources: Arc<Sources>,
}

struct RoundPods {
    /// All existing pods, by the names of their shares.
    all: BTreeMap<PodName, Pod>,
    up: u64,
    down: u64,
    silent: u64,
}

/// Runs one round, and stores its result for the pool's status.
///
/// # Errors
/// When the API server refuses or can't be reached, or another writer changed a document. The next
/// round reads everything again.
pub async fn run_round(
    context: &Context,
    pool: &EdgePool,
    memory: &mut SharingMemory,
) -> Result<(), StepError> {
    let now = context.clock.now();
    let uid = pool.metadata.uid.as_deref().unwrap_or_default();
    let outcome = share_out(context, pool, memory, now.as_second()).await;
    let found = match &outcome {
        Ok(found) => Scraping { at: Some(now), ..found.clone() },
        Err(error) => {
            let failure = Some((error.reason, error.cause()));
            Scraping { failure, ..context.scraping.get(uid) }
        }
    };
    set_scraping(context, uid, found, now);
    outcome.map(|_| ())
}

async fn share_out(
    context: &Context,
    pool: &EdgePool,
    memory: &mut SharingMemory,
    now: i64,
) -> Result<Scraping, StepError> {
    let names = PoolNames::of_pool(pool, Role::Edge).map_err(StepError::spec_invalid)?;
    let discovered =
        match monitors::discover_pool_targets(context, pool, &mut memory.monitors).await {
            // This error lasts until somebody changes something: no need to read documents for it.
            Err(error) if memory.sources.is_none() && error.category != Category::Temporary => {
                return Err(error);
            }
            discovered => discovered,
        };
    // A failed write drops them: the next round reads them again.
    let mut documents = match memory.documents.take() {
        Some((at, documents)) if now < at + READ_EVERY_SECONDS => (at, documents),
        _ => {
            let mut read = Documents::read(context, &names).await?;
            read.delete_leftovers(context, &names).await?;
            (now, read)
        }
    };
    let (sources, failure) = match memory.update_sources(pool, discovered, &documents.1) {
        Ok(made) => made,
        Err(error) => {
            memory.documents = Some(documents);
            return Err(error);
        }
    };
    let listed = observe::list_pods(context, &names.namespace, &names.selector()).await?;
    let pods = memory.query_pods(context, listed, &sources, now).await;
    memory.restore_weights(&documents.1.shares(), &sources);
    let (decision, writes) =
        memory.decide_writes(pool, &pods, &sources, &documents.1.shares(), now);
    for write in writes {
        match write {
            Write::Delete(name) => documents.1.delete_share(context, &names, &name).await?,
            Write::Put(name, share) => {
                let Some(owner) = pods.all.get(&name) else { continue };
                documents.1.write_share(context, &names, owner, &name, share).await?;
            }
        }
    }
    for (id, placed) in decision.placements.iter().filter(|(_, placed)| placed.from.is_some()) {
        context.metrics.count(&MOVES, [placed.reason.as_str()]);
        memory.unscraped_moves.extend(placed.pod.clone().map(|pod| (*id, pod)));
    }
    let shares = documents.1.shares();
    memory.documents = Some(documents);
    Ok(Scraping { failure, ..build_scraping(&decision, &pods, &sources, &shares) })
}

impl SharingMemory {
    /// Returns the targets of the spec and the cluster, computed again when either changes. While
    /// they can't be computed, returns the last ones together with the cause: after a change of
    /// leader those are the targets in documents, so that the targets of a pod that ends move on
    /// even while discovery isn't complete.
    fn update_sources(
        &mut self,
        pool: &EdgePool,
        discovered: Result<Option<Arc<DiscoveryResult>>, StepError>,
        documents: &Documents,
    ) -> Result<(Arc<Sources>, Option<Failure>), StepError> {
        let found = match discovered {
            Ok(found) => found,
            Err(error) => {
                let failure = Some((error.reason, error.cause()));
                if let Some(made) = &self.sources {
                    return Ok((made.sources.clone(), failure));
                }
                let shares = documents.shares();
                if shares.is_empty() {
                    return Err(error);
                }
                let mut sources = declared::declared_sources(pool, None)?;
                sources.add_shared(&shares);
                return Ok((Arc::new(sources), failure));
            }
        };
        let generation = pool.metadata.generation;
        if let Some(made) = &self.sources
            && made.generation == generation
            && made.discovered.as_ref().map(Arc::as_ptr) == found.as_ref().map(Arc::as_ptr)
        {
            return Ok((made.sources.clone(), None));
        }
        let sources = Arc::new(declared::declared_sources(pool, found.as_deref())?);
        self.sources =
            Some(MadeSources { generation, discovered: found, sources: sources.clone() });
        Ok((sources, None))
    }

    /// Queries pods, and records their reports.
    async fn query_pods(
        &mut self,
        context: &Context,
        listed: Vec<Pod>,
        sources: &Sources,
        now: i64,
    ) -> RoundPods {
        let named = listed.into_iter().map(|pod| {
            let (name, uid) = store::name_and_uid(&pod);
            (store::pod_name(&name, &uid), pod)
        });
        let all: BTreeMap<PodName, Pod> = named.collect();
        let targets: Vec<_> = all
            .values()
            .filter(|pod| !has_ended(pod))
            .filter_map(|pod| read_pod_state(pod).scrape_target())
            .collect();
        let answers = context.shares.query_shares(&targets).await;
        self.observations.retain(|name, _| all.contains_key(name));
        let unasked = self.queried_at.map_or(0, |at| now - at - QUERIED_WITHIN_SECONDS).max(0);
        self.observations.values_mut().for_each(|observation| observation.heard_at += unasked);
        self.queried_at = Some(now);
        let mut pods = RoundPods { all, up: 0, down: 0, silent: 0 };
        for (name, pod) in &pods.all {
            let first = PodObservation { heard_at: now, ..PodObservation::default() };
            let observation = self.observations.entry(name.clone()).or_insert(first);
            observation.deleted = has_ended(pod);
            observation.terminating = pod.metadata.deletion_timestamp.is_some();
            observation.is_ready = is_ready(pod);
            match response_of(&answers, pod) {
                Some(Ok(report)) => {
                    (observation.heard_at, observation.reported) =
                        (now, Some(report.version.unwrap_or(0)));
                    pods.up += report.up;
                    pods.down += report.down;
                    let scraped =
                        |id: &TargetId| report.targets.get(id).is_some_and(|it| it.up.is_some());
                    self.unscraped_moves.retain(|id, pod| *pod != *name || !scraped(id));
                    for (id, samples) in report.measured_samples() {
                        if let Some(source) = sources.targets.get(&id) {
                            let weight = Weight::of_scrape(samples, source.interval_seconds);
                            self.weights.insert(id, weight);
                        }
                    }
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "a pod does not report its share");
                    pods.silent += 1;
                }
                None => {}
            }
        }
        pods
    }

    /// Uses the weights in documents for targets that were not measured since the operator
    /// started.
    fn restore_weights(&mut self, shares: &BTreeMap<PodName, Share>, sources: &Sources) {
        self.weights.retain(|id, _| sources.targets.contains_key(id));
        self.unscraped_moves.retain(|id, _| sources.targets.contains_key(id));
        for (id, entry) in shares.values().flat_map(|share| &share.targets) {
            if sources.targets.contains_key(id) {
                self.weights.entry(*id).or_insert(entry.weight);
            }
        }
    }

    fn decide_writes(
        &self,
        pool: &EdgePool,
        pods: &RoundPods,
        sources: &Sources,
        shares: &BTreeMap<PodName, Share>,
        now: i64,
    ) -> (Decision, Vec<Write>) {
        let targets = sources.targets.iter().map(|(id, source)| {
            let (job, zone) = (source.entry.job.clone(), source.zone.clone());
            let awaits_scrape = self.unscraped_moves.contains_key(id);
            (*id, Target { job, weight: self.weights.get(id).copied(), zone, awaits_scrape })
        });
        let judged = pods.all.iter().map(|(name, pod)| {
            let observation = self.observations.get(name).copied().unwrap_or_default();
            let state = pod_state(&observation, now, SILENT_SECONDS);
            (name.clone(), Judged { state, zone: zone_of(pod) })
        });
        let (targets, judged): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (targets.collect(), judged.collect());
        let mut policy = declared::sharing_policy(pool);
        if has_rollout(pods.all.values()) {
            policy.moves_max = 0;
        }
        let before = current_assignment(shares);
        let decision = assign_targets(&DecisionInput {
            targets: &targets,
            pods: &judged,
            assigned: &before,
            policy: &policy,
        });
        let desired = decision.placements.iter().filter_map(|(id, placed)| {
            let entry = sources.targets.get(id)?.entry.clone();
            let entry = TargetEntry { weight: placed.weight, ..entry };
            Some((*id, DesiredTarget { pod: placed.pod.clone()?, entry }))
        });
        let writes = plan_writes(&HandOver {
            shares,
            pods: &self.observations,
            desired: &desired.collect(),
            jobs: &sources.jobs,
            now,
            silent_seconds: SILENT_SECONDS,
        });
        (decision, writes)
    }
}

fn build_scraping(
    decision: &Decision,
    pods: &RoundPods,
    sources: &Sources,
    shares: &BTreeMap<PodName, Share>,
) -> Scraping {
    let figures = &decision.figures;
    let placed: BTreeSet<&TargetId> = shares.values().flat_map(|it| it.targets.keys()).collect();
    let assigned = sources.targets.keys().filter(|id| placed.contains(id)).count();
    let milli: u64 = decision.placements.values().map(|placed| placed.weight.milli()).sum();
    Scraping {
        at: None,
        targets: sources.targets.len() as u64,
        assigned: assigned as u64,
        excluded: figures.unplaced,
        up: pods.up,
        down: pods.down,
        monitors: sources.monitors,
        invalid_monitors: sources.invalid_monitors,
        refused: sources.refused,
        refused_in_spec: sources.refused_in_spec,
        refusals: sources.refusals.clone(),
        unreachable_pods: pods.silent,
        ready_pods: decision.pods.len() as u64,
        pods_over_capacity: figures.pods_over_capacity,
        needed_pods: figures.needed_pods,
        samples_per_second: milli / 1_000,
        failure: None,
    }
}

fn response_of<'a>(
    responses: &'a ShareResponses,
    pod: &Pod,
) -> Option<&'a Result<crate::pods::ShareReport, crate::pods::ScrapeError>> {
    responses.get(pod.metadata.name.as_deref()?)
}

/// Returns whether a pod's process ended although its object exists: it was evicted, or it exited.
fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Returns whether the pod's readiness probe succeeds, according to the kubelet. That needs no
/// network between the operator and the pod.
fn is_ready(pod: &Pod) -> bool {
    read_pod_state(pod).ready_since.is_some()
}

/// Returns the zone of the pod's node, where the cluster labels pods with it (Kubernetes 1.35 and
/// later).
fn zone_of(pod: &Pod) -> Option<String> {
    pod.metadata.labels.as_ref()?.get("topology.kubernetes.io/zone").cloned()
}

/// Returns whether pods of two revisions exist: a rollout, in which each target should move once.
fn has_rollout<'a>(pods: impl Iterator<Item = &'a Pod>) -> bool {
    let staying = pods.filter(|pod| pod.metadata.deletion_timestamp.is_none() && !has_ended(pod));
    let revision = |pod: &'a Pod| pod.metadata.labels.as_ref()?.get("pod-template-hash");
    staying.map(revision).collect::<BTreeSet<_>>().len() > 1
}
