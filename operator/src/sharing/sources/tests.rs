//! Tests of a spec's targets: their identities, and what no document can hold.

use millrace_config::{HttpTargets, TargetAddress};

use super::*;

fn job(name: &str, targets: &[&str]) -> ScrapeJob {
    let targets = targets.iter().map(|target| TargetAddress::new(*target).unwrap()).collect();
    ScrapeJob { name: name.to_owned(), targets, interval_seconds: 15, ..ScrapeJob::default() }
}

/// Scenario: a job with two targets and a server that lists others. Guarantee: three targets, each
/// with a stable identity of its own; settings have no targets, and the list's URL.
#[test]
fn a_list_is_one_target() {
    let mut listed = job("node", &["a:1", "b:1"]);
    let url = "http://inventory/targets".to_owned();
    listed.http = vec![HttpTargets { url: url.clone(), refresh_seconds: 30 }];
    let sources = Sources::from_scraped(&scraped_from_jobs(vec![listed.clone()]));
    let addresses: std::collections::BTreeSet<&str> =
        sources.targets.values().map(|source| source.entry.address.as_str()).collect();
    assert_eq!(addresses, ["a:1", "b:1", &url].into());
    assert!(sources.targets.values().all(|source| source.interval_seconds == 15));
    let settings = &sources.jobs["node"];
    assert_eq!(settings.get("targets"), None);
    assert_eq!(settings["http"][0]["url"], url);
    assert_eq!(Sources::from_scraped(&scraped_from_jobs(vec![listed])), sources);
}

/// Scenario: texts that are equal when joined, and targets that differ by one label. Guarantee: all
/// have different identities.
#[test]
fn no_two_targets_have_one_identity() {
    let target = |job: &str, address: &str, labels: &[(&str, &str)]| ScrapedTarget {
        job: job.to_owned(),
        address: address.to_owned(),
        labels: labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        zone: None,
    };
    let targets = [
        target("ab", "c:1", &[]),
        target("a", "bc:1", &[]),
        target("a", "bc:1", &[("x", "y")]),
        target("a", "bc:1", &[("xy", "")]),
        target("a", "bc:1", &[("x", "y"), ("z", "")]),
    ];
    let ids: std::collections::BTreeSet<TargetId> = targets.iter().map(target_id).collect();
    assert_eq!(ids.len(), targets.len());
    // Documents store it: a different one would stop and start every target.
    assert_eq!(target_id(&targets[0]).to_string(), "acd201658075b6acbc49c75ff2f14a17");
}

/// Scenario: a target with too many labels; a job with lists in files; a valid one. Guarantee: the
/// first two are omitted and named, the third is included.
#[test]
fn what_no_document_can_hold_is_left_out_by_name() {
    let mut in_files = job("files", &["f:1"]);
    in_files.files = vec!["/targets/*.json".to_owned()];
    let mut scraped = scraped_from_jobs(vec![job("node", &["a:1"]), in_files]);
    let labels = (0..17).map(|it| (format!("l{it}"), String::new())).collect();
    let theirs = job("node", &["c:1"]);
    let (job, address) = ("node".to_owned(), "b:1".to_owned());
    scraped.targets.push(ScrapedTarget { job, address, labels, zone: None });
    let mut sources = Sources::from_scraped(&scraped);
    assert_eq!(sources.targets.len(), 1);
    assert_eq!((sources.refused, sources.refused_in_spec), (2, 2));
    assert!(sources.refusals[0].starts_with("job files: lists in files"), "{sources:?}");
    assert!(
        sources.refusals[1].contains("job node: target b:1: it has more than 16"),
        "{sources:?}"
    );
    // The job's name is used, by another one.
    sources.add_scraped(&scraped_from_jobs(vec![theirs]));
    assert_eq!((sources.refused, sources.refused_in_spec), (3, 2));
}
