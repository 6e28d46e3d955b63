//! What people see of transactions that are not complete, and how they give one up.

use solera_language::types::StoreId;
use solera_mixt::binding::Bindings;
use solera_mixt::collect::{self, Collector};
use solera_mixt::drive::{Clock, Connections};
use solera_mixt::record::Record;
use solera_mixt::recovery::{self, Found};
use solera_mixt::store::{Place, StoreError};
use solera_node::Local;
use solera_resp::Value;

use super::{Answered, Shared, binding, connections, databases, places, registry, session, spaces};
use crate::client::Client;
use crate::mixed::System;

/// What there is of transactions that are not known to be complete.
struct Looked {
    /// Under which names there are records, and where.
    found: Vec<(Place, String, Found)>,
    /// Where it cannot be looked, and why.
    away: Vec<(Place, StoreError)>,
    connections: Connections,
}

async fn look(shared: &Shared, local: &Local, client: Client) -> Looked {
    let spaces = spaces(local, Some(client));
    let places = places(&spaces, &shared.stores);
    let mut connections = connections(spaces, &shared.stores);
    let none = Collector::new(shared.settings.limits);
    let (mut all, mut away) = (Vec::new(), Vec::<(Place, StoreError)>::new());
    for place in places {
        let same = |(other, error): &&(Place, StoreError)| {
            other.database == place.database && matches!(error, StoreError::Unavailable(_))
        };
        // What did not answer is not waited for again.
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
    // Of what was completed here the record does not say so yet.
    all.retain(|(_, _, found)| match found {
        Found::Record(record) => !shared.upkeep.has_completed(record.id()),
        _ => true,
    });
    Looked { found: all, away, connections }
}

/// A loaded module.
struct Named {
    name: String,
    /// Of its source.
    digest: String,
    /// What its stores are.
    bound: Option<Bindings>,
}

/// What was called. Of modules with the same source it is the one whose stores are the record's; several if they do not
/// differ in that.
fn call(modules: &[Named], record: &Record) -> String {
    let same: Vec<_> = modules.iter().filter(|one| one.digest == record.module()).collect();
    let fits = |one: &&&Named| one.bound.as_ref() == Some(record.bindings());
    let fitting: Vec<_> = same.iter().filter(fits).copied().collect();
    let named = if fitting.is_empty() { same } else { fitting };
    let transaction = record.transaction();
    if named.is_empty() {
        // A module that was replaced has no name any more.
        return format!("{}.{transaction}", record.module());
    }
    let named: Vec<_> = named.iter().map(|one| format!("{}.{transaction}", one.name)).collect();
    named.join(", ")
}

/// SOLERA.CALL INCOMPLETE: each transaction that has begun to take effect and is not complete, and each space of a store
/// that cannot be asked, without the name of a transaction.
pub(super) async fn list(shared: &Shared, local: &Local, mut client: Client) -> Answered {
    let loaded = registry::all(&mut client).await?;
    let own = spaces(local, None);
    let mut modules = Vec::new();
    for (name, entry) in loaded {
        // One that cannot be used now is named only where no other module has its source.
        let bound = match shared.library.get(&mut client, &entry.digest).await {
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
    let looked = look(shared, local, client).await;
    for (place, id, found) in looked.found {
        let (called, age_ms, state) = match found {
            Found::Record(record) if record.is_complete() => continue,
            Found::Record(record) => {
                let state = match record.failed() {
                    Some(why) => format!("failed: {why}"),
                    None => "open".to_owned(),
                };
                let age_ms = now_ms.saturating_sub(record.began_ms());
                (Some(call(&modules, &record)), Some(age_ms), state)
            }
            Found::Unreadable(error) => (None, None, format!("unreadable: {error}")),
            Found::Unread(error) => (None, None, format!("unreadable: {error}")),
        };
        let age =
            age_ms.map_or(Value::Null, |ms| Value::Integer(ms.try_into().unwrap_or(i64::MAX)));
        listed.push(Value::Map(vec![
            (text("transaction"), text(&id)),
            (text("call"), called.map_or(Value::Null, |called| text(&called))),
            (text("age_ms"), age),
            (text("record"), text(&place.to_string())),
            (text("state"), text(&state)),
        ]));
    }
    for (place, why) in looked.away {
        listed.push(Value::Map(vec![
            (text("transaction"), text("")),
            (text("call"), Value::Null),
            (text("age_ms"), Value::Null),
            (text("record"), text(&place.to_string())),
            (text("state"), text(&format!("away: {why}"))),
        ]));
    }
    Ok(Value::Array(listed))
}

/// Finds out whether a transaction can be completed here, as far as that is known without trying.
///
/// # Errors
/// What to do if it cannot: one that others complete must not be given up here.
async fn elsewhere(
    shared: &Shared,
    local: &Local,
    transaction: &str,
    (module, bindings): (&str, &Bindings),
) -> Result<(), String> {
    let told = |what: &str| {
        format!(
            "ERR transaction {transaction} {what}; where it was begun, Solera completes it, or FORGET gives \
             it up if it fails. If that is another cluster, give each a schema of its own in the database"
        )
    };
    let mut client = session(local).await.map_err(super::told)?;
    let Ok(compiled) = shared.library.get(&mut client, module).await else {
        return Err(told(&format!(
            "is of a module that was never loaded here (its source is {module})"
        )));
    };
    let there = databases(spaces(local, None), &shared.stores);
    for (id, store) in (0..).map(StoreId).zip(&compiled.module.program().stores) {
        let place = &bindings.of(id).place;
        if there.iter().all(|found| found.describe().name != place.database) {
            let store = &store.name;
            return Err(told(&format!(
                "has its store `{store}` in {place}, and that is not known here"
            )));
        }
    }
    Ok(())
}

/// SOLERA.CALL FORGET transaction: gives up what can never be completed.
pub(super) async fn forget(
    shared: &Shared,
    local: &Local,
    client: Client,
    transaction: &str,
) -> Answered {
    let Looked { found, away, mut connections } = look(shared, local, client).await;
    let mut found = found.into_iter().filter(|(_, id, _)| id == transaction);
    let record: Record = match found.next() {
        Some((_, _, Found::Record(record))) => *record,
        Some((place, _, Found::Unreadable(error))) => {
            return Err(format!("ERR the record of {transaction} in {place}: {error}"));
        }
        Some((place, _, Found::Unread(error))) => {
            return Err(format!("UNAVAILABLE the record of {transaction} in {place}: {error}"));
        }
        None => {
            let name = transaction.escape_debug();
            return Err(match away.first() {
                Some((place, why)) => format!(
                    "UNAVAILABLE no transaction '{name}' is incomplete where that can be found out; \
                     {place}: {why}"
                ),
                None => format!(
                    "ERR there is no transaction '{name}' that is incomplete; SOLERA.CALL INCOMPLETE \
                     tells which there are"
                ),
            });
        }
    };
    if record.is_complete() {
        return Err(format!("ERR transaction {transaction} is complete, and will be forgotten"));
    }
    let (module, bindings) = (record.module().to_owned(), record.bindings().clone());
    let Some(given_up) = recovery::forget(record) else {
        elsewhere(shared, local, transaction, (&module, &bindings)).await?;
        return Err(format!(
            "ERR transaction {transaction} can be completed: SOLERA.CALL RESUME does it, or Solera \
             by itself"
        ));
    };
    // From now on nobody lists it, at any site.
    let noted = collect::complete(&given_up, &mut connections).await;
    noted.map_err(|error| format!("UNAVAILABLE {transaction} cannot be given up now: {error}"))?;
    shared.upkeep.leave(vec![given_up]);
    Ok(Value::Simple("OK".to_owned()))
}
