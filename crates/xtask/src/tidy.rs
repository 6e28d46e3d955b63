//! `cargo xtask tidy`: checks the rules of the code base, which ARCHITECTURE.md describes.

mod cycles;
mod house;
mod links;
mod purity;
mod texts;

use std::path::Path;

use crate::finding::Finding;
use crate::tree;

/// Checks everything below `root`.
pub(crate) fn check(root: &Path) -> Vec<Finding> {
    let mut findings = house::check(root);
    for room in house::HOUSE.iter().filter(|room| room.pure()) {
        for file in tree::texts(root, &format!("crates/{}/src", room.folder)) {
            findings.extend(purity::check(&file));
        }
    }
    for room in house::HOUSE {
        let sources = tree::texts(root, &format!("crates/{}/src", room.folder));
        findings.extend(cycles::check(room.folder, &sources));
    }
    let all = tree::texts(root, "");
    for file in &all {
        findings.extend(texts::check(file));
    }
    findings.extend(links::check(root, &all));
    findings
}
