//! Tests random appends, rotations, truncations, kills and refusals by seed.

use std::collections::HashMap;
use std::fs;

use millrace_config::StartAt;

use crate::files::rig::{Rig, numbered, text_of};
use millrace_fake_publisher::Script;

/// Steele's splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

const FILES: u64 = 3;

fn walk(seed: u64, actions: usize) {
    let mut random = Random(seed);
    let mut rig = Rig::new(&["a*.log"], StartAt::Beginning);
    let mut written: HashMap<u64, usize> = HashMap::new();
    for file in 0..FILES {
        rig.append(&format!("a{file}.log"), "");
    }
    rig.start();
    // The test begins here: files rotated before the first scan don't belong to a known name.
    rig.until("a first look", || rig.positions().join("positions").exists());
    for action in 0..actions {
        let file = random.below(FILES);
        let name = format!("a{file}.log");
        let lines = written.entry(file).or_default();
        match random.below(100) {
            0..80 => {
                let more = 1 + random.below(40) as usize;
                rig.append(&name, &text_of(&name, *lines, *lines + more));
                *lines += more;
            }
            80..86 if rig.path(&name).exists() => {
                rig.rename(&name, &format!("a{file}.log.{action}"));
            }
            86..88 if rig.path(&name).exists() => {
                fs::copy(rig.path(&name), rig.path(&format!("a{file}.log.{action}"))).unwrap();
                fs::File::create(rig.path(&name)).unwrap();
            }
            88..92 => rig.script(Script::Refuse),
            92..94 => rig.script(Script::Fail),
            94..98 => {
                rig.script(Script::Deliver);
                rig.release();
            }
            98 => {
                rig.kill();
                rig.start();
            }
            _ => std::thread::yield_now(),
        }
    }
    rig.script(Script::Deliver);
    for (file, lines) in &written {
        let name = format!("a{file}.log");
        rig.until_each(&numbered(&name, 0, *lines));
    }
    for text in rig.texts() {
        let mut words = text.split(' ');
        let (name, number) = (words.next().unwrap(), words.next().unwrap());
        let number: usize = number.parse().unwrap();
        assert_eq!(text, numbered(name, number, number + 1)[0], "seed {seed}: never altered");
    }
    rig.stop();
}

/// Scenario: 2,000 random actions by four seeds. Guarantee: each line at least once, none altered.
#[test]
fn random_rotations_kills_and_refusals_lose_and_alter_nothing() {
    for seed in 1..=4 {
        walk(seed, 500);
    }
}
