//! Where a release comes from, as SLSA's provenance (v1) says it: source, lock file, compilers, the
//! C libraries that images copy. It has no time and no machine in it, so two builds of one commit
//! with the same tools say the same.

use std::collections::BTreeMap;

use anyhow::Result;
use millrace_stack::image::{Platform, digest};
use serde_json::{Value, json};

use crate::release::parts::images::Image;
use crate::release::plan::{self, Plan};
use crate::shell;

/// What a predicate's `buildType` leads to: docs/internals/releasing.md says what its parameters mean.
const BUILD_TYPE: &str = "https://millrace.dev/release/v1";
/// Whoever runs `make release`: no service vouches for it.
const BUILDER: &str = "https://millrace.dev/release/make";
const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// The type of [`predicate`].
const PREDICATE: &str = "https://slsa.dev/provenance/v1";

/// What was built, of what, with what.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    version: String,
    commit: String,
    dirty: bool,
    platforms: Vec<String>,
    /// Of Cargo.lock.
    lock: String,
    compilers: BTreeMap<String, String>,
    /// Digests of shared libraries, by the package URL or path that names each.
    libraries: BTreeMap<String, String>,
}

impl Sources {
    pub(crate) fn of(plan: &Plan, images: &[Image]) -> Result<Self> {
        let first = |program: &str, args: &[&str]| {
            let text = shell::output(program, args)?;
            Ok::<_, anyhow::Error>(text.lines().next().unwrap_or_default().to_owned())
        };
        let host = Platform::host();
        let cross = plan.platforms.iter().filter(|it| Some(**it) != host);
        let cross = cross.map(|it| format!("{}-gcc", it.multiarch()));
        let compilers = ["rustc", "cargo", "cc"].map(str::to_owned).into_iter().chain(cross);
        let compilers = compilers
            .map(|name| Ok((name.clone(), first(&name, &["--version"])?)))
            .collect::<Result<_>>()?;
        let mut libraries = BTreeMap::new();
        for (_, spec) in images.iter().flat_map(|image| &image.specs) {
            for (place, file) in spec.libraries()? {
                let found = digest(&plan::read(&file)?);
                libraries.insert(format!("{}#{found}", place.display()), found);
            }
        }
        Ok(Self {
            version: plan.version.to_owned(),
            commit: plan.commit.clone(),
            dirty: plan.dirty,
            platforms: plan.platforms.iter().map(|it| it.architecture().to_owned()).collect(),
            lock: digest(&plan::read(&shell::root().join("Cargo.lock"))?),
            compilers,
            libraries,
        })
    }

    /// What an attestation of an image or a file says.
    pub(crate) fn predicate(&self) -> Value {
        let hex = |digest: &str| digest.trim_start_matches("sha256:").to_owned();
        let lock = json!({"name": "Cargo.lock", "digest": {"sha256": hex(&self.lock)}});
        let source = json!({
            "uri": "git+https://millrace.dev/millrace",
            "digest": {"gitCommit": self.commit},
            "annotations": {"uncommittedChanges": self.dirty},
        });
        let compilers = self
            .compilers
            .iter()
            .map(|(name, version)| json!({"name": name, "annotations": {"version": version}}));
        let libraries = self.libraries.iter().map(|(name, digest)| {
            json!({"name": name.split('#').next(), "digest": {"sha256": hex(digest)}})
        });
        let materials: Vec<Value> =
            [source, lock].into_iter().chain(compilers).chain(libraries).collect();
        json!({
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"version": self.version, "platforms": self.platforms},
                "resolvedDependencies": materials,
            },
            "runDetails": {"builder": {"id": BUILDER}},
        })
    }

    /// The statement about files, by name with `sha256:...`.
    pub(crate) fn statement(&self, files: &BTreeMap<String, String>) -> Value {
        let subjects: Vec<Value> = files
            .iter()
            .map(|(name, digest)| {
                json!({"name": name, "digest": {"sha256": digest.trim_start_matches("sha256:")}})
            })
            .collect();
        json!({
            "_type": STATEMENT,
            "subject": subjects,
            "predicateType": PREDICATE,
            "predicate": self.predicate(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, Sources};

    /// Scenario: a statement of two files. Guarantee: both are subjects with plain digests; commit,
    /// lock file and libraries are what it was built of; and nothing says when.
    #[test]
    fn a_statement_names_its_files_and_what_they_are_built_of() {
        let sources = Sources {
            version: "0.1.0".into(),
            commit: "c0ffee".into(),
            dirty: false,
            platforms: vec!["amd64".into()],
            lock: "sha256:0a".into(),
            compilers: [("rustc".into(), "rustc 1.0".into())].into(),
            libraries: [("/lib/libz.so.1#sha256:0b".into(), "sha256:0b".into())].into(),
        };
        let files =
            BTreeMap::from([("a".into(), "sha256:01".into()), ("b".into(), "sha256:02".into())]);
        let statement = sources.statement(&files);
        assert_eq!(statement["subject"][1]["digest"]["sha256"], "02");
        let of = &statement["predicate"]["buildDefinition"]["resolvedDependencies"];
        assert_eq!(of[0]["digest"]["gitCommit"], "c0ffee");
        assert_eq!(of[1]["digest"]["sha256"], "0a");
        assert_eq!(of[3]["name"], "/lib/libz.so.1");
        assert!(!statement.to_string().contains("startedOn"));
    }
}
