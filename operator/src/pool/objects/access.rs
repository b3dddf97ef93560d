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
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use kube::api::{Api, ListParams, Patch, PatchParams};
use millrace_crds::v1alpha1::{EdgeMode, EdgePool, EdgeSettings, PodTemplate};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::cache::access::{Account, AccountBinding, READ_EVERY_SECONDS};
use crate::cluster::{WRITES, namespaced_api};
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
            Self::Pods => &context.access.pods,
            Self::Namespaces => &context.access.namespaces,
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
/// The pause between sweeps: a pool whose pods still run as an account requests one at each
/// reconcile.
const SWEEP_PAUSE: Duration = Duration::from_secs(5);

/// Returns the account that a pool's pods run as: the pool's, or the one that the spec names.
#[must_use]
pub fn account_name<'a>(template: &'a PodTemplate, names: &'a PoolNames) -> &'a str {
    let named = template.spec.get("serviceAccountName").and_then(Value::as_str);
    named.filter(|name| !name.is_empty()).unwrap_or(&names.base)
}

/// Adds the account of a pool's pods to a right's binding, if the pool needs the right. If it no
/// longer does, the next sweep begins at once.
///
/// # Errors
/// When the API server can't be reached, or refuses the change.
pub async fn ensure_binding(
    context: &Context,
    right: Right,
    pool: &EdgePool,
) -> Result<(), StepError> {
    let access = right.binding_of(context);
    let Some(account) = right.required_account(pool) else {
        if managed_account(pool).is_some_and(|own| access.had(&own)) {
            context.access.sweep_requested.notify_one();
        }
        return Ok(());
    };
    let now = context.clock.now().as_second();
    if access.had_recently(&account, now) {
        return Ok(());
    }
    let _locked = access.lock_revision().await;
    // Another pool's reconcile may have read the binding since.
    if access.had_recently(&account, now) {
        return Ok(());
    }
    let Some(live) = read_binding(context, right).await? else { return Ok(()) };
    let mut subjects = live.subjects.clone().unwrap_or_default();
    if !subjects.iter().any(|subject| account_of(subject).as_ref() == Some(&account)) {
        subjects.push(subject_of(&account));
    }
    write_subjects(context, right, live, subjects).await
}

/// Removes unneeded accounts every [`READ_EVERY_SECONDS`], or as soon as a pool no longer needs a
/// right, from when this replica leads until `stop`.
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
            let period = Duration::from_secs(READ_EVERY_SECONDS.unsigned_abs());
            let requested = context.access.sweep_requested.notified();
            let _ = tokio::time::timeout(period, requested).await;
            if let Err(error) = sweep(&context).await {
                let error = error_chain(&error);
                tracing::warn!(error, "accounts were not removed from a binding");
            }
            tokio::time::sleep(SWEEP_PAUSE).await;
        }
    };
    tokio::select! {
        () = sweeps => {}
        () = stop => {}
    }
}

/// Removes unneeded accounts from both bindings, unless a pool may exist that is not known yet.
///
/// # Errors
/// As [`ensure_binding`].
pub async fn sweep(context: &Context) -> Result<(), StepError> {
    for right in [Right::Pods, Right::Namespaces] {
        let access = right.binding_of(context);
        let _locked = access.lock_revision().await;
        let Some(live) = read_binding(context, right).await? else { continue };
        // Read after the lock: a pool that added its account before is among them.
        let Some(pools) = context.stores.if_read::<EdgePool>() else { return Ok(()) };
        let pools = pools.iter().filter_map(|pool| pool.unpack().0.ok());
        let required = pools.filter_map(|pool| right.required_account(&pool)).collect();
        let subjects = live.subjects.clone().unwrap_or_default();
        let subjects = retain_subjects(context, right, &required, subjects).await;
        write_subjects(context, right, live, subjects).await?;
    }
    Ok(())
}

/// Reads a right's binding; returns `None` if the operator manages none, and, with a warning, if it
/// doesn't exist or may not be read.
async fn read_binding(
    context: &Context,
    right: Right,
) -> Result<Option<ClusterRoleBinding>, StepError> {
    let access = right.binding_of(context);
    let Some(binding) = access.binding() else { return Ok(None) };
    let bindings: Api<ClusterRoleBinding> = Api::all(context.client.clone());
    match bindings.get_opt(binding).await {
        Ok(Some(live)) => return Ok(Some(live)),
        Ok(None) => {}
        Err(kube::Error::Api(status)) if status.code == 403 => {}
        Err(error) => return Err(binding_error("get", binding, error)),
    }
    if access.record_missing() {
        tracing::warn!(
            binding,
            lack = right.lack_message(),
            "the ClusterRoleBinding doesn't exist or can't be read: upgrade the chart, or set \
             its podAccess.grant to false and grant the right yourself"
        );
    }
    Ok(None)
}

/// Writes a binding's subjects, if they differ from those that were read.
async fn write_subjects(
    context: &Context,
    right: Right,
    live: ClusterRoleBinding,
    subjects: Vec<Subject>,
) -> Result<(), StepError> {
    let binding = live.metadata.name.as_deref().unwrap_or_default();
    if live.subjects.unwrap_or_default() != subjects {
        // If the binding has changed since, the version makes this a conflict instead of an
        // overwrite.
        let version = live.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "subjects": subjects});
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let bindings: Api<ClusterRoleBinding> = Api::all(context.client.clone());
        let patched = bindings.patch(binding, &params, &Patch::Merge(&patch)).await;
        patched.map_err(|error| binding_error("patch", binding, error))?;
        context.metrics.count(&WRITES, ["ClusterRoleBinding", "subjects"]);
    }
    let accounts = subjects.iter().filter_map(account_of).collect();
    right.binding_of(context).record_accounts(accounts, context.clock.now().as_second());
    Ok(())
}

fn binding_error(verb: &str, binding: &str, error: kube::Error) -> StepError {
    let what = format!("{verb} ClusterRoleBinding {binding}");
    StepError::from_kube(ReconcileStep::Apply, what, error)
}

/// Returns the account that the operator creates for a pool.
fn managed_account(pool: &EdgePool) -> Option<Account> {
    let names = PoolNames::of_pool(pool, Role::Edge).ok()?;
    Some((names.namespace, names.base))
}

/// Returns the subjects without unneeded accounts: those through which no pool needs the right and
/// that no pool's pods run as or may again. They belonged to pools that were deleted or no longer
/// need the right, or pods ran as them before. Subjects of other kinds remain.
async fn retain_subjects(
    context: &Context,
    right: Right,
    required: &BTreeSet<Account>,
    subjects: Vec<Subject>,
) -> Vec<Subject> {
    let mut retained = Vec::new();
    for subject in subjects {
        let is_needed = match account_of(&subject) {
            None => true,
            Some(account) => {
                required.contains(&account) || is_in_use(context, right, &account).await
            }
        };
        if is_needed {
            retained.push(subject);
        }
    }
    retained
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
/// pod's deletion and its successor, no pod need run as it. Where workloads or pods may not be
/// listed there are no pools; any other failure proves nothing.
async fn is_in_use(context: &Context, right: Right, account: &Account) -> bool {
    match find_use(context, right, account).await {
        Ok(is_in_use) => is_in_use,
        Err(kube::Error::Api(status)) => status.code != 403,
        Err(_) => true,
    }
}

async fn find_use(
    context: &Context,
    right: Right,
    (namespace, name): &Account,
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
        let pool = context.stores.get::<EdgePool>(namespace, &owner.name);
        let pool = pool.and_then(|pool| pool.unpack().0.ok());
        let need = pool.map_or(Need::Needed, |pool| Need::of_pool(right, &pool));
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
