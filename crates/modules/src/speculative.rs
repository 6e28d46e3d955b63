//! Transactions of modules whose stores are the speculative space.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use solera_levels::Level as SpaceLevel;
use solera_mixt::binding::Module;
use solera_mixt::coordinator::TransactionId;
use solera_mixt::typed::Host as _;
use solera_node::{Caller, Local};
use solera_procedures::{Call, Procedure, Returned};
use solera_resp::Value;
use solera_session::{CallLevel, Speculate};
use solera_spaces::System;

use crate::library::Compiled;
use crate::request::Binds;
use crate::{Answered, Shared};

/// Returns whether all stores of a module are bound to the speculative space.
///
/// # Errors
/// The error reply, if only some of them are, or the space is weaker than a store declares.
pub(crate) fn is_bound(module: &Module, binds: &Binds, local: &Local) -> Result<bool, String> {
    let Some(space) = local.spec().spaces.speculative() else { return Ok(false) };
    let stores = &module.program().stores;
    let is_there = |store: &str| {
        let bound = binds.iter().find(|(bound, _)| bound == store);
        bound.map_or(store, |(_, space)| space) == space.name
    };
    let (there, others): (Vec<_>, Vec<_>) = stores.iter().partition(|store| is_there(&store.name));
    let (Some(first), name) = (there.first(), &space.name) else { return Ok(false) };
    if let Some(other) = others.first() {
        return Err(format!(
            "BADBIND the store `{}` is bound to the space '{name}' of level speculative, and `{}` is not: a \
             transaction on such a space uses no other",
            first.name, other.name
        ));
    }
    match there.iter().find(|store| !store.accepts.contains(&SpaceLevel::Speculative)) {
        Some(store) => Err(format!(
            "BADBIND the store `{}` needs a stronger level than that of the space '{name}', which is speculative; \
             declare it as `store {} : speculative`",
            store.name, store.name
        )),
        None => Ok(true),
    }
}

/// Calls a transaction as one operation of the speculative space. The session that sent the call
/// gets the answer by its delegation.
pub(crate) async fn call(
    shared: &Shared,
    local: &Local,
    caller: &Caller,
    (compiled, digest): (&Compiled, &str),
    (module, index): (&str, usize),
    (args, level): (&[Vec<u8>], Option<CallLevel>),
) -> Answered {
    let Some(scope) = local.speculative_scope()? else {
        return Err("ERR there is no space of level speculative".to_owned());
    };
    let program = compiled.module.program();
    let transaction = &program.transactions[index];
    let digest: Arc<str> = digest.into();
    let call = Call {
        module: module.into(),
        digest: Arc::clone(&digest),
        transaction: Arc::clone(&transaction.name),
        arguments: args.iter().map(|bytes| bytes.as_slice().into()).collect(),
        read_only: transaction.phases.iter().all(|phase| !phase.mutates),
        names: TransactionId::new(System.random()).to_string().into(),
        limits: shared.settings.limits.phase,
        scope,
    };
    let operation = Procedure::Call(Box::new(call));
    let speculate = Speculate { operation, level, reports: true };
    // Before its first call by this process. To install it after a call that lacks it, and to call
    // it again, could execute the call twice: the installation of another site may get a place
    // before the first call.
    if !shared.installed.contains(&digest) {
        install(&local.call_as_server(), compiled, &digest).await?;
        shared.installed.insert(&digest);
    }
    caller.execute(speculate).await?;
    Ok(Value::Null)
}

/// Modules that this process has installed in the speculative space, by digest.
#[derive(Default)]
pub(crate) struct Installed(Mutex<BTreeSet<Arc<str>>>);

impl Installed {
    fn contains(&self, digest: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(digest)
    }

    fn insert(&self, digest: &Arc<str>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(digest));
    }
}

/// Installs a module in the speculative space. It precedes all later calls of the session.
///
/// # Errors
/// The error reply.
pub(crate) async fn install(
    caller: &Caller,
    compiled: &Compiled,
    digest: &str,
) -> Result<(), String> {
    let program = compiled.module.program().clone();
    let module = solera_procedures::Module::new(&compiled.source, program);
    let module = module.map_err(|error| format!("BADMODULE {error}"))?.encode();
    let operation = Procedure::Install { digest: digest.into(), module: module.into() };
    let install = Speculate { operation, level: Some(CallLevel::Weak), reports: false };
    match caller.execute(install).await? {
        Returned::Installed => Ok(()),
        Returned::Failed(error) => Err(format!("{} {error}", error.code())),
        other => Err(format!("ERR the installation of the module returned {other:?}")),
    }
}
