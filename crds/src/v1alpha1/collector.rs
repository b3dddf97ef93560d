//! Which collector image runs. The operator knows the default; no I/O here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{ImageRepository, Version};

/// Which collector image the pods run: `<image repository>:<version>-<allocator>`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CollectorSettings {
    /// Collector version, for example 0.1.0. Default: the operator's version when the pool is made.
    /// It then stays: upgrading the operator restarts no pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Memory allocator the image is built with: system (the C library's; measured fastest and
    /// smallest), jemalloc or mimalloc. A change rolls the pods to another image.
    #[serde(default)]
    pub allocator: Allocator,
    /// Image without a tag, for your own registry. Default: the operator's setting
    /// (millrace/collector).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_repository: Option<ImageRepository>,
}

/// A memory allocator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Allocator {
    /// The C library's.
    #[default]
    System,
    /// jemalloc.
    Jemalloc,
    /// mimalloc.
    Mimalloc,
}

impl Allocator {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::System, Self::Jemalloc, Self::Mimalloc];

    /// The name in image tags and cargo features.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Jemalloc => "jemalloc",
            Self::Mimalloc => "mimalloc",
        }
    }
}
