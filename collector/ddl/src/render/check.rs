//! Queries that read back what a load generator sent.
