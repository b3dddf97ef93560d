//! Tests of what `outbound/mod.rs` keeps to itself.

use super::*;

fn outbound(hosts: &[&str]) -> Outbound {
    Outbound::new(hosts.iter().map(|host| host.parse().unwrap()).collect())
}

/// Scenario: hosts against no list, a name, an address and a domain. Guarantee: link-local ones
/// are never allowed; without a list all others are, with one only what it names.
#[test]
fn hosts_are_allowed_as_the_list_says_and_link_local_ones_never() {
    let any = outbound(&[]);
    for host in ["clickhouse", "10.0.0.1", "127.0.0.1", "[::1]"] {
        assert_eq!(any.refuses(host), None, "{host}");
    }
    let all = ["169.254.169.254", "[fe80::1]", "fd00:ec2::254"];
    for outbound in [any, outbound(&["169.254.169.254", "[fe80::1]"])] {
        assert!(all.iter().all(|host| outbound.refuses(host).is_some()));
    }
    let some = outbound(&["*.db.example", "Kafka", "[::1]"]);
    for host in ["a.db.example", "A.B.DB.example.", "kafka", "::1"] {
        assert_eq!(some.refuses(host), None, "{host}");
    }
    for host in ["db.example", "evil-db.example", "kafka.evil", "10.0.0.1", "a.db.example.evil"] {
        assert!(some.refuses(host).is_some(), "{host}");
    }
}

/// Scenario: patterns that mean nothing. Guarantee: refused at the start, not passed over.
#[test]
fn a_pattern_that_means_nothing_is_refused() {
    for text in ["", "*", "*example.com", ".example.com", "a b", "http://a", "a/24"] {
        assert!(text.parse::<Pattern>().is_err(), "{text}");
    }
}

/// Scenario: a link-local address as one number among servers. Guarantee: found when resolved.
#[test]
fn a_server_that_resolves_to_a_link_local_address_is_found() {
    assert_eq!(link_local_among("127.0.0.1:9092"), None);
    let found = link_local_among("127.0.0.1:9092,2852039166:9092");
    assert_eq!(found.as_deref(), Some("2852039166:9092"));
}
