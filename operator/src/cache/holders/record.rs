//! The record of a holder, and what follows from it for another claimant. Pure: no clock and no
//! I/O.

use std::time::Duration;

use millrace_crds::Reason;

use crate::error::Invalid;

/// A record is renewed after this time: several times before it expires, not at every check.
pub(crate) const RENEWED_AFTER: Duration = Duration::from_secs(24 * 3_600);
/// A record not renewed for this long has expired; Kafka drops its own after as long
/// (`offsets.retention.minutes`).
pub(crate) const FREE_AFTER: Duration = Duration::from_secs(7 * 24 * 3_600);

/// The version of a record's format. A record in another version belongs to an unknown holder,
/// named by its complete text.
const VERSION: &str = "v1:";
/// Marks a record whose holder allows others to hold the same.
const SHARED: &str = "shared";
/// Marks a record whose holder allows no others.
const ALONE: &str = "alone";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Cluster, namespace, kind and name, separated by slashes.
    pub(crate) who: String,
    /// Whether others that share too may hold the same.
    pub(crate) shared: bool,
}

impl Holder {
    /// Returns the holder's text in storage.
    pub(crate) fn to_text(&self) -> String {
        format!("{VERSION}{}/{}", self.who, if self.shared { SHARED } else { ALONE })
    }

    /// Parses a holder from storage; `None` if the record was released.
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

/// Storage for one record, and its valid content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HolderSlot(Option<(Holder, Duration)>);

impl HolderSlot {
    /// A slot without a record.
    pub(crate) const FREE: Self = Self(None);

    /// Creates a slot from the text that was read, and its age.
    pub(crate) fn read(text: &str, age: Duration) -> Self {
        Self(Holder::read(text).filter(|_| age < FREE_AFTER).map(|holder| (holder, age)))
    }

    pub(crate) fn is_of(&self, who: &str) -> bool {
        self.0.as_ref().is_some_and(|(holder, _)| holder.who == who)
    }

    pub(crate) fn holder_name(&self) -> Option<&str> {
        self.0.as_ref().map(|(holder, _)| holder.who.as_str())
    }
}

/// An object that claims a thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claimant {
    pub(crate) holder: Holder,
    pub(crate) takes_over: Option<String>,
}

/// The outcome of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClaimDecision {
    /// The claimant holds the thing, and nothing has to be written.
    Holds,
    /// The claimant may hold the thing, and must write its record.
    Due,
    /// The named holder has the thing.
    Refused(String),
}

/// Judges a claim by the records. `passed_over`: whether a holder is no obstacle, whatever its
/// record.
pub(crate) fn decide_claim(
    slots: &[HolderSlot],
    me: &Claimant,
    passed_over: impl Fn(&str) -> bool,
) -> ClaimDecision {
    let mine = &me.holder;
    let obstacle_in = |slot: &HolderSlot| {
        let (other, _) = slot.0.as_ref()?;
        let is_obstacle = other.who != mine.who
            && !(other.shared && mine.shared)
            && me.takes_over.as_ref() != Some(&other.who)
            && !passed_over(&other.who);
        is_obstacle.then(|| other.who.clone())
    };
    if let Some(who) = slots.iter().find_map(obstacle_in) {
        return ClaimDecision::Refused(who);
    }
    let holds = |HolderSlot(slot): &HolderSlot| {
        let Some((holder, age)) = slot else { return false };
        // Of those who share, one is on record; another writes its own when that record ends.
        let ours = holder == mine || (holder.shared && mine.shared && holder.who != mine.who);
        ours && *age < RENEWED_AFTER
    };
    match !slots.is_empty() && slots.iter().all(holds) {
        true => ClaimDecision::Holds,
        false => ClaimDecision::Due,
    }
}

/// Returns why a claim is refused: `what` names the thing and where its record is.
pub(crate) fn claim_refusal(what: &str, who: &str, advice: &str) -> Invalid {
    let parts: Vec<&str> = who.rsplitn(4, '/').collect();
    let named = match parts[..] {
        [name, kind, namespace, cluster] => {
            format!("{kind} {name} in namespace {namespace} of cluster {cluster}")
        }
        _ => who.to_owned(),
    };
    let message = format!(
        "{what} is recorded as held by {named}: write {advice}, or ownership: Shared in both; if \
         that object no longer exists, spec.takesOver: {who} takes over"
    );
    Invalid { reason: Reason::HeldByAnother, message }
}

#[cfg(test)]
mod tests;
