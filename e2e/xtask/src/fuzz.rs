//! `xtask fuzz`: builds the fuzz targets with coverage counters, runs them, keeps the corpus small.
//!
//! Works with stable Rust: libFuzzer needs nothing but the compiler's own coverage pass. One target
//! runs at a time, on one core. Prints one line of JSON for each. What it finds, and what it has
//! learned beyond the committed corpus, is under `fuzz/` in cargo's target folder.

mod corpus;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::fuzz::corpus::files;
use crate::{build, say, shell};

/// The targets' own workspace, and the committed corpus.
const WORKSPACE: &str = "e2e/fuzz/libfuzzer";
const CORPUS: &str = "e2e/fuzz/corpus";

/// The coverage pass and what libFuzzer reads of it; then what cargo-fuzz sets too: no branches
/// folded away, and the name by which crates may know that they are fuzzed.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "--cfg=fuzzing",
    "--check-cfg=cfg(fuzzing)",
];

/// Crates of others whose branches are worth finding: the parsers that ours stand on. Coverage in
/// everything else, the reference library above all, costs time at each execution and leads to
/// inputs that say nothing about the product.
const COVERED: &[&str] = &[
    "base64",
    "flate2",
    "miniz_oxide",
    "regex_lite",
    "serde_norway",
    "unsafe_libyaml_norway",
    "zlib_rs",
];

/// Says to a process that cargo runs it in the compiler's place.
const WRAPS: &str = "MILLRACE_FUZZ_WRAPS_RUSTC";

/// An input that takes longer is a finding: a second is the rule, the rest is room for a busy
/// machine.
const TIMEOUT_SECONDS: u32 = 5;
/// So is one that makes the process larger than this.
const RSS_MIB: u32 = 512;
/// The most a target's committed corpus may take.
const CORPUS_BYTES_MAX: u64 = 100 * 1000;

/// What the names of inputs that once broke a rule begin with.
const REGRESSION: &str = "regression-";

/// What to fuzz, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// One target; all of them if none is named.
    #[arg(long)]
    target: Option<String>,
    /// Executions of each target.
    #[arg(long, default_value_t = 100_000)]
    runs: u64,
    /// Replace the committed corpus by the smallest set of inputs that reaches as much.
    #[arg(long)]
    minimise: bool,
    /// Add this input to the committed corpus of --target, as a regression, and run nothing.
    #[arg(long, requires = "target", conflicts_with = "minimise", value_name = "FILE")]
    keep: Option<PathBuf>,
}

/// A target as the seeds' writer lists it.
struct Target {
    name: String,
    max_bytes: u64,
}

/// The folders of a target.
struct Folders {
    /// The committed corpus, unpacked.
    committed: PathBuf,
    /// The committed corpus.
    archive: PathBuf,
    seeds: PathBuf,
    learned: PathBuf,
    findings: PathBuf,
    /// A line for each run so far, of any target.
    runs: PathBuf,
}

/// Fuzzes one target, or all.
pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { target, runs, minimise, keep } = options;
    let folder = build::target().join("fuzz");
    let mut targets = seeds(&folder.join("seeds"))?;
    if let Some(name) = target {
        let names: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
        targets.retain(|target| target.name == *name);
        if targets.is_empty() {
            bail!("there is no target {name}: write one of {}", names.join(", "));
        }
    }
    if let Some(input) = keep {
        return targets
            .iter()
            .try_for_each(|target| Folders::make(&folder, &target.name)?.keep(input));
    }
    let binaries = compile(&folder, target.as_deref())?;
    let mut found = Vec::new();
    for target in &targets {
        let folders = Folders::make(&folder, &target.name)?;
        let binary = binaries.join(&target.name);
        if !fuzz(target, &binary, &folders, *runs)? {
            found.push(target.name.clone());
        } else if *minimise {
            folders.minimise(target, &binary)?;
        }
    }
    if !found.is_empty() {
        let findings = folder.join("findings");
        bail!("findings in {}: see {}", found.join(", "), findings.display());
    }
    Ok(())
}

/// Writes the seeds, and learns the list of targets by it.
fn seeds(folder: &Path) -> Result<Vec<Target>> {
    say::step("valid inputs to begin from");
    let folder = folder.to_string_lossy();
    let args = ["run", "--quiet", "--locked", "-p", "millrace-fuzz", "--example", "seeds", "--"];
    let listed = shell::output("cargo", &[&args[..], &[&*folder]].concat())?;
    let target = |line: &str| {
        let line: Value = serde_json::from_str(line).context("a line that isn't JSON")?;
        let name = line["target"].as_str().context("a target without a name")?.to_owned();
        let max_bytes = line["max_bytes"].as_u64().context("a target without a length")?;
        Ok(Target { name, max_bytes })
    };
    listed.lines().map(target).collect()
}

/// If cargo runs this process in the compiler's place: runs the compiler, with the coverage pass
/// only for our crates and for those listed.
pub(crate) fn as_compiler() -> Option<ExitCode> {
    env::var_os(WRAPS)?;
    let mut args = env::args_os().skip(1);
    let compiler = args.next()?;
    let mut args: Vec<OsString> = args.collect();
    let name = args.iter().skip_while(|arg| *arg != "--crate-name").nth(1);
    let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let unwanted: &[&str] = match &*name {
        // Its branches are rules to reach, its comparisons say nothing about the product.
        "millrace_fuzz" => &["sanitizer-coverage-trace-compares"],
        ours if ours.starts_with("millrace_") || COVERED.contains(&ours) => &[],
        _ => &["sanitizer-coverage", "sancov-module"],
    };
    args.retain(|arg| {
        let arg = arg.to_string_lossy();
        !unwanted.iter().any(|each| arg.contains(each))
    });
    let status = Command::new(compiler).args(args).env_remove(WRAPS).status();
    let code = status.ok().and_then(|status| status.code()).and_then(|code| code.try_into().ok());
    Some(ExitCode::from(code.unwrap_or(1)))
}

/// Builds targets; the folder they are in.
fn compile(folder: &Path, target: Option<&str>) -> Result<PathBuf> {
    let version = shell::output("rustc", &["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not say what it builds for")?;
    let manifest = format!("{WORKSPACE}/Cargo.toml");
    // Naming the host keeps the counters out of build scripts and macros.
    let mut args = vec!["build", "--release", "--locked", "--manifest-path", &manifest];
    args.extend(["--target", host]);
    match target {
        Some(name) => args.extend(["--bin", name]),
        None => args.push("--bins"),
    }
    say::step(&format!("cargo {}", args.join(" ")));
    let mut command = shell::command("cargo", &args);
    command.env("CARGO_TARGET_DIR", folder).env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"));
    command.env("RUSTC_WRAPPER", env::current_exe()?).env(WRAPS, "1");
    shell::run_command(&mut command)?;
    Ok(folder.join(host).join("release"))
}

impl Folders {
    fn make(folder: &Path, name: &str) -> Result<Self> {
        let folders = Self {
            committed: folder.join("committed").join(name),
            archive: shell::root().join(CORPUS).join(format!("{name}.tar")),
            seeds: folder.join("seeds").join(name),
            learned: folder.join("learned").join(name),
            findings: folder.join("findings").join(name),
            runs: folder.join("runs.jsonl"),
        };
        for made in [&folders.learned, &folders.findings] {
            fs::create_dir_all(made).with_context(|| format!("cannot make {}", made.display()))?;
        }
        corpus::unpack(&folders.archive, &folders.committed)?;
        Ok(folders)
    }

    /// Where inputs come from; the first also takes what is new.
    fn corpora(&self) -> [&Path; 3] {
        [&self.learned, &self.committed, &self.seeds]
    }

    /// Adds an input to the committed corpus, under a name that stays.
    fn keep(&self, input: &Path) -> Result<()> {
        let name = input.file_name().context("--keep needs a file")?.to_string_lossy();
        let name = format!("{REGRESSION}{}", name.trim_start_matches(REGRESSION));
        fs::copy(input, self.committed.join(&name))
            .with_context(|| format!("cannot copy {}", input.display()))?;
        corpus::pack(&self.committed, &self.archive)?;
        say::step(&format!("{name} is in {}", self.archive.display()));
        Ok(())
    }

    /// Replaces the committed corpus.
    fn minimise(&self, target: &Target, binary: &Path) -> Result<()> {
        let fresh = self.learned.with_file_name(format!("{}.fresh", target.name));
        if fresh.exists() {
            fs::remove_dir_all(&fresh)?;
        }
        fs::create_dir_all(&fresh)?;
        let mut command = Command::new(binary);
        command.args(["-merge=1", &format!("-max_len={}", target.max_bytes)]);
        command.arg(&fresh).args(self.corpora()).stdout(Stdio::null()).stderr(Stdio::null());
        shell::run_command(&mut command)?;
        let mut inputs = files(&fresh)?;
        // Small inputs first: they stay if not all can.
        inputs.sort_by_key(|(path, bytes)| (*bytes, path.clone()));
        // Regressions, which have names of their own, stay whatever happens.
        for (path, _) in files(&self.committed)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !name.starts_with(REGRESSION) {
                fs::remove_file(path)?;
            }
        }
        let mut kept = 0;
        for (path, bytes) in inputs {
            kept += bytes;
            if kept <= CORPUS_BYTES_MAX {
                fs::copy(&path, self.committed.join(path.file_name().unwrap_or_default()))?;
            }
        }
        corpus::pack(&self.committed, &self.archive)
    }
}

/// Runs a target. False if it found something.
fn fuzz(target: &Target, binary: &Path, folders: &Folders, runs: u64) -> Result<bool> {
    let Target { name, max_bytes } = target;
    say::step(&format!("{name}: {runs} executions"));
    let started = Instant::now();
    let log = folders.findings.join("log");
    let mut command = Command::new(binary);
    command
        .arg(format!("-runs={runs}"))
        .arg(format!("-max_len={max_bytes}"))
        .arg(format!("-timeout={TIMEOUT_SECONDS}"))
        .arg(format!("-rss_limit_mb={RSS_MIB}"))
        .arg(format!("-artifact_prefix={}/", folders.findings.display()))
        .arg("-print_final_stats=1")
        // Nobody else writes into its folders.
        .arg("-reload=0")
        .args(folders.corpora())
        .stderr(fs::File::create(&log).with_context(|| format!("cannot make {}", log.display()))?);
    let status = command.status().with_context(|| format!("{name} could not be started"))?;
    let seconds = started.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let figure = |label: &str| {
        let line = text.lines().rev().find_map(|line| line.strip_prefix(label))?;
        line.trim().parse::<u64>().ok()
    };
    let executions = figure("stat::number_of_executed_units:");
    let committed = files(&folders.committed)?;
    let line = json!({
        "target": name,
        "commit": commit(),
        "executions": executions,
        "seconds": seconds.round(),
        "peak_rss_mib": figure("stat::peak_rss_mb:"),
        "committed_files": committed.len(),
        "committed_bytes": committed.iter().map(|(_, bytes)| bytes).sum::<u64>(),
        "finding": !status.success(),
        "unix_seconds": SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
    });
    say::line(&line.to_string());
    note(&folders.runs, &line)?;
    if !status.success() {
        let from = text.find("panicked at").unwrap_or(text.len().saturating_sub(1500));
        let shown: Vec<&str> = text.get(from..).unwrap_or_default().lines().take(12).collect();
        say::error(&format!("{name} ended with {status}: {}", shown.join("\n")));
    }
    Ok(status.success())
}

/// What is checked out, as git abbreviates it; with a `+` if files differ from it.
fn commit() -> Option<String> {
    let args = ["describe", "--always", "--exclude=*", "--dirty=+"];
    shell::output("git", &args).ok().map(|name| name.trim().to_owned())
}

/// Adds a line to a file.
fn note(file: &Path, line: &Value) -> Result<()> {
    let opened = fs::OpenOptions::new().create(true).append(true).open(file);
    let mut opened = opened.with_context(|| format!("cannot open {}", file.display()))?;
    writeln!(opened, "{line}").with_context(|| format!("cannot write {}", file.display()))
}
