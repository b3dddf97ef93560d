//! One walk for all views, driven by a table of fields and the members that receive them.
//!
//! Each view lists its fields by number, kind and member; the loop, the tags and the mask of fields
//! with a wrong wire type follow from that list. Views follow protobuf's rules: the last of several
//! scalars counts, unknown fields are skipped.

use crate::protobuf::{self, FIXED32, FIXED64, LENGTH, VARINT};

/// The tags of field `N`, as constants that patterns can name.
pub(super) struct Tag<const N: u32>;

impl<const N: u32> Tag<N> {
    pub(super) const VARINT: u32 = protobuf::field_tag(N, VARINT);
    pub(super) const FIXED64: u32 = protobuf::field_tag(N, FIXED64);
    pub(super) const LENGTH: u32 = protobuf::field_tag(N, LENGTH);
    pub(super) const FIXED32: u32 = protobuf::field_tag(N, FIXED32);
}

/// Walks `$message` and sets members of `$view`:
///
/// `walk! { message => span { 1 bytes trace_id, 6 int32 kind, 9 repeated attributes, ... } }`
///
/// Kinds: `bytes`, `fixed64`, `double`, `sfixed64_to_double`, `uint32`, `int32`, `sint32`, `flag`,
/// `fixed32`; `repeated` for messages and `numbers64`, `varints` for numbers, gathered but not
/// parsed; `merge` for a message that the member's `merge` reads; `value` for an `AnyValue`; and
/// `skip_varint`, `skip_fixed32`, `skip_fixed64`, `skip_message` for fields that no column holds.
macro_rules! walk {
    (
        $message:ident => $view:ident {
            $($number:literal $kind:ident $($member:ident)?),+ $(,)?
        }
    ) => {{
        let mut cursor = $crate::protobuf::Cursor::new($message);
        loop {
            #[allow(unused_variables)]
            let before = cursor.remaining();
            let Some(tag) = cursor.tag()? else { break };
            match tag {
                $($crate::otlp::walk::tags!($kind $number) => {
                    $crate::otlp::walk::read! {
                        $kind (cursor, $message, before, tag) $($view.$member)?
                    }
                })+
                other => $crate::otlp::common::skip_other(
                    &mut cursor,
                    other,
                    0 $(| 1 << $number)+,
                )?,
            }
        }
    }};
}

/// The tags that a field of a kind may have.
macro_rules! tags {
    (int32 $n:literal) => {
        $crate::otlp::walk::Tag::<$n>::VARINT
    };
    (uint32 $n:literal) => {
        $crate::otlp::walk::Tag::<$n>::VARINT
    };
    (sint32 $n:literal) => {
        $crate::otlp::walk::Tag::<$n>::VARINT
    };
    (flag $n:literal) => {
        $crate::otlp::walk::Tag::<$n>::VARINT
    };
    (skip_varint $n:literal) => {
        $crate::otlp::walk::Tag::<$n>::VARINT
    };
    (fixed64 $n:literal) => {
        $crate::otlp::walk::Tag::<$n>::FIXED64
    };
    (double $n:literal) => {
        $crate::otlp::walk::Tag::<$n>::FIXED64
    };
    (sfixed64_to_double $n:literal) => {
        $crate::otlp::walk::Tag::<$n>::FIXED64
    };
    (skip_fixed64 $n:literal) => {
        $crate::otlp::walk::Tag::<$n>::FIXED64
    };
    (fixed32 $n:literal) => {
        $crate::otlp::walk::Tag::<$n>::FIXED32
    };
    (skip_fixed32 $n:literal) => {
        $crate::otlp::walk::Tag::<$n>::FIXED32
    };
    (numbers64 $n:literal) => {
        $crate::otlp::walk::Tag::<$n>::LENGTH | $crate::otlp::walk::Tag::<$n>::FIXED64
    };
    (varints $n:literal) => {
        $crate::otlp::walk::Tag::<$n>::LENGTH | $crate::otlp::walk::Tag::<$n>::VARINT
    };
    ($message:ident $n:literal) => {
        $crate::otlp::walk::Tag::<$n>::LENGTH
    };
}

/// Reads the value of a field of a kind into its member.
macro_rules! read {
    (bytes ($cursor:ident $($rest:tt)*) $member:expr) => {
        $member = $cursor.bytes()?
    };
    (fixed64 ($cursor:ident $($rest:tt)*) $member:expr) => {
        $member = $cursor.fixed64()?
    };
    (fixed32 ($cursor:ident $($rest:tt)*) $member:expr) => {
        $member = $cursor.fixed32()?
    };
    (double ($cursor:ident $($rest:tt)*) $member:expr) => {
        $member = $cursor.double()?
    };
    (sfixed64_to_double ($cursor:ident $($rest:tt)*) $member:expr) => {
        $member = $cursor.fixed64()?.cast_signed() as f64
    };
    (int32 ($cursor:ident $($rest:tt)*) $member:expr) => {
        $member = $cursor.varint()? as i32
    };
    (uint32 ($cursor:ident $($rest:tt)*) $member:expr) => {
        $member = $cursor.varint()? as u32
    };
    (sint32 ($cursor:ident $($rest:tt)*) $member:expr) => {
        $member = $crate::protobuf::unzigzag($cursor.varint()?) as i32
    };
    (flag ($cursor:ident $($rest:tt)*) $member:expr) => {
        $member = $cursor.varint()? != 0
    };
    (value ($cursor:ident $($rest:tt)*) $member:expr) => {
        $member = $crate::otlp::common::AnyValue::parse($cursor.bytes()?)?
    };
    (merge ($cursor:ident $($rest:tt)*) $member:expr) => {
        $member.merge($cursor.bytes()?)?
    };
    (repeated ($cursor:ident, $message:ident, $before:ident, $tag:ident) $member:expr) => {
        $member.gather($tag, $message, $before, &mut $cursor)?
    };
    (numbers64 ($cursor:ident, $message:ident, $before:ident, $tag:ident) $member:expr) => {
        $member.gather($tag, $message, $before, &mut $cursor)?
    };
    (varints ($cursor:ident, $message:ident, $before:ident, $tag:ident) $member:expr) => {
        $member.gather($tag, $message, $before, &mut $cursor)?
    };
    ($skip:ident ($cursor:ident, $message:ident, $before:ident, $tag:ident)) => {
        $cursor.skip($tag)?
    };
}

pub(super) use {read, tags, walk};
