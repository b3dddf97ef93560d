//! Reports in the condition `WatchesAllowed` whether the API server lets pods watch pods and
//! namespaces. Pure.
//!
//! Pods report refusals through their metrics; if none answers, the condition is unchanged. Without
//! the right to pods, records have no labels, which nothing else shows; without that to namespaces,
//! no containers' file is read.

use millrace_crds::v1alpha1::{EdgeMode, EdgePool};
use millrace_crds::{ConditionType, Reason};

use super::logs_lost::NodeResponse;
use crate::pool::access;
use crate::pool::names::{PoolNames, Role};
use crate::report::conditions::Conditions;

/// The remedy.
const REMEDY: &str = "set the chart's podAccess.grant to true, so that the operator grants it, or \
                      bind a ClusterRole with it to the account yourself";

/// The watches that answering pods are refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Watches {
    answered: usize,
    pods: Refused,
    namespaces: Refused,
}

/// The number of nodes whose pods are refused, and one of the nodes.
#[derive(Clone, Debug, Default, PartialEq)]
struct Refused {
    nodes: usize,
    first: String,
}

impl Watches {
    /// Returns `None` if no pod answers.
    pub(super) fn from_responses(answers: &[NodeResponse<'_>]) -> Option<Self> {
        let mut watches = Self { answered: answers.len(), ..Self::default() };
        for NodeResponse { node, logs, .. } in answers {
            watches.pods.record_node(logs.is_refused_pods, node);
            watches.namespaces.record_node(logs.is_refused_namespaces, node);
        }
        (!answers.is_empty()).then_some(watches)
    }

    fn refusal_text(&self, account: &str) -> Option<String> {
        let Self { answered, pods, namespaces } = self;
        let describe = |refused: &Refused, what: &str, lack: &str| {
            let Refused { nodes, first } = refused;
            (*nodes > 0).then(|| {
                format!(
                    "on {nodes} of {answered} reporting nodes ({first} is one) the API server \
                     refuses access to {what}, so {lack}"
                )
            })
        };
        let namespaces =
            describe(namespaces, "namespaces", "logs of namespaces that aren't known go unread");
        let pods = describe(pods, "pods", "records of pods that aren't known get no labels");
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
    fn record_node(&mut self, is_refused: bool, node: &str) {
        if is_refused && self.nodes == 0 {
            self.first = node.to_owned();
        }
        self.nodes += usize::from(is_refused);
    }
}

/// Sets the condition. Without an answer it is unchanged.
pub(super) fn state_watches(
    conditions: &mut Conditions,
    pool: &EdgePool,
    watches: Option<&Watches>,
) {
    use ConditionType::WatchesAllowed;
    let settings = &pool.spec.settings;
    if settings.mode != EdgeMode::DaemonSet || !settings.watches_pods() {
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
    match watches.refusal_text(&account) {
        Some(text) => conditions.set_false(WatchesAllowed, Reason::WatchForbidden, text),
        None => {
            let message = "the API server refuses no request of the reporting pods";
            conditions.set_true(WatchesAllowed, Reason::Reconciled, message);
        }
    }
}
