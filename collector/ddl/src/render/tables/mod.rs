//! Statements that create, change and drop tables, and their parts.

pub(super) mod alter;
pub(super) mod companion;
pub(super) mod create;
pub(super) mod drop;
pub(super) mod engine;
pub(super) mod expression;
