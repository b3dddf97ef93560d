//! A metric family: its metadata, and the roles of its samples' names.

use crate::limits::{DESCRIPTION_BYTES_MAX, FaultKind};
use crate::otlp::encode::append_unescaped;
use crate::series_kind::SeriesKind;

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Type {
    #[default]
    Unknown,
    Counter,
    Gauge,
    Histogram,
    Summary,
    Info,
    StateSet,
    GaugeHistogram,
}

impl Type {
    pub(crate) fn from_name(text: &[u8]) -> Result<Self, FaultKind> {
        Ok(match text {
            b"counter" => Self::Counter,
            b"gauge" => Self::Gauge,
            b"histogram" => Self::Histogram,
            b"summary" => Self::Summary,
            b"untyped" | b"unknown" => Self::Unknown,
            b"info" => Self::Info,
            b"stateset" => Self::StateSet,
            b"gaugehistogram" => Self::GaugeHistogram,
            _ => return Err(FaultKind::Type),
        })
    }

    /// Returns its name in `prometheus.type`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
            Self::Info => "info",
            Self::StateSet => "stateset",
            Self::GaugeHistogram => "gaugehistogram",
        }
    }
}

/// The role of a sample in its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SampleRole {
    /// A separate point.
    Point,
    Bucket,
    Quantile,
    Sum,
    Count,
    Created,
    /// A sample of a type that OTLP doesn't have.
    Dropped,
    /// A sample of another family.
    Foreign,
}

/// The family whose lines are being read.
#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) name: Vec<u8>,
    pub(crate) type_: Type,
    pub(crate) description: Vec<u8>,
    pub(crate) unit: Vec<u8>,
}

impl Family {
    /// Begins another family, of which only the name is known.
    pub(crate) fn begin_family(&mut self, name: &[u8]) {
        self.name.clear();
        self.name.extend_from_slice(name);
        self.type_ = Type::Unknown;
        self.description.clear();
        self.unit.clear();
    }

    /// Copies another family's type, description and unit.
    pub(crate) fn copy_metadata(&mut self, other: &Self) {
        self.type_ = other.type_;
        self.description.clone_from(&other.description);
        self.unit.clone_from(&other.unit);
    }

    /// Returns the kind of series of samples that are points.
    #[inline]
    pub(crate) fn number_kind(&self) -> SeriesKind {
        match self.type_ {
            Type::Counter => SeriesKind::Counter,
            Type::Info | Type::StateSet => SeriesKind::Sum,
            _ => SeriesKind::Gauge,
        }
    }

    /// Sets the description from a help text, truncated to the limit.
    pub(crate) fn set_help(&mut self, text: &[u8]) {
        self.description.clear();
        append_unescaped(text, &mut self.description);
        self.cut_description();
    }

    /// Sets the description from a help text without escapes.
    pub(crate) fn set_plain_help(&mut self, text: &[u8]) {
        self.description.clear();
        self.description.extend_from_slice(text);
        self.cut_description();
    }

    fn cut_description(&mut self) {
        if self.description.len() > DESCRIPTION_BYTES_MAX {
            let is_inner = |byte: &u8| byte & 0xc0 == 0x80;
            let mut end = DESCRIPTION_BYTES_MAX;
            while self.description.get(end).is_some_and(is_inner) {
                end -= 1;
            }
            self.description.truncate(end);
        }
    }

    /// Sets the unit, as OpenTelemetry writes it.
    pub(crate) fn set_unit(&mut self, text: &[u8]) {
        self.unit = ucum_unit(text);
    }

    /// Returns the role of a sample's name. `has_created`: the format has creation times.
    pub(crate) fn role_of(&self, name: &[u8], has_created: bool) -> SampleRole {
        let Some(suffix) = name.strip_prefix(&self.name[..]) else { return SampleRole::Foreign };
        match (self.type_, suffix) {
            (Type::Histogram, b"_bucket") => SampleRole::Bucket,
            (Type::Histogram | Type::Summary, b"_sum") => SampleRole::Sum,
            (Type::Histogram | Type::Summary, b"_count") => SampleRole::Count,
            (Type::Histogram, b"") => SampleRole::Foreign,
            (Type::Summary, b"") => SampleRole::Quantile,
            (Type::Counter | Type::Histogram | Type::Summary, b"_created") if has_created => {
                SampleRole::Created
            }
            (Type::GaugeHistogram, b"_bucket" | b"_gsum" | b"_gcount") => SampleRole::Dropped,
            (Type::Counter, b"" | b"_total") | (Type::Info, b"" | b"_info") => SampleRole::Point,
            (Type::Unknown | Type::Gauge | Type::StateSet, b"") => SampleRole::Point,
            _ => SampleRole::Foreign,
        }
    }
}

/// Converts a unit in words to UCUM: `seconds` to `s`, `bytes_per_second` to `By/s`. Unknown words
/// stay.
fn ucum_unit(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let words = text.trim_end().split("_per_").enumerate();
    let codes: Vec<_> = words.map(|(index, word)| ucum_code(word, index > 0)).collect();
    codes.join("/").into_bytes()
}

fn ucum_code(word: &str, is_below: bool) -> &str {
    match word {
        "days" => "d",
        "hours" => "h",
        "minutes" => "min",
        "seconds" => "s",
        "milliseconds" => "ms",
        "microseconds" => "us",
        "nanoseconds" => "ns",
        "bytes" => "By",
        "kibibytes" => "KiBy",
        "mebibytes" => "MiBy",
        "gibibytes" => "GiBy",
        "tibibytes" => "TiBy",
        "kilobytes" => "KBy",
        "megabytes" => "MBy",
        "gigabytes" => "GBy",
        "terabytes" => "TBy",
        "meters" => "m",
        "volts" => "V",
        "amperes" => "A",
        "joules" => "J",
        "watts" => "W",
        "grams" => "g",
        "celsius" => "Cel",
        "hertz" => "Hz",
        "ratio" => "1",
        "percent" => "%",
        "second" if is_below => "s",
        "minute" if is_below => "min",
        "hour" if is_below => "h",
        "day" if is_below => "d",
        "week" if is_below => "wk",
        "month" if is_below => "mo",
        "year" if is_below => "a",
        other => other,
    }
}
