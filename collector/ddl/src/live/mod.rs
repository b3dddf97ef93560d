//! The tables that exist on a server: what they are, how they differ from their declaration, who
//! made them and who holds them.

pub(crate) mod coordination;
pub(crate) mod drift;
pub(crate) mod fit;
pub(crate) mod holders;
pub(crate) mod observe;
pub(crate) mod origin;
