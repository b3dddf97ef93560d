//! Tests of completion and the manual page.

use millrace_plugin::command::completion::{TemplateChange, completion_lines, next_words};

use crate::plugin::support::Server;
use crate::plugin::writes::healthy;

fn words(line: &[&str]) -> Vec<String> {
    let line: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
    next_words(&line).words.into_iter().map(|(word, _)| word).collect()
}

/// Scenario: the line at its beginning, in a command, after an option, at an option's name.
/// Guarantee: the possible words, and no others.
#[test]
fn the_next_words_fit_the_line() {
    assert_eq!(words(&["st"]), ["status"]);
    assert_eq!(words(&["rollout", ""]), ["status", "pause", "resume", "undo"]);
    assert_eq!(words(&["status", "-o", ""]), ["text", "json"]);
    assert_eq!(words(&["logs", "--role", "g"]), ["gateway"]);
    assert_eq!(words(&["status", "--int"]), ["--interval"]);
    assert_eq!(words(&["completion", ""]), ["kubectl", "bash", "zsh", "fish"]);
    assert!(!words(&[""]).contains(&"__complete".to_owned()));
    assert!(next_words(&["convert".to_owned(), "-f".to_owned(), String::new()]).files);
    assert!(next_words(&["plan".to_owned(), "-f".to_owned(), String::new()]).files);
    assert_eq!(
        completion_lines(&TemplateChange::default(), &["prod".to_owned()]),
        "prod\ta TelemetryPipeline\n:4\n"
    );
}

/// Scenario: completion of a pipeline's name, with a cluster that answers and without one.
/// Guarantee: names; no message in the shell's line.
#[tokio::test(start_paused = true)]
async fn pipelines_are_completed_by_name() {
    let text = healthy().run(&["__complete", "why", "pr"]).await.unwrap().text;
    assert_eq!(text, "prod\ta TelemetryPipeline\n:4\n");
    let text = Server::default().run(&["__complete", "why", ""]).await.unwrap().text;
    assert_eq!(text, ":4\n");
}

/// Scenario: each shell, kubectl, the manual. Guarantee: a script that names the program; a page
/// with every command.
#[tokio::test]
async fn scripts_and_the_manual_are_whole() {
    for shell in ["kubectl", "bash", "zsh", "fish"] {
        let text = Server::default().run(&["completion", shell]).await.unwrap().text;
        assert!(text.contains("kubectl-millrace"), "{shell}: {text}");
    }
    let page = Server::default().run(&["man"]).await.unwrap().text;
    for command in [
        "STATUS",
        "WHY",
        "LAG",
        "TOP",
        "ROLLOUT",
        "PLAN",
        "CONVERT",
        "EXPLAIN-DEFAULTS",
        "BUNDLE",
        "UNINSTALL",
    ] {
        assert!(page.contains(&format!(".SH \"{command}\"")), "{command}");
    }
}
