//! Values as the oracle of the columns crate's tests has them, which the judge's tests share.

use std::collections::BTreeMap;

/// A value as the server would hold it. Doubles by their bits, so that equality is exact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Null,
    UInt(u64),
    Int(i64),
    Float(u64),
    Bool(bool),
    Text(Vec<u8>),
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    /// By path, the type's name and the value.
    Json(BTreeMap<Vec<u8>, (String, Value)>),
    /// With its type's name.
    Dynamic(String, Box<Value>),
}
