//! Lists of words that statuses and events use: one macro, so that the words, what they mean and
//! the reference can't differ.

macro_rules! words {
    (
        $(#[$doc:meta])* $name:ident {
            $( $(#[doc = $meaning:literal])+ $variant:ident, )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $( $(#[doc = $meaning])+ $variant, )+
        }

        impl $name {
            /// All of them, in the order of the reference.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )+];

            /// The word in a status.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => stringify!($variant), )+
                }
            }

            /// What it means, for the reference.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $( Self::$variant => concat!($($meaning, "\n",)+), )+
                }
            }

            /// The word's value, if it is one of the list.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use words;
