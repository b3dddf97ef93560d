//! Records of OTLP clients get their pods' metadata; records of other sources don't.

use std::net::IpAddr;
use std::sync::Arc;

use millrace_processing::enrich::{
    AttributeValue, FindPod, PodAttributes, PodKey, UnlabeledReason,
};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use prost::Message;
use serde_json::json;

use crate::rig::{Rig, logs, record, steps};

/// Knows the pod at one address.
struct OnePod(IpAddr);

impl FindPod for OnePod {
    fn find_pod(&self, key: PodKey<'_>) -> Result<Arc<PodAttributes>, UnlabeledReason> {
        match key == PodKey::Address(self.0) {
            true => {
                let name = ("k8s.pod.name", AttributeValue::Text("cart-1"));
                Ok(Arc::new(PodAttributes::encode(&[name])))
            }
            false => Err(UnlabeledReason::UnknownPod),
        }
    }
}

/// Scenario: requests of a known pod, of an unknown one, of a source without clients, and of a pod
/// before any table exists. Guarantee: only the first is labeled; the second is counted by its
/// reason; the others keep their bytes and are not counted; rules and records add up.
#[test]
fn only_records_of_known_pods_are_labeled_and_others_are_counted() {
    let config = steps(json!([{"name": "pods", "enrich": {"podMetadata": {}}}]));
    let mut rig = Rig::new(&config);
    let known: IpAddr = "10.0.0.1".parse().unwrap();
    let request = logs(vec![record(9, "a", "b"), record(9, "a", "c")]);
    rig.client = Some(known);
    rig.publish(Signal::Logs, &request).unwrap();
    rig.rules.set_pods(Arc::new(OnePod(known)));
    rig.publish(Signal::Logs, &request).unwrap();
    rig.client = Some("10.0.0.2".parse().unwrap());
    rig.publish(Signal::Logs, &request).unwrap();
    rig.client = None;
    rig.publish_own(Signal::Logs, &request).unwrap();
    let requests = rig.recorder.requests.lock().unwrap();
    let name = |index: usize| {
        let bytes: &[u8] = &requests[index].1;
        let decoded = ExportLogsServiceRequest::decode(bytes).unwrap();
        let resource = decoded.resource_logs.into_iter().next().unwrap().resource?;
        resource.attributes.into_iter().next().map(|attribute| attribute.key)
    };
    let names: Vec<Option<String>> = (0..4).map(name).collect();
    assert_eq!(names, [None, Some("k8s.pod.name".to_owned()), None, None]);
    for index in [0, 2, 3] {
        assert_eq!(requests[index].1, request);
    }
    let unlabeled = |reason| rig.metric("millrace_records_unlabeled_total", &[reason]);
    assert_eq!((unlabeled("unknown_pod"), unlabeled("no_identity")), (2.0, 0.0));
    assert_eq!(rig.metric("millrace_rule_changed_total", &["enrich.podMetadata[0]"]), 1.0);
}
