//! Reads a monitor's JSON by tables of its fields. A table says of each field what becomes of it;
//! one that is in no table is named as unknown and ignored.
//!
//! # Limits
//! [`FAULTS_MAX`] faults of a monitor, [`ENTRIES_MAX`] entries of a list or map.

use std::collections::BTreeMap;
use std::time::Duration;

use millrace_scrape::duration;
use serde_json::{Map, Value};

use crate::scraped::{Effect, Fault, MonitorId};
use crate::secrets::{Holder, SecretUse};
use crate::selector::{Holds, Requirement, Selector};

/// Most faults of one monitor: people read the first ones.
pub const FAULTS_MAX: usize = 16;

/// Most entries of a list or map in a monitor. etcd holds 1.5 MiB of an object.
pub const ENTRIES_MAX: usize = 1_000;

/// The longest quotation of a monitor in a fault.
const SAID_CHARACTERS_MAX: usize = 100;

/// Reads a field's value into a draft.
pub(crate) type Read<T> = fn(&mut Reader<'_>, &mut T, &str, &Value);

/// What becomes of a field.
pub(crate) enum Take<T> {
    /// It is read.
    Read(Read<T>),
    /// It may be there, and changes nothing; why.
    NoEffect(&'static str),
    /// It is ignored with a fault; what to do.
    Ignored(&'static str),
    /// What has it is left out; what to do.
    Refused(&'static str),
}

/// A field.
pub(crate) struct Field<T> {
    pub(crate) name: &'static str,
    pub(crate) take: Take<T>,
}

/// A field that is read.
pub(crate) const fn read<T>(name: &'static str, read: Read<T>) -> Field<T> {
    Field { name, take: Take::Read(read) }
}

/// A field without effect.
pub(crate) const fn no_effect<T>(name: &'static str, why: &'static str) -> Field<T> {
    Field { name, take: Take::NoEffect(why) }
}

/// A field that is ignored.
pub(crate) const fn ignored<T>(name: &'static str, advice: &'static str) -> Field<T> {
    Field { name, take: Take::Ignored(advice) }
}

/// A field that is refused.
pub(crate) const fn refused<T>(name: &'static str, advice: &'static str) -> Field<T> {
    Field { name, take: Take::Refused(advice) }
}

/// Reads one monitor and notes its faults.
pub(crate) struct Reader<'a> {
    id: &'a MonitorId,
    faults: Vec<Fault>,
    left_out: usize,
    uses: Vec<(String, SecretUse)>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(id: &'a MonitorId) -> Self {
        Self { id, faults: Vec::new(), left_out: 0, uses: Vec::new() }
    }

    pub(crate) fn id(&self) -> &MonitorId {
        self.id
    }

    pub(crate) fn into_faults(self) -> Vec<Fault> {
        self.faults
    }

    /// How often something was left out so far.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }

    /// The keys that were named since this was called last, each with the field that names it.
    pub(crate) fn take_uses(&mut self) -> Vec<(String, SecretUse)> {
        std::mem::take(&mut self.uses)
    }

    /// Notes that what a field belongs to can't be scraped.
    pub(crate) fn refuse(&mut self, at: &str, why: impl Into<String>) {
        self.left_out += 1;
        self.note(at, why.into(), Effect::LeftOut);
    }

    /// Notes a field that is ignored.
    pub(crate) fn ignore(&mut self, at: &str, why: impl Into<String>) {
        self.note(at, why.into(), Effect::Ignored);
    }

    fn note(&mut self, at: &str, why: String, effect: Effect) {
        if self.faults.len() < FAULTS_MAX {
            let (monitor, field) = (self.id.clone(), at.to_owned());
            self.faults.push(Fault { monitor, field, why, effect });
        }
    }

    /// Reads all fields of an object, by the tables of it.
    pub(crate) fn fields<T>(
        &mut self,
        at: &str,
        value: &Value,
        tables: &[&[Field<T>]],
        draft: &mut T,
    ) {
        self.fields_where(at, value, tables, draft, |value| !is_empty(value));
    }

    /// Likewise, of values that `is_given`.
    pub(crate) fn fields_where<T>(
        &mut self,
        at: &str,
        value: &Value,
        tables: &[&[Field<T>]],
        draft: &mut T,
        is_given: fn(&Value) -> bool,
    ) {
        let Some(map) = self.object(at, value) else { return };
        for (name, value) in map.iter().filter(|(_, value)| is_given(value)) {
            let at = format!("{at}.{name}");
            let known = tables.iter().flat_map(|table| table.iter());
            match known.into_iter().find(|field| field.name == name).map(|field| &field.take) {
                Some(Take::Read(read)) => read(self, draft, &at, value),
                Some(Take::NoEffect(_)) => {}
                Some(Take::Ignored(advice)) => self.ignore(&at, format!("it is ignored: {advice}")),
                Some(Take::Refused(advice)) => self.refuse(&at, *advice),
                None => self.ignore(&at, "it is ignored: this version knows no such field"),
            }
        }
    }

    fn object<'v>(&mut self, at: &str, value: &'v Value) -> Option<&'v Map<String, Value>> {
        let map = value.as_object();
        if map.is_none() {
            self.refuse(at, "it is no object");
        }
        map
    }

    /// A text.
    pub(crate) fn text(&mut self, at: &str, value: &Value) -> String {
        match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => {
                self.refuse(at, "it is no text");
                String::new()
            }
        }
    }

    /// Something that is written as text.
    pub(crate) fn parsed<T>(&mut self, at: &str, value: &Value) -> Option<T>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        let text = self.text(at, value);
        match text.parse() {
            Ok(parsed) => Some(parsed),
            Err(error) => {
                self.refuse(at, error.to_string());
                None
            }
        }
    }

    /// Yes or no.
    pub(crate) fn flag(&mut self, at: &str, value: &Value) -> bool {
        value.as_bool().unwrap_or_else(|| {
            self.refuse(at, "write true or false");
            false
        })
    }

    /// A number that isn't negative.
    pub(crate) fn number(&mut self, at: &str, value: &Value) -> Option<u64> {
        let number = value.as_u64();
        if number.is_none() {
            self.refuse(at, "write a whole number that isn't negative");
        }
        number
    }

    /// A time of whole seconds, 1 to 3,600.
    pub(crate) fn seconds(&mut self, at: &str, value: &Value) -> Option<u32> {
        let text = self.text(at, value);
        let good = duration::parse(&text).filter(|time| time.subsec_nanos() == 0);
        let seconds = good.as_ref().map(Duration::as_secs).and_then(|it| u32::try_from(it).ok());
        let seconds = seconds.filter(|seconds| (1..=3_600).contains(seconds));
        if seconds.is_none() {
            let said = said(&text);
            self.refuse(at, format!("`{said}` can't be used: write whole seconds, 1s to 1h"));
        }
        seconds
    }

    /// A list.
    pub(crate) fn list<T>(
        &mut self,
        at: &str,
        value: &Value,
        mut one: impl FnMut(&mut Self, &str, &Value) -> T,
    ) -> Vec<T> {
        let Some(list) = value.as_array().filter(|list| list.len() <= ENTRIES_MAX) else {
            self.refuse(at, format!("write a list of {ENTRIES_MAX} entries at most"));
            return Vec::new();
        };
        let entries = list.iter().enumerate();
        entries.map(|(place, value)| one(self, &format!("{at}[{place}]"), value)).collect()
    }

    /// A map.
    pub(crate) fn map<T>(
        &mut self,
        at: &str,
        value: &Value,
        mut one: impl FnMut(&mut Self, &str, &Value) -> T,
    ) -> BTreeMap<String, T> {
        let Some(map) = value.as_object().filter(|map| map.len() <= ENTRIES_MAX) else {
            self.refuse(at, format!("write a map of {ENTRIES_MAX} entries at most"));
            return BTreeMap::new();
        };
        let entries = map.iter();
        entries.map(|(name, value)| (name.clone(), one(self, &at_key(at, name), value))).collect()
    }

    /// A selector of labels.
    pub(crate) fn selector(&mut self, at: &str, value: &Value) -> Selector {
        let mut requirements = Vec::new();
        self.fields(at, value, &[SELECTOR], &mut requirements);
        Selector(requirements)
    }

    /// A key of a Secret: the file that pods find it in. None if it is none.
    pub(crate) fn secret<T: std::str::FromStr>(&mut self, at: &str, value: &Value) -> Option<T> {
        self.held(at, value, Holder::Secret)
    }

    /// A key of a Secret or ConfigMap, likewise.
    pub(crate) fn secret_or_config_map<T: std::str::FromStr>(
        &mut self,
        at: &str,
        value: &Value,
    ) -> Option<T> {
        let map = self.object(at, value)?;
        for (name, holder) in [("secret", Holder::Secret), ("configMap", Holder::ConfigMap)] {
            if let Some(value) = map.get(name).filter(|value| !is_empty(value)) {
                return self.held(&format!("{at}.{name}"), value, holder);
            }
        }
        None
    }

    fn held<T: std::str::FromStr>(&mut self, at: &str, value: &Value, holder: Holder) -> Option<T> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let (name, key) = (text("name"), text("key"));
        if name.is_empty() || key.is_empty() {
            // The deprecated bearerTokenSecret stands there empty in many clusters.
            if !name.is_empty() || !key.is_empty() {
                self.refuse(at, "write name and key");
            }
            return None;
        }
        let namespace = self.id.namespace.clone();
        let used = SecretUse { holder, namespace, name: name.to_owned(), key: key.to_owned() };
        let file = used.path().parse().ok();
        self.uses.push((at.to_owned(), used));
        file
    }
}

/// Fields of a selector of labels.
pub(crate) const SELECTOR: &[Field<Vec<Requirement>>] = &[
    read("matchLabels", |r, to, at, it| {
        let labels = r.map(at, it, Reader::text).into_iter();
        to.extend(labels.map(|(key, value)| Requirement { key, holds: Holds::In(vec![value]) }));
    }),
    read("matchExpressions", |r, to, at, it| {
        to.extend(r.list(at, it, expression).into_iter().flatten());
    }),
];

fn expression(reader: &mut Reader<'_>, at: &str, value: &Value) -> Option<Requirement> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let values = value.get("values").filter(|value| !is_empty(value));
    let values = values.map(|it| reader.list(&format!("{at}.values"), it, Reader::text));
    let values = values.unwrap_or_default();
    let holds = match text("operator") {
        "In" => Holds::In(values),
        "NotIn" => Holds::NotIn(values),
        "Exists" => Holds::Exists,
        "DoesNotExist" => Holds::Absent,
        _ => {
            let at = format!("{at}.operator");
            reader.refuse(&at, "write In, NotIn, Exists or DoesNotExist");
            return None;
        }
    };
    Some(Requirement { key: text("key").to_owned(), holds })
}

/// Whether a value says as much as one that isn't there.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn at_key(at: &str, name: &str) -> String {
    format!("{at}[{}]", said(name))
}

/// The beginning of a text, for a fault.
pub(crate) fn said(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(SAID_CHARACTERS_MAX).collect()
}
