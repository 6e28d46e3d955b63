//! Collects the levels that a module declares, in any order.

use solera_levels::{Label, MAX_LEVELS};

use super::{Declarations, Kind};
use crate::diagnostic::Diagnostic;
use crate::syntax::ast::{LevelDecl, Name};

impl Declarations {
    /// Adds each level after the levels to which it refers. Their order in the text does not
    /// matter. Levels beyond the maximum number are rejected in any case, so they are not sorted.
    pub(super) fn levels(&mut self, mut left: Vec<&LevelDecl>, diagnostics: &mut Vec<Diagnostic>) {
        let beyond = left.split_off(left.len().min(MAX_LEVELS));
        while !left.is_empty() {
            let ready = |level: &&LevelDecl| self.missing(level, &left).is_none();
            let next = left.iter().position(ready).unwrap_or_else(|| {
                let cycle = self.cycle(&left);
                diagnostics.push(cycle_of_levels(&cycle));
                // The level is added without the missing relation, so that other levels can refer
                // to it.
                left.iter().position(|level| *level == cycle[0].0).expect("it is a remaining level")
            });
            let level = left.remove(next);
            self.level(level, &left, diagnostics);
        }
        for level in beyond {
            self.level(level, &[], diagnostics);
        }
    }

    /// Returns a name that the level refers to and that one of the remaining levels declares.
    fn missing<'a>(&self, level: &'a LevelDecl, left: &[&'a LevelDecl]) -> Option<&'a Name> {
        level.below.iter().chain(&level.above).find(|name| {
            self.lattice.lookup(&name.text).is_none()
                && left.iter().any(|other| other.name.text == name.text)
        })
    }

    /// Finds a cycle of levels on which all remaining levels depend. Each level of the cycle refers
    /// to the next by the name beside it, and the last level to the first.
    fn cycle<'a>(&self, left: &[&'a LevelDecl]) -> Vec<(&'a LevelDecl, &'a Name)> {
        let mut way: Vec<(&LevelDecl, &Name)> = Vec::new();
        let mut level = left[0];
        loop {
            if let Some(start) = way.iter().position(|(passed, _)| *passed == level) {
                return way.split_off(start);
            }
            let name = self.missing(level, left).expect("no remaining level is ready");
            way.push((level, name));
            let declares = |other: &&&LevelDecl| other.name.text == name.text;
            level = left.iter().find(declares).expect("a remaining level declares it");
        }
    }

    fn level(
        &mut self,
        declared: &LevelDecl,
        left: &[&LevelDecl],
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        // Ignores relations to unknown levels, which were reported already, and to levels of the
        // cycle, which is reported as a whole.
        let of_cycle = |name: &&Name| {
            name.text == declared.name.text || left.iter().any(|one| one.name.text == name.text)
        };
        let mut known = |names: &[Name]| -> Vec<Label> {
            let names = names
                .iter()
                .filter(|name| self.lattice.lookup(&name.text).is_some() || !of_cycle(name));
            names.filter_map(|name| self.known_level(name, diagnostics)).collect()
        };
        let (below, above) = (known(&declared.below), known(&declared.above));
        match self.lattice.add(&declared.name.text, &below, &above) {
            Ok(_) => {
                self.claim(&declared.name, Kind::Level, diagnostics);
            }
            Err(error) => {
                self.rejected.insert(declared.name.text.clone());
                diagnostics.push(
                    Diagnostic::error("E0403", declared.name.span, error.to_string())
                        .here("cannot be added"),
                );
            }
        }
    }
}

/// Returns the error for levels that refer to one another in a cycle.
fn cycle_of_levels(cycle: &[(&LevelDecl, &Name)]) -> Diagnostic {
    let (first, name) = cycle[0];
    let message = match cycle.len() {
        1 => format!("the level '{}' is declared relative to itself", first.name.text),
        _ => {
            let names: Vec<_> =
                cycle.iter().map(|(level, _)| format!("'{}'", level.name.text)).collect();
            format!("the levels {} are declared relative to one another", names.join(" and "))
        }
    };
    let says = |level: &LevelDecl, name: &Name| {
        format!("the position of '{}' depends on '{}'", level.name.text, name.text)
    };
    let mut error = Diagnostic::error("E0403", name.span, message).here(says(first, name));
    for (level, name) in &cycle[1..] {
        error = error.mark(name.span, says(level, name));
    }
    error.help("state the position of one of them relative to levels outside of the cycle")
}
