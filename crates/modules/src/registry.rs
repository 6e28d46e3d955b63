//! Storage of modules as data of the cluster.
//!
//! A hash maps each name to the digest of the module's source and the bindings of its stores, one
//! per line. The source is stored under its digest. Sources stay when their modules are replaced or
//! dropped, because transactions that began with them may have to be completed.

use solera_data::{Op, Outcome, Value};
use solera_node::Caller;
use solera_session::OnKey;
use solera_spaces::digest;

use crate::request::Binds;

const MODULES: &[u8] = b"solera:modules";

/// Stored entry of a loaded module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) digest: String,
    pub(crate) binds: Binds,
}

fn key_of(digest: &str) -> Vec<u8> {
    format!("solera:module:{digest}").into_bytes()
}

fn key_of_ticket(ticket: &str) -> Vec<u8> {
    format!("solera:ticket:{ticket}").into_bytes()
}

impl Entry {
    fn write(&self) -> String {
        let binds = self.binds.iter().map(|(store, space)| format!("\n{store}={space}"));
        format!("{}{}", self.digest, binds.collect::<String>())
    }

    fn read(text: &[u8]) -> Option<Entry> {
        let mut lines = std::str::from_utf8(text).ok()?.lines();
        let digest = lines.next()?.to_owned();
        let bind = |line: &str| {
            line.split_once('=').map(|(store, space)| (store.to_owned(), space.to_owned()))
        };
        Some(Entry { digest, binds: lines.map(bind).collect::<Option<_>>()? })
    }
}

/// Executes an operation on a key.
async fn on(caller: &Caller, key: &[u8], op: Op) -> Result<Outcome, String> {
    caller.execute(OnKey::new(key, op).expect("a client command has this operation")).await
}

/// Returns the error for an outcome that does not belong to the operation.
fn unexpected(outcome: &Outcome) -> String {
    format!("ERR a key of the registry of modules returned {outcome:?}")
}

/// Stores a module that was compiled successfully.
pub(crate) async fn load(
    caller: &Caller,
    name: &str,
    source: &str,
    (replace, binds): (bool, &Binds),
) -> Result<(), String> {
    let entry = Entry { digest: digest(source), binds: binds.clone() };
    if !replace && find(caller, name).await?.is_some_and(|there| there != entry) {
        return Err(format!("ERR there is another module '{name}'; LOAD it with REPLACE"));
    }
    // The source is written first, so that it is visible wherever the name is.
    keep_source(caller, source).await?;
    let entry = (name.into(), entry.write().as_str().into());
    on(caller, MODULES, Op::HashSet(vec![entry])).await.map(drop)
}

/// Stores a source under its digest.
pub(crate) async fn keep_source(caller: &Caller, source: &str) -> Result<(), String> {
    on(caller, &key_of(&digest(source)), Op::Set(source.into())).await.map(drop)
}

/// Removes a module.
pub(crate) async fn remove(caller: &Caller, name: &str) -> Result<(), String> {
    match on(caller, MODULES, Op::HashDelete(vec![name.into()])).await? {
        Outcome::Int(1..) => Ok(()),
        _ => Err(missing(name)),
    }
}

fn missing(name: &str) -> String {
    format!("NOMODULE there is no module '{name}'; SOLERA.MODULE LIST lists the modules")
}

async fn find(caller: &Caller, name: &str) -> Result<Option<Entry>, String> {
    match on(caller, MODULES, Op::HashGet(name.into())).await? {
        Outcome::Nil => Ok(None),
        Outcome::Bulk(bytes) => match Entry::read(bytes.as_bytes()) {
            Some(entry) => Ok(Some(entry)),
            None => Err(format!("ERR the entry of module '{name}' is damaged; LOAD it again")),
        },
        other => Err(unexpected(&other)),
    }
}

/// Returns the entry of a module.
pub(crate) async fn entry(caller: &Caller, name: &str) -> Result<Entry, String> {
    find(caller, name).await?.ok_or_else(|| missing(name))
}

/// Returns a source by its digest.
pub(crate) async fn source(caller: &Caller, named: &str) -> Result<String, String> {
    let found = match on(caller, &key_of(named), Op::Get).await? {
        Outcome::Bulk(bytes) => String::from_utf8(bytes.as_bytes().to_vec()).ok(),
        _ => None,
    };
    let intact = found.filter(|source| digest(source) == named);
    intact.ok_or_else(|| "ERR the source of the module is lost; LOAD it again".to_owned())
}

/// Returns all modules by name.
pub(crate) async fn all(caller: &Caller) -> Result<Vec<(String, Entry)>, String> {
    let pairs = match on(caller, MODULES, Op::HashGetAll).await? {
        Outcome::Pairs(pairs) => pairs,
        other => return Err(unexpected(&other)),
    };
    let read = |(name, entry): (Value, Value)| {
        Some((String::from_utf8(name.as_bytes().to_vec()).ok()?, Entry::read(entry.as_bytes())?))
    };
    Ok(pairs.into_iter().filter_map(read).collect())
}

/// Stores the record of a ticket.
pub(crate) async fn keep_ticket(
    caller: &Caller,
    ticket: &str,
    record: &[u8],
) -> Result<(), String> {
    on(caller, &key_of_ticket(ticket), Op::Set(record.into())).await.map(drop)
}

/// Returns the record of a ticket.
pub(crate) async fn ticket(caller: &Caller, ticket: &str) -> Result<Vec<u8>, String> {
    match on(caller, &key_of_ticket(ticket), Op::Get).await? {
        Outcome::Bulk(record) => Ok(record.as_bytes().to_vec()),
        Outcome::Nil => Err(format!(
            "ERR there is no ticket '{}': its transaction is complete, or the ticket is not known here yet",
            ticket.escape_debug()
        )),
        other => Err(unexpected(&other)),
    }
}

/// Removes a ticket, if there is one.
pub(crate) async fn forget_ticket(caller: &Caller, ticket: &str) -> Result<(), String> {
    on(caller, &key_of_ticket(ticket), Op::Delete).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_back() {
        let binds = vec![("mail".to_owned(), "inbox".to_owned())];
        let entry = Entry { digest: digest("x"), binds };
        assert_eq!(Entry::read(entry.write().as_bytes()), Some(entry.clone()));
        let bare = Entry { binds: Vec::new(), ..entry };
        assert_eq!(Entry::read(bare.write().as_bytes()), Some(bare));
        for damaged in [&b""[..], b"\xff", b"abc\nmail"] {
            assert_eq!(Entry::read(damaged), None);
        }
    }
}
