//! Converters.

use regex::Regex;

use crate::ottl::functions::strptime::TimeLayout;
use crate::program::{Expr, TextFn};

/// A call of a converter.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// `ConvertCase`, `SHA256` and others from text to text.
    Text(TextFn, Expr),
    Concat {
        values: Vec<Expr>,
        delimiter: Expr,
    },
    /// `Concat` of a list that is computed.
    ConcatList {
        list: Expr,
        delimiter: Expr,
    },
    Split {
        target: Expr,
        delimiter: Expr,
    },
    Substring {
        target: Expr,
        start: Expr,
        length: Expr,
    },
    /// `TrimPrefix`, `TrimSuffix`.
    TrimAffix {
        affix: Affix,
        target: Expr,
        text: Expr,
    },
    /// `HasPrefix`, `HasSuffix`.
    HasAffix {
        affix: Affix,
        target: Expr,
        text: Expr,
    },
    Trim {
        target: Expr,
        characters: Vec<char>,
    },
    Index {
        target: Expr,
        value: Expr,
    },
    Fnv(Expr),
    Hex(Expr),
    Base64Encode {
        target: Expr,
        is_url: bool,
        is_padded: bool,
    },
    Base64Decode(Expr),
    IsMatch {
        target: Expr,
        pattern: Regex,
    },
    IsType(TypeName, Expr),
    IsRootSpan,
    Int(Expr),
    Double(Expr),
    String(Expr),
    Bool(Expr),
    ParseInt {
        target: Expr,
        base: Expr,
    },
    Len(Expr),
    ParseJson(Expr),
    ExtractPatterns {
        target: Expr,
        pattern: Regex,
    },
    Time {
        target: Expr,
        layout: TimeLayout,
    },
    /// A time of seconds and nanoseconds since 1970.
    Unix {
        seconds: Expr,
        nanos: Option<Expr>,
    },
    /// Time since 1970 in units of so many nanoseconds.
    UnixNanos {
        target: Expr,
        unit: i64,
    },
    DatePart(DatePart, Expr),
    Coalesce(Vec<Expr>),
    ContainsValue {
        target: Expr,
        item: Expr,
    },
    Keys(Expr),
    Values(Expr),
    TraceId(Expr),
    SpanId(Expr),
}

/// An end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Affix {
    Prefix,
    Suffix,
}

/// The types that `IsString` and others test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeName {
    String,
    Int,
    Double,
    Bool,
    Map,
    List,
}

/// The parts of a time in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatePart {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Nanosecond,
    Weekday,
}
