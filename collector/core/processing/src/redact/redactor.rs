//! The step: reads a text, and writes it without what was found.

use super::action::RedactAction;
use super::compile::compile;
use super::detectors::Detector;
use super::keys::KeyRules;
use super::problem::RedactProblem;
use super::{KeyDecision, RedactConfig, RedactScratch};

/// What becomes of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redaction {
    /// Nothing was found; nothing was written.
    Unchanged,
    /// The new text was appended to the output.
    Changed,
    /// The value has to be removed; nothing was written.
    Drop,
}

/// A compiled `redact` step. All threads share it; each has a [`Scratch`].
#[derive(Debug)]
pub struct Redactor {
    pub(super) detector: Detector,
    /// The names of detectors: ready sets, then patterns.
    pub(super) names: Vec<String>,
    /// By detector.
    pub(super) actions: Vec<RedactAction>,
    /// By detector: [`Action::strictness`].
    pub(super) strictness: Vec<u8>,
    pub(super) keys: KeyRules,
    pub(super) blocked_action: RedactAction,
}

impl Redactor {
    /// Compiles a step. `hash_key` is the key of all hashes.
    ///
    /// # Errors
    /// All fields that can't be used.
    pub fn compile(
        config: &RedactConfig,
        hash_key: Option<&[u8]>,
    ) -> Result<Self, Vec<RedactProblem>> {
        compile(config, hash_key)
    }

    /// The names of detectors, under which hits are counted.
    #[must_use]
    pub fn detectors(&self) -> &[String] {
        &self.names
    }

    /// What happens to a value because of its key.
    #[must_use]
    pub fn decide_key(&self, key: &[u8]) -> KeyDecision {
        self.keys.decide(key)
    }

    /// What happens to a value within a map because of its key: only attributes themselves are
    /// removed because their keys aren't allowed.
    #[must_use]
    pub fn decide_member(&self, key: &[u8]) -> KeyDecision {
        self.keys.decide_member(key)
    }

    /// Whether the entire values of some keys are redacted.
    #[must_use]
    pub fn has_blocked_keys(&self) -> bool {
        !self.keys.blocked.is_empty()
    }

    /// Whether attributes are removed because of their keys.
    #[must_use]
    pub const fn has_allowed_keys(&self) -> bool {
        self.keys.allowed.is_some()
    }

    /// Finds all hits of a text, and leaves them in the scratch.
    pub fn find(&self, text: &[u8], scratch: &mut RedactScratch) {
        scratch.clear();
        self.detector.scan(text, scratch);
        scratch.merge(text.len(), &self.strictness);
    }

    /// Appends a text without its hits to `out`, if it has any; [`Scratch::hits`] has them
    /// afterwards. UTF-8 stays UTF-8: hits begin and end between characters.
    pub fn redact(&self, text: &[u8], scratch: &mut RedactScratch, out: &mut Vec<u8>) -> Redaction {
        self.rewrite(text, Growth::Permitted, scratch, out)
    }

    /// As [`Self::redact`], and what replaces a hit may be cut to the hit's length.
    pub(crate) fn rewrite(
        &self,
        text: &[u8],
        growth: Growth,
        scratch: &mut RedactScratch,
        out: &mut Vec<u8>,
    ) -> Redaction {
        if u32::try_from(text.len()).is_err() {
            // No request is as long; hits couldn't refer to its bytes.
            scratch.clear();
            return Redaction::Drop;
        }
        self.find(text, scratch);
        let hits = scratch.hits();
        if hits.is_empty() {
            return Redaction::Unchanged;
        }
        if hits.iter().any(|hit| matches!(self.actions[hit.detector()], RedactAction::Drop)) {
            return Redaction::Drop;
        }
        let mut copied = 0;
        for hit in hits {
            let range = hit.range();
            out.extend_from_slice(&text[copied..range.start]);
            growth.write(&self.actions[hit.detector()], &text[range.clone()], out);
            copied = range.end;
        }
        out.extend_from_slice(&text[copied..]);
        Redaction::Changed
    }

    /// Appends what replaces the complete value of a key for which [`KeyDecision::Block`] applies.
    pub fn redact_blocked(&self, value: &[u8], out: &mut Vec<u8>) -> Redaction {
        self.rewrite_blocked(value, Growth::Permitted, out)
    }

    /// As [`Self::redact_blocked`], and the result may be cut to the value's length.
    pub(crate) fn rewrite_blocked(
        &self,
        value: &[u8],
        growth: Growth,
        out: &mut Vec<u8>,
    ) -> Redaction {
        match &self.blocked_action {
            RedactAction::Drop => Redaction::Drop,
            action => {
                growth.write(action, value, out);
                Redaction::Changed
            }
        }
    }
}

/// Whether a text may become longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    Permitted,
    /// The replacement of a match is cut to the match's length.
    Refused,
}

impl Growth {
    fn write(self, action: &RedactAction, matched: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        action.write(matched, out);
        if self == Self::Refused && out.len() > start + matched.len() {
            let is_start = |at: &usize| out[*at] & 0xc0 != 0x80;
            let end = (start..=start + matched.len()).rev().find(is_start);
            out.truncate(end.unwrap_or(start));
        }
    }
}
