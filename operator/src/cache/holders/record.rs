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
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn holder(who: &str, shared: bool) -> Holder {
        Holder { who: who.to_owned(), shared }
    }

    fn me(who: &str, shared: bool) -> Claimant {
        Claimant { holder: holder(who, shared), takes_over: None }
    }

    fn slot(who: &str, shared: bool, age: Duration) -> Slot {
        Slot::read(&holder(who, shared).text(), age)
    }

    /// Scenario: records as this release writes them, one given up, and one of a form it doesn't
    /// know. Guarantee: each is read as it was written; what can't be read is somebody's.
    #[test]
    fn a_record_reads_as_it_was_written() {
        for all in [holder("c/n/TelemetryTopic/t", true), holder("c/n/GatewayPool/p", false)] {
            assert_eq!(Holder::read(&all.text()), Some(all));
        }
        assert_eq!(Holder::read(""), None);
        for odd in ["v2:whatever", "v1:a/b/c/d/maybe", "text"] {
            assert_eq!(Holder::read(odd), Some(holder(odd, false)));
        }
    }

    /// Scenario: every pair of sharing and not. Guarantee: only both together may have it; who
    /// finds one that shares with it writes nothing.
    #[test]
    fn another_holds_unless_both_share() {
        for (theirs, mine) in [(false, false), (true, false), (false, true), (true, true)] {
            let verdict = judge(&[slot("a", theirs, HOUR)], &me("b", mine), |_| false);
            let wanted = if theirs && mine { Verdict::Holds } else { Verdict::Refused("a".into()) };
            assert_eq!(verdict, wanted);
        }
    }

    /// Scenario: a record of one's own, by its age; one that says otherwise; another's that was not
    /// renewed for a week. Guarantee: it is written anew once a day and when it says what is no
    /// longer so; a week without is as if there was none.
    #[test]
    fn a_record_is_renewed_daily_and_ends_after_a_week() {
        let mine = |slot| judge(&[slot], &me("a", false), |_| false);
        assert_eq!(mine(slot("a", false, HOUR * 23)), Verdict::Holds);
        assert_eq!(mine(slot("a", false, HOUR * 25)), Verdict::Due);
        assert_eq!(mine(slot("a", true, HOUR)), Verdict::Due);
        assert_eq!(mine(Slot::FREE), Verdict::Due);
        assert_eq!(mine(slot("b", false, HOUR * 167)), Verdict::Refused("b".into()));
        assert_eq!(mine(slot("b", false, HOUR * 169)), Verdict::Due);
        let shares = |age| judge(&[slot("b", true, age)], &me("a", true), |_| false);
        assert_eq!((shares(HOUR), shares(HOUR * 25)), (Verdict::Holds, Verdict::Due));
    }

    /// Scenario: another's record that the object may take over, by name; one that is to be
    /// passed over. Guarantee: both are written over; a name that isn't the holder's takes
    /// nothing.
    #[test]
    fn a_record_is_taken_over_by_name_alone() {
        let takes = |name: &str| {
            let me = Claimant { takes_over: Some(name.to_owned()), ..me("a", false) };
            judge(&[slot("b", false, HOUR)], &me, |_| false)
        };
        assert_eq!(takes("b"), Verdict::Due);
        assert_eq!(takes("c"), Verdict::Refused("b".into()));
        let seen = judge(&[slot("b", false, HOUR)], &me("a", false), |who| who == "b");
        assert_eq!(seen, Verdict::Due);
    }

    /// Scenario: several places, of which one is another's, free, or one's own. Guarantee: one that
    /// is another's refuses all; all are to be one's own.
    #[test]
    fn every_place_must_be_ones_own() {
        let (own, other) = (slot("a", false, HOUR), slot("b", false, HOUR));
        let judged = |slots: &[Slot]| judge(slots, &me("a", false), |_| false);
        assert_eq!(judged(&[own.clone(), own.clone()]), Verdict::Holds);
        assert_eq!(judged(&[own.clone(), Slot::FREE]), Verdict::Due);
        assert_eq!(judged(&[own, other]), Verdict::Refused("b".into()));
    }

    /// Scenario: a holder of another cluster. Guarantee: the refusal names all of it, and the way
    /// to take over word for word.
    #[test]
    fn a_refusal_names_the_holder_and_the_ways_out() {
        let refused = refusal("topic t", "prod-1/obs/TelemetryTopic/logs", "another topicName");
        assert_eq!(refused.reason, Reason::HeldByAnother);
        for part in [
            "topic t is on record as held by TelemetryTopic logs in namespace obs of cluster prod-1",
            "another topicName",
            "millrace.dev/takes-over: prod-1/obs/TelemetryTopic/logs",
        ] {
            assert!(refused.message.contains(part), "{refused}");
        }
    }
}
