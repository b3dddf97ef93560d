//! Where a link of a page leads. Pure.

/// The path from the root that a link to `file` leads to from `page`.
pub(crate) fn led_to(page: &str, file: &str) -> String {
    let mut path: Vec<&str> = page.split('/').collect();
    path.pop();
    for part in file.split('/').filter(|part| !part.is_empty()) {
        match part {
            ".." => drop(path.pop()),
            _ => path.push(part),
        }
    }
    path.join("/")
}
