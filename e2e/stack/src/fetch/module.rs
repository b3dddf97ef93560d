//! A program that is built from its Go module, once, into the cache: for checking and comparing,
//! not for the stack.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::fetch::binaries::{Download, downloaded, go, locked, newer_go};
use crate::paths::Paths;
use crate::progress::Progress;
use crate::service::{ServiceError, create_dir, io_error, run, write_file};
use crate::versions;

/// Where a program comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Module {
    /// The name of its folder in the cache.
    pub(crate) folder: &'static str,
    /// The module on the proxy.
    pub(crate) module: &'static str,
    pub(crate) version: &'static str,
    /// The program's folder in the module, and its name: the same.
    pub(crate) program: &'static str,
    /// The folder that it is in.
    pub(crate) parent: &'static str,
    /// Whether C's libraries are linked in, as its own builds have them.
    pub(crate) links_c: bool,
    /// Seconds that a first build takes on two idle cores.
    pub(crate) usual_seconds: u32,
}

impl Module {
    /// Builds it unless the cache has it, and gives the program's path.
    pub(crate) fn build(&self, paths: &Paths, progress: &dyn Progress) -> Result<PathBuf> {
        let Self { folder, module, version, program, parent, links_c, usual_seconds } = self;
        let name = format!("{folder}-{version}");
        let told = format!("building {program} {version} (about {usual_seconds} s)");
        cached((paths, progress), (&name, program), &told, |folder, target| {
            let (major, minor) = versions::OLDEST_GO;
            let text = format!(
                "module millrace.dev/cache/{program}\n\ngo {major}.{minor}\n\n\
                 require {module} {version}\n"
            );
            write_file(&folder.join("go.mod"), &text)?;
            let mut command = go();
            if *links_c {
                command.env("CGO_ENABLED", "1");
            }
            command
                .args(["build", "-mod=mod", "-trimpath", "-o"])
                .arg(target)
                .arg(format!("{module}/{parent}/{program}"))
                .current_dir(folder);
            run(&format!("build {program}"), &mut command)
        })
    }
}

/// A program of the cache, by the name of its folder and its own. One that isn't there is made:
/// `make` gets a folder to work in, which is there, and where the program is to be.
pub(crate) fn cached(
    (paths, progress): (&Paths, &dyn Progress),
    (name, program): (&str, &str),
    told: &str,
    make: impl FnOnce(&Path, &Path) -> Result<(), ServiceError>,
) -> Result<PathBuf> {
    let target = paths.cache().join("bin").join(name).join(program);
    if target.exists() {
        return Ok(target);
    }
    let _lock = locked(paths, progress)?;
    if target.exists() {
        return Ok(target);
    }
    progress.tell(told);
    let folder = paths.cache().join("go").join(name);
    create_dir(&folder)?;
    if let Some(parent) = target.parent() {
        create_dir(parent)?;
    }
    let partial = target.with_extension("partial");
    make(&folder, &partial)?;
    fs::rename(&partial, &target)
        .map_err(io_error(format!("rename {} into place", partial.display())))?;
    Ok(target)
}

/// Builds a program of ours, of one file, in a folder: against modules in the versions that are given,
/// with whatever else these require.
pub(crate) fn build_source(
    (program, source): (&str, &str),
    required: &[(&str, &str)],
    folder: &Path,
    target: &Path,
) -> Result<(), ServiceError> {
    write_file(&folder.join("main.go"), source)?;
    let go = versions::NEWER_GO.trim_start_matches("go");
    let required = required.iter().map(|(module, version)| format!("require {module} {version}\n"));
    let required: String = required.collect();
    let text = format!("module millrace.dev/cache/{program}\n\ngo {go}\n\n{required}");
    write_file(&folder.join("go.mod"), &text)?;
    let mut command = newer_go();
    command.args(["build", "-mod=mod", "-trimpath", "-o"]).arg(target).arg(".");
    run(&format!("build {program}"), command.current_dir(folder))
}

/// Writes the module file of a folder that builds programs of a module, unless a broken-off build
/// already did: one that requires it as it requires others itself.
pub(crate) fn prepare(folder: &Path, (module, version): (&str, &str)) -> Result<()> {
    let target = folder.join("go.mod");
    if target.exists() {
        return Ok(());
    }
    let theirs = downloaded(newer_go(), &format!("{module}@{version}"), Download::ModuleFile)?;
    let upstream =
        fs::read_to_string(&theirs).map_err(io_error(format!("read {}", theirs.display())))?;
    create_dir(folder)?;
    Ok(write_file(&target, &requiring((module, version), &upstream))?)
}

/// What a module replaces by published versions counts only in its own module file, so it is
/// repeated. What it replaces by a folder of its own is published too.
fn requiring((module, version): (&str, &str), upstream: &str) -> String {
    let go = upstream.lines().find(|line| line.starts_with("go ")).unwrap_or("go 1.27.0");
    let lines = upstream.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let published = lines.filter(|line| line.contains(" => ") && !line.contains(" => ./"));
    let replaced: String =
        published.map(|line| format!("\t{}\n", line.trim_start_matches("replace "))).collect();
    format!(
        "module millrace.dev/cache/program\n\n{go}\n\nrequire {module} {version}\n\n\
         replace (\n{replaced})\n"
    )
}

#[cfg(test)]
mod tests {
    use super::requiring;

    /// Scenario: a module file that replaces modules in both forms, by versions and by a folder.
    /// Guarantee: ours has its Go and its published replacements, and not the folder.
    #[test]
    fn published_replacements_are_repeated() {
        let upstream = "module x\n\ngo 1.27.0\n\nrequire a v1\n\nreplace (\n\ta => b v2\n\n\
                        \t// why => not\n\tc => c v3\n)\n\nreplace d => ./d\nreplace e => f v4\n";
        let text = requiring(("x", "v5"), upstream);
        let replaced = "\nreplace (\n\ta => b v2\n\tc => c v3\n\te => f v4\n)\n";
        assert!(text.contains("\ngo 1.27.0\n\nrequire x v5\n"), "{text}");
        assert!(text.ends_with(replaced), "{text}");
    }
}
