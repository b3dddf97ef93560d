//! Tests of lists in files: which files are read again, which lists stay in use.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::symlink;

use millrace_pipeline::budget::Budget;
use millrace_pipeline::telemetry::Telemetry;

use millrace_config::ScrapeJob;

use super::*;

struct Rig {
    folder: tempfile::TempDir,
    telemetry: Telemetry,
}

impl Rig {
    fn new() -> Self {
        let telemetry = Telemetry::new(Budget::new(1 << 20), "0", "system").unwrap();
        Self { folder: tempfile::tempdir().unwrap(), telemetry }
    }

    fn files(&self, patterns: &[&str]) -> TargetFiles {
        let path = |name: &&str| self.path(name).to_str().unwrap().to_owned();
        let files = patterns.iter().map(path).collect();
        let job = ScrapeJob { name: "a".into(), files, ..ScrapeJob::default() };
        let job = RuledJob::new(job).unwrap();
        let metrics = ScrapeMetrics::register(&self.telemetry).unwrap();
        TargetFiles::new((0, Arc::new(job)), metrics)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file as a careful writer does: to another name, then renamed.
    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        let part = path.with_extension("part");
        fs::write(&part, text).unwrap();
        fs::rename(part, path).unwrap();
    }

    fn count(&self, metric: &str) -> u64 {
        let text = self.telemetry.render().unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("{metric} "))).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

fn targets(files: &TargetFiles) -> Vec<String> {
    let mut targets: Vec<_> =
        files.all_targets().0.targets.iter().map(|it| it.url.to_string()).collect();
    targets.sort();
    targets
}

/// Returns the faults that are shown, by file name.
fn errors(files: &TargetFiles) -> Vec<String> {
    let lists = files.all_targets().1;
    let failing = lists.iter().filter(|list| !list.error.is_empty());
    let name = |source: &str| source.rsplit('/').next().unwrap().to_owned();
    failing.map(|list| format!("{}: {}", name(&list.source), list.error)).collect()
}

/// Scenario: files are added, changed and removed. Guarantee: each check reports exactly the
/// changes, and unchanged files are not read again.
#[test]
fn files_are_read_when_they_change() {
    let rig = Rig::new();
    let mut files = rig.files(&["node-*.json", "one.yml"]);
    assert!(!files.check_files());
    rig.write("node-a.json", r#"[{"targets": ["a:1", "b:1"], "labels": {"x": "y"}}]"#);
    rig.write("one.yml", "- targets: ['c:1']\n  labels: {__metrics_path__: /m?k=v}\n");
    rig.write("other.json", r#"[{"targets": ["d:1"]}]"#);
    rig.write(".node-b.json", r#"[{"targets": ["e:1"]}]"#);
    assert!(files.check_files());
    let all = ["http://a:1/metrics", "http://b:1/metrics", "http://c:1/m?k=v"];
    assert_eq!(targets(&files), all);
    let (listed, lists) = files.all_targets();
    assert_eq!(listed.targets[0].labels, [("x".into(), "y".into())]);
    assert_eq!(lists.iter().map(|list| list.targets).collect::<Vec<_>>(), [2, 1]);
    assert!(lists.iter().all(|list| list.read_unix_millis > 0 && list.error.is_empty()));
    let reads = rig.count("millrace_scrape_list_reads_total");
    assert!(!files.check_files());
    assert_eq!(rig.count("millrace_scrape_list_reads_total"), reads);
    rig.write("node-a.json", r#"[{"targets": ["f:1"]}]"#);
    assert!(files.check_files());
    assert_eq!(targets(&files), ["http://c:1/m?k=v", "http://f:1/metrics"]);
    fs::remove_file(rig.path("one.yml")).unwrap();
    assert!(files.check_files());
    assert_eq!(targets(&files), ["http://f:1/metrics"]);
    assert!(files.all_targets().0.dropped == Default::default());
}

/// Scenario: a list becomes invalid, empty, longer than the limit, and a folder. Guarantee: the
/// last good list stays in use, the fault is shown with its line and counted, and a good list is
/// used again.
#[test]
fn the_last_good_list_stands_while_a_file_is_broken() {
    let rig = Rig::new();
    let mut files = rig.files(&["a.yml", "a*.json"]);
    rig.write("a.yml", "- targets: ['a:1']\n");
    rig.write("a.json", r#"[{"targets": ["b:1"]}]"#);
    assert!(files.check_files());
    rig.write("a.yml", "- targets: ['a:1']\n- target: ['c:1']\n");
    assert!(files.check_files());
    assert_eq!(targets(&files), ["http://a:1/metrics", "http://b:1/metrics"]);
    let said = &errors(&files)[0];
    assert!(said.starts_with("a.yml: line 2: ") && said.contains("`target`"), "{said}");
    assert_eq!(rig.count("millrace_scrape_list_failures_total"), 1);
    assert!(!files.check_files(), "nothing is new");
    rig.write("a.yml", "");
    rig.write("a.json", &format!("[{}]", " ".repeat(TARGET_LIST_BYTES_MAX)));
    assert!(files.check_files());
    assert_eq!(targets(&files), ["http://a:1/metrics", "http://b:1/metrics"]);
    let said = errors(&files).join("\n");
    assert!(said.contains("a.json: it is longer than 2097152 bytes"), "{said}");
    assert!(said.contains("a.yml: the list is empty: write []"), "{said}");
    fs::remove_file(rig.path("a.yml")).unwrap();
    fs::create_dir(rig.path("a.yml")).unwrap();
    assert!(files.check_files());
    assert_eq!(targets(&files), ["http://a:1/metrics", "http://b:1/metrics"]);
    fs::remove_dir(rig.path("a.yml")).unwrap();
    rig.write("a.yml", "[]");
    rig.write("a.json", r#"[{"targets": ["b:2", "no target"]}]"#);
    assert!(files.check_files());
    assert_eq!((targets(&files), errors(&files)), (vec!["http://b:2/metrics".into()], vec![]));
    let dropped = files.all_targets().0.dropped;
    assert_eq!(dropped.invalid, 1);
    assert!(dropped.example.contains("`no target` is not an address"), "{}", dropped.example);
}

/// Scenario: a ConfigMap's files are links through a link that is replaced. Guarantee: the new
/// content is read.
#[test]
fn a_config_map_is_followed() {
    let rig = Rig::new();
    for (version, target) in [("v1", "a:1"), ("v2", "b:1")] {
        fs::create_dir(rig.path(version)).unwrap();
        let list = format!(r#"[{{"targets": ["{target}"]}}]"#);
        fs::write(rig.path(version).join("l.json"), list).unwrap();
    }
    symlink("v1", rig.path("..data")).unwrap();
    symlink("..data/l.json", rig.path("l.json")).unwrap();
    let mut files = rig.files(&["l.json"]);
    assert!(files.check_files());
    assert_eq!(targets(&files), ["http://a:1/metrics"]);
    symlink("v2", rig.path("next")).unwrap();
    fs::rename(rig.path("next"), rig.path("..data")).unwrap();
    assert!(files.check_files());
    assert_eq!(targets(&files), ["http://b:1/metrics"]);
}

/// Scenario: more files exist than a job may have. Guarantee: the limit holds and is reported.
#[test]
fn a_job_has_so_many_files_at_most() {
    let rig = Rig::new();
    for number in 0..FILES_MAX + 5 {
        let list = format!(r#"[{{"targets": ["t{number}:1"]}}]"#);
        fs::write(rig.path(&format!("{number}.json")), list).unwrap();
    }
    let mut files = rig.files(&["*.json"]);
    assert!(files.check_files());
    assert_eq!(targets(&files).len(), FILES_MAX);
    assert_eq!(
        errors(&files),
        ["files: more than 256 files match: narrow the pattern, or merge \
                                 lists"]
    );
}

/// Scenario: patterns are compared with paths. Guarantee: a star matches any part of the last
/// component.
#[test]
fn a_star_stands_for_a_part_of_a_name() {
    for (pattern, path, expected) in [
        ("/a/b.json", "/a/b.json", true),
        ("/a/*.json", "/a/b.json", true),
        ("/a/*.json", "/a/.b.json", false),
        ("/a/b*b.json", "/a/b.json", false),
        ("/a/b*.json", "/a/b.json", true),
        ("/a/*.json", "/a/c/b.json", false),
    ] {
        assert_eq!(matches_pattern(pattern, Path::new(path)), expected, "{pattern} {path}");
    }
}
