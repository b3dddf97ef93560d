//! The operator's rooms, read from its sources: a room may use those on the floors below it and
//! itself, nothing on its own floor or above. Tests inside a file may use anything.
//!
//! It reads `crate::` paths as text. Limits: a path made by a macro is not seen.

use std::fs;

use anyhow::{Context, Result};

use crate::shell;

/// Where the rooms are.
const SOURCES: &str = "operator/src/";
/// The floors from the ground up (`operator/src/lib.rs` says the same).
const FLOORS: &[&[&str]] = &[
    &["error", "hash", "http_listener"],
    &["ownership", "telemetry"],
    &["outbound"],
    &["clickhouse", "coordination", "kafka", "pods"],
    &["report"],
    &["cache"],
    &["discovery"],
    &["context"],
    &["cluster"],
    &["holders"],
    &["pool"],
    &["monitors"],
    &["sharing"],
    &["reconcile"],
    &[KINDS],
    &["controllers::gateway"],
    &["controllers::pipeline"],
    &["console", "lease"],
    &["check"],
    &["args"],
    &["run"],
];
/// The kinds without a floor of their own: each folder is a room.
const KINDS: &str = "controllers";
/// Files that name rooms without using them.
const INDEXES: &[&str] = &["lib", "main", "controllers::mod"];
/// No more files than these may lie beside the rooms.
const LOOSE_FILES_MAX: usize = 8;

/// One line for each broken rule.
pub(super) fn broken_rules() -> Result<Vec<String>> {
    let listed = shell::output("git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let mut broken = Vec::new();
    let mut loose = 0;
    for path in listed.lines() {
        let Some(file) = path.strip_prefix(SOURCES).and_then(|it| it.strip_suffix(".rs")) else {
            continue;
        };
        let full = shell::root().join(path);
        if !full.exists() {
            continue; // deleted, not yet committed
        }
        loose += usize::from(!file.contains('/'));
        let text = fs::read_to_string(&full).with_context(|| format!("cannot read {path}"))?;
        broken.extend(judge(path, &file.replace('/', "::"), &text));
    }
    if loose > LOOSE_FILES_MAX {
        broken.push(format!("{SOURCES}: {loose} loose files, more than {LOOSE_FILES_MAX}"));
    }
    Ok(broken)
}

fn judge(path: &str, module: &str, text: &str) -> Vec<String> {
    if INDEXES.contains(&module) {
        return Vec::new();
    }
    let Some((room, floor)) = room_of(module) else {
        return vec![format!("{path} is in no room: add it to FLOORS in rooms.rs")];
    };
    let product = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = product.lines().filter(|line| !line.trim_start().starts_with("//"));
    let used = lines.flat_map(|line| line.split("crate::").skip(1)).filter_map(room_of);
    let mut broken: Vec<_> = used
        .filter(|(used, above)| *used != room && *above >= floor)
        .map(|(used, _)| format!("{path}: room {room} may not use {used} (rooms.rs)"))
        .collect();
    broken.dedup();
    broken
}

/// The room that a path leads into, and its floor.
fn room_of(path: &str) -> Option<(&str, usize)> {
    let rooms =
        FLOORS.iter().enumerate().flat_map(|(floor, all)| all.iter().map(move |it| (it, floor)));
    let mut found =
        rooms.filter(|(room, _)| leads_to(path, room)).map(|(room, floor)| (*room, floor));
    let first = found.next()?;
    if first.0 != KINDS {
        return Some(first);
    }
    Some(found.next().unwrap_or_else(|| (kind_of(path), first.1)))
}

/// Whether a path is a room's or leads into it.
fn leads_to(path: &str, room: &str) -> bool {
    let below = path.strip_prefix(room);
    below.is_some_and(|below| !below.starts_with(|it: char| it.is_alphanumeric() || it == '_'))
}

/// The folder of a kind: a path's first two names.
fn kind_of(path: &str) -> &str {
    let is_name = |it: char| it.is_alphanumeric() || it == '_';
    let name = path.strip_prefix("controllers::").unwrap_or_default();
    let length = name.find(|it| !is_name(it)).unwrap_or(name.len());
    &path[..path.len() - name.len() + length]
}

#[cfg(test)]
mod tests {
    use super::judge;

    /// Scenario: a room uses one below it, one beside it, one above it, and one above it in its
    /// tests alone. Guarantee: the second and the third are refused by name.
    #[test]
    fn a_room_uses_only_what_is_below_it() {
        let file = |used: &str| format!("//! See [`crate::run`].\nuse crate::{used};\n");
        let judged = |used: &str| judge("p.rs", "kafka::lag", &file(used));
        assert!(judged("outbound::Outbound").is_empty());
        assert!(judged("kafka::Failure").is_empty());
        assert!(judged("pods::Sample")[0].contains("kafka may not use pods"));
        assert!(judged("cache::claims::Claim")[0].contains("kafka may not use cache"));
        let tested = "use crate::error::Step;\n#[cfg(test)]\nmod tests { use crate::run; }\n";
        assert!(judge("p.rs", "kafka::lag", tested).is_empty());
    }

    /// Scenario: a kind of pool asks about tables; the schema asks about a pool. Guarantee: arrows
    /// between kinds run one way.
    #[test]
    fn kinds_know_each_other_one_way() {
        let (schema, gateway) = ("controllers::schema::gate", "controllers::gateway::observe");
        assert!(judge("p.rs", gateway, "use crate::controllers::schema::tables;").is_empty());
        assert_eq!(judge("p.rs", schema, "use crate::controllers::gateway::X;").len(), 1);
        let other = "use crate::controllers::topic::plan;";
        assert_eq!(judge("p.rs", schema, other).len(), 1);
        assert!(judge("p.rs", schema, "use crate::controllers::schema::plan;").is_empty());
        assert_eq!(judge("p.rs", "controllers::a_new_kind::plan", other).len(), 1);
        assert_eq!(judge("p.rs", "somewhere", "").len(), 1);
    }
}
