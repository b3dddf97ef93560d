//! Reasons that only events have. An event of a condition's change has the condition's reason
//! ([`crate::Reason`]); one of a changed size has `Sized` and the sizing's reason.
//!
//! They are an interface as conditions' reasons are: one is never renamed.

use crate::word_list::words;

words!(
    /// What an event reports that no condition does.
    EventReason {
        /// The operator created the topic in Kafka.
        TopicCreated,
        /// The operator added partitions to the topic.
        TopicPartitionsAdded,
        /// The operator changed settings of the topic to the declared values.
        TopicSettingsChanged,
        /// The operator deleted the topic with its records (`deletionPolicy: Delete`).
        TopicDeleted,
        /// The operator created or migrated tables; the note has the migrations' numbers.
        TablesChanged,
        /// The operator dropped the tables with their rows (`deletionPolicy: Delete`).
        TablesDeleted,
        /// The operator created, updated or deleted child objects; the note names them.
        ChildrenApplied,
        /// Another writer changed a field of an owned object, and the operator reverted it. Change
        /// the `millrace.dev` object instead.
        DriftRepaired,
        /// The image's tag points to another build than before: pods of one rollout run different
        /// builds. Use a version whose tag does not move, or set its digest in the chart's
        /// `collector.digests`.
        ImageTagMoved,
        /// The operator changed the memory limit of each gateway pod.
        MemoryResized,
        /// The operator changed the CPU of each gateway pod.
        CpuResized,
        /// Another autoscaler started or stopped setting the pool's size.
        ExternalAutoscalerChanged,
        /// The operator could not record who holds a topic, consumer group or table, so other
        /// clusters may use it too; the note has the cause.
        HolderNotRecorded,
        /// A field of a monitor can't be used, so its endpoint, target or monitor is not scraped.
        MonitorInvalid,
        /// A field of a monitor is ignored; its targets are scraped.
        FieldIgnored,
        /// The operator can't read the object and does not change it: the definitions, or its
        /// writer, are of another release.
        Unparsable,
    }
);
