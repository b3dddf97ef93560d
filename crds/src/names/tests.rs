//! Tests of what `names.rs` keeps to itself.

use super::*;

/// Scenario: good and bad addresses. Guarantee: the bad ones are told what to write.
#[test]
fn a_bootstrap_server_is_a_host_and_a_port() {
    for good in ["kafka-0.kafka:9092", "10.0.0.1:9092", "[::1]:9093", "k:65535"] {
        assert!(good.parse::<BootstrapServer>().is_ok(), "{good}");
    }
    for bad in ["", "kafka", "kafka:", "kafka:0", "kafka:65536", "http://kafka:9092", "a b:1"] {
        let refused = bad.parse::<BootstrapServer>().unwrap_err();
        assert!(refused.to_string().contains("write host:port"), "{bad}: {refused}");
    }
}

/// Scenario: endpoints with more than scheme, host and port. Guarantee: a password can't hide
/// in an endpoint.
#[test]
fn an_endpoint_carries_no_path_and_no_credentials() {
    for good in ["http://ch:8123", "https://ch-0.db:8443", "https://ch", "http://[::1]:8123"] {
        assert!(good.parse::<ClickHouseEndpoint>().is_ok(), "{good}");
    }
    for bad in ["ch:8123", "tcp://ch:9000", "http://u:p@ch:8123", "http://ch:8123/?user=u"] {
        assert!(bad.parse::<ClickHouseEndpoint>().is_err(), "{bad}");
    }
}

/// Scenario: an overlong and a dotted topic. Guarantee: the dead-letter name always fits.
#[test]
fn a_topic_leaves_room_for_its_dead_letters() {
    assert!("otlp_traces".parse::<TopicName>().is_ok());
    assert!("a".repeat(237).parse::<TopicName>().is_ok());
    assert!("a".repeat(238).parse::<TopicName>().is_err());
    assert!("..".parse::<TopicName>().is_err());
    assert!("otlp traces".parse::<TopicName>().is_err());
}

/// Scenario: names of edge pools, the one that is meant when none is written among them.
/// Guarantee: each can be a part of a Service's name.
#[test]
fn an_edge_pools_name_is_a_short_label() {
    let default = EdgeName::default();
    assert_eq!(default.as_str().parse(), Ok(default));
    assert!("a".repeat(16).parse::<EdgeName>().is_ok());
    for bad in ["", "1", "-a", "a-", "a.b", "Nodes", "aaaaaaaaaaaaaaaaa"] {
        assert!(bad.parse::<EdgeName>().is_err(), "{bad}");
    }
}

/// Scenario: versions with and without extras. Guarantee: a version makes a legal image tag.
#[test]
fn a_version_is_three_numbers_and_maybe_a_pre_release() {
    for good in ["0.1.0", "12.0.3-rc.1", "1.2.3-beta-2"] {
        assert!(good.parse::<Version>().is_ok(), "{good}");
    }
    for bad in ["v0.1.0", "0.1", "latest", "0.1.0+build", "0.1.0-"] {
        assert!(bad.parse::<Version>().is_err(), "{bad}");
    }
}

/// Scenario: an absurdly long text. Guarantee: the error shows only its beginning.
#[test]
fn an_error_never_repeats_more_than_eighty_characters() {
    let refused = "!".repeat(5000).parse::<DatabaseName>().unwrap_err();
    assert_eq!(refused.text.len(), 80);
}
