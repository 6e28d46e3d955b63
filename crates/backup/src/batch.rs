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

type Words = Vec<Vec<u8>>;

/// Entries to restore.
pub(crate) struct Batch {
    /// Whether the cluster may hold keys already.
    replaces: bool,
    commands: Vec<Words>,
    /// Commands that set a key of level `pcpsi`. Such a key is written at its home, so these are
    /// written many at a time.
    together: Vec<Words>,
    /// Keys of type `counter`, which only increments and decrements change, and their values.
    counters: Vec<(Vec<u8>, i64)>,
    bytes: usize,
}

impl Batch {
    /// Creates an empty batch. `replaces` is whether the cluster may hold keys already.
    pub(crate) fn new(replaces: bool) -> Batch {
        let (commands, together, counters) = (Vec::new(), Vec::new(), Vec::new());
        Batch { replaces, commands, together, counters, bytes: 0 }
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
        for command in commands(entry) {
            self.bytes += command.iter().map(Vec::len).sum::<usize>();
            match is_of_occult && command[0] == b"SET" {
                true => self.together.push(command),
                false => self.commands.push(command),
            }
        }
    }

    /// Returns whether the batch should be sent before more is added.
    pub(crate) fn is_full(&self) -> bool {
        let count = self.commands.len() + self.together.len() + self.counters.len();
        count >= BATCH_COMMANDS || self.bytes >= BATCH_BYTES
    }

    /// Sends everything, and empties the batch.
    ///
    /// # Errors
    /// The cluster rejects a command, or is lost. A part of the batch may be restored.
    pub(crate) async fn send(&mut self, client: &mut Client) -> Result<(), ScanError> {
        let Batch { commands, together, counters, .. } =
            std::mem::replace(self, Batch::new(self.replaces));
        let mut all = commands;
        all.extend(joined(together));
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

/// Runs commands, and returns their replies.
///
/// # Errors
/// A command fails, or the cluster is lost.
async fn run(client: &mut Client, commands: &[Words]) -> Result<Vec<Value>, ScanError> {
    let borrowed: Vec<Vec<&[u8]>> =
        commands.iter().map(|command| command.iter().map(Vec::as_slice).collect()).collect();
    let replies = client.pipeline(&borrowed).await?;
    for reply in &replies {
        if let Value::Error(text) = reply {
            return Err(Error::server(text).into());
        }
    }
    Ok(replies)
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
}
