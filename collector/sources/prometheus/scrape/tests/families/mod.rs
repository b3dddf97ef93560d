//! Messages of `io.prometheus.client`, as its clients write them.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Family {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) help: Option<String>,
    #[prost(int32, optional, tag = "3")]
    pub(crate) r#type: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) metric: Vec<Metric>,
    #[prost(string, optional, tag = "5")]
    pub(crate) unit: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metric {
    #[prost(message, repeated, tag = "1")]
    pub(crate) label: Vec<Label>,
    #[prost(message, optional, tag = "2")]
    pub(crate) gauge: Option<Gauge>,
    #[prost(message, optional, tag = "3")]
    pub(crate) counter: Option<Counter>,
    #[prost(message, optional, tag = "4")]
    pub(crate) summary: Option<Summary>,
    #[prost(message, optional, tag = "5")]
    pub(crate) untyped: Option<Gauge>,
    #[prost(int64, optional, tag = "6")]
    pub(crate) timestamp_ms: Option<i64>,
    #[prost(message, optional, tag = "7")]
    pub(crate) histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Label {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) value: Option<String>,
}

/// Also used for untyped metrics.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Gauge {
    #[prost(double, optional, tag = "1")]
    pub(crate) value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Counter {
    #[prost(double, optional, tag = "1")]
    pub(crate) value: Option<f64>,
    #[prost(message, optional, tag = "2")]
    pub(crate) exemplar: Option<Exemplar>,
    #[prost(message, optional, tag = "3")]
    pub(crate) created_timestamp: Option<Time>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Summary {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub(crate) sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) quantile: Vec<Quantile>,
    #[prost(message, optional, tag = "4")]
    pub(crate) created_timestamp: Option<Time>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Quantile {
    #[prost(double, optional, tag = "1")]
    pub(crate) quantile: Option<f64>,
    #[prost(double, optional, tag = "2")]
    pub(crate) value: Option<f64>,
}

/// Its numbers are not packed, as in the second version of the language.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) sample_count: Option<u64>,
    #[prost(double, optional, tag = "4")]
    pub(crate) sample_count_float: Option<f64>,
    #[prost(double, optional, tag = "2")]
    pub(crate) sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) bucket: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    pub(crate) schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    pub(crate) zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    pub(crate) zero_count: Option<u64>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) negative_span: Vec<Span>,
    #[prost(sint64, repeated, packed = "false", tag = "10")]
    pub(crate) negative_delta: Vec<i64>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) positive_span: Vec<Span>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    pub(crate) positive_delta: Vec<i64>,
    #[prost(message, optional, tag = "15")]
    pub(crate) created_timestamp: Option<Time>,
    #[prost(message, repeated, tag = "16")]
    pub(crate) exemplars: Vec<Exemplar>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub(crate) upper_bound: Option<f64>,
    #[prost(message, optional, tag = "3")]
    pub(crate) exemplar: Option<Exemplar>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Span {
    #[prost(sint32, optional, tag = "1")]
    pub(crate) offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    pub(crate) length: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Exemplar {
    #[prost(message, repeated, tag = "1")]
    pub(crate) label: Vec<Label>,
    #[prost(double, optional, tag = "2")]
    pub(crate) value: Option<f64>,
    #[prost(message, optional, tag = "3")]
    pub(crate) timestamp: Option<Time>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Time {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(crate) nanos: i32,
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> Vec<Label> {
    let one = |(name, value): &(&str, &str)| Label {
        name: Some((*name).to_owned()),
        value: Some((*value).to_owned()),
    };
    pairs.iter().map(one).collect()
}

/// Encodes families, each after its length.
pub(crate) fn body(families: &[Family]) -> Vec<u8> {
    families.iter().flat_map(Message::encode_length_delimited_to_vec).collect()
}
