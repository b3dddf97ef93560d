//! The types of a path's values.

/// The types of a value, in written order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum JsonKind {
    String,
    Int64,
    Float64,
    Bool,
    Strings,
    Int64s,
    Float64s,
    Bools,
    Mixed,
}

impl JsonKind {
    pub(super) const ALL: [Self; 9] = [
        Self::String,
        Self::Int64,
        Self::Float64,
        Self::Bool,
        Self::Strings,
        Self::Int64s,
        Self::Float64s,
        Self::Bools,
        Self::Mixed,
    ];

    pub(super) const fn type_name(self) -> &'static str {
        match self {
            Self::String => "String",
            Self::Int64 => "Int64",
            Self::Float64 => "Float64",
            Self::Bool => "Bool",
            Self::Strings => "Array(Nullable(String))",
            Self::Int64s => "Array(Nullable(Int64))",
            Self::Float64s => "Array(Nullable(Float64))",
            Self::Bools => "Array(Nullable(Bool))",
            Self::Mixed => "Array(Dynamic)",
        }
    }

    pub(super) const fn bit_mask(self) -> u16 {
        1 << self as u8
    }
}
