//! The writes of an open transaction to one key. No I/O.

use solera_resp::Value;

use super::value::{Held, Wrong};

/// Commands on a key that are executed when the transaction commits.
#[derive(Clone, Debug)]
pub(super) struct Written {
    /// The type of the key, as TYPE names it.
    pub(super) kind: &'static str,
    /// The commands, without the key.
    pub(super) commands: Vec<Vec<Vec<u8>>>,
    /// The value after the commands, once it is known. The value is loaded only if the transaction
    /// reads the key after it has written it.
    held: Option<Held>,
}

impl Written {
    pub(super) fn new(kind: &'static str, before: Option<Held>) -> Written {
        Written { kind, commands: Vec::new(), held: before }
    }

    /// Returns whether the value must be [loaded](Self::load) before a command can be
    /// [executed](Self::run).
    pub(super) fn must_load(&self, writes: bool) -> bool {
        self.held.is_none() && !writes
    }

    /// Sets the value from before the transaction.
    pub(super) fn load(&mut self, mut before: Held) -> Result<(), Wrong> {
        for words in &self.commands {
            before.run(words)?;
        }
        self.held = Some(before);
        Ok(())
    }

    /// Executes a command that reads, or adds one that writes.
    pub(super) fn run(&mut self, words: Vec<Vec<u8>>, writes: bool) -> Result<Value, Wrong> {
        let replaces = matches!(words.first().map(Vec::as_slice), Some(b"SET" | b"DEL"));
        if replaces && self.held.is_none() {
            self.held = Some(Held::Absent);
        }
        let reply = match &mut self.held {
            Some(held) => held.run(&words)?,
            None => Value::Null,
        };
        if replaces {
            // The earlier commands have no effect any more.
            self.commands.clear();
        }
        if writes {
            self.commands.push(words);
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<u8>> {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn a_transaction_reads_what_it_has_written() {
        let mut list = Written::new("list", None);
        for text in ["RPUSH b", "RPUSH c"] {
            assert_eq!(list.run(words(text), true), Ok(Value::Null), "{text}");
        }
        assert!(list.must_load(false) && !list.must_load(true));
        list.load(Held::List(words("a"))).unwrap();
        assert_eq!(list.run(words("LINDEX 2"), false), Ok(Value::Bulk(b"c".to_vec())));
        assert_eq!(list.run(words("LLEN"), false), Ok(Value::Integer(3)));
        assert_eq!(list.commands.len(), 2);
        list.run(words("DEL"), true).unwrap();
        assert_eq!(list.run(words("EXISTS"), false), Ok(Value::Integer(0)));
        assert_eq!(list.commands, [words("DEL")]);
        assert_eq!(list.run(words("SADD a"), true), Ok(Value::Integer(1)));

        let mut register = Written::new("string", None);
        register.run(words("SET 5"), true).unwrap();
        assert!(!register.must_load(false));
        assert_eq!(register.run(words("GET"), false), Ok(Value::Bulk(b"5".to_vec())));
        assert_eq!(register.run(words("SADD a"), true), Err(Wrong::Type));
        assert_eq!(register.run(words("INCRBY x"), true), Err(Wrong::Overflow));
        assert_eq!(register.run(words("INCRBY 9223372036854775807"), true), Err(Wrong::Overflow));
        assert_eq!(register.commands, [words("SET 5")]);
    }

    #[test]
    fn collections_that_become_empty_are_absent() {
        let mut set = Written::new("set", Some(Held::Set(words("a").into_iter().collect())));
        set.run(words("SREM a"), true).unwrap();
        assert_eq!(set.run(words("EXISTS"), false), Ok(Value::Integer(0)));
        let mut hash = Written::new("hash", Some(Held::Absent));
        hash.run(words("HSET a 1"), true).unwrap();
        let pairs = Value::Array(vec![Value::Bulk(b"a".to_vec()), Value::Bulk(b"1".to_vec())]);
        assert_eq!(hash.run(words("HGETALL"), false), Ok(pairs));
        hash.run(words("HDEL a"), true).unwrap();
        assert_eq!(hash.run(words("HGET a"), false), Ok(Value::Null));
        assert_eq!(hash.run(words("EXISTS"), false), Ok(Value::Integer(0)));
    }
}
