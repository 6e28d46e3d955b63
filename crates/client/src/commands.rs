//! Typed commands, also for use within transactions.

use std::collections::{BTreeMap, BTreeSet};

use solera_resp::Value;

use crate::client::Client;
use crate::error::Error;

/// Returns a reply as text.
pub(crate) fn text(value: Value) -> Result<String, Error> {
    match value {
        Value::Bulk(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Value::Simple(text) => Ok(text),
        other => Err(Error::unexpected(&other)),
    }
}

fn optional(value: Value) -> Result<Option<String>, Error> {
    match value {
        Value::Null => Ok(None),
        other => text(other).map(Some),
    }
}

pub(crate) fn number(value: Value) -> Result<i64, Error> {
    match value {
        Value::Integer(number) => Ok(number),
        other => Err(Error::unexpected(&other)),
    }
}

/// Returns a reply as a set of texts.
pub(crate) fn texts(value: Value) -> Result<BTreeSet<String>, Error> {
    match value {
        Value::Set(items) | Value::Array(items) => items.into_iter().map(text).collect(),
        other => Err(Error::unexpected(&other)),
    }
}

/// Typed commands. All errors are those of [`Client::command`].
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl Client {
    /// GET: returns the value as text. Bytes that are not UTF-8 are replaced.
    pub async fn get(&mut self, key: &str) -> Result<Option<String>, Error> {
        optional(self.call(&[b"GET", key.as_bytes()]).await?)
    }

    /// SET.
    pub async fn set(&mut self, key: &str, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.call(&[b"SET", key.as_bytes(), value.as_ref()]).await.map(drop)
    }

    /// DEL: returns whether the key existed.
    pub async fn del(&mut self, key: &str) -> Result<bool, Error> {
        Ok(number(self.call(&[b"DEL", key.as_bytes()]).await?)? > 0)
    }

    /// EXISTS: returns whether the key exists.
    pub async fn exists(&mut self, key: &str) -> Result<bool, Error> {
        Ok(number(self.call(&[b"EXISTS", key.as_bytes()]).await?)? > 0)
    }

    /// INCRBY: returns the new number.
    pub async fn incr_by(&mut self, key: &str, by: i64) -> Result<i64, Error> {
        let by = by.to_string();
        number(self.call(&[b"INCRBY", key.as_bytes(), by.as_bytes()]).await?)
    }

    /// SADD: returns whether the element is new.
    pub async fn sadd(&mut self, key: &str, element: impl AsRef<[u8]>) -> Result<bool, Error> {
        Ok(number(self.call(&[b"SADD", key.as_bytes(), element.as_ref()]).await?)? > 0)
    }

    /// SREM: returns whether the element existed.
    pub async fn srem(&mut self, key: &str, element: impl AsRef<[u8]>) -> Result<bool, Error> {
        Ok(number(self.call(&[b"SREM", key.as_bytes(), element.as_ref()]).await?)? > 0)
    }

    /// SISMEMBER: returns whether the element exists.
    pub async fn sismember(&mut self, key: &str, element: impl AsRef<[u8]>) -> Result<bool, Error> {
        Ok(number(self.call(&[b"SISMEMBER", key.as_bytes(), element.as_ref()]).await?)? > 0)
    }

    /// SMEMBERS: returns the elements.
    pub async fn smembers(&mut self, key: &str) -> Result<BTreeSet<String>, Error> {
        texts(self.call(&[b"SMEMBERS", key.as_bytes()]).await?)
    }

    /// HSET of one field: returns whether the field is new.
    pub async fn hset(
        &mut self,
        key: &str,
        field: &str,
        value: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        let command = [b"HSET", key.as_bytes(), field.as_bytes(), value.as_ref()];
        Ok(number(self.call(&command).await?)? > 0)
    }

    /// HGET: returns the value of a field.
    pub async fn hget(&mut self, key: &str, field: &str) -> Result<Option<String>, Error> {
        optional(self.call(&[b"HGET", key.as_bytes(), field.as_bytes()]).await?)
    }

    /// HINCRBY: returns the new number.
    pub async fn hincr_by(&mut self, key: &str, field: &str, by: i64) -> Result<i64, Error> {
        let by = by.to_string();
        let command: [&[u8]; 4] = [b"HINCRBY", key.as_bytes(), field.as_bytes(), by.as_bytes()];
        number(self.call(&command).await?)
    }

    /// HDEL of one field: returns whether the field existed.
    pub async fn hdel(&mut self, key: &str, field: &str) -> Result<bool, Error> {
        Ok(number(self.call(&[b"HDEL", key.as_bytes(), field.as_bytes()]).await?)? > 0)
    }

    /// HGETALL: returns the fields and their values.
    pub async fn hgetall(&mut self, key: &str) -> Result<BTreeMap<String, String>, Error> {
        match self.call(&[b"HGETALL", key.as_bytes()]).await? {
            Value::Map(pairs) => {
                pairs.into_iter().map(|(field, value)| Ok((text(field)?, text(value)?))).collect()
            }
            other => Err(Error::unexpected(&other)),
        }
    }
}
