//! Logs, written by a model of a server's tree and read again.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// What a session did, in small numbers: which call, on which of a few nodes.
type Choice = (u8, u8, u8);

const ROOT: &str = "/root";

/// A path of one or two names.
fn path(nth: u8) -> String {
    match nth % 12 {
        nth @ 0..4 => format!("/{nth}"),
        nth => format!("/{}/{nth}", nth % 4),
    }
}

fn call((what, node, _): Choice) -> Call {
    let path = path(node);
    match what % 6 {
        0 => Call::Create { path, data_bytes: 3, ephemeral: false, sequential: false },
        1 => Call::Remove { path },
        2 => Call::Set { path, data_bytes: 5 },
        3 => Call::Get { path, watch: node.is_multiple_of(2) },
        4 => Call::Exists { path, watch: false },
        _ => Call::Multi { parts: vec![Call::Check { path: path.clone() }, Call::Remove { path }] },
    }
}

/// A tree that says which calls it would refuse.
#[derive(Default)]
struct Tree(BTreeSet<String>);

impl Tree {
    fn try_call(&mut self, call: &Call) -> Result<(), &'static str> {
        let path = call.path().to_owned();
        let parent = path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
        let has_child = |tree: &Self| tree.0.iter().any(|one| one.starts_with(&format!("{path}/")));
        match call {
            Call::Multi { parts } => {
                let before = self.0.clone();
                let done = parts.iter().try_for_each(|part| self.try_call(part));
                if done.is_err() {
                    self.0 = before;
                }
                done
            }
            Call::Create { .. } => match parent.filter(|parent| !parent.is_empty()) {
                Some(parent) if !self.0.contains(&parent) => Err("no-node"),
                _ => self.0.insert(path).then_some(()).ok_or("node-exists"),
            },
            Call::Exists { .. } => Ok(()),
            _ if !self.0.contains(&path) => Err("no-node"),
            Call::Remove { .. } if has_child(self) => Err("not-empty"),
            Call::Remove { .. } => {
                self.0.remove(&path);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

proptest! {
    /// Scenario: a server that holds some nodes is asked at random by three sessions; its log,
    /// errors with it, is read. Guarantee: nothing is lost or reordered within a session; a server
    /// that holds just the nodes found to be needed succeeds wherever the first did.
    #[test]
    fn a_log_needs_what_it_took_for_granted(
        held in prop::collection::btree_set(0_u8..12, 0..12),
        choices in prop::collection::vec((any::<u8>(), any::<u8>(), 0_u8..3), 1..80),
    ) {
        let mut server = Tree::default();
        for nth in held {
            let path = path(nth);
            if let Some((parent, _)) = path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
                server.0.insert(parent.to_owned());
            }
            server.0.insert(path);
        }
        let entries: Vec<Entry> = choices.iter().enumerate().map(|(nth, choice)| {
            let call = call(*choice);
            let error = server.try_call(&call).err().map(str::to_owned);
            Entry { at_us: nth as u64 * 10, session: choice.2.into(), error, call }
        }).collect();
        let text: String =
            entries.iter().map(|entry| serde_json::to_string(entry).unwrap() + "\n").collect();
        let log = Log::read(&text, ROOT).unwrap();

        let mut replica = Tree::default();
        for path in &log.needed {
            let parent = path.rsplit_once('/').unwrap().0;
            prop_assert!(parent == ROOT || replica.0.contains(&parent[ROOT.len()..]), "{path}");
            replica.0.insert(path[ROOT.len()..].to_owned());
        }
        let mut read: Vec<Entry> = log.sessions.into_iter().flatten().collect();
        read.sort_by_key(|entry| entry.at_us);
        prop_assert_eq!(read.len(), entries.len());
        for (read, entry) in read.iter().zip(&entries) {
            let mut rooted = entry.clone();
            rooted.call.root(ROOT);
            prop_assert_eq!(read, &rooted);
            // Where the first refused, the replica's nodes may differ and let it pass.
            let replayed = match entry.error {
                None => replica.try_call(&entry.call),
                Some(_) => Ok(()),
            };
            prop_assert_eq!(replayed, Ok(()), "{:?}", entry);
        }
    }
}

/// Scenario: logs with one thing wrong each. Guarantee: the line and the thing are named.
#[test]
fn a_log_that_cannot_be_replayed_names_its_line() {
    let line = |call: &str| format!(r#"{{"at_us":5,"session":1,{call}}}"#);
    let good = line(r#""op":"get","path":"/a""#);
    let bad = [
        (r#""op":"got","path":"/a""#.to_owned(), "got"),
        (r#""op":"get","path":"a""#.to_owned(), "begins with /"),
        (r#""op":"check","path":"/a""#.to_owned(), "only in a multi"),
        (r#""op":"multi","parts":[]"#.to_owned(), "at least one"),
        (r#""op":"set","path":"/a","data_bytes":1000001"#.to_owned(), "over 1000000"),
    ];
    for (call, what) in bad {
        let error = Log::read(&format!("{good}\n{}", line(&call)), ROOT).unwrap_err().to_string();
        assert!(error.starts_with("line 2: ") && error.contains(what), "{error}");
    }
    let early = good.replace(":5", ":4");
    let error = Log::read(&format!("{good}\n{early}"), ROOT).unwrap_err().to_string();
    assert!(error.contains("sort the log"), "{error}");
    assert_eq!(Log::read("\n", ROOT).unwrap_err().to_string(), "the log has no request");
}
