//! An open file's path and pod.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use millrace_lines::RecordRules;
use millrace_pipeline::pods::PodInfo;

/// An open file's path, and its pod as far as it is known.
#[derive(Debug)]
pub(crate) struct Label {
    /// The path of the file's text.
    pub(crate) path: Arc<Path>,
    /// Whether the file is a pod's, and pods are looked up.
    pub(super) is_of_pod: bool,
    pub(crate) pod: Option<Arc<PodInfo>>,
    /// The form that its pod's annotations choose. None: the source's form.
    pub(crate) form: Option<Arc<RecordRules>>,
    /// Until when the file waits for an unknown pod.
    pub(super) waits_until: Option<Instant>,
}

impl Label {
    /// Whether the file is a pod's and that pod is unknown.
    pub(crate) fn is_missing(&self) -> bool {
        self.is_of_pod && self.pod.is_none()
    }

    /// The form by which the file is read from its next line on: `usual` is its source's.
    pub(crate) fn form_for<'a>(&'a self, usual: &'a Arc<RecordRules>) -> &'a Arc<RecordRules> {
        self.form.as_ref().unwrap_or(usual)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn has_pod(&self, pod: &Arc<PodInfo>) -> bool {
        self.pod.as_ref().is_some_and(|known| Arc::ptr_eq(known, pod))
    }
}
