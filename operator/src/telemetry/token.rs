//! A token in a file, as a Secret is mounted, which requests to the console or for metrics must
//! have.
//!
//! It is read at each request, so that a changed Secret applies at once, and compared by digests in
//! constant time.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;

/// Minimum length of a token in bytes: 32 random characters can't be guessed, however many attempts
/// are made.
pub const TOKEN_BYTES_MIN: usize = 32;
/// Maximum length of a token in bytes.
pub(crate) const TOKEN_BYTES_MAX: usize = 1_024;

/// Returns whether a request has the token in this file.
///
/// # Errors
/// Why the file has no valid token.
pub async fn admits(file: &Path, headers: &HeaderMap) -> Result<bool, String> {
    let token = read(file).await?;
    Ok(is_same(&request_token(headers).unwrap_or_default(), &token))
}

/// Reads the token in the file, without surrounding white space.
async fn read(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    let mut bytes = Vec::new();
    let most = u64::try_from(TOKEN_BYTES_MAX).unwrap_or(u64::MAX) + 1;
    file.take(most).read_to_end(&mut bytes).await.map_err(failed)?;
    let token = bytes.trim_ascii();
    match token.len() {
        TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX => Ok(token.to_vec()),
        length => Err(format!(
            "{}: the token has {length} bytes: use {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX}",
            path.display()
        )),
    }
}

/// Returns the token of a request: a bearer token, or the password of any user, for which a browser
/// prompts.
fn request_token(headers: &HeaderMap) -> Option<Vec<u8>> {
    let (scheme, value) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.trim().as_bytes().to_vec());
    }
    let pair = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(value.trim()))?.ok()?;
    let at = pair.iter().position(|byte| *byte == b':')?;
    pair.get(at + 1..).map(<[u8]>::to_vec)
}

/// Compares all bytes of the digests: the time reveals nothing about the token.
fn is_same(presented: &[u8], token: &[u8]) -> bool {
    let (presented, token) = (Sha256::digest(presented), Sha256::digest(token));
    presented.iter().zip(token.iter()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
