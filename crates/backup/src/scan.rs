//! Reading all keys in one snapshot of a running cluster.

use std::fmt;

use solera::{Client, Error, Value};

use crate::entry::{Content, Entry};
use crate::finals::Finals;

/// Number of the protocol whose keys all snapshots contain.
pub(crate) const UNISTORE: u8 = 1;

/// Returns the protocols of a snapshot that does not list them.
pub(crate) fn unistore_only() -> Vec<u8> {
    vec![UNISTORE]
}

/// Reason why a snapshot cannot be read completely.
#[derive(Debug)]
pub enum ScanError {
    /// The site cannot be reached, or returned an error.
    Client(Error),
    /// The site's answer does not have the form of SOLERA.EXPORT.
    Answer(&'static str),
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScanError::Client(error) if error.code() == Some("NOTX") => write!(
                f,
                "the site gave the snapshot up ({error}); if it took too long, raise \
                 transaction_max_age_ms there"
            ),
            ScanError::Client(error) => error.fmt(f),
            ScanError::Answer(what) => write!(f, "the site sent an unexpected answer: {what}"),
        }
    }
}

impl std::error::Error for ScanError {}

impl From<Error> for ScanError {
    fn from(error: Error) -> Self {
        ScanError::Client(error)
    }
}

/// Description of a site and its snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Introduction {
    pub(crate) cluster: String,
    pub(crate) site: String,
    pub(crate) sites: Vec<String>,
    pub(crate) partitions: u16,
    /// Approximate number of keys.
    pub(crate) keys: u64,
    pub(crate) snapshot: Vec<u64>,
    /// Numbers of the protocols whose keys the snapshot contains.
    pub(crate) protocols: Vec<u8>,
    /// State of the space of level `speculative`, if the snapshot contains it.
    pub(crate) speculative: Option<Finals>,
}

/// A snapshot that the site holds while it is read.
pub(crate) struct Scan<'a> {
    client: &'a mut Client,
    pub(crate) introduction: Introduction,
}

impl<'a> Scan<'a> {
    /// Begins a snapshot.
    pub(crate) async fn begin(client: &'a mut Client) -> Result<Self, ScanError> {
        client.command(&["SOLERA.BEGIN"]).await?;
        let introduction = introduce(client.command(&["SOLERA.EXPORT"]).await?)?;
        Ok(Scan { client, introduction })
    }

    /// Reads all keys of a partition.
    pub(crate) async fn partition<E: From<ScanError>>(
        &mut self,
        partition: u16,
        mut each: impl FnMut(Entry) -> Result<(), E>,
    ) -> Result<(), E> {
        let (partition, mut cursor) = (partition.to_string(), b"0".to_vec());
        let mut last = None;
        loop {
            let command = [b"SOLERA.EXPORT", partition.as_bytes(), &cursor];
            let page = self.client.command(&command).await.map_err(ScanError::from)?;
            let (next, entries) = page_of(page)?;
            for value in entries {
                let (key, content) = entry_of(value)?;
                let continued = last.as_ref() == Some(&key);
                last = Some(key.clone());
                each(Entry { key, continued, content })?;
            }
            if next == b"0" {
                return Ok(());
            }
            if next == cursor {
                return Err(ScanError::Answer("the next page is the same one").into());
            }
            cursor = next;
        }
    }

    /// Releases the snapshot. Fails if the site has not held it all the time.
    pub(crate) async fn end(self) -> Result<(), ScanError> {
        self.client.command(&["SOLERA.COMMIT"]).await?;
        Ok(())
    }
}

fn introduce(value: Value) -> Result<Introduction, ScanError> {
    let Value::Map(pairs) = value else { return Err(ScanError::Answer("no map")) };
    let mut found = Introduction { protocols: unistore_only(), ..Introduction::default() };
    for (what, value) in pairs {
        match (text(what)?.as_str(), value) {
            ("cluster", value) => found.cluster = text(value)?,
            ("site", value) => found.site = text(value)?,
            ("sites", Value::Array(names)) => {
                found.sites = names.into_iter().map(text).collect::<Result<_, _>>()?;
            }
            ("partitions", value) => {
                found.partitions = u16::try_from(number(value)?)
                    .map_err(|_| ScanError::Answer("too many partitions"))?;
            }
            ("keys", value) => found.keys = number(value)?,
            ("snapshot", Value::Array(times)) => {
                found.snapshot = times.into_iter().map(number).collect::<Result<_, _>>()?;
            }
            ("protocols", Value::Array(numbers)) => {
                let numbers = numbers.into_iter().map(|value| Ok(number(value)? as u8));
                found.protocols = numbers.collect::<Result<_, ScanError>>()?;
            }
            ("speculative", Value::Map(pairs)) => found.speculative = Some(finals_of(pairs)?),
            _ => {}
        }
    }
    match found.partitions {
        0 => Err(ScanError::Answer("no partitions")),
        _ => Ok(found),
    }
}

fn finals_of(pairs: Vec<(Value, Value)>) -> Result<Finals, ScanError> {
    let (mut finals, mut digest, mut left_out) = (None, None, None);
    for (what, value) in pairs {
        match text(what)?.as_str() {
            "final" => finals = Some(number(value)?),
            "digest" => digest = Some(text(value)?),
            "left-out" => left_out = Some(number(value)?),
            _ => {}
        }
    }
    match (finals, digest, left_out) {
        (Some(finals), Some(digest), Some(left_out)) => Ok(Finals { finals, digest, left_out }),
        _ => Err(ScanError::Answer("an incomplete description of the speculative space")),
    }
}

fn page_of(value: Value) -> Result<(Vec<u8>, Vec<Value>), ScanError> {
    const WHAT: ScanError = ScanError::Answer("no page");
    let Value::Array(parts) = value else { return Err(WHAT) };
    let [Value::Bulk(cursor), Value::Array(entries)] =
        <[Value; 2]>::try_from(parts).map_err(|_| WHAT)?
    else {
        return Err(WHAT);
    };
    Ok((cursor, entries))
}

fn entry_of(value: Value) -> Result<(Vec<u8>, Content), ScanError> {
    const WHAT: ScanError = ScanError::Answer("no entry");
    let Value::Array(parts) = value else { return Err(WHAT) };
    let mut parts = parts.into_iter().map(bytes);
    let mut next = || parts.next().ok_or(WHAT)?;
    let (key, kind) = (next()?, next()?);
    let content = match kind.as_slice() {
        b"string" => Content::String(next()?),
        b"set" => Content::Set(parts.collect::<Result<_, _>>()?),
        b"hash" => {
            let mut pairs = Vec::new();
            while let Some(field) = parts.next() {
                pairs.push((field?, parts.next().ok_or(WHAT)??));
            }
            Content::Hash(pairs)
        }
        _ => return Err(ScanError::Answer("a type that this version does not know")),
    };
    if content.is_empty() { Err(WHAT) } else { Ok((key, content)) }
}

pub(crate) fn bytes(value: Value) -> Result<Vec<u8>, ScanError> {
    match value {
        Value::Bulk(bytes) => Ok(bytes),
        _ => Err(ScanError::Answer("no bytes")),
    }
}

pub(crate) fn text(value: Value) -> Result<String, ScanError> {
    String::from_utf8(bytes(value)?).map_err(|_| ScanError::Answer("no text"))
}

fn number(value: Value) -> Result<u64, ScanError> {
    match value {
        Value::Integer(number) => Ok(number as u64),
        _ => Err(ScanError::Answer("no number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    fn introduced(speculative: Option<Vec<(&str, Value)>>) -> Result<Introduction, ScanError> {
        let mut pairs = vec![(bulk("partitions"), Value::Integer(16))];
        if let Some(state) = speculative {
            let state = state.into_iter().map(|(name, value)| (bulk(name), value)).collect();
            pairs.push((bulk("speculative"), Value::Map(state)));
        }
        introduce(Value::Map(pairs))
    }

    #[test]
    fn the_state_of_a_speculative_space_is_complete_or_absent() {
        assert_eq!(introduced(None).unwrap().speculative, None);
        let state = || {
            let (finals, left_out) = (Value::Integer(7), Value::Integer(2));
            vec![("final", finals), ("left-out", left_out), ("digest", bulk("00ff"))]
        };
        let expected = Finals { finals: 7, digest: "00ff".to_owned(), left_out: 2 };
        assert_eq!(introduced(Some(state())).unwrap().speculative, Some(expected));
        for lacking in 0..3 {
            let mut state = state();
            state.remove(lacking);
            assert!(introduced(Some(state)).is_err(), "a backup must report what it lacks");
        }
    }
}
