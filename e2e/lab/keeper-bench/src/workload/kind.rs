//! The kinds of operations that results are given by.

/// One kind; its number is its place in a tally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A session: from the first packet to the server's word.
    Connect,
    Create,
    Remove,
    Set,
    Get,
    Exists,
    List,
    Sync,
    MultiWrite,
    MultiRead,
}

/// All of them, in the order of results.
pub(crate) const KINDS: [Kind; 10] = [
    Kind::Connect,
    Kind::Create,
    Kind::Remove,
    Kind::Set,
    Kind::Get,
    Kind::Exists,
    Kind::List,
    Kind::Sync,
    Kind::MultiWrite,
    Kind::MultiRead,
];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Create => "create",
            Self::Remove => "remove",
            Self::Set => "set",
            Self::Get => "get",
            Self::Exists => "exists",
            Self::List => "list",
            Self::Sync => "sync",
            Self::MultiWrite => "multi-write",
            Self::MultiRead => "multi-read",
        }
    }

    /// Whether its reply has a result for each part.
    pub(crate) fn is_multi(self) -> bool {
        matches!(self, Self::MultiWrite | Self::MultiRead)
    }
}
