//! Secrets as files: which keys a pool needs, where the collector finds them, and a digest that
//! changes when one of them does.
//!
//! A value is seen only while its digest is made. The digest is salted with the pool's uid and cut
//! to 64 bits; it says that a value changed, not what it is.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    KeyToPath, PodTemplateSpec, ProjectedVolumeSource, SecretProjection, Volume, VolumeMount,
    VolumeProjection,
};
use millrace_crds::Reason;
use sha2::{Digest, Sha256};

use crate::cluster::hex;
use crate::error::Invalid;

/// Carries the digest of the Secrets a pod was started with; a change rolls the pods.
pub const SECRETS_ANNOTATION: &str = "millrace.dev/secrets-digest";
/// Where the secrets of a pod are mounted, one folder per Secret.
pub const SECRETS_FOLDER: &str = "/etc/millrace/secrets";
/// The volume's name in the pod.
pub const SECRETS_VOLUME: &str = "secrets";
/// Owner and group may read; the group is the pod's own (`fsGroup`).
const FILE_MODE: i32 = 0o440;

/// The keys needed, by Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretUses {
    keys: BTreeMap<String, BTreeSet<String>>,
}

impl SecretUses {
    /// Notes that `key` of `secret` is needed; gives the path of its file.
    pub fn file(&mut self, secret: &str, key: &str) -> String {
        self.keys.entry(secret.to_owned()).or_default().insert(key.to_owned());
        format!("{SECRETS_FOLDER}/{secret}/{key}")
    }

    /// The Secrets of a template's pods: those in its volume.
    #[must_use]
    pub fn of(template: &PodTemplateSpec) -> Self {
        let volumes = template.spec.iter().flat_map(|pod| pod.volumes.iter().flatten());
        let sources = volumes
            .filter(|volume| volume.name == SECRETS_VOLUME)
            .flat_map(|volume| volume.projected.iter().flat_map(|it| it.sources.iter().flatten()));
        let secrets = sources.filter_map(|source| source.secret.as_ref()).map(|secret| {
            let keys = secret.items.iter().flatten().map(|item| item.key.clone());
            (secret.name.clone(), keys.collect())
        });
        Self { keys: secrets.collect() }
    }

    /// The Secrets needed, with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.keys.iter().map(|(secret, keys)| (secret.as_str(), keys))
    }

    /// The volume and its mount; `None` when no Secret is needed.
    #[must_use]
    pub fn volume(&self) -> Option<(Volume, VolumeMount)> {
        if self.keys.is_empty() {
            return None;
        }
        let sources = self.iter().map(|(secret, keys)| VolumeProjection {
            secret: Some(SecretProjection {
                name: secret.to_owned(),
                items: Some(
                    keys.iter()
                        .map(|key| KeyToPath {
                            key: key.clone(),
                            path: format!("{secret}/{key}"),
                            mode: None,
                        })
                        .collect(),
                ),
                optional: None,
            }),
            ..VolumeProjection::default()
        });
        let volume = Volume {
            name: SECRETS_VOLUME.into(),
            projected: Some(ProjectedVolumeSource {
                default_mode: Some(FILE_MODE),
                sources: Some(sources.collect()),
            }),
            ..Volume::default()
        };
        let mount = VolumeMount {
            name: SECRETS_VOLUME.into(),
            mount_path: SECRETS_FOLDER.into(),
            read_only: Some(true),
            ..VolumeMount::default()
        };
        Some((volume, mount))
    }
}

/// The Secrets that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretsSeen {
    digests: BTreeMap<String, String>,
    missing: Vec<Missing>,
}

/// A Secret, or a key of one, that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Missing {
    Secret(String),
    Key(String, String),
}

impl SecretsSeen {
    /// Notes that a Secret does not exist.
    pub fn absent(&mut self, secret: &str) {
        self.missing.push(Missing::Secret(secret.to_owned()));
    }

    /// Notes a Secret's content: the keys needed are digested, keys not there are missing.
    pub fn found(
        &mut self,
        salt: &str,
        secret: &str,
        keys: &BTreeSet<String>,
        data: &BTreeMap<String, ByteString>,
    ) {
        let mut digest = Sha256::new();
        digest.update(salt);
        for key in keys {
            match data.get(key) {
                Some(ByteString(value)) => {
                    // Lengths keep neighbouring values from running into each other.
                    digest.update((value.len() as u64).to_le_bytes());
                    digest.update(value);
                }
                None => self.missing.push(Missing::Key(secret.to_owned(), key.clone())),
            }
        }
        self.digests.insert(secret.to_owned(), hex(&digest.finalize()[..8]));
    }

    /// One digest over all Secrets; it changes when a needed key of one does.
    ///
    /// # Errors
    /// When something is missing; the message names all of it.
    pub fn digest(&self) -> Result<Option<String>, Invalid> {
        if let Some(first) = self.missing.first() {
            let reason = match first {
                Missing::Secret(_) => Reason::SecretMissing,
                Missing::Key(..) => Reason::SecretKeyMissing,
            };
            let told: Vec<String> = self
                .missing
                .iter()
                .map(|missing| match missing {
                    Missing::Secret(secret) => format!("Secret {secret} does not exist"),
                    Missing::Key(secret, key) => format!("Secret {secret} has no key {key}"),
                })
                .collect();
            let message = format!("{}; create it in the pool's namespace", told.join(", "));
            return Err(Invalid { reason, message });
        }
        if self.digests.is_empty() {
            return Ok(None);
        }
        let mut all = Sha256::new();
        for (secret, digest) in &self.digests {
            all.update(secret);
            all.update(digest);
        }
        Ok(Some(hex(&all.finalize()[..8])))
    }
}

/// Today's Secrets, for templates that may need others than the spec: earlier ones.
#[derive(Clone, Debug, Default)]
pub struct CurrentSecrets {
    known: Vec<(SecretUses, Option<String>)>,
}

impl CurrentSecrets {
    /// Notes the digest over the Secrets of a template; `None` if it needs none, or one is missing.
    pub fn note(&mut self, uses: SecretUses, digest: Option<String>) {
        self.known.push((uses, digest));
    }

    /// Whether they were noted.
    #[must_use]
    pub fn knows(&self, uses: &SecretUses) -> bool {
        self.known.iter().any(|(known, _)| known == uses)
    }

    /// Updates a template's digest of Secrets, so that its pods restart with today's; returns
    /// whether it changed. A template whose Secrets are missing stays as it is.
    pub fn renew(&self, template: &mut PodTemplateSpec) -> bool {
        let uses = SecretUses::of(template);
        let digest = self.known.iter().find(|(known, _)| *known == uses);
        let Some(digest) = digest.and_then(|(_, digest)| digest.clone()) else { return false };
        let annotations = &mut template.metadata.get_or_insert_default().annotations;
        let before = annotations
            .get_or_insert_default()
            .insert(SECRETS_ANNOTATION.to_owned(), digest.clone());
        before != Some(digest)
    }
}

/// Separates the change from its Secrets in a digest.
const WITH_SECRETS: char = '/';

/// A change's identity in a status: the change, and the digest of its Secrets then.
#[must_use]
pub fn with_secrets(asked: &str, secrets: Option<&str>) -> String {
    secrets.map_or_else(|| asked.to_owned(), |secrets| format!("{asked}{WITH_SECRETS}{secrets}"))
}

/// The change, and the digest of its Secrets then.
#[must_use]
pub fn without_secrets(digest: &str) -> (&str, Option<&str>) {
    match digest.split_once(WITH_SECRETS) {
        Some((asked, secrets)) => (asked, Some(secrets)),
        None => (digest, None),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/pool/secrets.rs"]
mod tests;
