//! Tests of each type's conversion, by hand from OpenTelemetry's "Prometheus and OpenMetrics
//! compatibility".

use common::{LIMITS, S, decode, points, scrape, scrape_open, target};
use millrace_scrape::{BodyLimits, Scrape, ScrapeReport, SeriesMemory, TargetAttributes};

use crate::common;

const NOW: u64 = 1000 * S;

fn of_text(body: &str) -> Vec<String> {
    let came = scrape(&target(), &mut SeriesMemory::default(), NOW, body);
    assert_eq!(came.fault, None);
    came.points()
}

fn of_open(body: &str) -> Vec<String> {
    let came = scrape_open(&target(), &mut SeriesMemory::default(), NOW, body);
    assert_eq!(came.fault, None);
    came.points()
}

/// Scenario: numbers have each type, and none. Guarantee: counters become monotonic sums with a
/// start; gauges, untyped and unknown ones gauges; info and state sets sums that may decrease.
#[test]
fn numbers_become_what_their_type_says() {
    let body = "# TYPE a_total counter\na_total{x=\"1\"} 5\na_total{x=\"2\"} 6\n\
                # TYPE b gauge\nb -1.5\n# TYPE c untyped\nc 3\nd{y=\"z\"} NaN\nd 1 999000\n";
    assert_eq!(
        of_text(body),
        [
            "a_total counter{x=1} [1000..1000] 5",
            "a_total counter{x=2} [1000..1000] 6",
            "b gauge{} [..1000] -1.5",
            "c gauge{} [..1000] 3",
            "d gauge{y=z} [..1000] NaN",
            "d gauge{} [..999] 1",
        ]
    );
    let body = "# TYPE a counter\na_total 5\n# TYPE b info\nb_info{v=\"1\"} 1\n\
                # TYPE c stateset\nc{c=\"on\"} 1\n# TYPE d unknown\nd 2 999.5\n# EOF\n";
    assert_eq!(
        of_open(body),
        [
            "a_total counter{} [1000..1000] 5",
            "b_info sum{v=1} [1000..1000] 1",
            "c sum{c=on} [1000..1000] 1",
            "d gauge{} [..999.5] 2",
        ]
    );
}

/// Scenario: families have metadata. Guarantee: help becomes the description, the unit a UCUM code,
/// the type an entry of the metadata; each applies only to its own family.
#[test]
fn metadata_stays_with_its_family() {
    let body = "# HELP a_seconds It\\nis \\\\ so.\n# TYPE a_seconds gauge\n# UNIT a_seconds seconds\n\
                a_seconds 1\n# TYPE b_bytes_per_second gauge\n# UNIT b_bytes_per_second \
                bytes_per_second\nb_bytes_per_second 1\n# TYPE c gauge\nc 1\n# EOF\n";
    let came = scrape_open(&target(), &mut SeriesMemory::default(), NOW, body);
    let request = decode(&came.requests[0].bytes);
    let scope = &request.resource_metrics[0].scope_metrics[0];
    assert_eq!(scope.scope.as_ref().unwrap().name, "millrace/prometheus");
    let said = |place: usize| {
        let one = &scope.metrics[place];
        (one.name.as_str(), one.description.as_str(), one.unit.as_str())
    };
    assert_eq!(said(0), ("a_seconds", "It\nis \\ so.", "s"));
    assert_eq!(said(1), ("b_bytes_per_second", "", "By/s"));
    assert_eq!(said(2), ("c", "", ""));
    assert_eq!(scope.metrics[0].metadata[0].key, "prometheus.type");
}

const HISTOGRAM: &str = "# TYPE h histogram\n\
    h_bucket{p=\"/\",le=\"0.1\"} 1\nh_bucket{p=\"/\",le=\"1\"} 3\nh_bucket{p=\"/\",le=\"+Inf\"} 4\n\
    h_sum{p=\"/\"} 2.5\nh_count{p=\"/\"} 4\n";

/// Scenario: one histogram has its lines in the usual order; two have them by kind of line; one
/// lacks a sum. Guarantee: each becomes one point, with counts between bounds.
#[test]
fn a_histograms_lines_become_one_point() {
    let whole = "h histogram{p=/} [1000..1000] count=4 sum=Some(2.5) [0.1, 1.0]/[1, 2, 1]";
    assert_eq!(of_text(HISTOGRAM), [whole]);
    let mixed = "# TYPE h histogram\nh_bucket{p=\"/\",le=\"1\"} 3\nh_bucket{p=\"/\",le=\"0.1\"} 1\n\
        h_bucket{le=\"1\"} 7\nh_bucket{p=\"/\",le=\"+Inf\"} 4\nh_sum{p=\"/\"} 2.5\nh_sum 1\n\
        h_count{p=\"/\"} 4\nh_count 9\n";
    let other = "h histogram{} [1000..1000] count=9 sum=Some(1.0) [1.0]/[7, 2]";
    assert_eq!(of_text(mixed), [whole, other]);
    let no_sum = "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 4\nh_count 4\n# TYPE g gauge\ng 1\n";
    let without = "h histogram{} [1000..1000] count=4 sum=None []/[4]";
    assert_eq!(of_text(no_sum), [without, "g gauge{} [..1000] 1"]);
}

/// Scenario: histograms lack a count, have decreasing counts, or the same bound twice; a gauge
/// histogram; a duplicate sample. Guarantee: each is skipped, and its lines are counted.
#[test]
fn what_is_no_point_is_counted() {
    let body = "# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\n\
        # TYPE b histogram\nb_bucket{le=\"1\"} 5\nb_bucket{le=\"2\"} 3\nb_sum 1\nb_count 5\n\
        # TYPE c histogram\nc_bucket{le=\"1\"} 1\nc_bucket{le=\"1.0\"} 1\nc_sum 1\nc_count 1\n\
        # TYPE d summary\nd_sum 1\n# TYPE e gaugehistogram\ne_bucket{le=\"1\"} 1\ne_gcount 1\n\
        # TYPE f gauge\nf{x=\"1\",y=\"2\"} 1\nf{y=\"2\",x=\"1\"} 2\nf -1 -5\n";
    let came = scrape(&target(), &mut SeriesMemory::default(), NOW, body);
    assert_eq!(came.points(), ["f gauge{x=1,y=2} [..1000] 1"]);
    assert_eq!((came.counts.samples, came.counts.dropped), (16, 15));
}

/// Scenario: a summary has quantiles or none. Guarantee: each becomes one point.
#[test]
fn a_summarys_lines_become_one_point() {
    let body = "# TYPE s summary\ns{quantile=\"0.5\"} 0.25\ns{quantile=\"0.99\"} 2\ns_sum 9\ns_count \
                3\ns_sum{x=\"y\"} 1\ns_count{x=\"y\"} 2\n";
    assert_eq!(
        of_text(body),
        [
            "s summary{} [1000..1000] count=3 sum=9 [(0.5, 0.25), (0.99, 2.0)]",
            "s summary{x=y} [1000..1000] count=2 sum=1 []",
        ]
    );
}

/// Scenario: OpenMetrics has creation times after a counter, in a histogram, in a summary.
/// Guarantee: they are the points' start times, also in the next scrape.
#[test]
fn times_of_creation_are_beginnings() {
    let body = "# TYPE a counter\na_total{x=\"1\"} 5\na_created{x=\"1\"} 900.5\na_total{x=\"2\"} 5\n\
        # TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_count 1\nh_sum 1\nh_created 800\n\
        # TYPE s summary\ns_count 1\ns_sum 1\ns_created 700\n# EOF\n";
    let mut memory = SeriesMemory::default();
    for (time, first) in [(1000, 1000), (1015, 1000)] {
        let came = scrape_open(&target(), &mut memory, time * S, body);
        assert_eq!(
            came.points(),
            [
                format!("a_total counter{{x=1}} [900.5..{time}] 5"),
                format!("a_total counter{{x=2}} [{first}..{time}] 5"),
                format!("h histogram{{}} [800..{time}] count=1 sum=Some(1.0) []/[1]"),
                format!("s summary{{}} [700..{time}] count=1 sum=1 []"),
            ]
        );
        assert_eq!(came.counts.dropped, 0);
    }
}

/// Scenario: a counter and buckets have exemplars, with and without ids. Guarantee: ids, time and
/// other labels are retained.
#[test]
fn exemplars_stay_with_their_points() {
    let body = "# TYPE a counter\n\
        a_total 5 # {trace_id=\"0102030405060708090a0b0c0d0e0f10\",span_id=\"0102030405060708\",\
        k=\"v\"} 0.5 999.25\n# TYPE h histogram\nh_bucket{le=\"1\"} 1 # {trace_id=\"short\"} 0.7\n\
        h_bucket{le=\"+Inf\"} 2 # {} 3 998\nh_count 2\nh_sum 1\n# EOF\n";
    assert_eq!(
        of_open(body),
        [
            "a_total counter{} [1000..1000] 5 \
             <999.25 0.5 k=v 0102030405060708090a0b0c0d0e0f10/0102030405060708>",
            "h histogram{} [1000..1000] count=2 sum=Some(1.0) [1.0]/[1, 1] \
             <1000 0.7 trace_id=short /> <998 3  />",
        ]
    );
}

/// Scenario: a target has labels, and `target_info` at its body's end. Guarantee: both become
/// attributes of the resource; `target_info` is no metric; the scrape's own series exist.
#[test]
fn a_target_is_a_resource() {
    let labels = vec![("env".to_owned(), "prod".to_owned())];
    let target = TargetAttributes::new("shop", ("https", "[::1]", 8080), labels, false, true);
    let body = "a 1\n# TYPE target_info gauge\ntarget_info{job=\"x\",k8s_pod=\"p\",e=\"\"} 1\n";
    let came = scrape(&target, &mut SeriesMemory::default(), NOW, body);
    assert_eq!(
        came.resource(),
        [
            "service.name=shop",
            "service.instance.id=[::1]:8080",
            "server.address=::1",
            "url.scheme=https",
            "server.port=8080",
            "k8s_pod=p",
        ]
    );
    assert_eq!(
        came.all_points(),
        [
            "a gauge{env=prod} [..1000] 1",
            "up gauge{env=prod} [..1000] 1",
            "scrape_duration_seconds gauge{env=prod} [..1000] 0.5",
            "scrape_samples_scraped gauge{env=prod} [..1000] 2",
            "scrape_samples_post_metric_relabeling gauge{env=prod} [..1000] 2",
            "scrape_series_added gauge{env=prod} [..1000] 1",
        ]
    );
}

/// Scenario: scraped labels have the names of the target's. Guarantee: the target's take
/// precedence, and the others are exported; if labels are honored, only the scraped ones exist.
#[test]
fn labels_meet_as_the_settings_say() {
    let labels = vec![("env".to_owned(), "prod".to_owned()), ("zone".to_owned(), "a".to_owned())];
    let body = "a{env=\"x\",exported_env=\"y\",job=\"z\",e=\"\"} 1\nb{v=\"q\\\"\\n\\\\\\x\"} 1\n";
    let points = |honors| {
        let target = TargetAttributes::new("j", ("http", "h", 1), labels.clone(), honors, true);
        scrape(&target, &mut SeriesMemory::default(), NOW, body).points()
    };
    let other = "b gauge{v=q\"\n\\\\x,env=prod,zone=a} [..1000] 1";
    assert_eq!(
        points(false),
        [
            "a gauge{exported_exported_env=x,exported_env=y,exported_job=z,env=prod,zone=a} \
             [..1000] 1",
            other,
        ]
    );
    let kept = "a gauge{env=x,exported_env=y,job=z,zone=a} [..1000] 1";
    assert_eq!(points(true), [kept, other]);
}

/// Scenario: a sample has empty values for the target's labels, as from a Pushgateway, alongside
/// one without them. Guarantee: if labels are honored it has none of them, and overrides those of
/// the resource; both are separate series, and each ends separately. Otherwise it has the target's
/// labels.
#[test]
fn an_empty_label_takes_the_targets_away_where_labels_are_honored() {
    let labels = vec![("env".to_owned(), "prod".to_owned()), ("zone".to_owned(), "a".to_owned())];
    let body = "a{instance=\"\",env=\"\",x=\"1\"} 1\na{x=\"1\"} 2\n";
    let target =
        |honors| TargetAttributes::new("j", ("http", "h", 1), labels.clone(), honors, true);
    let honored = target(true);
    let mut memory = SeriesMemory::default();
    let points = scrape(&honored, &mut memory, NOW, body).points();
    let bare = "a gauge{instance=,x=1,zone=a}";
    let whole = "a gauge{x=1,env=prod,zone=a}";
    assert_eq!(points, [format!("{bare} [..1000] 1"), format!("{whole} [..1000] 2")]);
    let points = scrape(&honored, &mut memory, NOW + S, "a{x=\"1\"} 2\n").points();
    assert_eq!(points, [format!("{whole} [..1001] 2"), format!("{bare} [..1001] gone")]);
    let points = scrape(&target(false), &mut SeriesMemory::default(), NOW, body).points();
    assert_eq!(points, [format!("{whole} [..1000] 1")]);
}

/// Scenario: a response is truncated; a body has a fault in its third line; one has two samples
/// more than its limit; one is too long. Guarantee: the scrape's own series equal Prometheus':
/// samples before a fault, all samples if there are too many, and none of an incomplete body.
#[test]
fn a_failed_scrape_tells_what_prometheus_tells_of_it() {
    let told = |limits, body: &str, comes_to_its_end: bool| {
        let (target, mut memory) = (target(), SeriesMemory::default());
        let mut scrape = Scrape::new(&target, &mut memory, limits, NOW, Box::default());
        let fed = scrape.feed(body.as_bytes());
        if comes_to_its_end {
            fed.and_then(|_| scrape.end_body()).unwrap_err();
        }
        scrape.mark_failed();
        assert!(scrape.write_remaining(&ScrapeReport { duration_seconds: 0.5 }));
        let points = points(&scrape.take_request().unwrap().bytes);
        let last = |line: &String| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        points.iter().map(last).collect::<Vec<_>>()
    };
    // up, duration, scraped, after rules, added.
    let body = "a 1\nb 1\nc 1\nd 1\n";
    assert_eq!(told(LIMITS, body, false), [0.0, 0.5, 0.0, 0.0, 0.0]);
    assert_eq!(told(LIMITS, "a 1\nb 1\n}\nd 1\n", true), [0.0, 0.5, 2.0, 2.0, 2.0]);
    assert_eq!(told(BodyLimits { samples: 2, ..LIMITS }, body, true), [0.0, 0.5, 4.0, 4.0, 2.0]);
    assert_eq!(told(BodyLimits { body_bytes: 9, ..LIMITS }, body, true), [0.0, 0.5, 0.0, 0.0, 0.0]);
}

/// Scenario: a body has times that aren't honored. Guarantee: points have the scrape's time.
#[test]
fn times_are_honored_only_if_asked_for() {
    let target = TargetAttributes::new("j", ("http", "h", 1), Vec::new(), false, false);
    let came = scrape(&target, &mut SeriesMemory::default(), NOW, "a 1 5\n");
    assert_eq!(came.points(), ["a gauge{} [..1000] 1"]);
}

/// Scenario: names are quoted UTF-8. Guarantee: they are unchanged.
#[test]
fn quoted_names_are_kept() {
    let body = "# TYPE \"a.b\" counter\n{\"a.b\",\"c d\"=\"é\"} 1\n";
    assert_eq!(of_text(body), ["a.b counter{c d=é} [1000..1000] 1"]);
}

/// Scenario: samples have times just within and just beyond ten minutes ahead of their scrape, as
/// of a target with a wrong clock; in each text format, and as parts of a histogram. Guarantee:
/// those beyond are skipped and counted, as in Prometheus; if times aren't honored, none is.
#[test]
fn samples_far_ahead_of_their_scrape_are_left_out() {
    let body = "near 1 1600000\nfar 2 1600001\nplain 3\n";
    let came = scrape(&target(), &mut SeriesMemory::default(), NOW, body);
    assert_eq!(came.points(), ["near gauge{} [..1600] 1", "plain gauge{} [..1000] 3"]);
    assert_eq!((came.counts.samples, came.counts.dropped), (3, 1));
    let open = "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2 1601\nh_count 2 1601\nh_sum 1 1601\n\
                # TYPE far gauge\nfar 2 1e12\n# EOF\n";
    let came = scrape_open(&target(), &mut SeriesMemory::default(), NOW, open);
    assert_eq!(came.points(), [""; 0]);
    assert_eq!((came.counts.samples, came.counts.dropped), (4, 4));
    let now = TargetAttributes::new("j", ("http", "h", 1), Vec::new(), false, false);
    let came = scrape(&now, &mut SeriesMemory::default(), NOW, body);
    assert_eq!((came.points().len(), came.counts.dropped), (3, 0));
}

/// Scenario: a series first has the times of its scrapes, then times far ahead. Guarantee: the
/// check also covers expected lines.
#[test]
fn a_known_series_is_left_out_when_its_time_runs_ahead() {
    let mut memory = SeriesMemory::default();
    for turn in 0..3 {
        let now = NOW + turn * S;
        let body = format!("a 1 {}\nb 1\n", now / 1_000_000);
        assert_eq!(scrape(&target(), &mut memory, now, &body).counts.dropped, 0);
    }
    let came = scrape(&target(), &mut memory, NOW + 3 * S, "a 1 9000000000000\nb 1\n");
    assert_eq!(came.counts.dropped, 1);
    assert_eq!(came.points()[0], "b gauge{} [..1003] 1");
}

/// Scenario: samples have times just within and just beyond 30 days before their scrape, and time
/// 0, alongside good ones: as numbers, as parts of a histogram, and in a series that had its
/// scrapes' times. Guarantee: those beyond are skipped and counted, the others are present.
#[test]
fn samples_too_old_for_their_scrape_are_left_out() {
    const DAY: u64 = 86_400 * S;
    let now = 1_000 * DAY;
    let millis = |nanos: u64| nanos / 1_000_000;
    let (within, beyond) = (millis(now - 30 * DAY), millis(now - 30 * DAY) - 1);
    let body = format!("near 1 {within}\nold 2 {beyond}\nzero 2 0\nplain 3\n");
    let came = scrape(&target(), &mut SeriesMemory::default(), now, &body);
    let expected = ["near gauge{} [..83808000] 1", "plain gauge{} [..86400000] 3"];
    assert_eq!(came.points(), expected);
    assert_eq!((came.counts.samples, came.counts.dropped), (4, 2));

    let histogram = format!(
        "# TYPE h histogram\nh_bucket{{le=\"+Inf\"}} 2 {beyond}\nh_count 2 {beyond}\nh_sum 1 {beyond}\n"
    );
    let came = scrape(&target(), &mut SeriesMemory::default(), now, &histogram);
    assert_eq!((came.points().len(), came.counts.dropped), (0, 3));

    let mut memory = SeriesMemory::default();
    for turn in 0..3 {
        let body = format!("a 1 {}\nb 1\n", millis(now + turn * S));
        assert_eq!(scrape(&target(), &mut memory, now + turn * S, &body).counts.dropped, 0);
    }
    let came = scrape(&target(), &mut memory, now + 3 * S, &format!("a 1 {beyond}\nb 1\n"));
    assert_eq!(came.counts.dropped, 1);
    assert_eq!(came.points()[0], "b gauge{} [..86400003] 1");
}
