//! Rules grouped into walks over a request.

use std::sync::Arc;

use crate::config::ErrorMode;
use crate::ottl::context::{CONTEXTS, SHAPES, StatementContext};
use crate::program::{Condition, EnrichStep, Kind, RedactStep, SampleStep, Statement};

/// The rules of one step on the objects of one context.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) context: StatementContext,
    pub(crate) error_mode: ErrorMode,
    /// The position of the first rule in the rule set; the others follow.
    pub(crate) first_rule: usize,
    pub(crate) action: PassAction,
    pub(crate) usage: Usage,
    /// The position of the topic to which the objects go that the unit drops.
    pub(crate) route: Option<usize>,
}

/// What a unit does.
#[derive(Clone, Debug)]
pub(crate) enum PassAction {
    Statements(Vec<Statement>),
    /// Objects on which any condition is true are dropped.
    Drop(Vec<Condition>),
    Redact(Arc<RedactStep>),
    Sample(Arc<SampleStep>),
    Enrich(Arc<EnrichStep>),
}

impl PassAction {
    /// Whether the unit is a list of rules that run one after the other.
    #[inline]
    pub(crate) const fn is_list(&self) -> bool {
        matches!(self, Self::Statements(_) | Self::Drop(_))
    }
}

impl Unit {
    /// Whether the unit redacts.
    pub(crate) const fn is_redaction(&self) -> bool {
        matches!(self.action, PassAction::Redact(_))
    }

    /// Whether it makes no difference that an earlier step's `inner` unit runs after this one,
    /// which is on objects around its own: redaction neither fails nor drops, and reads nothing
    /// around its object.
    fn may_precede(&self, inner: &Self) -> bool {
        (self.is_redaction() || inner.is_redaction())
            && !inner.usage.fields[self.context.index()].is_used
    }
}

/// The fields of an object that rules use, as bits by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) masks: [u64; SHAPES],
    pub(crate) schema_url: bool,
    /// Whether rules use the object in any form.
    pub(crate) is_used: bool,
    /// Whether rules change the object.
    pub(crate) is_written: bool,
}

/// The fields that rules use, by context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) fields: [Fields; CONTEXTS],
    /// Whether rules change times of records or of objects in them.
    pub(crate) writes_times: bool,
}

impl Usage {
    /// Notes that a rule uses a field.
    pub(crate) fn note(&mut self, context: StatementContext, kind: Kind, numbers: [u32; SHAPES]) {
        let context = match kind {
            Kind::Temporality | Kind::Monotonic => {
                self.fields[StatementContext::Metric.index()].is_used = true;
                StatementContext::Data
            }
            _ => context,
        };
        let fields = &mut self.fields[context.index()];
        fields.is_used = true;
        match kind {
            Kind::SchemaUrl => fields.schema_url = true,
            // The two are members of one choice.
            Kind::ValueDouble | Kind::ValueInt => fields.masks[0] |= 1 << 4 | 1 << 6,
            _ => {
                for (mask, number) in fields.masks.iter_mut().zip(numbers) {
                    *mask |= if number > 0 { 1 << number } else { 0 };
                }
            }
        }
    }

    /// Notes that a rule uses fields, as bits by number.
    pub(crate) fn note_fields(&mut self, context: StatementContext, shape: usize, bits: u64) {
        let fields = &mut self.fields[context.index()];
        fields.is_used = true;
        fields.masks[shape] |= bits;
    }

    /// Notes that a rule changes an object.
    pub(crate) fn note_write(&mut self, context: StatementContext, kind: Kind) {
        let written = match kind {
            Kind::Temporality | Kind::Monotonic => StatementContext::Data,
            _ => context,
        };
        self.fields[written.index()].is_written = true;
        self.writes_times |= matches!(kind, Kind::Time | Kind::TimeNanos);
    }

    fn add(&mut self, other: &Self) {
        self.writes_times |= other.writes_times;
        for (sum, fields) in self.fields.iter_mut().zip(&other.fields) {
            for (mask, more) in sum.masks.iter_mut().zip(fields.masks) {
                *mask |= more;
            }
            sum.schema_url |= fields.schema_url;
            sum.is_used |= fields.is_used;
            sum.is_written |= fields.is_written;
        }
    }

    /// Whether a rule on objects of `context` changes an object around them.
    pub(crate) fn writes_above(&self, context: StatementContext) -> bool {
        let mut above = context.visible().iter().skip(1);
        let is_data_written = context == StatementContext::DataPoint
            && self.fields[StatementContext::Data.index()].is_written;
        is_data_written || above.any(|context| self.fields[context.index()].is_written)
    }
}

/// The units that run in one walk, by context, in the order of their steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    units: [Vec<Unit>; CONTEXTS],
    pub(crate) usage: Usage,
    depth: usize,
    is_closed: bool,
    redacts: bool,
    route: Option<usize>,
}

impl Pass {
    /// Returns the units of a context.
    #[inline]
    pub(crate) fn units(&self, context: StatementContext) -> &[Unit] {
        &self.units[context.index()]
    }

    /// Returns what the rules use of a context's objects.
    #[inline]
    pub(crate) fn fields(&self, context: StatementContext) -> &Fields {
        &self.usage.fields[context.index()]
    }

    /// Whether rules on inner objects change outer ones.
    #[inline]
    pub(crate) fn writes_above(&self) -> bool {
        self.is_closed
    }

    /// Whether any rule redacts, so that records which exceed a limit are redacted nevertheless.
    #[inline]
    pub(crate) const fn redacts(&self) -> bool {
        self.redacts
    }

    /// Returns the position of the topic to which the walk's dropped objects go.
    #[inline]
    pub(crate) const fn route(&self) -> Option<usize> {
        self.route
    }

    /// Whether rules run on objects inside of those of `context`.
    pub(crate) fn has_units_below(&self, context: StatementContext) -> bool {
        self.depth > context.depth()
    }

    fn push(&mut self, unit: Unit) {
        let context = unit.context;
        self.redacts |= unit.is_redaction();
        self.route = unit.route;
        self.depth = self.depth.max(context.depth());
        self.usage.add(&unit.usage);
        let fields = &mut self.usage.fields[context.index()];
        fields.is_used = true;
        self.units[context.index()].push(unit);
    }

    /// Whether a unit may run before those of earlier steps on objects inside its own objects.
    fn admits(&self, unit: &Unit) -> bool {
        let is_inner = |known: &&Unit| known.context.depth() > unit.context.depth();
        self.units.iter().flatten().filter(is_inner).all(|inner| unit.may_precede(inner))
    }

    /// Groups units into walks.
    ///
    /// Steps take effect one after the other, each on the complete request. One walk may run
    /// several of them if no object that one step changes is read by another at a different time:
    /// outer objects come first in a walk, so a step on outer objects begins a new walk if steps on
    /// inner ones precede it, unless one of the two redacts and so doesn't notice; a step that
    /// changes objects around its own has a separate walk, and so has one that routes.
    pub(crate) fn plan(units: Vec<Unit>) -> Vec<Self> {
        let mut passes: Vec<Self> = Vec::new();
        for unit in units {
            let writes_above = unit.usage.writes_above(unit.context);
            let is_alone = writes_above || unit.route.is_some();
            let begins = is_alone
                || passes.last().is_none_or(|last| {
                    last.is_closed || last.route.is_some() || !last.admits(&unit)
                });
            if begins {
                passes.push(Self::default());
            }
            if let Some(last) = passes.last_mut() {
                last.is_closed = writes_above;
                last.push(unit);
            }
        }
        passes
    }
}
