//! Mounts Secrets, and ConfigMaps with CAs, as files: which keys a pool needs, where the
//! collector finds them, and a digest that changes when one of them does.
//!
//! A value is read only to compute its digest. The digest is salted with the pool's uid and cut to
//! 64 bits; it shows that a value changed, not what it is.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    ConfigMapProjection, KeyToPath, PodTemplateSpec, ProjectedVolumeSource, SecretProjection,
    Volume, VolumeMount, VolumeProjection,
};
use millrace_crds::Reason;
use sha2::{Digest, Sha256};

use super::volumes::{SECRETS_VOLUME, mount_volume};
use crate::error::Invalid;
use crate::hash::encode_hex;
pub use crate::outbound::credentials::FileSource;

/// The annotation with the digest of the Secrets that a pod was started with; a change replaces the
/// pods.
pub const SECRETS_ANNOTATION: &str = "millrace.dev/secrets-digest";
/// The directory where the secrets of a pod are mounted, with one folder per Secret.
pub const SECRETS_FOLDER: &str = "/etc/millrace/secrets";
/// Owner and group may read; the group is the pod's own (`fsGroup`).
const FILE_MODE: i32 = 0o440;

/// The folder of ConfigMaps in it: no Secret has such a name.
const CONFIG_MAPS_FOLDER: &str = "config_maps";

impl FileSource {
    /// Returns the path of a key, relative to the volume.
    fn path_of_key(&self, key: &str) -> String {
        match self {
            Self::Secret(name) => format!("{name}/{key}"),
            Self::ConfigMap(name) => format!("{CONFIG_MAPS_FOLDER}/{name}/{key}"),
        }
    }
}

impl std::fmt::Display for FileSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Secret(name) => write!(f, "Secret {name}"),
            Self::ConfigMap(name) => write!(f, "ConfigMap {name}"),
        }
    }
}

/// The needed keys of each Secret and ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SecretUses {
    keys: BTreeMap<FileSource, BTreeSet<String>>,
}

impl SecretUses {
    /// Records that `key` of `secret` is needed; returns the path of its file.
    pub fn add_file(&mut self, secret: &str, key: &str) -> String {
        self.add_key(FileSource::Secret(secret.to_owned()), key)
    }

    /// Records that `key` of a ConfigMap is needed; returns the path of its file.
    pub fn add_config_map_file(&mut self, name: &str, key: &str) -> String {
        self.add_key(FileSource::ConfigMap(name.to_owned()), key)
    }

    fn add_key(&mut self, source: FileSource, key: &str) -> String {
        let path = format!("{SECRETS_FOLDER}/{}", source.path_of_key(key));
        self.keys.entry(source).or_default().insert(key.to_owned());
        path
    }

    /// Returns the Secrets and ConfigMaps in the volume of a template's pods.
    #[must_use]
    pub fn from_template(template: &PodTemplateSpec) -> Self {
        let volumes = template.spec.iter().flat_map(|pod| pod.volumes.iter().flatten());
        let sources = volumes
            .filter(|volume| volume.name == SECRETS_VOLUME)
            .flat_map(|volume| volume.projected.iter().flat_map(|it| it.sources.iter().flatten()));
        let keys = |items: &Option<Vec<KeyToPath>>| {
            items.iter().flatten().map(|item| item.key.clone()).collect()
        };
        let sources = sources.filter_map(|source| {
            let secret = source.secret.as_ref();
            let secret = secret.map(|it| (FileSource::Secret(it.name.clone()), keys(&it.items)));
            let map = source.config_map.as_ref();
            secret.or(map.map(|it| (FileSource::ConfigMap(it.name.clone()), keys(&it.items))))
        });
        Self { keys: sources.collect() }
    }

    /// Returns the needed Secrets and ConfigMaps with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&FileSource, &BTreeSet<String>)> {
        self.keys.iter()
    }

    /// Returns whether a ConfigMap is needed.
    #[must_use]
    pub fn has_config_maps(&self) -> bool {
        self.keys.keys().any(|source| matches!(source, FileSource::ConfigMap(_)))
    }

    /// Returns the names of the needed Secrets.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().filter_map(|source| match source {
            FileSource::Secret(name) => Some(name.as_str()),
            FileSource::ConfigMap(_) => None,
        })
    }

    /// Returns the volume and its mount; `None` if no Secret is needed.
    #[must_use]
    pub fn build_volume(&self) -> Option<(Volume, VolumeMount)> {
        if self.keys.is_empty() {
            return None;
        }
        let sources = self.iter().map(|(source, keys)| {
            let item = |key: &String| KeyToPath {
                key: key.clone(),
                path: source.path_of_key(key),
                mode: None,
            };
            let items = Some(keys.iter().map(item).collect());
            match source {
                FileSource::Secret(name) => VolumeProjection {
                    secret: Some(SecretProjection { name: name.clone(), items, optional: None }),
                    ..VolumeProjection::default()
                },
                FileSource::ConfigMap(name) => VolumeProjection {
                    config_map: Some(ConfigMapProjection {
                        name: name.clone(),
                        items,
                        optional: None,
                    }),
                    ..VolumeProjection::default()
                },
            }
        });
        let volume = Volume {
            name: SECRETS_VOLUME.into(),
            projected: Some(ProjectedVolumeSource {
                default_mode: Some(FILE_MODE),
                sources: Some(sources.collect()),
            }),
            ..Volume::default()
        };
        Some(mount_volume(volume, SECRETS_FOLDER, true))
    }
}

/// The Secrets that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretsObservation {
    digests: BTreeMap<FileSource, String>,
    missing: Vec<Missing>,
}

/// A Secret or ConfigMap, or a key of one, that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Missing {
    Source(FileSource),
    Key(FileSource, String),
}

impl SecretsObservation {
    /// Returns the observation with these digests, without anything missing.
    #[must_use]
    pub fn from_digests(digests: BTreeMap<FileSource, String>) -> Self {
        Self { digests, missing: Vec::new() }
    }

    /// Returns the digests by source, unless something is missing.
    #[must_use]
    pub fn complete_digests(&self) -> Option<&BTreeMap<FileSource, String>> {
        self.missing.is_empty().then_some(&self.digests)
    }

    /// Records that a Secret or ConfigMap does not exist.
    pub fn record_absent(&mut self, source: &FileSource) {
        self.missing.push(Missing::Source(source.clone()));
    }

    /// Records the content: digests the needed keys, or records them as missing.
    pub fn record_found(
        &mut self,
        salt: &str,
        source: &FileSource,
        keys: &BTreeSet<String>,
        data: &BTreeMap<String, ByteString>,
    ) {
        let mut digest = Sha256::new();
        digest.update(salt);
        for key in keys {
            match data.get(key) {
                Some(ByteString(value)) => {
                    // Lengths separate neighbouring values.
                    digest.update((value.len() as u64).to_le_bytes());
                    digest.update(value);
                }
                None => self.missing.push(Missing::Key(source.clone(), key.clone())),
            }
        }
        self.digests.insert(source.clone(), encode_hex(&digest.finalize()[..8]));
    }

    /// Returns one digest of all Secrets; it changes when a needed key of one does.
    ///
    /// # Errors
    /// When something is missing; the message names everything missing.
    pub fn combined_digest(&self) -> Result<Option<String>, Invalid> {
        if let Some(first) = self.missing.first() {
            let reason = match first {
                Missing::Source(_) => Reason::SecretMissing,
                Missing::Key(..) => Reason::SecretKeyMissing,
            };
            let messages: Vec<String> = self
                .missing
                .iter()
                .map(|missing| match missing {
                    Missing::Source(source) => format!("{source} does not exist"),
                    Missing::Key(source, key) => format!("{source} has no key {key}"),
                })
                .collect();
            let message = format!("{}; create it in the pool's namespace", messages.join(", "));
            return Err(Invalid { reason, message });
        }
        if self.digests.is_empty() {
            return Ok(None);
        }
        let mut all = Sha256::new();
        for (source, digest) in &self.digests {
            match source {
                FileSource::Secret(name) => all.update(name),
                FileSource::ConfigMap(name) => all.update(format!("{CONFIG_MAPS_FOLDER}/{name}")),
            }
            all.update(digest);
        }
        Ok(Some(encode_hex(&all.finalize()[..8])))
    }
}

/// The present Secrets, for earlier templates too, which may need others than the spec.
#[derive(Clone, Debug, Default)]
pub struct CurrentSecrets {
    known: Vec<(SecretUses, Option<String>)>,
}

impl CurrentSecrets {
    /// Records the digest of a template's Secrets; `None` if it needs none, or one is missing.
    pub fn record_digest(&mut self, uses: SecretUses, digest: Option<String>) {
        self.known.push((uses, digest));
    }

    /// Returns whether these Secrets were recorded.
    #[must_use]
    pub fn has_digest(&self, uses: &SecretUses) -> bool {
        self.known.iter().any(|(known, _)| known == uses)
    }

    /// Updates a template's digest of Secrets, so that its pods restart with the present ones;
    /// returns whether it changed. A template whose Secrets are missing is unchanged.
    pub fn renew_digest(&self, template: &mut PodTemplateSpec) -> bool {
        let uses = SecretUses::from_template(template);
        let digest = self.known.iter().find(|(known, _)| *known == uses);
        let Some(digest) = digest.and_then(|(_, digest)| digest.clone()) else { return false };
        let annotations = &mut template.metadata.get_or_insert_default().annotations;
        let before = annotations
            .get_or_insert_default()
            .insert(SECRETS_ANNOTATION.to_owned(), digest.clone());
        before != Some(digest)
    }
}

/// The separator of a change and its Secrets in a digest.
const WITH_SECRETS: char = '/';

/// Returns a change's identity in a status: the change, and the digest of its Secrets then.
#[must_use]
pub fn with_secrets(requested: &str, secrets: Option<&str>) -> String {
    secrets.map_or_else(
        || requested.to_owned(),
        |secrets| format!("{requested}{WITH_SECRETS}{secrets}"),
    )
}

/// Splits a change's identity into both.
#[must_use]
pub fn without_secrets(digest: &str) -> (&str, Option<&str>) {
    match digest.split_once(WITH_SECRETS) {
        Some((change, secrets)) => (change, Some(secrets)),
        None => (digest, None),
    }
}

#[cfg(test)]
mod tests;
