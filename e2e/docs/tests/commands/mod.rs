//! Every command that pages tell people to type, put to what would take it: the programs' own
//! definitions of their arguments, the Makefile, crates and tests, the chart's schema, the kinds'
//! schemas. Nothing is run here: `millrace_docs::runs` says what is, and where.
//!
//! Commands stand in blocks marked `sh` or `console`, behind `$ ` in other blocks, and between
//! backticks. Between backticks a command may be cut short: what is missing isn't judged there.

mod build;
mod cluster;
mod programs;
mod tree;

use millrace_docs::pages::{self, Page};
use millrace_docs::shell::{self, Command};
use tree::Tree;

/// How much of a command is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Whole,
    /// Perhaps only its beginning.
    Part,
}

/// Programs whose arguments aren't judged here, and why.
const ELSEWHERE: [(&str, &str); 12] = [
    ("cat", "POSIX"),
    ("chmod", "POSIX"),
    ("cosign", "`make release` runs these commands with the real program"),
    ("export", "the shell's"),
    ("install", "coreutils'"),
    ("keeper-bench", "its own tests read its page: it links no part of Millrace, and nothing its"),
    ("man", "man-db's"),
    ("mirror.sh", "`make release` runs it"),
    ("sha256sum", "`make release` runs it"),
    ("sudo", "what it runs is judged"),
    ("tar", "`make release` runs it"),
    ("tee", "POSIX"),
];

/// What is wrong with a command; none if no rule knows the program.
fn judge(tree: &Tree, command: &Command, extent: Extent) -> Option<Vec<String>> {
    let (words, extent) = without_gaps(&command.words, extent);
    let [program, ..] = words.as_slice() else { return Some(Vec::new()) };
    let program = program.rsplit('/').next().unwrap_or_default();
    Some(match (program, words.get(1).map(String::as_str)) {
        ("make", _) => build::make(tree, command),
        ("cargo", _) => build::cargo(tree, &words),
        ("docker", _) => build::docker(tree, &words),
        ("kubectl", Some("millrace")) => programs::plugin(&words[1..], extent),
        ("kubectl", _) => cluster::kubectl(tree, &words, extent),
        ("helm", _) => cluster::helm(tree, &words, extent),
        ("millrace-collector", _) => programs::collector(&words, extent),
        ("clickhouse-ddl", _) => programs::ddl(&words, extent),
        ("sudo", Some(_)) => {
            let inner = Command { words: words[1..].to_vec(), ..Command::default() };
            return judge(tree, &inner, extent);
        }
        _ if ELSEWHERE.iter().any(|(name, _)| *name == program) => Vec::new(),
        _ => return None,
    })
}

/// Without `...`, and without the option whose value it stands for.
fn without_gaps(words: &[String], extent: Extent) -> (Vec<String>, Extent) {
    let mut kept: Vec<String> = Vec::new();
    let mut extent = extent;
    for word in words {
        if word != "..." {
            kept.push(word.clone());
            continue;
        }
        extent = Extent::Part;
        kept.pop_if(|before| before.starts_with('-'));
    }
    (kept, extent)
}

/// A page's commands: where, how much of it, and whether it is known to be one.
fn commands(page: &Page) -> Vec<(String, Command, Extent)> {
    let mut found = Vec::new();
    for block in page.blocks() {
        let all = shell::commands(&block.typed()).into_iter();
        found.extend(all.map(|command| (block.place.clone(), command, Extent::Whole)));
    }
    for span in page.spans() {
        let all = shell::commands(&span.text).into_iter();
        found.extend(all.map(|command| (span.place.clone(), command, Extent::Part)));
    }
    found
}

/// What is wrong with a page's commands, and how many were judged.
fn judged(tree: &Tree, page: &Page) -> (usize, Vec<String>) {
    let mut count = 0;
    let mut wrong = Vec::new();
    for (place, command, extent) in commands(page) {
        let typed = command.words.join(" ");
        // One word between backticks is a program's name.
        if extent == Extent::Part && command.words.len() < 2 {
            continue;
        }
        match judge(tree, &command, extent) {
            Some(faults) => {
                count += 1;
                wrong.extend(faults.into_iter().map(|it| format!("{place}: `{typed}`: {it}")));
            }
            None if extent == Extent::Whole => {
                wrong.push(format!("{place}: `{typed}`: no rule knows this program"));
            }
            None => {}
        }
    }
    for block in page.blocks().iter().filter(|block| block.language.is_empty()) {
        let first = shell::commands(block.text.lines().next().unwrap_or_default());
        let unmarked = first.iter().find(|it| it.words.len() > 1 && !it.words[1].ends_with(':'));
        if unmarked.is_some_and(|it| judge(tree, it, Extent::Part).is_some()) {
            wrong.push(format!("{}: a block of commands isn't marked `sh`", block.place));
        }
    }
    (count, wrong)
}

/// Scenario: every command of every page. Guarantee: whoever types it is understood: programs take
/// their arguments, targets, crates, tests, files, charts, values, kinds and fields are there.
#[test]
fn every_command_of_the_pages_is_one_that_there_is() {
    let tree = Tree::new();
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages::all(tree.root()).unwrap() {
        let (judged, faults) = judged(&tree, &page);
        count += judged;
        wrong.extend(faults);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 200, "{count} commands");
}

/// Scenario: one fault in each command. Guarantee: each is told, with its place.
#[test]
fn each_wrong_command_is_told() {
    let tree = Tree::new();
    for line in [
        "make sparkle",
        "make bench SPARKLE=1",
        "make bench CASE=sparkle",
        "SPARKLE=1 make conformance",
        "cargo sparkle",
        "cargo test -p millrace-sparkle",
        "cargo test -p millrace-docs --test commands",
        "cargo test -p millrace-docs commands::sparkle",
        "cargo test --sparkle -p millrace-docs",
        "docker build -f sparkle/Dockerfile .",
        "docker build -f collector/Dockerfile --build-arg SPARKLE=1 .",
        "kubectl millrace sparkle",
        "kubectl millrace status --sparkle",
        "kubectl millrace lag --interval soon",
        "kubectl millrace plan",
        "kubectl millrace dead-letters list --sparkle",
        "kubectl millrace dead-letters show --signal logs",
        "kubectl millrace dead-letters resend --all --pipeline a",
        "kubectl sparkle",
        "kubectl get sparkles",
        "kubectl get pods --sparkle",
        "kubectl apply -f manifests/sparkle.yaml",
        "kubectl get gatewaypool NAME -o jsonpath='{.status.sparkle}'",
        "kubectl explain telemetrypipeline.spec.sparkle",
        "kubectl annotate gatewaypool NAME millrace.dev/sparkle=1",
        "kubectl patch telemetrypipeline a -p '{\"spec\":{\"sparkle\":1}}'",
        "kubectl patch telemetrypipeline a -p '{\"spec\":'",
        "kubectl exec POD -- millrace-collector sparkle",
        "helm sparkle",
        "helm upgrade millrace charts/millrace",
        "helm install a charts/sparkle",
        "helm install a charts/millrace --set sparkle=1",
        "helm install a charts/millrace --set console.enabled=perhaps",
        "helm install a charts/millrace --sparkle",
        "millrace-collector dead-letters list --config a --sparkle",
        "millrace-collector run",
        "clickhouse-ddl create --endpoint http://a:1 --sparkle",
        "sudo sparkle",
        "sparkle",
    ] {
        let text = format!("```sh\n{line}\n```\n");
        let (_, wrong) = judged(&tree, &Page { path: "a.md".to_owned(), text });
        assert_eq!(wrong.len(), 1, "{line}: {wrong:?}");
        assert!(wrong[0].starts_with("a.md:1: "), "{wrong:?}");
    }
    for text in ["`make sparkle`", "```\n$ make sparkle\n```\n", "```\nmake test\n```\n"] {
        let page = Page { path: "a.md".to_owned(), text: text.to_owned() };
        assert_eq!(judged(&tree, &page).1.len(), 1, "{text}");
    }
}

/// Scenario: commands cut short between backticks. Guarantee: what is there is judged, what is
/// missing isn't.
#[test]
fn between_backticks_a_command_may_be_cut_short() {
    let tree = Tree::new();
    let text = "`kubectl millrace plan`, `kubectl millrace dead-letters`, `clickhouse-ddl create`, \
                `helm upgrade`, `kubectl get`, `millrace-collector run`, `otherwise unknown`";
    let page = Page { path: "a.md".to_owned(), text: text.to_owned() };
    assert_eq!(judged(&tree, &page), (6, Vec::new()));
}
