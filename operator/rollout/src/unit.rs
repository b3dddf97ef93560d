//! A unit: image, allocator, configuration and tables, which a rollout brings to the pods together.

/// What pods run. Two units that differ in what pods run differ in what records become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// The image with its tag or digest.
    pub image: String,
    /// The memory allocator it is built with; empty when the image does not say.
    pub allocator: String,
    /// The name of the configuration, which ends in the hash of its content.
    pub config: String,
    /// The revision of the tables when the unit began; `None` when no schema is declared for them.
    pub schema_revision: Option<String>,
    /// The builds of the image that pods were seen to run, by digest; more than one after its tag
    /// was moved. Only told.
    pub digests: Vec<String>,
}

impl Unit {
    /// Whether pods of one need no change to be pods of the other. Tables are not part of it: pods
    /// look at their tables by themselves and need no start for another revision. Nor are digests:
    /// pods that run already are not replaced because a tag was moved.
    #[must_use]
    pub fn runs_as(&self, other: &Self) -> bool {
        self.image == other.image && self.config == other.config
    }
}
