//! Labels files with the pods that write them: when a file is opened and whenever the pods'
//! metadata has changed. Attributes are encoded when a file is read, and cached for its next
//! slices: most of ten thousand files are idle, and their attributes would take 4 MiB.
//!
//! A file whose pod isn't known yet waits for it for at most a second; then it is read without pod
//! attributes and by the source's form. Later metadata applies from the next line on.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_lines::FileAttributes as Attributes;
use millrace_pipeline::pods::{PodInfo, PodLookup};
use millrace_tail::FileId;

use super::OpenLogFile;
use super::label::Label;
use crate::find::forms::Forms;
use crate::find::source::FileSource;

/// The longest that a file waits for its pod. The API server reports a pod before the kubelet
/// starts it, so a second is ample, and too short to be noticed.
const WAIT: Duration = Duration::from_secs(1);

/// Files whose attributes are cached: 1,024 of some 400 bytes are 0.4 MiB. Above this, the cache is
/// cleared and attributes are encoded again as files are read.
const ATTRIBUTES_MAX: usize = 1024;

pub(crate) struct FileLabels {
    pods: Option<Arc<dyn PodLookup>>,
    /// The version of `pods` at which open files were last labeled.
    version: u64,
    /// The version of `pods` at which waiting files were last released.
    released_version: u64,
    /// Files with text to read that wait for their pods, the longest wait first.
    waiting: VecDeque<(FileId, Instant)>,
    /// The attributes common to all records of recently read files.
    attributes: HashMap<FileId, Attributes>,
    forms: Forms,
}

impl FileLabels {
    pub(crate) fn new(pods: Option<Arc<dyn PodLookup>>) -> Self {
        let version = pods.as_ref().map_or(0, |pods| pods.version());
        Self {
            pods,
            version,
            released_version: version,
            waiting: VecDeque::new(),
            attributes: HashMap::new(),
            forms: Forms::default(),
        }
    }

    /// Returns the label of a file that is being opened.
    pub(super) fn label_file(
        &mut self,
        source: &FileSource,
        path: Arc<Path>,
        now: Instant,
    ) -> Label {
        let Some(pods) = self.pods.as_ref().filter(|_| source.has_pods()) else {
            return Label { path, is_of_pod: false, pod: None, form: None, waits_until: None };
        };
        let pod = source.pod_of(&path, &**pods);
        let waits_until = pod.is_none().then(|| now + WAIT);
        let form = pod.as_ref().and_then(|pod| source.form_for(&path, pod, &mut self.forms));
        Label { path, is_of_pod: true, pod, form, waits_until }
    }

    /// Returns the number of patterns of pods rejected since the last call.
    pub(crate) fn take_rejected(&mut self) -> u64 {
        self.forms.take_rejected()
    }

    /// The attributes common to all records of a file.
    pub(crate) fn attributes_of(
        &mut self,
        file: FileId,
        label: &Label,
        source: &FileSource,
    ) -> &Attributes {
        if self.attributes.len() >= ATTRIBUTES_MAX && !self.attributes.contains_key(&file) {
            self.attributes.clear();
        }
        let encode = || source.attributes_of(&label.path, label.pod.as_deref());
        self.attributes.entry(file).or_insert_with(encode)
    }

    /// Drops the cached attributes of a closed file.
    pub(crate) fn forget_file(&mut self, file: FileId) {
        self.attributes.remove(&file);
    }

    /// Whether a file waits for its pod. If so, it is held until [`Self::release_due`] returns it.
    pub(crate) fn hold_for_pod(
        &mut self,
        file: FileId,
        open: &mut OpenLogFile,
        sources: &[FileSource],
        now: Instant,
    ) -> bool {
        let Some(until) = open.label.waits_until else { return false };
        if now >= until || self.renew_label(file, open, sources) {
            open.label.waits_until = None;
            return false;
        }
        self.waiting.push_back((file, until));
        true
    }

    /// When the longest-waiting file's wait ends.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.front().map(|(_, until)| *until)
    }

    /// Returns the files whose wait is over, or whose pod may be known now.
    pub(crate) fn release_due(&mut self, now: Instant) -> Vec<FileId> {
        let Some(pods) = self.pods.as_ref().filter(|_| !self.waiting.is_empty()) else {
            return Vec::new();
        };
        let version = pods.version();
        if std::mem::replace(&mut self.released_version, version) != version {
            return self.waiting.drain(..).map(|(file, _)| file).collect();
        }
        let due = self.waiting.iter().take_while(|(_, until)| *until <= now).count();
        self.waiting.drain(..due).map(|(file, _)| file).collect()
    }

    /// Whether pods have changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        let now = self.pods.as_ref().map_or(0, |pods| pods.version());
        std::mem::replace(&mut self.version, now) != now
    }

    /// Whether a file's pod differs from the one in its label.
    pub(crate) fn has_other_pod(&self, open: &OpenLogFile, sources: &[FileSource]) -> bool {
        self.find_pod(open, sources).is_some_and(|pod| !open.label.has_pod(&pod))
    }

    /// Updates a file's label with its pod's current metadata. Returns false if the pod is unknown.
    pub(crate) fn renew_label(
        &mut self,
        file: FileId,
        open: &mut OpenLogFile,
        sources: &[FileSource],
    ) -> bool {
        // Open files retain the label of a pod that was evicted from memory.
        let Some(pod) = self.find_pod(open, sources) else { return false };
        if let Some(source) = sources.get(open.source) {
            open.label.form = source.form_for(&open.label.path, &pod, &mut self.forms);
        }
        open.label.pod = Some(pod);
        self.attributes.remove(&file);
        true
    }

    fn find_pod(&self, open: &OpenLogFile, sources: &[FileSource]) -> Option<Arc<PodInfo>> {
        let pods = self.pods.as_ref().filter(|_| open.label.is_of_pod)?;
        sources.get(open.source)?.pod_of(&open.label.path, &**pods)
    }
}
