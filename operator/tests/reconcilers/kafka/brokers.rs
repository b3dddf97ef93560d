//! Brokers that a cluster names itself, against librdkafka's mock cluster: whom the operator may
//! connect to holds for them as for those of a spec.

use millrace_crds::Reason;
use millrace_operator::kafka::{Brokers, ConnectionSettings, Pace, Sessions};
use millrace_operator::outbound::Outbound;
use rdkafka::mocking::MockCluster;

/// Scenario: a cluster that is reached by an allowed name says that its brokers are at another
/// address; once that isn't allowed, once it is. Guarantee: refused, with the broker's address;
/// taken.
#[tokio::test(flavor = "multi_thread")]
async fn brokers_that_a_cluster_names_must_be_allowed_too() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("there", 3, 1).unwrap();
    let named = cluster.bootstrap_servers();
    let (host, port) = named.split(',').next().unwrap().rsplit_once(':').unwrap();
    assert_eq!(host, "127.0.0.1");
    let ask = async |hosts: &[&str]| {
        let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
        let sessions = Sessions::new(Pace::AT_ONCE).bounded_by(Outbound::new(hosts, None));
        let to = ConnectionSettings::from_servers(&format!("localhost:{port}"), None);
        sessions.observe_topic(to, "there").await
    };
    let refused = ask(&["localhost"]).await.unwrap_err();
    assert_eq!(refused.reason, Reason::HostNotAllowed);
    assert!(refused.message.contains(&format!("127.0.0.1:{port}")), "{refused}");
    let taken = ask(&["localhost", "127.0.0.1"]).await;
    assert!(!taken.is_err_and(|it| it.reason == Reason::HostNotAllowed));
}
