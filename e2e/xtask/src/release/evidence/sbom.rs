//! Bills of materials in CycloneDX: what cargo linked into a program, and the shared libraries that
//! its image has besides.
//!
//! Not by cargo-cyclonedx: it writes into the source's folders, one file per member of the
//! workspace, knows no features of one build, and no libraries of the image.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use millrace_stack::image::{ImageSpec, Platform, digest};
use serde_json::{Value, json};

use crate::release::plan::{self, Plan};
use crate::shell;

/// A crate as `cargo tree` names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    version: String,
    license: String,
}

impl Crate {
    fn purl(&self) -> String {
        purl(&self.name, &self.version)
    }
}

/// A crate's package URL, where a plus sign means something else.
fn purl(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

/// Crates, and which of them needs which.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tree {
    crates: BTreeSet<Crate>,
    needs: BTreeMap<String, BTreeSet<String>>,
}

/// A shared library of an image.
#[derive(Debug, Clone)]
struct Library {
    path: String,
    digest: String,
    /// Debian's package and its version, where they are known.
    owner: Option<(String, String)>,
}

/// The bill of a program built for a platform; of its image, if it is for one.
pub(crate) fn of(
    plan: &Plan,
    (crate_name, features): (&str, Option<&str>),
    platform: Platform,
    image: Option<&ImageSpec>,
) -> Result<Value> {
    let mut args = vec!["tree", "--locked", "-p", crate_name, "--target", platform.triple()];
    args.extend(["--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", "|{p}|{l}"]);
    if let Some(features) = features {
        args.extend(["--no-default-features", "--features", features]);
    }
    let tree = parse(&shell::output("cargo", &args)?)?;
    let lock = plan::read(&shell::root().join("Cargo.lock"))?;
    let checksums = checksums(&String::from_utf8_lossy(&lock));
    let libraries = image.map(|it| libraries(it, platform)).transpose()?.unwrap_or_default();
    Ok(document(crate_name, plan.version, &tree, &checksums, &libraries))
}

/// Reads lines such as `1|serde v1.0.0|MIT`; what follows the version is where it comes from.
fn parse(text: &str) -> Result<Tree> {
    let mut tree = Tree::default();
    let mut path: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let mut parts = line.splitn(3, '|');
        let depth = parts.next().and_then(|depth| depth.parse::<usize>().ok());
        let mut package = parts.next().unwrap_or_default().split(' ');
        let (Some(depth), Some(name), Some(version)) =
            (depth, package.next(), package.next().and_then(|it| it.strip_prefix('v')))
        else {
            bail!("`cargo tree` printed {line:?}, which names no crate");
        };
        let license = parts.next().unwrap_or_default().trim_end_matches(" (*)").trim();
        let found = Crate {
            name: name.to_owned(),
            version: version.to_owned(),
            license: license.replace('/', " OR "),
        };
        let purl = found.purl();
        path.truncate(depth);
        if let Some(parent) = path.last() {
            tree.needs.entry(parent.clone()).or_default().insert(purl.clone());
        }
        path.push(purl);
        tree.crates.insert(found);
    }
    Ok(tree)
}

/// Checksums of crates in Cargo.lock, by package URL.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let field = |block: &str, name: &str| {
        let start = format!("{name} = \"");
        let line = block.lines().find_map(|line| line.strip_prefix(start.as_str()))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let blocks = lock.split("[[package]]");
    blocks
        .filter_map(|block| {
            let (name, version) = (field(block, "name")?, field(block, "version")?);
            Some((purl(&name, &version), field(block, "checksum")?))
        })
        .collect()
}

fn libraries(image: &ImageSpec, platform: Platform) -> Result<Vec<Library>> {
    let mut found = Vec::new();
    for (place, file) in image.libraries()? {
        let owner = match Some(platform) == Platform::host() {
            true => owner_here(&file),
            false => owner_unpacked(&place, &file),
        };
        let digest = digest(&plan::read(&file)?);
        found.push(Library { path: place.display().to_string(), digest, owner });
    }
    Ok(found)
}

/// Of an installed file; none where dpkg knows none.
fn owner_here(file: &Path) -> Option<(String, String)> {
    // Packages own `/lib/x` under `/usr/lib/x` or the other way round, where one is a link.
    let real = file.canonicalize().ok()?;
    let short = real.strip_prefix("/usr").ok().map(|rest| Path::new("/").join(rest));
    let package = [Some(real.clone()), short].into_iter().flatten().find_map(|path| {
        let output = Command::new("dpkg-query").arg("--search").arg(path).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.split(':').next().filter(|name| !name.is_empty()).map(str::to_owned)
    })?;
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat", "${Version} "])
        .arg(&package)
        .output()
        .ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    let version = version.split(' ').next()?.to_owned();
    Some((package, version))
}

/// Of a file of packages that the stack unpacked, which keeps who owns what.
fn owner_unpacked(place: &Path, file: &Path) -> Option<(String, String)> {
    let depth = place.components().count() - 1;
    let owners = std::fs::read_to_string(file.ancestors().nth(depth)?.join("OWNERS")).ok()?;
    let place = place.to_str()?;
    owners.lines().find_map(|line| {
        let mut parts = line.split('\t');
        let path = parts.next()?;
        (path == place).then_some(())?;
        Some((parts.next()?.to_owned(), parts.next()?.to_owned()))
    })
}

fn document(
    name: &str,
    version: &str,
    tree: &Tree,
    checksums: &BTreeMap<String, String>,
    libraries: &[Library],
) -> Value {
    let root = purl(name, version);
    let crates = tree.crates.iter().filter(|it| it.purl() != root).map(|it| {
        let purl = it.purl();
        let mut component = json!({
            "type": "library", "bom-ref": purl, "name": it.name, "version": it.version,
            "purl": purl,
        });
        if !it.license.is_empty() {
            component["licenses"] = json!([{"expression": it.license}]);
        }
        if let Some(checksum) = checksums.get(&purl) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        component
    });
    let shared = libraries.iter().map(|it| {
        let hash = it.digest.trim_start_matches("sha256:");
        let mut component = json!({
            "type": "library", "bom-ref": format!("file:{}", it.path), "name": it.path,
            "hashes": [{"alg": "SHA-256", "content": hash}],
        });
        if let Some((package, version)) = &it.owner {
            let escaped = version.replace('+', "%2B").replace(':', "%3A");
            component["version"] = json!(version);
            component["purl"] = json!(format!("pkg:deb/debian/{package}@{escaped}"));
        }
        component
    });
    let components: Vec<Value> = crates.chain(shared).collect();
    let mut needs: Vec<Value> = Vec::new();
    for it in &tree.crates {
        let purl = it.purl();
        let mut on: BTreeSet<String> = tree.needs.get(&purl).cloned().unwrap_or_default();
        if purl == root {
            on.extend(libraries.iter().map(|it| format!("file:{}", it.path)));
        }
        needs.push(json!({"ref": purl, "dependsOn": on}));
    }
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {
            "type": "application", "bom-ref": root, "name": name, "version": version, "purl": root,
            "licenses": [{"expression": "Apache-2.0"}],
        }},
        "components": components,
        "dependencies": needs,
    })
}

/// Writes a bill.
pub(crate) fn write(path: &Path, bill: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(bill).context("a bill is no JSON")?;
    plan::write(path, format!("{text}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{Library, checksums, document, parse};

    const TREE: &str = "0|app v0.1.0 (/a b/app)|Apache-2.0\n1|serde v1.0.0|MIT/Apache-2.0\n\
                        2|core v2.0.0|MIT\n1|core v2.0.0|MIT (*)\n";

    /// Scenario: a tree of three crates, and a lock file. Guarantee: each is a component once, with
    /// its licence and checksum; edges are those of the tree; libraries belong to the program.
    #[test]
    fn a_bill_names_crates_and_libraries_once() {
        let lock = "[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n";
        let library = Library {
            path: "/lib/libz.so.1".into(),
            digest: "sha256:cd".into(),
            owner: Some(("zlib1g".into(), "1:1.2".into())),
        };
        let bill = document("app", "0.1.0", &parse(TREE).unwrap(), &checksums(lock), &[library]);
        let names: Vec<_> =
            bill["components"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
        assert_eq!(names, ["core", "serde", "/lib/libz.so.1"]);
        assert_eq!(bill["components"][1]["hashes"][0]["content"], "ab");
        assert_eq!(bill["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["components"][2]["purl"], "pkg:deb/debian/zlib1g@1%3A1.2");
        let app = &bill["dependencies"][0];
        assert_eq!(app["ref"], "pkg:cargo/app@0.1.0");
        let on = ["file:/lib/libz.so.1", "pkg:cargo/core@2.0.0", "pkg:cargo/serde@1.0.0"];
        assert_eq!(app["dependsOn"], serde_json::json!(on));
    }

    /// Scenario: what is no tree. Guarantee: it is refused, not left out.
    #[test]
    fn a_line_that_names_no_crate_is_refused() {
        assert!(parse("0|app\n").is_err());
    }
}
