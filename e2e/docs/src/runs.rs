//! Which of the commands in pages' blocks tests run, and why they don't run the others: the one place
//! that says it. A command of a block that no rule has fails `e2e/docs/tests/runs.rs`.
//!
//! What stands between backticks in a sentence is judged (`e2e/docs/tests/commands`) and never run.

use std::io;
use std::path::Path;

use crate::pages::{self, Page};
use crate::shell;

/// What becomes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `e2e/tests/pages` types it, as `make test-all` does: it needs no cluster.
    Here,
    /// `e2e/tests/pages_cluster` types it on the local stack, as `make nightly` does.
    Cluster,
    /// The test in this file takes it from the page, for what must be there before.
    Own(&'static str),
    /// No test types it. Why.
    None(&'static str),
}

/// One line that a page's reader types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The page, and the line of its block's fence.
    pub place: String,
    /// As the page has it, with remarks.
    pub text: String,
}

/// The statements of a page that go one way, in the page's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The page, from the repository's root.
    pub page: String,
    /// What is typed.
    pub statements: Vec<Statement>,
}

const MEASURES: &str = "measures for minutes to hours: a quick run of each side is in `make nightly`, \
     and `make nightly` has the whole";
const NIGHTLY: &str = "takes minutes to hours: `make nightly` runs it, with figures of its own";
const ITSELF: &str = "the test that would type it is a part of it";

/// By page (none: any) and a statement's beginning, on one line; the first that fits decides.
const RULES: &[(&str, &str, Way)] = &[
    ("README.md", "make try", Way::Cluster),
    ("README.md", "docker", Way::None("no Docker engine where tests run")),
    ("README.md", "helm", Way::Cluster),
    ("README.md", "kubectl", Way::Cluster),
    ("docs/console.md", "", Way::Cluster),
    ("docs/coordination.md", "", Way::Here),
    ("docs/gitops.md", "kubectl -n argocd apply --server-side --field-manager", Way::Own(GITOPS)),
    (
        "docs/gitops.md",
        "",
        Way::None("the file has an address to replace; Argo CD's tests sync it with theirs"),
    ),
    (
        "docs/installing.md",
        "",
        Way::None("nothing is published: `make release` does it with a registry of its own"),
    ),
    (
        "docs/internals/keeper-bench.md",
        "",
        Way::None("the crate's own tests start it against a ZooKeeper"),
    ),
    (
        "docs/kubectl.md",
        "cargo build",
        Way::None("`cargo xtask build` builds it; without its flags all would be compiled again"),
    ),
    ("docs/kubectl.md", "sudo", Way::Here),
    ("docs/kubectl.md", "kubectl millrace completion", Way::Here),
    ("docs/kubectl.md", "kubectl millrace man", Way::Here),
    ("docs/internals/versions.md", "", Way::Own("e2e/tests/cluster_alone/versions.rs")),
    ("docs/kubectl.md", "", Way::Cluster),
    ("docs/lost-data.md", "", Way::Cluster),
    ("docs/migrating.md", "", Way::Own("e2e/tests/tables/migrating.rs")),
    ("docs/monitors.md", "", Way::Cluster),
    ("docs/processing.md", "kubectl millrace rules test", Way::Here),
    ("docs/observing.md", "", Way::Cluster),
    ("docs/operations.md", "", Way::Cluster),
    (
        "docs/quick-start.md",
        "kubectl -n telemetry patch telemetrypipeline demo --type=merge -p '{\"spec\":{\"collector\"",
        Way::None("needs a third collector; e2e/tests/cluster rolls one out"),
    ),
    ("docs/quick-start.md", "", Way::Cluster),
    ("docs/rollouts.md", "", Way::Cluster),
    ("docs/schema.md", "", Way::Here),
    (
        "docs/topics.md",
        "kubectl -n obs patch telemetrytopic",
        Way::None("needs a topic of a second cluster, which operator/tests/reconcilers has"),
    ),
    ("docs/troubleshooting.md", "", Way::Cluster),
    (
        "docs/upgrading.md",
        "",
        Way::None("e2e/tests/upgrades takes these steps from an earlier build to this one"),
    ),
    ("e2e/stack/README.md", "", Way::Cluster),
    ("", "MILLRACE_SCRAPE_SECONDS=", Way::None(NIGHTLY)),
    ("", "cargo test", Way::None(NIGHTLY)),
    ("", "cargo xtask bench-operator", Way::None(MEASURES)),
    ("", "cargo xtask", Way::None(NIGHTLY)),
    ("", "make bench", Way::None(MEASURES)),
    ("", "make chaos", Way::None(NIGHTLY)),
    ("", "make check", Way::None(ITSELF)),
    ("", "make conformance", Way::None(NIGHTLY)),
    ("", "make fuzz", Way::None(NIGHTLY)),
    ("", "make keeper-faults", Way::None(NIGHTLY)),
    ("", "make release", Way::None(NIGHTLY)),
    ("", "make sim-operator", Way::None(NIGHTLY)),
    ("", "make test", Way::None(ITSELF)),
];

const GITOPS: &str = "e2e/tests/gitops/world.rs";

impl Way {
    /// Whether a test types it.
    #[must_use]
    pub const fn is_run(self) -> bool {
        !matches!(self, Self::None(_))
    }
}

impl Page {
    /// What its reader types, in order.
    #[must_use]
    pub fn statements(&self) -> Vec<Statement> {
        let blocks = self.blocks().into_iter();
        let all = blocks.flat_map(|block| {
            let lines = shell::lines(&block.typed()).into_iter();
            lines.map(move |text| Statement { place: block.place.clone(), text })
        });
        all.collect()
    }
}

impl Statement {
    /// Its rule's place among all, and what becomes of it; nothing if no rule has it.
    #[must_use]
    pub fn way(&self) -> Option<(usize, Way)> {
        let (page, _) = self.place.rsplit_once(':')?;
        let text = self.text.replace("\\\n", " ");
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let fits = |&(of, begins, _): &(&str, &str, Way)| {
            (of.is_empty() || of == page) && line.starts_with(begins)
        };
        RULES.iter().position(fits).map(|at| (at, RULES[at].2))
    }
}

/// How many rules there are.
#[must_use]
pub const fn rules() -> usize {
    RULES.len()
}

/// What goes one way, page by page.
///
/// # Errors
/// When a page can't be read.
pub fn scripts(root: &Path, way: Way) -> io::Result<Vec<Script>> {
    let scripts = pages::all(root)?.into_iter().map(|page| {
        let mut statements = page.statements();
        statements.retain(|it| it.way().is_some_and(|(_, its)| its == way));
        Script { page: page.path, statements }
    });
    Ok(scripts.filter(|script| !script.statements.is_empty()).collect())
}
