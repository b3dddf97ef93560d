//! Tests of the addresses that a target may have.

use super::is_local;

/// Scenario: addresses of machines, of links and of no host are checked. Guarantee: those of this
/// machine or its link are recognized in either family, also embedded in the other.
#[test]
fn addresses_of_this_machine_and_its_link_are_told() {
    let local = [
        "127.0.0.1",
        "127.9.9.9",
        "169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "0.1.2.3",
        // NAT64, 6to4 and IPv4-compatible forms of local addresses.
        "64:ff9b::127.0.0.1",
        "64:ff9b::169.254.169.254",
        "2002:7f00:1::1",
        "2002:a9fe:a9fe::1",
        "::127.0.0.2",
        // Clouds' machine-local services.
        "fd00:ec2::254",
        "fd20:ce::254",
        "100.100.100.200",
        "168.63.129.16",
        "::ffff:168.63.129.16",
    ];
    for address in local {
        assert!(is_local(address.parse().unwrap()), "{address}");
    }
    for address in [
        "10.0.0.1",
        "192.168.1.1",
        "8.8.8.8",
        "fd00::1",
        "2001:db8::1",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
        "100.64.0.1",
    ] {
        assert!(!is_local(address.parse().unwrap()), "{address}");
    }
}
