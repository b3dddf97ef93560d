//! The collector's settings: typed, checked, and rendered by the operator from the same type.
