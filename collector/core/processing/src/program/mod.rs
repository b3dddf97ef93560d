//! Compiled rules: what a run executes.

pub(crate) mod call;
pub(crate) mod editor;
pub(crate) mod pass;
pub(crate) mod step;
pub(crate) mod text_fn;

pub(crate) use call::{Affix, Call, DatePart, TypeName};
pub(crate) use editor::{Editor, Replace, Strategy};
pub(crate) use pass::{Pass, PassAction, Unit, Usage};
pub(crate) use step::{EnrichStep, RedactStep, SampleStep};
pub(crate) use text_fn::TextFn;

use crate::edit::memory::Ref;
use crate::ottl::context::{SHAPES, StatementContext};
pub(crate) use crate::ottl::parser::syntax::{CompareOp, MathOp};
use crate::value::Value;

/// How a field is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Attributes, or another map with text keys.
    Map,
    /// A log record's body: any value.
    Body,
    /// The body as text.
    BodyText,
    Text,
    /// One member of a trace state. It is read only.
    TraceStateKey,
    Uint32,
    Int32,
    Sint32,
    Fixed32,
    /// `fixed32` in whose range a number has to be.
    Flags,
    /// `fixed64` as a number.
    Fixed64,
    Double,
    /// A time as nanoseconds.
    TimeNanos,
    Time,
    TraceId,
    TraceIdText,
    SpanId,
    SpanIdText,
    /// A span's kind as `Server`.
    SpanKindText,
    /// A span's kind as `SPAN_KIND_SERVER`.
    SpanKindName,
    StatusCode,
    StatusMessage,
    SchemaUrl,
    EventIndex,
    MetricType,
    Temporality,
    Monotonic,
    ValueDouble,
    ValueInt,
    /// Packed `fixed64`.
    BucketCounts,
    /// Packed `double`.
    Bounds,
    /// A member of an exponential histogram's buckets.
    BucketsOffset,
    BucketsCounts,
    /// Repeated messages, of which only the number is read.
    Messages,
}

impl Kind {
    /// Whether keys may follow the path.
    pub(crate) const fn takes_keys(self) -> bool {
        matches!(self, Self::Map | Self::Body)
    }

    /// Whether rules can set the field.
    pub(crate) const fn is_settable(self) -> bool {
        !matches!(self, Self::EventIndex | Self::MetricType | Self::Messages | Self::TraceStateKey)
    }
}

/// A path to a field or into one.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) context: StatementContext,
    pub(crate) kind: Kind,
    pub(crate) numbers: [u32; SHAPES],
    pub(crate) keys: Vec<Key>,
}

/// A key of a map, or an index of a list.
#[derive(Clone, Debug)]
pub(crate) enum Key {
    Text(Ref),
    Index(i64),
    Computed(Expr),
}

/// A value that is computed for each object.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    /// A constant, and its `AnyValue` message.
    Const(Value, Ref),
    Path(Box<Path>),
    Call(Box<Call>),
    /// A member of a converter's result.
    Member(Box<Expr>, Vec<Key>),
    Math(MathOp, Box<Expr>, Box<Expr>),
    Negative(Box<Expr>),
    List(Vec<Expr>),
    Map(Vec<(Ref, Expr)>),
}

/// A compiled condition.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Const(bool),
    Call(Expr),
    Compare(CompareOp, Expr, Expr),
    /// Whether an attribute has a value, which is the most usual condition.
    Attribute(AttributeTest),
    Not(Box<Condition>),
    And(Vec<Condition>),
    Or(Vec<Condition>),
}

/// Compares an attribute with a constant that is text, a whole number, a truth value or nil.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttributeTest {
    pub(crate) context: StatementContext,
    pub(crate) key: Ref,
    pub(crate) value: Value,
    /// The constant's `AnyValue` message.
    pub(crate) any: Ref,
    /// Whether the test is true for an equal value.
    pub(crate) is_equal: bool,
}

impl AttributeTest {
    /// Returns the test that a comparison is, if it is one.
    pub(crate) fn from_comparison(op: CompareOp, left: &Expr, right: &Expr) -> Option<Self> {
        let (path, value, any) = match (left, right) {
            (Expr::Path(path), Expr::Const(value, any))
            | (Expr::Const(value, any), Expr::Path(path)) => (path, *value, *any),
            _ => return None,
        };
        let is_equal = match op {
            CompareOp::Equal => true,
            CompareOp::NotEqual => false,
            _ => return None,
        };
        let is_exact = matches!(value, Value::Nil | Value::Str(_) | Value::Int(_) | Value::Bool(_));
        match (path.kind, path.keys.as_slice()) {
            (Kind::Map, [Key::Text(key)]) if is_exact => {
                Some(Self { context: path.context, key: *key, value, any, is_equal })
            }
            _ => None,
        }
    }
}

/// A compiled statement.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) condition: Option<Condition>,
    pub(crate) editor: Editor,
}
