//! A target: the parts that all its points share, and conflicts of scraped labels with its own.

use std::sync::Arc;

use millrace_wire::protobuf::put_varint;

use crate::otlp::encode::{
    EXPONENTIAL_ATTRIBUTE, HISTOGRAM_ATTRIBUTE, NUMBER_ATTRIBUTE, RESOURCE_ATTRIBUTE,
    put_attribute, put_integer,
};
use crate::relabel::{LabelSet, MetricRules, TooLong};

/// Labels that become attributes of the resource, never of a point.
const JOB: &str = "job";
const INSTANCE: &str = "instance";

/// The prefix of a scraped label that has the name of a target's label.
pub(crate) const EXPORTED: &[u8] = EXPORTED_TEXT.as_bytes();
const EXPORTED_TEXT: &str = "exported_";

/// A target that is scraped.
#[derive(Debug, Clone)]
pub struct TargetAttributes {
    /// The encoded attributes of the resource.
    pub(crate) resource: Vec<u8>,
    /// The target's labels as attributes of numbers and summaries, of histograms, and of
    /// exponential ones.
    pub(crate) attributes: [Vec<u8>; 3],
    labels: Vec<(String, String)>,
    /// A bit for each length of their names.
    lengths: u64,
    pub(crate) honors_labels: bool,
    pub(crate) honors_timestamps: bool,
    job: String,
    instance: String,
    metric_rules: Arc<MetricRules>,
    /// The target without labels, if metric rules write them: see
    /// [`TargetAttributes::without_labels`].
    bare: Option<Box<TargetAttributes>>,
}

impl TargetAttributes {
    /// Returns a job's target at `host` and `port`, with labels of the settings.
    ///
    /// `honors_labels`: a scraped label with the name of a target's label takes precedence;
    /// otherwise the target's does, and the scraped one becomes `exported_NAME`.
    /// `honors_timestamps`: points have the body's times; otherwise the scrape's time.
    #[must_use]
    pub fn new(
        job: &str,
        endpoint: (&str, &str, u16),
        labels: Vec<(String, String)>,
        honors_labels: bool,
        honors_timestamps: bool,
    ) -> Self {
        let (_, host, port) = endpoint;
        let names = (job, &*format!("{host}:{port}"));
        Self::with_instance(names, endpoint, labels, honors_labels, honors_timestamps)
    }

    /// The same as [`TargetAttributes::new`], with its own `instance`.
    #[must_use]
    pub fn with_instance(
        (job, instance): (&str, &str),
        (scheme, host, port): (&str, &str, u16),
        labels: Vec<(String, String)>,
        honors_labels: bool,
        honors_timestamps: bool,
    ) -> Self {
        let mut resource = Vec::new();
        let host_text = host.trim_start_matches('[').trim_end_matches(']');
        for (key, value) in [
            ("service.name", job),
            ("service.instance.id", instance),
            ("server.address", host_text),
            ("url.scheme", scheme),
        ] {
            put_attribute(&mut resource, RESOURCE_ATTRIBUTE, key.as_bytes(), value.as_bytes());
        }
        put_integer(&mut resource, RESOURCE_ATTRIBUTE, b"server.port", port.into());
        let tags = [NUMBER_ATTRIBUTE, HISTOGRAM_ATTRIBUTE, EXPONENTIAL_ATTRIBUTE];
        let attributes = tags.map(|tag| {
            let mut out = Vec::new();
            for (name, value) in &labels {
                put_attribute(&mut out, tag, name.as_bytes(), value.as_bytes());
            }
            out
        });
        let names = labels.iter().map(|(name, _)| name.as_str()).chain([JOB, INSTANCE]);
        let lengths = names.fold(0, |lengths, name| lengths | length_bit(name.as_bytes()));
        Self {
            resource,
            attributes,
            labels,
            lengths,
            honors_labels,
            honors_timestamps,
            job: job.to_owned(),
            instance: instance.to_owned(),
            metric_rules: Arc::default(),
            bare: None,
        }
    }

    /// Returns the target with metric rules for its samples.
    #[must_use]
    pub fn with_metric_rules(mut self, rules: Arc<MetricRules>) -> Self {
        self.labels.sort_unstable();
        let bare = Self {
            resource: Vec::new(),
            attributes: <[Vec<u8>; 3]>::default(),
            labels: Vec::new(),
            lengths: 0,
            ..self.clone()
        };
        self.bare = (!rules.are_of_names()).then(|| Box::new(bare));
        self.metric_rules = rules;
        self
    }

    pub(crate) fn metric_rules(&self) -> &MetricRules {
        &self.metric_rules
    }

    /// Returns the target for series that rules rewrote: they have its labels already.
    pub(crate) fn without_labels(&self) -> &Self {
        self.bare.as_deref().unwrap_or(self)
    }

    /// Adds its labels to a line's, according to `honors_labels`, before rules are applied.
    pub(crate) fn add_to(&self, line: &mut LabelSet) -> Result<(), TooLong> {
        let mut conflicts = Vec::new();
        let own = self.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.chain([(INSTANCE, &*self.instance), (JOB, &*self.job)]) {
            let exposed = line.get(name);
            if exposed.is_empty() {
                line.set(name, value)?;
            } else if !self.honors_labels {
                conflicts.push((name, exposed.to_owned()));
                line.set(name, value)?;
            }
        }
        conflicts.sort_by_key(|(name, _)| name.len());
        for (name, value) in conflicts {
            let mut exported = format!("{EXPORTED_TEXT}{name}");
            while !line.get(&exported).is_empty() {
                exported.insert_str(0, EXPORTED_TEXT);
            }
            line.set(&exported, &value)?;
        }
        Ok(())
    }

    /// Whether the resource has a label already. `is_info`: the metric is `target_info`, whose
    /// resource also has the target's own labels.
    pub(crate) fn has_resource_label(&self, name: &str, value: &str, is_info: bool) -> bool {
        match name {
            JOB => value == self.job,
            INSTANCE => value == self.instance,
            name => is_info && self.labels.iter().any(|(own, _)| own == name),
        }
    }

    /// Whether a scraped label has the name of a target's label.
    #[inline]
    pub(crate) fn has_label(&self, name: &[u8]) -> bool {
        self.lengths & length_bit(name) != 0 && self.has_name(name)
    }

    #[inline(never)]
    fn has_name(&self, name: &[u8]) -> bool {
        Self::is_of_resource(name) || self.labels.iter().any(|(known, _)| known.as_bytes() == name)
    }

    /// Whether a scraped label with an empty value removes the target's label of that name.
    pub(crate) fn clears_label(&self, name: &[u8]) -> bool {
        self.honors_labels && self.has_label(name)
    }

    /// Whether the resource has a label of that name, so that a point without it must override it.
    pub(crate) fn is_of_resource(name: &[u8]) -> bool {
        name == JOB.as_bytes() || name == INSTANCE.as_bytes()
    }

    /// Appends the target's labels except those that `is_present`.
    pub(crate) fn put_others(
        &self,
        out: &mut Vec<u8>,
        tag: u8,
        is_present: impl Fn(&[u8]) -> bool,
    ) {
        for (name, value) in &self.labels {
            if !is_present(name.as_bytes()) {
                put_attribute(out, tag, name.as_bytes(), value.as_bytes());
            }
        }
    }

    /// Writes the resource's message, with the attributes of `target_info`.
    pub(crate) fn put_resource(&self, out: &mut Vec<u8>, tag: u8, target_info: &[u8]) {
        out.push(tag);
        put_varint(out, (self.resource.len() + target_info.len()) as u64);
        out.extend_from_slice(&self.resource);
        out.extend_from_slice(target_info);
    }
}

/// Returns the bit of a name's length; all long names share one.
#[inline]
fn length_bit(name: &[u8]) -> u64 {
    1 << name.len().min(63)
}
