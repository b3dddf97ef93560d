//! Contains one folder per kind, with the same five steps: observe, validate, build, apply, status.
//!
//! A kind must not write a child, a status or an event itself: `cluster` and `report` do. A pool
//! may query `schema` about its tables, and a pipeline the kinds of its children; no other kind
//! knows another.

pub mod edge;
pub mod gateway;
pub mod pipeline;
pub mod schema;
pub mod topic;
