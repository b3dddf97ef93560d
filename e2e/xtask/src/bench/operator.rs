//! `xtask bench-operator`: the stack's API server, the CRDs, the operator's release binary, and the
//! harness (e2e/lab/operator-bench), which reads the same variables that `make bench-operator` is
//! given: KIND, COUNT, TENANTS, WATCH_SECRETS, RATE, SECONDS, DRIFTS, QUIET_SECONDS, PATIENCE, KEEP,
//! API, LATENCY_MS.
//!
//! The operator runs on the host and looks after one namespace; one that is installed in the
//! cluster is left alone and must not look after that namespace.

use anyhow::Result;
use millrace_stack::Stack;

use crate::build::{self, Binaries};
use crate::{say, shell};

/// Measures; with the binaries as they are unless they are to be built.
pub(crate) fn run(from: Binaries) -> Result<()> {
    if from == Binaries::Built {
        build::operator_bench()?;
    }
    let bench = build::release("millrace-operator-bench");
    let mut command = shell::command(&bench.to_string_lossy(), &[]);
    command.env("MILLRACE_OPERATOR_BIN", build::release("millrace-operator"));
    command.env("MILLRACE_BUILD", "release");
    if std::env::var("API").is_ok_and(|api| api == "standin") {
        // The harness brings its own.
        return shell::run_command(&mut command);
    }
    let stack = Stack::open()?;
    stack.up(&say::progress())?;
    let crds = shell::root().join("crds/yaml");
    let crds = crds.to_string_lossy();
    let applied = stack.kubectl(["apply", "--server-side", "--force-conflicts", "-f", &crds])?;
    shell::said("kubectl", &applied)?;
    command.env("KUBECONFIG", stack.kubeconfig());
    shell::run_command(&mut command)
}
