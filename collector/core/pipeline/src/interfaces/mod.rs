//! The interfaces between sources, exporters, and the watches of the API server.

pub mod component;
pub mod pods;
pub mod publish;
pub mod share;
pub mod sink;
