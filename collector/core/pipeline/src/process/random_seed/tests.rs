//! Seeds of processes.

use std::collections::BTreeSet;
use std::process::Command;

use super::random_seed;

const SEED_OF: &str = "millrace-seed=";

/// Scenario: processes of one program, like containers of one image. Guarantee: no two have the
/// same seed.
#[test]
fn processes_have_different_seeds() {
    println!("{SEED_OF}{}", random_seed());
    if std::env::var_os("MILLRACE_SEED_CHILD").is_some() {
        return;
    }
    let program = std::env::current_exe().unwrap();
    let seeds = (0..8).map(|_| {
        let mut child = Command::new(&program);
        child.args(["processes_have_different_seeds", "--nocapture"]);
        let output = child.env("MILLRACE_SEED_CHILD", "1").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (_, seed) = text.split_once(SEED_OF).expect(&text);
        seed.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    });
    assert_eq!(seeds.collect::<BTreeSet<_>>().len(), 8);
}
