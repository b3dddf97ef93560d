//! Selects the sampling of a record by ordered rules.

use super::{Ratio, RuleConfig, SampleConfig, Sampling, threshold};

/// Most rules of a step: one bit each in a word, so that a resource's rules are one word.
pub const RULES_MAX: usize = 64;

/// The longest name of a rule, service or namespace: Kubernetes' longest name has 253 bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// Settings that can't be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{path}: {kind}")]
pub struct SampleProblem {
    /// The field, such as `rules[2].ratio`.
    pub path: String,
    /// What is wrong with it.
    pub kind: SampleProblemKind,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SampleProblemKind {
    /// The ratio isn't one.
    #[error("{0} is not a ratio: write 0, or a number from 2^-56 to 1")]
    Ratio(f64),
    /// The number of digits is outside its range.
    #[error("{0} is outside 1 to {max}", max = threshold::HEX_DIGITS_MAX)]
    Precision(u8),
    /// There are too many rules.
    #[error("{0} rules are more than {RULES_MAX}")]
    TooManyRules(usize),
    /// A name is empty or too long.
    #[error("a name has 1 to {NAME_BYTES_MAX} bytes, this one {0}")]
    NameLength(usize),
    /// Two rules have the same name.
    #[error("the rule {0:?} exists already")]
    DuplicateName(String),
    /// A rule without any restriction isn't the last one.
    #[error(
        "this rule matches every record, so the rules after it never apply: move it to the end"
    )]
    HidesLaterRules,
    /// A star isn't at the end.
    #[error("{0:?} has a * before its end: only a * at the end is supported")]
    Star(String),
}

#[derive(Clone, Debug)]
enum NamePattern {
    Exact(Box<[u8]>),
    Prefix(Box<[u8]>),
}

impl NamePattern {
    fn matches(&self, name: Option<&[u8]>) -> bool {
        match (self, name) {
            (Self::Exact(expected), Some(name)) => **expected == *name,
            (Self::Prefix(prefix), Some(name)) => name.starts_with(prefix),
            (_, None) => false,
        }
    }
}

#[derive(Clone, Debug)]
struct Rule {
    service: Option<NamePattern>,
    namespace: Option<NamePattern>,
    has_condition: bool,
    sampling: Sampling,
}

/// The rules of a step, compiled.
#[derive(Clone, Debug)]
pub struct RatioTable {
    /// The conditions of `keep`, then the rules.
    rules: Vec<Rule>,
    otherwise: Sampling,
}

/// The rules that a resource's service and namespace match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceRules(u64);

/// The sampling of one record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice<'a> {
    /// The rule, by its index among the conditions of `keep` and then the rules. Absent: none
    /// matched.
    pub rule: Option<usize>,
    /// What happens to the record.
    pub sampling: &'a Sampling,
}

impl RatioTable {
    /// Compiles the rules.
    ///
    /// # Errors
    /// All fields that can't be used.
    pub fn compile(config: &SampleConfig) -> Result<Self, Vec<SampleProblem>> {
        let mut compiler = Compiler { config, problems: Vec::new() };
        if !(1..=threshold::HEX_DIGITS_MAX as u8).contains(&config.precision) {
            compiler.report("precision", SampleProblemKind::Precision(config.precision));
        }
        let count = config.keep.len() + config.rules.len();
        if count > RULES_MAX {
            compiler.report("rules", SampleProblemKind::TooManyRules(count));
        }
        let otherwise = compiler.sampling("ratio", config.ratio);
        let always_sample = || Rule {
            service: None,
            namespace: None,
            has_condition: true,
            sampling: Sampling::Always,
        };
        let mut table = Self { rules: Vec::with_capacity(count), otherwise };
        table.rules.extend(config.keep.iter().map(|_| always_sample()));
        for (index, rule) in config.rules.iter().enumerate() {
            table.rules.push(compiler.rule(index, rule));
        }
        if compiler.problems.is_empty() { Ok(table) } else { Err(compiler.problems) }
    }

    /// The number of conditions of `keep` and rules.
    #[must_use]
    pub fn rules(&self) -> usize {
        self.rules.len()
    }

    /// Whether a rule names a service or namespace. If none does, every resource has the same
    /// rules.
    #[must_use]
    pub fn reads_resources(&self) -> bool {
        self.rules.iter().any(|rule| rule.service.is_some() || rule.namespace.is_some())
    }

    /// Whether the answer for some records depends on their randomness.
    #[must_use]
    pub fn needs_randomness(&self) -> bool {
        let mut all = self.rules.iter().map(|rule| &rule.sampling).chain([&self.otherwise]);
        all.any(Sampling::needs_randomness)
    }

    /// The rules that match a resource: once for all its records.
    #[must_use]
    pub fn for_resource(&self, service: Option<&[u8]>, namespace: Option<&[u8]>) -> ResourceRules {
        let matches = |pattern: &Option<NamePattern>, name| {
            pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
        };
        let mut bits = 0;
        for (index, rule) in self.rules.iter().enumerate() {
            if matches(&rule.service, service) && matches(&rule.namespace, namespace) {
                bits |= 1_u64 << index;
            }
        }
        ResourceRules(bits)
    }

    /// The sampling of one record. `holds` evaluates the condition of the rule with an index, as in
    /// [`Choice::rule`]; it is called for those before the first rule that matches, in order.
    #[must_use]
    pub fn choose(
        &self,
        resource: ResourceRules,
        mut holds: impl FnMut(usize) -> bool,
    ) -> Choice<'_> {
        let mut bits = resource.0;
        while bits != 0 {
            let index = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let rule = &self.rules[index];
            if !rule.has_condition || holds(index) {
                return Choice { rule: Some(index), sampling: &rule.sampling };
            }
        }
        Choice { rule: None, sampling: &self.otherwise }
    }
}

struct Compiler<'a> {
    config: &'a SampleConfig,
    problems: Vec<SampleProblem>,
}

impl Compiler<'_> {
    fn report(&mut self, path: impl Into<String>, kind: SampleProblemKind) {
        self.problems.push(SampleProblem { path: path.into(), kind });
    }

    fn sampling(&mut self, path: &str, ratio: Ratio) -> Sampling {
        match Sampling::from_ratio(ratio.0, self.config.mode, self.config.precision) {
            Some(sampling) => sampling,
            None => {
                self.report(path, SampleProblemKind::Ratio(ratio.0));
                Sampling::Always
            }
        }
    }

    fn rule(&mut self, index: usize, rule: &RuleConfig) -> Rule {
        let path = |field: &str| format!("rules[{index}].{field}");
        if rule.name.is_empty() || rule.name.len() > NAME_BYTES_MAX {
            self.report(path("name"), SampleProblemKind::NameLength(rule.name.len()));
        }
        if self.config.rules[..index].iter().any(|earlier| earlier.name == rule.name) {
            self.report(path("name"), SampleProblemKind::DuplicateName(rule.name.clone()));
        }
        let is_unrestricted =
            rule.service.is_none() && rule.namespace.is_none() && rule.condition.is_none();
        if is_unrestricted && index + 1 < self.config.rules.len() {
            self.report(format!("rules[{index}]"), SampleProblemKind::HidesLaterRules);
        }
        Rule {
            service: self.name_pattern(&path("service"), rule.service.as_deref()),
            namespace: self.name_pattern(&path("namespace"), rule.namespace.as_deref()),
            has_condition: rule.condition.is_some(),
            sampling: self.sampling(&path("ratio"), rule.ratio),
        }
    }

    fn name_pattern(&mut self, path: &str, text: Option<&str>) -> Option<NamePattern> {
        let text = text?;
        if text.is_empty() || text.len() > NAME_BYTES_MAX {
            self.report(path, SampleProblemKind::NameLength(text.len()));
        }
        let (name, is_prefix) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        if name.contains('*') {
            self.report(path, SampleProblemKind::Star(text.to_owned()));
        }
        let name = name.as_bytes().into();
        Some(if is_prefix { NamePattern::Prefix(name) } else { NamePattern::Exact(name) })
    }
}
