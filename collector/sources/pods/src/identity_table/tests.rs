//! Tests of the table of pods by address, uid and name.

use millrace_processing::enrich::AttributeValue;

use super::UnlabeledReason::{NotSynced, SharedAddress, UnknownPod};
use super::*;

/// A pod with a uid, whose attributes state it, and addresses.
fn pod(uid: &str, addresses: &[&str]) -> PodIdentity {
    PodIdentity {
        uid: uid.to_owned(),
        name_key: name_key("s", &format!("pod-{uid}")),
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        is_on_host_network: false,
        is_terminating: false,
        has_ended: false,
        attributes: attributes(uid),
    }
}

fn attributes(uid: &str) -> PodAttributes {
    PodAttributes::encode(&[("k8s.pod.uid", AttributeValue::Text(uid))])
}

fn synced(bytes_max: u64) -> IdentityTable {
    let table = IdentityTable::new(bytes_max);
    table.begin_list();
    table.finish_list(Instant::now());
    table
}

/// The uid of the pod that a key finds.
fn find(
    table: &IdentityTable,
    key: PodKey<'_>,
    uids: &[&'static str],
) -> Result<&'static str, UnlabeledReason> {
    let found = table.find_pod(key)?;
    Ok(uids.iter().copied().find(|uid| *found == attributes(uid)).unwrap_or("another"))
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn by_address(table: &IdentityTable, address: &str) -> Result<&'static str, UnlabeledReason> {
    find(table, PodKey::Address(ip(address)), &["1", "2", "3"])
}

fn by_uid(table: &IdentityTable, uid: &str) -> Result<&'static str, UnlabeledReason> {
    find(table, PodKey::Uid(uid), &["1", "2", "3"])
}

/// Scenario: two pods with one address, in each order and state: both run, one terminates, one has
/// ended, one is on the host's network. Guarantee: an address identifies the pod that has it alone;
/// the newer one if the other's end has begun; none if both run or it is the node's.
#[test]
fn an_address_of_two_pods_identifies_the_one_that_has_it_still() {
    let terminating = |pod| PodIdentity { is_terminating: true, ..pod };
    let ended = |pod| PodIdentity { has_ended: true, ..pod };
    let host = |pod| PodIdentity { is_on_host_network: true, ..pod };
    let one = || pod("1", &["10.0.0.1", "fd00::1"]);
    let two = || pod("2", &["10.0.0.1"]);
    let cases: [(PodIdentity, PodIdentity, Result<&str, UnlabeledReason>); 8] = [
        (one(), pod("2", &["10.0.0.2"]), Ok("1")),
        (one(), two(), Err(SharedAddress)),
        (terminating(one()), two(), Ok("2")),
        (one(), terminating(two()), Ok("1")),
        (terminating(one()), terminating(two()), Err(SharedAddress)),
        (ended(one()), two(), Ok("2")),
        (ended(one()), ended(two()), Err(UnknownPod)),
        (host(one()), two(), Err(SharedAddress)),
    ];
    for (index, (first, second, expected)) in cases.into_iter().enumerate() {
        let (table, now) = (synced(1 << 20), Instant::now());
        assert!(table.store_pod(first, now) && table.store_pod(second, now));
        assert_eq!(by_address(&table, "10.0.0.1"), expected, "case {index}");
        assert_eq!((by_uid(&table, "1"), by_uid(&table, "2")), (Ok("1"), Ok("2")));
    }
}

/// Scenario: a pod runs, is updated with another address, ends, and another one gets its address
/// and its name; later events repeat. Guarantee: it is found by each current address; after its end
/// by uid until the retention has passed, never by address; name and address are the newer pod's.
#[test]
fn an_ended_pod_is_found_by_uid_for_a_while() {
    let (table, start) = (synced(1 << 20), Instant::now());
    table.store_pod(pod("1", &["10.0.0.1", "fd00::1"]), start);
    assert_eq!(by_address(&table, "fd00::1"), Ok("1"));
    table.store_pod(pod("1", &["10.0.0.3"]), start);
    assert_eq!(
        (by_address(&table, "10.0.0.1"), by_address(&table, "10.0.0.3")),
        (Err(UnknownPod), Ok("1"))
    );
    let ended = || PodIdentity { has_ended: true, ..pod("1", &["10.0.0.3"]) };
    table.store_pod(ended(), start);
    table.store_pod(ended(), start + Duration::from_secs(60));
    table.mark_deleted("1", start + Duration::from_secs(61));
    assert_eq!((by_address(&table, "10.0.0.3"), by_uid(&table, "1")), (Err(UnknownPod), Ok("1")));
    let newer = PodIdentity { name_key: name_key("s", "pod-1"), ..pod("2", &["10.0.0.3"]) };
    table.store_pod(newer, start);
    let name = PodKey::Name { namespace: "s", name: "pod-1" };
    assert_eq!(find(&table, name, &["1", "2"]), Ok("2"));
    assert_eq!(by_address(&table, "10.0.0.3"), Ok("2"));
    assert_eq!(table.evict_ended(start + ENDED_RETENTION - Duration::from_secs(1)).0, 2);
    assert_eq!(table.evict_ended(start + ENDED_RETENTION).0, 1);
    assert_eq!((by_uid(&table, "1"), find(&table, name, &["2"])), (Err(UnknownPod), Ok("2")));
    // A pod that was thought gone and is stored again stays.
    table.mark_deleted("2", start);
    table.store_pod(pod("2", &["10.0.0.3"]), start);
    assert_eq!(table.evict_ended(start + 2 * ENDED_RETENTION).0, 1);
    assert_eq!(by_address(&table, "10.0.0.3"), Ok("2"));
}

/// Scenario: the first list is on its way; it ends; a second list lacks a pod whose address another
/// pod has by then. Guarantee: unknown pods have the reason that the list isn't complete; known
/// pods are found throughout; the address is the newer pod's at once, and the absent pod's uid is
/// known for the retention.
#[test]
fn pods_of_an_earlier_list_are_known_until_the_next_one_ends() {
    let (table, now) = (IdentityTable::new(1 << 20), Instant::now());
    assert_eq!(by_uid(&table, "1"), Err(NotSynced));
    table.begin_list();
    table.store_pod(pod("1", &["10.0.0.1"]), now);
    table.store_pod(pod("2", &["10.0.0.2"]), now);
    assert_eq!((by_uid(&table, "1"), by_uid(&table, "3")), (Ok("1"), Err(NotSynced)));
    table.finish_list(now);
    assert_eq!(by_uid(&table, "3"), Err(UnknownPod));
    table.begin_list();
    assert_eq!(
        (by_address(&table, "10.0.0.1"), by_address(&table, "10.0.0.2")),
        (Ok("1"), Ok("2"))
    );
    table.store_pod(pod("3", &["10.0.0.1"]), now);
    table.store_pod(pod("2", &["10.0.0.2"]), now);
    assert_eq!(by_address(&table, "10.0.0.1"), Ok("3"));
    table.finish_list(now);
    assert_eq!(
        (by_address(&table, "10.0.0.1"), by_address(&table, "10.0.0.2")),
        (Ok("3"), Ok("2"))
    );
    assert_eq!(by_uid(&table, "1"), Ok("1"));
    assert_eq!(table.evict_ended(now + ENDED_RETENTION).0, 2);
}

/// Scenario: more pods than the memory holds, some of which ended. Guarantee: the pods that ended
/// first make space; when all run, a new one isn't stored and the known ones stay; all memory is
/// free again at the end.
#[test]
fn the_table_is_bounded_and_ended_pods_make_space() {
    let now = Instant::now();
    let one = synced(1 << 20);
    one.store_pod(pod("1", &["10.0.0.1"]), now);
    let (_, bytes) = one.evict_ended(now);
    let table = synced(2 * bytes);
    assert!(table.store_pod(pod("1", &["10.0.0.1"]), now));
    assert!(table.store_pod(pod("2", &["10.0.0.2"]), now));
    assert!(!table.store_pod(pod("3", &["10.0.0.3"]), now));
    assert_eq!((by_uid(&table, "1"), by_uid(&table, "2")), (Ok("1"), Ok("2")));
    table.mark_deleted("2", now);
    assert!(table.store_pod(pod("3", &["10.0.0.3"]), now));
    assert_eq!((by_uid(&table, "2"), by_uid(&table, "3")), (Err(UnknownPod), Ok("3")));
    ["1", "3"].iter().for_each(|uid| table.mark_deleted(uid, now));
    assert_eq!(table.evict_ended(now + ENDED_RETENTION), (0, 0));
    assert!(table.read().addresses.is_empty() && table.read().names.is_empty());
}

/// Scenario: a pod is stored before and after its namespace is known; the namespace gets another
/// label, then so long a one that memory ends; the pods end. Guarantee: pods have their own attributes
/// and the namespace's current ones; without memory the own ones stay; all memory is accounted for.
#[test]
fn pods_have_the_attributes_of_their_namespace() {
    let (table, now) = (synced(4_096), Instant::now());
    let team = |team: &str| {
        PodAttributes::encode(&[("k8s.namespace.label.team", AttributeValue::Text(team))])
    };
    let with = |uid: &str, more: &PodAttributes| {
        let own = attributes(uid);
        own.join(own.bytes().len(), more)
    };
    let found = |uid: &str| table.find_pod(PodKey::Uid(uid)).unwrap();
    table.store_pod(pod("1", &["10.0.0.1"]), now);
    assert!(table.set_namespace("s", team("a")) && table.set_namespace("other", team("b")));
    table.store_pod(pod("2", &["10.0.0.2"]), now);
    assert_eq!((&*found("1"), &*found("2")), (&with("1", &team("a")), &with("2", &team("a"))));
    assert!(table.set_namespace("s", team("longer")));
    table.store_pod(pod("2", &["10.0.0.2"]), now);
    assert_eq!(*found("1"), with("1", &team("longer")));
    assert_eq!(*found("2"), with("2", &team("longer")));
    assert!(!table.set_namespace("s", team(&"x".repeat(4_096))));
    table.store_pod(pod("2", &["10.0.0.2"]), now);
    assert_eq!(*found("2"), attributes("2"));
    ["s", "other"].iter().for_each(|name| table.remove_namespace(name));
    ["1", "2"].iter().for_each(|uid| table.mark_deleted(uid, now));
    assert_eq!(table.evict_ended(now + ENDED_RETENTION), (0, 0));
}
