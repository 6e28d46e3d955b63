//! Compiled modules, kept by the digests of their sources.

use std::sync::{Arc, PoisonError, RwLock};

use solera_language::compile;
use solera_language::diagnostic::Severity;
use solera_language::render::{render, short};
use solera_language::run::spell;
use solera_mixt::binding::{Module, Modules};
use solera_mixt::store::Database;
use solera_resp::Value;

use super::Answered;
use super::registry::{self, Entry, digest_of};
use crate::client::Client;

/// The modules that this process has compiled, by digest. Replaced whole, so that transactions keep what they have.
pub(super) struct Library {
    /// Where modules are used.
    databases: Vec<Arc<dyn Database>>,
    modules: RwLock<Arc<Modules>>,
}

/// What the compiler says of a source; nothing if it has nothing to say.
pub(super) fn check(name: &str, source: &str) -> String {
    render(&compile::compile(source).diagnostics, name, source, false)
}

/// Compiles a module.
///
/// # Errors
/// The text of the error reply: the first error.
pub(super) fn compile(name: &str, source: &str) -> Result<Module, String> {
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
    let module = Module::new(&digest_of(source), Arc::new(program));
    module.map_err(|error| format!("BADMODULE {error}"))
}

impl Library {
    /// One whose modules these databases learn.
    pub(super) fn new(databases: Vec<Arc<dyn Database>>) -> Library {
        Library { databases, modules: RwLock::default() }
    }

    /// What was compiled so far.
    pub(super) fn all(&self) -> Arc<Modules> {
        self.modules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A module by the digest of its source.
    pub(super) async fn get(&self, client: &mut Client, digest: &str) -> Result<Module, String> {
        if let Some(module) = self.all().get(digest) {
            return Ok(module.clone());
        }
        let source = registry::source(client, digest).await?;
        let module = compile("module", &source)?;
        self.databases.iter().for_each(|database| database.learn(digest, &source));
        let mut modules = self.modules.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut modules).insert(digest.into(), module.clone());
        Ok(module)
    }

    /// The answer to SOLERA.MODULE LIST.
    pub(super) async fn list(&self, client: &mut Client) -> Answered {
        let mut listed = Vec::new();
        for (name, entry) in registry::all(client).await? {
            // One that this version cannot compile is listed all the same.
            let module = self.get(client, &entry.digest).await.ok();
            listed.push(tell(&name, &entry, module.as_ref()));
        }
        Ok(Value::Array(listed))
    }
}

fn tell(name: &str, entry: &Entry, module: Option<&Module>) -> Value {
    let text = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    let program = module.map(Module::program);
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
        program.stores.iter().map(|store| {
            let bound = entry.binds.iter().find(|(bound, _)| **bound == *store.name);
            let space = bound.map_or(&*store.name, |(_, space)| space);
            (text(&store.name), text(space))
        })
    });
    Value::Map(vec![
        (text("name"), text(name)),
        (text("digest"), text(&entry.digest)),
        (text("stores"), Value::Map(stores.collect())),
        (text("transactions"), Value::Array(transactions.collect())),
    ])
}
