//! Shares as ConfigMaps: read all of a pool's, write one, delete one. Each write has the stored
//! version as its condition, so that it never overwrites what somebody else wrote meanwhile.
//!
//! A share in one part is changed in place. One in several is written beside the stored one, which
//! is deleted after the last part, so that pods and the next operator always find a whole one.
//! Decides nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use millrace_crds::MANAGED_BY;
use millrace_shares::{DocumentFault, PodName, Share, join, split};
use serde_json::json;

use crate::cluster::api;
use crate::context::Context;
use crate::error::{Category, Step, StepError};
use crate::pods::pages;
use crate::pool::names::PoolNames;

/// Marks a share, by the uid of its pod: pods find theirs by it.
pub const POD_LABEL: &str = "millrace.dev/scrape-share";
/// Whose pod it is: the pool's name.
pub const POOL_LABEL: &str = "millrace.dev/scrape-share-pool";
/// The key with a part's text.
pub const SHARE_KEY: &str = "share";
/// Writes shares.
const MANAGER: &str = "millrace-operator/shares";
/// A write that takes longer is given up: its outcome is read before the next one.
const WRITE_MAX: Duration = Duration::from_secs(10);

/// A share's name, from its pod's: unlike any other pod's, also one made under the same name.
#[must_use]
pub(super) fn pod_name(name: &str, uid: &str) -> PodName {
    PodName::new(&format!("{name}/{uid}"))
}

/// The two places of a share's parts: one has the newest whole version, the other the one before or
/// the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    A,
    B,
}

impl Slot {
    const fn other(self) -> Self {
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

/// What is stored of one pod.
#[derive(Clone, Debug)]
struct Stored {
    share: Share,
    slot: Slot,
    /// All its objects, also those of an unfinished write: versions by slot and part.
    objects: BTreeMap<(Slot, usize), String>,
}

/// All shares of a pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Documents {
    stored: BTreeMap<PodName, Stored>,
}

/// One object as it was read.
struct Found {
    pod: PodName,
    slot: Slot,
    part: usize,
    version: String,
    text: String,
}

impl Documents {
    /// Reads all shares of a pool.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached, or a share can't be read: what its pod
    /// scrapes isn't known then.
    pub(super) async fn read(context: &Context, names: &PoolNames) -> Result<Self, StepError> {
        let namespace = &names.namespace;
        let maps: Api<ConfigMap> = api(&context.client, namespace);
        let params = ListParams::default().labels(&format!("{POOL_LABEL}={}", names.pool));
        let listed = pages::all(&maps, params, |map| map).await.map_err(|error| {
            let what = format!("list the shares of pool {namespace}/{}", names.pool);
            StepError::api(Step::Observe, what, error)
        })?;
        let mut pods: BTreeMap<PodName, Vec<Found>> = BTreeMap::new();
        for found in listed.into_iter().filter_map(found) {
            pods.entry(found.pod.clone()).or_default().push(found);
        }
        let stored = pods.into_iter().map(|(pod, found)| {
            let stored = stored(found).map_err(|fault| unreadable(namespace, &pod, &fault))?;
            Ok((pod, stored))
        });
        Ok(Self { stored: stored.collect::<Result<_, StepError>>()? })
    }

    /// What they say.
    #[must_use]
    pub(super) fn shares(&self) -> BTreeMap<PodName, Share> {
        self.stored.iter().map(|(pod, stored)| (pod.clone(), stored.share.clone())).collect()
    }

    /// Deletes what an operator that ended between two writes left: versions older than the newest
    /// whole one, or unfinished.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached.
    pub(super) async fn tidy(
        &mut self,
        context: &Context,
        names: &PoolNames,
    ) -> Result<(), StepError> {
        let maps: Api<ConfigMap> = api(&context.client, &names.namespace);
        for (name, Stored { slot, objects, .. }) in &mut self.stored {
            let left: Vec<_> = objects.keys().copied().filter(|(of, _)| of != slot).collect();
            for place in left {
                delete(&maps, &object_name(name, place)).await?;
                objects.remove(&place);
            }
        }
        Ok(())
    }

    /// Writes a pod's share. After a failure what is stored has to be read again.
    ///
    /// # Errors
    /// When it is too long, somebody else wrote it, or the API server refuses or can't be reached.
    pub(super) async fn put(
        &mut self,
        context: &Context,
        names: &PoolNames,
        owner: &Pod,
        name: &PodName,
        share: Share,
    ) -> Result<(), StepError> {
        let texts = split(&share).map_err(|fault| {
            let cause = format!("the share of pod {name}: {fault}");
            StepError::new(Step::Apply, Category::Denied, millrace_crds::Reason::SpecInvalid, cause)
        })?;
        let before = self.stored.remove(name);
        let (slot, mut objects) = match before {
            None => (Slot::A, BTreeMap::new()),
            Some(Stored { slot, objects, .. }) if texts.len() == 1 && objects.len() == 1 => {
                (slot, objects)
            }
            Some(Stored { slot, objects, .. }) => (slot.other(), objects),
        };
        let maps: Api<ConfigMap> = api(&context.client, &names.namespace);
        let parts = texts.len();
        for (part, text) in texts.into_iter().enumerate() {
            let known = objects.get(&(slot, part)).map(String::as_str);
            let new = || object(names, owner, (slot, part), text.clone());
            let version = write(context, &maps, new, known, &text).await?;
            objects.insert((slot, part), version);
        }
        let is_old = |(of, part): &(Slot, usize)| *of != slot || *part >= parts;
        let old: Vec<_> = objects.keys().copied().filter(is_old).collect();
        for place in old {
            delete(&maps, &object_name(name, place)).await?;
            objects.remove(&place);
        }
        self.stored.insert(name.clone(), Stored { share, slot, objects });
        Ok(())
    }

    /// Deletes a pod's share.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached.
    pub(super) async fn delete(
        &mut self,
        context: &Context,
        names: &PoolNames,
        name: &PodName,
    ) -> Result<(), StepError> {
        let Some(stored) = self.stored.remove(name) else { return Ok(()) };
        let maps: Api<ConfigMap> = api(&context.client, &names.namespace);
        for place in stored.objects.into_keys() {
            delete(&maps, &object_name(name, place)).await?;
        }
        Ok(())
    }
}

fn unreadable(namespace: &str, pod: &PodName, fault: &DocumentFault) -> StepError {
    let cause = format!(
        "the share of pod {namespace}/{pod} can't be read, so nothing is handed over: {fault}; \
         delete its ConfigMaps with the label {POD_LABEL}, or the pod"
    );
    StepError::new(Step::Observe, Category::Denied, millrace_crds::Reason::NotOurs, cause)
}

/// An object that is a share's part; none if somebody else made it or took it apart.
fn found(map: ConfigMap) -> Option<Found> {
    let ObjectMeta { name, labels, owner_references, resource_version, .. } = map.metadata;
    let uid = labels?.get(POD_LABEL)?.clone();
    let owner = owner_references?.into_iter().find(|owner| owner.uid == uid)?;
    let name = name?;
    let place = name.strip_prefix(&owner.name)?.strip_prefix("-share-")?;
    let (slot, part) = place.split_once('-')?;
    Some(Found {
        pod: pod_name(&owner.name, &uid),
        slot: if slot == Slot::B.as_str() { Slot::B } else { Slot::A },
        part: part.parse().ok()?,
        version: resource_version?,
        text: map.data?.remove(SHARE_KEY)?,
    })
}

/// The newest whole share among a pod's objects. Parts of a first share that was never finished
/// hold nothing: its pod can't have taken it up.
fn stored(found: Vec<Found>) -> Result<Stored, DocumentFault> {
    let mut newest: Option<(Share, Slot)> = None;
    let mut unfinished = 0;
    for slot in [Slot::A, Slot::B] {
        let mut texts = found.iter().filter(|it| it.slot == slot).map(|it| &*it.text).peekable();
        if texts.peek().is_none() {
            continue;
        }
        match join(texts) {
            Ok(share) if newest.as_ref().is_none_or(|(old, _)| old.version < share.version) => {
                newest = Some((share, slot));
            }
            Ok(_) => {}
            Err(DocumentFault::Incomplete { version, .. }) => unfinished = version,
            Err(fault) => return Err(fault),
        }
    }
    let objects = found.into_iter().map(|it| ((it.slot, it.part), it.version)).collect();
    let none = || (Share { version: unfinished, ..Share::default() }, Slot::B);
    let (share, slot) = newest.unwrap_or_else(none);
    Ok(Stored { share, slot, objects })
}

fn object_name(pod: &PodName, (slot, part): (Slot, usize)) -> String {
    let name = pod.as_str().split_once('/').map_or(pod.as_str(), |(name, _)| name);
    format!("{name}-share-{}-{part}", slot.as_str())
}

fn object(names: &PoolNames, owner: &Pod, place: (Slot, usize), text: String) -> ConfigMap {
    let (name, uid) = name_and_uid(owner);
    let labels = [
        (POD_LABEL, uid.as_str()),
        (POOL_LABEL, names.pool.as_str()),
        ("app.kubernetes.io/managed-by", MANAGED_BY),
    ];
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(object_name(&pod_name(&name, &uid), place)),
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

/// A pod's name and uid.
#[must_use]
pub(super) fn name_and_uid(pod: &Pod) -> (String, String) {
    let ObjectMeta { name, uid, .. } = &pod.metadata;
    (name.clone().unwrap_or_default(), uid.clone().unwrap_or_default())
}

/// Creates an object, or changes it if it has the `known` version; returns its new one.
async fn write(
    context: &Context,
    maps: &Api<ConfigMap>,
    new: impl Fn() -> ConfigMap,
    known: Option<&str>,
    text: &str,
) -> Result<String, StepError> {
    let wanted = new();
    let name = wanted.metadata.name.clone().unwrap_or_default();
    let writing = async {
        match known {
            None => {
                let params =
                    PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
                let made = maps.create(&params, &wanted).await?;
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
        StepError::new(Step::Apply, Category::Temporary, reason, cause)
    })?;
    let version =
        written.map_err(|error| StepError::api(Step::Apply, format!("write {name}"), error))?;
    context.metrics.wrote("ConfigMap", "shares");
    Ok(version.unwrap_or_default())
}

/// Deletes an object, if it is still there: it also goes with its pod.
async fn delete(maps: &Api<ConfigMap>, name: &str) -> Result<(), StepError> {
    match maps.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(StepError::api(Step::Apply, format!("delete ConfigMap {name}"), error)),
    }
}
