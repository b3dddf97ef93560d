//! Access keys of clouds and services, by the forms that their vendors publish.

use std::ops::Range;

use super::credentials::{is_token, run_length};

/// The form of a key, by its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redact) enum KeyForm {
    /// AWS: `AKIA` or `ASIA`, and 16 upper-case letters or digits.
    AwsId,
    /// AWS: 40 characters of base64 after their name.
    AwsSecret,
    /// Azure: base64 of 32 or 64 bytes after `AccountKey=` or `SharedAccessKey=`.
    Azure,
    /// Google Cloud: `AIza` and 35 characters.
    Google,
    /// Azure: the signature of a shared access signature, after `sig=`.
    AzureSignature,
    /// Google Cloud: an access token, `ya29.` and 40 characters at least.
    GoogleToken,
    /// GitHub: `ghp_` and 36 letters or digits at least.
    GithubToken,
    /// GitHub: `github_pat_` and 82 characters; 40 at least are required.
    GithubFineGrained,
    /// Slack: `xoxb-` and the like, and alphanumeric parts between hyphens.
    Slack,
    /// Slack: `xapp-`, and the same.
    SlackApp,
    /// Stripe: `sk_live_` and 16 letters or digits at least.
    Stripe,
}

const AWS_ID_BYTES: usize = 20;
const AWS_SECRET_BYTES: usize = 40;
/// Quotes, spaces, an equals sign or a colon between a name and its value.
const AWS_SECRET_GAP_MAX: usize = 8;
const AZURE_BYTES_MIN: usize = 43;
const GOOGLE_BYTES: usize = 39;
const GOOGLE_TOKEN_BYTES_MIN: usize = 40;
const GITHUB_TOKEN_BYTES_MIN: usize = 36;
const GITHUB_FINE_GRAINED_BYTES_MIN: usize = 40;
const SLACK_BYTES_MIN: usize = 15;
const STRIPE_BYTES_MIN: usize = 16;

/// The key whose beginning is at `literal`.
pub(in crate::redact) fn key_at(
    text: &[u8],
    literal: Range<usize>,
    form: KeyForm,
) -> Option<Range<usize>> {
    let Range { start, end: value } = literal;
    if start > 0 && is_inside(text[start - 1], form) {
        return None;
    }
    let run = |at, is_member: fn(u8) -> bool| run_length(text, at, is_member);
    match form {
        KeyForm::AwsId => {
            let end = start + run(start, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
            let is_cut = text.get(end).is_some_and(u8::is_ascii_lowercase);
            (end - start == AWS_ID_BYTES && !is_cut).then_some(start..end)
        }
        KeyForm::AwsSecret => aws_secret(text, value),
        KeyForm::Azure => {
            let end = value + run(value, is_base64);
            let padding = run(end, |byte| byte == b'=').min(2);
            (end - value >= AZURE_BYTES_MIN).then_some(value..end + padding)
        }
        KeyForm::AzureSignature => {
            // The padding is encoded too: `%3D`.
            let end = value + run(value, |byte| is_base64(byte) || byte == b'%');
            (end - value >= AZURE_BYTES_MIN).then_some(value..end)
        }
        KeyForm::Google => {
            let end = start + run(start, is_token);
            (end - start == GOOGLE_BYTES).then_some(start..end)
        }
        KeyForm::GoogleToken => {
            let end = value + run(value, |byte| is_token(byte) || byte == b'.');
            (end - value >= GOOGLE_TOKEN_BYTES_MIN).then_some(start..end)
        }
        KeyForm::GithubToken => {
            let end = value + run(value, is_alphanumeric);
            (end - value >= GITHUB_TOKEN_BYTES_MIN).then_some(start..end)
        }
        KeyForm::GithubFineGrained => {
            let end = value + run(value, |byte| is_alphanumeric(byte) || byte == b'_');
            (end - value >= GITHUB_FINE_GRAINED_BYTES_MIN).then_some(start..end)
        }
        KeyForm::Slack => {
            let kind = text.get(value).is_some_and(|byte| b"abcdeprs".contains(byte));
            let has_hyphen = kind && text.get(value + 1) == Some(&b'-');
            slack_end(text, value + 2).filter(|_| has_hyphen).map(|end| start..end)
        }
        KeyForm::SlackApp => slack_end(text, value).map(|end| start..end),
        KeyForm::Stripe => {
            let end = value + run(value, is_alphanumeric);
            (end - value >= STRIPE_BYTES_MIN).then_some(start..end)
        }
    }
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

/// Whether a beginning after a byte is inside a longer run, which isn't a key then. It also isn't
/// read again: each run is read once.
fn is_inside(before: u8, form: KeyForm) -> bool {
    match form {
        KeyForm::AwsId | KeyForm::GithubToken | KeyForm::Stripe => is_alphanumeric(before),
        KeyForm::AzureSignature => !matches!(before, b'?' | b'&'),
        KeyForm::AwsSecret | KeyForm::Azure => false,
        KeyForm::Google
        | KeyForm::GoogleToken
        | KeyForm::GithubFineGrained
        | KeyForm::Slack
        | KeyForm::SlackApp => is_token(before),
    }
}

fn aws_secret(text: &[u8], name_end: usize) -> Option<Range<usize>> {
    let gap = run_length(text, name_end, |byte| {
        matches!(byte, b' ' | b'\t' | b'=' | b':' | b'"' | b'\'' | b'\\' | b'>')
    });
    if !(1..=AWS_SECRET_GAP_MAX).contains(&gap) {
        return None;
    }
    let value = name_end + gap;
    let end = value + run_length(text, value, is_base64);
    (end - value == AWS_SECRET_BYTES).then_some(value..end)
}

fn slack_end(text: &[u8], value: usize) -> Option<usize> {
    let end = value + run_length(text, value, |byte| is_alphanumeric(byte) || byte == b'-');
    let has_digit = || text[value..end].iter().any(u8::is_ascii_digit);
    (end - value >= SLACK_BYTES_MIN && has_digit()).then_some(end)
}
