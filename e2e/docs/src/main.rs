//! Writes the generated page below the repository's root, which is the only argument.
#![allow(clippy::print_stdout)]

use std::path::Path;

use millrace_docs::settings;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args().nth(1).ok_or("give the repository's root")?;
    let path = Path::new(&root).join(settings::PAGE);
    let page = settings::page()?;
    if std::fs::read_to_string(&path).ok().as_ref() != Some(&page) {
        std::fs::write(&path, page)?;
        println!("wrote {}", path.display());
    }
    Ok(())
}
