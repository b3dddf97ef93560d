//! A statement as a tree, with the position of each part in bytes.

/// `editor(arguments) where condition`.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) editor: Call,
    pub(crate) condition: Option<Condition>,
}

/// A call of an editor or converter, and the keys behind it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) at: usize,
    pub(crate) name: String,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) keys: Vec<Key>,
}

/// An argument, with its name if it is given.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) at: usize,
    pub(crate) name: Option<String>,
    pub(crate) value: Value,
}

/// A value.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) at: usize,
    pub(crate) kind: ValueKind,
}

/// The kinds of values.
#[derive(Clone, Debug)]
pub(crate) enum ValueKind {
    Nil,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// `SEVERITY_NUMBER_INFO`; also a function's name without a call, if it is in capitals.
    Enum(String),
    /// A function's name without a call.
    Function(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
    Path(Path),
    Call(Call),
    Math(MathOp, Box<Value>, Box<Value>),
    Negative(Box<Value>),
}

/// `log.attributes["a"][0]`.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) at: usize,
    pub(crate) segments: Vec<Segment>,
}

/// A name in a path, and the keys behind it.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) at: usize,
    pub(crate) name: String,
    pub(crate) keys: Vec<Key>,
}

/// A key in brackets.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) kind: KeyKind,
}

/// The kinds of keys.
#[derive(Clone, Debug)]
pub(crate) enum KeyKind {
    Text(String),
    Index(i64),
    Value(Value),
}

/// An operator of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MathOp {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// An operator that compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareOp {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A boolean expression.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Const(bool),
    Call(Call),
    Compare(CompareOp, Value, Value),
    Not(Box<Condition>),
    And(Vec<Condition>),
    Or(Vec<Condition>),
}
