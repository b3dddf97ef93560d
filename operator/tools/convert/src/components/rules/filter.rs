//! Converts the filter processor: its conditions become steps that drop.

use millrace_crds::v1alpha1::{DropStep, ErrorMode, ProcessingStep, Signal, StatementContext};

use super::RuleProcessor;
use super::conditions::{context_named, lowest_context};
use super::step::{
    ModeField, RULES_MAX, check_step, processed_signal, rule_text, step_path, within_maximum,
};
use crate::account::Fate;
use crate::advice;
use crate::tree::{Node, TextValue};
use crate::work::Work;

/// For the form without OTTL.
const WITHOUT_OTTL: &str = "write it as a condition in OTTL: page Rules";

/// A section, its signal, and its lists with their contexts.
type Section = (&'static str, Signal, &'static [(&'static str, StatementContext)]);

/// The sections of the older form, by signal, with their lists.
const SECTIONS: [Section; 3] = [
    (
        "traces",
        Signal::Traces,
        &[
            ("resource", StatementContext::Resource),
            ("span", StatementContext::Span),
            ("spanevent", StatementContext::SpanEvent),
        ],
    ),
    (
        "logs",
        Signal::Logs,
        &[("resource", StatementContext::Resource), ("log_record", StatementContext::Log)],
    ),
    (
        "metrics",
        Signal::Metrics,
        &[
            ("resource", StatementContext::Resource),
            ("metric", StatementContext::Metric),
            ("datapoint", StatementContext::DataPoint),
        ],
    ),
];

/// The lists of the newer form, by signal.
const LISTS: [(&str, Signal); 3] = [
    ("trace_conditions", Signal::Traces),
    ("log_conditions", Signal::Logs),
    ("metric_conditions", Signal::Metrics),
];

pub(super) fn convert(work: &mut Work, node: &Node<'_>, processor: &RuleProcessor<'_>) {
    let mut fields = work.account.open_block(node, Fate::not_needed("it has no conditions"));
    let mode = ModeField::take(&mut fields);
    let before = work.draft.steps.len();
    let unused = "no pipeline of the signal uses the processor";
    for (name, signal, lists) in SECTIONS {
        let Some(section) = fields.take_field(name) else { continue };
        if !processor.handles(signal) {
            work.account.not_needed(&section, unused);
            continue;
        }
        let mut filter = Filter::new(work, processor, signal, mode.mode());
        let mut inner = work.account.open_block(&section, Fate::not_needed("it is empty"));
        for (list, context) in lists {
            let Some(list) = inner.take_field(list) else { continue };
            let items = work.account.list_items(&list, "it is empty");
            filter.add_conditions(work, items, Some(*context));
        }
        work.account.account_remaining(inner, |_| Fate::unsupported(WITHOUT_OTTL));
        filter.finish(work);
    }
    for (name, signal) in LISTS {
        let Some(list) = fields.take_field(name) else { continue };
        if !processor.handles(signal) {
            work.account.not_needed(&list, unused);
            continue;
        }
        let mut filter = Filter::new(work, processor, signal, mode.mode());
        filter.add_list(work, &list);
        filter.finish(work);
    }
    let first = work.draft.steps.get(before).map(|(_, step)| step.name.clone());
    mode.account(work, first.as_deref());
    work.account.account_remaining(fields, |name| match name {
        "spans" => Fate::unsupported(WITHOUT_OTTL),
        "profiles" | "profile_conditions" => {
            Fate::unsupported("Millrace has traces, logs and metrics")
        }
        _ => Fate::unsupported(advice::UNKNOWN),
    });
}

/// The conditions of one signal.
struct Filter<'a, 'n> {
    processor: &'a RuleProcessor<'a>,
    step: ProcessingStep,
    drop: DropStep,
    accepted: Vec<(Node<'n>, &'static str)>,
}

impl<'a, 'n> Filter<'a, 'n> {
    fn new(
        work: &Work,
        processor: &'a RuleProcessor<'a>,
        signal: Signal,
        error_mode: ErrorMode,
    ) -> Self {
        let mut step = processor.new_step(work, signal.as_str());
        step.error_mode = error_mode;
        step.signals = vec![processed_signal(signal)];
        Self { processor, step, drop: DropStep::default(), accepted: Vec::new() }
    }

    /// Adds a list of the newer form: conditions, or groups of them with a context.
    fn add_list(&mut self, work: &mut Work, list: &Node<'n>) {
        let items = work.account.list_items(list, "it is empty");
        if items.iter().all(|item| item.scalar_text() != TextValue::Not) {
            return self.add_conditions(work, items, None);
        }
        for item in items {
            let mut fields = work.account.open_block(&item, Fate::not_needed("it is empty"));
            let context = fields.take_field("context");
            let named = context.as_ref().and_then(Node::plain_text);
            let named = named.as_deref().and_then(context_named);
            let before = self.accepted.len();
            if let Some(conditions) = fields.take_field("conditions") {
                let items = work.account.list_items(&conditions, "it is empty");
                match context.is_some() && named.is_none() {
                    true => items.iter().for_each(|item| {
                        work.account.unsupported(item, "its context isn't one of OTTL's")
                    }),
                    false => self.add_conditions(work, items, named),
                }
            }
            if let Some(context) = context {
                let fate = match self.accepted.get(before) {
                    Some((_, list)) => {
                        Fate::carried(format!("{}.drop.{list}", step_path(&self.step.name)))
                    }
                    None => Fate::not_needed("none of the conditions is carried over"),
                };
                work.account.add_entry(&context, fate);
            }
            work.account.account_remaining(fields, |_| Fate::unsupported(advice::UNKNOWN));
        }
    }

    /// Adds conditions of one context; without one, of the lowest that they name.
    fn add_conditions(
        &mut self,
        work: &mut Work,
        items: Vec<Node<'n>>,
        context: Option<StatementContext>,
    ) {
        let mut rules = Vec::new();
        for item in items {
            if let Some(text) = rule_text(work, &item) {
                rules.push((item, text));
            }
        }
        let rules = within_maximum(work, rules);
        let lowest = context.or_else(|| lowest_context(rules.iter().map(|(_, it)| it.as_str())));
        for (item, text) in rules {
            let Some(context) = lowest else {
                work.account.unsupported(&item, "no path of it names a context, as in log.body");
                continue;
            };
            let mut alone = DropStep::default();
            drop_list(&mut alone, context).1.push(text.clone());
            let alone = ProcessingStep { drop: Some(alone), ..self.step.clone() };
            let (name, list) = drop_list(&mut self.drop, context);
            match check_step(&alone) {
                Ok(()) if list.len() < RULES_MAX => {
                    list.push(text);
                    self.accepted.push((item, name));
                }
                Ok(()) => work.account.unsupported(&item, "a list has at most 128 conditions"),
                Err(why) => work.account.unsupported(&item, why),
            }
        }
    }

    fn finish(mut self, work: &mut Work) {
        if self.accepted.is_empty() {
            return;
        }
        // The lists name their objects; only resources and scopes belong to every signal.
        if self.drop.resources.is_empty() && self.drop.scopes.is_empty() {
            self.step.signals.clear();
        }
        let path = step_path(&self.step.name);
        let step = ProcessingStep { drop: Some(self.drop), ..self.step };
        match self.processor.push_step(work, step) {
            Ok(()) => {
                for (item, list) in &self.accepted {
                    let fate = self.processor.carried(format!("{path}.drop.{list}"), None);
                    work.account.add_entry(item, fate);
                }
            }
            Err(why) => {
                self.accepted.iter().for_each(|(it, _)| work.account.unsupported(it, &*why));
            }
        }
    }
}

/// Returns the list of a context, with its name.
fn drop_list(drop: &mut DropStep, context: StatementContext) -> (&'static str, &mut Vec<String>) {
    match context {
        StatementContext::Resource => ("resources", &mut drop.resources),
        StatementContext::Scope => ("scopes", &mut drop.scopes),
        StatementContext::Log => ("logs", &mut drop.logs),
        StatementContext::Span => ("spans", &mut drop.spans),
        StatementContext::SpanEvent => ("spanEvents", &mut drop.span_events),
        StatementContext::Metric => ("metrics", &mut drop.metrics),
        StatementContext::DataPoint => ("dataPoints", &mut drop.data_points),
    }
}
