//! Values as text: numbers, bytes in hexadecimal, attributes.

pub(crate) mod bytes;
pub(crate) mod decimal;
pub(crate) mod hex;
pub(crate) mod text;
