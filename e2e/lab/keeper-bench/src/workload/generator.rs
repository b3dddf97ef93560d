//! One session's requests, one after the other, from its seed. What it chooses depends on the plan,
//! the seed and how many requests came before, never on replies or time.

use std::fmt::Write;
use std::sync::Arc;

use super::kind::Kind;
use super::paths::{Paths, Stock};
use super::plan::{Action, DATA_BYTES_MAX, Plan, Span, Step};
use crate::random::Random;
use crate::watches::Changes;
use crate::wire::{Request, frame, multi};

/// Different beginnings of data.
const DATA_OFFSETS: usize = 1 << 16;
/// Choices whose sets are empty are made again so often, before any that can be made is taken.
const TRIES: usize = 8;

/// The bytes that all data is cut from.
#[derive(Debug, Clone)]
pub(crate) struct Data(Arc<[u8]>);

impl Data {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::of(seed, u64::MAX);
        let words = (DATA_BYTES_MAX as usize + DATA_OFFSETS).div_ceil(8);
        Self((0..words).flat_map(|_| random.number().to_le_bytes()).collect())
    }

    pub(crate) fn bytes(&self) -> &Arc<[u8]> {
        &self.0
    }

    fn cut(&self, span: Span, random: &mut Random) -> &[u8] {
        let length = pick(span, random);
        let offset = random.below(DATA_OFFSETS);
        &self.0[offset..offset + length]
    }
}

fn pick(span: Span, random: &mut Random) -> usize {
    let range = (span.most - span.least) as usize + 1;
    span.least as usize + if range == 1 { 0 } else { random.below(range) }
}

/// A request that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) kind: Kind,
    /// It sets a watch.
    pub(crate) watch: bool,
}

/// One session's requests.
#[derive(Debug)]
pub(crate) struct Generator {
    plan: Arc<Plan>,
    hands: Hands,
}

/// What an action works with.
#[derive(Debug)]
struct Hands {
    stock: Stock,
    data: Data,
    random: Random,
    session: u32,
    /// Nodes made so far: part of their names.
    made: u64,
    path: String,
}

/// Where changes are noted, and the time.
pub(crate) type Notes<'a> = Option<(&'a Changes, u64)>;

impl Generator {
    pub(crate) fn new(plan: &Arc<Plan>, paths: &Paths, data: &Data, session: u32) -> Self {
        let hands = Hands {
            stock: Stock::new(plan, paths.clone(), session),
            data: data.clone(),
            random: Random::of(plan.terms.seed, u64::from(session) * 2),
            session,
            made: 0,
            path: String::new(),
        };
        Self { plan: plan.clone(), hands }
    }

    /// Begins another sequence: what is measured doesn't depend on how long the warm-up was, but
    /// for the nodes that it left.
    pub(crate) fn begin_measuring(&mut self) {
        let stream = u64::from(self.hands.session) * 2 + 1;
        self.hands.random = Random::of(self.plan.terms.seed, stream);
    }

    /// The last session's ephemeral nodes are gone.
    pub(crate) fn begin_session(&mut self) {
        let parts = self.plan.steps.iter().flat_map(|step| match step {
            Step::One(action) => std::slice::from_ref(action),
            Step::Multi { parts, .. } => parts,
        });
        for action in parts {
            if let Action::Create { mode, into: Some(set), .. } = action
                && mode.ephemeral
            {
                self.hands.stock.clear(*set);
            }
        }
    }

    /// Appends the next request.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>, xid: i32, notes: Notes<'_>) -> Made {
        let Self { plan, hands } = self;
        for _ in 0..TRIES {
            let step = &plan.steps[plan.weights.pick(&mut hands.random)];
            if let Some(made) = hands.step(step, out, xid, notes, false) {
                return made;
            }
        }
        let mut steps = plan.steps.iter();
        let made = steps.find_map(|step| hands.step(step, out, xid, notes, true));
        // The plan has a step that can always be made; a sync stands in for what can't happen.
        made.unwrap_or_else(|| {
            frame(out, xid, &Request::Sync { path: &plan.terms.root });
            Made { kind: Kind::Sync, watch: false }
        })
    }
}

impl Hands {
    /// `all`: of a multi each part is tried, whatever its size.
    fn step(
        &mut self,
        step: &Step,
        out: &mut Vec<u8>,
        xid: i32,
        notes: Notes<'_>,
        all: bool,
    ) -> Option<Made> {
        let (reads, size, parts, weights) = match step {
            Step::One(action) => {
                return self.act(action, notes, |request| frame(out, xid, request));
            }
            Step::Multi { reads, size, parts, weights } => (*reads, *size, parts, weights),
        };
        let start = out.len();
        let mut writing = multi(out, xid, reads);
        let mut written = 0;
        match size.filter(|_| !all) {
            Some(size) => {
                for _ in 0..pick(size, &mut self.random) {
                    let part = &parts[weights.pick(&mut self.random)];
                    written += usize::from(
                        self.act(part, notes, |request| writing.add(request)).is_some(),
                    );
                }
            }
            None => {
                for part in parts {
                    written += usize::from(
                        self.act(part, notes, |request| writing.add(request)).is_some(),
                    );
                }
            }
        }
        writing.end();
        if written == 0 {
            out.truncate(start);
            return None;
        }
        let kind = if reads { Kind::MultiRead } else { Kind::MultiWrite };
        Some(Made { kind, watch: false })
    }

    /// Nothing, if the set that it draws from is empty.
    fn act(
        &mut self,
        action: &Action,
        notes: Notes<'_>,
        write: impl FnOnce(&Request<'_>),
    ) -> Option<Made> {
        let mut watching = false;
        let kind = match action {
            Action::Create { into: Some(set), remove_factor, .. }
                if self.random.happens(*remove_factor)
                    && let Some(path) = self.stock.take(*set, &mut self.random) =>
            {
                note(notes, &path, true);
                write(&Request::Delete { path: &path });
                Kind::Remove
            }
            Action::Create { parents, name_bytes, data, mode, into, .. } => {
                let parent = self.stock.draw(*parents, &mut self.random)?;
                self.path.clear();
                self.path.push_str(parent);
                name(&mut self.path, self.session, self.made, *name_bytes);
                self.made += 1;
                note(notes, &self.path, true);
                let data = self.data.cut(*data, &mut self.random);
                write(&Request::Create { path: &self.path, data, mode: *mode });
                if let Some(set) = into {
                    self.stock.put(*set, &self.path, &mut self.random);
                }
                Kind::Create
            }
            Action::Remove { from } => {
                let path = self.stock.take(*from, &mut self.random)?;
                note(notes, &path, true);
                write(&Request::Delete { path: &path });
                Kind::Remove
            }
            Action::Set { of, data } => {
                let path = self.stock.draw(*of, &mut self.random)?;
                note(notes, path, false);
                let data = self.data.cut(*data, &mut self.random);
                write(&Request::Set { path, data });
                Kind::Set
            }
            Action::Read { of, kind, watch_probability } => {
                let path = self.stock.draw(*of, &mut self.random)?;
                let watch = self.random.happens(*watch_probability);
                watching = watch;
                write(&match kind {
                    Kind::Exists => Request::Exists { path, watch },
                    Kind::List => Request::List { path, watch },
                    _ => Request::Get { path, watch },
                });
                *kind
            }
            Action::Check { of } => {
                write(&Request::Check { path: self.stock.draw(*of, &mut self.random)? });
                Kind::MultiWrite
            }
            Action::Sync { of } => {
                write(&Request::Sync { path: self.stock.draw(*of, &mut self.random)? });
                Kind::Sync
            }
        };
        Some(Made { kind, watch: watching })
    }
}

fn note(notes: Notes<'_>, path: &str, comes_or_goes: bool) {
    match notes {
        Some((changes, now)) if comes_or_goes => changes.note_with_parent(path, now),
        Some((changes, now)) => changes.note(path, now),
        None => {}
    }
}

/// Appends a name that no other node of the run has.
fn name(path: &mut String, session: u32, nth: u64, bytes: usize) {
    let start = path.len() + 1;
    // Writing to a String can't fail.
    let _ = write!(path, "/{session:x}-{nth:x}");
    for _ in path.len() - start..bytes {
        path.push('x');
    }
}

#[cfg(test)]
mod tests;
