//! `cargo xtask tidy`: checks the rules of the code base, which ARCHITECTURE.md describes.

mod cycles;
mod layers;
mod links;
mod purity;
mod texts;

use std::path::Path;

use crate::finding::Finding;
use crate::tree;

/// Checks everything below `root`.
pub(crate) fn check(root: &Path) -> Vec<Finding> {
    let mut findings = layers::check(root);
    for rule in layers::CRATES.iter().filter(|rule| rule.pure()) {
        for file in tree::texts(root, &format!("crates/{}/src", rule.folder)) {
            findings.extend(purity::check(&file));
        }
    }
    for rule in layers::CRATES {
        let sources = tree::texts(root, &format!("crates/{}/src", rule.folder));
        findings.extend(cycles::check(rule.folder, &sources));
    }
    let all = tree::texts(root, "");
    for file in &all {
        findings.extend(texts::check(file));
    }
    findings.extend(links::check(root, &all));
    findings
}
