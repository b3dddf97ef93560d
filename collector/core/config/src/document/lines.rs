//! Where each field of a document is, so that a rule over several fields can name a line.
//!
//! Reads the text again, as events. It builds nothing from them but positions, and a text
//! it cannot read has no positions: the first reading has reported what is wrong.

use std::collections::HashMap;

use granit_parser::{Event, Parser};

/// Positions by field path, as in `receivers.kafka.topics.traces` or
/// `exporters.clickhouse.endpoints[1]`.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    positions: HashMap<String, (usize, usize)>,
}

/// A collection being read, and where in it the reader is.
enum Frame {
    /// In a mapping; the key just read, if its value is still to come.
    Mapping { path: String, key: Option<String> },
    /// In a list, with the next item's index.
    Sequence { path: String, next: usize },
}

impl Lines {
    /// The positions of all fields in `text`.
    pub(crate) fn from_text(text: &str) -> Self {
        let mut lines = Self::default();
        let mut stack: Vec<Frame> = Vec::new();
        for next in Parser::new_from_str(text) {
            let Ok((event, span)) = next else { break };
            let start = span.start;
            let position = (start.line(), start.col() + 1);
            match event {
                Event::Scalar(value, ..) => {
                    if let Some(Frame::Mapping { key: key @ None, path }) = stack.last_mut() {
                        lines.positions.entry(join_path(path, &value)).or_insert(position);
                        *key = Some(value.into_owned());
                    } else {
                        lines.enter_value(&mut stack, position);
                    }
                }
                Event::MappingStart(..) => {
                    let path = lines.enter_value(&mut stack, position);
                    stack.push(Frame::Mapping { path, key: None });
                }
                Event::SequenceStart(..) => {
                    let path = lines.enter_value(&mut stack, position);
                    stack.push(Frame::Sequence { path, next: 0 });
                }
                Event::MappingEnd | Event::SequenceEnd => {
                    stack.pop();
                }
                Event::Alias(..) => {
                    lines.enter_value(&mut stack, position);
                }
                _ => {}
            }
        }
        lines
    }

    /// Steps into the value that comes next and returns its path.
    fn enter_value(&mut self, stack: &mut [Frame], position: (usize, usize)) -> String {
        match stack.last_mut() {
            None => String::new(),
            Some(Frame::Mapping { path, key }) => join_path(path, &key.take().unwrap_or_default()),
            Some(Frame::Sequence { path, next }) => {
                let item = format!("{path}[{next}]");
                *next += 1;
                self.positions.entry(item.clone()).or_insert(position);
                item
            }
        }
    }

    /// Where a field is, or, when it is not written, where its nearest written parent is.
    pub(crate) fn position(&self, field: &str) -> Option<(usize, usize)> {
        let mut path = field;
        loop {
            if let Some(position) = self.positions.get(path) {
                return Some(*position);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }
}

fn join_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    /// Scenario: fields in nested mappings and lists. Guarantee: each is found on its own line.
    #[test]
    fn nested_fields_and_list_items_are_found_on_their_lines() {
        let lines = Lines::from_text("a:\n  b: 1\n  c:\n    - x\n    - y: 2\nd: {e: 3}\n");
        assert_eq!(lines.position("a.b"), Some((2, 3)));
        assert_eq!(lines.position("a.c[0]"), Some((4, 7)));
        assert_eq!(lines.position("a.c[1].y"), Some((5, 7)));
        assert_eq!(lines.position("d.e"), Some((6, 5)));
    }

    /// Scenario: a field that is not written. Guarantee: its nearest written parent's line.
    #[test]
    fn an_absent_field_is_reported_at_its_parent() {
        let lines = Lines::from_text("a:\n  b: {}\n");
        assert_eq!(lines.position("a.b.c.d"), Some((2, 3)));
        assert_eq!(lines.position("z"), None);
    }
}
