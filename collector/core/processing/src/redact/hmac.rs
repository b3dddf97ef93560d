//! HMAC with SHA-256 (RFC 2104).

use sha2::{Digest, Sha256};

/// The bytes that SHA-256 hashes at once.
const BLOCK_BYTES: usize = 64;

/// A key, as the states of the two hashes after it. It doesn't print.
#[derive(Clone)]
pub(super) struct HmacKey {
    inner: Sha256,
    outer: Sha256,
}

impl std::fmt::Debug for HmacKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("HmacKey")
    }
}

impl HmacKey {
    pub(super) fn new(key: &[u8]) -> Self {
        let mut block = [0; BLOCK_BYTES];
        if key.len() > BLOCK_BYTES {
            let digest: [u8; 32] = Sha256::digest(key).into();
            block[..digest.len()].copy_from_slice(&digest);
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let state = |pad: u8| Sha256::new_with_prefix(block.map(|byte| byte ^ pad));
        Self { inner: state(0x36), outer: state(0x5c) }
    }

    pub(super) fn sign(&self, message: &[u8]) -> [u8; 32] {
        let inner = self.inner.clone().chain_update(message).finalize();
        self.outer.clone().chain_update(inner).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::HmacKey;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Scenario: the test cases 1, 2 and 6 of RFC 4231: a short key, a text key, and a key longer
    /// than a block.
    /// Guarantee: the signatures are the RFC's.
    #[test]
    fn signs_as_rfc_4231_states() {
        let cases: [(&[u8], &[u8], &str); 3] = [
            (
                &[0x0b; 20],
                b"Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (key, message, signature) in cases {
            assert_eq!(hex(&HmacKey::new(key).sign(message)), signature);
        }
    }
}
