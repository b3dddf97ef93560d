//! Which values a pool's Secret has, and what is said of the others.

use super::*;

fn used(namespace: &str, name: &str, key: &str) -> SecretUse {
    SecretUse {
        holder: Holder::Secret,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        key: key.to_owned(),
    }
}

/// Scenario: keys that are there, missing, empty and too long, of two Secrets with one name in two
/// namespaces. Guarantee: each value lies under its own name, and of the others it is said why.
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
        (held(&a), Ok(values("of a"))),
        (held(&b), Ok(values("of b"))),
        (held(&used("a", "gone", "k")), Err("it does not exist".to_owned())),
    ]);
    let all = [
        a.clone(),
        b.clone(),
        used("a", "s", "no"),
        used("a", "s", "empty"),
        used("a", "s", "long"),
        used("a", "gone", "k"),
    ];
    let (data, missing) = pick(&all.into_iter().collect(), &objects);
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

/// Scenario: values of more than a Secret holds. Guarantee: those that fit are there, the others
/// are told.
#[test]
fn what_does_not_fit_is_told() {
    let text = vec![b'x'; VALUE_BYTES_MAX];
    let keys = (0..20).map(|at| (format!("k{at:02}"), ByteString(text.clone())));
    let values: Values = keys.collect();
    let uses: BTreeSet<_> = values.keys().map(|key| used("a", "s", key)).collect();
    let objects = BTreeMap::from([(held(&used("a", "s", "k")), Ok(values))]);
    let (data, missing) = pick(&uses, &objects);
    assert_eq!((data.len(), missing.len()), (14, 6));
}
