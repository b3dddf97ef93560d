//! The images: the operator's, and the collector's with each allocator, for every platform.

use std::path::PathBuf;

use anyhow::{Context, Result};
use millrace_stack::image::{BuiltIndex, ImageName, ImageSpec, Platform, write_index};

use super::binaries::Programs;
use crate::release::plan::Plan;
use crate::say;

/// An image that was made.
#[derive(Debug)]
pub(crate) struct Image {
    /// Without registry and tag.
    pub(crate) repository: String,
    pub(crate) tag: String,
    /// The crate it is made of, and the features of that.
    pub(crate) crate_name: &'static str,
    pub(crate) features: Option<&'static str>,
    pub(crate) index: BuiltIndex,
    pub(crate) specs: Vec<(Platform, ImageSpec)>,
}

impl Image {
    /// What files about it are called.
    pub(crate) fn file_name(&self) -> String {
        let short = self.repository.rsplit('/').next().unwrap_or(&self.repository);
        format!("{short}-{}", self.tag)
    }
}

/// Makes all of them.
pub(crate) fn make(plan: &Plan, programs: &[Programs]) -> Result<Vec<Image>> {
    let of = |select: &dyn Fn(&Programs) -> Option<PathBuf>| {
        let found = programs.iter().filter_map(|it| Some((it, select(it)?)));
        found.collect::<Vec<_>>()
    };
    let operators = of(&|it| Some(it.operator.clone()));
    let mut images = vec![image(plan, "operator", plan.version.to_owned(), None, &operators)?];
    for allocator in plan.collectors.allocators() {
        let collectors = of(&|it| {
            let (_, path) = it.collectors.iter().find(|(name, _)| name == allocator)?;
            Some(path.clone())
        });
        let tag = format!("{}-{allocator}", plan.version);
        images.push(image(plan, "collector", tag, Some(allocator), &collectors)?);
    }
    Ok(images)
}

fn image(
    plan: &Plan,
    what: &str,
    tag: String,
    features: Option<&'static str>,
    programs: &[(&Programs, PathBuf)],
) -> Result<Image> {
    let name = ImageName::new(&format!("millrace/{what}:{tag}"))?;
    let mut specs = Vec::new();
    for (of, program) in programs {
        let spec = ImageSpec::new(name.clone(), program)?
            .stripped()
            .compressed()
            .label("org.opencontainers.image.revision", &plan.commit)
            .label("org.opencontainers.image.licenses", "Apache-2.0")
            .label("org.opencontainers.image.vendor", "Millrace");
        let spec = match &of.root {
            Some(root) => spec.foreign(of.platform, root),
            None => spec,
        };
        specs.push((of.platform, spec));
    }
    let path = plan.below("images")?.join(format!("{what}-{tag}.tar"));
    let only: Vec<ImageSpec> = specs.iter().map(|(_, spec)| spec.clone()).collect();
    let index = write_index(&path, &name, &only)
        .with_context(|| format!("cannot make the image {name}"))?;
    say::step(&format!("image {name}: {}", index.digest));
    Ok(Image {
        repository: format!("millrace/{what}"),
        tag,
        crate_name: if what == "operator" { "millrace-operator" } else { "millrace-collector" },
        features,
        index,
        specs,
    })
}
