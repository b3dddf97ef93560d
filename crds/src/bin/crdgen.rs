//! Prints the definitions, or writes them where they are committed.
#![allow(clippy::print_stdout)]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for crd in millrace_crds::all()? {
        println!("---\n{}", millrace_crds::yaml(&crd)?);
    }
    Ok(())
}
