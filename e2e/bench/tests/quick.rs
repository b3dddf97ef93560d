//! One short run of a gateway and of an edge with the release binaries, after `make bench` has built
//! them (`make nightly`). It judges no rate, as other work may be under way; memory doesn't depend on
//! that.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// What the cases may have resident at most, in MiB: a gateway its aim (docs/internals/performance.md), an
/// edge half as much again as it takes.
const CASES: [(&str, f64); 3] =
    [("gateway-lean", 128.0), ("edge-grpc-gzip", 40.0), ("rules-rename", 50.0)];

/// Scenario: one quick run of a gateway that drains a topic in inserts of several blocks, and of an
/// edge. Guarantee: the harness finds each record where it should be (it fails otherwise), gives a
/// line for each case, and the processes stay within the memory that docs say.
#[test]
fn benchmarks_run_and_memory_stays_within_its_aims() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-bench"));
    command.args(["--case", &CASES.map(|(case, _)| case).join(",")]);
    command.arg("--out").arg(folder.path()).envs([("QUICK", "1"), ("RUNS", "1")]);
    let released = millrace_e2e::binaries::target().join("release");
    command.env("MILLRACE_BIN_DIR", released).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&stderr));
    let stdout = String::from_utf8(stdout).unwrap();
    let lines: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (case, most_mib) in CASES {
        let line = lines.iter().find(|line| line["case"] == case).expect(case);
        let resident_mib = line["rss_mib"].as_f64().unwrap();
        assert!(resident_mib <= most_mib, "{case}: {resident_mib} of {most_mib} MiB: {line}");
        assert!(line["records_per_cpu_s"].as_f64().unwrap() > 0.0, "{line}");
    }
}
