//! A unit: image, allocator, configuration and tables, which a rollout brings to the pods together.

/// What pods run. Pods of units that differ may write different rows from the same records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// The image with its tag or digest.
    pub image: String,
    /// The memory allocator that the image is built with; empty when the image does not state it.
    pub allocator: String,
    /// The name of the configuration, which ends in the hash of its content.
    pub config: String,
    /// The revision of the tables when the unit began; `None` when no schema is declared.
    pub schema_revision: Option<String>,
    /// The digests of the image that pods were observed to run; more than one after its tag was
    /// moved. Only for the report.
    pub digests: Vec<String>,
}

impl Unit {
    /// Returns whether pods of one unit need no change to be pods of the other. Tables are
    /// excluded: pods poll their tables' revision and need no restart for another one. Digests are
    /// excluded too: a moved tag does not replace running pods.
    #[must_use]
    pub fn runs_as(&self, other: &Self) -> bool {
        self.image == other.image && self.config == other.config
    }
}
