//! The committed corpus, replayed: every input that once reached something new, and every input
//! that once broke a rule, goes through the functions that the fuzz targets call.

use std::fs::{self, File};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use millrace_fuzz::TARGETS;

/// Scenario: all inputs of the archives under `corpus/`. Guarantee: none breaks a rule, every
/// target has some, and no archive belongs to a target that is gone.
#[test]
fn the_corpus_breaks_no_rule() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut broken = Vec::new();
    for target in TARGETS {
        let path = corpus.join(format!("{}.tar", target.name));
        let mut inputs = 0;
        let opened = File::open(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        for entry in tar::Archive::new(opened).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut input = Vec::new();
            entry.read_to_end(&mut input).unwrap();
            inputs += 1;
            if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
                broken.push(format!("{}/{}", target.name, entry.path().unwrap().display()));
            }
        }
        assert!(inputs > 0, "no corpus for {}", target.name);
    }
    assert!(broken.is_empty(), "rules broken by {broken:?}");
    for archive in fs::read_dir(corpus).unwrap() {
        let name = archive.unwrap().file_name().into_string().unwrap();
        let known = TARGETS.iter().any(|target| name == format!("{}.tar", target.name));
        assert!(known, "no target for {name:?}");
    }
}
