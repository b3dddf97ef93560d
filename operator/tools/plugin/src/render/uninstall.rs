//! Renders the effects of removing Millrace.

use super::{Paint, Palette, TextPage, push_gaps};
use crate::report::UninstallReport;

/// Renders the lists, the gravest first.
#[must_use]
pub fn render_uninstall(report: &UninstallReport, palette: Palette) -> String {
    let mut page = TextPage::new(palette);
    page.push_line("Nothing was deleted: this only reports what would happen.");
    for (heading, lines, paint) in [
        ("DATA THAT WOULD BE DELETED (deletionPolicy: Delete)", &report.data_deleted, Paint::Bad),
        ("OBJECTS AND PODS THAT WOULD BE DELETED", &report.deleted, Paint::Plain),
        ("WHAT WOULD REMAIN, WITH ALL DATA", &report.stays, Paint::Good),
        ("WITH FINALIZERS OF THE OPERATOR (delete these before it)", &report.waits, Paint::Warn),
        ("ORDER OF REMOVAL", &report.order, Paint::Plain),
    ] {
        page.push_heading(heading);
        if lines.is_empty() {
            page.push_line("  nothing");
        }
        for line in lines {
            page.push_wrapped("  ", "    ", line, paint);
        }
    }
    push_gaps(&mut page, &report.gaps);
    page.into_text()
}
