//! Checks that the targets of links between documents exist.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::finding::Finding;
use crate::tree::Text;

/// A link in a document.
#[derive(Debug, PartialEq, Eq)]
struct Link<'a> {
    line: usize,
    target: &'a str,
}

/// Reports dead links in the documents among `all` files of the repository at `root`.
pub(crate) fn check(root: &Path, all: &[Text]) -> Vec<Finding> {
    let documents: BTreeMap<&Path, &Text> = all
        .iter()
        .filter(|file| file.has_extension("md"))
        .map(|file| (file.path.as_path(), file))
        .collect();
    let mut findings = Vec::new();
    for file in documents.values() {
        for link in links(&file.content) {
            if let Some((what, fix)) = fault(root, file, link.target, &documents) {
                findings.push(Finding::new(&file.path, link.line, what, fix));
            }
        }
    }
    findings
}

fn fault(
    root: &Path,
    file: &Text,
    target: &str,
    documents: &BTreeMap<&Path, &Text>,
) -> Option<(String, &'static str)> {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let beside = file.path.parent().unwrap_or(Path::new(""));
    let Some(path) =
        (if path.is_empty() { Some(file.path.clone()) } else { resolve(beside, path) })
    else {
        return Some((format!("the link to {target} leaves the repository"), "link within it"));
    };
    if !documents.contains_key(path.as_path()) && !root.join(&path).exists() {
        return Some((format!("the link to {target} is dead"), "fix the path, or drop the link"));
    }
    let document = documents.get(path.as_path()).filter(|_| !heading.is_empty())?;
    let what = format!("{} has no heading #{heading}", path.display());
    (!anchors(&document.content).iter().any(|anchor| anchor == heading))
        .then_some((what, "fix the part after the #"))
}

/// Returns the path to which `target` refers in a document in `folder`; `None` if the path is
/// outside of the repository.
fn resolve(folder: &Path, target: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for component in folder.join(target).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => path.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// Returns all links and images with a target in the repository: `[text](target)` and `[name]:
/// target`.
fn links(text: &str) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    for (line, content) in prose(text) {
        let quoted = |at: usize| content[..at].matches('`').count() % 2 == 1;
        let inline = content.match_indices("](").filter(|(at, _)| !quoted(*at));
        let inline = inline.filter_map(|(at, _)| content[at + 2..].split(')').next());
        let defined = content
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "))
            .map(|(_, target)| target);
        for target in inline.chain(defined) {
            // A title may follow the target.
            let target = target.split_whitespace().next().unwrap_or_default();
            let target = target.trim_start_matches('<').trim_end_matches('>');
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push(Link { line, target });
            }
        }
    }
    found
}

/// Iterates over the lines outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// Returns the anchors of a document, to which links refer after a `#`. An anchor is a heading in
/// lower case, with hyphens for spaces; anchors of repeated headings are numbered.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| {
            let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let anchor: String = words.chars().filter(kept).collect::<String>().replace(' ', "-");
            let times = seen.entry(anchor.clone()).or_default();
            *times += 1;
            if *times == 1 { anchor } else { format!("{anchor}-{}", *times - 1) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<&str> {
        links(text).into_iter().map(|link| link.target).collect()
    }

    #[test]
    fn links_are_read() {
        assert_eq!(targets("[a](b.md) ![c](d.png \"title\")\n"), ["b.md", "d.png"]);
        assert_eq!(targets("[a]: b.md\n"), ["b.md"]);
        assert_eq!(targets("[a](scheme://x) [b](mailto:c)\n"), [""; 0]);
        assert_eq!(targets("`[a](b)` [`c`](d.md)\n"), ["d.md"]);
        assert_eq!(targets("```\n[a](b.md)\n```\n[c](d.md)\n"), ["d.md"]);
    }

    #[test]
    fn dead_links_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let content = "# Here\n[a](Cargo.toml) [b](src) [c](#here) [d](READ.md#here)\n\
            [e](nowhere.md)\n[f](../Cargo.toml)\n[g](#there)\n[h](src/../../Cargo.toml)\n";
        let file = Text { path: "READ.md".into(), content: content.to_owned() };
        let lines: Vec<usize> = check(root, &[file]).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [3, 4, 5, 6]);
    }

    #[test]
    fn headings_become_anchors() {
        let text = "# Algorithm 1: `a_b`, c\n## Twice\n## Twice\n```\n# no\n```\n";
        assert_eq!(anchors(text), ["algorithm-1-a_b-c", "twice", "twice-1"]);
    }
}
