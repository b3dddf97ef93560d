//! Tests of which values a pool's Secret contains, and how missing ones are reported.

use super::*;

fn used(namespace: &str, name: &str, key: &str) -> SecretUse {
    SecretUse {
        holder: Holder::Secret,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        key: key.to_owned(),
    }
}

/// Scenario: keys that exist, are missing, empty and too long, of two Secrets with one name in two
/// namespaces. Guarantee: each value has its own name, and each missing one is reported with its
/// reason.
#[test]
fn each_value_has_a_name_of_its_own() {
    let value = |bytes: &[u8]| ByteString(bytes.to_vec());
    let long = vec![b'x'; VALUE_BYTES_MAX + 1];
    let values = |text: &str| {
        Values::from([
            ("k".to_owned(), value(text.as_bytes())),
            ("empty".to_owned(), value(b"")),
            ("long".to_owned(), value(&long)),
        ])
    };
    let (a, b) = (used("a", "s", "k"), used("b", "s", "k"));
    let objects = BTreeMap::from([
        (object_key(&a), Ok(values("of a"))),
        (object_key(&b), Ok(values("of b"))),
        (object_key(&used("a", "gone", "k")), Err("it does not exist".to_owned())),
    ]);
    let all = [
        a.clone(),
        b.clone(),
        used("a", "s", "no"),
        used("a", "s", "empty"),
        used("a", "s", "long"),
        used("a", "gone", "k"),
    ];
    let (data, missing) = pick_values(&all.into_iter().collect(), &objects);
    assert_eq!(data.len(), 2);
    assert_eq!(data[&a.file_name()], value(b"of a"));
    assert_eq!(data[&b.file_name()], value(b"of b"));
    let told: Vec<&str> = missing.values().map(String::as_str).collect();
    assert_eq!(
        told,
        [
            "it does not exist",
            "it is empty",
            "it has over 64 KiB, the most that is read",
            "there is no such key"
        ]
    );
}

/// Scenario: values larger than a Secret's limit. Guarantee: those that fit are included, the
/// others reported.
#[test]
fn what_does_not_fit_is_told() {
    let text = vec![b'x'; VALUE_BYTES_MAX];
    let keys = (0..20).map(|at| (format!("k{at:02}"), ByteString(text.clone())));
    let values: Values = keys.collect();
    let uses: BTreeSet<_> = values.keys().map(|key| used("a", "s", key)).collect();
    let objects = BTreeMap::from([(object_key(&used("a", "s", "k")), Ok(values))]);
    let (data, missing) = pick_values(&uses, &objects);
    assert_eq!((data.len(), missing.len()), (14, 6));
}
