//! The Millrace collector.
fn main() {}
