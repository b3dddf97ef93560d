//! ClickHouse tables: render, plan, apply, verify.
