//! Requests, from their first byte to the publisher.

pub(crate) mod body;
pub(crate) mod deadline;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod scratch;
pub(crate) mod service;
pub(crate) mod work;
