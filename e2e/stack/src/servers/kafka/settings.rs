//! The broker's settings as text: `server.properties`, and the arguments of the formatting tool.
//!
//! Pure: values in, text out. A broker that is alone keeps one replica of everything, and topics are
//! never made by accident.

use std::net::SocketAddr;
use std::path::Path;

use super::{Addresses, BrokerOptions, Credentials, Quorum};

/// What the broker logs, and how.
pub(super) const LOGGING: &str = include_str!("../../../kafka/log4j2.properties");

/// 16 bytes in base64: every local broker is its own cluster, so they may share the name.
pub(super) const CLUSTER_ID: &str = "TWlsbHJhY2VMb2NhbEs0MQ";

/// The file with the key and certificate of the encrypted listener, in the broker's folder.
pub(super) const KEY_STORE: &str = "key-store.pem";

/// Settings that are the same for every local broker.
const COMMON: &str = "\
process.roles=broker,controller
inter.broker.listener.name=INTERNAL
controller.listener.names=CONTROLLER
listener.security.protocol.map=INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SASL_SSL
# Few partitions of the broker's own topics: each costs files and start-up time.
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=2
share.coordinator.state.topic.num.partitions=2
# A topic exists because somebody made it; a typing error must show.
auto.create.topics.enable=false
# Groups form at once: a test should not wait 3 s for members that never come.
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
# Two cores.
num.network.threads=2
num.io.threads=4
background.threads=2
log.cleaner.dedupe.buffer.size=16777216
";

/// Settings of the SASL listener for passwords alone, and for unsigned tokens too.
const PASSWORDS: &str = "sasl.enabled.mechanisms=SCRAM-SHA-512\n";
const TOKENS: &str = "\
sasl.enabled.mechanisms=SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \
unsecuredLoginStringClaim_sub=\"broker\";
listener.name.sasl.oauthbearer.connections.max.reauth.ms=3600000
";

/// Replicas that a topic has at most.
const REPLICAS_LIMIT: usize = 3;

/// Replicas of a topic in a cluster of so many brokers.
pub(super) fn count_replicas(brokers: usize) -> usize {
    brokers.min(REPLICAS_LIMIT)
}

/// Who the broker is among the others, and how many replicas each topic has: with three, two must
/// acknowledge.
fn membership(quorum: &Quorum) -> String {
    let Quorum { controllers, node_id } = quorum;
    let replicas = count_replicas(controllers.len());
    let in_sync = replicas.div_ceil(2);
    let voters = controllers.iter().zip(1..).map(|(address, id)| format!("{id}@{address}"));
    format!(
        "node.id={node_id}\n\
         controller.quorum.voters={}\n\
         default.replication.factor={replicas}\n\
         min.insync.replicas={in_sync}\n\
         offsets.topic.replication.factor={replicas}\n\
         transaction.state.log.replication.factor={replicas}\n\
         transaction.state.log.min.isr={in_sync}\n\
         share.coordinator.state.topic.replication.factor={replicas}\n\
         share.coordinator.state.topic.min.isr={in_sync}\n",
        voters.collect::<Vec<_>>().join(","),
    )
}

/// The text of `server.properties`.
pub(super) fn server(dir: &Path, addresses: &Addresses, options: &BrokerOptions) -> String {
    let BrokerOptions { quorum, accepts_tokens, session, .. } = options;
    let Addresses { plaintext, advertised, sasl, tls, internal, controller } = addresses;
    let membership = match quorum {
        Some(quorum) => membership(quorum),
        None => membership(&Quorum { controllers: vec![*controller], node_id: 1 }),
    };
    let named = |name: &str, address: &SocketAddr| format!("{name}://{address}");
    let public = |plaintext: Option<SocketAddr>| {
        let mut public = vec![named("INTERNAL", internal)];
        public.extend(plaintext.as_ref().map(|address| named("PLAINTEXT", address)));
        public.extend(sasl.as_ref().map(|address| named("SASL", address)));
        public.extend(tls.as_ref().map(|address| named("TLS", address)));
        public.join(",")
    };
    let listeners = public(*plaintext);
    let advertised = public(plaintext.map(|own| advertised.unwrap_or(own)));
    let tokens = if *accepts_tokens { TOKENS } else { PASSWORDS };
    let encryption = tls.map(|_| encryption(dir)).unwrap_or_default();
    format!(
        "{COMMON}{membership}{tokens}{encryption}\
         broker.session.timeout.ms={session}\n\
         log.dirs={dir}\n\
         listeners={listeners},CONTROLLER://{controller}\n\
         advertised.listeners={advertised}\n\
         listener.name.sasl.scram-sha-512.sasl.jaas.config=\
         org.apache.kafka.common.security.scram.ScramLoginModule required;\n",
        session = session.as_millis(),
        dir = dir.join("data").display(),
    )
}

/// Settings of the encrypted listener.
fn encryption(dir: &Path) -> String {
    format!(
        "listener.name.tls.ssl.keystore.type=PEM\n\
         listener.name.tls.ssl.keystore.location={}\n\
         listener.name.tls.sasl.enabled.mechanisms=SCRAM-SHA-512\n\
         listener.name.tls.scram-sha-512.sasl.jaas.config=\
         org.apache.kafka.common.security.scram.ScramLoginModule required;\n",
        dir.join(KEY_STORE).display(),
    )
}

/// The content of the argument file with which Java runs the formatting tool.
pub(super) fn format_arguments<'a>(
    properties: &Path,
    users: impl Iterator<Item = &'a Credentials>,
) -> String {
    let mut text = format!(
        "kafka.tools.StorageTool format --cluster-id {CLUSTER_ID} --config \"{}\"",
        properties.display()
    );
    for Credentials { user, password } in users {
        text.push_str(&format!(
            " --add-scram SCRAM-SHA-512=[name={},password={}]",
            user.expose(),
            password.expose()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::service::Secret;

    fn addresses(sasl: Option<&str>) -> Addresses {
        Addresses {
            plaintext: Some("127.0.0.1:9092".parse().unwrap()),
            advertised: None,
            sasl: sasl.map(|text| text.parse().unwrap()),
            tls: None,
            internal: "127.0.0.1:9094".parse().unwrap(),
            controller: "127.0.0.1:9093".parse().unwrap(),
        }
    }

    /// A controller listener that clients are told of would send them to the wrong port.
    #[test]
    fn the_controller_is_listened_on_but_not_advertised() {
        let text =
            server(Path::new("/d"), &addresses(Some("10.0.0.1:9095")), &BrokerOptions::default());
        let line = |key: &str| text.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
        assert!(line("listeners=").ends_with("SASL://10.0.0.1:9095,CONTROLLER://127.0.0.1:9093"));
        assert!(line("advertised.listeners=").ends_with("SASL://10.0.0.1:9095"));
    }

    /// A broker without a SASL listener must not offer one.
    #[test]
    fn no_sasl_listener_is_written_unless_asked_for() {
        let text = server(Path::new("/d"), &addresses(None), &BrokerOptions::default());
        assert!(!text.contains("SASL://"));
    }

    /// A key store without its listener would be read by nobody.
    #[test]
    fn the_encrypted_listener_has_a_key_store() {
        let tls = Some("10.0.0.1:9096".parse().unwrap());
        let addresses = Addresses { tls, ..addresses(Some("10.0.0.1:9095")) };
        let text = server(Path::new("/d"), &addresses, &BrokerOptions::default());
        assert!(text.contains("SASL://10.0.0.1:9095,TLS://10.0.0.1:9096"));
        assert!(text.contains("listener.name.tls.ssl.keystore.location=/d/key-store.pem\n"));
    }

    /// With one replica, or with an acknowledgement by one, a broker's end would lose messages.
    #[test]
    fn three_brokers_keep_three_replicas_and_two_acknowledge() {
        let controllers: Vec<SocketAddr> =
            ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"].map(|it| it.parse().unwrap()).into();
        let quorum = Some(Quorum { controllers, node_id: 2 });
        let options = BrokerOptions { quorum, ..BrokerOptions::default() };
        let text = server(Path::new("/d"), &addresses(None), &options);
        for line in [
            "node.id=2",
            "controller.quorum.voters=1@127.0.0.1:1,2@127.0.0.1:2,3@127.0.0.1:3",
            "default.replication.factor=3",
            "min.insync.replicas=2",
            "offsets.topic.replication.factor=3",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in:\n{text}");
        }
        let alone = server(Path::new("/d"), &addresses(None), &BrokerOptions::default());
        assert!(alone.contains("min.insync.replicas=1\n"), "{alone}");
    }

    /// Every user's password reaches the formatting tool through the file alone.
    #[test]
    fn credentials_are_in_the_format_arguments() {
        let credentials = |user| Credentials {
            user: Secret::new(user).unwrap(),
            password: Secret::new("s3cret").unwrap(),
        };
        let users = ["edge", "gateway"].map(credentials);
        let text = format_arguments(Path::new("/d/server.properties"), users.iter());
        let ends = " --add-scram SCRAM-SHA-512=[name=edge,password=s3cret] \
                     --add-scram SCRAM-SHA-512=[name=gateway,password=s3cret]";
        assert!(text.ends_with(ends), "{text}");
        assert_eq!(format!("{users:?}").matches("s3cret").count(), 0);
    }
}
