//! That each command of a page's block is run by a test or says why not, and that the page about tests
//! tells how many are.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use millrace_docs::pages;
use millrace_docs::runs::{self, Way};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Scenario: every command in a block of every page. Guarantee: a rule says what becomes of each, no
/// rule is left over, a test that is said to take its commands from a page names that page, and
/// docs/internals/testing.md has the true numbers.
#[test]
fn each_command_is_run_or_says_why_not() {
    let mut used = BTreeSet::new();
    let (mut ran, mut all) = (0, 0);
    for page in pages::all(&root()).unwrap() {
        let statements = page.statements();
        let mut of_page = 0;
        for statement in &statements {
            let way = statement.way();
            let (rule, way) = way.unwrap_or_else(|| panic!("no rule has {statement:?}"));
            used.insert(rule);
            of_page += usize::from(way.is_run());
            if let Way::Own(file) = way {
                let test = fs::read_to_string(root().join(file)).unwrap();
                assert!(test.contains(&page.path), "{file} doesn't read {}", page.path);
            }
        }
        if !statements.is_empty() {
            println!("{of_page:3} of {:3} commands are run: {}", statements.len(), page.path);
        }
        ran += of_page;
        all += statements.len();
    }
    println!("{ran:3} of {all:3} in all");
    let unused: Vec<usize> = (0..runs::rules()).filter(|rule| !used.contains(rule)).collect();
    assert!(unused.is_empty(), "rules that no command needs: {unused:?}");
    let page = fs::read_to_string(root().join("docs/internals/testing.md")).unwrap();
    let told = format!("{ran} of the {all} commands");
    assert!(page.contains(&told), "docs/internals/testing.md doesn't say: {told}");
}
