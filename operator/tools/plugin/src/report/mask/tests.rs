//! Tests of masking.

use proptest::prelude::*;
use serde_json::json;

use super::{is_credential, mask_object, mask_text, pattern_count};

/// Scenario: texts as logs and settings have them, with a credential in each. Guarantee: it is
/// removed, and the text around it stays.
#[test]
fn credentials_in_texts_are_masked() {
    assert_eq!(pattern_count(), 7);
    for (with, without) in [
        ("see http://bob:hunter2@ch:8123/x", "see http://(masked)@ch:8123/x"),
        ("password=hunter2 user=bob", "password=(masked) user=bob"),
        ("sasl.password: hunter2", "sasl.password: (masked)"),
        (r#"{"password":"hunter2","user":"bob"}"#, r#"{"password":"(masked)","user":"bob"}"#),
        (r#"{\"token\":\"hunter2\"}"#, r#"{\"token\":\"(masked)\"}"#),
        ("Authorization: Bearer hunter2hunter2", "Authorization: (masked) (masked)"),
        ("curl -H 'bearer hunter2hunter2'", "curl -H 'bearer (masked)'"),
        ("--api-key hunter2 --rate 5", "--api-key (masked) --rate 5"),
        ("GET /m?token=hunter2&x=1", "GET /m?token=(masked)&x=1"),
        ("token secretName: password=hunter2", "token secretName: password=(masked)"),
        ("key AKIAIOSFODNN7EXAMPLE.", "key (masked)."),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.c2ln", "jwt (masked)"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
            "(masked private key)",
        ),
    ] {
        assert_eq!(mask_text(with), without);
    }
}

/// Scenario: texts that mention credentials and contain none. Guarantee: they are unchanged.
#[test]
fn texts_without_credentials_stay() {
    for same in [
        "the Secret kafka-user lacks the key password",
        "a wrong password for http://ch:8123",
        "credentialsSecretRef: {name: kafka-user}",
        "secretName: registry",
        "tokenPath: /var/run/secrets/token",
        "offset 12:5, partition=3",
    ] {
        assert_eq!(mask_text(same), same);
    }
}

/// Scenario: names of fields. Guarantee: names of credentials are distinguished from names of
/// references to them.
#[test]
fn places_of_credentials_are_no_credentials() {
    for name in ["password", "saslPassword", "apiKey", "privateKey", "bearerToken", "clientSecret"]
    {
        assert!(is_credential(name), "{name}");
    }
    for name in ["credentialsSecretRef", "secretName", "secretKey", "tokenFile", "replicas"] {
        assert!(!is_credential(name), "{name}");
    }
}

/// Scenario: a pod with a value in its environment, one from a Secret, an annotation that repeats
/// it all, managed fields. Guarantee: the value is masked, the reference stays, annotation and
/// managed fields are removed.
#[test]
fn objects_lose_values_and_keep_references() {
    let mut pod = json!({
        "kind": "Pod",
        "metadata": {
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{\"x\":\"hunter2\"}",
                "note": "token: hunter2",
            },
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {"containers": [{
            "args": ["--password", "--password=hunter2"],
            "env": [
                {"name": "A", "value": "hunter2"},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}},
            ],
        }]},
    });
    mask_object(&mut pod);
    let masked = json!({
        "kind": "Pod",
        "metadata": {"annotations": {"note": "token: (masked)"}},
        "spec": {"containers": [{
            "args": ["--password", "--password=(masked)"],
            "env": [
                {"name": "A", "value": "(masked)"},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}},
            ],
        }]},
    });
    assert_eq!(pod, masked);
}

proptest! {
    /// Scenario: any text around a credential. Guarantee: the credential is removed.
    #[test]
    fn a_named_credential_is_masked_anywhere(before in "[a-z ]{0,20}", value in "[A-Za-z0-9]{9,30}") {
        let with = format!("{before} password={value} x");
        prop_assert!(!mask_text(&with).contains(&value), "{}", mask_text(&with));
        let mut body = json!({"spec": {"deep": [{"clientSecret": value.clone()}]}});
        mask_object(&mut body);
        prop_assert!(!body.to_string().contains(&value));
    }
}
