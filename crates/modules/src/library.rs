//! Cache of compiled modules, by the digests of their sources.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use solera_language::compile;
use solera_language::diagnostic::{Diagnostic, Severity};
use solera_language::render::{render, short};
use solera_mixt::binding::{Module, Modules};
use solera_mixt::store::Database;
use solera_node::Caller;
use solera_program::ir::Program;
use solera_program::run::spell;
use solera_resp::Value;
use solera_spaces::digest;

use crate::Answered;
use crate::registry::{self, Entry};

/// Modules that this process has compiled, by digest.
pub(crate) struct Library {
    /// Databases that receive the sources of modules.
    databases: Vec<Arc<dyn Database>>,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    /// Replaced as a whole, so that running transactions keep their version.
    modules: Arc<Modules>,
    compiled: BTreeMap<String, Compiled>,
}

/// A module with its source.
#[derive(Clone)]
pub(crate) struct Compiled {
    pub(crate) module: Module,
    pub(crate) source: Arc<str>,
    warnings: Arc<[Diagnostic]>,
}

/// Returns the compiler's diagnostics for a source; empty if there are none.
pub(crate) fn check(name: &str, source: &str) -> String {
    render(&compile::compile(source).diagnostics, name, source, false)
}

/// Compiles a module.
///
/// # Errors
/// The error reply, with the first error.
pub(crate) fn compile(name: &str, source: &str) -> Result<Compiled, String> {
    let compiled = compile::compile(source);
    let Some(program) = compiled.program else {
        let errors = compiled.diagnostics.iter().filter(|one| one.severity == Severity::Error);
        let count = errors.clone().count();
        let first = errors.map(|one| short(one, name, source)).next().unwrap_or_default();
        let more = match count {
            0 | 1 => String::new(),
            more => format!(" and {} more", more - 1),
        };
        return Err(format!("BADMODULE {first}{more}; SOLERA.MODULE CHECK shows all of it"));
    };
    let module = Module::new(&digest(source), Arc::new(program));
    let module = module.map_err(|error| format!("BADMODULE {error}"))?;
    Ok(Compiled { module, source: source.into(), warnings: compiled.diagnostics.into() })
}

impl Library {
    /// Creates a library that passes the sources of its modules to these databases
    /// ([`Database::learn`]).
    pub(crate) fn new(databases: Vec<Arc<dyn Database>>) -> Library {
        Library { databases, known: RwLock::default() }
    }

    /// Returns the modules that were compiled so far.
    pub(crate) fn all(&self) -> Arc<Modules> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).modules.clone()
    }

    /// Returns a module by the digest of its source, and compiles it if necessary.
    pub(crate) async fn get(&self, caller: &Caller, digest: &str) -> Result<Compiled, String> {
        let known = |known: &Known| known.compiled.get(digest).cloned();
        if let Some(compiled) = known(&self.known.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(compiled);
        }
        let source = registry::source(caller, digest).await?;
        let compiled = compile("module", &source)?;
        self.databases.iter().for_each(|database| database.learn(digest, &source));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut known.modules).insert(digest.into(), compiled.module.clone());
        known.compiled.insert(digest.to_owned(), compiled.clone());
        Ok(compiled)
    }

    /// Returns the answer to SOLERA.MODULE LIST.
    pub(crate) async fn list(&self, caller: &Caller) -> Answered {
        let mut listed = Vec::new();
        for (name, entry) in registry::all(caller).await? {
            // A module that this version cannot compile is listed too.
            let compiled = self.get(caller, &entry.digest).await.ok();
            listed.push(describe(&name, &entry, compiled.as_ref()));
        }
        Ok(Value::Array(listed))
    }
}

fn describe(name: &str, entry: &Entry, compiled: Option<&Compiled>) -> Value {
    let text = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    let program = compiled.map(|compiled| compiled.module.program());
    let transactions = program.into_iter().flat_map(|program| {
        program.transactions.iter().map(|transaction| {
            let params = transaction.params.iter();
            let params = params.map(|(name, ty)| format!("{name}: {}", spell(program, ty)));
            let params = params.collect::<Vec<_>>().join(", ");
            let result = spell(program, &transaction.result);
            text(&format!("{}({params}) -> {result}", transaction.name))
        })
    });
    let stores = program.into_iter().flat_map(|program| {
        program.stores.iter().map(|store| (text(&store.name), text(bound(&store.name, entry))))
    });
    let warnings = compiled.into_iter().flat_map(|Compiled { source, warnings, .. }| {
        warnings.iter().map(|warning| text(&short(warning, name, source)))
    });
    let warnings = warnings.chain(shared(program, entry).into_iter().map(|warning| text(&warning)));
    Value::Map(vec![
        (text("name"), text(name)),
        (text("digest"), text(&entry.digest)),
        (text("stores"), Value::Map(stores.collect())),
        (text("transactions"), Value::Array(transactions.collect())),
        (text("warnings"), Value::Array(warnings.collect())),
    ])
}

/// Returns the space that a store is bound to.
fn bound<'n>(store: &'n str, entry: &'n Entry) -> &'n str {
    let bound = entry.binds.iter().find(|(bound, _)| *bound == store);
    bound.map_or(store, |(_, space)| space)
}

/// Returns warnings about stores that are bound to the same space.
fn shared(program: Option<&Arc<Program>>, entry: &Entry) -> Vec<String> {
    let mut spaces = BTreeMap::<&str, Vec<&str>>::new();
    for store in program.into_iter().flat_map(|program| &program.stores) {
        spaces.entry(bound(&store.name, entry)).or_default().push(&store.name);
    }
    let shared = spaces.into_iter().filter(|(_, stores)| stores.len() > 1);
    let warnings = shared.map(|(space, stores)| {
        let stores: Vec<_> = stores.iter().map(|store| format!("`{store}`")).collect();
        format!(
            "the stores {} are all bound to the space {space}: a transaction that uses one key \
             through several of them may not see its own writes",
            stores.join(", ")
        )
    });
    warnings.collect()
}
