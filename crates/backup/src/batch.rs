//! Commands that restore entries, sent many at a time.

use solera::{Client, Error, Value};

use crate::entry::{Content, Entry};
use crate::scan::ScanError;
use crate::spaces::SpaceInfo;

/// Approximate number of commands, and of bytes, that are sent at once.
const BATCH_COMMANDS: usize = 256;
const BATCH_BYTES: usize = 256 * 1024;
/// Maximal number of elements or fields that one command adds.
const COMMAND_ITEMS: usize = 512;
/// Approximate number of commands, and of bytes, of one operation of a space of level
/// `speculative`. Each site keeps the last 10,000 operations, so long ones would fill its memory.
const OPERATION_COMMANDS: usize = 64;
const OPERATION_BYTES: usize = 16 * 1024;

type Words = Vec<Vec<u8>>;

/// Entries to restore.
pub(crate) struct Batch {
    /// Whether the cluster may hold keys already.
    replaces: bool,
    commands: Vec<Words>,
    /// Commands that set a key of level `pcpsi`. Such a key is written at its home, so these are
    /// written many at a time.
    together: Vec<Words>,
    /// Commands on keys of level `speculative`. Several of them are one operation, which has its
    /// place in the order by one agreement if it is strong.
    speculative: Vec<Words>,
    /// Keys of type `counter`, which only increments and decrements change, and their values.
    counters: Vec<(Vec<u8>, i64)>,
    bytes: usize,
}

impl Batch {
    /// Creates an empty batch. `replaces` is whether the cluster may hold keys already.
    pub(crate) fn new(replaces: bool) -> Batch {
        let (commands, together, speculative) = (Vec::new(), Vec::new(), Vec::new());
        Batch { replaces, commands, together, speculative, counters: Vec::new(), bytes: 0 }
    }

    /// Adds an entry; `space` is the space of its key in the cluster.
    pub(crate) fn push(&mut self, entry: Entry, space: Option<&SpaceInfo>) {
        // The cluster rejects a key of type `counter` that holds something else, with the reason.
        if space.is_some_and(SpaceInfo::has_counters)
            && let Some(number) = number(&entry.content)
        {
            self.bytes += entry.key.len();
            return self.counters.push((entry.key, number));
        }
        let is_of_occult = space.is_some_and(SpaceInfo::is_of_occult);
        let is_speculative = space.is_some_and(SpaceInfo::is_speculative);
        for command in commands(entry) {
            self.bytes += command.iter().map(Vec::len).sum::<usize>();
            if is_speculative {
                self.speculative.push(command);
            } else if is_of_occult && command[0] == b"SET" {
                self.together.push(command);
            } else {
                self.commands.push(command);
            }
        }
    }

    /// Returns whether the batch should be sent before more is added.
    pub(crate) fn is_full(&self) -> bool {
        let commands = self.commands.len() + self.together.len() + self.speculative.len();
        commands + self.counters.len() >= BATCH_COMMANDS || self.bytes >= BATCH_BYTES
    }

    /// Sends everything, and empties the batch.
    ///
    /// # Errors
    /// The cluster rejects a command, or is lost. A part of the batch may be restored.
    pub(crate) async fn send(&mut self, client: &mut Client) -> Result<(), ScanError> {
        let Batch { commands, together, speculative, counters, .. } =
            std::mem::replace(self, Batch::new(self.replaces));
        let mut all = commands;
        all.extend(joined(together));
        all.extend(operations(speculative));
        let current = match self.replaces {
            true => values(client, &counters).await?,
            false => vec![0; counters.len()],
        };
        for ((key, wanted), current) in counters.into_iter().zip(current) {
            all.extend(increments(&key, current, wanted));
        }
        run(client, &all).await.map(drop)
    }
}

/// Returns the number that a string holds, if it is written as counters are.
fn number(content: &Content) -> Option<i64> {
    let Content::String(text) = content else { return None };
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

/// Returns the current values of counters.
async fn values(client: &mut Client, counters: &[(Vec<u8>, i64)]) -> Result<Vec<i64>, ScanError> {
    let reads: Vec<Words> = counters.iter().map(|(key, _)| words("GET", key, [])).collect();
    let replies = run(client, &reads).await?;
    replies
        .into_iter()
        .map(|reply| match reply {
            Value::Null => Ok(0),
            Value::Bulk(text) => {
                number(&Content::String(text)).ok_or(ScanError::Answer("a counter with text"))
            }
            _ => Err(ScanError::Answer("GET returned no string")),
        })
        .collect()
}

/// Returns the commands that change a counter from one value to another: one, or two if the
/// difference does not fit 64 bits.
fn increments(key: &[u8], from: i64, to: i64) -> impl Iterator<Item = Words> {
    let difference = i128::from(to) - i128::from(from);
    let (least, most) = (i128::from(i64::MIN), i128::from(i64::MAX));
    let first = difference.clamp(least, most);
    let rest = Some(difference - first).filter(|rest| *rest != 0);
    // An increment by 0 creates the key.
    std::iter::once(first).chain(rest).map(|by| words("INCRBY", key, [by.to_string().into_bytes()]))
}

fn words(name: &str, key: &[u8], items: impl IntoIterator<Item = Vec<u8>>) -> Words {
    [name.as_bytes().to_vec(), key.to_vec()].into_iter().chain(items).collect()
}

/// Returns the commands that restore an entry.
fn commands(entry: Entry) -> Vec<Words> {
    let Entry { key, content, .. } = entry;
    match content {
        Content::String(value) => vec![words("SET", &key, [value])],
        Content::Set(elements) => {
            elements.chunks(COMMAND_ITEMS).map(|some| words("SADD", &key, some.to_vec())).collect()
        }
        Content::Hash(pairs) => pairs
            .chunks(COMMAND_ITEMS)
            .map(|some| {
                let flat = some.iter().flat_map(|(field, value)| [field.clone(), value.clone()]);
                words("HSET", &key, flat)
            })
            .collect(),
    }
}

/// Returns one command for several of `SET`.
fn joined(sets: Vec<Words>) -> Option<Words> {
    let first = (!sets.is_empty()).then(|| b"MSET".to_vec())?;
    let pairs = sets.into_iter().flat_map(|command| command.into_iter().skip(1));
    Some(std::iter::once(first).chain(pairs).collect())
}

/// Returns commands as operations of a space of level `speculative`, each between MULTI and EXEC.
fn operations(commands: Vec<Words>) -> Vec<Words> {
    let (mut all, mut count, mut bytes) = (Vec::new(), 0, 0);
    let begin = || vec![b"MULTI".to_vec()];
    let end = || vec![b"EXEC".to_vec()];
    for command in commands {
        let more: usize = command.iter().map(Vec::len).sum();
        if count > 0 && (count == OPERATION_COMMANDS || bytes + more > OPERATION_BYTES) {
            all.push(end());
            (count, bytes) = (0, 0);
        }
        if count == 0 {
            all.push(begin());
        }
        all.push(command);
        (count, bytes) = (count + 1, bytes + more);
    }
    if count > 0 {
        all.push(end());
    }
    all
}

/// Runs commands, and returns their replies.
///
/// # Errors
/// A command fails, also one between MULTI and EXEC, or the cluster is lost.
async fn run(client: &mut Client, commands: &[Words]) -> Result<Vec<Value>, ScanError> {
    let borrowed: Vec<Vec<&[u8]>> =
        commands.iter().map(|command| command.iter().map(Vec::as_slice).collect()).collect();
    let replies = client.pipeline(&borrowed).await?;
    match replies.iter().find_map(error_of) {
        Some(text) => Err(Error::server(text).into()),
        None => Ok(replies),
    }
}

/// Returns the first error of a reply, which may be that of EXEC.
fn error_of(reply: &Value) -> Option<&str> {
    match reply {
        Value::Error(text) => Some(text),
        Value::Array(replies) => replies.iter().find_map(error_of),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_reaches_its_value_without_overflow() {
        for (from, to, by) in [
            (0, 7, vec![7]),
            (0, 0, vec![0]),
            (9, 7, vec![-2]),
            (0, i64::MIN, vec![i64::MIN]),
            (-5, i64::MAX, vec![i64::MAX, 5]),
            (5, i64::MIN, vec![i64::MIN, -5]),
            (i64::MAX, i64::MIN, vec![i64::MIN, -i64::MAX]),
        ] {
            let commands: Vec<Words> = increments(b"k", from, to).collect();
            let expected: Vec<Words> = by
                .iter()
                .map(|by: &i64| words("INCRBY", b"k", [by.to_string().into_bytes()]))
                .collect();
            assert_eq!(commands, expected, "{from} to {to}");
            let last = by.iter().try_fold(from, |value, by| value.checked_add(*by));
            assert_eq!(last, Some(to));
        }
    }

    #[test]
    fn only_numbers_in_counter_spaces_become_increments() {
        let counters = SpaceInfo { of_type: Some("counter".into()), ..SpaceInfo::default() };
        let entry = |text: &str| Entry {
            key: b"k".to_vec(),
            continued: false,
            content: Content::String(text.into()),
        };
        let pushed = |text: &str, space: Option<&SpaceInfo>| {
            let mut batch = Batch::new(false);
            batch.push(entry(text), space);
            (batch.commands.len(), batch.counters)
        };
        assert_eq!(pushed("-7", Some(&counters)), (0, vec![(b"k".to_vec(), -7)]));
        for (text, space) in [
            ("7", None),
            ("7", Some(&SpaceInfo::default())),
            ("07", Some(&counters)),
            ("x", Some(&counters)),
        ] {
            assert_eq!(pushed(text, space), (1, Vec::new()), "{text}");
        }
    }

    #[test]
    fn commands_of_a_speculative_space_are_grouped_into_operations() {
        let space = SpaceInfo { protocol_number: 5, ..SpaceInfo::default() };
        let mut batch = Batch::new(false);
        let mut push = |key: &str, content: Content| {
            let entry = Entry { key: key.into(), continued: false, content };
            batch.push(entry, Some(&space));
        };
        push("n", Content::String(b"7".to_vec()));
        push("s", Content::Set(vec![b"a".to_vec(), b"b".to_vec()]));
        push("h", Content::Hash(vec![(b"f".to_vec(), b"v".to_vec())]));
        push("long", Content::String(vec![b'x'; OPERATION_BYTES]));
        for number in 0..OPERATION_COMMANDS + 1 {
            push(&number.to_string(), Content::String(b"v".to_vec()));
        }
        assert!(batch.commands.is_empty() && batch.counters.is_empty());
        let commands = operations(batch.speculative);
        let line = |command: &Words| {
            let words = command.iter().take(2).map(|word| String::from_utf8_lossy(word));
            words.collect::<Vec<_>>().join(" ")
        };
        let lines: Vec<String> = commands.iter().map(line).collect();
        let begin = ["MULTI", "SET n", "SADD s", "HSET h", "EXEC", "MULTI", "SET long", "EXEC"];
        assert_eq!(lines[..8], begin);
        let count = |line: &str| lines.iter().filter(|it| *it == line).count();
        assert_eq!((count("MULTI"), count("EXEC")), (4, 4));
        assert_eq!(lines[lines.len() - 4..], ["EXEC", "MULTI", "SET 64", "EXEC"]);
        assert!(operations(Vec::new()).is_empty());
    }

    #[test]
    fn an_error_within_exec_is_found() {
        let ok = || Value::Simple("OK".to_owned());
        let wrong = || Value::Error("WRONGTYPE it is a set".to_owned());
        assert_eq!(error_of(&Value::Array(vec![ok(), wrong()])), Some("WRONGTYPE it is a set"));
        assert_eq!(error_of(&Value::Array(vec![ok(), ok()])), None);
    }
}
