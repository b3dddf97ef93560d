//! Platforms that images are made for, with the names that others give them.

/// A Linux platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Platform {
    /// `linux/amd64`.
    Amd64,
    /// `linux/arm64`.
    Arm64,
}

impl Platform {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// This machine's; none where no images are made for it.
    #[must_use]
    pub fn host() -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.triple().starts_with(std::env::consts::ARCH))
    }

    /// The architecture's name in images, in Go and in Debian.
    #[must_use]
    pub const fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Rust's name.
    #[must_use]
    pub const fn triple(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The name in Debian's folders, and how its compilers' names begin.
    #[must_use]
    pub const fn multiarch(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu",
            Self::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// Name of QEMU's program that runs its programs.
    #[must_use]
    pub const fn emulator(self) -> &'static str {
        match self {
            Self::Amd64 => "qemu-x86_64-static",
            Self::Arm64 => "qemu-aarch64-static",
        }
    }
}
