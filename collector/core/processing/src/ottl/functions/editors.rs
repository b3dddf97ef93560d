//! Compiles calls of editors.

use crate::ottl::compile::Compiler;
use crate::ottl::error::StatementError;
use crate::ottl::functions::arguments::{Arguments, find_function};
use crate::ottl::functions::converters::regex;
use crate::ottl::glob;
use crate::ottl::parser::syntax;
use crate::program::{Editor, Path, Replace, Strategy};

impl Compiler<'_> {
    /// Compiles a call of an editor.
    pub(crate) fn editor(&mut self, call: &syntax::Call) -> Result<Editor, StatementError> {
        let (name, parameters) = find_function(call, true)?;
        if !call.keys.is_empty() {
            return Err(StatementError::new(call.at, "keys can't follow an editor"));
        }
        let mut arguments = self.arguments(call, parameters)?;
        let arguments = &mut arguments;
        let target = arguments.target(0)?;
        Ok(match *name {
            "set" => Editor::Set { target, value: arguments.value(1) },
            "delete_key" => Editor::DeleteKey { target, key: arguments.value(1) },
            "delete_matching_keys" => {
                Editor::MatchKeys { target, pattern: regex(arguments, 1)?, retains_matches: false }
            }
            "keep_matching_keys" => {
                Editor::MatchKeys { target, pattern: regex(arguments, 1)?, retains_matches: true }
            }
            "keep_keys" => Editor::KeepKeys { target, keys: arguments.values(1) },
            "replace_pattern" => Editor::ReplacePattern {
                target,
                pattern: regex(arguments, 1)?,
                with: replace(arguments, 2)?,
            },
            "replace_match" => Editor::ReplaceMatch {
                target,
                pattern: wildcard(arguments, 1)?,
                with: replace(arguments, 2)?,
            },
            "replace_all_patterns" => Editor::ReplaceAllPatterns {
                target,
                is_keys: mode(arguments)?,
                pattern: regex(arguments, 2)?,
                with: replace(arguments, 3)?,
            },
            "replace_all_matches" => Editor::ReplaceAllMatches {
                target,
                pattern: wildcard(arguments, 1)?,
                with: replace(arguments, 2)?,
            },
            _ => self.map_editor(name, target, arguments)?,
        })
    }

    /// Compiles the other editors of maps, and `append`.
    fn map_editor(
        &mut self,
        name: &str,
        target: Path,
        arguments: &mut Arguments,
    ) -> Result<Editor, StatementError> {
        Ok(match name {
            "truncate_all" => {
                let limit = limit(arguments)?;
                let marker = arguments.text(3).unwrap_or_default();
                if marker.len() > limit {
                    let message = "the marker is longer than the limit";
                    return Err(StatementError::new(arguments.at(3), message));
                }
                Editor::TruncateAll { target, limit, marker: self.constant_text(&marker) }
            }
            "limit" => {
                let limit = limit(arguments)?;
                let keys = arguments.texts(2);
                if keys.len() > limit {
                    let message = "the limit is lower than the number of priority keys";
                    return Err(StatementError::new(arguments.at(1), message));
                }
                let priority_keys = keys.iter().map(|key| self.constant_text(key)).collect();
                Editor::Limit { target, limit, priority_keys }
            }
            "merge_maps" => {
                let strategy = strategy(arguments)?;
                Editor::MergeMaps { target, source: arguments.value(1), strategy }
            }
            "flatten" => {
                let depth = arguments.int(2).unwrap_or(i64::MAX);
                if depth < 1 {
                    let message = "the depth is at least 1";
                    return Err(StatementError::new(arguments.at(2), message));
                }
                Editor::Flatten {
                    target,
                    prefix: arguments.text(1).unwrap_or_default().into_bytes(),
                    depth,
                    resolves_conflicts: arguments.bool(3).unwrap_or(false),
                }
            }
            _ => {
                let first = arguments.optional_value(1);
                let values: Vec<_> = first.into_iter().chain(arguments.values(2)).collect();
                if values.is_empty() {
                    let message = "append needs the argument \"value\" or \"values\"";
                    return Err(StatementError::new(arguments.at, message));
                }
                Editor::Append { target, values }
            }
        })
    }
}

fn wildcard(arguments: &mut Arguments, index: usize) -> Result<regex::Regex, StatementError> {
    let pattern = arguments.text(index).unwrap_or_default();
    glob::compile(&pattern).map_err(|message| StatementError::new(arguments.at(index), message))
}

fn limit(arguments: &mut Arguments) -> Result<usize, StatementError> {
    let limit = arguments.int(1).unwrap_or_default();
    usize::try_from(limit)
        .map_err(|_| StatementError::new(arguments.at(1), "the limit is negative"))
}

fn mode(arguments: &mut Arguments) -> Result<bool, StatementError> {
    match arguments.text(1).unwrap_or_default().as_str() {
        "key" => Ok(true),
        "value" => Ok(false),
        other => {
            let message = format!("unknown mode {other:?}");
            Err(StatementError::unknown(arguments.at(1), message, other, ["key", "value"]))
        }
    }
}

fn strategy(arguments: &mut Arguments) -> Result<Strategy, StatementError> {
    match arguments.text(2).unwrap_or_default().as_str() {
        "insert" => Ok(Strategy::Insert),
        "update" => Ok(Strategy::Update),
        "upsert" => Ok(Strategy::Upsert),
        other => {
            let message = format!("unknown strategy {other:?}");
            let supported = ["insert", "update", "upsert"];
            Err(StatementError::unknown(arguments.at(2), message, other, supported))
        }
    }
}

/// Compiles the replacement, the function on it and the format of the function's result, which are
/// arguments from `index` on.
fn replace(arguments: &mut Arguments, index: usize) -> Result<Replace, StatementError> {
    let replacement = arguments.value(index);
    let format_at = arguments.at(index + 2);
    let format = arguments.text(index + 2);
    let function = arguments.function(index + 1);
    let Some(function) = function else { return Ok(Replace { replacement, function: None }) };
    let format = format.unwrap_or_else(|| "%s".to_owned());
    let parts = format
        .split_once("%s")
        .filter(|(before, after)| !before.contains('%') && !after.contains('%'));
    let Some((before, after)) = parts else {
        let message = "the format has %s once and no other directives";
        return Err(StatementError::new(format_at, message));
    };
    Ok(Replace { replacement, function: Some((function, before.to_owned(), after.to_owned())) })
}
