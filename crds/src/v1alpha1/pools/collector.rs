//! The collector image of pools. The operator fills in defaults; no I/O here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{ImageRepository, Version};

/// The collector image of the pods: `<image repository>:<version>-<allocator>`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CollectorSettings {
    /// Collector version, for example 0.1.0. Default: the operator's version when the pool is
    /// created; upgrading the operator later restarts no pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Memory allocator of the image: System (the C library's; measured fastest and smallest),
    /// jemalloc or mimalloc. A change rolls out another image.
    #[serde(default)]
    pub allocator: Allocator,
    /// Image without a tag, for a private registry. Default: collector.imageRepository of the
    /// operator's chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_repository: Option<ImageRepository>,
}

/// A memory allocator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Allocator {
    /// The C library's.
    #[default]
    System,
    /// jemalloc.
    #[serde(rename = "jemalloc")]
    Jemalloc,
    /// mimalloc.
    #[serde(rename = "mimalloc")]
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
