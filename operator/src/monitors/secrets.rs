//! Gathers the values that monitors name into one Secret of the pool, which its pods mount as
//! files.
//!
//! Only keys that monitors name are read, one object at a time by name, each in its monitor's own
//! namespace. No value is stored between rounds, logged, or written anywhere else. An unreadable
//! key excludes only what names it.
//!
//! # Limits
//! [`OBJECTS_MAX`] objects of a pool, [`VALUE_BYTES_MAX`] of a value, [`ALL_BYTES_MAX`] in all.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::api::{ObjectMeta, Patch, PatchParams};
use millrace_crds::v1alpha1::EdgePool;
use millrace_monitors::{Holder, SecretUse};

use crate::cluster::{WRITES, namespaced_api};
use crate::context::Context;
use crate::error::{ReconcileStep, StepError};
use crate::pool::names::PoolNames;

/// Maximum number of objects that are read for one pool: with 8 at once and some 10 ms each, a
/// third of a second.
const OBJECTS_MAX: usize = 256;

/// The number of objects that are read at once.
const AT_ONCE: usize = 8;

/// Maximum size of a value: what collectors read of a file.
const VALUE_BYTES_MAX: usize = 64 * 1024;

/// Maximum size of all values: a Secret's limit is 1 MiB, with its keys.
const ALL_BYTES_MAX: usize = 900 * 1024;

/// The field manager that writes the Secret.
const MANAGER: &str = "millrace-operator/monitors";

/// The values of an object, by key.
type Values = BTreeMap<String, ByteString>;

/// The object that contains keys: kind, namespace and name.
type ObjectKey = (Holder, String, String);

/// Gathers the named values, and returns the unavailable keys with the reasons.
///
/// # Errors
/// When the API server can't be reached, or the pool's Secret can't be written.
pub(super) async fn gather_secrets(
    context: &Context,
    pool: &EdgePool,
    names: &PoolNames,
    uses: &BTreeSet<SecretUse>,
) -> Result<BTreeMap<SecretUse, String>, StepError> {
    let refused = |why: &str| uses.iter().map(|used| (used.clone(), why.to_owned())).collect();
    if !context.gathers_secrets {
        return Ok(refused(
            "this operator may not read monitors' Secrets: set discovery.secrets in its chart",
        ));
    }
    let held: BTreeSet<ObjectKey> = uses.iter().map(object_key).collect();
    if held.len() > OBJECTS_MAX {
        return Ok(refused("a pool's monitors may name 256 Secrets and ConfigMaps at most"));
    }
    let reads = held.into_iter().map(|held| async move {
        let read = read_object(context, &held).await;
        (held, read)
    });
    let read: Vec<_> = futures::stream::iter(reads).buffer_unordered(AT_ONCE).collect().await;
    let mut objects = BTreeMap::new();
    for (held, read) in read {
        objects.insert(held, read?);
    }
    let (data, missing) = pick_values(uses, &objects);
    write_secret(context, pool, names, data).await?;
    Ok(missing)
}

fn object_key(used: &SecretUse) -> ObjectKey {
    (used.holder, used.namespace.clone(), used.name.clone())
}

/// Returns the content of the pool's Secret, and the missing keys with the reasons.
fn pick_values(
    uses: &BTreeSet<SecretUse>,
    objects: &BTreeMap<ObjectKey, Result<Values, String>>,
) -> (Values, BTreeMap<SecretUse, String>) {
    let (mut data, mut missing) = (Values::new(), BTreeMap::new());
    let mut bytes = 0;
    for used in uses {
        let why = match objects.get(&object_key(used)) {
            None => "it was not read".to_owned(),
            Some(Err(why)) => why.clone(),
            Some(Ok(values)) => match values.get(&used.key) {
                None => "there is no such key".to_owned(),
                Some(value) if value.0.is_empty() => "it is empty".to_owned(),
                Some(value) if value.0.len() > VALUE_BYTES_MAX => {
                    "it has over 64 KiB, the most that is read".to_owned()
                }
                Some(value) if bytes + value.0.len() > ALL_BYTES_MAX => {
                    "all values of a pool's monitors have over 900 KiB".to_owned()
                }
                Some(value) => {
                    bytes += value.0.len();
                    data.insert(used.file_name(), value.clone());
                    continue;
                }
            },
        };
        missing.insert(used.clone(), why);
    }
    (data, missing)
}

/// Reads an object. A missing or forbidden object is no error.
async fn read_object(
    context: &Context,
    (holder, namespace, name): &ObjectKey,
) -> Result<Result<Values, String>, StepError> {
    let found = match holder {
        Holder::Secret => {
            let found = namespaced_api::<Secret>(&context.client, namespace).get_opt(name).await;
            found.map(|found| found.map(|it| it.data.unwrap_or_default()))
        }
        Holder::ConfigMap => {
            let found = namespaced_api::<ConfigMap>(&context.client, namespace).get_opt(name).await;
            found.map(|found| found.map(values_of))
        }
    };
    match found {
        Ok(Some(values)) => Ok(Ok(values)),
        Ok(None) => Ok(Err("it does not exist".to_owned())),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            Ok(Err("the operator may not read it".to_owned()))
        }
        Err(error) => {
            let what = format!("get {} {namespace}/{name}", holder.as_str());
            Err(StepError::from_kube(ReconcileStep::Observe, what, error))
        }
    }
}

fn values_of(map: ConfigMap) -> Values {
    let texts = map.data.into_iter().flatten();
    let texts = texts.map(|(key, text)| (key, ByteString(text.into_bytes())));
    texts.chain(map.binary_data.into_iter().flatten()).collect()
}

/// Writes the pool's Secret, if its content differs.
async fn write_secret(
    context: &Context,
    pool: &EdgePool,
    names: &PoolNames,
    data: Values,
) -> Result<(), StepError> {
    let (namespace, name) = (&names.namespace, names.monitors_secret());
    let secrets = namespaced_api::<Secret>(&context.client, namespace);
    let failed = |verb: &str, error| {
        StepError::from_kube(
            ReconcileStep::Apply,
            format!("{verb} Secret {namespace}/{name}"),
            error,
        )
    };
    let live = secrets.get_opt(&name).await.map_err(|error| failed("get", error))?;
    let Some(owner) = pool.controller_owner_ref(&()) else { return Ok(()) };
    if let Some(live) = &live {
        if !is_ours(live, &owner) {
            let message = format!(
                "Secret {namespace}/{name} does not belong to this pool: delete it, or \
                 rename the pool"
            );
            let (category, reason) =
                (crate::error::Category::Invalid, millrace_crds::Reason::SpecInvalid);
            return Err(StepError::new(ReconcileStep::Apply, category, reason, message));
        }
        if live.data.clone().unwrap_or_default() == data {
            return Ok(());
        }
    } else if data.is_empty() {
        return Ok(());
    }
    let desired = Secret {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace.clone()),
            labels: Some(names.labels()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(data),
        ..Secret::default()
    };
    let params = PatchParams::apply(MANAGER).force();
    let applied = secrets.patch(&name, &params, &Patch::Apply(&desired)).await;
    applied.map_err(|error| failed("apply", error))?;
    context.metrics.count(&WRITES, ["Secret", "monitors"]);
    Ok(())
}

/// Returns whether a Secret was created for the pool: another one is never overwritten.
fn is_ours(live: &Secret, owner: &OwnerReference) -> bool {
    let mut owners = live.metadata.owner_references.iter().flatten();
    owners.any(|known| known.uid == owner.uid)
}

#[cfg(test)]
mod tests;
