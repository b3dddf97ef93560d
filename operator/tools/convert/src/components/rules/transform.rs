//! Converts the transform processor: each group of statements becomes a step.

use millrace_crds::v1alpha1::{ErrorMode, ProcessingStep, Signal, StatementContext};

use super::RuleProcessor;
use super::conditions::{context_named, lowest_context, with_condition};
use super::step::{ModeField, check_step, processed_signal, rule_text, step_path, within_maximum};
use crate::account::Fate;
use crate::advice;
use crate::tree::{Node, TextValue};
use crate::work::Work;

/// The lists of statements, by signal.
const LISTS: [(&str, Signal); 3] = [
    ("trace_statements", Signal::Traces),
    ("log_statements", Signal::Logs),
    ("metric_statements", Signal::Metrics),
];

/// How steps differ from groups with conditions.
const EACH_TIME: &str = "checked before each statement, also after earlier ones have changed the \
                         record";

pub(super) fn convert(work: &mut Work, node: &Node<'_>, processor: &RuleProcessor<'_>) {
    let mut fields = work.account.open_block(node, Fate::not_needed("it has no statements"));
    let mode = ModeField::take(&mut fields);
    let before = work.draft.steps.len();
    for (name, signal) in LISTS {
        let Some(list) = fields.take_field(name) else { continue };
        if !processor.handles(signal) {
            work.account.not_needed(&list, "no pipeline of the signal uses the processor");
            continue;
        }
        let items = work.account.list_items(&list, "it is empty");
        let is_flat = items.iter().all(|item| item.scalar_text() != TextValue::Not);
        let group = Group { signal, mode: mode.mode(), processor };
        if is_flat {
            group.convert_statements(work, items, None, None);
            continue;
        }
        for item in items {
            group.convert_item(work, &item);
        }
    }
    let first = work.draft.steps.get(before).map(|(_, step)| step.name.clone());
    mode.account(work, first.as_deref());
    work.account.account_remaining(fields, |name| match name {
        "profile_statements" => Fate::unsupported("Millrace has traces, logs and metrics"),
        _ => Fate::unsupported(advice::UNKNOWN),
    });
}

/// The statements of one signal.
#[derive(Clone, Copy)]
struct Group<'a> {
    signal: Signal,
    mode: ErrorMode,
    processor: &'a RuleProcessor<'a>,
}

impl Group<'_> {
    /// Converts a group with its own context and conditions.
    fn convert_item(&self, work: &mut Work, item: &Node<'_>) {
        let mut fields = work.account.open_block(item, Fate::not_needed("it has no statements"));
        let context = fields.take_field("context");
        let named = context.as_ref().and_then(Node::plain_text);
        let named = named.as_deref().and_then(context_named);
        let conditions = fields.take_field("conditions");
        let own_mode = ModeField::take(&mut fields);
        let group = Group { mode: own_mode.mode_or(self.mode), ..*self };
        let texts = conditions.as_ref().map(Node::list_texts).unwrap_or_default();
        let is_complete = conditions.as_ref().is_none_or(|it| {
            !it.has_variable()
                && texts.len() == it.items().count().max(usize::from(!texts.is_empty()))
        });
        let statements = fields.take_field("statements");
        let items = match &statements {
            Some(list) => work.account.list_items(list, "it is empty"),
            None => Vec::new(),
        };
        let before = work.draft.steps.len();
        match (context.is_some() && named.is_none(), is_complete) {
            (true, _) => leave(work, &items, "its context isn't one of OTTL's for a signal"),
            (_, false) => leave(work, &items, "its conditions can't be read: write them in where"),
            (false, true) => {
                let joined: Vec<String> = match &texts[..] {
                    [one] => vec![one.clone()],
                    several => several.iter().map(|text| format!("({text})")).collect(),
                };
                let condition = (!joined.is_empty()).then(|| joined.join(" or "));
                group.convert_statements(work, items, named, condition.as_deref());
            }
        }
        let step = work.draft.steps.get(before).map(|(_, step)| step.name.clone());
        own_mode.account(work, step.as_deref());
        let step = step.map(|name| step_path(&name));
        let fate = |to: &str, but: Option<&str>| match &step {
            Some(path) => self.processor.carried(format!("{path}.{to}"), but),
            None => Fate::not_needed("none of the statements is carried over"),
        };
        if let Some(context) = context {
            let fate = fate("context", None);
            work.account.add_entry(&context, fate);
        }
        if let Some(conditions) = conditions {
            let fate = fate("statements", Some(EACH_TIME));
            work.account.add_entry(&conditions, fate);
        }
        work.account.account_remaining(fields, |_| Fate::unsupported(advice::UNKNOWN));
    }

    /// Converts statements of one context to a step.
    fn convert_statements(
        &self,
        work: &mut Work,
        items: Vec<Node<'_>>,
        context: Option<StatementContext>,
        condition: Option<&str>,
    ) {
        let mut rules = Vec::new();
        for item in items {
            if let Some(text) = rule_text(work, &item) {
                let text = condition.map_or(text.clone(), |it| with_condition(&text, it));
                rules.push((item, text));
            }
        }
        let rules = within_maximum(work, rules);
        let runs_on =
            context.or_else(|| lowest_context(rules.iter().map(|(_, text)| text.as_str())));
        let mut step = self.processor.new_step(work, self.signal.as_str());
        step.error_mode = self.mode;
        step.context = context;
        if matches!(runs_on, None | Some(StatementContext::Resource | StatementContext::Scope)) {
            step.signals = vec![processed_signal(self.signal)];
        }
        let mut accepted = Vec::new();
        for (item, text) in rules {
            let alone = ProcessingStep {
                context: context.or(runs_on),
                statements: vec![text.clone()],
                ..step.clone()
            };
            match check_step(&alone) {
                Ok(()) => accepted.push((item, text)),
                Err(why) => work.account.unsupported(&item, why),
            }
        }
        if accepted.is_empty() {
            return;
        }
        step.statements = accepted.iter().map(|(_, text)| text.clone()).collect();
        let to = format!("{}.statements", step_path(&step.name));
        match self.processor.push_step(work, step) {
            Ok(()) => {
                for (item, _) in &accepted {
                    let fate = self.processor.carried(to.clone(), None);
                    work.account.add_entry(item, fate);
                }
            }
            Err(why) => accepted.iter().for_each(|(item, _)| work.account.unsupported(item, &*why)),
        }
    }
}

fn leave(work: &mut Work, items: &[Node<'_>], why: &str) {
    for item in items {
        work.account.unsupported(item, why);
    }
}
