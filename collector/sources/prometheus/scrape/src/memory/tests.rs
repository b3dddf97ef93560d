//! Tests of the memory of series, compared with a plain map.

use super::{SeriesKind, SeriesMemory, SeriesObservation};
use crate::memory::hash::Hash;
use crate::memory::names::NameIterator;
use crate::memory::pass::Pass;

fn begun(memory: &SeriesMemory) -> Pass {
    let mut pass = Pass::default();
    pass.begin_scrape(memory);
    pass
}

fn seen<'a>(text: &'a str, value: Option<f64>, time_unix_nano: u64) -> SeriesObservation<'a> {
    SeriesObservation {
        hash: Hash::of_name(text.as_bytes()).finish(),
        text: text.as_bytes(),
        kind: if value.is_some() { SeriesKind::Counter } else { SeriesKind::Gauge },
        is_timed: false,
        is_plain: false,
        time_unix_nano,
        value,
        created_unix_nano: None,
    }
}

/// Scenario: a counter grows, stays, is reset, grows; another one appears later. Guarantee: each
/// starts when it is first observed, and again with the reset.
#[test]
fn a_counter_begins_when_it_is_first_seen_and_with_each_reset() {
    let mut memory = SeriesMemory::default();
    let mut start = |values: &[(&str, f64)], time| {
        let mut pass = begun(&memory);
        let mut known = |(text, value): &(&str, f64)| {
            pass.record_series(&memory, &seen(text, Some(*value), time)).unwrap().start_unix_nano
        };
        let starts: Vec<u64> = values.iter().map(&mut known).collect();
        pass.replace_memory(&mut memory, Vec::new());
        starts
    };
    assert_eq!(start(&[("a", 5.0)], 10), [10]);
    assert_eq!(start(&[("a", 7.0)], 20), [10]);
    assert_eq!(start(&[("new", 1.0), ("a", 7.0)], 30), [30, 10]);
    assert_eq!(start(&[("new", 1.0), ("a", 2.0)], 40), [30, 40]);
    assert_eq!(start(&[("a", 3.0), ("new", 1.0)], 50), [40, 30]);
    assert_eq!(start(&[("a", f64::NAN)], 60), [60]);
}

/// Scenario: random scrapes of gauges and counters, each with a prefix of the one before and then
/// any order, some duplicate; more than the 64 that a word covers. Guarantee: the result equals a
/// plain map's: known or new, start, duplicate or not, and which are gone; names are restored.
#[test]
fn series_are_remembered_as_a_map_would() {
    use std::collections::{BTreeMap, BTreeSet};
    let rest = proptest::collection::vec(0_u8..150, 0..90);
    let scrapes = proptest::collection::vec((0_usize..200, rest), 1..8);
    proptest::proptest!(|(scrapes in scrapes)| {
        let mut memory = SeriesMemory::default();
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
                let known = pass.record_series(&memory, &seen(&text, value, time));
                proptest::prop_assert_eq!(known.is_none(), now.contains_key(&text));
                if let Some(known) = known {
                    let old = model.get(&text);
                    proptest::prop_assert_eq!(known.is_new, old.is_none());
                    let start = *old.filter(|_| value.is_some()).unwrap_or(&time);
                    proptest::prop_assert_eq!(known.start_unix_nano, start);
                    now.insert(text, known.start_unix_nano);
                }
            }
            let (mut walk, mut gone) = (NameIterator::default(), BTreeSet::new());
            while let Some(named) = walk.next([&memory.names, &[]]) {
                let text = String::from_utf8(walk.text().to_vec()).unwrap();
                proptest::prop_assert!(model.contains_key(&text));
                if !pass.has_series(named.index) {
                    gone.insert(text);
                }
            }
            let expected: BTreeSet<_> =
                model.keys().filter(|text| !now.contains_key(*text)).cloned().collect();
            proptest::prop_assert_eq!(pass.has_all(&memory), gone.is_empty());
            proptest::prop_assert_eq!(gone, expected);
            pass.replace_memory(&mut memory, Vec::new());
            proptest::prop_assert_eq!(memory.series_count(), now.len());
            model = now;
        }
    });
}

/// Scenario: four families have pods with long labels, and one pod is added before the last one;
/// the last family has two lines per pod, with long ends. Guarantee: texts are restored; the
/// families after the first take little, since their labels are copied from it, and ends are stored
/// once.
#[test]
fn labels_that_come_again_are_written_once() {
    let labels = |pod: u64| {
        let id = pod.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("pod=\"web-{id:016x}\",uid=\"{:032x}\"", u128::from(id) << 60)
    };
    let mut memory = SeriesMemory::default();
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
            assert!(pass.record_series(&memory, &seen(text, None, 1)).is_some());
        }
        pass.replace_memory(&mut memory, Vec::new());
        let mut walk = NameIterator::default();
        for text in &texts {
            assert!(walk.next([&memory.names, &[]]).is_some());
            assert_eq!(walk.text(), text.as_bytes());
        }
        assert!(walk.next([&memory.names, &[]]).is_none());
        // A pod's 63 bytes once, some ten per series, and the end of the last one.
        let bytes = memory.names.len() as u64;
        assert!(bytes <= pods * (63 + 5 * 12 + 20), "{} bytes a pod", bytes / pods);
    }
}

/// Scenario: 20,000 series like a node exporter's, then again with other values. Guarantee: each
/// takes 36 bytes at most, and the second scrape holds 9 bytes of each in addition: its value, and
/// that it was observed.
#[test]
fn a_series_takes_little() {
    let mut memory = SeriesMemory::default();
    let mut held_bytes = Vec::new();
    let count = 20_000;
    for turn in 1..=2 {
        let mut pass = begun(&memory);
        for cpu in 0..2500 {
            for mode in ["idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user"] {
                let text = format!("node_cpu_seconds_total{{cpu=\"{cpu}\",mode=\"{mode}\"}}");
                let known = pass.record_series(&memory, &seen(&text, Some(turn as f64), turn));
                assert_eq!(known.unwrap().start_unix_nano, 1);
            }
        }
        held_bytes.push(pass.held_bytes());
        pass.replace_memory(&mut memory, Vec::new());
    }
    assert!(memory.held_bytes() <= 36 * count, "{} bytes a series", memory.held_bytes() / count);
    assert!(held_bytes[1] <= 9 * count, "{held_bytes:?}");
}

/// Scenario: 2,000 pods in kube-state-metrics' form: a line with twelve labels, most of which occur
/// nowhere else, and five phases; then again. Guarantee: a series, all of them gauges, takes 48
/// bytes at most, and the second scrape holds a bit of each in addition.
#[test]
fn a_pods_series_take_little() {
    let mut memory = SeriesMemory::default();
    let pods = 2000;
    let count = 6 * pods;
    for turn in 1..=2 {
        let mut pass = begun(&memory);
        for place in 0..count {
            let pod = if place < pods { place } else { (place - pods) / 5 };
            let text = pod_text(place < pods, pod, place as usize % 5);
            let known = pass.record_series(&memory, &seen(&text, None, turn));
            assert_eq!(known.unwrap().is_new, turn == 1);
        }
        assert!(turn == 1 || pass.held_bytes() <= count / 4, "{} bytes held", pass.held_bytes());
        pass.replace_memory(&mut memory, Vec::new());
    }
    assert!(memory.held_bytes() <= 48 * count, "{} bytes a series", memory.held_bytes() / count);
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
