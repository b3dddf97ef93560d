//! What is remembered of series, against a plain map.

use super::{Hash, Kind, Memory, Seen};
use crate::names::Walk;
use crate::pass::Pass;

fn begun(memory: &Memory) -> Pass {
    let mut pass = Pass::default();
    pass.begin(memory);
    pass
}

fn seen<'a>(text: &'a str, value: Option<f64>, time_unix_nano: u64) -> Seen<'a> {
    Seen {
        hash: Hash::of_name(text.as_bytes()).finish(),
        text: text.as_bytes(),
        kind: if value.is_some() { Kind::Counter } else { Kind::Gauge },
        is_timed: false,
        is_plain: false,
        time_unix_nano,
        value,
        created_unix_nano: None,
    }
}

/// Scenario: a counter grows, stands, is reset, grows; another comes late. Guarantee: it began when
/// it was first seen, and anew with the reset.
#[test]
fn a_counter_begins_when_it_is_first_seen_and_with_each_reset() {
    let mut memory = Memory::default();
    let mut start = |values: &[(&str, f64)], time| {
        let mut pass = begun(&memory);
        let mut known = |(text, value): &(&str, f64)| {
            pass.note(&memory, &seen(text, Some(*value), time)).unwrap().start_unix_nano
        };
        let starts: Vec<u64> = values.iter().map(&mut known).collect();
        pass.replace(&mut memory, Vec::new());
        starts
    };
    assert_eq!(start(&[("a", 5.0)], 10), [10]);
    assert_eq!(start(&[("a", 7.0)], 20), [10]);
    assert_eq!(start(&[("new", 1.0), ("a", 7.0)], 30), [30, 10]);
    assert_eq!(start(&[("new", 1.0), ("a", 2.0)], 40), [30, 40]);
    assert_eq!(start(&[("a", 3.0), ("new", 1.0)], 50), [40, 30]);
    assert_eq!(start(&[("a", f64::NAN)], 60), [60]);
}

/// Scenario: random scrapes of gauges and counters, each beginning as the one before and then in any
/// order, some twice; more than the 64 of which a word tells. Guarantee: as a plain map has it:
/// known or new, when it began, twice or not, and which are gone; names come back as they were.
#[test]
fn series_are_remembered_as_a_map_would() {
    use std::collections::{BTreeMap, BTreeSet};
    let rest = proptest::collection::vec(0_u8..150, 0..90);
    let scrapes = proptest::collection::vec((0_usize..200, rest), 1..8);
    proptest::proptest!(|(scrapes in scrapes)| {
        let mut memory = Memory::default();
        let mut model: BTreeMap<String, u64> = BTreeMap::new();
        let mut scrape: Vec<u8> = Vec::new();
        for (turn, (cut, rest)) in scrapes.iter().enumerate() {
            scrape.truncate(*cut);
            scrape.extend(rest);
            let time = turn as u64 + 1;
            let mut pass = begun(&memory);
            let mut now = BTreeMap::new();
            for number in &scrape {
                let long = "x".repeat(usize::from(*number) % 12 * 20);
                let text = format!("m{{a=\"{long}\",b=\"{number}\",c=\"end\"}}");
                let value = (number % 3 > 0).then_some(1.0);
                let known = pass.note(&memory, &seen(&text, value, time));
                proptest::prop_assert_eq!(known.is_none(), now.contains_key(&text));
                if let Some(known) = known {
                    let old = model.get(&text);
                    proptest::prop_assert_eq!(known.is_new, old.is_none());
                    let start = *old.filter(|_| value.is_some()).unwrap_or(&time);
                    proptest::prop_assert_eq!(known.start_unix_nano, start);
                    now.insert(text, known.start_unix_nano);
                }
            }
            let (mut walk, mut gone) = (Walk::default(), BTreeSet::new());
            while let Some(named) = walk.next([&memory.names, &[]]) {
                let text = String::from_utf8(walk.text().to_vec()).unwrap();
                proptest::prop_assert!(model.contains_key(&text));
                if !pass.has(named.place) {
                    gone.insert(text);
                }
            }
            let expected: BTreeSet<_> =
                model.keys().filter(|text| !now.contains_key(*text)).cloned().collect();
            proptest::prop_assert_eq!(pass.has_all(&memory), gone.is_empty());
            proptest::prop_assert_eq!(gone, expected);
            pass.replace(&mut memory, Vec::new());
            proptest::prop_assert_eq!(memory.series(), now.len());
            model = now;
        }
    });
}

/// Scenario: pods with long labels in four families, in which one pod more has come before the last
/// one; in the last family two lines of each, with long ends. Guarantee: texts come back as they were;
/// the families behind the first take little, since their labels were written in it, and the ends
/// once.
#[test]
fn labels_that_come_again_are_written_once() {
    let labels = |pod: u64| {
        let id = pod.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("pod=\"web-{id:016x}\",uid=\"{:032x}\"", u128::from(id) << 60)
    };
    let mut memory = Memory::default();
    for pods in [1000, 1001] {
        let mut pass = begun(&memory);
        let mut texts = Vec::new();
        for family in ["kube_pod_info", "kube_pod_status_ready", "kube_pod_owner"] {
            texts.extend((0..pods).rev().map(|pod| format!("{family}{{{}}}", labels(pod))));
        }
        for pod in (0..pods).rev() {
            for end in ["cpu\",unit=\"core", "memory\",unit=\"byte"] {
                let labels = labels(pod);
                texts.push(format!("requests{{{labels},container=\"app\",resource=\"{end}\"}}"));
            }
        }
        for text in &texts {
            assert!(pass.note(&memory, &seen(text, None, 1)).is_some());
        }
        pass.replace(&mut memory, Vec::new());
        let mut walk = Walk::default();
        for text in &texts {
            assert!(walk.next([&memory.names, &[]]).is_some());
            assert_eq!(walk.text(), text.as_bytes());
        }
        assert!(walk.next([&memory.names, &[]]).is_none());
        // A pod's 63 bytes once, some ten of each series, and the end of the last one.
        let bytes = memory.names.len() as u64;
        assert!(bytes <= pods * (63 + 5 * 12 + 20), "{} bytes a pod", bytes / pods);
    }
}

/// Scenario: 20,000 series as a node exporter's, and again with other values. Guarantee: each is
/// remembered in 36 bytes at most, and the second scrape holds 9 of each beside that: its value, and
/// that it was there.
#[test]
fn a_series_takes_little() {
    let mut memory = Memory::default();
    let mut held_bytes = Vec::new();
    let count = 20_000;
    for turn in 1..=2 {
        let mut pass = begun(&memory);
        for cpu in 0..2500 {
            for mode in ["idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user"] {
                let text = format!("node_cpu_seconds_total{{cpu=\"{cpu}\",mode=\"{mode}\"}}");
                let known = pass.note(&memory, &seen(&text, Some(turn as f64), turn));
                assert_eq!(known.unwrap().start_unix_nano, 1);
            }
        }
        held_bytes.push(pass.bytes());
        pass.replace(&mut memory, Vec::new());
    }
    assert!(memory.bytes() <= 36 * count, "{} bytes a series", memory.bytes() / count);
    assert!(held_bytes[1] <= 9 * count, "{held_bytes:?}");
}

/// Scenario: 2,000 pods in kube-state-metrics' form: a line with twelve labels, of which most stand
/// nowhere else, and five phases; then again. Guarantee: a series, all of them gauges, is remembered in
/// 48 bytes at most, and the second scrape holds a bit of each beside that.
#[test]
fn a_pods_series_take_little() {
    let mut memory = Memory::default();
    let pods = 2000;
    let count = 6 * pods;
    for turn in 1..=2 {
        let mut pass = begun(&memory);
        for place in 0..count {
            let pod = if place < pods { place } else { (place - pods) / 5 };
            let text = pod_text(place < pods, pod, place as usize % 5);
            let known = pass.note(&memory, &seen(&text, None, turn));
            assert_eq!(known.unwrap().is_new, turn == 1);
        }
        assert!(turn == 1 || pass.bytes() <= count / 4, "{} bytes held", pass.bytes());
        pass.replace(&mut memory, Vec::new());
    }
    assert!(memory.bytes() <= 48 * count, "{} bytes a series", memory.bytes() / count);
}

fn pod_text(is_info: bool, pod: u64, phase: usize) -> String {
    let id = pod.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let owner = format!("service-{}-{:09x}", pod / 4, (pod / 4).wrapping_mul(0x9e37_79b9));
    let labels = format!(
        "namespace=\"team-{}\",pod=\"{owner}-{:05x}\",uid=\"{id:016x}-{:016x}\"",
        pod / 20,
        id >> 44,
        id.wrapping_mul(id),
    );
    if !is_info {
        let phase = ["Pending", "Succeeded", "Failed", "Unknown", "Running"][phase];
        return format!("kube_pod_status_phase{{{labels},phase=\"{phase}\"}}");
    }
    let node = pod / 30;
    format!(
        "kube_pod_info{{{labels},host_ip=\"10.0.0.{node}\",pod_ip=\"10.16.{}.{}\",\
         node=\"ip-10-0-0-{node}.internal\",created_by_kind=\"ReplicaSet\",\
         created_by_name=\"{owner}\",priority_class=\"\",host_network=\"false\"}}",
        pod / 250,
        pod % 250,
    )
}
