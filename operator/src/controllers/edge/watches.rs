//! The condition `WatchesAllowed`: whether the API server tells pods what they ask about pods and
//! namespaces. Pure.
//!
//! Pods say it by their metrics; where none answers, the condition stays as it is. Without the
//! right to pods records go without labels, so that nothing seems wrong; without that to namespaces
//! no containers' file is read.

use millrace_crds::v1alpha1::EdgePool;
use millrace_crds::{ConditionType, Reason};

use super::node_logs::Answer;
use crate::pool::names::{PoolNames, Role};
use crate::report::conditions::Conditions;

/// What to do about it.
const REMEDY: &str = "set the chart's podAccess.grant to true, so that the operator gives it, or \
                      bind a ClusterRole with it to the account yourself";

/// What pods that answer are refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Watches {
    answered: usize,
    pods: Refused,
    namespaces: Refused,
}

/// How many nodes' pods are refused, and one of the nodes.
#[derive(Clone, Debug, Default, PartialEq)]
struct Refused {
    nodes: usize,
    first: String,
}

impl Watches {
    /// None if no pod answers.
    pub(super) fn of(answers: &[Answer<'_>]) -> Option<Self> {
        let mut watches = Self { answered: answers.len(), ..Self::default() };
        for Answer { node, logs, .. } in answers {
            watches.pods.add(logs.is_refused_pods, node);
            watches.namespaces.add(logs.is_refused_namespaces, node);
        }
        (!answers.is_empty()).then_some(watches)
    }

    fn text(&self, account: &str) -> Option<String> {
        let Self { answered, pods, namespaces } = self;
        let said = |refused: &Refused, what: &str, lack: &str| {
            let Refused { nodes, first } = refused;
            (*nodes > 0).then(|| {
                format!(
                    "on {nodes} of {answered} nodes that answer ({first} is one) the API server \
                     refuses to tell about {what}, so {lack}"
                )
            })
        };
        let namespaces =
            said(namespaces, "namespaces", "logs of namespaces that aren't known go unread");
        let pods = said(pods, "pods", "logs of pods that aren't known get no labels");
        let rights = match (&namespaces, &pods) {
            (None, None) => return None,
            (Some(_), None) => "namespaces",
            (None, Some(_)) => "pods",
            (Some(_), Some(_)) => "pods and namespaces",
        };
        let said: Vec<String> = [namespaces, pods].into_iter().flatten().collect();
        Some(format!(
            "{}; ServiceAccount {account} needs the right to list and watch {rights} in the whole \
             cluster: {REMEDY}",
            said.join("; ")
        ))
    }
}

impl Refused {
    fn add(&mut self, is_refused: bool, node: &str) {
        if is_refused && self.nodes == 0 {
            self.first = node.to_owned();
        }
        self.nodes += usize::from(is_refused);
    }
}

/// States the condition. Without an answer it stays as it is.
pub(super) fn state(conditions: &mut Conditions, pool: &EdgePool, watches: Option<&Watches>) {
    use ConditionType::WatchesAllowed;
    if !pool.spec.settings.receivers.watches_pods() {
        return conditions.drop(WatchesAllowed);
    }
    let Some(watches) = watches else { return };
    let account = match PoolNames::of(pool, Role::Edge) {
        Ok(names) => format!("{}/{}", names.namespace, names.base),
        // Such a pool has no pods.
        Err(_) => return,
    };
    match watches.text(&account) {
        Some(text) => conditions.fails(WatchesAllowed, Reason::WatchesRefused, text),
        None => {
            let message = "no pod that answers is refused what it asks the API server";
            conditions.holds(WatchesAllowed, Reason::AsAsked, message);
        }
    }
}
