//! Programs of another platform under QEMU, with the files of their images alone: each says the version,
//! every collector reads settings with large pages, and takes records to checked rows.
//!
//! Limits: QEMU translates one program's instructions on this machine's kernel; a real machine of the
//! platform shows more.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use millrace_stack::foreign;
use millrace_stack::image::{ImageSpec, Platform};

use super::parts::binaries::Programs;
use super::parts::images::Image;
use super::plan::{self, Plan};
use crate::{build, first_try, say, shell};

/// The largest pages that Linux has on arm64, in bytes; QEMU tells them to the program.
const PAGES: (&str, &str) = ("QEMU_PAGESIZE", "65536");
/// A processor without vectors of scalable length: QEMU 7.2 ends a program that reads the end of the
/// dynamic loader's last large page by them, as a collector with jemalloc does.
const PROCESSOR: (&str, &str) = ("QEMU_CPU", "cortex-a72");
/// Settings that a collector checks before it starts.
const SETTINGS: &str = "receivers: {otlp: {grpc: {address: 127.0.0.1:4317}}}\n\
                        exporters: {clickhouse: {endpoints: [\"http://127.0.0.1:8123\"]}}\n";
const COLLECTOR: &str = "millrace-collector";
const TABLES: &str = "clickhouse-ddl";
/// Runs on this machine: what checks isn't what is checked.
const LOAD: &str = "millrace-loadgen";

/// Runs those of every platform but this machine's.
pub(crate) fn run(
    plan: &Plan,
    programs: &[Programs],
    images: &[Image],
    scratch: &Path,
) -> Result<()> {
    for of in programs.iter().filter(|it| Some(it.platform) != Platform::host()) {
        for image in images {
            let Some((_, spec)) = image.specs.iter().find(|(it, _)| *it == of.platform) else {
                continue;
            };
            let root = scratch.join(format!("root-{}", image.file_name()));
            let emulated = Emulated::unpacked(of.platform, spec, root, image.crate_name)?;
            let is_collector = image.crate_name == COLLECTOR;
            emulated.says_its_version(plan, if is_collector { "version" } else { "--version" })?;
            if is_collector {
                emulated.reads_settings_with_large_pages()?;
                emulated.writes_rows(of)?;
            }
        }
        // In no image: with the libraries that it was linked with.
        let root = of.root.clone().unwrap_or_else(|| "/".into());
        let plugin = Emulated { platform: of.platform, root, program: of.plugin.clone() };
        plugin.says_its_version(plan, "--version")?;
    }
    Ok(())
}

/// A program with its libraries, as files.
struct Emulated {
    platform: Platform,
    root: PathBuf,
    program: PathBuf,
}

impl Emulated {
    fn unpacked(platform: Platform, spec: &ImageSpec, root: PathBuf, name: &str) -> Result<Self> {
        let put = |path: &Path, bytes: &[u8]| {
            let full = root.join(path.strip_prefix("/").unwrap_or(path));
            let folder = full.parent().unwrap_or(&root);
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
            plan::write(&full, bytes)?;
            shell::run("chmod", &["755", &full.to_string_lossy()])?;
            Ok::<_, anyhow::Error>(full)
        };
        std::fs::create_dir_all(&root).context("no folder for an image's files")?;
        for (place, file) in spec.libraries()? {
            put(&place, &plan::read(&file)?)?;
        }
        let bytes = spec.program(&root.join("program"))?;
        let program = put(&Path::new("/usr/local/bin").join(name), &bytes)?;
        Ok(Self { platform, root, program })
    }

    fn command(&self, program: &Path) -> Result<Command> {
        Ok(foreign::emulated(self.platform, &self.root, program, &say::progress())?)
    }

    fn said(&self, command: &mut Command) -> Result<String> {
        let output = command.output().context("QEMU could not be started")?;
        shell::said(&self.program.to_string_lossy(), &output)
    }

    fn says_its_version(&self, plan: &Plan, argument: &str) -> Result<()> {
        let said = self.said(self.command(&self.program)?.arg(argument))?;
        if !said.contains(plan.version) {
            bail!("{} says {said:?}, not {}", self.program.display(), plan.version);
        }
        say::step(&format!("under QEMU, {}: {}", self.platform.architecture(), said.trim()));
        Ok(())
    }

    /// An allocator that is built for smaller pages than the machine has refuses to start.
    fn reads_settings_with_large_pages(&self) -> Result<()> {
        let settings = self.root.join("settings.yaml");
        plan::write(&settings, SETTINGS.as_bytes())?;
        let mut command = self.command(&self.program)?;
        command.args(["validate", "--config"]).arg(&settings);
        command.env(PAGES.0, PAGES.1).env(PROCESSOR.0, PROCESSOR.1);
        self.said(&mut command)?;
        let architecture = self.platform.architecture();
        say::step(&format!(
            "under QEMU, {architecture}: it starts with pages of {} bytes",
            PAGES.1
        ));
        Ok(())
    }

    /// Tables and collector are the platform's; the engine, the load and its check this machine's.
    fn writes_rows(&self, of: &Programs) -> Result<()> {
        let folder = self.root.join("programs");
        std::fs::create_dir_all(&folder).context("no folder for programs")?;
        for (name, program) in [(COLLECTOR, &self.program), (TABLES, &of.tables)] {
            let script = folder.join(name);
            plan::write(&script, script_of(&self.command(program)?).as_bytes())?;
            shell::run("chmod", &["755", &script.to_string_lossy()])?;
        }
        std::os::unix::fs::symlink(build::release(LOAD), folder.join(LOAD))
            .context("cannot link the load generator")?;
        first_try::rows(&folder).context("under QEMU")
    }
}

/// A script that runs a command with the arguments it gets besides.
fn script_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted = words.map(|it| format!("'{}' ", it.to_string_lossy().replace('\'', "'\\''")));
    format!("#!/bin/sh\nexec {}\"$@\"\n", quoted.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::{Command, script_of};

    /// Scenario: a command with a quote and a blank in an argument. Guarantee: the script gives the
    /// program each argument as it is, then its own.
    #[test]
    fn a_script_passes_arguments_as_they_are() {
        let mut command = Command::new("printf");
        command.args(["%s|", "a 'b"]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        std::fs::write(&path, script_of(&command)).unwrap();
        let output = Command::new("sh").arg(&path).arg("c d").output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "a 'b|c d|");
    }
}
