//! Reads a monitor's JSON by tables of its fields. A table has the handling of each field; a field
//! in no table is reported as unknown and ignored.
//!
//! # Limits
//! [`FAULTS_MAX`] faults of a monitor, [`ENTRIES_MAX`] entries of a list or map.

use std::collections::BTreeMap;
use std::time::Duration;

use millrace_scrape::duration;
use serde_json::{Map, Value};

use crate::monitor::secrets::{Holder, SecretUse};
use crate::scraped::{FaultEffect, MonitorFault, MonitorId};
use crate::selector::{Holds, Requirement, Selector};

/// Maximum faults of one monitor: people read the first ones.
pub const FAULTS_MAX: usize = 16;

/// Maximum entries of a list or map in a monitor. etcd holds 1.5 MiB of an object.
pub const ENTRIES_MAX: usize = 1_000;

/// Maximum length of a monitor's text in a fault.
const QUOTE_CHARACTERS_MAX: usize = 100;

/// Reads a field's value into a draft.
pub(crate) type Read<T> = fn(&mut MonitorReader<'_>, &mut T, &str, &Value);

/// The handling of a field.
pub(crate) enum FieldHandling<T> {
    /// Its value is read.
    Read(Read<T>),
    /// It is accepted without effect; the text has the reason.
    NoEffect(&'static str),
    /// It is ignored with a fault; the text has the advice.
    Ignored(&'static str),
    /// Its owner is omitted; the text has the advice.
    Refused(&'static str),
}

/// A field.
pub(crate) struct MonitorField<T> {
    pub(crate) name: &'static str,
    pub(crate) handling: FieldHandling<T>,
}

/// A field that is read.
pub(crate) const fn read<T>(name: &'static str, read: Read<T>) -> MonitorField<T> {
    MonitorField { name, handling: FieldHandling::Read(read) }
}

/// A field without effect.
pub(crate) const fn no_effect<T>(name: &'static str, why: &'static str) -> MonitorField<T> {
    MonitorField { name, handling: FieldHandling::NoEffect(why) }
}

/// A field that is ignored.
pub(crate) const fn ignored<T>(name: &'static str, advice: &'static str) -> MonitorField<T> {
    MonitorField { name, handling: FieldHandling::Ignored(advice) }
}

/// A field that is refused.
pub(crate) const fn refused<T>(name: &'static str, advice: &'static str) -> MonitorField<T> {
    MonitorField { name, handling: FieldHandling::Refused(advice) }
}

/// Reads one monitor and notes its faults.
pub(crate) struct MonitorReader<'a> {
    id: &'a MonitorId,
    faults: Vec<MonitorFault>,
    refusals: usize,
    uses: Vec<(String, SecretUse)>,
}

impl<'a> MonitorReader<'a> {
    pub(crate) fn new(id: &'a MonitorId) -> Self {
        Self { id, faults: Vec::new(), refusals: 0, uses: Vec::new() }
    }

    pub(crate) fn id(&self) -> &MonitorId {
        self.id
    }

    pub(crate) fn into_faults(self) -> Vec<MonitorFault> {
        self.faults
    }

    /// Returns how often a part was omitted so far.
    pub(crate) fn refused_count(&self) -> usize {
        self.refusals
    }

    /// Returns the keys named since the last call, each with the field that names it.
    pub(crate) fn take_uses(&mut self) -> Vec<(String, SecretUse)> {
        std::mem::take(&mut self.uses)
    }

    /// Notes that the owner of a field can't be scraped.
    pub(crate) fn refuse(&mut self, at: &str, why: impl Into<String>) {
        self.refusals += 1;
        self.push_fault(at, why.into(), FaultEffect::NotScraped);
    }

    /// Notes an ignored field.
    pub(crate) fn ignore(&mut self, at: &str, why: impl Into<String>) {
        self.push_fault(at, why.into(), FaultEffect::Ignored);
    }

    fn push_fault(&mut self, at: &str, why: String, effect: FaultEffect) {
        if self.faults.len() < FAULTS_MAX {
            let (monitor, field) = (self.id.clone(), at.to_owned());
            self.faults.push(MonitorFault { monitor, field, why, effect });
        }
    }

    /// Reads all fields of an object, by its tables.
    pub(crate) fn read_fields<T>(
        &mut self,
        at: &str,
        value: &Value,
        tables: &[&[MonitorField<T>]],
        draft: &mut T,
    ) {
        self.read_fields_where(at, value, tables, draft, |value| !is_empty(value));
    }

    /// Reads only the fields whose values pass `is_set`.
    pub(crate) fn read_fields_where<T>(
        &mut self,
        at: &str,
        value: &Value,
        tables: &[&[MonitorField<T>]],
        draft: &mut T,
        is_set: fn(&Value) -> bool,
    ) {
        let Some(map) = self.read_object(at, value) else { return };
        for (name, value) in map.iter().filter(|(_, value)| is_set(value)) {
            let at = format!("{at}.{name}");
            let known = tables.iter().flat_map(|table| table.iter());
            match known.into_iter().find(|field| field.name == name).map(|field| &field.handling) {
                Some(FieldHandling::Read(read)) => read(self, draft, &at, value),
                Some(FieldHandling::NoEffect(_)) => {}
                Some(FieldHandling::Ignored(advice)) => {
                    self.ignore(&at, format!("ignored: {advice}"))
                }
                Some(FieldHandling::Refused(advice)) => self.refuse(&at, *advice),
                None => self.ignore(&at, "ignored: unknown field"),
            }
        }
    }

    fn read_object<'v>(&mut self, at: &str, value: &'v Value) -> Option<&'v Map<String, Value>> {
        let map = value.as_object();
        if map.is_none() {
            self.refuse(at, "it is not an object");
        }
        map
    }

    /// Reads a text.
    pub(crate) fn read_text(&mut self, at: &str, value: &Value) -> String {
        match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => {
                self.refuse(at, "it is not a text");
                String::new()
            }
        }
    }

    /// Reads a value that is written as text.
    pub(crate) fn read_parsed<T>(&mut self, at: &str, value: &Value) -> Option<T>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        let text = self.read_text(at, value);
        match text.parse() {
            Ok(parsed) => Some(parsed),
            Err(error) => {
                self.refuse(at, error.to_string());
                None
            }
        }
    }

    /// Reads a boolean.
    pub(crate) fn read_flag(&mut self, at: &str, value: &Value) -> bool {
        value.as_bool().unwrap_or_else(|| {
            self.refuse(at, "write true or false");
            false
        })
    }

    /// Reads a number that isn't negative.
    pub(crate) fn read_number(&mut self, at: &str, value: &Value) -> Option<u64> {
        let number = value.as_u64();
        if number.is_none() {
            self.refuse(at, "write a non-negative whole number");
        }
        number
    }

    /// Reads a time of whole seconds, 1 to 3,600.
    pub(crate) fn read_seconds(&mut self, at: &str, value: &Value) -> Option<u32> {
        let text = self.read_text(at, value);
        let good = duration::parse_duration(&text).filter(|time| time.subsec_nanos() == 0);
        let seconds = good.as_ref().map(Duration::as_secs).and_then(|it| u32::try_from(it).ok());
        let seconds = seconds.filter(|seconds| (1..=3_600).contains(seconds));
        if seconds.is_none() {
            let excerpt = text_excerpt(&text);
            self.refuse(at, format!("`{excerpt}` can't be used: write whole seconds, 1s to 1h"));
        }
        seconds
    }

    /// Reads a list.
    pub(crate) fn read_list<T>(
        &mut self,
        at: &str,
        value: &Value,
        mut one: impl FnMut(&mut Self, &str, &Value) -> T,
    ) -> Vec<T> {
        let Some(list) = value.as_array().filter(|list| list.len() <= ENTRIES_MAX) else {
            self.refuse(at, format!("write a list of at most {ENTRIES_MAX} entries"));
            return Vec::new();
        };
        let entries = list.iter().enumerate();
        entries.map(|(index, value)| one(self, &format!("{at}[{index}]"), value)).collect()
    }

    /// Reads a map.
    pub(crate) fn read_map<T>(
        &mut self,
        at: &str,
        value: &Value,
        mut one: impl FnMut(&mut Self, &str, &Value) -> T,
    ) -> BTreeMap<String, T> {
        let Some(map) = value.as_object().filter(|map| map.len() <= ENTRIES_MAX) else {
            self.refuse(at, format!("write a map of at most {ENTRIES_MAX} entries"));
            return BTreeMap::new();
        };
        let entries = map.iter();
        entries.map(|(name, value)| (name.clone(), one(self, &at_key(at, name), value))).collect()
    }

    /// Reads a selector of labels.
    pub(crate) fn read_selector(&mut self, at: &str, value: &Value) -> Selector {
        let mut requirements = Vec::new();
        self.read_fields(at, value, &[SELECTOR], &mut requirements);
        Selector(requirements)
    }

    /// Reads a key of a Secret and returns the file in which pods find it; `None` if it is invalid.
    pub(crate) fn read_secret<T: std::str::FromStr>(
        &mut self,
        at: &str,
        value: &Value,
    ) -> Option<T> {
        self.read_key_ref(at, value, Holder::Secret)
    }

    /// Reads a key of a Secret or ConfigMap and returns its file.
    pub(crate) fn secret_or_config_map<T: std::str::FromStr>(
        &mut self,
        at: &str,
        value: &Value,
    ) -> Option<T> {
        let map = self.read_object(at, value)?;
        for (name, holder) in [("secret", Holder::Secret), ("configMap", Holder::ConfigMap)] {
            if let Some(value) = map.get(name).filter(|value| !is_empty(value)) {
                return self.read_key_ref(&format!("{at}.{name}"), value, holder);
            }
        }
        None
    }

    fn read_key_ref<T: std::str::FromStr>(
        &mut self,
        at: &str,
        value: &Value,
        holder: Holder,
    ) -> Option<T> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let (name, key) = (text("name"), text("key"));
        if name.is_empty() || key.is_empty() {
            // Many clusters have an empty value of the deprecated bearerTokenSecret.
            if !name.is_empty() || !key.is_empty() {
                self.refuse(at, "write name and key");
            }
            return None;
        }
        let namespace = self.id.namespace.clone();
        let used = SecretUse { holder, namespace, name: name.to_owned(), key: key.to_owned() };
        let file = used.file_path().parse().ok();
        self.uses.push((at.to_owned(), used));
        file
    }
}

/// Fields of a selector of labels.
pub(crate) const SELECTOR: &[MonitorField<Vec<Requirement>>] = &[
    read("matchLabels", |r, to, at, it| {
        let labels = r.read_map(at, it, MonitorReader::read_text).into_iter();
        to.extend(labels.map(|(key, value)| Requirement { key, holds: Holds::In(vec![value]) }));
    }),
    read("matchExpressions", |r, to, at, it| {
        to.extend(r.read_list(at, it, read_expression).into_iter().flatten());
    }),
];

fn read_expression(reader: &mut MonitorReader<'_>, at: &str, value: &Value) -> Option<Requirement> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let values = value.get("values").filter(|value| !is_empty(value));
    let values =
        values.map(|it| reader.read_list(&format!("{at}.values"), it, MonitorReader::read_text));
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

/// Returns whether a value means the same as an absent one.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn at_key(at: &str, name: &str) -> String {
    format!("{at}[{}]", text_excerpt(name))
}

/// Returns the beginning of a text, for a fault.
pub(crate) fn text_excerpt(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(QUOTE_CHARACTERS_MAX).collect()
}
