//! What all cluster tests of a run did, judged when they have ended. Ignored otherwise.

mod rights;
