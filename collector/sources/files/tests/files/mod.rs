//! Tests the receiver of log files: a real file system, a scripted publisher.

mod annotations;
mod docker;
mod encodings;
mod labels;
mod namespaces;
mod odd;
mod patterns;
mod rig;
mod rotation;
mod sending;
mod shares;
