//! Tests of the private functions of `options.rs`.

use super::*;

/// Scenario: options that contradict each other. Guarantee: the error names the field to change.
#[test]
fn options_that_do_not_fit_are_refused_by_their_field() {
    let ttl = |seconds| Ttl::from_seconds(seconds).unwrap();
    let cold = || "cold".parse().unwrap();
    let moved = |age| Some(Move { age: ttl(age), volume: cold() });
    let plain = TableOptions::default();
    for (options, kind, words) in [
        (
            TableOptions { engine: Engine::ReplacingMergeTree, ..plain.clone() },
            TableKind::Logs,
            "engine: ReplacingMergeTree",
        ),
        (
            TableOptions {
                ttl: Some(ttl(60)),
                storage: Storage { policy: None, move_after: moved(60) },
                ..plain.clone()
            },
            TableKind::Traces,
            "storage.moveAfter: ",
        ),
        (
            TableOptions {
                engine: Engine::Null,
                storage: Storage { policy: Some(cold()), move_after: None },
                ..plain.clone()
            },
            TableKind::Logs,
            "storage.policy: a Null table",
        ),
    ] {
        let message = options.check_table(kind).unwrap_err().to_string();
        assert!(message.starts_with(words), "{message}");
    }
    let replacing = TableOptions { engine: Engine::ReplacingMergeTree, ..plain };
    assert_eq!(replacing.check_table(TableKind::Traces), Ok(()));
}
