//! Patterns of files: which namespaces' containers they mean, and which files of nodes.

use std::collections::BTreeSet;

use super::{BELOW, NAMESPACES_MAX, PATTERN_BYTES_MAX, PATTERNS_MAX};
use crate::account::Fate;

/// Where the kubelet keeps containers' files: `NAMESPACE_POD_UID/CONTAINER/N.log`.
const PODS: &str = "/var/log/pods/";
/// Where it has links to them: `POD_NAMESPACE_CONTAINER-ID.log`.
const LINKS: &str = "/var/log/containers/";
/// Longest name of a namespace.
const NAME_BYTES_MAX: usize = 63;
/// What rotation has compressed.
const COMPRESSED: [&str; 3] = [".gz", ".tmp", ".zip"];

const BY_ANNOTATION: &str = "a pod says itself that its logs are not read: the annotation \
     millrace.dev/logs: \"off\", for one container with its name behind it";

/// Whether a pattern means containers' files.
pub(super) fn is_of_pods(pattern: &str) -> bool {
    pattern.starts_with(PODS) || pattern.starts_with(LINKS)
}

/// What patterns of containers' files ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pods {
    /// Whether any is included.
    pub(super) found: bool,
    /// Whether all namespaces are.
    all: bool,
    included: BTreeSet<String>,
    pub(super) excluded: BTreeSet<String>,
}

/// What one pattern means: a namespace, or all of them; and whether it names more than that.
struct Meaning {
    namespace: Option<String>,
    is_narrower: bool,
}

impl Pods {
    /// The namespaces that are read; none for all.
    pub(super) fn namespaces(&self) -> Vec<String> {
        let named = self.included.iter().take(NAMESPACES_MAX).cloned();
        if self.all { Vec::new() } else { named.collect() }
    }

    pub(super) fn include(&mut self, pattern: &str, to: &str) -> Fate {
        self.found = true;
        let Meaning { namespace, is_narrower } = meaning(pattern);
        let to = match namespace {
            None => {
                self.all = true;
                to.to_owned()
            }
            Some(_) if self.all => to.to_owned(),
            Some(_) if self.included.len() == NAMESPACES_MAX => {
                return Fate::left("write a namespaceSelector: at most 64 namespaces are named");
            }
            Some(namespace) => {
                self.included.insert(namespace);
                to.to_owned()
            }
        };
        let but = is_narrower.then(|| {
            format!("all of the namespace is read, or of all namespaces; {BY_ANNOTATION}")
        });
        Fate::Carried { to, but }
    }

    pub(super) fn exclude(&mut self, pattern: &str, to: &str) -> Fate {
        let Meaning { namespace, is_narrower } = meaning(pattern);
        if COMPRESSED.iter().any(|ending| pattern.ends_with(ending)) {
            return Fate::not_needed("what rotation has compressed is known as such");
        }
        if !self.found {
            return Fate::not_needed("no containers' files are included");
        }
        match namespace.filter(|_| !is_narrower && self.excluded.len() < NAMESPACES_MAX) {
            Some(namespace) => {
                self.excluded.insert(namespace);
                Fate::carried(format!("{to}.excludeNamespaces"))
            }
            None => Fate::left(BY_ANNOTATION),
        }
    }
}

fn meaning(pattern: &str) -> Meaning {
    // Files of containers end so anyway.
    let is_any = |text: &str| {
        text.trim_end_matches(".log").chars().all(|one| matches!(one, '*' | '_' | '/'))
    };
    let is_name = |text: &str| {
        (1..=NAME_BYTES_MAX).contains(&text.len())
            && text.chars().all(|one| one.is_ascii_alphanumeric() || one == '-')
    };
    let (namespace, rest): (&str, Vec<&str>) = if let Some(below) = pattern.strip_prefix(LINKS) {
        let file = below.trim_end_matches(".log");
        let mut parts = file.splitn(3, '_');
        let (pod, namespace) = (parts.next().unwrap_or("*"), parts.next().unwrap_or("*"));
        (namespace, vec![pod, parts.next().unwrap_or("*").trim_end_matches("-*")])
    } else {
        let below = pattern.strip_prefix(PODS).unwrap_or_default();
        let mut parts = below.splitn(3, '/');
        let folder = parts.next().unwrap_or("*");
        let (namespace, pod) = folder.split_once('_').unwrap_or((folder, "*"));
        let container = parts.next().unwrap_or("*");
        let file = parts.next().unwrap_or("*");
        (namespace, vec![pod, container, file])
    };
    let named = is_name(namespace);
    Meaning {
        namespace: named.then(|| namespace.to_owned()),
        is_narrower: rest.into_iter().any(|part| !is_any(part)) || !(named || is_any(namespace)),
    }
}

/// What patterns of other files ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Files {
    pub(super) include: Vec<String>,
    pub(super) exclude: Vec<String>,
}

impl Files {
    pub(super) fn pattern(&mut self, pattern: &str, is_include: bool, to: &str) -> Fate {
        if !is_include && self.include.is_empty() {
            return Fate::not_needed("no such file is included");
        }
        let list = if is_include { &mut self.include } else { &mut self.exclude };
        if !pattern.starts_with(BELOW) || pattern.contains("/../") {
            return match is_include {
                true => Fate::left(
                    "only /var/log of a node is mounted: have it written below it, or keep a \
                     Collector",
                ),
                false => Fate::not_needed("nothing outside /var/log is read"),
            };
        }
        if pattern.contains(['{', '[', '\\']) {
            return Fate::left("patterns know *, ? and **: write one for each alternative");
        }
        if list.len() == PATTERNS_MAX || pattern.len() > PATTERN_BYTES_MAX {
            return Fate::left("at most 16 patterns of 255 characters: join some with * or **");
        }
        list.push(pattern.to_owned());
        Fate::carried(to)
    }
}

#[cfg(test)]
mod tests {
    use super::{Fate, Pods};

    fn read(includes: &[&str], excludes: &[&str]) -> (Vec<String>, Vec<String>, Vec<Fate>) {
        let mut pods = Pods::default();
        let mut fates: Vec<_> = includes.iter().map(|one| pods.include(one, "c")).collect();
        fates.extend(excludes.iter().map(|one| pods.exclude(one, "c")));
        (pods.namespaces(), pods.excluded.into_iter().collect(), fates)
    }

    /// Scenario: patterns of whole namespaces, in the kubelet's folder and in that of links.
    /// Guarantee: these namespaces, and no remark.
    #[test]
    fn patterns_of_namespaces_become_namespaces() {
        let all =
            ["/var/log/pods/*/*/*.log", "/var/log/pods/**/*.log", "/var/log/containers/*.log"];
        for pattern in all {
            let (names, _, fates) = read(&[pattern], &[]);
            assert_eq!((names, &fates[..]), (vec![], &[Fate::carried("c")][..]), "{pattern}");
        }
        let (names, not, fates) = read(
            &["/var/log/pods/shop_*/*/*.log", "/var/log/containers/*_billing_*.log"],
            &["/var/log/pods/kube-system_*/*/*.log"],
        );
        assert_eq!(
            (names, not),
            (vec!["billing".into(), "shop".into()], vec!["kube-system".into()])
        );
        assert!(fates.iter().all(|it| matches!(it, Fate::Carried { but: None, .. })), "{fates:?}");
    }

    /// Scenario: patterns of single pods or containers. Guarantee: the namespace is read, with a
    /// remark; an excluded container is named as left, with the annotation that does it.
    #[test]
    fn pods_and_containers_by_name_are_told() {
        let (names, _, fates) = read(&["/var/log/pods/shop_cart-*/*/*.log"], &[]);
        assert_eq!(names, ["shop"]);
        assert!(matches!(&fates[..], [Fate::Carried { but: Some(_), .. }]), "{fates:?}");
        let excluded = ["/var/log/pods/*/otel-collector/*.log", "/var/log/pods/a_b_*/*/*.log"];
        let (_, not, fates) = read(&["/var/log/pods/*/*/*.log"], &excluded);
        assert!(not.is_empty());
        assert!(fates[1..].iter().all(|it| matches!(it, Fate::Left { .. })), "{fates:?}");
    }
}
