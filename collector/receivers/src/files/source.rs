//! Which files a source reads, and what its records say of the file they come from.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use millrace_config::{ContainersReceiver, FilesReceiver, NamespaceWeight, StartAt};
use millrace_lines::{
    Container, Encoding, Form, Multiline, Parse, Roles, Source as Attributes, Traces,
};
use millrace_pipeline::pods::{Pod, Pods, Wanted};
use millrace_tail::Weight;

use super::choice::Choice;
use super::forms::Forms;
use super::links::Links;
use super::parse::{parse, roles};
use super::{SourceSettings, StartError};

/// How long an unfinished record waits where settings don't say: a container's line in parts for
/// its next part, lines of a pod that chose which are one record.
const USUAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Endings that mark a container's rotated file that isn't whole text.
const NOT_TEXT: [&str; 2] = ["gz", "tmp"];

/// A directory to be walked, and how many levels below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Root {
    pub(super) folder: PathBuf,
    pub(super) levels: usize,
}

/// A source, compiled.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) from_end: bool,
    pub(super) roots: Vec<Root>,
    pub(super) form: Arc<Form>,
    /// The places of fields, for pods that choose a parser.
    roles: Roles,
    /// The longest record as written, by this form or one that a pod chose.
    pub(super) written_bytes: usize,
    /// Of namespaces that have one.
    pub(super) weights: HashMap<String, Weight>,
    /// How long an open record waits for a further line.
    pub(super) timeout: Duration,
    /// Which symbolic links are followed.
    pub(super) links: Links,
    pub(super) kind: Kind,
}

/// How a source tells its files.
#[derive(Debug)]
pub(super) enum Kind {
    Containers { folder: PathBuf, namespaces: Choice },
    Patterns { include: GlobSet, exclude: GlobSet },
}

/// Directories below which `**` looks: 32 levels, far more than logs have.
const LEVELS_MAX: usize = 32;

impl Source {
    pub(super) fn compile(settings: &SourceSettings) -> Result<Self, StartError> {
        match settings {
            SourceSettings::Containers(settings) => Self::containers(settings),
            SourceSettings::Files(settings) => Self::files(settings),
        }
    }

    fn containers(settings: &ContainersReceiver) -> Result<Self, StartError> {
        let folder = settings.directory.clone();
        let (multiline, timeout) = multiline(settings.multiline.as_ref())?;
        let name = format!("containers {}", folder.display());
        let form = Form {
            container: Container::Detect,
            encoding: Encoding::Utf8,
            multiline,
            parse: parse(&settings.parse, &name)?,
            max_record_bytes: settings.max_line_bytes.as_usize(),
        };
        let may_parse = settings.watch_pods && settings.follow_annotations;
        let parsed = may_parse.then(|| Parse::json(Roles::default()));
        let longest = Form { parse: form.parse.clone().or(parsed), ..form.clone() };
        let weight = |NamespaceWeight { namespace, weight }: &NamespaceWeight| {
            Some((namespace.clone(), Weight::new(*weight)?))
        };
        Ok(Self {
            written_bytes: longest.written_bytes(),
            form: Arc::new(form),
            roles: roles(&settings.parse, &name)?,
            weights: settings.weights.iter().filter_map(weight).collect(),
            name,
            from_end: settings.start_at == StartAt::End,
            roots: vec![Root { folder: folder.clone(), levels: 2 }],
            timeout,
            links: settings.docker_directory.clone().map_or(Links::Unfollowed, Links::Docker),
            kind: Kind::Containers { folder, namespaces: Choice::of(settings) },
        })
    }

    fn files(settings: &FilesReceiver) -> Result<Self, StartError> {
        let (multiline, timeout) = multiline(settings.multiline.as_ref())?;
        let mut roots: Vec<Root> = settings.include.iter().map(|one| root(one)).collect();
        roots.sort();
        roots.dedup();
        let name = format!("files {}", settings.include.join(" "));
        let form = Form {
            container: Container::None,
            encoding: encoding(settings.encoding),
            multiline,
            parse: parse(&settings.parse, &name)?,
            max_record_bytes: settings.max_line_bytes.as_usize(),
        };
        Ok(Self {
            from_end: settings.start_at == StartAt::End,
            roots,
            written_bytes: form.written_bytes(),
            form: Arc::new(form),
            roles: Roles::default(),
            weights: HashMap::new(),
            name,
            timeout,
            links: Links::Followed,
            kind: Kind::Patterns {
                include: globs(&settings.include)?,
                exclude: globs(&settings.exclude)?,
            },
        })
    }

    /// Whether a file of this name is read.
    pub(super) fn reads(&self, path: &Path) -> bool {
        match &self.kind {
            Kind::Containers { folder, namespaces } => {
                container_of(folder, path).is_some_and(|of| namespaces.has(of.namespace))
            }
            Kind::Patterns { include, exclude } => {
                // A compressed file is read for the one that it was made of alone.
                let is_packed = path.extension().is_some_and(|ending| ending == "gz");
                include.is_match(path) && !exclude.is_match(path) && !is_packed
            }
        }
    }

    /// Whether it is known which files are read.
    pub(super) fn is_known(&self) -> bool {
        match &self.kind {
            Kind::Containers { namespaces, .. } => namespaces.is_known(),
            Kind::Patterns { .. } => true,
        }
    }

    /// Takes in which namespaces have the labels that settings ask for. Whether that matters here.
    pub(super) fn tell(&mut self, chosen: &Arc<HashSet<String>>) -> bool {
        match &mut self.kind {
            Kind::Containers { namespaces, .. } => namespaces.tell(chosen),
            Kind::Patterns { .. } => false,
        }
    }

    /// Whether a file, or a pod's directory, is of a namespace that isn't read.
    pub(super) fn leaves_out(&self, path: &Path) -> bool {
        let Kind::Containers { namespaces, .. } = &self.kind else { return false };
        self.namespace(path).is_some_and(|namespace| !namespaces.has(namespace))
    }

    /// Whether files are of pods.
    pub(super) fn has_pods(&self) -> bool {
        matches!(self.kind, Kind::Containers { .. })
    }

    /// The namespace of the pod that writes a file, or wrote a rotated one.
    pub(super) fn namespace<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let Kind::Containers { folder, .. } = &self.kind else { return None };
        let owner = path.strip_prefix(folder).ok()?.components().next()?;
        owner.as_os_str().to_str()?.split('_').next()
    }

    /// Among whom a file's turns are shared: its namespace, or its source. A source's name has a
    /// space, which no namespace's has.
    pub(super) fn share<'a>(&'a self, path: &'a Path) -> &'a str {
        self.namespace(path).unwrap_or(&self.name)
    }

    /// How a pod asks for a file to be read. None: as the settings say.
    pub(super) fn form_for(&self, path: &Path, pod: &Pod, forms: &mut Forms) -> Option<Arc<Form>> {
        let Kind::Containers { folder, .. } = &self.kind else { return None };
        let reading = pod.reading(container_of(folder, path)?.container);
        forms.of(reading, &self.form, &self.roles)
    }

    /// The pod that writes a file, if it is known.
    pub(super) fn pod(&self, path: &Path, pods: &dyn Pods) -> Option<Arc<Pod>> {
        let Kind::Containers { folder, .. } = &self.kind else { return None };
        let Of { namespace, pod, uid, .. } = container_of(folder, path)?;
        pods.find(uid, namespace, pod)
    }

    /// What all records of a file have; of a container's file also what is known of its pod.
    pub(super) fn attributes(&self, path: &Path, known: Option<&Pod>) -> Attributes {
        match &self.kind {
            Kind::Containers { folder, .. } => match container_of(folder, path) {
                Some(Of { namespace, pod, uid, container, restarts }) => {
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
                    let wanted = known.and_then(|pod| pod.reading(container).wanted);
                    match wanted {
                        Some(Wanted::Off) => attributes.passed_over(),
                        None | Some(Wanted::On) => attributes,
                    }
                }
                None => Attributes::new(&[], &[("log.file.path", &path.to_string_lossy())]),
            },
            Kind::Patterns { .. } => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let whole = path.to_string_lossy();
                Attributes::new(&[], &[("log.file.path", &whole), ("log.file.name", &name)])
            }
        }
    }
}

/// Whose file it is, by the kubelet's naming.
#[derive(Debug, PartialEq, Eq)]
struct Of<'a> {
    namespace: &'a str,
    pod: &'a str,
    uid: &'a str,
    container: &'a str,
    restarts: &'a str,
}

/// Reads `NAMESPACE_POD_UID/CONTAINER/N.log`, and rotated files' `N.log.TIME`.
fn container_of<'a>(folder: &Path, path: &'a Path) -> Option<Of<'a>> {
    let mut parts = path.strip_prefix(folder).ok()?.components().map(|part| match part {
        Component::Normal(part) => part.to_str(),
        _ => None,
    });
    let (owner, container, name) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() {
        return None;
    }
    // Neither a namespace, a pod nor an uid has an underscore.
    let mut owner = owner.split('_');
    let (namespace, pod, uid) = (owner.next()?, owner.next()?, owner.next()?);
    let (restarts, rotated) = name.split_once(".log")?;
    let is_number = !restarts.is_empty() && restarts.bytes().all(|byte| byte.is_ascii_digit());
    let ending = rotated.rsplit('.').next().unwrap_or_default();
    let is_text = rotated.is_empty() || rotated.starts_with('.') && !NOT_TEXT.contains(&ending);
    (owner.next().is_none() && is_number && is_text).then_some(Of {
        namespace,
        pod,
        uid,
        container,
        restarts,
    })
}

/// Which lines are one record, and how long an open one waits.
fn multiline(
    settings: Option<&millrace_config::Multiline>,
) -> Result<(Option<Multiline>, Duration), StartError> {
    let Some(lines) = settings else { return Ok((None, USUAL_TIMEOUT)) };
    let multiline = match (&lines.start, lines.traces) {
        (Some(pattern), _) => {
            let fault = |error: millrace_lines::PatternError| StartError::Pattern {
                pattern: pattern.clone(),
                why: error.to_string(),
            };
            Multiline::start(pattern).map_err(fault)?
        }
        (None, Some(of)) => Multiline::Traces(traces(of)),
        (None, None) => Multiline::Indented,
    };
    Ok((Some(multiline), Duration::from_millis(u64::from(lines.timeout_millis))))
}

/// A runtime's traces, as lines know them.
pub(super) fn traces(of: millrace_config::Traces) -> Traces {
    match of {
        millrace_config::Traces::Java => Traces::Java,
        millrace_config::Traces::Python => Traces::Python,
        millrace_config::Traces::Go => Traces::Go,
        millrace_config::Traces::NodeJs => Traces::NodeJs,
        millrace_config::Traces::Rust => Traces::Rust,
    }
}

fn encoding(of: millrace_config::Encoding) -> Encoding {
    match of {
        millrace_config::Encoding::Utf8 => Encoding::Utf8,
        millrace_config::Encoding::Utf16Le => Encoding::Utf16Le,
        millrace_config::Encoding::Utf16Be => Encoding::Utf16Be,
        millrace_config::Encoding::Latin1 => Encoding::Latin1,
    }
}

fn globs(patterns: &[String]) -> Result<GlobSet, StartError> {
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

/// The longest directory of a pattern without a wildcard, and how many levels are below it.
fn root(pattern: &str) -> Root {
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

    /// Scenario: names as the kubelet makes them, and others. Guarantee: owner and restarts are
    /// read from the first, a rotated one's as well; nothing else is taken for a container's file.
    #[test]
    fn the_kubelets_paths_say_whose_a_file_is() {
        let folder = Path::new("/var/log/pods");
        let of = |rest: &str| container_of(folder, &folder.join(rest)).map(|of| format!("{of:?}"));
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
    /// directory without one, and goes as deep as the pattern.
    #[test]
    fn a_walk_begins_where_a_pattern_becomes_wild() {
        for (pattern, folder, levels) in [
            ("/var/log/app.log", "/var/log", 0),
            ("/var/log/*.log", "/var/log", 0),
            ("/var/*/x/*.log", "/var", 2),
            ("/var/log/**/*.log", "/var/log", LEVELS_MAX),
            ("/*.log", "/", 0),
        ] {
            assert_eq!(root(pattern), Root { folder: folder.into(), levels }, "{pattern}");
        }
    }
}
