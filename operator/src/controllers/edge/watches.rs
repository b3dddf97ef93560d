//! Reports in the condition `WatchesAllowed` whether the API server lets pods watch pods and
//! namespaces. Pure.
//!
//! Pods report refusals through their metrics; if none answers, the condition is unchanged. Without
//! the right to pods, records have no metadata of pods, which nothing else shows; without that to
//! namespaces, no containers' file is read if they are selected by label.

use millrace_crds::v1alpha1::{EdgePool, EdgeSettings};
use millrace_crds::{ConditionType, Reason};

use crate::pods::{PodState, ScrapeResults};
use crate::pool::access::{self, Right};
use crate::pool::names::{PoolNames, Role};
use crate::report::conditions::Conditions;

/// The remedy.
const REMEDY: &str = "set the chart's podAccess.grant to true, so that the operator grants it, or \
                      bind a ClusterRole with it to the account yourself";

/// The watches that answering pods are refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Watches {
    /// The pods that report whether they are refused one.
    answered: usize,
    pods: Refused,
    namespaces: Refused,
}

/// The number of pods that are refused, and the name of one.
#[derive(Clone, Debug, Default, PartialEq)]
struct Refused {
    count: usize,
    first: String,
}

impl Watches {
    /// Sums the answers of pods that watch anything, which pods of an older configuration may not.
    /// Returns `None` if there are none.
    pub(super) fn from_answers(pods: &[PodState], scrapes: &ScrapeResults) -> Option<Self> {
        let mut watches = Self::default();
        for PodState { name, .. } in pods {
            let Some(Ok(sample)) = scrapes.get(name) else { continue };
            let (pods, namespaces) = (sample.is_refused_pods, sample.is_refused_namespaces);
            watches.answered += usize::from(pods.is_some() || namespaces.is_some());
            watches.pods.record_pod(pods, name);
            watches.namespaces.record_pod(namespaces, name);
        }
        (watches.answered > 0).then_some(watches)
    }

    fn refusal_text(&self, account: &str, settings: &EdgeSettings) -> Option<String> {
        let Self { answered, pods, namespaces } = self;
        let describe = |refused: &Refused, what: &str, lack: &str| {
            let Refused { count, first } = refused;
            (*count > 0).then(|| {
                format!(
                    "the API server refuses {count} of {answered} reporting pods ({first} is one) \
                     access to {what}, so {lack}"
                )
            })
        };
        let lack = match settings.receivers.selects_namespaces() {
            true => "logs of namespaces that aren't known go unread",
            false => "records get no labels of namespaces that aren't known",
        };
        let namespaces = describe(namespaces, "namespaces", lack);
        let pods = describe(pods, "pods", "records of pods that aren't known get no metadata");
        let rights = match (&namespaces, &pods) {
            (None, None) => return None,
            (Some(_), None) => "namespaces",
            (None, Some(_)) => "pods",
            (Some(_), Some(_)) => "pods and namespaces",
        };
        let refusals: Vec<String> = [namespaces, pods].into_iter().flatten().collect();
        Some(format!(
            "{}; ServiceAccount {account} needs the right to list and watch {rights} in all \
             namespaces: {REMEDY}",
            refusals.join("; ")
        ))
    }
}

impl Refused {
    fn record_pod(&mut self, is_refused: Option<bool>, pod: &str) {
        if is_refused != Some(true) {
            return;
        }
        if self.count == 0 {
            pod.clone_into(&mut self.first);
        }
        self.count += 1;
    }
}

/// Returns whether a pool's pods need a right that the API server may refuse them.
pub(super) fn requires_rights(settings: &EdgeSettings) -> bool {
    Right::Pods.is_required(settings) || Right::Namespaces.is_required(settings)
}

/// Sets the condition. Without an answer it is unchanged.
pub(super) fn state_watches(
    conditions: &mut Conditions,
    pool: &EdgePool,
    watches: Option<&Watches>,
) {
    use ConditionType::WatchesAllowed;
    let settings = &pool.spec.settings;
    if !requires_rights(settings) {
        return conditions.remove_condition(WatchesAllowed);
    }
    let Some(watches) = watches else {
        conditions.restate(WatchesAllowed);
        return;
    };
    let account = match PoolNames::of_pool(pool, Role::Edge) {
        Ok(names) => {
            let name = access::account_name(&settings.pod_template, &names);
            format!("{}/{name}", names.namespace)
        }
        // Such a pool has no pods.
        Err(_) => return,
    };
    match watches.refusal_text(&account, settings) {
        Some(text) => conditions.set_false(WatchesAllowed, Reason::WatchForbidden, text),
        None => {
            let message = "the API server refuses no request of the reporting pods";
            conditions.set_true(WatchesAllowed, Reason::Reconciled, message);
        }
    }
}
