//! The programs of a release: for this machine's platform as always, for another with Debian's cross
//! compiler and the C libraries of its packages.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use millrace_stack::foreign;
use millrace_stack::image::Platform;

use crate::build::flags::Folders;
use crate::build::{self, Binaries};
use crate::release::plan::Plan;
use crate::{say, shell};

/// The programs of one platform.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) platform: Platform,
    /// Where its C libraries are, if it isn't this machine's.
    pub(crate) root: Option<PathBuf>,
    pub(crate) operator: PathBuf,
    pub(crate) plugin: PathBuf,
    /// Makes tables; it is in no image, and run for the trial.
    pub(crate) tables: PathBuf,
    /// By allocator.
    pub(crate) collectors: Vec<(&'static str, PathBuf)>,
}

/// Builds those of every platform.
pub(crate) fn build(plan: &Plan, from: Binaries) -> Result<Vec<Programs>> {
    let host = Platform::host();
    let each = plan.platforms.iter().map(|platform| match Some(*platform) == host {
        true => native(plan, *platform, from),
        false => cross(plan, *platform, from),
    });
    each.collect()
}

fn native(plan: &Plan, platform: Platform, from: Binaries) -> Result<Programs> {
    if from == Binaries::Built {
        build::binaries(plan.collectors)?;
    }
    let allocators = plan.collectors.allocators().iter();
    Ok(Programs {
        platform,
        root: None,
        operator: build::release("millrace-operator"),
        plugin: build::release("kubectl-millrace"),
        tables: build::release("clickhouse-ddl"),
        collectors: allocators
            .map(|it| (*it, build::target().join("dist").join(it).join("millrace-collector")))
            .collect(),
    })
}

fn cross(plan: &Plan, platform: Platform, from: Binaries) -> Result<Programs> {
    let root = foreign::libraries(platform, &say::progress())?;
    let built = build::target().join(platform.triple()).join("release");
    let kept = build::target().join("dist").join(platform.architecture());
    if from == Binaries::Built {
        let cargo = |select: &[&str]| cargo(platform, &root, &plan.commit, select);
        cargo(&["-p", "millrace-operator", "-p", "millrace-plugin"])?;
        cargo(&["-p", "millrace-ddl"])?;
        for allocator in plan.collectors.allocators() {
            let features = ["--no-default-features", "--features", allocator];
            cargo(&[&["-p", "millrace-collector"][..], &features].concat())?;
            let folder = kept.join(allocator);
            fs::create_dir_all(&folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
            fs::copy(built.join("millrace-collector"), folder.join("millrace-collector"))
                .with_context(|| format!("cannot copy a collector to {}", folder.display()))?;
        }
    }
    let allocators = plan.collectors.allocators().iter();
    Ok(Programs {
        platform,
        root: Some(root),
        operator: built.join("millrace-operator"),
        plugin: built.join("kubectl-millrace"),
        tables: built.join("clickhouse-ddl"),
        collectors: allocators.map(|it| (*it, kept.join(it).join("millrace-collector"))).collect(),
    })
}

/// Whether all platforms can be built for. Asked before anything is: the other platform's programs
/// come last, an hour later on a new machine.
pub(crate) fn can_build(plan: &Plan) -> Result<()> {
    let host = Platform::host();
    plan.platforms.iter().filter(|it| Some(**it) != host).try_for_each(|it| has_std(*it))
}

/// Whether Rust's own library is there for the platform; it isn't in any package registry.
fn has_std(platform: Platform) -> Result<()> {
    let triple = platform.triple();
    let folder = shell::output("rustc", &["--print", "target-libdir", "--target", triple])?;
    if !Path::new(folder.trim()).is_dir() {
        bail!(
            "Rust's standard library for {triple} is missing: run `rustup target add {triple}`, \
             or release for this machine's platform alone with `make release QUICK=1`"
        );
    }
    Ok(())
}

fn cargo(platform: Platform, root: &Path, commit: &str, select: &[&str]) -> Result<()> {
    let mut args = vec!["build", "--release", "--locked", "--target", platform.triple()];
    args.extend(select);
    say::step(&format!("cargo {}", args.join(" ")));
    let mut command = shell::command("cargo", &args);
    let folders = Folders::new(&build::target());
    folders.apply(&mut command);
    // What `build_info` says.
    command.env("MILLRACE_COMMIT", commit);
    for (name, value) in variables(platform, root, &folders.c()) {
        command.env(name, value);
    }
    shell::run_command(&mut command)
}

/// What cargo, the crates that compile C, librdkafka's own script and pkg-config are told. That
/// script knows no target, so the plain names are the cross compiler's, and `HOST_` what build
/// scripts of this machine take.
fn variables(platform: Platform, root: &Path, maps: &str) -> Vec<(String, String)> {
    let prefix = platform.multiarch();
    let libraries = root.join("usr/lib").join(prefix);
    let (root, libraries) = (root.display(), libraries.display());
    let maps = format!("{maps} -ffile-prefix-map={root}=/libraries");
    let include = format!("-I{root}/usr/include -I{root}/usr/include/{prefix}");
    let triple = platform.triple().to_uppercase().replace('-', "_");
    let tool = |name: &str, program: &str| (name.to_owned(), format!("{prefix}-{program}"));
    let plain = |name: &str, value: String| (name.to_owned(), value);
    vec![
        tool("CC", "gcc"),
        tool("CXX", "g++"),
        tool("AR", "ar"),
        tool("RANLIB", "ranlib"),
        tool("LD", "ld"),
        tool("NM", "nm"),
        tool("OBJDUMP", "objdump"),
        tool("STRIP", "strip"),
        tool(&format!("CARGO_TARGET_{triple}_LINKER"), "gcc"),
        plain("HOST_CC", "gcc".to_owned()),
        plain("HOST_CXX", "g++".to_owned()),
        plain("HOST_AR", "ar".to_owned()),
        plain("HOST_CFLAGS", maps.clone()),
        plain("CFLAGS", format!("{maps} {include}")),
        plain("CXXFLAGS", format!("{maps} {include}")),
        plain("LDFLAGS", format!("-L{libraries}")),
        plain("PKG_CONFIG_ALLOW_CROSS", "1".to_owned()),
        plain("PKG_CONFIG_LIBDIR", format!("{libraries}/pkgconfig")),
        plain("PKG_CONFIG_SYSROOT_DIR", root.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::{Platform, variables};

    /// Scenario: variables for arm64. Guarantee: the plain names are the cross compiler's, and
    /// nothing is searched among this machine's libraries.
    #[test]
    fn the_cross_compiler_finds_only_its_own_libraries() {
        let all = variables(Platform::Arm64, "/r".as_ref(), "-m");
        let get = |name: &str| &all.iter().find(|(it, _)| it == name).unwrap().1;
        assert_eq!(get("CC"), "aarch64-linux-gnu-gcc");
        assert_eq!(get("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER"), "aarch64-linux-gnu-gcc");
        assert_eq!(get("PKG_CONFIG_LIBDIR"), "/r/usr/lib/aarch64-linux-gnu/pkgconfig");
        assert_eq!(get("LDFLAGS"), "-L/r/usr/lib/aarch64-linux-gnu");
        assert_eq!(get("HOST_CC"), "gcc");
    }
}
