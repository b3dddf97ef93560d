//! Argo CD's one program from its Go module, the cache that its servers share, and its own tests of
//! health scripts, run on ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binaries::{Download, downloaded, newer_go};
use crate::error::Result;
use crate::fetch::module::{cached, prepare};
use crate::paths::Paths;
use crate::progress::Progress;
use crate::service::{ServiceError, create_dir, io_error, run, write_file};
use crate::versions;

const MODULE: &str = "github.com/argoproj/argo-cd/v3";
/// Servers, controllers and command line in one, told apart by the name that it is called by.
const PROGRAM: &str = "argocd";
const REDIS: &str = "redis";
const REDIS_SOURCE: &str = include_str!("../../../argocd/redis/main.go");
/// Its test of the health scripts that come with it.
const HEALTH_TEST: &str = "TestLuaHealthScript";

/// Builds Argo CD and the cache of its servers, unless they are there.
///
/// # Errors
/// When a module can't be fetched or a build fails, with the end of what Go said.
pub fn build(paths: &Paths, progress: &dyn Progress) -> Result<()> {
    let version = versions::ARGOCD;
    prepare(&paths.cache().join("go").join(folder()), (MODULE, version))?;
    let compile = |package: &str, folder: &Path, target: &Path| {
        let flags = format!("-s -w -X {MODULE}/common.version={}", version.trim_start_matches('v'));
        let mut command = newer_go();
        command
            .args(["build", "-mod=mod", "-trimpath", "-ldflags", &flags, "-o"])
            .arg(target)
            .arg(package)
            .current_dir(folder);
        run(&format!("build {package}"), &mut command)
    };
    let told = format!("building Argo CD {version} (about 10 minutes)");
    let name = folder();
    cached((paths, progress), (&name, PROGRAM), &told, |folder, target| {
        compile(&format!("{MODULE}/cmd"), folder, target)
    })?;
    let told = "building the cache of Argo CD's servers (about 10 s)";
    cached((paths, progress), (&name, REDIS), told, |folder, target| {
        write_file(&folder.join(REDIS).join("main.go"), REDIS_SOURCE)?;
        compile(&format!("./{REDIS}"), folder, target)
    })?;
    Ok(())
}

/// Its folder in the cache, for sources as for programs.
fn folder() -> String {
    format!("argocd-{}-{}", versions::ARGOCD, versions::ARGOCD_REDIS)
}

/// Where its program is.
pub(super) fn program(paths: &Paths) -> PathBuf {
    paths.cache().join("bin").join(folder()).join(PROGRAM)
}

/// Where the cache of its servers is.
pub(super) fn redis(paths: &Paths) -> PathBuf {
    paths.cache().join("bin").join(folder()).join(REDIS)
}

/// What of its module is wanted.
pub(super) fn module(what: Download) -> Result<PathBuf> {
    downloaded(newer_go(), &format!("{MODULE}@{}", versions::ARGOCD), what)
}

/// Runs Argo CD's own test of health scripts on a folder in the form of its
/// `resource_customizations/GROUP`, as if it came with Argo CD. Gives what the test said, a line for
/// each object.
///
/// # Errors
/// When the module can't be fetched, the test can't be compiled, or an object has other health than
/// its `health_test.yaml` says.
pub fn own_health_tests(paths: &Paths, group: &str, ours: &Path) -> Result<String> {
    let sources = module(Download::Sources)?;
    let tree = paths.cache().join("go").join(format!("argocd-tree-{}", versions::ARGOCD));
    create_dir(&tree)?;
    let copy = |action: &str, from: PathBuf, to: &Path| {
        let mut command = Command::new("cp");
        command.args(["-r", "--no-preserve=mode,timestamps", "-T"]).arg(from).arg(to);
        run(action, &mut command)
    };
    if !tree.join("go.sum").exists() {
        copy("copy the sources of Argo CD", sources.clone(), &tree)?;
    }
    let path = sources.join("go.mod");
    let text = fs::read_to_string(&path).map_err(io_error(format!("read {}", path.display())))?;
    let published: Vec<&str> = text.lines().filter(|line| !line.contains(" => ./")).collect();
    write_file(&tree.join("go.mod"), &(published.join("\n") + "\n"))?;
    let theirs = tree.join("resource_customizations").join(group);
    if theirs.exists() {
        fs::remove_dir_all(&theirs).map_err(io_error(format!("remove {}", theirs.display())))?;
    }
    copy("add our health script", ours.to_path_buf(), &theirs)?;
    let mut command = newer_go();
    command
        .args(["test", "-mod=mod", "-trimpath", "-count=1", "-v", "-run"])
        .arg(format!("{HEALTH_TEST}/{group}"))
        .arg("./util/lua/")
        .current_dir(&tree);
    let action = "Argo CD's own test of health scripts";
    let output = command.output().map_err(io_error(format!("run {action}")))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let tail = said + &String::from_utf8_lossy(&output.stderr);
    Err(ServiceError::Command { action: action.to_owned(), status: output.status, tail }.into())
}
