//! The Millrace operator.
fn main() {}
