//! What is known of the pods that write the files: looked up when a file is opened and whenever
//! something has changed. Attributes are encoded when a file is read, and kept for its next slices:
//! most of ten thousand files are idle, and theirs would take 4 MiB.
//!
//! A file whose pod isn't known yet waits for it, a second at most; then its records go without,
//! and are read as the source says. What is known later holds from the next line on.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_lines::{Form, Source as Attributes};
use millrace_pipeline::pods::{Pod, Pods};
use millrace_tail::FileId;

use super::forms::Forms;
use super::open::Open;
use super::source::Source;

/// The longest that a file waits for its pod: the API server tells of a pod before the kubelet
/// starts it, so a second is long, and too short to be noticed.
const WAIT: Duration = Duration::from_secs(1);

/// Files whose attributes are kept: 1,024 of some 400 bytes are 0.4 MiB. When there are more, all
/// are encoded again as their files are read.
const ATTRIBUTES_MAX: usize = 1024;

/// Of an open file: its name, and its pod, as far as it is known.
#[derive(Debug)]
pub(super) struct Label {
    /// The name of the file's text.
    path: Arc<Path>,
    /// Whether the file is a pod's, and pods are looked up.
    is_of_pod: bool,
    pod: Option<Arc<Pod>>,
    /// How its pod asks for it to be read. None: as its source says.
    form: Option<Arc<Form>>,
    /// Until when it isn't read if its pod stays unknown.
    waits_until: Option<Instant>,
}

/// Of all files.
pub(super) struct Labels {
    pods: Option<Arc<dyn Pods>>,
    /// Of `pods`, when open files were labeled last.
    version: u64,
    /// Of `pods`, when waiting files were released last.
    released_version: u64,
    /// Files that are to be read and wait, those that wait longest first.
    waiting: VecDeque<(FileId, Instant)>,
    /// What all records have of files that were read lately.
    attributes: HashMap<FileId, Attributes>,
    forms: Forms,
}

impl Labels {
    pub(super) fn new(pods: Option<Arc<dyn Pods>>) -> Self {
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

    /// What is known of a file that is opened.
    pub(super) fn begin(&mut self, source: &Source, path: Arc<Path>, now: Instant) -> Label {
        let Some(pods) = self.pods.as_ref().filter(|_| source.has_pods()) else {
            return Label { path, is_of_pod: false, pod: None, form: None, waits_until: None };
        };
        let pod = source.pod(&path, &**pods);
        let waits_until = pod.is_none().then(|| now + WAIT);
        let form = pod.as_ref().and_then(|pod| source.form_for(&path, pod, &mut self.forms));
        Label { path, is_of_pod: true, pod, form, waits_until }
    }

    /// Patterns of pods that had no room, since the last call.
    pub(super) fn take_left_out(&mut self) -> u64 {
        self.forms.take_left_out()
    }

    /// What all records of a file have.
    pub(super) fn attributes(
        &mut self,
        file: FileId,
        label: &Label,
        source: &Source,
    ) -> &Attributes {
        if self.attributes.len() >= ATTRIBUTES_MAX && !self.attributes.contains_key(&file) {
            self.attributes.clear();
        }
        let encode = || source.attributes(&label.path, label.pod.as_deref());
        self.attributes.entry(file).or_insert_with(encode)
    }

    /// A file is closed.
    pub(super) fn forget(&mut self, file: FileId) {
        self.attributes.remove(&file);
    }

    /// Whether a file waits for its pod; it is taken in then, and given back by [`Self::released`].
    pub(super) fn holds(
        &mut self,
        file: FileId,
        open: &mut Open,
        sources: &[Source],
        now: Instant,
    ) -> bool {
        let Some(until) = open.label.waits_until else { return false };
        if now >= until || self.renew(file, open, sources) {
            open.label.waits_until = None;
            return false;
        }
        self.waiting.push_back((file, until));
        true
    }

    /// When the next file has waited long enough.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.front().map(|(_, until)| *until)
    }

    /// Files that wait no longer, or whose pod may be known now.
    pub(super) fn released(&mut self, now: Instant) -> Vec<FileId> {
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

    /// Whether something changed since the last call.
    pub(super) fn changed(&mut self) -> bool {
        let now = self.pods.as_ref().map_or(0, |pods| pods.version());
        std::mem::replace(&mut self.version, now) != now
    }

    /// Whether a file's pod is another one than it was.
    pub(super) fn differs(&self, open: &Open, sources: &[Source]) -> bool {
        self.look_up(open, sources).is_some_and(|pod| !open.label.has(&pod))
    }

    /// Takes in what is known of a file's pod now. Whether anything is.
    pub(super) fn renew(&mut self, file: FileId, open: &mut Open, sources: &[Source]) -> bool {
        // What went from memory stays as it was for the files that are open.
        let Some(pod) = self.look_up(open, sources) else { return false };
        if let Some(source) = sources.get(open.source) {
            open.label.form = source.form_for(&open.label.path, &pod, &mut self.forms);
        }
        open.label.pod = Some(pod);
        self.attributes.remove(&file);
        true
    }

    fn look_up(&self, open: &Open, sources: &[Source]) -> Option<Arc<Pod>> {
        let pods = self.pods.as_ref().filter(|_| open.label.is_of_pod)?;
        sources.get(open.source)?.pod(&open.label.path, &**pods)
    }
}

impl Label {
    /// Whether the file is a pod's and nothing is known of that.
    pub(super) fn is_missing(&self) -> bool {
        self.is_of_pod && self.pod.is_none()
    }

    /// How the file is read from its next line on.
    pub(super) fn form<'a>(&'a self, source: &'a Source) -> &'a Arc<Form> {
        self.form.as_ref().unwrap_or(&source.form)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn has(&self, pod: &Arc<Pod>) -> bool {
        self.pod.as_ref().is_some_and(|known| Arc::ptr_eq(known, pod))
    }
}
