//! Statements and conditions on metrics and data points.

use millrace_processing::{ContextName, Counts, DropConditions, Step};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
    Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint,
};

use crate::requests::{attribute, compile, resource, run, scope, step, text, try_run};

fn metric(name: &str, data: Data) -> Metric {
    Metric {
        name: name.to_owned(),
        description: "d".to_owned(),
        unit: "By".to_owned(),
        data: Some(data),
        ..Default::default()
    }
}

fn number(value: Value) -> NumberDataPoint {
    NumberDataPoint {
        attributes: vec![attribute("k", text("v"))],
        time_unix_nano: 5,
        value: Some(value),
        ..Default::default()
    }
}

fn histogram_point() -> HistogramDataPoint {
    HistogramDataPoint {
        count: 3,
        sum: Some(6.5),
        bucket_counts: vec![1, 2],
        explicit_bounds: vec![0.5],
        ..Default::default()
    }
}

fn exponential_point() -> ExponentialHistogramDataPoint {
    ExponentialHistogramDataPoint {
        count: 4,
        scale: -2,
        zero_count: 1,
        positive: Some(Buckets { offset: -3, bucket_counts: vec![1, 300] }),
        ..Default::default()
    }
}

fn all() -> Vec<Metric> {
    vec![
        metric(
            "gauge",
            Data::Gauge(Gauge {
                data_points: vec![number(Value::AsDouble(1.5)), number(Value::AsInt(4))],
            }),
        ),
        metric(
            "sum",
            Data::Sum(Sum {
                data_points: vec![number(Value::AsInt(7))],
                aggregation_temporality: 2,
                is_monotonic: true,
            }),
        ),
        metric(
            "histogram",
            Data::Histogram(Histogram {
                data_points: vec![histogram_point()],
                aggregation_temporality: 1,
            }),
        ),
        metric(
            "exponential",
            Data::ExponentialHistogram(ExponentialHistogram {
                data_points: vec![exponential_point()],
                aggregation_temporality: 1,
            }),
        ),
        metric(
            "summary",
            Data::Summary(Summary {
                data_points: vec![SummaryDataPoint { count: 2, sum: 3.5, ..Default::default() }],
            }),
        ),
    ]
}

fn request(metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: resource(vec![]),
            scope_metrics: vec![ScopeMetrics {
                scope: scope("library"),
                metrics,
                ..Default::default()
            }],
            ..Default::default()
        }],
    }
}

fn run_all(context: ContextName, statements: &[&str]) -> Vec<Metric> {
    let rules = compile(vec![step(context, statements)]);
    let after = run(&rules, &request(all()));
    after.resource_metrics[0].scope_metrics[0].metrics.clone()
}

/// Scenario: statements on metrics. Guarantee: names, units, metadata, temporality and monotonicity
/// change; data points stay.
#[test]
fn metrics_are_changed() {
    let after = run_all(
        ContextName::Metric,
        &[
            "set(name, Concat([\"app\", name], \".\")) where type != METRIC_DATA_TYPE_GAUGE",
            "set(unit, \"bytes\") where unit == \"By\" and type == METRIC_DATA_TYPE_SUM",
            "set(aggregation_temporality, AGGREGATION_TEMPORALITY_DELTA) where \
         aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE",
            "set(is_monotonic, false)",
            "set(metadata[\"m\"], 1) where name == \"app.summary\"",
        ],
    );
    let mut expected = all();
    for metric in &mut expected[1..] {
        metric.name = format!("app.{}", metric.name);
    }
    expected[1].unit = "bytes".to_owned();
    expected[1].data = Some(Data::Sum(Sum {
        data_points: vec![number(Value::AsInt(7))],
        aggregation_temporality: 1,
        is_monotonic: false,
    }));
    expected[4].metadata = vec![attribute("m", crate::requests::int(1))];
    assert_eq!(after, expected);
}

/// Scenario: statements on data points of all kinds. Guarantee: fields that a kind doesn't have are
/// nil, and setting them fails without a change.
#[test]
fn data_points_are_changed() {
    let after = run_all(
        ContextName::DataPoint,
        &[
            "set(attributes[\"name\"], metric.name)",
            "set(value_double, value_double * 2) where value_double != nil and value_double > 0",
            "set(value_int, value_int + 1) where value_int == 7",
            "set(count, 10) where count == 3",
            "set(sum, 1.0) where sum == 6.5",
            "set(bucket_counts, [4, 6]) where bucket_counts == [1, 2]",
            "set(explicit_bounds, [1.5]) where explicit_bounds == [0.5]",
            "set(scale, scale - 1) where scale == -2",
            "set(positive.offset, positive.offset + 1) where positive.bucket_counts == [1, 300]",
            "set(negative.bucket_counts, [5]) where zero_count == 1",
            "set(time_unix_nano, 9) where time_unix_nano == 5",
        ],
    );
    let named = |name: &str| attribute("name", text(name));
    let mut expected = all();
    let numbers = |values: &[Value], name: &str| -> Vec<NumberDataPoint> {
        let point = |value: &Value| {
            let mut point = number(*value);
            point.attributes.push(named(name));
            point.time_unix_nano = 9;
            point
        };
        values.iter().map(point).collect()
    };
    expected[0].data = Some(Data::Gauge(Gauge {
        data_points: numbers(&[Value::AsDouble(3.0), Value::AsInt(4)], "gauge"),
    }));
    expected[1].data = Some(Data::Sum(Sum {
        data_points: numbers(&[Value::AsInt(8)], "sum"),
        aggregation_temporality: 2,
        is_monotonic: true,
    }));
    expected[2].data = Some(Data::Histogram(Histogram {
        data_points: vec![HistogramDataPoint {
            attributes: vec![named("histogram")],
            count: 10,
            sum: Some(1.0),
            bucket_counts: vec![4, 6],
            explicit_bounds: vec![1.5],
            ..Default::default()
        }],
        aggregation_temporality: 1,
    }));
    expected[3].data = Some(Data::ExponentialHistogram(ExponentialHistogram {
        data_points: vec![ExponentialHistogramDataPoint {
            attributes: vec![named("exponential")],
            scale: -3,
            positive: Some(Buckets { offset: -2, bucket_counts: vec![1, 300] }),
            negative: Some(Buckets { offset: 0, bucket_counts: vec![5] }),
            ..exponential_point()
        }],
        aggregation_temporality: 1,
    }));
    expected[4].data = Some(Data::Summary(Summary {
        data_points: vec![SummaryDataPoint {
            attributes: vec![named("summary")],
            count: 2,
            sum: 3.5,
            ..Default::default()
        }],
    }));
    assert_eq!(after, expected);
}

/// Scenario: a point's statement changes its metric. Guarantee: the metric is written once, with
/// the last value.
#[test]
fn points_change_their_metric() {
    let after = run_all(
        ContextName::DataPoint,
        &[
            "set(metric.description, String(value_int)) where value_int != nil",
            "set(metric.is_monotonic, false)",
        ],
    );
    let mut expected = all();
    expected[0].description = "4".to_owned();
    expected[1].description = "7".to_owned();
    expected[1].data = Some(Data::Sum(Sum {
        data_points: vec![number(Value::AsInt(7))],
        aggregation_temporality: 2,
        is_monotonic: false,
    }));
    assert_eq!(after, expected);
}

/// Scenario: conditions on metrics and points. Guarantee: a metric goes with its last point; all
/// points are counted.
#[test]
fn metrics_and_points_are_dropped() {
    let rules = compile(vec![Step {
        drop: Some(DropConditions {
            metrics: vec!["name == \"summary\"".to_owned()],
            data_points: vec![
                "metric.type == METRIC_DATA_TYPE_SUM".to_owned(),
                "value_double == 1.5".to_owned(),
            ],
            ..Default::default()
        }),
        ..Default::default()
    }]);
    let mut counts = Counts::default();
    let after = try_run(&rules, &request(all()), &mut counts).unwrap();
    let mut expected = all();
    expected[0].data = Some(Data::Gauge(Gauge { data_points: vec![number(Value::AsInt(4))] }));
    expected.remove(4);
    expected.remove(1);
    assert_eq!(after.resource_metrics[0].scope_metrics[0].metrics, expected);
    let dropped: Vec<u64> = counts.rules.iter().map(|rule| rule.dropped_records).collect();
    assert_eq!(dropped, [1, 1, 1]);
}
