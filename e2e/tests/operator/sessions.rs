//! One conversation per Kafka cluster, against a real broker: what many pools and topics cost it, and
//! that a cluster that hangs or comes back holds up nobody else. What is asked is counted by a proxy
//! that reads the requests' headers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::join_all;
use millrace_crds::Reason;
use millrace_operator::kafka::lag_cache::LagObservation;
use millrace_operator::kafka::{
    Brokers, ConnectionSettings, Failure, Pace, Sessions, TopicChange, TopicObservation,
};
use millrace_stack::kafka::{Broker, BrokerOptions, Listener};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};

/// Requests by the protocol's number of their kind.
const LIST_OFFSETS: i16 = 2;
const METADATA: i16 = 3;
const OFFSET_FETCH: i16 = 9;
const CREATE_TOPICS: i16 = 19;
const DESCRIBE_CONFIGS: i16 = 32;

/// Counts what clients ask a broker.
#[derive(Clone, Default)]
struct Counter(Arc<Mutex<BTreeMap<i16, usize>>>);

impl Counter {
    fn of(&self, kind: i16) -> usize {
        self.0.lock().unwrap().get(&kind).copied().unwrap_or(0)
    }

    fn clear(&self) {
        self.0.lock().unwrap().clear();
    }

    /// A broker that is only reached through this counter.
    async fn broker(&self) -> Broker {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = free.local_addr().unwrap();
        drop(free);
        let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = proxy.local_addr().unwrap();
        tokio::spawn(self.clone().serve(proxy, own));
        let plaintext = Some(Listener { host: own.ip(), port: own.port() });
        let options =
            BrokerOptions { plaintext, advertised: Some(address), ..BrokerOptions::default() };
        tokio::task::spawn_blocking(move || Broker::start(options).unwrap()).await.unwrap()
    }

    async fn serve(self, proxy: TcpListener, to: SocketAddr) {
        while let Ok((client, _)) = proxy.accept().await {
            tokio::spawn(self.clone().pass(client, to));
        }
    }

    async fn pass(self, client: TcpStream, to: SocketAddr) -> std::io::Result<()> {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_broker, mut to_broker) = TcpStream::connect(to).await?.into_split();
        let back = tokio::spawn(async move { copy(&mut from_broker, &mut to_client).await });
        while let Ok(size) = from_client.read_u32().await {
            let mut request = vec![0; usize::try_from(size).unwrap()];
            from_client.read_exact(&mut request).await?;
            let kind = i16::from_be_bytes([request[0], request[1]]);
            *self.0.lock().unwrap().entry(kind).or_default() += 1;
            to_broker.write_u32(size).await?;
            to_broker.write_all(&request).await?;
        }
        back.abort();
        Ok(())
    }
}

fn create(partitions: u32, copies: u16) -> TopicChange {
    let settings = BTreeMap::from([("retention.ms".to_owned(), "3600000".to_owned())]);
    TopicChange::Create { partitions, replication_factor: Some(copies), settings }
}

/// Asks until a broker answers. The operator gives an answer up within seconds, as a broker's first
/// may take on a busy machine; a reconcile then tries again.
async fn ask_until_answered<T>(ask: impl AsyncFn() -> Result<T, Failure>) -> T {
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(failure) => {
                assert_eq!(failure.reason, Reason::KafkaUnreachable, "{failure}");
                assert!(Instant::now() < give_up, "{failure}");
            }
        }
    }
}

/// What a reconcile does with a topic that is to be made, until it is there.
async fn bring_about(
    sessions: &Sessions,
    settings: &ConnectionSettings,
    topic: &str,
) -> TopicObservation {
    let seen = sessions.observe_topic(settings.clone(), topic).await.unwrap();
    assert_eq!(seen, TopicObservation::Missing, "{topic}");
    sessions.change_topic(settings.clone(), topic, create(1, 1)).await.unwrap();
    let give_up = Instant::now() + Duration::from_secs(60);
    while Instant::now() < give_up {
        let seen = sessions.observe_topic(settings.clone(), topic).await.unwrap();
        if seen != TopicObservation::Missing {
            return seen;
        }
        // The broker that was asked has not heard of it yet; a reconcile comes again, too.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("topic {topic} never came to be");
}

/// Makes `count` topics, so many at a time; gives the seconds it took.
async fn make_topics(
    sessions: &Sessions,
    settings: &ConnectionSettings,
    count: usize,
    at_once: usize,
) -> f64 {
    let began = Instant::now();
    let topics = futures::stream::iter(0..count).map(|number| async move {
        let seen = bring_about(sessions, settings, &format!("bulk-{number}")).await;
        let TopicObservation::Exists { partitions, own_settings, .. } = seen else {
            panic!("{seen:?}")
        };
        assert_eq!(partitions, 1);
        assert_eq!(own_settings["retention.ms"], "3600000");
    });
    topics.buffer_unordered(at_once).collect::<Vec<()>>().await;
    began.elapsed().as_secs_f64()
}

fn produce(broker: &Broker, topic: &str, partition: i32) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", broker.internal_bootstrap()).create().unwrap();
    let record = BaseRecord::<(), [u8]>::to(topic).partition(partition).payload(&b"x"[..]);
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(Duration::from_secs(20)).unwrap();
}

/// Scenario: forty pools of one cluster, each with a topic and a group of its own and one message
/// that waits, ask for their lag tick after tick; then the broker goes and comes back. Guarantee: all
/// are answered rightly; a tick costs one or two questions for metadata and a handful for offsets
/// however many pools there are, and one for each group; the same session answers again after the
/// broker is back. Slow: a broker starts twice, 40 messages are sent by a new client each, and lag
/// is observed in ticks of 2 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pools_of_one_cluster_share_their_questions() {
    const POOLS: usize = 40;
    const TICKS: usize = 4;
    let counter = Counter::default();
    let mut broker = counter.broker().await;
    let settings = ConnectionSettings::from_servers(&broker.bootstrap(), None);
    let pace = Pace { tick: Duration::from_secs(2), strangers: Duration::from_millis(200) };
    let sessions = Sessions::new(pace);
    let topic = |pool: usize| format!("pool-{pool}");
    let made = (0..POOLS).map(|pool| {
        let (sessions, settings) = (sessions.clone(), settings.clone());
        async move {
            let name = topic(pool);
            ask_until_answered(async || {
                sessions.change_topic(settings.clone(), &name, create(3, 1)).await
            })
            .await
        }
    });
    join_all(made).await;
    for pool in 0..POOLS {
        produce(&broker, &topic(pool), 2);
    }
    let look = async || -> Vec<LagObservation> {
        let bound = Duration::from_secs(3_600);
        let pools = (0..POOLS).map(|pool| {
            let (sessions, settings) = (sessions.clone(), settings.clone());
            let (group, topics) = (format!("group-{pool}"), [topic(pool)]);
            async move { sessions.observe_lag(settings, &group, &topics, bound).await.unwrap() }
        });
        join_all(pools).await
    };
    look().await;
    counter.clear();
    for _ in 0..TICKS {
        for seen in look().await {
            assert_eq!((seen.partitions, seen.messages, seen.within_bound), (3, 1, true));
        }
    }
    let (metadata, offsets) = (counter.of(METADATA), counter.of(LIST_OFFSETS));
    println!(
        "{POOLS} pools, {TICKS} ticks: {metadata} metadata, {offsets} offsets, {} commits",
        counter.of(OFFSET_FETCH)
    );
    assert!(metadata <= 2 * TICKS, "{metadata} questions for metadata in {TICKS} ticks");
    assert!(offsets <= 6 * TICKS, "{offsets} questions for offsets in {TICKS} ticks");
    assert_eq!(counter.of(OFFSET_FETCH), POOLS * TICKS);
    assert_eq!(sessions.session_count(), 1);

    let broker = tokio::task::spawn_blocking(move || {
        broker.stop();
        broker.restart().unwrap();
        broker
    });
    let _broker = broker.await.unwrap();
    let topics = [topic(0)];
    let bound = Duration::from_secs(3_600);
    let seen = ask_until_answered(async || {
        sessions.observe_lag(settings.clone(), "group-0", &topics, bound).await
    })
    .await;
    assert_eq!(seen.messages, 1);
}

/// Scenario: five hundred topics made as their reconciles would, with one among them that the broker
/// refuses; all the while another cluster takes connections and answers nothing. Guarantee: every
/// topic is made and seen with its settings, in far fewer requests than topics; the refused one is
/// told so and spoils no other; of those who ask the cluster that hangs all but a few have their slot
/// back within seconds, and nobody else waits for it. Slow: a broker starts and makes 500 topics,
/// and a cluster that hangs is tried for 8 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn topics_are_made_in_batches_while_another_cluster_hangs() {
    const TOPICS: usize = 500;
    let counter = Counter::default();
    let broker = counter.broker().await;
    let settings = ConnectionSettings::from_servers(&broker.bootstrap(), None);
    let sessions = Sessions::new(Pace::AT_ONCE);
    // It listens, so the system takes connections, but nobody reads from them.
    let hangs = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hanging = ConnectionSettings::from_servers(&hangs.local_addr().unwrap().to_string(), None);
    let lost = (0..20).map(|number| {
        let (sessions, hanging, began) = (sessions.clone(), hanging.clone(), Instant::now());
        tokio::spawn(async move {
            let topic = format!("lost-{number}");
            let failure = sessions.observe_topic(hanging, &topic).await.unwrap_err();
            assert_eq!(failure.reason, Reason::KafkaUnreachable, "{failure}");
            began.elapsed()
        })
    });
    let lost: Vec<_> = lost.collect();

    let refused = {
        let (sessions, settings) = (sessions.clone(), settings.clone());
        tokio::spawn(async move { sessions.change_topic(settings, "refused", create(1, 3)).await })
    };
    let seconds = make_topics(&sessions, &settings, TOPICS, 64).await;
    let (creations, configs) = (counter.of(CREATE_TOPICS), counter.of(DESCRIBE_CONFIGS));
    println!("{TOPICS} topics in {seconds:.1} s: {creations} creations, {configs} descriptions");
    assert!(creations <= TOPICS / 4, "{creations} requests for {TOPICS} topics");
    assert!(configs <= TOPICS / 4, "{configs} descriptions of {TOPICS} topics");
    let failure = refused.await.unwrap().unwrap_err();
    assert_eq!(failure.reason, Reason::TooFewBrokers, "{failure}");
    assert!(failure.message.contains("topic refused"), "{failure}");

    let mut waits: Vec<Duration> =
        join_all(lost).await.into_iter().map(|wait| wait.unwrap()).collect();
    waits.sort();
    println!("a cluster that hangs: {:?} to {:?}", waits[0], waits[19]);
    assert!(waits[15] < Duration::from_secs(7), "slots were held for {:?}", waits[15]);
    let began = Instant::now();
    let again = sessions.observe_topic(hanging, "lost-0").await.unwrap_err();
    assert!(again.message.starts_with("no Kafka broker answered: "), "{again}");
    println!("asked again: {:?}", began.elapsed());
}

/// Scenario: `COUNT` topics (10,000) of one partition made as their reconciles would, `AT_ONCE` (64)
/// at a time. Guarantee: all are there with their settings. Its time is what counts; run by hand.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "minutes; its figure is in docs/internals/operator-performance.md"]
async fn ten_thousand_topics_are_made() {
    let number = |name: &str, default: usize| {
        std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
    };
    let (count, at_once) = (number("COUNT", 10_000), number("AT_ONCE", 64));
    let counter = Counter::default();
    let broker = counter.broker().await;
    let settings = ConnectionSettings::from_servers(&broker.bootstrap(), None);
    let seconds = make_topics(&Sessions::default(), &settings, count, at_once).await;
    println!(
        "{count} topics, {at_once} at once: {seconds:.1} s, {} creations, {} metadata, {} \
         descriptions",
        counter.of(CREATE_TOPICS),
        counter.of(METADATA),
        counter.of(DESCRIBE_CONFIGS)
    );
}
