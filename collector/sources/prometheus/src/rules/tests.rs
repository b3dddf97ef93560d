//! Tests of jobs' rules.

use millrace_config::RelabelAction;
use millrace_scrape::relabel::Action;

use super::*;

/// Scenario: either list has an invalid rule. Guarantee: the error names the job, the list and the
/// index.
#[test]
fn a_rule_that_cannot_be_used_is_named() {
    let wrong =
        || Written { action: RelabelAction::Keep, regex: "(a".to_owned(), ..Written::default() };
    let right = || Written { target_label: "a".to_owned(), ..Written::default() };
    let job = |relabel, metric_relabel| ScrapeJob {
        name: "node".to_owned(),
        relabel,
        metric_relabel,
        ..ScrapeJob::default()
    };
    let said = |job| {
        let settings = PrometheusReceiver { jobs: vec![job], ..PrometheusReceiver::default() };
        check_rules(&settings).map_err(|error| error.to_string())
    };
    let reason = "regex: its parentheses don't match";
    assert_eq!(said(job(vec![right()], vec![right()])), Ok(()));
    let expected = format!("job `node`, relabel[1]: {reason}");
    assert_eq!(said(job(vec![right(), wrong()], vec![])), Err(expected));
    let expected = format!("job `node`, metricRelabel[0]: {reason}");
    assert_eq!(said(job(vec![], vec![wrong()])), Err(expected));
}

/// Guarantee: the engine has an action with the name of each action of the settings.
#[test]
fn all_actions_are_known_to_the_engine() {
    for action in RelabelAction::ALL {
        assert_eq!(Action::from_name(action.as_str()).map(Action::as_str), Some(action.as_str()));
    }
}
