//! Gives pools that label records with pods' metadata the right to watch pods and, if they select
//! namespaces of containers' files by labels or add labels of namespaces, namespaces. Their
//! accounts are subjects of one ClusterRoleBinding for each right. The chart creates these
//! bindings; the operator may change them and no others.
//!
//! Pods that send records belong to all namespaces, so a Role would not do; a binding for each pool
//! would need the right to change every binding. Without the right to pods a pool works, but its
//! records have no labels; without the right to namespaces it reads no containers' files. A missing
//! binding is logged and stops nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use kube::api::{Api, ListParams, Patch, PatchParams};
use millrace_crds::v1alpha1::{EdgeMode, EdgePool, EdgeSettings, PodTemplate};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::cache::access::{Account, AccountBinding};
use crate::cluster::namespaced_api;
use crate::context::Context;
use crate::error::{ReconcileStep, StepError, error_chain};
use crate::ownership::controller_of;
use crate::pool::names::{PoolNames, Role};
use crate::pool::template;
use crate::pool::workload::EdgeWorkload;

/// A right to watch objects in all namespaces.
#[derive(Clone, Copy, Debug)]
pub enum Right {
    /// Watches pods; a watch begins with those that exist.
    Pods,
    /// Lists and watches namespaces.
    Namespaces,
}

impl Right {
    fn binding_of(self, context: &Context) -> &AccountBinding {
        match self {
            Self::Pods => &context.pod_access,
            Self::Namespaces => &context.namespace_access,
        }
    }

    /// Whether a pool's pods need the right.
    #[must_use]
    pub fn is_required(self, settings: &EdgeSettings) -> bool {
        let is_on_nodes = settings.mode == EdgeMode::DaemonSet;
        match self {
            Self::Pods => settings.enriches() || (is_on_nodes && settings.watches_pods()),
            Self::Namespaces => {
                settings.adds_namespace_labels()
                    || (is_on_nodes && settings.receivers.selects_namespaces())
            }
        }
    }

    /// Returns the account through which a pool needs the right, if it does.
    fn required_account(self, pool: &EdgePool) -> Option<Account> {
        let is_required = self.is_required(&pool.spec.settings);
        let names = PoolNames::of_pool(pool, Role::Edge).ok().filter(|_| is_required)?;
        let name = account_name(&pool.spec.settings.pod_template, &names).to_owned();
        Some((names.namespace, name))
    }

    fn lack_message(self) -> &'static str {
        match self {
            Self::Pods => "records get no metadata of pods",
            Self::Namespaces => {
                "pools with namespaceSelector read no containers' files, and records get no labels \
                 of namespaces"
            }
        }
    }
}

/// The field manager of the subjects.
const MANAGER: &str = "millrace-operator/pod-access";
const ACCOUNT: &str = "ServiceAccount";

/// The interval for reading a binding again, since someone else may have written it.
const READ_EVERY_SECONDS: i64 = 300;

/// Returns the account that a pool's pods run as: the pool's, or the one that the spec names.
#[must_use]
pub fn account_name<'a>(template: &'a PodTemplate, names: &'a PoolNames) -> &'a str {
    let named = template.spec.get("serviceAccountName").and_then(Value::as_str);
    named.filter(|name| !name.is_empty()).unwrap_or(&names.base)
}

/// Adds the account of a pool's pods to a right's binding, if the pool needs the right. Removes
/// accounts through which no pool needs it and that no pool's pods run as or may again.
///
/// # Errors
/// When the API server can't be reached, or refuses the change.
pub async fn ensure_binding(
    context: &Context,
    right: Right,
    pool: &EdgePool,
) -> Result<(), StepError> {
    let Some(own) = managed_account(pool) else { return Ok(()) };
    revise(context, right, Some((pool, &own))).await
}

/// Removes unneeded accounts every [`READ_EVERY_SECONDS`], from when this replica leads until
/// `stop`. This also covers the time after the last pool is deleted.
pub async fn run(
    context: Arc<Context>,
    mut leads: watch::Receiver<bool>,
    stop: impl Future<Output = ()> + Send,
) {
    let sweeps = async {
        if leads.wait_for(|leads| *leads).await.is_err() {
            return;
        }
        loop {
            tokio::time::sleep(Duration::from_secs(READ_EVERY_SECONDS.unsigned_abs())).await;
            if let Err(error) = sweep(&context).await {
                let error = error_chain(&error);
                tracing::warn!(error, "accounts were not removed from a binding");
            }
        }
    };
    tokio::select! {
        () = sweeps => {}
        () = stop => {}
    }
}

/// Removes unneeded accounts from both bindings, unless these were read recently.
///
/// # Errors
/// As [`ensure_binding`].
pub async fn sweep(context: &Context) -> Result<(), StepError> {
    revise(context, Right::Pods, None).await?;
    revise(context, Right::Namespaces, None).await
}

/// Ensures that a binding contains the account through which the pool needs the right, and no
/// unneeded one. Reads the binding only if the last read is old or differed: it lacked that account
/// or, without one, contained the pool's own.
async fn revise(
    context: &Context,
    right: Right,
    pool: Option<(&EdgePool, &Account)>,
) -> Result<(), StepError> {
    let wanted = pool.and_then(|(pool, _)| right.required_account(pool));
    let access = right.binding_of(context);
    let Some(binding) = access.binding() else { return Ok(()) };
    let mut known = access.lock_known().await;
    let now = context.clock.now().as_second();
    let is_known = |accounts: &BTreeSet<Account>| match &wanted {
        Some(account) => accounts.contains(account),
        None => pool.is_none_or(|(_, own)| !accounts.contains(own)),
    };
    let is_recent = now < known.read_at.saturating_add(READ_EVERY_SECONDS);
    if is_recent && known.accounts.as_ref().map_or(wanted.is_none(), is_known) {
        return Ok(());
    }
    // Only a success counts as a read, so that a retry reads the binding again.
    (known.accounts, known.read_at) = (None, 0);
    let bindings: Api<ClusterRoleBinding> = Api::all(context.client.clone());
    let failed = |verb: &str, error| {
        let what = format!("{verb} ClusterRoleBinding {binding}");
        StepError::from_kube(ReconcileStep::Apply, what, error)
    };
    let live = match bindings.get_opt(binding).await {
        Ok(live) => live,
        Err(kube::Error::Api(status)) if status.code == 403 => None,
        Err(error) => return Err(failed("get", error)),
    };
    let Some(live) = live else {
        known.read_at = now;
        if wanted.is_some() && !std::mem::replace(&mut known.is_named, true) {
            tracing::warn!(
                binding,
                lack = right.lack_message(),
                "the ClusterRoleBinding doesn't exist or can't be read: upgrade the chart, or set \
                 its podAccess.grant to false and grant the right yourself"
            );
        }
        return Ok(());
    };
    known.is_named = false;
    let live_subjects = live.subjects.unwrap_or_default();
    let mut subjects = retain_subjects(context, right, pool, live_subjects.clone()).await;
    if let Some(account) = &wanted
        && !subjects.iter().any(|subject| account_of(subject).as_ref() == Some(account))
    {
        subjects.push(subject_of(account));
    }
    if subjects != live_subjects {
        // If the binding has changed since, the version makes this a conflict instead of an
        // overwrite.
        let version = live.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "subjects": subjects});
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let patched = bindings.patch(binding, &params, &Patch::Merge(&patch)).await;
        patched.map_err(|error| failed("patch", error))?;
        context.metrics.record_write("ClusterRoleBinding", "subjects");
    }
    known.accounts = Some(subjects.iter().filter_map(account_of).collect::<BTreeSet<_>>());
    known.read_at = now;
    Ok(())
}

/// Returns the account that the operator creates for a pool.
fn managed_account(pool: &EdgePool) -> Option<Account> {
    let names = PoolNames::of_pool(pool, Role::Edge).ok()?;
    Some((names.namespace, names.base))
}

/// Returns the subjects without unneeded accounts: those through which no pool needs the right and
/// that no pool's pods run as or may again. They belonged to pools that were deleted or no longer
/// need the right, or pods ran as them before. Subjects of other kinds remain. Until all pools are
/// read, only the pool's own account and accounts that no longer exist are removed.
async fn retain_subjects(
    context: &Context,
    right: Right,
    pool: Option<(&EdgePool, &Account)>,
    subjects: Vec<Subject>,
) -> Vec<Subject> {
    let wanted = context.stores.if_read::<EdgePool>().map(|pools| {
        let pools = pools.iter().filter_map(|pool| pool.unpack().0.ok());
        pools.filter_map(|pool| right.required_account(&pool)).collect::<BTreeSet<_>>()
    });
    let mut staying = Vec::new();
    for subject in subjects {
        let stays = match (account_of(&subject), &wanted) {
            (None, _) => true,
            (Some(account), Some(wanted)) => {
                wanted.contains(&account) || is_in_use(context, right, &account, None).await
            }
            (Some(account), None) if pool.is_some_and(|(_, own)| *own == account) => {
                let pool = pool.map(|(pool, _)| pool);
                pool.and_then(|pool| right.required_account(pool)).as_ref() == Some(&account)
                    || is_in_use(context, right, &account, pool).await
            }
            (Some((namespace, name)), None) => {
                let accounts = namespaced_api::<ServiceAccount>(&context.client, &namespace);
                !matches!(accounts.get_metadata_opt(&name).await, Ok(None))
            }
        };
        if stays {
            staying.push(subject);
        }
    }
    staying
}

/// What a pool with a workload needs of a right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// The spec needs it, through whatever account; or the pool is unknown.
    Needed,
    /// The spec doesn't need it, but pods may have an earlier one.
    Ending,
    /// The spec doesn't need it, and all pods have it.
    Ended,
}

impl Need {
    fn of_pool(right: Right, pool: &EdgePool) -> Self {
        let status = pool.status.as_ref();
        let has_reached_all_pods = status.is_some_and(|status| {
            status.observed_generation == pool.metadata.generation
                && status.pending_change.is_none()
        });
        match right.required_account(pool) {
            Some(_) => Self::Needed,
            None if has_reached_all_pods => Self::Ended,
            None => Self::Ending,
        }
    }
}

/// Returns whether pods of a pool run as an account through which they need a right, or may again:
/// the workload still has the template of before a change, or would be rolled back to it. Between a
/// pod's deletion and its successor, no pod need run as it. `pool` is at hand while not all pools
/// are read. Where workloads or pods may not be listed there are no pools; any other failure proves
/// nothing.
async fn is_in_use(
    context: &Context,
    right: Right,
    account: &Account,
    pool: Option<&EdgePool>,
) -> bool {
    match find_use(context, right, account, pool).await {
        Ok(is_in_use) => is_in_use,
        Err(kube::Error::Api(status)) => status.code != 403,
        Err(_) => true,
    }
}

async fn find_use(
    context: &Context,
    right: Right,
    (namespace, name): &Account,
    pool: Option<&EdgePool>,
) -> Result<bool, kube::Error> {
    let params = ListParams::default().labels(&PoolNames::role_selector_text(Role::Edge));
    let mut owners = Vec::new();
    let sets = list_workloads::<DaemonSet>(context, namespace, &params).await?;
    let deployments = list_workloads::<Deployment>(context, namespace, &params).await?;
    for workload in sets.into_iter().chain(deployments) {
        // Whoever may create objects can give them any label.
        let Some(owner) = controller_of(&workload.metadata).filter(|owner| is_pool(owner)) else {
            continue;
        };
        let need = match pool.filter(|pool| pool.metadata.uid.as_ref() == Some(&owner.uid)) {
            Some(pool) => Need::of_pool(right, pool),
            None => {
                let known = context.stores.get::<EdgePool>(namespace, &owner.name);
                let known = known.and_then(|pool| pool.unpack().0.ok());
                known.map_or(Need::Needed, |pool| Need::of_pool(right, &pool))
            }
        };
        if need == Need::Needed && workload.may_run_as(name) {
            return Ok(true);
        }
        if need != Need::Ended {
            owners.push(workload);
        }
    }
    if owners.is_empty() {
        return Ok(false);
    }
    let fields =
        format!("spec.serviceAccountName={name},status.phase!=Succeeded,status.phase!=Failed");
    let pods = namespaced_api::<Pod>(&context.client, namespace);
    let pods = pods.list_metadata(&params.fields(&fields)).await?;
    Ok(pods.items.iter().any(|pod| owners.iter().any(|owner| owner.has_pod(&pod.metadata))))
}

/// A pool's DaemonSet or Deployment.
struct Workload {
    metadata: ObjectMeta,
    is_deployment: bool,
    /// The template, and the one for a rollback.
    templates: Vec<PodTemplateSpec>,
}

impl Workload {
    /// Returns whether the template, or the one for a rollback, has this account.
    fn may_run_as(&self, account: &str) -> bool {
        let mut specs = self.templates.iter().filter_map(|template| template.spec.as_ref());
        specs.any(|spec| spec.service_account_name.as_deref() == Some(account))
    }

    /// Returns whether a pod is the workload's. A Deployment's pods belong to its ReplicaSets,
    /// which have its name and the hash in the pod's label.
    fn has_pod(&self, pod: &ObjectMeta) -> bool {
        let Some(owner) = controller_of(pod) else { return false };
        if !self.is_deployment {
            return self.metadata.uid.as_ref() == Some(&owner.uid);
        }
        let hash = pod.labels.as_ref().and_then(|labels| labels.get("pod-template-hash"));
        let (Some(hash), Some(name)) = (hash, &self.metadata.name) else { return false };
        owner.kind == ReplicaSet::kind(&())
            && owner.api_version == ReplicaSet::api_version(&())
            && owner.name == format!("{name}-{hash}")
    }
}

async fn list_workloads<K: EdgeWorkload>(
    context: &Context,
    namespace: &str,
    params: &ListParams,
) -> Result<Vec<Workload>, kube::Error> {
    let found = namespaced_api::<K>(&context.client, namespace).list(params).await?;
    let workloads = found.items.into_iter().map(|live| Workload {
        metadata: live.meta().clone(),
        is_deployment: K::kind(&()) == Deployment::kind(&()),
        templates: template::baseline_template(&live)
            .map(|baseline| baseline.template)
            .into_iter()
            .chain(live.template().cloned())
            .collect(),
    });
    Ok(workloads.collect())
}

fn is_pool(owner: &OwnerReference) -> bool {
    owner.kind == EdgePool::kind(&()) && owner.api_version == EdgePool::api_version(&())
}

fn subject_of((namespace, name): &Account) -> Subject {
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
