//! Steps that label records with the metadata of the pod that sent them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use millrace_processing::enrich::{
    AttributeValue, FindPod, PodAttributes, PodKey, RequestOrigin, UnlabeledReason,
};
use millrace_processing::{Config, Counts, Outcome, RuleSet, Scratch};
use millrace_wire::limits::WireLimits;
use millrace_wire::{Signal, otlp};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::ResourceLogs;
use proptest::prelude::*;
use prost::Message;
use serde_json::json;

use crate::properties::request;
use crate::requests::{LIMIT_BYTES, attribute, int, list, logs, record, resource, text};

/// The known pods, by what identifies them.
#[derive(Default)]
struct Pods(BTreeMap<String, Result<Arc<PodAttributes>, UnlabeledReason>>);

impl Pods {
    fn with(mut self, key: &str, found: Result<Vec<(&str, &str)>, UnlabeledReason>) -> Self {
        let encode = |pairs: Vec<(&str, &str)>| {
            let text = |(name, value)| (name, AttributeValue::Text(value));
            let pairs: Vec<_> = pairs.into_iter().map(text).collect();
            Arc::new(PodAttributes::encode(&pairs))
        };
        self.0.insert(key.to_owned(), found.map(encode));
        self
    }
}

impl FindPod for Pods {
    fn find_pod(&self, key: PodKey<'_>) -> Result<Arc<PodAttributes>, UnlabeledReason> {
        let key = match key {
            PodKey::Address(address) => address.to_string(),
            PodKey::Uid(uid) => format!("uid {uid}"),
            PodKey::Name { namespace, name } => format!("{namespace}/{name}"),
        };
        self.0.get(&key).cloned().unwrap_or(Err(UnlabeledReason::UnknownPod))
    }
}

fn rules(pod_metadata: &serde_json::Value) -> RuleSet {
    let steps = json!([{"name": "pods", "enrich": {"podMetadata": pod_metadata}}]);
    let config: Config = serde_json::from_value(steps).unwrap();
    RuleSet::compile(&config).unwrap()
}

fn run(
    rules: &RuleSet,
    pods: &Pods,
    client: Option<&str>,
    request: &ExportLogsServiceRequest,
) -> (Outcome, Counts) {
    let client = client.map(|client| client.parse::<IpAddr>().unwrap());
    let origin = RequestOrigin { client, pods: Some(pods) };
    let (bytes, mut counts) = (request.encode_to_vec(), Counts::default());
    let input = (Signal::Logs, bytes.as_slice());
    let mut scratch = Scratch::default();
    let outcome = rules
        .run_from(origin, input, LIMIT_BYTES, &mut scratch, &mut counts, &mut Vec::new())
        .unwrap();
    if let Outcome::Changed(changed) = &outcome {
        otlp::check_request(Signal::Logs, changed, &WireLimits::default()).unwrap();
    }
    (outcome, counts)
}

/// The attributes of the first resource after the rules.
fn labeled(outcome: &Outcome) -> Vec<KeyValue> {
    let Outcome::Changed(bytes) = outcome else { panic!("{outcome:?}") };
    let request = ExportLogsServiceRequest::decode(bytes.as_slice()).unwrap();
    request.resource_logs.into_iter().next().unwrap().resource.unwrap().attributes
}

fn with_attributes(attributes: &[(&str, &str)]) -> ExportLogsServiceRequest {
    let mut request = logs(vec![record(), record()]);
    let pairs = attributes.iter().map(|(key, value)| attribute(key, text(value)));
    request.resource_logs[0].resource = resource(pairs.collect());
    request
}

/// Scenario: each association alone and in any order, with values that are absent, unknown, shared,
/// or in another spelling. Guarantee: the first known pod labels the records; a resource that names
/// an unknown pod gets no other pod's labels; an address that identifies none leads to the next
/// association; each record without labels is counted with the reason.
#[test]
fn the_first_association_that_identifies_a_pod_labels_the_records() {
    use UnlabeledReason::{NoIdentity, NotSynced, SharedAddress, UnknownPod};
    let pods = Pods::default()
        .with("10.0.0.1", Ok(vec![("pod", "address")]))
        .with("fd00::1", Ok(vec![("pod", "address6")]))
        .with("10.0.0.9", Err(SharedAddress))
        .with("10.0.0.8", Err(NotSynced))
        .with("uid u1", Ok(vec![("pod", "uid")]))
        .with("s/p", Ok(vec![("pod", "name")]));
    let (uid, ip) = ("k8s.pod.uid", "k8s.pod.ip");
    let name = [("k8s.namespace.name", "s"), ("k8s.pod.name", "p")];
    type Case<'c> =
        (&'c str, Option<&'c str>, &'c [(&'c str, &'c str)], Result<&'c str, UnlabeledReason>);
    let cases: &[Case<'_>] = &[
        ("Connection", Some("10.0.0.1"), &[], Ok("address")),
        ("Connection", Some("fd00::1"), &[], Ok("address6")),
        ("Connection", Some("10.0.0.2"), &[], Err(UnknownPod)),
        ("Connection", Some("10.0.0.9"), &[], Err(SharedAddress)),
        ("Connection", Some("10.0.0.8"), &[], Err(NotSynced)),
        ("Connection", None, &[(uid, "u1")], Err(NoIdentity)),
        ("PodUid", Some("10.0.0.1"), &[(uid, "u1")], Ok("uid")),
        ("PodUid", Some("10.0.0.1"), &[(uid, "")], Err(NoIdentity)),
        ("PodUid", Some("10.0.0.1"), &[], Err(NoIdentity)),
        ("PodIp", None, &[(ip, "10.0.0.1")], Ok("address")),
        ("PodIp", None, &[(ip, "::ffff:10.0.0.1")], Ok("address")),
        ("PodIp", None, &[(ip, "FD00:0::1")], Ok("address6")),
        ("PodIp", None, &[(ip, "cart-1")], Err(NoIdentity)),
        ("PodName", None, &name, Ok("name")),
        ("PodName", None, &name[..1], Err(NoIdentity)),
        ("PodUid Connection", Some("10.0.0.1"), &[(uid, "u1")], Ok("uid")),
        ("PodUid Connection", Some("10.0.0.1"), &[], Ok("address")),
        ("PodUid Connection", Some("10.0.0.1"), &[(uid, "u2")], Err(UnknownPod)),
        ("PodIp Connection", Some("10.0.0.1"), &[(ip, "10.0.0.9")], Ok("address")),
        ("Connection PodUid", Some("10.0.0.1"), &[(uid, "u1")], Ok("address")),
        ("Connection PodUid", Some("10.0.0.2"), &[(uid, "u1")], Ok("uid")),
        ("Connection PodName", Some("10.0.0.9"), &name, Ok("name")),
        ("Connection PodName", Some("10.0.0.9"), &[], Err(SharedAddress)),
    ];
    for (index, (association, client, attributes, expected)) in cases.iter().enumerate() {
        let names: Vec<&str> = association.split(' ').collect();
        let rules = rules(&json!({"association": names}));
        let (outcome, counts) = run(&rules, &pods, *client, &with_attributes(attributes));
        let mut unlabeled = [0; 4];
        match expected {
            Ok(pod) => {
                let found = labeled(&outcome);
                assert_eq!(found.last(), Some(&attribute("pod", text(pod))), "case {index}");
                assert_eq!((counts.rules[0].matched, counts.rules[0].changed), (1, 1));
            }
            Err(reason) => {
                assert_eq!(outcome, Outcome::Unchanged, "case {index}");
                unlabeled[reason.index()] = 2;
            }
        }
        assert_eq!(counts.unlabeled, unlabeled, "case {index}: {association}");
    }
}

/// Scenario: a client sends attributes under the names of metadata: another value, the same one,
/// one of another type, several, none; also no resource at all. Guarantee: by default the cluster's
/// value is the only one and others stay; with `Keep` the client's stay, and absent ones are added.
#[test]
fn forged_names_are_overwritten_or_stay() {
    let pods = Pods::default().with("10.0.0.1", Ok(vec![("a", "1"), ("b", "2")]));
    let pair = |key: &str, value: &str| attribute(key, text(value));
    let cases = [
        (vec![], vec![pair("a", "1"), pair("b", "2")], None),
        (vec![pair("x", "y")], vec![pair("x", "y"), pair("a", "1"), pair("b", "2")], None),
        (
            vec![pair("b", "forged"), pair("x", "y")],
            vec![pair("b", "2"), pair("x", "y"), pair("a", "1")],
            Some(vec![pair("b", "forged"), pair("x", "y"), pair("a", "1")]),
        ),
        (
            vec![pair("a", "1"), pair("b", "2"), pair("a", "forged"), attribute("b", int(1))],
            vec![pair("a", "1"), pair("b", "2")],
            Some(vec![]),
        ),
        (
            vec![attribute("b", list(vec![text("forged")])), pair("a", "1")],
            vec![pair("b", "2"), pair("a", "1")],
            Some(vec![]),
        ),
        (vec![pair("b", "2"), pair("a", "1")], vec![], Some(vec![])),
    ];
    for (sent, overwritten, retained) in cases {
        let mut request = logs(vec![record()]);
        request.resource_logs[0].resource = resource(sent);
        let retained = retained.unwrap_or_else(|| overwritten.clone());
        for (on_conflict, expected) in [("Overwrite", overwritten), ("Keep", retained)] {
            let rules = rules(&json!({"onConflict": on_conflict}));
            let (outcome, _) = run(&rules, &pods, Some("10.0.0.1"), &request);
            match expected.is_empty() {
                true => assert_eq!(outcome, Outcome::Unchanged, "{on_conflict}"),
                false => assert_eq!(labeled(&outcome), expected, "{on_conflict}"),
            }
        }
    }
    let mut request = logs(vec![record()]);
    request.resource_logs[0].resource = None;
    let (outcome, _) = run(&rules(&json!({})), &pods, Some("10.0.0.1"), &request);
    assert_eq!(labeled(&outcome), [pair("a", "1"), pair("b", "2")]);
}

/// Scenario: a request of several resources of different pods, one of them unknown, before a step
/// that reads the labels. Guarantee: each gets its own pod's labels, and the later step sees them.
#[test]
fn each_resource_has_its_own_pod() {
    let pods = Pods::default()
        .with("uid one", Ok(vec![("team", "red")]))
        .with("uid two", Ok(vec![("team", "blue")]));
    let group = |uid: &str| ResourceLogs {
        resource: resource(vec![attribute("k8s.pod.uid", text(uid))]),
        ..logs(vec![record()]).resource_logs.remove(0)
    };
    let groups = ["one", "gone", "two"].map(group).to_vec();
    let request = ExportLogsServiceRequest { resource_logs: groups };
    let steps = json!([
        {"name": "pods", "enrich": {"podMetadata": {"association": ["PodUid"]}}},
        {"name": "mark", "statements": [
            "set(log.body, resource.attributes[\"team\"]) where resource.attributes[\"team\"] != nil",
        ]},
    ]);
    let rules = RuleSet::compile(&serde_json::from_value(steps).unwrap()).unwrap();
    assert_eq!(rules.walks(Signal::Logs), 1);
    let (outcome, counts) = run(&rules, &pods, None, &request);
    let Outcome::Changed(bytes) = outcome else { panic!("{outcome:?}") };
    let after = ExportLogsServiceRequest::decode(bytes.as_slice()).unwrap();
    let bodies = after.resource_logs.iter().map(|it| it.scope_logs[0].log_records[0].body.clone());
    let expected = [Some(text("red")), record().body, Some(text("blue"))];
    assert_eq!(bodies.collect::<Vec<_>>(), expected);
    assert_eq!(counts.unlabeled[UnlabeledReason::UnknownPod.index()], 1);
}

/// Scenario: a request that may not become longer. Guarantee: its records pass on unlabeled, and
/// the failure is counted.
#[test]
fn labels_that_do_not_fit_leave_the_request_as_it_is() {
    let long = "x".repeat(64 << 10);
    let pods = Pods::default().with("10.0.0.1", Ok(vec![("a", &long)]));
    let origin = RequestOrigin { client: Some("10.0.0.1".parse().unwrap()), pods: Some(&pods) };
    let bytes = logs(vec![record()]).encode_to_vec();
    let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
    let input = (Signal::Logs, bytes.as_slice());
    let outcome =
        rules(&json!({})).run_from(origin, input, 0, &mut scratch, &mut counts, &mut Vec::new());
    assert_eq!(outcome, Ok(Outcome::Unchanged));
    assert_eq!(counts.over_limit, 1);
}

/// Scenario: settings that can't be used. Guarantee: each is refused with its field.
#[test]
fn unusable_settings_are_refused_with_their_field() {
    let metadata = |metadata| json!([{"name": "a", "enrich": {"podMetadata": metadata}}]);
    let two = json!([{"name": "a", "enrich": {"podMetadata": {}}},
                     {"name": "b", "enrich": {"podMetadata": {}}}]);
    for (steps, expected) in [
        (metadata(json!({"association": []})), "enrich.podMetadata.association: write at least"),
        (
            metadata(json!({"association": ["PodIp", "PodIp"]})),
            "enrich.podMetadata.association[1]: PodIp is listed before",
        ),
        (metadata(json!({"labels": ["a*b"]})), "enrich.podMetadata.labels[0]: write a name"),
        (metadata(json!({"annotations": [""]})), "enrich.podMetadata.annotations[0]: write"),
        (two, "step \"b\": another step adds pods' metadata"),
    ] {
        let config: Config = serde_json::from_value(steps).unwrap();
        let errors = RuleSet::compile(&config).unwrap_err().to_string();
        assert!(errors.contains(expected), "{errors}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Scenario: any request, without a matching pod, and then with one. Guarantee: without it the
    /// request keeps its bytes; with it, only attributes of resources differ, all clients' other
    /// attributes included.
    #[test]
    fn only_resource_attributes_of_known_pods_change(request in request()) {
        let rules = rules(&json!({}));
        let (outcome, _) = run(&rules, &Pods::default(), Some("10.0.0.1"), &request);
        prop_assert_eq!(outcome, Outcome::Unchanged);
        let pods = Pods::default().with("10.0.0.1", Ok(vec![("k8s.pod.name", "p")]));
        let (outcome, counts) = run(&rules, &pods, Some("10.0.0.1"), &request);
        let mut expected = request.clone();
        for group in &mut expected.resource_logs {
            let attributes = &mut group.resource.get_or_insert_default().attributes;
            attributes.retain(|known| known.key != "k8s.pod.name");
            attributes.push(attribute("k8s.pod.name", text("p")));
        }
        if let Outcome::Changed(bytes) = outcome {
            prop_assert_eq!(ExportLogsServiceRequest::decode(bytes.as_slice()).unwrap(), expected);
        } else {
            prop_assert_eq!(counts.rules.first().map_or(0, |rule| rule.changed), 0);
        }
    }
}
