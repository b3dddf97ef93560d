//! Requests of clients: their bytes, their walks, and the blocks made of them.

pub mod columns;
pub mod decompress;
pub mod json;
pub mod request;
pub mod walk;
