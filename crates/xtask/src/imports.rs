//! Paths that `use` statements import.

use crate::source::Line;

/// A line of code, or one path of a `use`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Number of its first line.
    pub(crate) number: usize,
    pub(crate) text: String,
    pub(crate) is_import: bool,
}

/// Returns the code line by line, but with each path of a `use` separately: `use std::{fs,
/// net::TcpStream};` hides its imports from a word search.
pub(crate) fn statements(code: &[&Line]) -> Vec<Statement> {
    let mut found = Vec::new();
    let mut import: Option<(usize, String)> = None;
    for line in code {
        let (number, text) = match (import.take(), imported(&line.code)) {
            (Some((number, begun)), _) => (number, begun + &line.code),
            (None, Some(tree)) => (line.number, tree.to_owned()),
            (None, None) => {
                let (number, text) = (line.number, line.code.clone());
                found.push(Statement { number, text, is_import: false });
                continue;
            }
        };
        match text.split_once(';') {
            Some((tree, _)) => {
                let import = |text| Statement { number, text, is_import: true };
                found.extend(paths("", tree).into_iter().map(import));
            }
            None => import = Some((number, text)),
        }
    }
    found
}

/// Returns the text after `use` in a line that begins with it, after an optional visibility.
fn imported(code: &str) -> Option<&str> {
    let code = code.trim_start();
    let code = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => code,
    };
    code.trim_start().strip_prefix("use ")
}

/// Returns the full paths of a tree of imports.
fn paths(prefix: &str, tree: &str) -> Vec<String> {
    let Some((head, rest)) = tree.split_once('{') else {
        return vec![format!("{prefix}{}", tree.trim().trim_start_matches("::"))];
    };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let prefix = format!("{prefix}{}", head.trim());
    let nonempty = branches(inside).into_iter().filter(|branch| !branch.trim().is_empty());
    nonempty.flat_map(|branch| paths(&prefix, branch)).collect()
}

/// Splits at the commas outside braces.
fn branches(inside: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let comma = |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    inside.split(comma).collect()
}
