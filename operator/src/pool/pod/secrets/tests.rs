//! Tests the private parts of `pool/pod/secrets.rs`.

use super::*;

/// Scenario: Secrets are read back from a template's volume. Guarantee: Secrets and keys are the
/// same; a template without the volume has none.
#[test]
fn what_a_template_needs_is_read_from_its_volume() {
    let mut uses = SecretUses::default();
    for (secret, key) in [("user", "password"), ("user", "username"), ("ca", "ca.crt")] {
        uses.add_file(secret, key);
    }
    let path = uses.add_config_map_file("bundle", "ca.crt");
    assert_eq!(path, "/etc/millrace/secrets/config_maps/bundle/ca.crt");
    let (volume, _) = uses.build_volume().unwrap();
    let pod = serde_json::json!({"spec": {"containers": [], "volumes": [volume]}});
    assert_eq!(SecretUses::from_template(&serde_json::from_value(pod).unwrap()), uses);
    assert_eq!(SecretUses::from_template(&PodTemplateSpec::default()), SecretUses::default());
}

fn seen(salt: &str, values: &[(&str, &str)]) -> SecretsObservation {
    let data = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
        .collect();
    let keys = ["username", "password"].map(str::to_owned).into();
    let mut seen = SecretsObservation::default();
    seen.record_found(salt, &FileSource::Secret("user".to_owned()), &keys, &data);
    seen
}

/// Scenario: a needed key changes, or another one. Guarantee: the digest follows only the needed
/// keys and never contains a value.
#[test]
fn the_digest_follows_the_needed_keys_alone() {
    let values = [("username", "a"), ("password", "hunter2")];
    let first = seen("uid", &values).combined_digest().unwrap().unwrap();
    let more = [("username", "a"), ("password", "hunter2"), ("other", "x")];
    assert_eq!(seen("uid", &more).combined_digest().unwrap().unwrap(), first);
    let changed = [("username", "a"), ("password", "hunter3")];
    assert_ne!(seen("uid", &changed).combined_digest().unwrap().unwrap(), first);
    assert_ne!(seen("other uid", &values).combined_digest().unwrap().unwrap(), first);
    let shifted = [("username", "ahunter"), ("password", "2")];
    assert_ne!(seen("uid", &shifted).combined_digest().unwrap().unwrap(), first);
    assert!(!format!("{:?}", seen("uid", &values)).contains("hunter2"));
}

/// Scenario: a ConfigMap and a key of a Secret are missing. Guarantee: the message names both, with the first's
/// reason.
#[test]
fn everything_missing_is_named_at_once() {
    let mut seen = seen("uid", &[("username", "a")]);
    seen.record_absent(&FileSource::ConfigMap("kafka-ca".to_owned()));
    let invalid = seen.combined_digest().unwrap_err();
    assert_eq!(invalid.reason, Reason::SecretKeyMissing);
    assert!(invalid.message.contains("Secret user has no key password"), "{invalid}");
    assert!(invalid.message.contains("ConfigMap kafka-ca does not exist"), "{invalid}");
}
