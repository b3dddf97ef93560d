//! Translates an enum of a spec to the one of the same variants that a library has.

/// Returns the variant of the same name. One that either enum lacks does not compile.
macro_rules! same_variant {
    ($value:expr, $from:ty => $to:ty { $($variant:ident),+ }) => {
        match $value {
            $(<$from>::$variant => <$to>::$variant),+
        }
    };
}

pub(crate) use same_variant;
