//! What a release consists of.

pub(super) mod binaries;
pub(super) mod bundle;
pub(super) mod changes;
pub(super) mod charts;
pub(super) mod images;
pub(super) mod olm;
pub(super) mod plugin;
