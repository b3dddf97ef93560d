//! `xtask alerts`: the chart's alerts, tried with Prometheus' own evaluator on written-out series
//! (manifests/alerts_test.yaml): what each says, and when it keeps quiet.

use std::fs;

use anyhow::{Context, Result};
use millrace_stack::prometheus::{self, Program};

use crate::{say, shell};

const MONITORING: &str = "manifests/monitoring.yaml";
const CASES: &str = "manifests/alerts_test.yaml";

/// Checks the rules, then tries them.
pub(crate) fn run() -> Result<()> {
    let promtool = prometheus::find_or_fetch(Program::Promtool, &say::progress())?;
    let root = shell::root();
    let folder = root.join("target/alerts");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let read = |path: &str| {
        fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
    };
    let rules = rules(&read(MONITORING)?).with_context(|| {
        format!("{MONITORING} has no PrometheusRule with a spec; run `cargo xtask codegen`")
    })?;
    for (name, text) in [("rules.yaml", rules), ("alerts_test.yaml", read(CASES)?)] {
        fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    let promtool = promtool.to_string_lossy();
    for args in [["check", "rules", "rules.yaml"], ["test", "rules", "alerts_test.yaml"]] {
        let mut command = shell::command(&promtool, &args);
        shell::run_command(command.current_dir(&folder))?;
    }
    Ok(())
}

/// The spec of the PrometheusRule, as Prometheus itself reads rules. The file is our own rendering:
/// one object after another, each indented by two.
fn rules(manifests: &str) -> Option<String> {
    let rule = manifests.split("\n---\n").find(|it| it.contains("\nkind: PrometheusRule\n"))?;
    let (_, spec) = rule.split_once("\nspec:\n")?;
    let lines = spec.lines().map(|line| line.strip_prefix("  ").unwrap_or(line));
    Some(lines.collect::<Vec<_>>().join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::rules;

    /// Scenario: the rules among other objects, and none. Guarantee: its spec alone, one level up.
    #[test]
    fn the_spec_is_taken_out() {
        let other = "kind: PodMonitor\nspec:\n  selector: {}\n";
        let rule = "# of it\nkind: PrometheusRule\nspec:\n  groups:\n    - name: a\n";
        let both = format!("{other}\n---\n{rule}");
        assert_eq!(rules(&both).as_deref(), Some("groups:\n  - name: a\n"));
        assert_eq!(rules(other), None);
    }
}
