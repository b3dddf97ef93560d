//! Positions on disk: of log files and of the kernel's log. Whatever a document holds, reading it
//! ends, and none is skipped that isn't on record; what is then written is read as the same.
//!
//! An input's first byte chooses how it is taken: as a whole document, as the content of one with a
//! right checksum, or as that of the kernel's log. The second one is where a document is damaged.

use millrace_tail::{
    PositionFallback, RecordedPositions, Tail, TailSettings, TailSource, load_kernel_position,
    load_positions,
};

use crate::meter::peak_bytes;

/// What a document takes in memory: entries of some 60 bytes of text become some 500 bytes.
const BYTES_BASE: usize = 1 << 16;
const BYTES_PER_BYTE: usize = 64;
const FILES: &str = "millrace-positions";
const KERNEL: &str = "millrace-kernel-position";

/// A document.
pub fn document(data: &[u8]) {
    let &[control, damage, ref rest @ ..] = data else { return };
    match control % 4 {
        0 => any(rest),
        1 => kernel(rest),
        _ => files(&sealed(FILES, rest), usize::from(damage)),
    }
}

/// Bytes that are hardly a document.
fn any(bytes: &[u8]) {
    for (present, previous) in
        [(Some(bytes), None), (None, Some(bytes)), (Some(bytes), Some(bytes))]
    {
        let (recalled, resort) = load_positions(present, previous);
        // Without a whole document every file is read from its beginning.
        if let Some(resort) = resort {
            assert!(resort.to_string().contains("none is skipped"), "{resort}");
            assert!(tail(recalled).committed_offsets().is_empty());
        }
        let (position, resort) = load_kernel_position(present, previous);
        assert!(position.is_none() || resort.is_none());
    }
}

/// A document with this content, as releases write it.
fn sealed(name: &str, content: &[u8]) -> Vec<u8> {
    let checksum = content.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    [format!("{name} 2 {checksum:016x}\n").as_bytes(), content].concat()
}

/// The sources that are configured.
fn tail(recalled: RecordedPositions) -> Tail {
    let source = |name: &str| TailSource { names: vec![name.to_owned()], from_end: false };
    let sources = ["a", "b"].map(source).to_vec();
    let settings = TailSettings { sources, open_files: 4, known_files: 16 };
    Tail::new(settings, recalled, |_| Some(0))
}

/// A whole document of files' positions.
fn files(whole: &[u8], damage: usize) {
    let ((recalled, resort), bytes) = peak_bytes(|| load_positions(Some(whole), None));
    assert!(bytes <= BYTES_BASE + BYTES_PER_BYTE * whole.len(), "{bytes} bytes");
    let is_read = resort.is_none();
    if let Some(resort) = resort {
        let text = resort.to_string();
        assert!(matches!(resort, PositionFallback::Beginning(_)), "{text}");
        assert!(text.contains("the checksum matches"), "another fault: {text}");
    }
    let mut first = tail(recalled);
    let written = first.changed_checkpoint().unwrap_or_default();
    assert!(!written.is_empty(), "what was recalled isn't written");
    let (again, resort) = load_positions(Some(&written), None);
    assert_eq!(resort, None, "what is written can't be read");
    let mut again = tail(again);
    assert_eq!(owned(&first), owned(&again), "written and read, it differs");
    if is_read {
        assert_eq!(again.changed_checkpoint().map(|it| it.len()), Some(written.len()));
    }
    // One bit of it is wrong: it is refused, and the document before it holds.
    let mut damaged = written.clone();
    let at = damage % damaged.len();
    damaged[at] ^= 1;
    let (recalled, resort) = load_positions(Some(&damaged), Some(&written));
    assert!(matches!(resort, Some(PositionFallback::Previous(_))), "damage at {at} isn't seen");
    assert_eq!(owned(&first), owned(&tail(recalled)));
}

/// Sorted as text: `/a` and `/a/` are one path, whose entries come in any order.
fn owned(tail: &Tail) -> Vec<(String, u64)> {
    let owned = |(path, offset): (&std::path::Path, u64)| (path.display().to_string(), offset);
    let mut all: Vec<_> = tail.committed_offsets().into_iter().map(owned).collect();
    all.sort_unstable();
    all
}

/// A whole document of the position in the kernel's log.
fn kernel(content: &[u8]) {
    let (position, resort) = load_kernel_position(Some(&sealed(KERNEL, content)), None);
    assert_ne!(position.is_some(), resort.is_some());
    if let Some(position) = position {
        let again = load_kernel_position(Some(&position.to_document()), None);
        assert_eq!(again, (Some(position), None), "written and read, it differs");
    }
}
