//! Reasons that only events have. An event of a condition's change has the condition's reason
//! ([`crate::Reason`]); one of a changed size has `Sized` and the sizing's reason.
//!
//! They are an interface as conditions' reasons are: one is never renamed.

use crate::words::words;

words!(
    /// What an event reports that no condition does.
    EventReason {
        /// The topic was made in Kafka.
        TopicCreated,
        /// Partitions were added to the topic.
        TopicGrown,
        /// Settings of the topic were changed to what is declared.
        TopicSettingsChanged,
        /// The topic was deleted with its records, as `deletionPolicy` asks.
        TopicDeleted,
        /// Tables were made or migrated; the note has the migrations' numbers.
        TablesChanged,
        /// The tables were dropped with their rows, as `deletionPolicy` asks.
        TablesDeleted,
        /// Objects that this one owns were created, updated or deleted; the note names them.
        ChildrenApplied,
        /// Someone else changed a field of an owned object, and it was put back. Change the
        /// `millrace.dev` object instead.
        DriftRepaired,
        /// The image's tag means another build than it did: pods of one rollout differ. Use a
        /// version whose tag is not moved, or a digest.
        ImageTagMoved,
        /// The memory limit of each gateway pod was changed.
        MemoryResized,
        /// The processor time of each gateway pod was changed.
        CpuResized,
        /// Memory or processor time reaches pods by replacing them, not in place; the note says
        /// why.
        ResizeRolling,
        /// No node has room for the new size, so the earlier one stays.
        ResizeTakenBack,
        /// Another autoscaler sets the pool's size from now on, or no longer does.
        SizedElsewhere,
        /// Who holds a topic, consumer group or table could not be recorded, so other clusters
        /// are not kept from it; the note says why.
        HolderNotRecorded,
        /// A field of a monitor can't be used, and what it belongs to is not scraped.
        MonitorBroken,
        /// A field of a monitor is ignored; all is scraped.
        FieldIgnored,
        /// The object can't be read and is left alone: the definitions, or who wrote it, are of
        /// another release.
        Unparsable,
    }
);
