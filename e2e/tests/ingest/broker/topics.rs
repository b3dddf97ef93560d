//! Topics that change under a running gateway, with a real broker: messages deleted unread, a topic
//! deleted and made again, messages longer than anybody should send, and the broker's own group
//! protocol.

use std::time::Duration;

use anyhow::{Result, ensure};
use millrace_e2e::collector::Collector;
use millrace_e2e::lab::{DEAD_LETTERS, DRAIN_LIMIT, GROUP, Lab, TOPIC};
use millrace_e2e::loadgen::Load;
use millrace_e2e::process::signal;
use millrace_e2e::{http, topics, wait};

const SPANS: u64 = 100_000;
const RATE: u64 = 10_000;
/// For a load of a hundred thousand spans on a busy machine, rebalances included.
const LIMIT: Duration = Duration::from_secs(240);
/// For a gateway of one worker that has nothing twice.
const ONCE: &str = "    workers: 1\n    delivery: EffectivelyOnce\n";

fn rows(lab: &Lab) -> Result<u64> {
    Ok(lab.engine.query("SELECT count() FROM otel.otel_traces")?.trim().parse()?)
}

/// Waits until a counter of a collector has this value.
fn counted(collector: &Collector, name: &str, label: &str, wanted: f64) {
    wait::until(name, LIMIT, || {
        let now = collector.metric(name, label)?;
        ensure!((now - wanted).abs() < 0.5, "{now} instead of {wanted}");
        Ok(())
    })
    .unwrap();
}

/// Scenario: a gateway is away while messages come, and some of them are deleted before it is back.
/// Guarantee: it goes on with what is left, stores that once, and says by a metric and beside its
/// readiness how many messages are lost, by the broker's own numbers. Slow: a broker and an engine
/// start, a gateway starts twice, and three or more loads of 50,000 spans pass.
#[test]
fn messages_deleted_unread_are_counted_and_the_rest_is_stored() {
    let lab = Lab::start().unwrap();
    let bootstrap = lab.broker.bootstrap();
    let edge = lab.edge().unwrap();
    let mut gateway = lab.gateway("gateway", "").unwrap();
    lab.load(&edge, 41, SPANS / 2).run(lab.folder(), LIMIT).unwrap();
    lab.committed(LIMIT).unwrap();
    assert!(gateway.process().terminate(DRAIN_LIMIT).unwrap().success());
    let committed = topics::committed(&bootstrap, GROUP, TOPIC).unwrap();
    lab.load(&edge, 42, SPANS / 2).send(lab.folder(), LIMIT).unwrap();
    // Of a partition that nothing was ever committed of, nobody knows where it was to be read from:
    // a few messages may leave one of them without any in the first load.
    let partitions = (0..).zip(topics::watermarks(&bootstrap, TOPIC).unwrap()).zip(&committed);
    let read = partitions
        .filter_map(|((partition, (_, high)), committed)| Some((partition, high, (*committed)?)));
    let (partition, high, wanted) = read.max_by_key(|(_, high, done)| high - done).unwrap();
    assert!(high > wanted, "no message came to {partition}");
    topics::delete_before(&bootstrap, TOPIC, partition, high).unwrap();
    let lost = high - wanted;

    let gateway = lab.gateway("gateway-again", "").unwrap();
    // The next message of the partition is what tells; not every load has one for it.
    for seed in 100.. {
        assert!(seed < 120, "no message came to {partition} again");
        lab.load(&edge, seed, SPANS / 2).run(lab.folder(), LIMIT).unwrap();
        if topics::watermarks(&bootstrap, TOPIC).unwrap()[partition as usize].1 > high {
            break;
        }
    }
    counted(&gateway, "millrace_records_lost_to_retention_total", TOPIC, lost as f64);
    let said = http::get(gateway.ports.admin, "/readyz").unwrap().text();
    let note = format!("{lost} messages of {TOPIC}/{partition} were deleted unread");
    assert!(said.starts_with("ok") && said.contains(&note), "{said}");
}

/// Scenario: the topic is deleted and made again while edge and gateway run, effectively once.
/// Guarantee: what comes afterwards is stored once, from the first message on, and committed; both go on by themselves.
/// Slow: a broker and an engine start, a topic is deleted and made again, and 150,000 spans pass.
#[test]
fn a_topic_made_again_under_a_running_gateway_is_read_from_its_beginning() {
    let lab = Lab::start().unwrap();
    let bootstrap = lab.broker.bootstrap();
    let mut edge = lab.edge().unwrap();
    let mut gateway = lab.gateway_with("gateway", ONCE, "").unwrap();
    lab.load(&edge, 44, SPANS).run(lab.folder(), LIMIT).unwrap();
    lab.committed(LIMIT).unwrap();
    topics::make_again(&bootstrap, TOPIC).unwrap();
    let verdict = lab.load(&edge, 45, SPANS / 2).run(lab.folder(), LIMIT).unwrap();
    let bad = (verdict.missing, verdict.duplicated, verdict.altered);
    assert_eq!((verdict.sent, bad), (SPANS / 2, (0, 0, 0)), "{}", verdict.line);
    assert_eq!(rows(&lab).unwrap(), SPANS + SPANS / 2);
    lab.committed(LIMIT).unwrap();
    edge.process().still_runs().unwrap();
    gateway.process().still_runs().unwrap();
}

/// Scenario: the topic is deleted and made again while the gateway is stopped, and by the time it
/// goes on, still in its group, every partition holds more than was read of the old topic: no
/// offset tells. Guarantee: it is read from its first message all the same, and stored once. Slow:
/// a broker and an engine start, a topic is deleted and made again, and 210,000 spans pass.
#[test]
fn a_topic_that_outgrew_the_one_before_is_read_from_its_beginning_too() {
    let lab = Lab::start().unwrap();
    let bootstrap = lab.broker.bootstrap();
    let edge = lab.edge().unwrap();
    let mut gateway = lab.gateway_with("gateway", ONCE, "").unwrap();
    lab.load(&edge, 48, SPANS / 10).run(lab.folder(), LIMIT).unwrap();
    lab.committed(LIMIT).unwrap();
    let before = topics::watermarks(&bootstrap, TOPIC).unwrap();
    let pid = gateway.process().pid();
    signal(pid, "STOP").unwrap();
    topics::make_again(&bootstrap, TOPIC).unwrap();
    let load = lab.load(&edge, 49, SPANS * 2);
    let sent = load.send(lab.folder(), LIMIT).unwrap();
    let after = topics::watermarks(&bootstrap, TOPIC).unwrap();
    signal(pid, "CONT").unwrap();
    let outgrown = after.iter().zip(&before).filter(|((_, now), (_, then))| now > then);
    assert!(outgrown.count() > 0, "{before:?} {after:?}: nothing to tell apart");
    let verdict = load.check(&sent, lab.folder(), LIMIT).unwrap();
    let bad = (verdict.missing, verdict.duplicated, verdict.altered);
    assert_eq!((verdict.sent, bad), (SPANS * 2, (0, 0, 0)), "{}", verdict.line);
    lab.committed(LIMIT).unwrap();
    gateway.process().still_runs().unwrap();
}

/// Bytes that no compression shortens.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// Scenario: a message of 100 MB, and one of 5 MB that isn't OTLP, between good ones; the topic of
/// dead letters takes 1 MB. Guarantee: both become dead letters that say where their bytes are, the
/// neighbours are stored, the offsets committed, and the gateway's memory stays where it was meant.
/// Slow: a broker and an engine start, and a message of 100 MB and 50,000 spans pass.
#[test]
fn messages_that_are_too_long_become_dead_letters_without_their_bytes() {
    let lab = Lab::start().unwrap();
    let bootstrap = lab.broker.bootstrap();
    let edge = lab.edge().unwrap();
    let gateway = lab.gateway("gateway", "").unwrap();
    topics::configure(&bootstrap, TOPIC, &[("max.message.bytes", "104000000")]).unwrap();
    topics::produce_long(&bootstrap, TOPIC, 0, &vec![0xff; 100_000_000]).unwrap();
    topics::produce_long(&bootstrap, TOPIC, 0, &noise(5_000_000)).unwrap();
    let verdict = lab.load(&edge, 46, SPANS / 2).run(lab.folder(), LIMIT).unwrap();
    let bad = (verdict.missing, verdict.duplicated, verdict.altered);
    assert_eq!(bad, (0, 0, 0), "{}", verdict.line);
    lab.committed(LIMIT).unwrap();
    let letters = topics::read_all(&bootstrap, DEAD_LETTERS).unwrap();
    let header = |letter: &topics::Raw, name: &str| {
        let found = letter.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let reasons: Vec<String> = letters.iter().map(|l| header(l, "millrace-reason")).collect();
    assert!(reasons.contains(&"too_long".to_owned()) && reasons.len() == 2, "{reasons:?}");
    for letter in &letters {
        let detail = header(letter, "millrace-detail");
        assert!(letter.payload.is_empty() && detail.contains("remain in the source"), "{detail}");
    }
    let resident = gateway.metric("process_resident_memory_bytes", "").unwrap();
    assert!(resident < (768 << 20) as f64, "{resident} bytes resident");
}

/// Scenario: the broker's own group protocol (KIP-848), effectively once, a steady load; a second
/// gateway joins, the first leaves in good order, a third joins, the second leaves. Guarantee:
/// nothing is lost, nothing doubled, nothing altered, every offset committed. Slow: a load of 30 s
/// passes while members join and leave.
#[test]
fn members_of_the_brokers_protocol_come_and_go_without_loss_or_doubles() {
    let lab = Lab::start().unwrap();
    let edge = lab.edge().unwrap();
    let receiver = "    workers: 1\n    groupProtocol: Consumer\n    delivery: EffectivelyOnce\n";
    let member = |name: &str| lab.gateway_with(name, receiver, "").unwrap();
    let works = |gateway: &Collector| {
        wait::until("a member to have work", LIMIT, || {
            ensure!(gateway.metric("millrace_records_out_total", "traces")? > 0.0, "nothing yet");
            Ok(())
        })
        .unwrap();
    };
    let mut first = member("gateway-a");
    let load = Load { rate: Some(RATE), ..lab.load(&edge, 47, 3 * SPANS) };
    let load = load.start(lab.folder()).unwrap();
    works(&first);
    // Ready is who has joined; what it is given is the broker's choice.
    let mut second = member("gateway-b");
    assert!(first.process().terminate(DRAIN_LIMIT).unwrap().success());
    works(&second);
    let third = member("gateway-c");
    assert!(second.process().terminate(DRAIN_LIMIT).unwrap().success());
    works(&third);
    let verdict = load.verdict(LIMIT).unwrap();
    let bad = (verdict.missing, verdict.duplicated, verdict.altered);
    assert_eq!((verdict.sent, bad), (3 * SPANS, (0, 0, 0)), "{}", verdict.line);
    lab.committed(LIMIT).unwrap();
}
