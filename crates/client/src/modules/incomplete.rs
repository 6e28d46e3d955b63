//! What people see of transactions that are not complete, and how they give one up.

use std::collections::BTreeMap;

use solera_mixt::collect::Collector;
use solera_mixt::drive::Clock;
use solera_mixt::record::Record;
use solera_mixt::recovery::{self, Found};
use solera_mixt::store::Place;
use solera_node::Local;
use solera_resp::Value;

use super::{Answered, Shared, connections, places, registry, spaces};
use crate::client::Client;
use crate::mixed::System;

/// Under which names there are records, and where.
async fn all(
    shared: &Shared,
    local: &Local,
    client: Client,
) -> Result<Vec<(Place, String, Found)>, String> {
    let spaces = spaces(local, Some(client));
    let places = places(&spaces, &shared.stores);
    let mut connections = connections(spaces, &shared.stores);
    let none = Collector::new(shared.settings.limits);
    let mut all = Vec::new();
    for place in places {
        let found = recovery::records(&place, &mut connections, &none).await;
        let found = found.map_err(|error| format!("UNAVAILABLE {place}: {error}"))?;
        all.extend(found.into_iter().map(|(id, found)| (place.clone(), id, found)));
    }
    Ok(all)
}

/// SOLERA.CALL INCOMPLETE: each transaction that has begun to take effect and is not complete.
pub(super) async fn list(shared: &Shared, local: &Local, mut client: Client) -> Answered {
    let loaded = registry::all(&mut client).await?;
    let names: BTreeMap<_, _> =
        loaded.into_iter().map(|(name, entry)| (entry.digest, name)).collect();
    let now_ms = System.now_ms();
    let mut listed = Vec::new();
    for (place, id, found) in all(shared, local, client).await? {
        let (call, age_ms, state) = match found {
            Found::Record(record) if record.is_complete() => continue,
            Found::Record(record) => {
                // A module that was replaced has no name any more.
                let module = names.get(record.module()).map_or(record.module(), String::as_str);
                let state = match record.failed() {
                    Some(why) => format!("failed: {why}"),
                    None => "open".to_owned(),
                };
                let age_ms = now_ms.saturating_sub(record.began_ms());
                (Some(format!("{module}.{}", record.transaction())), Some(age_ms), state)
            }
            Found::Unreadable(error) => (None, None, format!("unreadable: {error}")),
            Found::Unread(error) => (None, None, format!("unreadable: {error}")),
        };
        let text = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let age =
            age_ms.map_or(Value::Null, |ms| Value::Integer(ms.try_into().unwrap_or(i64::MAX)));
        listed.push(Value::Map(vec![
            (text("transaction"), text(&id)),
            (text("call"), call.map_or(Value::Null, |call| text(&call))),
            (text("age_ms"), age),
            (text("record"), text(&place.to_string())),
            (text("state"), text(&state)),
        ]));
    }
    Ok(Value::Array(listed))
}

/// SOLERA.CALL FORGET transaction: gives up what can never be completed.
pub(super) async fn forget(
    shared: &Shared,
    local: &Local,
    client: Client,
    transaction: &str,
) -> Answered {
    let found = all(shared, local, client).await?;
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
            return Err(format!(
                "ERR there is no transaction '{}' that is incomplete; SOLERA.CALL INCOMPLETE tells \
                 which there are",
                transaction.escape_debug()
            ));
        }
    };
    let Some(given_up) = recovery::forget(record) else {
        return Err(format!(
            "ERR transaction {transaction} can be completed: SOLERA.CALL RESUME does it, or Solera \
             by itself"
        ));
    };
    shared.upkeep.leave(vec![given_up]);
    Ok(Value::Simple("OK".to_owned()))
}
