//! Prints the definitions, or, given the repository's root, writes every generated file there.
#![allow(clippy::print_stdout)]

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(root) = std::env::args().nth(1) else {
        for crd in millrace_crds::all_definitions()? {
            println!("---\n{}", millrace_crds::render_yaml(&crd)?);
        }
        return Ok(());
    };
    for (path, contents) in millrace_crds::reference::generated_files()? {
        let path = Path::new(&root).join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        if std::fs::read_to_string(&path).ok().as_ref() != Some(&contents) {
            std::fs::write(&path, contents)?;
            println!("wrote {}", path.display());
        }
    }
    Ok(())
}
