//! Modules as data of the cluster.
//!
//! A hash has for each name the digest of the module's source and how its stores are bound, on a line each; the source
//! lies under its digest. Sources stay when their modules are replaced or dropped: transactions that began with
//! them may have to be completed.

use solera::mixed::digest;
use solera::{Client, Error};
use solera_resp::Value;

use crate::request::Binds;
use crate::told;

const MODULES: &[u8] = b"solera:modules";

/// What is known of a loaded module.
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

/// Keeps a module that can be compiled.
pub(crate) async fn load(
    client: &mut Client,
    name: &str,
    source: &str,
    (replace, binds): (bool, &Binds),
) -> Result<(), String> {
    let entry = Entry { digest: digest(source), binds: binds.clone() };
    if !replace && find(client, name).await?.is_some_and(|there| there != entry) {
        return Err(format!("ERR there is another module '{name}'; LOAD it with REPLACE"));
    }
    // Whoever sees the name sees the source, too, which was there before.
    keep_source(client, source).await?;
    let value = entry.write();
    client
        .command::<&[u8]>(&[b"HSET", MODULES, name.as_bytes(), value.as_bytes()])
        .await
        .map_err(told)?;
    Ok(())
}

/// Keeps a source under its digest.
pub(crate) async fn keep_source(client: &mut Client, source: &str) -> Result<(), String> {
    let key = key_of(&digest(source));
    client.command::<&[u8]>(&[b"SET", &key, source.as_bytes()]).await.map(drop).map_err(told)
}

/// Forgets a module.
pub(crate) async fn remove(client: &mut Client, name: &str) -> Result<(), String> {
    match client.command::<&[u8]>(&[b"HDEL", MODULES, name.as_bytes()]).await.map_err(told)? {
        Value::Integer(1..) => Ok(()),
        _ => Err(missing(name)),
    }
}

fn missing(name: &str) -> String {
    format!("NOMODULE there is no module '{name}'; SOLERA.MODULE LIST tells which there are")
}

async fn find(client: &mut Client, name: &str) -> Result<Option<Entry>, String> {
    match client.command::<&[u8]>(&[b"HGET", MODULES, name.as_bytes()]).await.map_err(told)? {
        Value::Null => Ok(None),
        Value::Bulk(bytes) => match Entry::read(&bytes) {
            Some(entry) => Ok(Some(entry)),
            None => {
                Err(format!("ERR what is kept of module '{name}' cannot be read; LOAD it anew"))
            }
        },
        other => Err(told(Error::unexpected(&other))),
    }
}

/// What is known of a module.
pub(crate) async fn entry(client: &mut Client, name: &str) -> Result<Entry, String> {
    find(client, name).await?.ok_or_else(|| missing(name))
}

/// A source by its digest.
pub(crate) async fn source(client: &mut Client, named: &str) -> Result<String, String> {
    let found = match client.command::<&[u8]>(&[b"GET", &key_of(named)]).await.map_err(told)? {
        Value::Bulk(bytes) => String::from_utf8(bytes).ok(),
        _ => None,
    };
    let intact = found.filter(|source| digest(source) == named);
    intact.ok_or_else(|| "ERR the source of the module is lost; LOAD it anew".to_owned())
}

/// All modules, by name.
pub(crate) async fn all(client: &mut Client) -> Result<Vec<(String, Entry)>, String> {
    let pairs = match client.command::<&[u8]>(&[b"HGETALL", MODULES]).await.map_err(told)? {
        Value::Map(pairs) => pairs,
        other => return Err(told(Error::unexpected(&other))),
    };
    let read = |(name, entry)| match (name, entry) {
        (Value::Bulk(name), Value::Bulk(entry)) => {
            Some((String::from_utf8(name).ok()?, Entry::read(&entry)?))
        }
        _ => None,
    };
    Ok(pairs.into_iter().filter_map(read).collect())
}

/// Keeps what a ticket stands for.
pub(crate) async fn keep_ticket(
    client: &mut Client,
    ticket: &str,
    record: &[u8],
) -> Result<(), String> {
    client.command::<&[u8]>(&[b"SET", &key_of_ticket(ticket), record]).await.map(drop).map_err(told)
}

/// What a ticket stands for.
pub(crate) async fn ticket(client: &mut Client, ticket: &str) -> Result<Vec<u8>, String> {
    match client.command::<&[u8]>(&[b"GET", &key_of_ticket(ticket)]).await.map_err(told)? {
        Value::Bulk(record) => Ok(record),
        Value::Null => Err(format!(
            "ERR there is no ticket '{}': what it stood for is complete, or it is not known here yet",
            ticket.escape_debug()
        )),
        other => Err(told(Error::unexpected(&other))),
    }
}

/// Forgets a ticket, if there is one.
pub(crate) async fn forget_ticket(client: &mut Client, ticket: &str) -> Result<(), String> {
    client.command::<&[u8]>(&[b"DEL", &key_of_ticket(ticket)]).await.map(drop).map_err(told)
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
