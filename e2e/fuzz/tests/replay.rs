//! The committed corpus, replayed: every input that once reached something new, and every input
//! that once broke a rule, goes through the functions that the fuzz targets call.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use millrace_fuzz::TARGETS;

/// Scenario: all inputs under `corpus/`. Guarantee: none breaks a rule, every target has some, and
/// no folder belongs to a target that is gone.
#[test]
fn the_corpus_breaks_no_rule() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut broken = Vec::new();
    for target in TARGETS {
        let folder = corpus.join(target.name);
        let mut inputs = 0;
        let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
        for file in files {
            let path = file.unwrap().path();
            let input = fs::read(&path).unwrap();
            inputs += 1;
            if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
                broken.push(path);
            }
        }
        assert!(inputs > 0, "no corpus for {}", target.name);
    }
    assert!(broken.is_empty(), "rules broken by {broken:?}");
    for folder in fs::read_dir(corpus).unwrap() {
        let name = folder.unwrap().file_name();
        assert!(TARGETS.iter().any(|target| name == target.name), "no target for {name:?}");
    }
}
