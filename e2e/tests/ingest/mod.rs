//! The path of records, all parts real: the collector's binary, a broker and an engine.

mod brokers;
mod buffer;
mod dead_letters;
mod direct;
mod encrypted;
mod faults;
mod loadgen;
mod memory;
mod own;
mod path;
mod rules;
mod tables;
mod test_rows;
mod topics;
