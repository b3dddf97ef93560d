//! Decides which files a source reads, and which attributes their records have.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use millrace_config::{ContainersReceiver, FilesReceiver, NamespaceWeight, PodMetadata, StartAt};
use millrace_lines::{
    Container, FileAttributes as Attributes, MultilineRule, ParseRules, RecordRules, Roles,
    TextEncoding,
};
use millrace_pipeline::pods::{LogReading, PodInfo, PodLookup};
use millrace_tail::Weight;

use super::forms::{Forms, to_traces};
use super::links::Links;
use super::namespace_filter::NamespaceFilter;
use super::parse::{build_parse, build_roles};
use crate::{SourceSettings, StartError};

/// How long an unfinished record waits by default: a container's partial line for its next part,
/// multiline records of a pod that chose them.
const USUAL_TIMEOUT_NANOS: u64 = 1_000_000_000;

/// Suffixes of a container's rotated files that aren't complete text.
const NOT_TEXT: [&str; 2] = ["gz", "tmp"];

/// A directory to walk, and the number of levels below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Root {
    pub(crate) folder: PathBuf,
    pub(super) levels: usize,
}

#[derive(Debug)]
pub(crate) struct FileSource {
    /// Its share in the fair queue, for files without a namespace.
    pub(crate) name: String,
    /// The recorded names: its directory, or each of its patterns.
    pub(crate) names: Vec<String>,
    pub(crate) from_end: bool,
    pub(super) roots: Vec<Root>,
    pub(crate) form: Arc<RecordRules>,
    /// The roles of fields, for pods that choose a parser.
    roles: Roles,
    /// The longest written record, by this form or one that a pod chose.
    pub(crate) written_bytes: usize,
    /// The weights of namespaces that have one.
    pub(crate) weights: HashMap<String, Weight>,
    pub(crate) links: Links,
    pub(crate) kind: SourceKind,
}

/// How a source selects its files.
#[derive(Debug)]
pub(crate) enum SourceKind {
    Containers {
        folder: PathBuf,
        namespaces: NamespaceFilter,
    },
    /// `recalled` marks the patterns that were read before this start.
    Patterns {
        include: GlobSet,
        exclude: GlobSet,
        recalled: Vec<bool>,
    },
}

/// The maximum depth of `**`: 32 levels, far more than logs have.
const LEVELS_MAX: usize = 32;

impl FileSource {
    pub(crate) fn from_settings(settings: &SourceSettings) -> Result<Self, StartError> {
        match settings {
            SourceSettings::Containers(settings) => Self::from_containers(settings),
            SourceSettings::Files(settings) => Self::from_files(settings),
        }
    }

    fn from_containers(settings: &ContainersReceiver) -> Result<Self, StartError> {
        let folder = settings.directory.clone();
        let (multiline, timeout_nanos) = build_multiline(settings.multiline.as_ref())?;
        let name = format!("containers {}", folder.display());
        let form = RecordRules {
            container: Container::Detect,
            encoding: TextEncoding::Utf8,
            multiline,
            parse: build_parse(&settings.parse, &name)?,
            max_record_bytes: settings.max_line_bytes.as_usize(),
            timeout_nanos,
        };
        let may_parse =
            settings.pod_metadata == PodMetadata::KubernetesApi && settings.follow_annotations;
        let parsed = may_parse.then(|| ParseRules::json(Roles::default()));
        let longest = RecordRules { parse: form.parse.clone().or(parsed), ..form.clone() };
        let weight = |NamespaceWeight { namespace, weight }: &NamespaceWeight| {
            Some((namespace.clone(), Weight::new(*weight)?))
        };
        Ok(Self {
            written_bytes: longest.written_bytes(),
            form: Arc::new(form),
            roles: build_roles(&settings.parse, &name)?,
            weights: settings.weights.iter().filter_map(weight).collect(),
            names: vec![name.clone()],
            name,
            from_end: settings.start_at == StartAt::End,
            roots: vec![Root { folder: folder.clone(), levels: 2 }],
            links: settings.docker_directory.clone().map_or(Links::Unfollowed, Links::Docker),
            kind: SourceKind::Containers {
                folder,
                namespaces: NamespaceFilter::from_settings(settings),
            },
        })
    }

    fn from_files(settings: &FilesReceiver) -> Result<Self, StartError> {
        let (multiline, timeout_nanos) = build_multiline(settings.multiline.as_ref())?;
        let mut roots: Vec<Root> = settings.include.iter().map(|one| root_of(one)).collect();
        roots.sort();
        roots.dedup();
        let name = format!("files {}", settings.include.join(" "));
        let form = RecordRules {
            container: Container::None,
            encoding: to_encoding(settings.encoding),
            multiline,
            parse: build_parse(&settings.parse, &name)?,
            max_record_bytes: settings.max_line_bytes.as_usize(),
            timeout_nanos,
        };
        Ok(Self {
            from_end: settings.start_at == StartAt::End,
            roots,
            written_bytes: form.written_bytes(),
            form: Arc::new(form),
            roles: Roles::default(),
            weights: HashMap::new(),
            names: settings.include.iter().map(|one| format!("files {one}")).collect(),
            name,
            links: Links::Followed,
            kind: SourceKind::Patterns {
                include: build_globs(&settings.include)?,
                exclude: build_globs(&settings.exclude)?,
                recalled: vec![false; settings.include.len()],
            },
        })
    }

    /// Marks which of the source's names are on record.
    pub(crate) fn mark_recorded(&mut self, is_known: impl Fn(&str) -> bool) {
        if let SourceKind::Patterns { recalled, .. } = &mut self.kind {
            *recalled = self.names.iter().map(|name| is_known(name)).collect();
        }
    }

    /// Whether a recorded pattern matches this path, if only some patterns are recorded.
    pub(super) fn is_recorded(&self, path: &Path) -> bool {
        let SourceKind::Patterns { include, recalled, .. } = &self.kind else { return false };
        let differ = recalled.contains(&true) && recalled.contains(&false);
        differ && include.matches(path).iter().any(|index| recalled[*index])
    }

    /// Whether a file of this path is read, or would be if its namespace were selected.
    pub(crate) fn may_read(&self, path: &Path) -> bool {
        match &self.kind {
            SourceKind::Containers { folder, .. } => parse_container_path(folder, path).is_some(),
            SourceKind::Patterns { .. } => self.reads_file(path),
        }
    }

    /// Whether a file of this path is read.
    pub(crate) fn reads_file(&self, path: &Path) -> bool {
        match &self.kind {
            SourceKind::Containers { folder, namespaces } => parse_container_path(folder, path)
                .is_some_and(|of| namespaces.reads_namespace(of.namespace)),
            SourceKind::Patterns { include, exclude, .. } => {
                // A compressed file is only read as the continuation of the file from which it was
                // made.
                let is_packed = path.extension().is_some_and(|ending| ending == "gz");
                include.is_match(path) && !exclude.is_match(path) && !is_packed
            }
        }
    }

    /// Whether the files to read are known already.
    pub(super) fn is_known(&self) -> bool {
        match &self.kind {
            SourceKind::Containers { namespaces, .. } => namespaces.is_known(),
            SourceKind::Patterns { .. } => true,
        }
    }

    /// Sets the namespaces that have the selected labels, and returns whether the selection
    /// changes.
    pub(crate) fn set_namespaces(&mut self, chosen: &Arc<HashSet<String>>) -> bool {
        match &mut self.kind {
            SourceKind::Containers { namespaces, .. } => namespaces.set_labeled(chosen),
            SourceKind::Patterns { .. } => false,
        }
    }

    /// Whether a file, or a pod's directory, belongs to a namespace that isn't read.
    pub(crate) fn excludes_path(&self, path: &Path) -> bool {
        let SourceKind::Containers { namespaces, .. } = &self.kind else { return false };
        self.namespace_of(path).is_some_and(|namespace| !namespaces.reads_namespace(namespace))
    }

    pub(crate) fn has_pods(&self) -> bool {
        matches!(self.kind, SourceKind::Containers { .. })
    }

    /// The namespace of the pod that writes a file, or wrote a rotated one.
    pub(crate) fn namespace_of<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let SourceKind::Containers { folder, .. } = &self.kind else { return None };
        let owner = path.strip_prefix(folder).ok()?.components().next()?;
        owner.as_os_str().to_str()?.split('_').next()
    }

    /// The file's share in the fair queue: its namespace, or its source. A source's name contains a
    /// space, so it can't equal a namespace's.
    pub(crate) fn share_of<'a>(&'a self, path: &'a Path) -> &'a str {
        self.namespace_of(path).unwrap_or(&self.name)
    }

    /// The form that a pod's annotations choose for a file. None: the source's form.
    pub(crate) fn form_for(
        &self,
        path: &Path,
        pod: &PodInfo,
        forms: &mut Forms,
    ) -> Option<Arc<RecordRules>> {
        let SourceKind::Containers { folder, .. } = &self.kind else { return None };
        let reading = pod.container_reading(parse_container_path(folder, path)?.container);
        forms.form_of(reading, &self.form, &self.roles)
    }

    /// The pod that writes a file, if it is known.
    pub(crate) fn pod_of(&self, path: &Path, pods: &dyn PodLookup) -> Option<Arc<PodInfo>> {
        let SourceKind::Containers { folder, .. } = &self.kind else { return None };
        let ContainerPath { namespace, pod, uid, .. } = parse_container_path(folder, path)?;
        pods.find_pod(uid, namespace, pod)
    }

    /// The attributes common to all records of a file; for a container's file including its pod's.
    pub(crate) fn attributes_of(&self, path: &Path, known: Option<&PodInfo>) -> Attributes {
        match &self.kind {
            SourceKind::Containers { folder, .. } => match parse_container_path(folder, path) {
                Some(ContainerPath { namespace, pod, uid, container, restarts }) => {
                    let of_path = [
                        ("k8s.namespace.name", namespace),
                        ("k8s.pod.name", pod),
                        ("k8s.pod.uid", uid),
                        ("k8s.container.name", container),
                        ("k8s.container.restart_count", restarts),
                    ];
                    let of_pod = known.into_iter().flat_map(|pod| &pod.attributes);
                    let of_pod = of_pod.map(|(name, value)| (name.as_str(), value.as_str()));
                    let all: Vec<_> = of_path.into_iter().chain(of_pod).collect();
                    let attributes = Attributes::new(&all, &[]);
                    let declared = known.and_then(|pod| pod.container_reading(container).logs);
                    match declared {
                        Some(LogReading::Off) => attributes.without_records(),
                        None | Some(LogReading::On) => attributes,
                    }
                }
                None => Attributes::new(&[], &[("log.file.path", &path.to_string_lossy())]),
            },
            SourceKind::Patterns { .. } => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let full_path = path.to_string_lossy();
                Attributes::new(&[], &[("log.file.path", &full_path), ("log.file.name", &name)])
            }
        }
    }
}

/// The parts of a container's log path, by the kubelet's naming.
#[derive(Debug, PartialEq, Eq)]
struct ContainerPath<'a> {
    namespace: &'a str,
    pod: &'a str,
    uid: &'a str,
    container: &'a str,
    restarts: &'a str,
}

/// Parses `NAMESPACE_POD_UID/CONTAINER/N.log`, and rotated files' `N.log.TIME`.
fn parse_container_path<'a>(folder: &Path, path: &'a Path) -> Option<ContainerPath<'a>> {
    let mut parts = path.strip_prefix(folder).ok()?.components().map(|part| match part {
        Component::Normal(part) => part.to_str(),
        _ => None,
    });
    let (owner, container, name) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() {
        return None;
    }
    // Namespaces, pod names and UIDs contain no underscore.
    let mut owner = owner.split('_');
    let (namespace, pod, uid) = (owner.next()?, owner.next()?, owner.next()?);
    let (restarts, rotated) = name.split_once(".log")?;
    let is_number = !restarts.is_empty() && restarts.bytes().all(|byte| byte.is_ascii_digit());
    let ending = rotated.rsplit('.').next().unwrap_or_default();
    let is_text = rotated.is_empty() || rotated.starts_with('.') && !NOT_TEXT.contains(&ending);
    (owner.next().is_none() && is_number && is_text).then_some(ContainerPath {
        namespace,
        pod,
        uid,
        container,
        restarts,
    })
}

/// Builds the multiline setting, and how long an open record waits, in nanoseconds.
fn build_multiline(
    settings: Option<&millrace_config::Multiline>,
) -> Result<(Option<MultilineRule>, u64), StartError> {
    let Some(lines) = settings else { return Ok((None, USUAL_TIMEOUT_NANOS)) };
    let multiline = match (&lines.start, lines.stack_traces) {
        (Some(pattern), _) => {
            let fault = |error: millrace_lines::PatternError| StartError::Pattern {
                pattern: pattern.clone(),
                why: error.to_string(),
            };
            MultilineRule::from_pattern(pattern).map_err(fault)?
        }
        (None, Some(of)) => MultilineRule::Traces(to_traces(of)),
        (None, None) => MultilineRule::Indented,
    };
    Ok((Some(multiline), u64::from(lines.timeout_millis) * 1_000_000))
}

fn to_encoding(of: millrace_config::Encoding) -> TextEncoding {
    match of {
        millrace_config::Encoding::Utf8 => TextEncoding::Utf8,
        millrace_config::Encoding::Utf16Le => TextEncoding::Utf16Le,
        millrace_config::Encoding::Utf16Be => TextEncoding::Utf16Be,
        millrace_config::Encoding::Latin1 => TextEncoding::Latin1,
    }
}

fn build_globs(patterns: &[String]) -> Result<GlobSet, StartError> {
    let mut set = GlobSetBuilder::new();
    let fault = |pattern: &str, error: globset::Error| StartError::Pattern {
        pattern: pattern.to_owned(),
        why: error.to_string(),
    };
    for pattern in patterns {
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        set.add(glob.map_err(|error| fault(pattern, error))?);
    }
    set.build().map_err(|error| fault(&patterns.join(" "), error))
}

/// Returns a pattern's longest directory without a wildcard, and the number of levels below it.
fn root_of(pattern: &str) -> Root {
    let wild = |part: &str| part.contains(['*', '?', '[', '{']);
    let parts: Vec<&str> = pattern.split('/').collect();
    let folders = &parts[..parts.len().saturating_sub(1)];
    let literal = folders.iter().position(|part| wild(part)).unwrap_or(folders.len());
    let below = &folders[literal..];
    let levels =
        if below.iter().any(|part| part.contains("**")) { LEVELS_MAX } else { below.len() };
    let folder = folders[..literal].join("/");
    let folder = if folder.is_empty() { "/".to_owned() } else { folder };
    Root { folder: PathBuf::from(folder), levels }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: paths as the kubelet makes them, and others. Guarantee: owner and restarts are
    /// parsed from the former, also of rotated files; nothing else counts as a container's file.
    #[test]
    fn the_kubelets_paths_say_whose_a_file_is() {
        let folder = Path::new("/var/log/pods");
        let of = |rest: &str| {
            parse_container_path(folder, &folder.join(rest)).map(|of| format!("{of:?}"))
        };
        let plain = of("shop_cart-7f_1234-ab/app/3.log").unwrap();
        for word in ["shop", "cart-7f", "1234-ab", "app", "\"3\""] {
            assert!(plain.contains(word), "{plain}");
        }
        assert_eq!(of("shop_cart-7f_1234-ab/app/3.log.20260101-120000"), Some(plain));
        for other in [
            "shop_cart-7f_1234-ab/app/3.log.20260101-120000.gz",
            "shop_cart-7f_1234-ab/app/x.log",
            "shop_cart-7f_1234-ab/3.log",
            "shop_cart/app/3.log",
            "a_b_c_d/app/3.log",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    /// Scenario: patterns with wildcards at several levels. Guarantee: the walk begins at the last
    /// directory before a wildcard, and goes as deep as the pattern.
    #[test]
    fn a_walk_begins_where_a_pattern_becomes_wild() {
        for (pattern, folder, levels) in [
            ("/var/log/app.log", "/var/log", 0),
            ("/var/log/*.log", "/var/log", 0),
            ("/var/*/x/*.log", "/var", 2),
            ("/var/log/**/*.log", "/var/log", LEVELS_MAX),
            ("/*.log", "/", 0),
        ] {
            assert_eq!(root_of(pattern), Root { folder: folder.into(), levels }, "{pattern}");
        }
    }
}
