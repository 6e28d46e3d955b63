//! Requests to the functions of `functions.lua`, and their answers. No I/O.

use std::sync::LazyLock;

use solera_occult::{CausalTimestamp, ShardId, Stamp};
use solera_resp::{Value, encode_command};

use crate::commands::{Access, Call};
use crate::error::Error;
use crate::risk::{Life, Risk};
use crate::slot::{home_key, record_key, tag_of, timestamp_key};
use crate::stored::{Kind, Layout, Record, Stored};

const TEXT: &str = include_str!("functions.lua");

/// Name of the library and of its function. It contains a hash of the text, so that gateways of
/// different versions can use one cluster.
pub(crate) static LIBRARY: LazyLock<String> = LazyLock::new(|| {
    // FNV-1a.
    let hash = TEXT
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("solera_occult_{hash:08x}")
});

/// Returns the library of Redis Functions.
pub(crate) fn library() -> String {
    let name = LIBRARY.as_str();
    format!(
        "#!lua name={name}
local run
-- Libraries of Lua do not exist yet while functions are loaded.
local function load() {TEXT} return run end
local function call(keys, args)
  run = run or load()
  return run(table.remove(args, 1), keys, args)
end
redis.register_function{{ function_name = '{name}', callback = call, flags = {{ 'allow-cross-slot-keys' }} }}
redis.register_function{{ function_name = '{name}_look', callback = call,
  flags = {{ 'no-writes', 'allow-cross-slot-keys' }} }}
"
    )
}

/// Returns the same code as scripts, for servers that forbid functions: one for masters, and one
/// without writes for replicas.
pub(crate) fn scripts() -> [String; 2] {
    ["", "no-writes,"].map(|flags| {
        format!(
            "#!lua flags={flags}allow-cross-slot-keys\n{TEXT}\n\
             return run(table.remove(ARGV, 1), KEYS, ARGV)\n"
        )
    })
}

/// Means by which functions are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Means {
    /// Digests of the scripts, as [`scripts`] returns them; `None` for Redis Functions.
    pub(crate) scripts: Option<[String; 2]>,
    /// Layout of stored strings.
    pub(crate) layout: Layout,
    /// Slot that contains the clock of the master.
    pub(crate) clock: Option<ShardId>,
}

/// A request to a function of one slot.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) name: &'static str,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<Vec<u8>>,
}

impl Request {
    /// Creates a request of the slot's master. `keys` are the keys that the request accesses.
    pub(crate) fn new(name: &'static str, slot: ShardId, keys: &[Vec<u8>]) -> Request {
        let mut all = vec![record_key(slot), home_key(slot)];
        for key in keys {
            all.push(key.clone());
            all.push(timestamp_key(key));
        }
        Request { name, keys: all, args: Vec::new() }
    }

    pub(crate) fn arg(&mut self, arg: impl Into<Vec<u8>>) -> &mut Request {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn number(&mut self, number: u64) -> &mut Request {
        self.arg(number.to_string())
    }

    pub(crate) fn list<T>(
        &mut self,
        list: impl ExactSizeIterator<Item = T>,
        mut item: impl FnMut(&mut Request, T),
    ) -> &mut Request {
        self.number(list.len() as u64);
        list.for_each(|each| item(self, each));
        self
    }

    /// Adds commands. `keys` are the keys of the request.
    pub(crate) fn calls(&mut self, calls: &[&Call], keys: &[Vec<u8>]) -> &mut Request {
        self.list(calls.iter(), |request, call| {
            let at = keys.iter().position(|key| *key == call.key).unwrap_or_default();
            request.number(at as u64 * 2 + 3);
            request.arg(match call.access {
                Access::Read => "r",
                Access::Write => "w",
                Access::Conditional => "c",
            });
            request.number(call.words.len() as u64);
            call.words.iter().for_each(|word| {
                request.arg(word.clone());
            });
        })
    }

    /// Encodes the call.
    pub(crate) fn encode(&self, means: &Means) -> Vec<u8> {
        let look = self.name == "look";
        let (command, name) = match &means.scripts {
            None if look => ("FCALL_RO", format!("{}_look", *LIBRARY)),
            None => ("FCALL", LIBRARY.clone()),
            Some([_, digest]) if look => ("EVALSHA_RO", digest.clone()),
            Some([digest, _]) => ("EVALSHA", digest.clone()),
        };
        let layout = match means.layout {
            Layout::Plain => 'S',
            Layout::Envelope => 'E',
        };
        let clock = means.clock.map_or_else(String::new, |slot| tag_of(slot).to_string());
        let request = format!("{layout}{clock}:{}", self.name);
        let count = self.keys.len().to_string();
        let mut words: Vec<&[u8]> = vec![command.as_bytes(), name.as_bytes(), count.as_bytes()];
        words.extend(self.keys.iter().map(Vec::as_slice));
        words.push(request.as_bytes());
        words.extend(self.args.iter().map(Vec::as_slice));
        let mut bytes = Vec::new();
        encode_command(&mut bytes, &words);
        bytes
    }
}

/// The part of a transaction that EXECUTE or PREPARE requests from a slot.
#[derive(Clone, Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) slot: ShardId,
    pub(crate) tid: &'a str,
    pub(crate) timestamp: &'a CausalTimestamp,
    pub(crate) risk: &'a Risk,
    /// Shards that the transaction has read, with the shardstamps of the copies.
    pub(crate) reads: &'a [(ShardId, Stamp)],
    /// Keys that must still have these timestamps; empty for none.
    pub(crate) watches: Vec<&'a (Vec<u8>, Vec<u8>)>,
    pub(crate) calls: Vec<&'a Call>,
}

/// Data that a gateway adds to a [`Wish`] when it sends it.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    /// Time of the gateway, in µs.
    pub(crate) now: u64,
    /// Time from which the master refuses the request, by its own clock, in µs.
    pub(crate) deadline: u64,
    pub(crate) again: bool,
    /// Largest difference by which a stamp may be ahead of the clocks, in µs.
    pub(crate) ahead: u64,
    /// Time for which the timestamps of absent keys stay, in ms.
    pub(crate) grace: u64,
    /// Lives whose end is unknown and that have lost nothing of this session.
    pub(crate) cleared: Vec<Life>,
    pub(crate) ended: Vec<(Life, u64)>,
}

impl Wish<'_> {
    /// Returns the keys that the request accesses.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let watched = self.watches.iter().map(|(key, _)| key);
        for key in self.calls.iter().map(|call| &call.key).chain(watched) {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        keys
    }

    pub(crate) fn request(&self, name: &'static str, sending: &Sending) -> Request {
        let keys = self.keys();
        let mut request = Request::new(name, self.slot, &keys);
        request.arg(self.tid).number(sending.now).number(self.slot.0.into());
        request.number(sending.deadline).arg(if sending.again { "1" } else { "0" });
        request.number(sending.ahead).number(sending.grace);
        request.arg(Stored::encode(Kind::Text, self.timestamp, self.risk));
        request.list(sending.cleared.iter(), |request, life| {
            request.arg(life.to_string());
        });
        // A blind write does not depend on the lost dependencies of the version that it overwrites.
        let blind = self.calls.iter().all(|call| call.blind);
        request.list(sending.ended.iter(), |request, (life, end)| {
            request.arg(life.to_string());
            request.arg(if blind { "-1".to_owned() } else { (*end).min(1 << 52).to_string() });
        });
        request.list(self.reads.iter(), |request, (shard, shown)| {
            request.number(shard.0.into()).number(shown.0);
        });
        request.list(self.watches.iter(), |request, (key, timestamp)| {
            let at = keys.iter().position(|each| each == key).unwrap_or_default();
            request.number(at as u64 * 2 + 3).arg(timestamp.clone());
        });
        request.calls(&self.calls, &keys);
        request
    }
}

/// An answer: its first word, the slot's record, and the rest.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) word: String,
    pub(crate) record: Option<Record>,
    pub(crate) rest: Vec<Value>,
}

impl Answer {
    /// Reads an answer of a function for a slot.
    pub(crate) fn read(value: Value, slot: ShardId) -> Result<Answer, Error> {
        let Value::Array(values) = value else { return Err(Error::unexpected(slot, &value)) };
        let mut values = values.into_iter();
        let word = match values.next() {
            Some(Value::Bulk(word)) => String::from_utf8_lossy(&word).into_owned(),
            other => return Err(Error::unexpected(slot, &other.unwrap_or(Value::Null))),
        };
        let second = values.next().unwrap_or(Value::Null);
        match word.as_str() {
            "FAILED" => Err(match text_of(&second) {
                text if text.starts_with("AHEAD ") => Error::Ahead(text),
                text => Error::Failed { slot, text },
            }),
            "LATE" => Ok(Answer { word, record: None, rest: vec![second] }),
            _ => {
                let record = match second {
                    Value::Null => None,
                    Value::Bulk(bytes) => {
                        let record = Record::parse(&bytes);
                        Some(record.map_err(|why| Error::damaged_record(slot, &why))?)
                    }
                    other => return Err(Error::unexpected(slot, &other)),
                };
                Ok(Answer { word, record, rest: values.collect() })
            }
        }
    }

    pub(crate) fn text(&self, at: usize) -> String {
        self.rest.get(at).map(text_of).unwrap_or_default()
    }

    pub(crate) fn number(&self, at: usize) -> u64 {
        self.text(at).parse().unwrap_or_default()
    }

    pub(crate) fn take(&mut self, at: usize) -> Value {
        self.rest.get_mut(at).map_or(Value::Null, |value| std::mem::replace(value, Value::Null))
    }
}

pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Simple(text) | Value::Error(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Reads the reply of a command that a function has executed.
pub(crate) fn reply_of(value: Value) -> Value {
    let Value::Array(pair) = value else { return Value::Null };
    let mut pair = pair.into_iter();
    match (pair.next(), pair.next().unwrap_or(Value::Null)) {
        (Some(Value::Bulk(kind)), text) if kind == b"E" => {
            Value::Error(error_text(&text_of(&text)))
        }
        (_, value) => value,
    }
}

/// Removes what a script adds to an error reply.
fn error_text(text: &str) -> String {
    let text = text.strip_prefix("-").unwrap_or(text);
    text.split(" script: ").next().unwrap_or(text).trim_end_matches(',').to_owned()
}

/// Reads the replies of the commands of a transaction; `None` if they are not known.
pub(crate) fn replies_of(value: Value) -> Option<Vec<Value>> {
    let Value::Array(replies) = value else { return None };
    Some(replies.into_iter().map(reply_of).collect())
}
