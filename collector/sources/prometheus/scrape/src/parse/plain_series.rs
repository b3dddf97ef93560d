//! Decides whether a series is written in the plainest form, which can be compared byte by byte.

use crate::parse::line::{Label, ParsedSample};

/// Whether an identity consists of its name and labels in the plainest form, without gaps. The
/// caller has checked that labels are bare and without escapes.
pub(crate) fn is_plain(sample: &ParsedSample, labels: &[Label], line: &[u8]) -> bool {
    let identity = sample.identity;
    let mut at = sample.name.span.end();
    let is_bare = !sample.name.is_escaped && sample.name.span.start() == identity.start();
    if labels.is_empty() {
        return is_bare && at == identity.end();
    }
    for (number, Label { name, value }) in labels.iter().enumerate() {
        let before = if number == 0 { b'{' } else { b',' };
        let is_next = line.get(at) == Some(&before) && name.span.start() == at + 1;
        // An equals sign and a quote.
        if !is_next || value.span.start() != name.span.end() + 2 {
            return false;
        }
        at = value.span.end() + 1;
    }
    is_bare && line.get(at) == Some(&b'}') && at + 1 == identity.end()
}
