//! The reference pages, one for each kind, from the finished schemas.
