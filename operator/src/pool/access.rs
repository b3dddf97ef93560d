//! The rights of pools that read containers' files to watch pods, and namespaces if they choose
//! them by labels: their accounts are subjects of one ClusterRoleBinding for each right, which the
//! chart makes and which this operator may change, and no other.
//!
//! Pods of a node are of all namespaces, so a Role would not do; a binding for each pool would need
//! the right to change every binding. Without the right to pods a pool works, and its records go
//! without labels; without that to namespaces it reads no containers' files. A binding that isn't
//! there is named in the log, and stops nothing.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Subject};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::names::PoolNames;
use crate::cache::access::{Access, Account};
use crate::cluster::api;
use crate::context::Context;
use crate::error::{Step, StepError};

/// A right, and what a pool lacks without it.
#[derive(Clone, Copy, Debug)]
pub enum Right {
    /// To list and watch pods.
    Pods,
    /// To list and watch namespaces.
    Namespaces,
}

impl Right {
    fn access(self, context: &Context) -> &Access {
        match self {
            Self::Pods => &context.pod_access,
            Self::Namespaces => &context.namespace_access,
        }
    }

    fn lack(self) -> &'static str {
        match self {
            Self::Pods => "pods that read containers' files get no labels",
            Self::Namespaces => "pools with namespaceSelector read no containers' files",
        }
    }
}

/// Owns the subjects.
const MANAGER: &str = "millrace-operator/pod-access";
const ACCOUNT: &str = "ServiceAccount";

/// Puts a pool's account into a right's binding or takes it out, if it isn't as wanted.
///
/// # Errors
/// When the API server can't be reached, or refuses the change.
pub async fn follow(
    context: &Context,
    right: Right,
    names: &PoolNames,
    wanted: bool,
) -> Result<(), StepError> {
    let access = right.access(context);
    let Some(binding) = access.binding() else { return Ok(()) };
    let mut known = access.known().await;
    let account = (names.namespace.clone(), names.base.clone());
    if known.accounts.as_ref().is_some_and(|known| known.contains(&account) == wanted) {
        return Ok(());
    }
    known.accounts = None;
    let bindings: Api<ClusterRoleBinding> = Api::all(context.client.clone());
    let failed = |verb: &str, error| {
        let what = format!("{verb} ClusterRoleBinding {binding}");
        StepError::api(Step::Apply, what, error)
    };
    let live = match bindings.get_opt(binding).await {
        Ok(live) => live,
        Err(kube::Error::Api(status)) if status.code == 403 => None,
        Err(error) => return Err(failed("get", error)),
    };
    let Some(live) = live else {
        if wanted && !std::mem::replace(&mut known.is_named, true) {
            tracing::warn!(
                binding,
                lack = right.lack(),
                "the ClusterRoleBinding isn't there or can't be read: upgrade the chart, or set its \
                 podAccess.grant to false and give the right yourself"
            );
        }
        return Ok(());
    };
    known.is_named = false;
    let mut subjects = live.subjects.unwrap_or_default();
    if subjects.iter().any(|subject| is(subject, &account)) != wanted {
        let others = subjects.into_iter().filter(|subject| !is(subject, &account));
        subjects = staying(context, others).await;
        subjects.extend(wanted.then(|| subject(&account)));
        // The version makes this a conflict, not an overwrite, when it has changed meanwhile.
        let version = live.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "subjects": subjects});
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let patched = bindings.patch(binding, &params, &Patch::Merge(&patch)).await;
        patched.map_err(|error| failed("patch", error))?;
        context.metrics.wrote("ClusterRoleBinding", "subjects");
    }
    known.accounts = Some(subjects.iter().filter_map(account_of).collect::<BTreeSet<_>>());
    Ok(())
}

/// Without accounts that are gone with their pools: somebody may make one of that name again.
async fn staying(context: &Context, subjects: impl Iterator<Item = Subject>) -> Vec<Subject> {
    let mut staying = Vec::new();
    for subject in subjects {
        if let Some((namespace, name)) = account_of(&subject) {
            let accounts = api::<ServiceAccount>(&context.client, &namespace);
            if matches!(accounts.get_metadata_opt(&name).await, Ok(None)) {
                continue;
            }
        }
        staying.push(subject);
    }
    staying
}

fn subject((namespace, name): &Account) -> Subject {
    Subject {
        kind: ACCOUNT.to_owned(),
        namespace: Some(namespace.clone()),
        name: name.clone(),
        api_group: None,
    }
}

fn account_of(subject: &Subject) -> Option<Account> {
    let namespace = subject.namespace.clone().filter(|_| subject.kind == ACCOUNT)?;
    Some((namespace, subject.name.clone()))
}

fn is(subject: &Subject, account: &Account) -> bool {
    account_of(subject).as_ref() == Some(account)
}
