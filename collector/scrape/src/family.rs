//! A metric family: what its lines of metadata say, and what a sample's name means in it.

use crate::encode::unescape;
use crate::limits::{DESCRIPTION_BYTES_MAX, FaultKind};
use crate::memory::Kind;

/// A family's type.
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
    pub(crate) fn of(text: &[u8]) -> Result<Self, FaultKind> {
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

    /// Its name, as `prometheus.type` has it.
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

/// What a sample is in its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A point of its own.
    Point,
    Bucket,
    Quantile,
    Sum,
    Count,
    Created,
    /// Of a type that OTLP doesn't have.
    Dropped,
    /// It isn't of this family.
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
    /// Begins another one, of which nothing is known but the name.
    pub(crate) fn begin(&mut self, name: &[u8]) {
        self.name.clear();
        self.name.extend_from_slice(name);
        self.type_ = Type::Unknown;
        self.description.clear();
        self.unit.clear();
    }

    /// Takes over another one's type, description and unit.
    pub(crate) fn take_metadata(&mut self, other: &Self) {
        self.type_ = other.type_;
        self.description.clone_from(&other.description);
        self.unit.clone_from(&other.unit);
    }

    /// What a sample of it that is a number of its own is written as.
    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        match self.type_ {
            Type::Counter => Kind::Counter,
            Type::Info | Type::StateSet => Kind::Sum,
            _ => Kind::Gauge,
        }
    }

    /// Takes a text of help: as much of it as is kept.
    pub(crate) fn describe(&mut self, text: &[u8]) {
        self.description.clear();
        unescape(text, &mut self.description);
        self.cut_description();
    }

    /// Takes a text of help without escapes.
    pub(crate) fn describe_plain(&mut self, text: &[u8]) {
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

    /// Takes a unit, as OpenTelemetry writes it.
    pub(crate) fn measure(&mut self, text: &[u8]) {
        self.unit = unit(text);
    }

    /// What a sample's name means. `has_created`: whether the format has times of creation.
    pub(crate) fn role(&self, name: &[u8], has_created: bool) -> Role {
        let Some(suffix) = name.strip_prefix(&self.name[..]) else { return Role::Foreign };
        match (self.type_, suffix) {
            (Type::Histogram, b"_bucket") => Role::Bucket,
            (Type::Histogram | Type::Summary, b"_sum") => Role::Sum,
            (Type::Histogram | Type::Summary, b"_count") => Role::Count,
            (Type::Histogram, b"") => Role::Foreign,
            (Type::Summary, b"") => Role::Quantile,
            (Type::Counter | Type::Histogram | Type::Summary, b"_created") if has_created => {
                Role::Created
            }
            (Type::GaugeHistogram, b"_bucket" | b"_gsum" | b"_gcount") => Role::Dropped,
            (Type::Counter, b"" | b"_total") | (Type::Info, b"" | b"_info") => Role::Point,
            (Type::Unknown | Type::Gauge | Type::StateSet, b"") => Role::Point,
            _ => Role::Foreign,
        }
    }
}

/// A unit in words as a code of UCUM: `seconds` as `s`, `bytes_per_second` as `By/s`. An unknown
/// word is kept.
fn unit(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let words = text.trim_end().split("_per_").enumerate();
    let codes: Vec<_> = words.map(|(place, word)| code(word, place > 0)).collect();
    codes.join("/").into_bytes()
}

fn code(word: &str, is_below: bool) -> &str {
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
