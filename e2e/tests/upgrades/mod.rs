//! Two real versions on a real Kubernetes under load: an earlier commit's charts and images, then
//! this tree's, then back. `cargo xtask upgrades` brings up the stack with both versions' images
//! and says where the earlier charts are; nothing else runs this.

mod steps;

use std::time::Duration;

use millrace_e2e::cluster::Cluster;
use millrace_e2e::loadgen::Load;
use millrace_e2e::pipeline::{Pipeline, Wish};
use millrace_stack::Stack;
use steps::{EARLIER_VERSION, Installation, THIS_VERSION};

/// Spans of the load and their rate: up to half an hour; it is ended when all was done.
const RATE: u64 = 10_000;
const SPANS: u64 = RATE * 1_800;
/// What is acknowledged between two steps: three seconds of it.
const BETWEEN: u64 = RATE * 3;
/// For a load to be stored and looked up.
const LIMIT: Duration = Duration::from_secs(300);

/// Scenario: a pipeline of an earlier commit's operator and collectors takes a load. In the order
/// of docs/upgrading.md definitions, operator and collectors become this tree's; then collectors
/// and operator are put back. Guarantee: the pipeline is Ready after each step; the operator's
/// upgrade and rollback restart no collector and change nothing that pods are made from; each pool
/// runs the version that was asked for; no acknowledged span is missing, altered or doubled.
#[test]
fn an_earlier_version_becomes_this_one_and_back_under_load() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let installation = Installation::of_earlier(&stack, &cluster).unwrap();
    let wish = Wish { gateways: Some(2), version: Some(EARLIER_VERSION), ..Wish::usual(&stack) };
    let mut pipeline = Pipeline::apply(&stack, &cluster, "upgrades", wish).unwrap();
    pipeline.ready().unwrap();
    steps::run_version(&pipeline, EARLIER_VERSION).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let attributes = steps::attributes(&pipeline, &stack).unwrap();
    println!("the tables of the earlier version store attributes as {attributes}");
    let load = Load { attributes, ..pipeline.load(&stack, 82, SPANS, Some(RATE)).unwrap() };
    let mut running = load.start(folder.path()).unwrap();
    let mut acknowledged = 0;
    let mut sent_on = |after: &str| {
        acknowledged = running.acknowledged().max(acknowledged) + BETWEEN;
        running.reached(acknowledged, LIMIT).unwrap();
        println!("{after}: {} spans acknowledged", running.acknowledged());
    };
    sent_on("the earlier version");

    let before = pipeline.lives().unwrap();
    installation.upgrade_definitions().unwrap();
    installation.upgrade_operator().unwrap();
    pipeline.ready().unwrap();
    sent_on("definitions and operator upgraded");
    assert_eq!(pipeline.lives().unwrap(), before, "the operator's upgrade touched pods");

    pipeline.change(|wish| wish.version = Some(THIS_VERSION)).unwrap();
    pipeline.ready().unwrap();
    steps::run_version(&pipeline, THIS_VERSION).unwrap();
    sent_on("collectors upgraded");

    pipeline.change(|wish| wish.version = Some(EARLIER_VERSION)).unwrap();
    pipeline.ready().unwrap();
    steps::run_version(&pipeline, EARLIER_VERSION).unwrap();
    sent_on("collectors put back");

    let before = pipeline.lives().unwrap();
    installation.roll_back_operator().unwrap();
    pipeline.ready().unwrap();
    sent_on("operator rolled back");
    assert_eq!(pipeline.lives().unwrap(), before, "the operator's rollback touched pods");

    running.stop_sending().unwrap();
    let verdict = running.verdict(LIMIT).unwrap();
    println!("{}", verdict.line);
    assert_eq!((verdict.missing, verdict.altered), (0, 0), "{}", verdict.line);
    assert_eq!(verdict.duplicated, 0, "{}", verdict.line);
    assert!(verdict.sent >= 5 * BETWEEN, "{}", verdict.line);
    pipeline.ready().unwrap();
}
