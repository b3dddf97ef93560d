//! The nodes that requests draw from. Sets that stay as set up are shared by all sessions; of sets
//! that change each session has its own part, so that none depends on another's timing.

use std::sync::Arc;

use super::plan::{Plan, SetId};
use super::settings::Node;
use crate::random::Random;

/// Paths of changing sets that all sessions remember together: about 100 MB at 100 bytes each.
const REMEMBERED_MAX: usize = 1 << 20;
/// And each session at least.
const REMEMBERED_MIN: usize = 64;

/// Every set as it is after the set-up.
#[derive(Debug, Clone)]
pub(crate) struct Paths(Arc<[Vec<Box<str>>]>);

impl Paths {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut sets = vec![Vec::new(); plan.sets.len()];
        sets[0].push(plan.terms.root.clone().into_boxed_str());
        each_node(&plan.setup, &plan.terms.root, &mut |path, node| {
            let tag = node.tag.as_ref();
            let id = tag.and_then(|tag| plan.sets.iter().position(|name| name == tag));
            if let Some(id) = id {
                sets[id].push(path.into());
            }
        });
        Self(sets.into())
    }

    pub(crate) fn of(&self, set: SetId) -> &[Box<str>] {
        &self.0[set]
    }
}

/// Every node of a set-up with its path, parents before their children.
pub(crate) fn each_node(nodes: &[Node], parent: &str, take: &mut dyn FnMut(&str, &Node)) {
    for node in nodes {
        let mut one = |path: String| {
            take(&path, node);
            each_node(&node.nodes, &path, take);
        };
        match node.count {
            None => one(format!("{parent}/{}", node.name)),
            Some(count) => (0..count).for_each(|nth| one(format!("{parent}/{}-{nth}", node.name))),
        }
    }
}

/// The sets as one session sees them.
#[derive(Debug)]
pub(crate) struct Stock {
    shared: Paths,
    /// Its own part of each set that changes.
    own: Vec<Option<Vec<Box<str>>>>,
    remembered_max: usize,
}

impl Stock {
    pub(crate) fn new(plan: &Plan, shared: Paths, session: u32) -> Self {
        let sessions = plan.terms.sessions as usize;
        let part = |(set, changing): (SetId, &bool)| {
            let own = || shared.of(set).iter().skip(session as usize).step_by(sessions);
            changing.then(|| own().cloned().collect())
        };
        let own = plan.changing.iter().enumerate().map(part).collect();
        let remembered_max = (REMEMBERED_MAX / sessions).max(REMEMBERED_MIN);
        Self { shared, own, remembered_max }
    }

    /// One of a set, if it has any.
    pub(crate) fn draw(&self, set: SetId, random: &mut Random) -> Option<&str> {
        let paths = self.own[set].as_deref().unwrap_or_else(|| self.shared.of(set));
        let nth = (!paths.is_empty()).then(|| random.below(paths.len()))?;
        paths.get(nth).map(|path| &**path)
    }

    /// One of a set that changes, which is no longer in it.
    pub(crate) fn take(&mut self, set: SetId, random: &mut Random) -> Option<Box<str>> {
        let paths = self.own[set].as_mut()?;
        (!paths.is_empty()).then(|| {
            let nth = random.below(paths.len());
            paths.swap_remove(nth)
        })
    }

    /// A new node. When the set is full, another is forgotten, though the server keeps it.
    pub(crate) fn put(&mut self, set: SetId, path: &str, random: &mut Random) {
        let Some(paths) = self.own[set].as_mut() else { return };
        match paths.len() < self.remembered_max {
            true => paths.push(path.into()),
            false => {
                let nth = random.below(paths.len());
                paths[nth] = path.into();
            }
        }
    }

    /// Forgets what was the last session's.
    pub(crate) fn clear(&mut self, set: SetId) {
        if let Some(paths) = self.own[set].as_mut() {
            paths.clear();
        }
    }
}
