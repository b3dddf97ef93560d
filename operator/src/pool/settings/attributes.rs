//! Builds the rule that adds a pool's static resource attributes. Pure.
//!
//! The rule is the first step of an edge's rules, so it runs on whatever the edge receives, reads
//! or scrapes, and later steps can use the attributes. An attribute that a record already has
//! stays.

use std::collections::BTreeMap;

use millrace_processing::{ContextName, Step};

/// The step's name in messages and metrics.
const STEP: &str = "resourceAttributes";

/// Returns the step that adds the attributes; `None` without any.
#[must_use]
pub fn attributes_step(attributes: &BTreeMap<String, String>) -> Option<Step> {
    let statement = |(key, value): (&String, &String)| {
        let (key, value) = (quote(key), quote(value));
        format!("set(attributes[{key}], {value}) where attributes[{key}] == nil")
    };
    (!attributes.is_empty()).then(|| Step {
        name: STEP.to_owned(),
        context: Some(ContextName::Resource),
        statements: attributes.iter().map(statement).collect(),
        ..Step::default()
    })
}

/// Returns a text as a literal of OTTL, which has Go's escapes.
fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use millrace_processing::{Config, Counts, Outcome, RuleSet, Scratch};
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use prost::Message;

    use super::*;

    fn attribute(key: &str, text: &str) -> KeyValue {
        let value = AnyValue { value: Some(Value::StringValue(text.to_owned())) };
        KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
    }

    fn group(resource: Option<Resource>) -> ResourceLogs {
        let records = vec![LogRecord { severity_number: 9, ..LogRecord::default() }];
        let scope_logs = vec![ScopeLogs { log_records: records, ..ScopeLogs::default() }];
        ResourceLogs { resource, scope_logs, ..ResourceLogs::default() }
    }

    /// Runs the step on a request, and returns each resource's attributes.
    fn add(attributes: &[(&str, &str)], groups: Vec<ResourceLogs>) -> Vec<Vec<KeyValue>> {
        let declared = attributes.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
        let steps = attributes_step(&declared.collect()).into_iter().collect();
        let rules = RuleSet::compile(&Config { steps }).unwrap();
        let bytes = ExportLogsServiceRequest { resource_logs: groups }.encode_to_vec();
        let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
        let signal = millrace_processing::SignalName::Logs.into();
        let outcome =
            rules.run(signal, &bytes, 1 << 20, &mut scratch, &mut counts, &mut Vec::new()).unwrap();
        let Outcome::Changed(bytes) = outcome else { panic!("unchanged: {attributes:?}") };
        let after = ExportLogsServiceRequest::decode(&*bytes).unwrap();
        let resources = after.resource_logs.into_iter().map(|group| group.resource);
        resources.map(|resource| resource.unwrap_or_default().attributes).collect()
    }

    /// Scenario: a resource without the attribute, one with another value, and a group without a
    /// resource. Guarantee: the attribute is added, except where the client sent its own.
    #[test]
    fn attributes_are_added_where_the_client_sent_none() {
        let resource = |attributes| Some(Resource { attributes, ..Resource::default() });
        let groups = vec![
            group(resource(vec![attribute("service.name", "shop")])),
            group(resource(vec![attribute("k8s.cluster.name", "mine")])),
            group(None),
        ];
        assert_eq!(
            add(&[("k8s.cluster.name", "prod")], groups),
            [
                vec![attribute("service.name", "shop"), attribute("k8s.cluster.name", "prod")],
                vec![attribute("k8s.cluster.name", "mine")],
                vec![attribute("k8s.cluster.name", "prod")],
            ]
        );
    }

    /// Scenario: keys and values with quotes, escapes, line feeds and other scripts. Guarantee:
    /// they arrive as declared, and none ends the literal.
    #[test]
    fn any_text_arrives_as_declared() {
        for text in
            ["\"", "\\", "a\" where true", "\\n", "line\nfeed", "\u{7f}\u{85}", "größe", "%{x}"]
        {
            let found = add(&[("k", text)], vec![group(None)]);
            assert_eq!(found, [vec![attribute("k", text)]], "{text:?}");
        }
        for key in ["a\"b", "a\\b", "a.b/c", "ключ"] {
            let found = add(&[(key, "v")], vec![group(None)]);
            assert_eq!(found, [vec![attribute(key, "v")]], "{key:?}");
        }
    }

    /// Scenario: none. Guarantee: no step, so that requests stay untouched.
    #[test]
    fn without_attributes_there_is_no_step() {
        assert_eq!(attributes_step(&BTreeMap::new()), None);
    }
}
