//! Tests a source whose patterns change between two starts.

use std::fs;

use millrace_config::StartAt;
use millrace_source_files::SourceSettings;

use crate::files::rig::{Rig, numbered, text_of};

fn include(rig: &mut Rig, patterns: &[&str]) {
    let below = |name: &&str| format!("{}/logs/{name}", rig.folder.path().display());
    let patterns = patterns.iter().map(below).collect();
    let SourceSettings::Files(files) = &mut rig.sources[0] else { panic!("it reads files") };
    files.include = patterns;
}

/// Scenario: with `startAt: End`, files get a backlog and a new one is created while the collector
/// is off; a pattern is added before the others, removed, or replaced by one that matches more.
/// Guarantee: known files are read on from their positions, and unknown files of a former pattern
/// from their beginning; those of only a new pattern are read from their end.
#[test]
fn changed_patterns_lose_no_backlog() {
    for (patterns, reads_new) in
        [(&["b/*.log", "a/*.log", "none"][..], true), (&["?/*.log"], false), (&["a/*.log"], true)]
    {
        let mut rig = Rig::new(&["none", "a/*.log"], StartAt::End);
        for folder in ["a", "b"] {
            fs::create_dir(rig.path(folder)).unwrap();
        }
        rig.append("a/x.log", &text_of("x", 0, 5));
        rig.append("b/z.log", &text_of("z", 0, 5));
        rig.start();
        rig.until_metric("millrace_files_open", |open| open == 1);
        rig.append("a/x.log", &text_of("x", 5, 10));
        rig.until_exactly(numbered("x", 5, 10));
        rig.stop();
        rig.append("a/x.log", &text_of("x", 10, 20));
        rig.append("a/y.log", &text_of("y", 0, 5));
        include(&mut rig, patterns);
        rig.start();
        let open = if patterns == ["a/*.log"] { 2 } else { 3 };
        rig.until_metric("millrace_files_open", |files| files == open);
        rig.append("a/y.log", &text_of("y", 5, 10));
        rig.append("b/z.log", &text_of("z", 5, 10));
        let new = numbered("y", if reads_new { 0 } else { 5 }, 10);
        let other = if open == 3 { numbered("z", 5, 10) } else { Vec::new() };
        rig.until_exactly([numbered("x", 5, 20), new, other].concat());
        rig.stop();
    }
}
