//! The path of records, all parts real: the collector's binary, a broker and an engine.

mod broker;
mod buffer;
mod dead_letters;
mod direct;
mod faults;
mod loadgen;
mod memory;
mod own;
mod path;
mod rules;
mod tables;
mod test_rows;
