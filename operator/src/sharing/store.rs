//! Shares as ConfigMaps: read all of a pool's, write one, delete one. Each write requires the
//! stored version, so that it never overwrites a concurrent write.
//!
//! A share in one part is changed in place. One in several is written alongside the stored one,
//! which is deleted after the last part, so that pods and the next operator always find a complete
//! one. Decides nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use millrace_crds::MANAGED_BY;
use millrace_share_documents::{DocumentFault, PodName, Share, join_parts, split_share};
use serde_json::json;

use crate::cluster::{WRITES, delete_object, list_objects, namespaced_api};
use crate::context::Context;
use crate::error::{Category, ReconcileStep, StepError};
use crate::pool::names::PoolNames;

/// The label that marks a share with the uid of its pod: pods find theirs by it.
pub const POD_LABEL: &str = "millrace.dev/scrape-share";
/// The label with the name of the pod's pool.
pub const POOL_LABEL: &str = "millrace.dev/scrape-share-pool";
/// The key with a part's text.
pub const SHARE_KEY: &str = "share";
/// The field manager that writes shares.
const MANAGER: &str = "millrace-operator/shares";
/// A write that takes longer is abandoned: its outcome is read before the next one.
const WRITE_MAX: Duration = Duration::from_secs(10);

/// Returns the name of a pod's share, which differs from that of any other pod, even one recreated
/// under the same name.
#[must_use]
pub(super) fn pod_name(name: &str, uid: &str) -> PodName {
    PodName::new(&format!("{name}/{uid}"))
}

/// The two slots of a share's parts: one has the newest complete version, the other the previous or
/// the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ShareSlot {
    A,
    B,
}

impl ShareSlot {
    const fn other_slot(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }
}

#[derive(Clone, Debug)]
struct StoredShare {
    share: Share,
    slot: ShareSlot,
    /// The versions of all its objects, including those of an unfinished write, by slot and part.
    objects: BTreeMap<(ShareSlot, usize), String>,
}

/// All shares of a pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Documents {
    stored: BTreeMap<PodName, StoredShare>,
}

/// One object as it was read.
struct SharePart {
    pod: PodName,
    slot: ShareSlot,
    part: usize,
    version: String,
    text: String,
}

impl Documents {
    /// Reads all shares of a pool.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached, or a share can't be parsed: then its pod's
    /// targets are unknown.
    pub(super) async fn read(context: &Context, names: &PoolNames) -> Result<Self, StepError> {
        let namespace = &names.namespace;
        let params = ListParams::default().labels(&format!("{POOL_LABEL}={}", names.pool));
        let listed = list_objects(context, namespace, params, |map| map).await?;
        let mut pods: BTreeMap<PodName, Vec<SharePart>> = BTreeMap::new();
        for found in listed.into_iter().filter_map(parse_part) {
            pods.entry(found.pod.clone()).or_default().push(found);
        }
        let stored = pods.into_iter().map(|(pod, found)| {
            let stored =
                newest_stored(found).map_err(|fault| unreadable_share(namespace, &pod, &fault))?;
            Ok((pod, stored))
        });
        Ok(Self { stored: stored.collect::<Result<_, StepError>>()? })
    }

    #[must_use]
    pub(super) fn shares(&self) -> BTreeMap<PodName, Share> {
        self.stored.iter().map(|(pod, stored)| (pod.clone(), stored.share.clone())).collect()
    }

    /// Deletes what an operator that ended between two writes left behind: versions older than the
    /// newest complete one, or unfinished.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached.
    pub(super) async fn delete_leftovers(
        &mut self,
        context: &Context,
        names: &PoolNames,
    ) -> Result<(), StepError> {
        for (name, StoredShare { slot, objects, .. }) in &mut self.stored {
            delete_parts(context, names, name, objects, |(of, _)| of != slot).await?;
        }
        Ok(())
    }

    /// Writes a pod's share. After a failure the stored shares must be read again.
    ///
    /// # Errors
    /// When it is too long, another writer changed it, or the API server refuses or can't be
    /// reached.
    pub(super) async fn write_share(
        &mut self,
        context: &Context,
        names: &PoolNames,
        owner: &Pod,
        name: &PodName,
        share: Share,
    ) -> Result<(), StepError> {
        let texts = split_share(&share).map_err(|fault| {
            let cause = format!("the share of pod {name}: {fault}");
            StepError::new(
                ReconcileStep::Apply,
                Category::Denied,
                millrace_crds::Reason::SpecInvalid,
                cause,
            )
        })?;
        let before = self.stored.remove(name);
        let (slot, mut objects) = match before {
            None => (ShareSlot::A, BTreeMap::new()),
            Some(StoredShare { slot, objects, .. }) if texts.len() == 1 && objects.len() == 1 => {
                (slot, objects)
            }
            Some(StoredShare { slot, objects, .. }) => (slot.other_slot(), objects),
        };
        let maps: Api<ConfigMap> = namespaced_api(&context.client, &names.namespace);
        let parts = texts.len();
        for (part, text) in texts.into_iter().enumerate() {
            let known = objects.get(&(slot, part)).map(String::as_str);
            let new = || build_part(names, owner, (slot, part), text.clone());
            let version = write_part(context, &maps, new, known, &text).await?;
            objects.insert((slot, part), version);
        }
        let is_old = |(of, part): &(ShareSlot, usize)| *of != slot || *part >= parts;
        delete_parts(context, names, name, &mut objects, is_old).await?;
        self.stored.insert(name.clone(), StoredShare { share, slot, objects });
        Ok(())
    }

    /// Deletes a pod's share.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached.
    pub(super) async fn delete_share(
        &mut self,
        context: &Context,
        names: &PoolNames,
        name: &PodName,
    ) -> Result<(), StepError> {
        let Some(mut stored) = self.stored.remove(name) else { return Ok(()) };
        delete_parts(context, names, name, &mut stored.objects, |_| true).await
    }
}

/// Deletes a share's parts that `is_old` selects, if they still exist: they are also deleted with
/// their pod.
async fn delete_parts(
    context: &Context,
    names: &PoolNames,
    pod: &PodName,
    objects: &mut BTreeMap<(ShareSlot, usize), String>,
    is_old: impl Fn(&(ShareSlot, usize)) -> bool,
) -> Result<(), StepError> {
    let old: Vec<_> = objects.keys().copied().filter(is_old).collect();
    for slot_part in old {
        let (namespace, name) = (&names.namespace, object_name(pod, slot_part));
        delete_object::<ConfigMap>(context, namespace, &name, &DeleteParams::default()).await?;
        objects.remove(&slot_part);
    }
    Ok(())
}

fn unreadable_share(namespace: &str, pod: &PodName, fault: &DocumentFault) -> StepError {
    let cause = format!(
        "the share of pod {namespace}/{pod} can't be read, so nothing is handed over: {fault}; \
         delete its ConfigMaps with the label {POD_LABEL}, or the pod"
    );
    StepError::new(
        ReconcileStep::Observe,
        Category::Denied,
        millrace_crds::Reason::OwnedByAnother,
        cause,
    )
}

/// Parses an object that is a share's part; `None` if another party created it or removed its
/// content.
fn parse_part(map: ConfigMap) -> Option<SharePart> {
    let ObjectMeta { name, labels, owner_references, resource_version, .. } = map.metadata;
    let uid = labels?.get(POD_LABEL)?.clone();
    let owner = owner_references?.into_iter().find(|owner| owner.uid == uid)?;
    let name = name?;
    let suffix = name.strip_prefix(&owner.name)?.strip_prefix("-share-")?;
    let (slot, part) = suffix.split_once('-')?;
    Some(SharePart {
        pod: pod_name(&owner.name, &uid),
        slot: if slot == ShareSlot::B.as_str() { ShareSlot::B } else { ShareSlot::A },
        part: part.parse().ok()?,
        version: resource_version?,
        text: map.data?.remove(SHARE_KEY)?,
    })
}

/// Returns the newest complete share among a pod's objects. Parts of a first share that was never
/// finished count as an empty one: its pod can't have applied it.
fn newest_stored(found: Vec<SharePart>) -> Result<StoredShare, DocumentFault> {
    let mut newest: Option<(Share, ShareSlot)> = None;
    let mut unfinished = 0;
    for slot in [ShareSlot::A, ShareSlot::B] {
        let mut texts = found.iter().filter(|it| it.slot == slot).map(|it| &*it.text).peekable();
        if texts.peek().is_none() {
            continue;
        }
        match join_parts(texts) {
            Ok(share) if newest.as_ref().is_none_or(|(old, _)| old.version < share.version) => {
                newest = Some((share, slot));
            }
            Ok(_) => {}
            Err(DocumentFault::Incomplete { version, .. }) => unfinished = version,
            Err(fault) => return Err(fault),
        }
    }
    let objects = found.into_iter().map(|it| ((it.slot, it.part), it.version)).collect();
    let none = || (Share { version: unfinished, ..Share::default() }, ShareSlot::B);
    let (share, slot) = newest.unwrap_or_else(none);
    Ok(StoredShare { share, slot, objects })
}

fn object_name(pod: &PodName, (slot, part): (ShareSlot, usize)) -> String {
    let name = pod.as_str().split_once('/').map_or(pod.as_str(), |(name, _)| name);
    format!("{name}-share-{}-{part}", slot.as_str())
}

fn build_part(
    names: &PoolNames,
    owner: &Pod,
    slot_part: (ShareSlot, usize),
    text: String,
) -> ConfigMap {
    let (name, uid) = name_and_uid(owner);
    let labels = [
        (POD_LABEL, uid.as_str()),
        (POOL_LABEL, names.pool.as_str()),
        ("app.kubernetes.io/managed-by", MANAGED_BY),
    ];
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(object_name(&pod_name(&name, &uid), slot_part)),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            owner_references: Some(vec![OwnerReference {
                api_version: Pod::api_version(&()).into_owned(),
                kind: Pod::kind(&()).into_owned(),
                name,
                uid,
                controller: None,
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(SHARE_KEY.to_owned(), text)])),
        ..ConfigMap::default()
    }
}

#[must_use]
pub(super) fn name_and_uid(pod: &Pod) -> (String, String) {
    let ObjectMeta { name, uid, .. } = &pod.metadata;
    (name.clone().unwrap_or_default(), uid.clone().unwrap_or_default())
}

/// Creates an object, or changes it if it has the `known` version, and returns its new version.
async fn write_part(
    context: &Context,
    maps: &Api<ConfigMap>,
    new: impl Fn() -> ConfigMap,
    known: Option<&str>,
    text: &str,
) -> Result<String, StepError> {
    let desired = new();
    let name = desired.metadata.name.clone().unwrap_or_default();
    let writing = async {
        match known {
            None => {
                let params =
                    PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
                let made = maps.create(&params, &desired).await?;
                Ok::<_, kube::Error>(made.metadata.resource_version)
            }
            Some(version) => {
                let params =
                    PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
                let patch = json!({"metadata": {"resourceVersion": version},
                    "data": {SHARE_KEY: text}});
                let patched = maps.patch_metadata(&name, &params, &Patch::Merge(&patch)).await?;
                Ok(patched.metadata.resource_version)
            }
        }
    };
    let written = tokio::time::timeout(WRITE_MAX, writing).await.map_err(|_elapsed| {
        let cause = format!("ConfigMap {name} was not written in {} s", WRITE_MAX.as_secs());
        let reason = millrace_crds::Reason::ApiServerFailed;
        StepError::new(ReconcileStep::Apply, Category::Temporary, reason, cause)
    })?;
    let version = written.map_err(|error| {
        StepError::from_kube(ReconcileStep::Apply, format!("write {name}"), error)
    })?;
    context.metrics.count(&WRITES, ["ConfigMap", "shares"]);
    Ok(version.unwrap_or_default())
}
