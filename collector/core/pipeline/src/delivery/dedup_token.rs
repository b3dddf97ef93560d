//! Makes the deduplication tokens of inserts: ClickHouse drops an insert whose token its table
//! remembers.

use crate::sink::{Block, BlockOrigin, Insert};

impl Insert {
    /// Returns the deduplication token: equal for equal rows, and never equal for different ones.
    /// It names the topic with its number, the offsets of the complete batch, the table and the
    /// slice.
    #[must_use]
    pub fn dedup_token(&self) -> String {
        let BlockOrigin { group, topic, partition, range, first_timestamp_millis, .. } =
            &self.origin;
        let number = self.origin.topic_number.map(|number| format!("{number:08x}"));
        let Block { table_name, slice, .. } = &self.block;
        format!(
            "millrace:2:{group}:{topic}:{partition}:{}-{}:{}:{first_timestamp_millis}:\
             {table_name}:{slice}",
            range.first(),
            range.last(),
            number.unwrap_or_default(),
        )
    }
}
