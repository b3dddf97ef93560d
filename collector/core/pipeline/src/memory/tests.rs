//! Tests of the private code of `memory.rs`.

use super::{ASSUMED_LIMIT_BYTES, LimitSource, MemoryLimit};
use std::fs;
use std::path::Path;

fn find(files: &[(&str, &str)]) -> (u64, LimitSource) {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, text).unwrap();
    }
    let found = MemoryLimit::from_root(root.path());
    (found.limit_bytes, found.source)
}

/// Scenario: v2 with a limit on a parent lower than the group's own. Guarantee: the lower applies.
#[test]
fn the_lowest_v2_limit_on_the_way_up_counts() {
    let found = find(&[
        ("proc/self/cgroup", "0::/pod/app\n"),
        ("sys/fs/cgroup/pod/app/memory.max", "max\n"),
        ("sys/fs/cgroup/pod/memory.max", "536870912\n"),
    ]);
    assert_eq!(found, (512 << 20, LimitSource::CgroupV2));
}

/// Scenario: a container on v2 whose membership is the namespace's root. Guarantee: the mount's own
/// limit applies.
#[test]
fn a_containers_v2_root_has_the_limit() {
    let found =
        find(&[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "268435456\n")]);
    assert_eq!(found, (256 << 20, LimitSource::CgroupV2));
}

/// Scenario: hybrid v1, membership naming a host path that is not mounted. Guarantee: the v1
/// mount's root is used.
#[test]
fn a_v1_container_finds_its_limit_at_the_mounts_root() {
    let found = find(&[
        ("proc/self/cgroup", "5:cpu,memory:/kubepods/pod1/abc\n1:name=systemd:/x\n0::/x\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728\n"),
    ]);
    assert_eq!(found, (128 << 20, LimitSource::CgroupV1));
}

/// Scenario: no cgroup, or v1's number for "none". Guarantee: the assumed limit applies.
#[test]
fn no_limit_means_the_assumed_one() {
    assert_eq!(find(&[]), (ASSUMED_LIMIT_BYTES, LimitSource::Assumed));
    let found = find(&[
        ("proc/self/cgroup", "5:memory:/\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
    ]);
    assert_eq!(found, (ASSUMED_LIMIT_BYTES, LimitSource::Assumed));
    assert_eq!(MemoryLimit::detect_limit(Some(1000)).share_bytes(50), 500);
}
