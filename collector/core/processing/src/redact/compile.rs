//! Compiles the settings of a `redact` step, and reports all that can't be used.

use super::action::RedactAction;
use super::detectors::Detector;
use super::detectors::custom::CustomPatterns;
use super::detectors::literals::Literals;
use super::keys::{KeyList, KeyRules};
use super::limits::PATTERNS_MAX;
use super::problem::{RedactProblem, RedactProblemKind};
use super::{ActionConfig, KeyListConfig, ReadySet, RedactConfig, Redactor};

pub(super) fn compile(
    config: &RedactConfig,
    hash_key: Option<&[u8]>,
) -> Result<Redactor, Vec<RedactProblem>> {
    let mut compiler = Compiler { config, hash_key, problems: Vec::new() };
    let mut sets = config.sets.clone().unwrap_or_else(|| ReadySet::ALL.to_vec());
    sets.sort_unstable();
    sets.dedup();
    let default = compiler.action("action", &config.action);
    let mut names: Vec<String> = sets.iter().map(|set| set.name().to_owned()).collect();
    let mut actions = compiler.set_actions(&sets, &default);
    let literals = Literals::build(|set| sets.contains(&set)).unwrap_or_else(|error| {
        compiler.report("sets", RedactProblemKind::PatternsTooLarge(error.to_string()));
        None
    });
    compiler.check_patterns(&names);
    for (index, pattern) in config.patterns.iter().enumerate() {
        names.push(pattern.name.clone());
        let action = pattern.action.as_ref();
        let path = format!("patterns[{index}].action");
        actions.push(action.map_or(default.clone(), |action| compiler.action(&path, action)));
    }
    let custom = compiler.custom_patterns(sets.len() as u16);
    let keys = compiler.keys();
    let blocked = config.blocked_keys.action.as_ref();
    let blocked_action =
        blocked.map_or(default, |action| compiler.action("blockedKeys.action", action));
    if !compiler.problems.is_empty() {
        return Err(compiler.problems);
    }
    let strictness = actions.iter().map(RedactAction::strictness).collect();
    let detector = Detector::new(&sets, literals, custom);
    Ok(Redactor { detector, names, actions, strictness, keys, blocked_action })
}

struct Compiler<'a> {
    config: &'a RedactConfig,
    hash_key: Option<&'a [u8]>,
    problems: Vec<RedactProblem>,
}

impl Compiler<'_> {
    fn report(&mut self, path: impl Into<String>, kind: RedactProblemKind) {
        self.problems.push(RedactProblem { path: path.into(), kind });
    }

    fn action(&mut self, path: &str, config: &ActionConfig) -> RedactAction {
        RedactAction::compile(config, self.hash_key).unwrap_or_else(|kind| {
            self.report(path, kind);
            RedactAction::Drop
        })
    }

    fn set_actions(&mut self, sets: &[ReadySet], default: &RedactAction) -> Vec<RedactAction> {
        let config = self.config;
        for (index, own) in config.set_actions.iter().enumerate() {
            let path = format!("setActions[{index}].set");
            let name = own.set.name();
            if !sets.contains(&own.set) {
                self.report(path, RedactProblemKind::UnusedSet(name));
            } else if config.set_actions[..index].iter().any(|earlier| earlier.set == own.set) {
                self.report(path, RedactProblemKind::DuplicateSet(name));
            }
        }
        let mut actions = Vec::with_capacity(sets.len() + config.patterns.len());
        for set in sets {
            let own = config.set_actions.iter().enumerate().find(|(_, own)| own.set == *set);
            actions.push(match own {
                Some((index, own)) => {
                    self.action(&format!("setActions[{index}].action"), &own.action)
                }
                None => default.clone(),
            });
        }
        actions
    }

    fn check_patterns(&mut self, set_names: &[String]) {
        let patterns = &self.config.patterns;
        if patterns.len() > PATTERNS_MAX {
            self.report("patterns", RedactProblemKind::TooManyPatterns(patterns.len()));
        }
        for (index, pattern) in patterns.iter().enumerate() {
            let is_unusable = pattern.name.is_empty()
                || set_names.contains(&pattern.name)
                || patterns[..index].iter().any(|earlier| earlier.name == pattern.name);
            if is_unusable {
                let kind = RedactProblemKind::Name(pattern.name.clone());
                self.report(format!("patterns[{index}].name"), kind);
            }
            if let Err(kind) = CustomPatterns::check(&pattern.pattern) {
                self.report(format!("patterns[{index}].pattern"), kind);
            }
        }
    }

    fn custom_patterns(&mut self, first_detector: u16) -> Option<CustomPatterns> {
        if self.config.patterns.is_empty() || !self.problems.is_empty() {
            return None;
        }
        let patterns: Vec<&str> =
            self.config.patterns.iter().map(|pattern| pattern.pattern.as_str()).collect();
        match CustomPatterns::build(&patterns, first_detector) {
            Ok(custom) => Some(custom),
            Err(kind) => {
                self.report("patterns", kind);
                None
            }
        }
    }

    fn keys(&mut self) -> KeyRules {
        let config = self.config;
        let blocked = KeyListConfig {
            names: config.blocked_keys.names.clone(),
            patterns: config.blocked_keys.patterns.clone(),
        };
        KeyRules {
            ignored: self.key_list("ignoredKeys", &config.ignored_keys),
            allowed: config.allowed_keys.as_ref().map(|list| self.key_list("allowedKeys", list)),
            blocked: self.key_list("blockedKeys", &blocked),
        }
    }

    fn key_list(&mut self, path: &str, config: &KeyListConfig) -> KeyList {
        KeyList::compile(config).unwrap_or_else(|kind| {
            self.report(path, kind);
            KeyList::default()
        })
    }
}
