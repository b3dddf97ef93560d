//! Finds secrets and personal data in text and replaces them.
//!
//! A [`Redactor`] is compiled once from a [`RedactConfig`] and then reads texts: attribute values,
//! bodies, names. It knows nothing of OTLP. For each text it reports what was found ([`Hit`]s by
//! detector) and writes the text without it.
//!
//! # How a text is read
//! The common text has no hit, so the first pass is what costs:
//! - one vector search for the beginnings of all tokens with a fixed one (`eyJ`, `AKIA`);
//! - one search for `@`;
//! - bitmaps of alphanumerics, dots and colons, 64 bytes at a time, which show where card
//!   numbers, IBANs and addresses may be.
//!
//! Only at such a position does a detector read on. Each detector reads a bounded number of bytes,
//! or a run that no other position of the same detector reads again: the work is linear in the
//! text, whatever it contains. Patterns of users form one automaton with a bounded number of steps
//! for each byte; if a text exceeds it, the remainder of the text counts as a hit.

mod action;
mod compile;
mod config;
mod detectors;
mod hit;
mod hmac;
mod keys;
mod limits;
mod problem;
mod redactor;
mod steps;

#[cfg(test)]
mod linear_tests;

pub use action::REPLACEMENT_BYTES_MAX;
pub use config::{
    ActionConfig, BlockedKeysConfig, DropConfig, HashConfig, HashEncoding, KeyListConfig,
    MaskConfig, PatternConfig, ReadySet, RedactConfig, SetActionConfig,
};
pub use detectors::custom::STEPS_PER_BYTE;
pub use hit::{HITS_MAX, Hit, RedactScratch};
pub use keys::KeyDecision;
pub use limits::{HASH_KEY_BYTES_MIN, KEY_NAMES_MAX, PATTERN_BYTES_MAX, PATTERNS_MAX};
pub use problem::{RedactProblem, RedactProblemKind};
pub(crate) use redactor::Growth;
pub use redactor::{Redaction, Redactor};
