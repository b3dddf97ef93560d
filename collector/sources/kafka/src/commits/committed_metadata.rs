//! Reads the metadata of committed offsets as bytes.
//!
//! The client library's accessor panics on metadata that isn't UTF-8, which anybody with access to
//! the group can write. Like `headers`, this module is unsafe.
#![allow(unsafe_code)]

use rdkafka::bindings::rd_kafka_topic_partition_t;
use rdkafka::topic_partition_list::TopicPartitionList;

/// A committed offset: topic, partition, offset as the broker knows it (negative: none), metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The topic.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// The offset, 0 or more; `None` when nothing was committed.
    pub offset: Option<i64>,
    /// Whatever isn't text in it can't be read as ours.
    pub metadata: String,
}

/// Returns the entries of `list`.
#[must_use]
pub fn read_committed(list: &TopicPartitionList) -> Vec<CommittedOffset> {
    let plain = list.elements().into_iter().map(|element| CommittedOffset {
        topic: element.topic().to_owned(),
        partition: element.partition(),
        offset: element.offset().to_raw().filter(|offset| *offset >= 0),
        metadata: String::new(),
    });
    let mut entries: Vec<CommittedOffset> = plain.collect();
    for (index, entry) in entries.iter_mut().enumerate() {
        entry.metadata = String::from_utf8_lossy(&bytes_at(list, index)).into_owned();
    }
    entries
}

fn bytes_at(list: &TopicPartitionList, index: usize) -> Vec<u8> {
    // SAFETY: `list` owns a valid native list while it is borrowed; it has `cnt` elements from
    // `elems` on, and `index` is checked against that.
    let element: &rd_kafka_topic_partition_t = unsafe {
        let native = &*list.ptr();
        if index >= usize::try_from(native.cnt).unwrap_or(0) {
            return Vec::new();
        }
        &*native.elems.add(index)
    };
    if element.metadata.is_null() {
        return Vec::new();
    }
    // SAFETY: a metadata pointer that isn't null points to `metadata_size` bytes owned by the list.
    unsafe {
        std::slice::from_raw_parts(element.metadata.cast::<u8>(), element.metadata_size).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::topic_partition_list::Offset;

    use super::*;

    /// Scenario: an entry with metadata, one without. Guarantee: both are read, in order.
    #[test]
    fn metadata_is_read_entry_by_entry() {
        let mut list = TopicPartitionList::new();
        list.add_partition("t", 3).set_metadata("millrace:1:0+5");
        list.add_partition("t", 4).set_offset(Offset::Offset(9)).unwrap();
        let entries = read_committed(&list);
        assert_eq!(entries[0].metadata, "millrace:1:0+5");
        assert_eq!((entries[0].offset, entries[0].partition), (None, 3));
        assert_eq!(entries[1].metadata, "");
        assert_eq!((entries[1].offset, entries[1].topic.as_str()), (Some(9), "t"));
    }
}
