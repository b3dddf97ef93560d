//! Release binaries and the images made of them. What is tested is what is shipped: the same
//! binaries, in archives of the layout that the Dockerfiles build.

pub(crate) mod commit;
pub(crate) mod flags;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use millrace_stack::Stack;
use millrace_stack::image::{ImageName, ImageSpec};

use crate::build::flags::Folders;
use crate::say;
use crate::shell::{self, run_command};

/// The collectors' default. It is built last, so that it stays in the release folder, where every
/// test takes its collector from.
const DEFAULT_ALLOCATOR: &str = "system";
/// One image tag each.
const ALLOCATORS: [&str; 3] = ["mimalloc", "jemalloc", DEFAULT_ALLOCATOR];

/// Which collectors are built: each takes a link of the whole program more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Collectors {
    /// The one with the default allocator.
    #[default]
    Default,
    /// That one, and one to change to: what the cluster's tests roll out.
    Tested,
    /// One for each allocator.
    All,
}

impl Collectors {
    /// Their allocators, the default last.
    pub(crate) const fn allocators(self) -> &'static [&'static str] {
        match self {
            Self::Default => &[DEFAULT_ALLOCATOR],
            Self::Tested => &["mimalloc", DEFAULT_ALLOCATOR],
            Self::All => &ALLOCATORS,
        }
    }
}

/// The version of everything in this workspace.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// An archive on disk and the name it is imported under.
#[derive(Debug)]
pub(crate) struct Archive {
    name: String,
    path: PathBuf,
    digest: String,
}

/// What an import into the cluster changed.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// The digest of the operator's image.
    pub(crate) operator_digest: String,
    /// Whether a collector's tag means another image than before.
    pub(crate) collectors_changed: bool,
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    let set = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    set.unwrap_or_else(|| shell::root().join("target"))
}

/// Where a release binary is.
pub(crate) fn release(name: &str) -> PathBuf {
    Profile::Release.program(name)
}

/// How programs are compiled: cargo's profile, and what it is called in the target folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Profile {
    /// With the tests that run them.
    Tests,
    /// What is shipped.
    Release,
    /// What shows that records arrive, sooner.
    Demo,
}

impl Profile {
    const fn name(self) -> &'static str {
        match self {
            Self::Tests => "debug",
            Self::Release => "release",
            Self::Demo => "demo",
        }
    }

    fn program(self, name: &str) -> PathBuf {
        target().join(self.name()).join(name)
    }

    /// Where what is made of the programs is put.
    fn folder(self) -> PathBuf {
        match self {
            Self::Release => target(),
            Self::Tests | Self::Demo => target().join(self.name()),
        }
    }

    /// Where the collector with an allocator is kept: the next one's build replaces the program.
    fn kept(self, allocator: &str) -> PathBuf {
        self.folder().join("dist").join(allocator)
    }

    fn build(self, select: &[&str]) -> Result<()> {
        let mut args = vec!["build", "--profile", self.name(), "--locked"];
        args.extend(select);
        run_cargo(&args)
    }

    fn keep(self, allocator: &str) -> Result<()> {
        let built = self.program("millrace-collector");
        let kept = self.kept(allocator);
        fs::create_dir_all(&kept).with_context(|| format!("cannot make {}", kept.display()))?;
        fs::copy(&built, kept.join("millrace-collector"))
            .with_context(|| format!("cannot copy {}", built.display()))?;
        Ok(())
    }

    /// An archive of the operator's image, and of each collector's that was kept.
    fn images(self, which: Collectors) -> Result<Vec<Archive>> {
        let folder = self.folder().join("images");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let collectors = which.allocators().iter();
        let collectors = collectors
            .map(|of| (*of, self.kept(of).join("millrace-collector")))
            .collect::<Vec<_>>();
        archives(&folder, VERSION, &self.program("millrace-operator"), &collectors)
    }
}

/// Release binaries of the product and its tools.
pub(crate) fn binaries(which: Collectors) -> Result<()> {
    cargo_build(&[
        "-p",
        "millrace-operator",
        "-p",
        "millrace-plugin",
        "-p",
        "millrace-ddl",
        "-p",
        "millrace-loadgen",
    ])?;
    collectors(which)
}

/// The images of the programs that are compiled with the tests, which must have been compiled. The
/// second collector is an allocator more: another link of the same crates.
pub(crate) fn tested_images() -> Result<()> {
    for allocator in Collectors::Tested.allocators() {
        let feature = format!("millrace-collector/{allocator}");
        // Everything is selected, though only the collector differs: what is shared has the same
        // features then and is not compiled again.
        let select = ["--workspace", "--tests", "--bins", "--no-default-features"];
        let args = [&["build", "--locked"], &select[..], &["--features", &feature]].concat();
        run_command(&mut shell::command("cargo", &args))?;
        Profile::Tests.keep(allocator)?;
    }
    archives_of_tests().map(drop)
}

/// The images that [`tested_images`] made.
pub(crate) fn archives_of_tests() -> Result<Vec<Archive>> {
    Profile::Tests.images(Collectors::Tested)
}

/// A program that is compiled with the tests.
pub(crate) fn tested(name: &str) -> PathBuf {
    Profile::Tests.program(name)
}

/// What a benchmark runs: the harness, its tools, and the collector once for each allocator.
pub(crate) fn benchmarks() -> Result<()> {
    cargo_build(&["-p", "millrace-bench", "-p", "millrace-ddl", "-p", "millrace-loadgen"])?;
    cargo_build(&["-p", "millrace-columns", "--example", "columns-bench"])?;
    collectors(Collectors::All)
}

/// `kubectl millrace` alone.
pub(crate) fn plugin() -> Result<()> {
    cargo_build(&["-p", "millrace-plugin"])
}

/// What the operator's benchmark runs: the harness and the operator.
pub(crate) fn operator_bench() -> Result<()> {
    cargo_build(&["-p", "millrace-operator", "-p", "millrace-operator-bench"])
}

fn collectors(which: Collectors) -> Result<()> {
    for allocator in which.allocators() {
        collector(allocator)?;
        Profile::Release.keep(allocator)?;
    }
    Ok(())
}

fn collector(allocator: &str) -> Result<()> {
    cargo_build(&["-p", "millrace-collector", "--no-default-features", "--features", allocator])
}

fn cargo_build(select: &[&str]) -> Result<()> {
    Profile::Release.build(select)
}

fn run_cargo(args: &[&str]) -> Result<()> {
    say::step(&format!("cargo {}", args.join(" ")));
    let mut command = shell::command("cargo", args);
    Folders::new(&target()).apply(&mut command);
    shell::run_command(&mut command)
}

/// Whether binaries are built, or taken as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binaries {
    /// Built from the tree as it is now.
    Built,
    /// Those of an earlier build.
    AsTheyAre,
}

/// An OCI archive of each image in `target/images`; before that their binaries, and the load
/// generator, which what runs them needs.
pub(crate) fn images(from: Binaries, which: Collectors) -> Result<Vec<Archive>> {
    if from == Binaries::Built {
        cargo_build(&["-p", "millrace-operator", "-p", "millrace-loadgen"])?;
        collectors(which)?;
    }
    Profile::Release.images(which)
}

/// What `make demo` runs.
pub(crate) struct Shown {
    pub(crate) images: Vec<Archive>,
    pub(crate) load_generator: PathBuf,
}

/// The same for `make demo`, which compiles them in a quicker way, and all of them at once: what
/// they share has one set of features and is compiled once. Those of an earlier build are released
/// ones.
pub(crate) fn shown(from: Binaries, which: Collectors) -> Result<Shown> {
    let profile = match from {
        Binaries::Built => Profile::Demo,
        Binaries::AsTheyAre => Profile::Release,
    };
    if from == Binaries::Built {
        for allocator in which.allocators() {
            let feature = format!("millrace-collector/{allocator}");
            let programs = ["millrace-operator", "millrace-loadgen", "millrace-collector"];
            let mut select: Vec<&str> = programs.iter().flat_map(|name| ["-p", name]).collect();
            select.extend(["--no-default-features", "--features", &feature]);
            profile.build(&select)?;
            profile.keep(allocator)?;
        }
    }
    let load_generator = profile.program("millrace-loadgen");
    Ok(Shown { images: profile.images(which)?, load_generator })
}

/// The two images of an earlier commit's programs, tagged as what `version` says.
pub(crate) fn earlier(programs: &Path, version: &str) -> Result<Vec<Archive>> {
    let collectors = [(DEFAULT_ALLOCATOR, programs.join("millrace-collector"))];
    archives(programs, version, &programs.join("millrace-operator"), &collectors)
}

/// The operator's image, and one for each collector by its allocator.
fn archives(
    folder: &Path,
    version: &str,
    operator: &Path,
    collectors: &[(&str, PathBuf)],
) -> Result<Vec<Archive>> {
    let mut archives = vec![archive(folder, "operator", version, operator)?];
    for (allocator, binary) in collectors {
        archives.push(archive(folder, "collector", &format!("{version}-{allocator}"), binary)?);
    }
    Ok(archives)
}

fn archive(folder: &Path, what: &str, tag: &str, binary: &Path) -> Result<Archive> {
    let name = format!("millrace/{what}:{tag}");
    let path = folder.join(format!("{what}-{tag}.tar"));
    let spec = ImageSpec::new(ImageName::new(&name)?, binary)?.stripped();
    let built = spec.write(&path).with_context(|| format!("cannot make the image {name}"))?;
    let megabytes = built.size_bytes as f64 / 1e6;
    say::step(&format!("image {name}: {megabytes:.1} MB, {}", built.digest));
    Ok(Archive { name, path, digest: built.digest })
}

/// Put the images into the local cluster.
pub(crate) fn load(stack: &Stack, archives: Vec<Archive>) -> Result<Loaded> {
    let mut loaded = Loaded::default();
    for Archive { name, path, digest } in archives {
        let changed = stack.load_image(&path).with_context(|| format!("cannot import {name}"))?;
        if name.starts_with("millrace/operator:") {
            loaded.operator_digest = digest;
        } else {
            loaded.collectors_changed |= changed;
        }
    }
    Ok(loaded)
}
