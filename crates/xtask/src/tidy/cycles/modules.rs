//! Modules of a crate, and the references between them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::imports::{Statement, statements};
use crate::source::{Line, lines};
use crate::tree::Text;

/// Names of a module and of its ancestors, from the top.
pub(super) type ModulePath = Vec<String>;

/// Maximum number of consecutive imports that are followed, so that cyclic globs terminate.
const MOST_IMPORTS: usize = 16;

/// Location at which a module refers to another.
#[derive(Debug)]
pub(super) struct Reference {
    pub(super) from: ModulePath,
    pub(super) to: ModulePath,
    pub(super) file: PathBuf,
    pub(super) line: usize,
}

/// Modules, imports and mentions of a crate.
#[derive(Debug, Default)]
pub(super) struct Crate {
    modules: BTreeSet<ModulePath>,
    /// Imported paths, by module and name.
    imports: BTreeMap<(ModulePath, String), Vec<String>>,
    mentions: Vec<Mention>,
}

/// A path in a module.
#[derive(Debug)]
struct Mention {
    from: ModulePath,
    path: Vec<String>,
    file: PathBuf,
    line: usize,
}

impl Crate {
    /// Reads the sources of a crate below `folder`. Omits test modules.
    pub(super) fn read(folder: &str, sources: &[Text]) -> Crate {
        let files: Vec<(ModulePath, &Text, Vec<Line>)> = sources
            .iter()
            .filter_map(|text| Some((module_of(folder, &text.path)?, text, lines(&text.content))))
            .collect();
        let for_tests: BTreeSet<ModulePath> = files
            .iter()
            .flat_map(|(module, _, lines)| {
                test_modules(lines).map(move |name| child(module, &name))
            })
            .collect();
        let is_test = |module: &[String]| for_tests.iter().any(|tests| module.starts_with(tests));
        let mut found = Crate::default();
        for (module, text, lines) in files.iter().filter(|(module, ..)| !is_test(module)) {
            found.modules.insert(module.clone());
            let code: Vec<&Line> = lines.iter().filter(|line| !line.in_test).collect();
            statements(&code).iter().for_each(|it| found.note(module, &text.path, it));
        }
        found
    }

    fn note(&mut self, module: &ModulePath, file: &Path, statement: &Statement) {
        let paths = match statement.is_import {
            true => {
                let (path, name) = import(&statement.text);
                if let Some(name) = name {
                    self.imports.insert((module.clone(), name), path.clone());
                }
                vec![path]
            }
            false => mentioned(&statement.text),
        };
        self.mentions.extend(paths.into_iter().map(|path| Mention {
            from: module.clone(),
            path,
            file: file.to_owned(),
            line: statement.number,
        }));
    }

    /// Returns the references between modules.
    pub(super) fn references(&self) -> Vec<Reference> {
        let reference = |mention: &Mention| {
            let Mention { from, path, file, line } = mention;
            let to = self.resolve(from, path, MOST_IMPORTS)?;
            Some(Reference { from: from.clone(), to, file: file.clone(), line: *line })
        };
        self.mentions.iter().filter_map(reference).collect()
    }

    /// Resolves a path to a module; `None` if it is outside the crate.
    fn resolve(&self, from: &ModulePath, path: &[String], imports: usize) -> Option<ModulePath> {
        let imports = imports.checked_sub(1)?;
        let (first, mut rest) = path.split_first()?;
        let mut module = match first.as_str() {
            "crate" => ModulePath::new(),
            "self" => from.clone(),
            "super" => parent(from)?,
            name if self.modules.contains(&child(from, name)) => child(from, name),
            _ => return None,
        };
        while let Some((next, after)) = rest.split_first() {
            let below = child(&module, next);
            if next == "super" {
                module = parent(&module)?;
            } else if self.modules.contains(&below) {
                module = below;
            } else if let Some(target) = self.imports.get(&(module.clone(), next.clone())) {
                let target = [target, after].concat();
                // If the import is of another crate, its item belongs to the module that imports
                // it.
                return Some(self.resolve(&module, &target, imports).unwrap_or(module));
            } else {
                break;
            }
            rest = after;
        }
        Some(module)
    }
}

fn child(module: &[String], name: &str) -> ModulePath {
    [module, &[name.to_owned()]].concat()
}

fn parent(module: &[String]) -> Option<ModulePath> {
    module.split_last().map(|(_, above)| above.to_vec())
}

/// Returns the module of a file; `None` if it is not a Rust file.
fn module_of(folder: &str, file: &Path) -> Option<ModulePath> {
    let inside = file.strip_prefix(folder).ok()?.with_extension("");
    let is_rust = file.extension().is_some_and(|extension| extension == "rs");
    let mut names: ModulePath =
        inside.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let is_root = names.len() == 1 && ["lib", "main"].contains(&names[0].as_str());
    if is_root || names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    is_rust.then_some(names)
}

/// Iterates over the names of test modules in separate files.
fn test_modules(lines: &[Line]) -> impl Iterator<Item = String> {
    lines.iter().filter(|line| line.in_test).filter_map(|line| {
        let (_, name) = line.code.split_once("mod ")?;
        Some(name.strip_suffix(';')?.trim().to_owned())
    })
}

/// Returns the path of an import, and its local name.
fn import(text: &str) -> (Vec<String>, Option<String>) {
    let (path, name) = match text.split_once(" as ") {
        Some((path, name)) => (path, Some(name.trim().to_owned())),
        None => (text, None),
    };
    let mut path: Vec<String> = path.split("::").map(|name| name.trim().to_owned()).collect();
    if path.len() > 1 && path.last().is_some_and(|last| last == "self" || last == "*") {
        path.pop();
    }
    let name = name.or_else(|| path.last().cloned());
    (path, name)
}

/// Returns the paths in a line of code that begin with `crate`, `self` or `super`.
fn mentioned(code: &str) -> Vec<Vec<String>> {
    let in_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = code.split(|c: char| !in_path(c));
    let path = |word: &str| word.split("::").map(str::to_owned).collect::<Vec<_>>();
    let paths = words.filter(|word| word.contains("::")).map(path);
    paths.filter(|path| ["crate", "self", "super"].contains(&path[0].as_str())).collect()
}
