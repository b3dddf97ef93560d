//! Tests of bodies of targets with metric rules: the result equals that of rewritten lines.

use std::sync::Arc;

use common::{Came, LIMITS, S, scrape, scrape_open, scrape_pieces, target};
use millrace_scrape::relabel::{Action, MetricRules, Rule, Rules};
use millrace_scrape::{BodyFormat, BodyLimits, SeriesMemory, TargetAttributes};

use crate::common;

const NOW: u64 = 1000 * S;

fn rule(action: Action, source: &[&str], regex: &str) -> Rule {
    let source_labels = source.iter().map(|it| (*it).to_owned()).collect();
    Rule { action, source_labels, regex: regex.to_owned(), ..Rule::default() }
}

fn set(source: &str, regex: &str, target: &str, replacement: &str) -> Rule {
    Rule {
        target_label: target.to_owned(),
        replacement: replacement.to_owned(),
        ..rule(Action::Replace, &[source], regex)
    }
}

fn ruled(target: TargetAttributes, rules: &[Rule]) -> TargetAttributes {
    let rules = MetricRules::from(Rules::new(rules).unwrap());
    target.with_metric_rules(Arc::new(rules))
}

fn zoned(honors_labels: bool) -> TargetAttributes {
    let labels = vec![("zone".to_owned(), "a".to_owned())];
    TargetAttributes::new("node", ("http", "10.0.0.1", 9100), labels, honors_labels, true)
}

fn own(came: &Came, name: &str) -> String {
    let points = came.all_points();
    let point = points.iter().find(|point| point.starts_with(&format!("{name} "))).unwrap();
    point.rsplit(' ').next().unwrap().to_owned()
}

const BODY: &str = "# TYPE go_gc counter\ngo_gc{a=\"1\"} 1\ngo_gc{a=\"2\"} 2\n\
                    # TYPE up_since gauge\nup_since 3\nother{b=\"x\\\"y\"} 4\n";

/// Scenario: rules drop by name, and by a label. Guarantee: the samples are missing, the scrape's
/// own series have the numbers of scraped and remaining samples, and no sample counts as skipped.
#[test]
fn dropped_samples_are_counted_apart() {
    for rules in [
        &[rule(Action::Drop, &["__name__"], "go_.*|nothing")][..],
        &[rule(Action::Keep, &["__name__", "a"], "up_since;|other;")],
        &[rule(Action::Keep, &["__name__"], "[^g].*"), rule(Action::LabelDrop, &[], "none")],
    ] {
        let target = ruled(target(), rules);
        let came = scrape(&target, &mut SeriesMemory::default(), NOW, BODY);
        assert_eq!(came.fault, None);
        assert_eq!(
            came.points(),
            ["up_since gauge{} [..1000] 3", "other gauge{b=x\"y} [..1000] 4"]
        );
        assert_eq!((came.counts.samples, came.counts.removed, came.counts.dropped), (4, 2, 0));
        assert_eq!(own(&came, "scrape_samples_scraped"), "4");
        assert_eq!(own(&came, "scrape_samples_post_metric_relabeling"), "2");
        assert_eq!(own(&came, "scrape_series_added"), "2");
    }
}

/// Scenario: rules drop one series in each scrape; another one ends. Guarantee: only the latter
/// gets a stale marker, with the name and labels that rules gave it.
#[test]
fn dropped_series_are_not_stale_and_renamed_ones_are_stale_by_their_new_name() {
    let target = ruled(
        zoned(false),
        &[rule(Action::Drop, &["a"], "1"), set("__name__", "go_(.*)", "__name__", "runtime_$1")],
    );
    let mut memory = SeriesMemory::default();
    let came = scrape(&target, &mut memory, NOW, BODY);
    assert_eq!(
        came.points(),
        [
            "runtime_gc counter{a=2,zone=a} [1000..1000] 2",
            "up_since gauge{zone=a} [..1000] 3",
            "other gauge{b=x\"y,zone=a} [..1000] 4",
        ]
    );
    let came = scrape(&target, &mut memory, NOW + S, "# TYPE go_gc counter\ngo_gc{a=\"1\"} 1\n");
    assert_eq!(
        came.points(),
        [
            "runtime_gc counter{a=2,zone=a} [..1001] gone",
            "up_since gauge{zone=a} [..1001] gone",
            "other gauge{b=x\"y,zone=a} [..1001] gone",
        ]
    );
}

/// Scenario: rules match, change and remove the target's labels. Guarantee: the result follows
/// `honor_labels`; `job` and `instance` are attributes only if rules changed them.
#[test]
fn rules_see_the_labels_of_the_target() {
    let body = "a{zone=\"own\",instance=\"i\"} 1\n";
    let shown =
        |target| scrape(&target, &mut SeriesMemory::default(), NOW, body).points().join(" ");
    let copy = || set("zone", "(.*)", "copy", "$1");
    assert_eq!(
        shown(ruled(zoned(false), &[copy()])),
        "a gauge{copy=a,exported_instance=i,exported_zone=own,zone=a} [..1000] 1"
    );
    assert_eq!(
        shown(ruled(zoned(true), &[copy()])),
        "a gauge{copy=own,instance=i,zone=own} [..1000] 1"
    );
    let rules = [rule(Action::LabelDrop, &[], "(exported_)?(zone|instance)"), copy()];
    assert_eq!(shown(ruled(zoned(false), &rules)), "a gauge{} [..1000] 1");
    let rules =
        [set("job", "n(.*)", "job", "m$1"), rule(Action::LabelDrop, &[], ".*zone|.*inst.*")];
    assert_eq!(shown(ruled(zoned(false), &rules)), "a gauge{job=mode} [..1000] 1");
}

const HISTOGRAM: &str = "# TYPE h histogram\n\
                         h_bucket{x=\"1\",le=\"1\"} 1\nh_bucket{x=\"1\",le=\"2\"} 2\n\
                         h_bucket{x=\"1\",le=\"+Inf\"} 3\nh_sum{x=\"1\"} 4\nh_count{x=\"1\"} 3\n\
                         h_bucket{x=\"2\",le=\"1\"} 5\nh_bucket{x=\"2\",le=\"+Inf\"} 5\n\
                         h_sum{x=\"2\"} 6\nh_count{x=\"2\"} 5\n";

/// Scenario: rules drop or rename single lines of histograms. Guarantee: without a bucket the point
/// has one less, without any it has count and sum; without a count or `le` there is no point, and
/// the lines are counted; a completely renamed one is a histogram with its new name.
#[test]
fn single_lines_of_histograms_are_relabeled() {
    let shown = |rules: &[Rule]| {
        let came = scrape(&ruled(target(), rules), &mut SeriesMemory::default(), NOW, HISTOGRAM);
        assert_eq!(came.fault, None);
        (came.points(), came.counts.dropped)
    };
    let both = |one: &str, other: &str| {
        vec![format!("h histogram{{x=1}} {one}"), format!("h histogram{{x=2}} {other}")]
    };
    let first = "[1000..1000] count=3 sum=Some(4.0) [1.0, 2.0]/[1, 1, 1]";
    let second = "[1000..1000] count=5 sum=Some(6.0) [1.0]/[5, 0]";
    assert_eq!(shown(&[rule(Action::LabelDrop, &[], "none")]), (both(first, second), 0));
    assert_eq!(
        shown(&[rule(Action::Drop, &["le"], "1")]),
        (
            both(
                "[1000..1000] count=3 sum=Some(4.0) [2.0]/[2, 1]",
                "[1000..1000] count=5 sum=Some(6.0) []/[5]"
            ),
            0
        )
    );
    assert_eq!(
        shown(&[rule(Action::Drop, &["__name__"], ".*_bucket")]),
        (
            both(
                "[1000..1000] count=3 sum=Some(4.0) []/[]",
                "[1000..1000] count=5 sum=Some(6.0) []/[]"
            ),
            0
        )
    );
    assert_eq!(shown(&[rule(Action::Drop, &["__name__"], ".*_count")]), (Vec::new(), 7));
    assert_eq!(
        shown(&[rule(Action::LabelDrop, &[], "le")]).1,
        5,
        "buckets without a bound are left out, one by one"
    );
    let renamed = shown(&[set("x", "2", "__name__", "g")]);
    assert_eq!(renamed.0.iter().filter(|point| point.starts_with("g gauge")).count(), 3);
    assert_eq!(renamed.1, 1, "sum and count have one name then, and are one series");
    let rename = Rule {
        source_labels: vec!["__name__".to_owned(), "x".to_owned()],
        ..set("", "h(_.*);2", "__name__", "g$1")
    };
    assert_eq!(
        shown(&[rename]).0,
        [format!("h histogram{{x=1}} {first}"), format!("g histogram{{x=2}} {second}")]
    );
}

/// Scenario: rules merge two series, or remove the name. Guarantee: the second series is a
/// duplicate and counted; without a name the scrape fails, as in Prometheus.
#[test]
fn series_that_become_one_are_duplicates_and_nameless_ones_a_fault() {
    let target = ruled(common::target(), &[rule(Action::LabelDrop, &[], "a")]);
    let came = scrape(&target, &mut SeriesMemory::default(), NOW, BODY);
    assert_eq!((came.counts.samples, came.counts.dropped, came.counts.removed), (4, 1, 0));
    assert_eq!(came.points()[0], "go_gc counter{} [1000..1000] 1");
    let target = ruled(common::target(), &[rule(Action::LabelDrop, &[], "__name__")]);
    let came = scrape(&target, &mut SeriesMemory::default(), NOW, BODY);
    let said = "line 2: the job's metric rules remove `__name__`, or create a label without a name";
    assert_eq!(came.fault.unwrap().to_string(), said);
    let target = ruled(common::target(), &[rule(Action::LabelKeep, &[], "none")]);
    let came = scrape(&target, &mut SeriesMemory::default(), NOW, BODY);
    assert_eq!((came.fault, came.counts.removed), (None, 4), "without any label it is dropped");
}

/// Scenario: creation times, exemplars, `target_info` and names in UTF-8 pass rules. Guarantee: the
/// result is the same as without rules.
#[test]
fn what_belongs_to_a_sample_stays_with_it() {
    let body = "# TYPE c counter\nc_total{a=\"1\"} 5 # {trace_id=\"00\"} 1 999\nc_created{a=\"1\"} 900\n\
                # TYPE target info\ntarget_info{version=\"1\"} 1\n{\"größe.x\",\"a.b\"=\"c\\\\d\\ne\"} 2 999\n\
                # EOF\n";
    let plain = scrape_open(&zoned(false), &mut SeriesMemory::default(), NOW, body);
    let target = ruled(zoned(false), &[rule(Action::LabelDrop, &[], "none")]);
    let came = scrape_open(&target, &mut SeriesMemory::default(), NOW, body);
    assert_eq!((came.fault.clone(), came.counts.dropped), (None, 0));
    assert_eq!(came.points(), plain.points());
    assert_eq!(came.resource(), plain.resource());
    let target = ruled(zoned(false), &[set("__name__", "c_(.*)", "__name__", "d_$1")]);
    let came = scrape_open(&target, &mut SeriesMemory::default(), NOW, body);
    assert_eq!(came.points()[0], plain.points()[0].replacen('c', "d", 1));
}

/// Scenario: rules change samples and labels near the limits. Guarantee: the limits apply to the
/// result of the rules, as in Prometheus.
#[test]
fn limits_hold_for_what_rules_leave() {
    let limits = BodyLimits { samples: 2, labels: 1, ..LIMITS };
    let with = |rules: &[Rule]| {
        let target = ruled(target(), rules);
        let format = (BodyFormat::Prometheus, limits);
        let came =
            scrape_pieces(&target, &mut SeriesMemory::default(), format, NOW, &[BODY.as_bytes()]);
        came.fault.map(|fault| fault.to_string())
    };
    let drop = || rule(Action::Drop, &["__name__"], "go_.*");
    assert_eq!(with(&[drop()]), None);
    let added = [drop(), set("__name__", ".*", "new", "x")];
    let said = "line 6: it has more than 1 labels (limits.labels)";
    assert_eq!(with(&added).as_deref(), Some(said));
    let said = "line 5: there are more than 2 samples (limits.samples)";
    assert_eq!(with(&[rule(Action::Drop, &["a"], "3")]).as_deref(), Some(said));
}
