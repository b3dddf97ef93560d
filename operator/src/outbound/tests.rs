//! Tests of the private parts of `outbound/mod.rs`.

use super::*;

fn outbound(hosts: &[&str]) -> Outbound {
    let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
    Outbound::new(hosts, Some("10.96.0.1".into()))
}

/// Scenario: hosts against no list, a name, an address and a domain. Guarantee: link-local ones are
/// never allowed; without a list all others are, with one only those it names.
#[test]
fn hosts_are_allowed_as_the_list_says_and_link_local_ones_never() {
    let any = outbound(&[]);
    for host in ["clickhouse", "10.0.0.1", "kubernetes.example", "localhost.example"] {
        assert_eq!(any.refusal_of_host(host), None, "{host}");
    }
    let all = ["169.254.169.254", "[fe80::1]", "fd00:ec2::254"];
    for outbound in [any, outbound(&["169.254.169.254", "[fe80::1]"])] {
        assert!(all.iter().all(|host| outbound.refusal_of_host(host).is_some()));
    }
    let some = outbound(&["*.db.example", "Kafka", "[::1]"]);
    for host in ["a.db.example", "A.B.DB.example.", "kafka", "::1"] {
        assert_eq!(some.refusal_of_host(host), None, "{host}");
    }
    for host in ["db.example", "evil-db.example", "kafka.evil", "10.0.0.1", "a.db.example.evil"] {
        assert!(some.refusal_of_host(host).is_some(), "{host}");
    }
}

/// Scenario: invalid patterns. Guarantee: they are refused at the start, not ignored.
#[test]
fn a_pattern_that_means_nothing_is_refused() {
    for text in ["", "*", "*example.com", ".example.com", "a b", "http://a", "a/24"] {
        assert!(text.parse::<Pattern>().is_err(), "{text}");
    }
}

/// Scenario: the operator's own machine and the API server in their spellings, without a list, with
/// one of others, and with one that names them. Guarantee: they are only allowed in the last case.
#[test]
fn this_machine_and_the_api_server_are_refused_unless_listed() {
    let machine = ["localhost", "LocalHost.", "a.localhost", "127.0.0.1", "[::1]", "0.0.0.0"];
    let server = ["kubernetes", "kubernetes.default", "kubernetes.default.svc.cluster.local."];
    let domains = ["*.default", "*.cluster.local", "clickhouse"];
    for outbound in [outbound(&[]), outbound(&domains)] {
        let refusal = |host: &str| outbound.refusal_of_host(host).unwrap_or_default();
        for host in machine {
            assert!(refusal(host).contains("loopback"), "{host}");
        }
        let addresses = ["10.96.0.1", "[::ffff:10.96.0.1]", "[64:ff9b::10.96.0.1]"];
        for host in server.into_iter().chain(addresses) {
            assert!(refusal(host).contains("API server"), "{host}");
        }
    }
    let listed = outbound(&["localhost", "127.0.0.1", "kubernetes.default", "10.96.0.1"]);
    for host in ["localhost", "127.0.0.1", "kubernetes.default", "10.96.0.1"] {
        assert_eq!(listed.refusal_of_host(host), None, "{host}");
    }
    assert!(listed.refusal_of_host("169.254.169.254").is_some());
    assert_eq!(listed.refused_among("174063617:443"), None);
}

/// Scenario: a link-local address, a loopback address and the API server's, each as one number among
/// servers. Guarantee: all are found when resolved, the second unless a loopback address is listed.
#[test]
fn a_server_that_resolves_to_a_refused_address_is_found() {
    let (any, loopback) = (outbound(&[]), outbound(&["127.0.0.1"]));
    let found = |outbound: &Outbound, number: u32| {
        let servers = format!("10.0.0.1:9092,{number}:9092");
        outbound.refused_among(&servers).inspect(|(server, _)| {
            assert_eq!(*server, format!("{number}:9092"));
        })
    };
    let kind = |outbound: &Outbound, number| found(outbound, number).map(|(_, kind)| kind);
    for outbound in [&any, &loopback] {
        assert_eq!(outbound.refused_among("10.0.0.1:9092"), None);
        assert_eq!(kind(outbound, 2_852_039_166), Some("a link-local address"));
        assert_eq!(kind(outbound, 174_063_617), Some("the address of the API server"));
    }
    assert_eq!(kind(&any, 2_130_706_433), Some("a loopback address"));
    assert_eq!(kind(&loopback, 2_130_706_433), None);
}
