//! A topic's messages as the broker keeps them: record batches in segment files, compressed as
//! their producer did it. For tests of what producers write; readers have their client library.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Bytes of a batch before its records (format 2: offset, length, epoch, magic, checksum,
/// attributes, last offset, two times, producer's id, epoch and sequence, count).
const HEAD_BYTES: usize = 61;
/// What comes before the part that a batch's length counts: the offset and the length itself.
const UNCOUNTED_BYTES: usize = 12;

/// A record batch.
#[derive(Debug, Clone)]
pub struct Batch {
    /// How the records are compressed, by Kafka's numbers: 0 not, 3 LZ4, 4 zstd.
    pub codec: u8,
    /// The records, as compressed.
    pub records: Vec<u8>,
}

/// All batches of a topic in a broker's folder of data.
///
/// # Errors
/// When a file can't be read or isn't what a broker writes.
pub fn batches(data: &Path, topic: &str) -> Result<Vec<Batch>> {
    let mut batches = Vec::new();
    for folder in fs::read_dir(data).with_context(|| format!("read {}", data.display()))? {
        let folder = folder?;
        let name = folder.file_name().to_string_lossy().into_owned();
        let partition = name.rsplit_once('-').filter(|(of, _)| *of == topic);
        if partition.is_none_or(|(_, number)| number.parse::<u32>().is_err()) {
            continue;
        }
        for file in fs::read_dir(folder.path())? {
            let file = file?.path();
            if file.extension().is_some_and(|extension| extension == "log") {
                let bytes = fs::read(&file)?;
                read(&bytes, &mut batches).with_context(|| file.display().to_string())?;
            }
        }
    }
    Ok(batches)
}

fn read(mut segment: &[u8], batches: &mut Vec<Batch>) -> Result<()> {
    while let Some(length) = segment.get(8..UNCOUNTED_BYTES) {
        let length = u32::from_be_bytes(length.try_into()?);
        let end = UNCOUNTED_BYTES + usize::try_from(length)?;
        let Some(batch) = segment.get(..end).filter(|batch| batch.len() >= HEAD_BYTES) else {
            bail!("a batch of {length} bytes in {}", segment.len());
        };
        if batch[16] != 2 {
            bail!("a batch of format {}", batch[16]);
        }
        // The codec is in the lowest bits of the attributes.
        batches.push(Batch { codec: batch[22] & 7, records: batch[HEAD_BYTES..].to_vec() });
        segment = &segment[end..];
    }
    Ok(())
}
