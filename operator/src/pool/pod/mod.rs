//! Builds a pool's pod template: the collector's container, Secrets as files, volumes, and the
//! spec's own `podTemplate`. Pure.

pub mod draft;
pub mod merge;
pub mod secrets;
pub mod template;
pub mod volumes;
