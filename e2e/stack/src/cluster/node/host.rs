//! What the node needs of its host that does not vanish with namespaces: cgroups, folders to mount
//! over, and the kernel settings that a kubelet changes. Each is put back as it was.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::{Result, StackError};
use crate::paths::Paths;
use crate::service::{create_dir, io_error, write_file};

use super::{CGROUP, END_PATIENCE};

/// Settings that a kubelet makes its own (`setupKernelTunables` in its container manager). They
/// belong to the whole machine, so they are noted before and put back after.
const KERNEL_SETTINGS: [&str; 6] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];
/// Controllers a pod needs on the unified hierarchy; absent ones are skipped.
const UNIFIED_CONTROLLERS: [&str; 5] = ["+cpu", "+cpuset", "+io", "+memory", "+pids"];
/// A cgroup is busy for a moment after its last process died.
const BUSY_INTERVAL: Duration = Duration::from_millis(50);

/// Notes kernel settings, makes the folders to mount over, and the cgroups for pods.
pub(super) fn prepare(paths: &Paths, folders: &[&str]) -> Result<()> {
    let notes = paths.state_dir("host")?;
    let settings = notes.join("kernel-settings");
    if !settings.exists() {
        write_file(&settings, &kernel_settings())?;
    }
    let made = notes.join("made-folders");
    if !made.exists() {
        let absent: Vec<&str> =
            folders.iter().copied().filter(|folder| !Path::new(folder).exists()).collect();
        write_file(&made, &absent.join("\n"))?;
    }
    for folder in folders {
        create_dir(Path::new(folder))?;
    }
    for hierarchy in hierarchies()? {
        make_cgroup(&hierarchy)?;
    }
    Ok(())
}

/// Puts everything back. Safe to call twice, and when nothing was ever made.
pub(super) fn restore(paths: &Paths) -> Result<()> {
    for hierarchy in hierarchies()? {
        remove_cgroup(&hierarchy.path.join(CGROUP))?;
    }
    let notes = paths.state().join("host");
    for line in read_or_empty(&notes.join("kernel-settings")).lines() {
        if let Some((setting, value)) = line.split_once(' ') {
            // A setting that can't be written was not changed by the kubelet either.
            let _ = fs::write(Path::new("/proc/sys").join(setting), value);
        }
    }
    for folder in read_or_empty(&notes.join("made-folders")).lines() {
        // Only ever removes an empty folder: what others put there stays.
        let _ = fs::remove_dir(folder);
    }
    let _ = fs::remove_dir_all(&notes);
    Ok(())
}

fn read_or_empty(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

fn kernel_settings() -> String {
    KERNEL_SETTINGS
        .iter()
        .filter_map(|setting| {
            let value = fs::read_to_string(Path::new("/proc/sys").join(setting)).ok()?;
            Some(format!("{setting} {}\n", value.trim()))
        })
        .collect()
}

/// One mounted cgroup hierarchy: a version 1 controller, or the unified one.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    path: PathBuf,
    unified: bool,
}

fn hierarchies() -> Result<Vec<Hierarchy>> {
    let mounts = fs::read_to_string("/proc/self/mounts").map_err(io_error("read the mounts"))?;
    Ok(parse_hierarchies(&mounts))
}

fn parse_hierarchies(mounts: &str) -> Vec<Hierarchy> {
    let line = |line: &str| {
        let mut fields = line.split(' ');
        let (_, path, kind) = (fields.next()?, fields.next()?, fields.next()?);
        let unified = kind == "cgroup2";
        (unified || kind == "cgroup").then(|| Hierarchy { path: PathBuf::from(path), unified })
    };
    mounts.lines().filter_map(line).collect()
}

fn make_cgroup(hierarchy: &Hierarchy) -> Result<()> {
    let path = hierarchy.path.join(CGROUP);
    create_dir(&path)?;
    if hierarchy.unified {
        for folder in [&hierarchy.path, &path] {
            for controller in UNIFIED_CONTROLLERS {
                let _ = fs::write(folder.join("cgroup.subtree_control"), controller);
            }
        }
    }
    // Version 1's cpuset begins empty, and takes no process until it is given what its parent has.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if !hierarchy.unified && path.join(file).exists() {
            let inherited = read_or_empty(&hierarchy.path.join(file));
            fs::write(path.join(file), inherited.trim())
                .map_err(io_error(format!("write {}", path.join(file).display())))?;
        }
    }
    Ok(())
}

/// Removes a cgroup and those below it, waiting for processes that are still on their way out.
fn remove_cgroup(path: &Path) -> Result<()> {
    let began = Instant::now();
    while let Err(error) = remove_tree(path) {
        if began.elapsed() > END_PATIENCE {
            let what = format!("cgroup {} ({error})", path.display());
            return Err(StackError::LeftBehind { what });
        }
        sleep(BUSY_INTERVAL);
    }
    Ok(())
}

fn remove_tree(path: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Hierarchy, parse_hierarchies};

    /// A hybrid machine has both kinds; named version 1 hierarchies count too.
    #[test]
    fn both_kinds_of_cgroup_hierarchy_are_found() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let found = parse_hierarchies(mounts);
        let hierarchy = |path: &str, unified| Hierarchy { path: PathBuf::from(path), unified };
        assert_eq!(
            found,
            [hierarchy("/sys/fs/cgroup/memory", false), hierarchy("/sys/fs/cgroup/unified", true)]
        );
    }
}
