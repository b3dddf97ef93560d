//! Bytes of log files as records: lines, container formats, records of several lines; written as
//! OTLP.
