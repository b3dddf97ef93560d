//! What there is in the tree to be named by commands.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Kubernetes' own kinds that pages name.
const KUBERNETES: [&str; 13] = [
    "configmap",
    "crd",
    "daemonset",
    "deployment",
    "events",
    "lease",
    "namespace",
    "node",
    "pod",
    "secret",
    "service",
    "statefulset",
    "svc",
];

pub(crate) struct Tree {
    root: PathBuf,
    pub(crate) makefile: String,
    /// Folders by the names of the crates in them.
    pub(crate) crates: BTreeMap<String, PathBuf>,
    /// All Rust sources, in one text.
    sources: String,
    /// Schemas of our kinds, by each word that kubectl knows a kind by.
    kinds: BTreeMap<String, Value>,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let makefile = fs::read_to_string(root.join("Makefile")).unwrap();
        let workspace = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        let (_, members) = workspace.split_once("members = [").unwrap();
        let (members, _) = members.split_once(']').unwrap();
        let mut crates = BTreeMap::new();
        let mut sources = String::new();
        for member in members.split('"').skip(1).step_by(2) {
            let folder = root.join(member);
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")).unwrap();
            for part in ["src", "tests"] {
                for (_, text) in rust(&folder.join(part)) {
                    sources.push_str(&text);
                }
            }
            crates.insert(name.trim_end_matches('"').to_owned(), folder);
        }
        let mut kinds = BTreeMap::new();
        for crd in millrace_crds::all_definitions().unwrap() {
            let schema = crd.spec.versions[0].schema.clone().unwrap().open_api_v3_schema;
            let schema = serde_json::to_value(schema).unwrap();
            let names = crd.spec.names;
            let words = [Some(names.plural), names.singular, Some(names.kind.to_lowercase())];
            let words = words.into_iter().flatten().chain(names.short_names.into_iter().flatten());
            kinds.extend(words.map(|word| (word, schema.clone())));
        }
        Self { root, makefile, crates, sources, kinds }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }

    /// Whether some source has the text between quotes.
    pub(crate) fn quotes(&self, text: &str) -> bool {
        self.sources.contains(&format!("\"{text}\""))
    }

    /// The schema of one of our kinds, by any of its names.
    pub(crate) fn schema(&self, kind: &str) -> Option<&Value> {
        self.kinds.get(kind)
    }

    /// Whether kubectl would know a kind; `millrace` is the category of ours.
    pub(crate) fn has_kind(&self, kind: &str) -> bool {
        let singular = kind.strip_suffix('s').unwrap_or(kind);
        kind == "millrace"
            || self.kinds.contains_key(kind)
            || KUBERNETES.iter().any(|known| *known == kind || *known == singular)
    }

    /// Full names of a crate's tests.
    pub(crate) fn tests(&self, folder: &Path) -> Vec<String> {
        let files = [rust(&folder.join("src")), rust(&folder.join("tests"))].concat();
        let mut names = Vec::new();
        for (path, text) in files {
            let path = path.strip_prefix(folder).unwrap().with_extension("");
            let module = path.to_string_lossy().replace('/', "::");
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                is_test |=
                    line.starts_with("#[") && ["test]", "test("].iter().any(|it| line.contains(it));
                if let Some((_, named)) = line.split_once("fn ").filter(|_| is_test) {
                    let name = named.split(['(', '<']).next().unwrap_or_default();
                    names.push(format!("{module}::{name}"));
                    is_test = false;
                }
            }
        }
        names
    }
}

/// Rust files of a folder and all below, with their text.
fn rust(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rust(&path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}
