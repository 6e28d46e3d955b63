//! Binds the stores of a module to spaces of databases.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use solera_levels::Level;
use solera_program::ir::Program;
use solera_program::verify::{Malformed, verify};

pub use crate::bound::{Bindings, Bound};
use crate::location::Location;
use crate::store::Database;

/// A compiled module. Its name is the same on all hosts that may complete its transactions, and a
/// changed module has another name. A digest of the source is such a name.
#[derive(Clone, Debug)]
pub struct Module {
    name: Arc<str>,
    program: Arc<Program>,
}

impl Module {
    /// Creates a module that the interpreter may run.
    ///
    /// # Errors
    /// If the program is malformed.
    pub fn new(name: &str, program: Arc<Program>) -> Result<Module, Malformed> {
        verify(&program)?;
        Ok(Module { name: name.into(), program })
    }

    /// Returns its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the compiled program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Returns the number of a transaction.
    pub fn transaction(&self, name: &str) -> Option<usize> {
        self.program.transactions.iter().position(|found| *found.name == *name)
    }
}

/// Modules that a host can run, and whose transactions it can complete.
pub type Modules = BTreeMap<Arc<str>, Module>;

impl Bindings {
    /// Binds each store of a program, by its name, to a space of a database, by its index.
    ///
    /// # Errors
    /// If a store is not bound, or is bound to a space that is missing or weaker than the program
    /// needs.
    pub fn new(
        program: &Program,
        databases: &[Arc<dyn Database>],
        bind: &[(&str, usize, &str)],
    ) -> Result<Bindings, BindError> {
        for (name, ..) in bind {
            if !program.stores.iter().any(|store| *store.name == **name) {
                return Err(BindError::NoSuchStore((*name).to_owned()));
            }
        }
        let one = |store: &solera_program::ir::Store| {
            let found = bind.iter().find(|(name, ..)| **name == *store.name);
            let (_, index, space) =
                found.ok_or_else(|| BindError::NotBound(store.name.to_string()))?;
            let missing = || BindError::NoDatabase { store: store.name.to_string(), index: *index };
            let database = databases.get(*index).ok_or_else(missing)?;
            let place = Location { database: database.name(), space: (*space).into() };
            let level = database.level(space).ok_or_else(|| BindError::NoSpace {
                store: store.name.to_string(),
                place: place.clone(),
                accepts: store.accepts.clone(),
            })?;
            if !store.accepts.contains(&level) {
                return Err(BindError::TooWeak {
                    store: store.name.to_string(),
                    declared: store.level.to_string(),
                    place,
                    level,
                    accepts: store.accepts.clone(),
                });
            }
            Ok((database, Bound { place, level, set: 0 }))
        };
        let mut bounds: Vec<Bound> = Vec::with_capacity(program.stores.len());
        for store in &program.stores {
            let (database, mut bound) = one(store)?;
            bound.set = set_of(&**database, &bound.place, &bounds);
            bounds.push(bound);
        }
        Ok(Bindings(bounds))
    }
}

/// Returns the number of the set to which a space of a database belongs: the first one all of whose
/// spaces one transaction can span together with this space.
fn set_of(database: &dyn Database, place: &Location, bounds: &[Bound]) -> u8 {
    let beside = || bounds.iter().filter(|bound| bound.place.database == place.database);
    let last = beside().map(|bound| bound.set).max().unwrap_or_default();
    let fits = |set: &u8| {
        let mut members = beside().filter(|bound| bound.set == *set);
        members.all(|member| {
            let space = &member.place.space;
            *space == place.space || database.spans(space, &place.space)
        })
    };
    // More sets than a number can count are not joined.
    (1..=last).find(fits).or(last.checked_add(1)).unwrap_or_default()
}

/// Reason why a module's stores cannot be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindError {
    /// The module declares no such store.
    NoSuchStore(String),
    /// A store is not bound.
    NotBound(String),
    /// There is no database with that index.
    NoDatabase {
        /// The store.
        store: String,
        /// The index.
        index: usize,
    },
    /// The database has no such space.
    NoSpace {
        /// The store.
        store: String,
        /// The place to which it was bound.
        place: Location,
        /// Levels that the store accepts.
        accepts: Vec<Level>,
    },
    /// The level of the space is weaker than the program needs.
    TooWeak {
        /// The store.
        store: String,
        /// Its declared level.
        declared: String,
        /// The place to which it was bound.
        place: Location,
        /// Level of the space.
        level: Level,
        /// Levels that the store accepts.
        accepts: Vec<Level>,
    },
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::NoSuchStore(name) => write!(f, "the module declares no store `{name}`"),
            BindError::NotBound(name) => {
                write!(f, "the store `{name}` is not bound to a space")
            }
            BindError::NoDatabase { store, index } => {
                write!(f, "the store `{store}` is bound to database {index}, which does not exist")
            }
            BindError::NoSpace { store, place, accepts } => {
                write!(
                    f,
                    "the store `{store}` cannot be bound to {place}: there is no such space"
                )?;
                write_future_store(f, accepts)
            }
            BindError::TooWeak { store, declared, place, level, accepts } => {
                let names: Vec<_> = accepts.iter().map(|level| level.name()).collect();
                write!(
                    f,
                    "the store `{store}` is declared {declared}, but {place} is {level}: it must be {}",
                    names.join(" or ")
                )?;
                write_future_store(f, accepts)
            }
        }
    }
}

/// Writes which kind of store will offer the weakest of the accepted levels that none offers yet,
/// unless an offered level is weaker.
fn write_future_store(f: &mut fmt::Formatter<'_>, accepts: &[Level]) -> fmt::Result {
    match accepts.last().and_then(|level| level.why_not_offered()) {
        Some(why) => write!(f, "; {why}"),
        None => Ok(()),
    }
}

impl std::error::Error for BindError {}
