//! Patterns of files: the namespaces whose containers they select, and the files of nodes.

use std::collections::BTreeSet;

use super::{BELOW, NAMESPACES_MAX, PATTERN_BYTES_MAX, PATTERNS_MAX};
use crate::account::Fate;

/// The kubelet's folder of containers' files: `NAMESPACE_POD_UID/CONTAINER/N.log`.
const PODS: &str = "/var/log/pods/";
/// The kubelet's folder of links to them: `POD_NAMESPACE_CONTAINER-ID.log`.
const LINKS: &str = "/var/log/containers/";
/// Maximum length of a namespace's name.
const NAME_BYTES_MAX: usize = 63;
/// Endings of files that rotation has compressed.
const COMPRESSED: [&str; 3] = [".gz", ".tmp", ".zip"];

const BY_ANNOTATION: &str = "exclude a pod by its annotation millrace.dev/logs: \"off\", a single \
                             container by the annotation with its name appended";

/// Returns whether a pattern selects containers' files.
pub(super) fn is_of_pods(pattern: &str) -> bool {
    pattern.starts_with(PODS) || pattern.starts_with(LINKS)
}

/// The namespaces that patterns of containers' files select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodNamespaces {
    /// Whether any pattern includes files.
    pub(super) is_included: bool,
    /// Whether all namespaces are included.
    all: bool,
    included: BTreeSet<String>,
    pub(super) excluded: BTreeSet<String>,
}

/// The meaning of one pattern: a namespace, or all of them; and whether it is narrower than that.
struct Meaning {
    namespace: Option<String>,
    is_narrower: bool,
}

impl PodNamespaces {
    /// Returns the namespaces to read; empty for all.
    pub(super) fn namespaces(&self) -> Vec<String> {
        let named = self.included.iter().take(NAMESPACES_MAX).cloned();
        if self.all { Vec::new() } else { named.collect() }
    }

    pub(super) fn include_pattern(&mut self, pattern: &str, to: &str) -> Fate {
        self.is_included = true;
        let Meaning { namespace, is_narrower } = pattern_meaning(pattern);
        let to = match namespace {
            None => {
                self.all = true;
                to.to_owned()
            }
            Some(_) if self.all => to.to_owned(),
            Some(_) if self.included.len() == NAMESPACES_MAX => {
                return Fate::unsupported(
                    "write a namespaceSelector: at most 64 namespaces can be listed",
                );
            }
            Some(namespace) => {
                self.included.insert(namespace);
                to.to_owned()
            }
        };
        let but = is_narrower
            .then(|| format!("the complete namespace is read, or all namespaces; {BY_ANNOTATION}"));
        Fate::Carried { to, but }
    }

    pub(super) fn exclude_pattern(&mut self, pattern: &str, to: &str) -> Fate {
        let Meaning { namespace, is_narrower } = pattern_meaning(pattern);
        if COMPRESSED.iter().any(|ending| pattern.ends_with(ending)) {
            return Fate::not_needed("files compressed by rotation are recognized");
        }
        if !self.is_included {
            return Fate::not_needed("no containers' files are included");
        }
        match namespace.filter(|_| !is_narrower && self.excluded.len() < NAMESPACES_MAX) {
            Some(namespace) => {
                self.excluded.insert(namespace);
                Fate::carried(format!("{to}.excludeNamespaces"))
            }
            None => Fate::unsupported(BY_ANNOTATION),
        }
    }
}

fn pattern_meaning(pattern: &str) -> Meaning {
    // All of containers' files have this ending.
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

/// The files that other patterns select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeFiles {
    pub(super) include: Vec<String>,
    pub(super) exclude: Vec<String>,
}

impl NodeFiles {
    pub(super) fn add_pattern(&mut self, add_pattern: &str, is_include: bool, to: &str) -> Fate {
        if !is_include && self.include.is_empty() {
            return Fate::not_needed("no such file is included");
        }
        let list = if is_include { &mut self.include } else { &mut self.exclude };
        if !add_pattern.starts_with(BELOW) || add_pattern.contains("/../") {
            return match is_include {
                true => Fate::unsupported(
                    "only /var/log of a node is mounted: write the file below it, or keep a \
                     Collector",
                ),
                false => Fate::not_needed("nothing outside /var/log is read"),
            };
        }
        if add_pattern.contains(['{', '[', '\\']) {
            return Fate::unsupported(
                "patterns support *, ? and **: write one for each alternative",
            );
        }
        if list.len() == PATTERNS_MAX || add_pattern.len() > PATTERN_BYTES_MAX {
            return Fate::unsupported(
                "at most 16 patterns of 255 characters: combine some with * or **",
            );
        }
        list.push(add_pattern.to_owned());
        Fate::carried(to)
    }
}

#[cfg(test)]
mod tests {
    use super::{Fate, PodNamespaces};

    fn read(includes: &[&str], excludes: &[&str]) -> (Vec<String>, Vec<String>, Vec<Fate>) {
        let mut pods = PodNamespaces::default();
        let mut fates: Vec<_> = includes.iter().map(|one| pods.include_pattern(one, "c")).collect();
        fates.extend(excludes.iter().map(|one| pods.exclude_pattern(one, "c")));
        (pods.namespaces(), pods.excluded.into_iter().collect(), fates)
    }

    /// Scenario: patterns of complete namespaces, in the kubelet's folder and in that of links.
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
    /// remark; an excluded container is reported as unsupported, with the annotation that excludes
    /// it.
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
