//! A record of a holder, and what follows from it for another claimant. Pure.

use std::time::Duration;

use millrace_crds::Reason;

use crate::error::Invalid;

/// A record is renewed after this time: several times before it expires, not at every check.
pub(crate) const RENEWED_AFTER: Duration = Duration::from_secs(24 * 3_600);
/// A record not renewed for this long has expired; Kafka drops its own after as long
/// (`offsets.retention.minutes`).
pub(crate) const FREE_AFTER: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Version of a record's format. A record in another version belongs to somebody; its whole text is
/// the holder's name.
const VERSION: &str = "v1:";
/// Marks in a record that others may hold the same.
const SHARED: &str = "shared";
/// How it says that none may.
const ALONE: &str = "alone";

/// Who holds something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Cluster, namespace, kind and name, with slashes in between.
    pub(crate) who: String,
    /// Whether others may hold the same, if they share too.
    pub(crate) shared: bool,
}

impl Holder {
    /// Its text in storage.
    pub(crate) fn text(&self) -> String {
        format!("{VERSION}{}/{}", self.who, if self.shared { SHARED } else { ALONE })
    }

    /// Parsed from storage; `None`: released.
    fn read(text: &str) -> Option<Self> {
        let known = text.strip_prefix(VERSION).and_then(|rest| rest.rsplit_once('/'));
        match known {
            Some((who, SHARED)) => Some(Self { who: who.to_owned(), shared: true }),
            Some((who, ALONE)) => Some(Self { who: who.to_owned(), shared: false }),
            _ if text.is_empty() => None,
            _ => Some(Self { who: text.to_owned(), shared: false }),
        }
    }
}

/// A place for one record, and its valid content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot(Option<(Holder, Duration)>);

impl Slot {
    /// Nothing is on record there.
    pub(crate) const FREE: Self = Self(None);

    /// What was read, and its age.
    pub(crate) fn read(text: &str, age: Duration) -> Self {
        Self(Holder::read(text).filter(|_| age < FREE_AFTER).map(|holder| (holder, age)))
    }

    pub(crate) fn is_of(&self, who: &str) -> bool {
        self.0.as_ref().is_some_and(|(holder, _)| holder.who == who)
    }

    pub(crate) fn who(&self) -> Option<&str> {
        self.0.as_ref().map(|(holder, _)| holder.who.as_str())
    }
}

/// One who wants to hold something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claimant {
    pub(crate) holder: Holder,
    /// Whose record it may take over.
    pub(crate) takes_over: Option<String>,
}

/// A claimant's standing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It holds, and nothing is to be written.
    Holds,
    /// It may hold, and is to write that.
    Due,
    /// This one holds.
    Refused(String),
}

/// Judges a record. `passed_over`: whether a holder is no obstacle whatever its record says.
pub(crate) fn judge(slots: &[Slot], me: &Claimant, passed_over: impl Fn(&str) -> bool) -> Verdict {
    let mine = &me.holder;
    let stands = |slot: &Slot| {
        let (other, _) = slot.0.as_ref()?;
        let stands = other.who != mine.who
            && !(other.shared && mine.shared)
            && me.takes_over.as_ref() != Some(&other.who)
            && !passed_over(&other.who);
        stands.then(|| other.who.clone())
    };
    if let Some(who) = slots.iter().find_map(stands) {
        return Verdict::Refused(who);
    }
    let holds = |Slot(slot): &Slot| {
        let Some((holder, age)) = slot else { return false };
        // Of those who share, one is on record; another writes when that record ends.
        let ours = holder == mine || (holder.shared && mine.shared && holder.who != mine.who);
        ours && *age < RENEWED_AFTER
    };
    match !slots.is_empty() && slots.iter().all(holds) {
        true => Verdict::Holds,
        false => Verdict::Due,
    }
}

/// Why a claim is refused: `what` names the thing and where its record is.
pub(crate) fn refusal(what: &str, who: &str, advice: &str) -> Invalid {
    let parts: Vec<&str> = who.rsplitn(4, '/').collect();
    let named = match parts[..] {
        [name, kind, namespace, cluster] => {
            format!("{kind} {name} in namespace {namespace} of cluster {cluster}")
        }
        _ => who.to_owned(),
    };
    let annotation = millrace_crds::TAKES_OVER_ANNOTATION;
    let message = format!(
        "{what} is on record as held by {named}: write {advice}, or shared: true in both; if that \
         one is no more, the annotation {annotation}: {who} takes it over"
    );
    Invalid { reason: Reason::HeldByAnother, message }
}

#[cfg(test)]
#[path = "../../../tests/unit/cache/holders/record.rs"]
mod tests;
