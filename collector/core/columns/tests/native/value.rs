//! A value of a Native block, shared by the reader and the oracle. The load generator's tests share
//! this file: it links nothing.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::collections::BTreeMap;

/// A value as the server would store it. Doubles are their bits, so that equality is exact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Null,
    UInt(u64),
    Int(i64),
    Float(u64),
    Bool(bool),
    Text(Vec<u8>),
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    /// A JSON object: the type's name and the value, by path.
    Json(BTreeMap<Vec<u8>, (String, Value)>),
    /// A dynamic value with its type's name.
    Dynamic(String, Box<Value>),
}
