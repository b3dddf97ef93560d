//! Hashes: of desired states and Secrets, for annotations and names; of keys, for caches within one
//! process and for spreading work over time. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Returns the first 16 bytes of the SHA-256 of a JSON value with sorted keys, in hexadecimal.
#[must_use]
pub fn hash_of(value: &Value) -> String {
    encode_hex(&Sha256::digest(value.to_string().as_bytes())[..16])
}

/// Encodes bytes in hexadecimal.
#[must_use]
pub fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hashes a value: equal values have equal hashes within one process, evenly spread.
pub(crate) fn fingerprint_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns a part of `most`, spread evenly over keys, so that what began together isn't repeated
/// together.
pub(crate) fn spread_by(key: &(impl Hash + ?Sized), most: Duration) -> Duration {
    most.mul_f64((fingerprint_of(key) >> 32) as f64 / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a thousand objects created at once request a repeated reconcile. Guarantee: no
    /// tenth of the time gets more than a sixth of them, and each object's time is always the same.
    #[test]
    fn objects_made_together_are_looked_at_apart() {
        let most = Duration::from_secs(100);
        let mut tenths = [0_u32; 10];
        for number in 0..1_000 {
            let key = format!("EdgePool/shop/pool-{number}");
            let part = spread_by(&key, most);
            assert_eq!(part, spread_by(&key, most));
            tenths[usize::try_from(part.as_secs() / 10).unwrap().min(9)] += 1;
        }
        assert!(tenths.iter().all(|count| (50..170).contains(count)), "{tenths:?}");
    }
}
