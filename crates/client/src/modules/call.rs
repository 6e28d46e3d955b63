//! Calls of transactions.

use solera_language::codec::Codec;
use solera_language::ir::{Program, Transaction};
use solera_language::run::spell;
use solera_language::types::StoreId;
use solera_language::value::Value;
use solera_mixt::binding::{Bindings, Module};
use solera_mixt::coordinator::{Coordinator, TransactionId};
use solera_mixt::drive;
use solera_mixt::outcome::Outcome;
use solera_mixt::record::Record;
use solera_mixt::store::StoreError;
use solera_node::Local;

use super::request::Binds;
use super::{
    Answered, Shared, Store, answer, connections, databases, registry, session, spaces, told,
};
use crate::client::Client;
use crate::mixed::{Spaces, System};

/// Binds a module's stores: those that are not named to the spaces of their own names. A space of another store is
/// named as `STORE/SPACE`.
pub(super) fn bind(
    module: &Module,
    binds: &Binds,
    spaces: &Spaces,
    stores: &[Store],
) -> Result<Bindings, String> {
    let program = module.program();
    let own = program.stores.iter().map(|store| &*store.name);
    let own = own.filter(|store| binds.iter().all(|(bound, _)| bound != store));
    let named = binds.iter().map(|(store, space)| (store.as_str(), space.as_str()));
    let all = named.chain(own.map(|store| (store, store))).map(|(store, space)| {
        let (index, space) = place(store, space, spaces, stores)?;
        Ok((store, index, space))
    });
    let all = all.collect::<Result<Vec<_>, String>>()?;
    Bindings::new(program, &databases(spaces.clone(), stores), &all).map_err(|error| {
        let mut names: Vec<_> = spaces.names().map(str::to_owned).collect();
        for store in stores {
            let name = store.database.describe().name;
            names.extend(store.spaces.iter().map(|space| format!("{name}/{space}")));
        }
        format!("BADBIND {error}; the spaces are {}", names.join(", "))
    })
}

/// Asks the databases whether the operations that a module's stores declare can be what their spaces have.
pub(super) async fn check_operations(
    module: &Module,
    bindings: &Bindings,
    spaces: &Spaces,
    stores: &[Store],
) -> Result<(), String> {
    let program = module.program();
    let databases = databases(spaces.clone(), stores);
    for (id, store) in (0..).map(StoreId).zip(&program.stores) {
        let place = &bindings.of(id).place;
        let database = databases.iter().find(|found| found.describe().name == place.database);
        let database = database.expect("it is bound to one of these");
        let checked = database.check_operations(program, id, &place.space).await;
        checked.map_err(|error| match error {
            StoreError::Refused(why) => {
                format!("BADBIND the store `{}` cannot be {place}: {why}", store.name)
            }
            other => format!(
                "UNAVAILABLE {place} cannot be asked whether it can be the store `{}`: {other}; \
                 nothing was loaded",
                store.name
            ),
        })?;
    }
    Ok(())
}

/// Which database a space is in, and what it is called there.
fn place<'a>(
    store: &str,
    space: &'a str,
    spaces: &Spaces,
    stores: &[Store],
) -> Result<(usize, &'a str), String> {
    let own = spaces.names().any(|name| name == space);
    let Some((database, foreign)) = space.split_once('/').filter(|_| !own) else {
        return Ok((0, space));
    };
    let names = || stores.iter().map(|store| store.database.describe().name);
    match names().position(|name| *name == *database) {
        Some(at) => Ok((at + 1, foreign)),
        None => {
            let names: Vec<_> = names().map(|name| name.to_string()).collect();
            let there = match names.as_slice() {
                [] => "there are none".to_owned(),
                names => format!("there are {}", names.join(", ")),
            };
            Err(format!(
                "BADBIND the store `{store}` is to be {space}, but solera.toml has no [[store]] \
                 '{}'; {there}",
                database.escape_debug()
            ))
        }
    }
}

/// Calls a transaction of a loaded module.
pub(super) async fn call(
    shared: &Shared,
    local: &Local,
    mut client: Client,
    (name, transaction): (&str, &str),
    args: &[Vec<u8>],
) -> Answered {
    let entry = registry::entry(&mut client, name).await?;
    let module = shared.library.get(&mut client, &entry.digest).await?;
    let program = module.program().clone();
    let Some(index) = module.transaction(transaction) else {
        let names = program.transactions.iter().map(|found| &*found.name);
        let names = names.collect::<Vec<_>>().join(", ");
        return Err(format!(
            "NOTRANSACTION module '{name}' has no transaction '{}'; it has {names}",
            transaction.escape_debug()
        ));
    };
    let args = arguments(&program, &program.transactions[index], args)?;
    let spaces = spaces(local, Some(client));
    let bindings = bind(&module, &entry.binds, &spaces, &shared.stores)?;
    let id = TransactionId::new(crate::random());
    let known = (shared.library.all(), shared.settings.limits);
    let coordinator = Coordinator::new((module, index), args, bindings, id, known, clock_ms());
    let coordinator = coordinator.map_err(|why| answer::failure(&why))?;
    run(shared, local, spaces, coordinator, (&program, index, false)).await
}

/// Goes on with a transaction that was left incomplete.
pub(super) async fn resume(
    shared: &Shared,
    local: &Local,
    mut client: Client,
    ticket: &str,
) -> Answered {
    let record = registry::ticket(&mut client, ticket).await?;
    let record = Record::decode(&record).map_err(|error| format!("ERR {error}"))?;
    let module = shared.library.get(&mut client, record.module()).await?;
    let program = module.program().clone();
    let index = module.transaction(record.transaction());
    let index = index.ok_or_else(|| "ERR the ticket's transaction is not known".to_owned())?;
    let limits = shared.settings.limits;
    let coordinator = Coordinator::resume(record, shared.library.all(), limits, clock_ms());
    let coordinator = coordinator.map_err(|error| format!("ERR {error}"))?;
    let spaces = spaces(local, Some(client));
    run(shared, local, spaces, coordinator, (&program, index, true)).await
}

fn clock_ms() -> u64 {
    drive::Clock::now_ms(&System)
}

/// The arguments, in the types of the parameters.
fn arguments(
    program: &Program,
    transaction: &Transaction,
    args: &[Vec<u8>],
) -> Result<Vec<Value>, String> {
    let params = &transaction.params;
    if args.len() != params.len() {
        let told = params.iter().map(|(name, ty)| format!("{name}: {}", spell(program, ty)));
        let told = told.collect::<Vec<_>>().join(", ");
        return Err(format!(
            "BADARG '{}' takes {} argument{} ({told}), not {}",
            transaction.name,
            params.len(),
            if params.len() == 1 { "" } else { "s" },
            args.len()
        ));
    }
    let codec = Codec::new(program);
    let read = params.iter().zip(args).map(|((name, ty), bytes)| {
        codec.argument(bytes, ty).map_err(|error| format!("BADARG `{name}`: {error}"))
    });
    read.collect()
}

/// Runs a transaction to its end.
async fn run(
    shared: &Shared,
    local: &Local,
    spaces: Spaces,
    mut coordinator: Coordinator,
    (program, index, resumed): (&Program, usize, bool),
) -> Answered {
    let mut connections = connections(spaces, &shared.stores);
    let outcome = drive::run(&mut coordinator, &mut connections, &System).await;
    let ticket = coordinator.id().to_string();
    let left = coordinator.leftovers();
    shared.upkeep.leave(left);
    match outcome {
        Outcome::Done { result, .. } => {
            if resumed {
                // It is of no use any more; if it stays, resuming it once more does nothing.
                let _ = forget(local, &ticket).await;
            }
            let transaction = &program.transactions[index];
            Ok(answer::reply(program, &result, &transaction.result))
        }
        Outcome::Failed(why) => Err(answer::failure(&why)),
        Outcome::Incomplete { ticket: Some(ref record), .. } => {
            let kept = keep(local, &ticket, record).await;
            let then = match kept {
                Ok(()) => format!("SOLERA.CALL RESUME {ticket} completes it, or Solera by itself"),
                // Its record is in the store, as far as anything of it is.
                Err(_) => "it is completed when its stores can be reached again".to_owned(),
            };
            Err(format!("INCOMPLETE {outcome}; {then}"))
        }
        Outcome::Incomplete { ticket: None, .. } => Err(format!("UNKNOWN {outcome}")),
    }
}

async fn keep(local: &Local, ticket: &str, record: &Record) -> Result<(), String> {
    let mut client = session(local).await.map_err(told)?;
    registry::keep_ticket(&mut client, ticket, &record.encode()).await
}

async fn forget(local: &Local, ticket: &str) -> Result<(), String> {
    let mut client = session(local).await.map_err(told)?;
    registry::forget_ticket(&mut client, ticket).await
}
