//! The levels that a module declares, in any order.

use solera_levels::{Label, MAX_LEVELS};

use super::{Declarations, Kind};
use crate::diagnostic::Diagnostic;
use crate::syntax::ast::{LevelDecl, Name};

impl Declarations {
    /// Adds each level after those that it refers to, whatever their order in the text. What is
    /// beyond the number of levels there may be is refused anyway, so that it is not worth looking
    /// for its place.
    pub(super) fn levels(&mut self, mut left: Vec<&LevelDecl>, diagnostics: &mut Vec<Diagnostic>) {
        let beyond = left.split_off(left.len().min(MAX_LEVELS));
        while !left.is_empty() {
            let ready = |level: &&LevelDecl| self.awaited(level, &left).is_none();
            let next = left.iter().position(ready).unwrap_or_else(|| {
                let circle = self.circle(&left);
                diagnostics.push(circle_of_levels(&circle));
                // It goes on without what is not there yet, so that the others find it.
                left.iter().position(|level| *level == circle[0].0).expect("it is one of them")
            });
            let level = left.remove(next);
            self.level(level, &left, diagnostics);
        }
        for level in beyond {
            self.level(level, &[], diagnostics);
        }
    }

    /// A name that a level refers to, and that is to be declared by one of the levels that are
    /// left.
    fn awaited<'a>(&self, level: &'a LevelDecl, left: &[&'a LevelDecl]) -> Option<&'a Name> {
        level.below.iter().chain(&level.above).find(|name| {
            self.lattice.lookup(&name.text).is_none()
                && left.iter().any(|other| other.name.text == name.text)
        })
    }

    /// Levels of which each refers to the next, and the last to the first, by these names. All that
    /// are left wait for one of them.
    fn circle<'a>(&self, left: &[&'a LevelDecl]) -> Vec<(&'a LevelDecl, &'a Name)> {
        let mut way: Vec<(&LevelDecl, &Name)> = Vec::new();
        let mut level = left[0];
        loop {
            if let Some(start) = way.iter().position(|(passed, _)| *passed == level) {
                return way.split_off(start);
            }
            let name = self.awaited(level, left).expect("no level that is left is ready");
            way.push((level, name));
            let declares = |other: &&&LevelDecl| other.name.text == name.text;
            level = left.iter().find(declares).expect("what is awaited is left");
        }
    }

    fn level(
        &mut self,
        declared: &LevelDecl,
        left: &[&LevelDecl],
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        // Where it stands to a level that is not known is left open: it would only repeat that
        // error. So would one that is not there yet, or itself: that is reported as a circle.
        let of_circle = |name: &&Name| {
            name.text == declared.name.text || left.iter().any(|one| one.name.text == name.text)
        };
        let mut known = |names: &[Name]| -> Vec<Label> {
            let names = names
                .iter()
                .filter(|name| self.lattice.lookup(&name.text).is_some() || !of_circle(name));
            names.filter_map(|name| self.known_level(name, diagnostics)).collect()
        };
        let (below, above) = (known(&declared.below), known(&declared.above));
        match self.lattice.add(&declared.name.text, &below, &above) {
            Ok(_) => {
                self.claim(&declared.name, Kind::Level, diagnostics);
            }
            Err(error) => {
                self.refused.insert(declared.name.text.clone());
                diagnostics.push(
                    Diagnostic::error("E0403", declared.name.span, error.to_string())
                        .here("cannot be added"),
                );
            }
        }
    }
}

/// Refuses levels that are declared by one another.
fn circle_of_levels(circle: &[(&LevelDecl, &Name)]) -> Diagnostic {
    let (first, name) = circle[0];
    let message = match circle.len() {
        1 => format!("the level '{}' is declared by itself", first.name.text),
        _ => {
            let names: Vec<_> =
                circle.iter().map(|(level, _)| format!("'{}'", level.name.text)).collect();
            format!("the levels {} are declared by one another", names.join(" and "))
        }
    };
    let says = |level: &LevelDecl, name: &Name| {
        format!("where '{}' lies depends on '{}'", level.name.text, name.text)
    };
    let mut error = Diagnostic::error("E0403", name.span, message).here(says(first, name));
    for (level, name) in &circle[1..] {
        error = error.mark(name.span, says(level, name));
    }
    error.help("say of one of them where it lies among levels outside of the circle")
}
