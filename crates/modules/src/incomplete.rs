//! Listing, completing and forgetting incomplete transactions.

use solera_config::areas::MODULES;
use solera_mixt::binding::Bindings;
use solera_mixt::collect::{self, Collector};
use solera_mixt::coordinator::Coordinator;
use solera_mixt::executor::{self, Clock, Connections};
use solera_mixt::outcome::Outcome;
use solera_mixt::record::Record;
use solera_mixt::recovery::{self, Found};
use solera_mixt::rights::Users;
use solera_mixt::store::{Location, StoreError};
use solera_node::{Caller, Local};
use solera_program::types::StoreId;
use solera_resp::Value;
use solera_spaces::System;
use tracing::info;

use crate::call::place;
use crate::own::Own;
use crate::{Answered, Shared, binding, connections, databases, places, registry};

/// Result of a search for incomplete transactions.
struct Search {
    /// The records that were found, by place and transaction id.
    found: Vec<(Location, String, Found)>,
    /// Places that cannot be searched, and the reason.
    away: Vec<(Location, StoreError)>,
    connections: Connections,
}

async fn search(shared: &Shared, local: &Local, caller: Caller) -> Search {
    let own = Own::of_caller(local, Some(caller));
    let places = places(&own, &shared.stores);
    let mut connections = connections(own, &shared.stores);
    let none = Collector::new(shared.settings.limits);
    let (mut all, mut away) = (Vec::new(), Vec::<(Location, StoreError)>::new());
    for place in places {
        let same = |(other, error): &&(Location, StoreError)| {
            other.database == place.database && matches!(error, StoreError::Unavailable(_))
        };
        // Does not wait again for a database that did not answer.
        if let Some((_, error)) = away.iter().find(same) {
            let error = error.clone();
            away.push((place, error));
            continue;
        }
        match recovery::records(&place, &mut connections, &none).await {
            Ok(found) => {
                all.extend(found.into_iter().map(|(id, found)| (place.clone(), id, found)))
            }
            Err(error) => away.push((place, error)),
        }
    }
    // The records of transactions that this process has just completed may not show that yet.
    all.retain(|(_, _, found)| match found {
        Found::Record(record) => !shared.upkeep.has_completed(record.id()),
        _ => true,
    });
    Search { found: all, away, connections }
}

/// A loaded module.
struct Named {
    name: String,
    /// Digest of its source.
    digest: String,
    /// Bindings of its stores; `None` if the module cannot be used now.
    bound: Option<Bindings>,
}

/// Returns the name of the called transaction. If several modules have the same source, returns the
/// names of those whose stores are bound as in the record.
fn call(modules: &[Named], record: &Record) -> String {
    let same: Vec<_> = modules.iter().filter(|one| one.digest == record.module()).collect();
    let is_bound_alike = |one: &&&Named| one.bound.as_ref() == Some(record.bindings());
    let fitting: Vec<_> = same.iter().filter(is_bound_alike).copied().collect();
    let named = if fitting.is_empty() { same } else { fitting };
    let transaction = record.transaction();
    if named.is_empty() {
        // A module that was replaced has no name any more, so its digest identifies it.
        return format!("{}.{transaction}", record.module());
    }
    let named: Vec<_> = named.iter().map(|one| format!("{}.{transaction}", one.name)).collect();
    named.join(", ")
}

/// SOLERA.CALL INCOMPLETE: lists each transaction that has taken effect only in part, and, without
/// a transaction, each space of a store that cannot be reached.
pub(crate) async fn list(shared: &Shared, local: &Local, caller: Caller) -> Answered {
    let loaded = registry::all(&caller).await?;
    let own = Own::of_caller(local, None);
    let mut modules = Vec::new();
    for (name, entry) in loaded {
        // The name of a module that cannot be used now is returned only if no other module has its
        // source.
        let bound = match shared.library.get(&caller, &entry.digest).await {
            Ok(compiled) => {
                binding::bind(&compiled.module, &entry.binds, &own, &shared.stores).ok()
            }
            Err(_) => None,
        };
        modules.push(Named { name, digest: entry.digest, bound });
    }
    let now_ms = System.now_ms();
    let text = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    let mut listed = Vec::new();
    let Search { found, away, mut connections } = search(shared, local, caller).await;
    for (place, id, found) in found {
        let (mut called, mut user, mut age_ms) = (None, None, None);
        let mut progress = Progress::default();
        let state = match found {
            Found::Record(record) if record.is_complete() => continue,
            Found::Record(record) => {
                called = Some(call(&modules, &record));
                user = record.user(local.cluster()).cloned();
                age_ms = Some(now_ms.saturating_sub(record.began_ms()));
                progress = progress_of(shared, local, &record, &mut connections).await;
                match record.failed() {
                    Some(why) => format!("failed: {why}"),
                    None => match denied(shared, *record, &mut connections).await {
                        Some(why) => format!("denied: {why}"),
                        None => "open".to_owned(),
                    },
                }
            }
            Found::Unreadable(error) => format!("unreadable: {error}"),
            Found::Unread(error) => format!("unreadable: {error}"),
        };
        let [done, left] = [progress.done, progress.left]
            .map(|places| Value::Array(places.iter().map(|place| text(place)).collect()));
        let age =
            age_ms.map_or(Value::Null, |ms| Value::Integer(ms.try_into().unwrap_or(i64::MAX)));
        listed.push(Value::Map(vec![
            (text("transaction"), text(&id)),
            (text("call"), called.map_or(Value::Null, |called| text(&called))),
            (text("user"), user.map_or(Value::Null, |user| text(&user))),
            (text("age_ms"), age),
            (text("record"), text(&place.to_string())),
            (text("state"), text(&state)),
            (text("done"), done),
            (text("left"), left),
        ]));
    }
    for (place, why) in away {
        listed.push(Value::Map(vec![
            (text("transaction"), text("")),
            (text("call"), Value::Null),
            (text("user"), Value::Null),
            (text("age_ms"), Value::Null),
            (text("record"), text(&place.to_string())),
            (text("state"), text(&format!("away: {why}"))),
            (text("done"), Value::Array(Vec::new())),
            (text("left"), Value::Array(Vec::new())),
        ]));
    }
    Ok(Value::Array(listed))
}

/// Places where a transaction has taken effect, and places where it has not yet: its stores and the
/// lines of its source.
#[derive(Default)]
struct Progress {
    done: Vec<String>,
    left: Vec<String>,
}

async fn progress_of(
    shared: &Shared,
    local: &Local,
    record: &Record,
    connections: &mut Connections,
) -> Progress {
    let Ok(caller) = local.call() else { return Progress::default() };
    let Ok(compiled) = shared.library.get(&caller, record.module()).await else {
        return Progress::default();
    };
    let known = (&*shared.library.all(), shared.settings.limits);
    let Ok(found) = recovery::progress(record, known, connections).await else {
        return Progress::default();
    };
    let Some(index) = compiled.module.transaction(record.transaction()) else {
        return Progress::default();
    };
    let program = compiled.module.program();
    let places_of = |phases: Vec<usize>| {
        let stores = phases.into_iter().filter_map(|phase| {
            let store = program.transactions[index].phases[phase].store?;
            let name = &program.stores[usize::from(store.0)].name;
            Some(format!("{name}{}", place(&compiled, index, phase)))
        });
        stores.collect()
    };
    Progress { done: places_of(found.done), left: places_of(found.left) }
}

/// Returns why a transaction is not completed in the name of its user, according to the current
/// rights or to the last attempt here.
async fn denied(shared: &Shared, record: Record, connections: &mut Connections) -> Option<String> {
    let (id, known) = (record.id(), (&shared.library.all(), shared.settings.limits));
    match recovery::denied(record, known, connections, System.now_ms()).await {
        Ok(Some(why)) => Some(why.to_string()),
        _ => shared.upkeep.why_denied(id),
    }
}

/// Checks that a transaction can be completed here, as far as that is known without trying.
///
/// # Errors
/// An error text with the caller's alternatives. A transaction that another cluster completes must
/// not be given up here.
async fn check_known_here(
    shared: &Shared,
    local: &Local,
    transaction: &str,
    (module, bindings): (&str, &Bindings),
) -> Result<(), String> {
    let error_reply = |what: &str| {
        format!(
            "ERR transaction {transaction} {what}; where it was begun, Solera completes it, or FORGET gives \
             it up if it fails. If that is another cluster, give each a schema of its own in the database"
        )
    };
    let caller = local.call()?;
    let Ok(compiled) = shared.library.get(&caller, module).await else {
        return Err(error_reply(&format!(
            "is of a module that was never loaded here (its source is {module})"
        )));
    };
    let there = databases(Own::of_caller(local, None), &shared.stores);
    for (id, store) in (0..).map(StoreId).zip(&compiled.module.program().stores) {
        let place = &bindings.of(id).place;
        if there.iter().all(|found| found.name() != place.database) {
            let store = &store.name;
            return Err(error_reply(&format!(
                "has its store `{store}` in {place}, and that is not known here"
            )));
        }
    }
    Ok(())
}

/// Returns the record of an incomplete transaction.
async fn find(
    shared: &Shared,
    local: &Local,
    caller: Caller,
    transaction: &str,
) -> Result<(Record, Connections), String> {
    let Search { found, away, connections } = search(shared, local, caller).await;
    let mut found = found.into_iter().filter(|(_, id, _)| id == transaction);
    match found.next() {
        Some((_, _, Found::Record(record))) if record.is_complete() => {
            Err(format!("ERR transaction {transaction} is complete, and will be forgotten"))
        }
        Some((_, _, Found::Record(record))) => Ok((*record, connections)),
        Some((place, _, Found::Unreadable(error))) => {
            Err(format!("ERR the record of {transaction} in {place}: {error}"))
        }
        Some((place, _, Found::Unread(error))) => {
            Err(format!("UNAVAILABLE the record of {transaction} in {place}: {error}"))
        }
        None => {
            let name = transaction.escape_debug();
            Err(match away.first() {
                Some((place, why)) => format!(
                    "UNAVAILABLE no incomplete transaction '{name}' was found, but not all places can be searched; \
                     {place}: {why}"
                ),
                None => format!(
                    "ERR there is no transaction '{name}' that is incomplete; SOLERA.CALL INCOMPLETE \
                     lists them"
                ),
            })
        }
    }
}

/// Returns the record of a transaction in the name of the administrator who takes it over, and its
/// original users.
async fn taken_over(
    local: &Local,
    caller: &Caller,
    transaction: &str,
    record: Record,
) -> (Record, Users) {
    // The ticket may show that the last holder of the lease has stopped, so that no waiting is
    // necessary.
    let ticket = registry::ticket(caller, transaction).await.ok();
    let ticket = ticket.and_then(|ticket| Record::decode(&ticket).ok());
    let record = match ticket {
        Some(ticket) => record.or_ticket(ticket),
        None => record,
    };
    let users = record.users().clone();
    (record.in_name_of(local.cluster(), local.user().unwrap_or_default()), users)
}

/// SOLERA.CALL COMPLETE transaction: completes a transaction with the caller's rights.
pub(crate) async fn complete(
    shared: &Shared,
    local: &Local,
    caller: Caller,
    transaction: &str,
) -> Answered {
    let (record, _) = find(shared, local, caller, transaction).await?;
    if let Some(why) = record.failed() {
        return Err(format!(
            "ERR transaction {transaction} can never be completed: {why}; SOLERA.CALL FORGET gives it up"
        ));
    }
    check_known_here(shared, local, transaction, (record.module(), record.bindings())).await?;
    let caller = local.call()?;
    let (record, users) = taken_over(local, &caller, transaction, record).await;
    let answer = crate::call::go_on(shared, local, caller, record, Some(users)).await;
    if answer.is_ok() {
        report(local, transaction, "completed");
    }
    answer
}

/// Logs what an administrator did with a transaction of other users.
fn report(local: &Local, transaction: &str, what: &str) {
    let user = local.user().unwrap_or_default();
    info!(target: MODULES, "user '{user}' has {what} transaction {transaction}");
}

/// SOLERA.CALL FORGET transaction: gives up a transaction that can never be completed, or that its
/// user has no right to complete.
pub(crate) async fn forget(
    shared: &Shared,
    local: &Local,
    caller: Caller,
    transaction: &str,
) -> Answered {
    let (record, mut connections) = find(shared, local, caller, transaction).await?;
    let given_up = match recovery::forget(record.clone()) {
        Some(given_up) => given_up,
        None => {
            check_known_here(shared, local, transaction, (record.module(), record.bindings()))
                .await?;
            let Some(why) = denied(shared, record.clone(), &mut connections).await else {
                return Err(format!(
                    "ERR transaction {transaction} can be completed: SOLERA.CALL RESUME does it, or \
                     Solera by itself"
                ));
            };
            give_up(shared, local, &mut connections, (transaction, record, &why)).await?
        }
    };
    // After this write, no site lists the transaction.
    let noted = collect::complete(&given_up, &mut connections).await;
    noted.map_err(|error| format!("UNAVAILABLE {transaction} cannot be given up now: {error}"))?;
    shared.upkeep.add_garbage(vec![given_up]);
    report(local, transaction, "given up");
    let caller = local.call()?;
    // If the ticket remains, it refers to a record that shows that the transaction was given up.
    let _ = registry::forget_ticket(&caller, transaction).await;
    Ok(Value::Simple("OK".to_owned()))
}

/// Ensures that no coordinator completes a transaction or waits for it.
async fn give_up(
    shared: &Shared,
    local: &Local,
    connections: &mut Connections,
    (transaction, record, why): (&str, Record, &str),
) -> Result<Record, String> {
    let caller = local.call()?;
    let (record, _) = taken_over(local, &caller, transaction, record).await;
    let by = format!("by user '{}', as {why}", local.user().unwrap_or_default());
    let (modules, limits) = (shared.library.all(), shared.settings.limits);
    let given_up = Coordinator::give_up(record, modules, limits, (System.now_ms(), &by));
    let mut given_up = given_up.map_err(|error| format!("ERR {error}"))?;
    match executor::run(&mut given_up, connections, &System).await {
        Outcome::Incomplete { ticket: Some(ticket), why, .. } => recovery::forget(*ticket)
            .ok_or_else(|| {
                format!(
                    "UNAVAILABLE {transaction} cannot be given up now: {why}; try it again later"
                )
            }),
        outcome => Err(format!("ERR {transaction} cannot be given up: {outcome}")),
    }
}
