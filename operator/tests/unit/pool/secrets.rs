//! Tests of what `pool/secrets.rs` keeps to itself.

use super::*;

/// Scenario: the volume that a template gets for some Secrets, read back. Guarantee: the same
/// Secrets and keys; none for a template without.
#[test]
fn what_a_template_needs_is_read_from_its_volume() {
    let mut uses = SecretUses::default();
    for (secret, key) in [("user", "password"), ("user", "username"), ("ca", "ca.crt")] {
        uses.file(secret, key);
    }
    let (volume, _) = uses.volume().unwrap();
    let pod = serde_json::json!({"spec": {"containers": [], "volumes": [volume]}});
    assert_eq!(SecretUses::of(&serde_json::from_value(pod).unwrap()), uses);
    assert_eq!(SecretUses::of(&PodTemplateSpec::default()), SecretUses::default());
}

fn seen(salt: &str, values: &[(&str, &str)]) -> SecretsSeen {
    let data = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
        .collect();
    let keys = ["username", "password"].map(str::to_owned).into();
    let mut seen = SecretsSeen::default();
    seen.found(salt, "user", &keys, &data);
    seen
}

/// Scenario: a needed key changes, another does not matter. Guarantee: the digest follows the
/// needed keys alone and never holds a value.
#[test]
fn the_digest_follows_the_needed_keys_alone() {
    let values = [("username", "a"), ("password", "hunter2")];
    let first = seen("uid", &values).digest().unwrap().unwrap();
    let more = [("username", "a"), ("password", "hunter2"), ("other", "x")];
    assert_eq!(seen("uid", &more).digest().unwrap().unwrap(), first);
    let changed = [("username", "a"), ("password", "hunter3")];
    assert_ne!(seen("uid", &changed).digest().unwrap().unwrap(), first);
    assert_ne!(seen("other uid", &values).digest().unwrap().unwrap(), first);
    let shifted = [("username", "ahunter"), ("password", "2")];
    assert_ne!(seen("uid", &shifted).digest().unwrap().unwrap(), first);
    assert!(!format!("{:?}", seen("uid", &values)).contains("hunter2"));
}

/// Scenario: a Secret and a key are missing. Guarantee: both are named, with the first's
/// reason.
#[test]
fn everything_missing_is_named_at_once() {
    let mut seen = seen("uid", &[("username", "a")]);
    seen.absent("kafka-ca");
    let invalid = seen.digest().unwrap_err();
    assert_eq!(invalid.reason, Reason::SecretKeyMissing);
    assert!(invalid.message.contains("Secret user has no key password"), "{invalid}");
    assert!(invalid.message.contains("Secret kafka-ca does not exist"), "{invalid}");
}
