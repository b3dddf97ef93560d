//! What proves a release: checksums, signatures, bills of materials, provenance.

pub(super) mod checksums;
pub(super) mod provenance;
pub(super) mod reproduce;
pub(super) mod sbom;
pub(super) mod sign;
