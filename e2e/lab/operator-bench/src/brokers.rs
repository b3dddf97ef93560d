//! A real broker whose users are the tenants of gateway pools: the operator logs in as each.

use anyhow::{Context, Result, bail};
use millrace_stack::kafka::{Broker, BrokerOptions, Credentials, Listener};
use millrace_stack::service::Secret;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;

/// The topic that all groups read; nothing is written to it.
const TOPIC: &str = "otlp_traces";
/// Its partitions: as many as a pod of the bench reports.
const PARTITIONS: i32 = 12;
/// The password of every user.
pub(crate) const PASSWORD: &str = "password";

/// A running broker; it ends when dropped.
pub(crate) struct TenantBroker(Broker);

impl TenantBroker {
    /// Starts a broker with these users and creates the topic.
    ///
    /// # Errors
    /// When it doesn't start, or refuses the topic.
    pub(crate) async fn start(users: impl Iterator<Item = String>) -> Result<Self> {
        let credentials = |user: String| -> Result<Credentials> {
            Ok(Credentials { user: Secret::new(&user)?, password: Secret::new(PASSWORD)? })
        };
        let mut users = users.map(credentials).collect::<Result<Vec<_>>>()?.into_iter();
        let first = users.next().context("TENANTS is 0: write 1 or more")?;
        let options = BrokerOptions {
            sasl: Some((Listener::LOOPBACK, first)),
            more_users: users.collect(),
            is_brief: false,
            ..BrokerOptions::default()
        };
        let broker = tokio::task::spawn_blocking(|| Broker::start(options)).await??;
        create_topic(&broker.bootstrap()).await?;
        Ok(Self(broker))
    }

    /// Returns `host:port` of the listener for users.
    pub(crate) fn bootstrap(&self) -> Result<String> {
        self.0.sasl_bootstrap().context("the broker has no listener for users")
    }
}

async fn create_topic(bootstrap: &str) -> Result<()> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    let admin: AdminClient<DefaultClientContext> = config.create().context("no admin client")?;
    let topic = NewTopic::new(TOPIC, PARTITIONS, TopicReplication::Fixed(1));
    for outcome in admin.create_topics([&topic], &AdminOptions::new()).await? {
        if let Err((topic, error)) = outcome {
            bail!("cannot create the topic {topic}: {error}");
        }
    }
    Ok(())
}
