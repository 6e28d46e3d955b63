//! Tokens and rights of sites, and what updates take of them (IPA §4.3, §4.4).

use std::time::Duration;

use solera_resp::Value;

use crate::client::Client;
use crate::commands;
use crate::error::Error;

/// Result of an update that takes units or tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "it is an error to use units that were not taken"]
pub enum Taken<T> {
    /// They were taken.
    Units(T),
    /// Fewer units were left at all sites together. Nothing was changed.
    SoldOut {
        /// Message of the server.
        reason: String,
    },
    /// The site has too few units or tokens, and could not find out whether others have some, or
    /// did not get them in time. Nothing was changed.
    CannotTell {
        /// Message of the server.
        reason: String,
    },
}

impl<T> Taken<T> {
    /// Converts the result of a command, or of a transaction, that takes units or tokens: the codes
    /// `SOLDOUT` and `TRYAGAIN` become answers.
    ///
    /// # Errors
    /// Returns all other errors.
    pub fn of(result: Result<T, Error>) -> Result<Taken<T>, Error> {
        match result {
            Ok(units) => Ok(Taken::Units(units)),
            Err(Error::Server { code, message: reason }) if code == "SOLDOUT" => {
                Ok(Taken::SoldOut { reason })
            }
            Err(Error::Server { code, message: reason }) if code == "TRYAGAIN" => {
                Ok(Taken::CannotTell { reason })
            }
            Err(error) => Err(error),
        }
    }
}

/// A site, and its part of a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Name of the site.
    pub site: String,
    /// What it holds.
    pub holds: Holds,
}

/// What a site holds of a value with a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Rights to decrement a bounded counter, or units of a pool. They do not expire.
    Rights {
        /// Number of rights; `None` if the site has not reported it.
        rights: Option<u64>,
        /// Time since the site has reported them.
        age: Option<Duration>,
    },
    /// Tokens for updates of a counter or a set with an error bound.
    Tokens {
        /// Largest number of tokens for increments, or for additions of elements, that the client's
        /// site counts.
        increments: u64,
        /// The same for decrements, or for removals of elements.
        decrements: u64,
        /// Time until the client's site gives up its tokens unless it uses some; `None` for other
        /// sites, and without tokens.
        kept_for: Option<Duration>,
        /// Whether the site may answer intervals while its lease lasts.
        answers: bool,
        /// Time until the lease of the client's site ends unless it is renewed; `None` for other
        /// sites, and without a lease.
        answers_for: Option<Duration>,
    },
}

/// Building blocks for types of one's own with a bound.
impl Client {
    /// SOLERA.RIGHTS: returns the sites that hold tokens or rights of a value with a bound.
    ///
    /// # Errors
    /// See [`Client::command`]. The code is `ERR` if the key's space has no bound.
    pub async fn holders(&mut self, key: &str) -> Result<Vec<Holder>, Error> {
        let reply = self.call(&[b"SOLERA.RIGHTS", key.as_bytes()]).await?;
        let holders = match &reply {
            Value::Array(holders) => holders.iter().map(holder).collect(),
            _ => None,
        };
        holders.ok_or_else(|| Error::unexpected(&reply))
    }

    /// SOLERA.TAKE: takes 1 to 10,000 units from a pool, all or none, and returns their
    /// identifiers.
    ///
    /// # Errors
    /// See [`Pool::take`](super::Pool::take).
    pub async fn take(&mut self, key: &str, units: u32) -> Result<Taken<Vec<String>>, Error> {
        let units = units.to_string();
        let request = [b"SOLERA.TAKE", key.as_bytes(), units.as_bytes()];
        let taken = self.call(&request).await.and_then(|reply| {
            let Value::Array(ids) = reply else { return Err(Error::unexpected(&reply)) };
            ids.into_iter().map(commands::text).collect()
        });
        Taken::of(taken)
    }

    /// SOLERA.GROW: adds units to a pool.
    ///
    /// # Errors
    /// See [`Client::command`].
    pub async fn grow(&mut self, key: &str, units: u32) -> Result<(), Error> {
        let units = units.to_string();
        self.call(&[b"SOLERA.GROW", key.as_bytes(), units.as_bytes()]).await.map(drop)
    }
}

/// Parses an entry of the reply to SOLERA.RIGHTS.
fn holder(entry: &Value) -> Option<Holder> {
    let Value::Map(fields) = entry else { return None };
    let field = |wanted: &str| {
        let found = fields.iter().find(|(name, _)| *name == Value::Bulk(wanted.into()));
        found.map(|(_, value)| value)
    };
    let number = |wanted: &str| match field(wanted)? {
        Value::Null => Some(None),
        Value::Integer(number) => u64::try_from(*number).ok().map(Some),
        _ => None,
    };
    let time = |wanted: &str| number(wanted).map(|ms| ms.map(Duration::from_millis));
    let Value::Bulk(site) = field("site")? else { return None };
    let holds = match field("rights") {
        Some(_) => Holds::Rights { rights: number("rights")?, age: time("age-ms")? },
        None => Holds::Tokens {
            increments: number("increments")??,
            decrements: number("decrements")??,
            kept_for: time("tokens-ms")?,
            answers: number("answers")?? == 1,
            answers_for: time("answers-ms")?,
        },
    };
    Some(Holder { site: String::from_utf8_lossy(site).into_owned(), holds })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(fields: &[(&str, Value)]) -> Value {
        let word = |text: &str| Value::Bulk(text.into());
        let fields = fields.iter().map(|(name, value)| (word(name), value.clone()));
        Value::Map(std::iter::once((word("site"), word("eu"))).chain(fields).collect())
    }

    #[test]
    fn holders_of_rights_and_of_tokens_are_distinguished() {
        let found = |entry| holder(&entry).map(|it| it.holds);
        let ms = Duration::from_millis;
        assert_eq!(
            found(entry(&[("rights", Value::Integer(7)), ("age-ms", Value::Integer(5))])),
            Some(Holds::Rights { rights: Some(7), age: Some(ms(5)) })
        );
        assert_eq!(
            found(entry(&[("rights", Value::Null), ("age-ms", Value::Null)])),
            Some(Holds::Rights { rights: None, age: None })
        );
        let tokens = [
            ("increments", Value::Integer(3)),
            ("decrements", Value::Integer(4)),
            ("tokens-ms", Value::Integer(900)),
            ("answers", Value::Integer(1)),
            ("answers-ms", Value::Null),
        ];
        let expected = Holds::Tokens {
            increments: 3,
            decrements: 4,
            kept_for: Some(ms(900)),
            answers: true,
            answers_for: None,
        };
        assert_eq!(found(entry(&tokens)), Some(expected));
        for missing in 0..tokens.len() {
            let mut fields = tokens.to_vec();
            fields.remove(missing);
            assert_eq!(found(entry(&fields)), None, "{missing}");
        }
        assert_eq!(found(entry(&[("rights", Value::Integer(-1)), ("age-ms", Value::Null)])), None);
        assert_eq!(found(Value::Null), None);
    }
}
