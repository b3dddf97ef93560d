//! The bench as a program.

use std::process::Command;

/// Scenario: no operator is named. Guarantee: it ends with an error that says what to set, before
/// it touches a cluster.
#[test]
fn without_an_operator_it_says_what_to_set() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_millrace-operator-bench"));
    bench.env_remove("MILLRACE_OPERATOR_BIN").env("KUBECONFIG", "/nowhere");
    let output = bench.output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("MILLRACE_OPERATOR_BIN"), "{said}");
}
