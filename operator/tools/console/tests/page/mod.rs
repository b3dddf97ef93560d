//! Tests of pages of a pipeline in trouble and of a list: their content, their escaping, and their
//! look in a browser.

mod escaping;
mod fixture;
mod pictures;
mod says;
