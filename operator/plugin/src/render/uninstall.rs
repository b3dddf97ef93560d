//! What removing Millrace would do.

use super::{Page, Paint, Palette, gaps};
use crate::report::UninstallReport;

/// The lists, the gravest first.
#[must_use]
pub fn uninstall(report: &UninstallReport, palette: Palette) -> String {
    let mut page = Page::new(palette);
    page.line("Nothing was deleted: this only says what would happen.");
    for (heading, lines, paint) in [
        ("DATA THAT WOULD BE DELETED (deletionPolicy: Delete)", &report.data_deleted, Paint::Bad),
        ("OBJECTS AND PODS THAT WOULD GO", &report.deleted, Paint::Plain),
        ("WHAT WOULD STAY, WITH ALL DATA", &report.stays, Paint::Good),
        ("WAITS FOR THE OPERATOR (delete these before it)", &report.waits, Paint::Warn),
        ("IN THIS ORDER", &report.order, Paint::Plain),
    ] {
        page.heading(heading);
        if lines.is_empty() {
            page.line("  nothing");
        }
        for line in lines {
            page.wrapped("  ", "    ", line, paint);
        }
    }
    gaps(&mut page, &report.gaps);
    page.finish()
}
