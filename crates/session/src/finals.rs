//! Exports of the speculative space: the final state of its keys at one time, read page by page.
//!
//! The worker that runs the space keeps the state between the pages. It shares the values with the
//! machine, so only values that change meanwhile take additional memory.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use solera_creek::{Divergence, Past, Registers};
use solera_data::{Key, Outcome, Value};
use solera_procedures::{KeyValue, is_key};
use solera_time::Monotonic;

use crate::scan::{OVERHEAD, PAGE_BYTES, PAGE_KEYS, part};

/// Most exports of a worker at a time.
const MOST: usize = 4;

/// A step of an export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FinalStep {
    /// Begins an export of the state after the final operations.
    Begin {
        /// Number of the export.
        id: u64,
        /// Time after which the worker drops it.
        lasts: Duration,
        /// Operations that the site had delivered when the client asked for the export.
        past: Past,
    },
    /// Returns the next page. Each page is returned once.
    Page {
        /// The export.
        id: u64,
        /// Number of the page, from 0.
        number: u64,
    },
    /// Ends an export.
    End {
        /// The export.
        id: u64,
    },
}

/// The answer to a [`FinalStep`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FinalAnswer {
    /// The export has begun.
    Begun(FinalState),
    /// Keys with their contents, and whether more follow. A large set or hash comes in parts, which
    /// follow one another.
    Page(Vec<(Key, Outcome)>, bool),
    /// The export has ended.
    Ended,
    /// There is no such export, or no such page of it: it took too long, or the worker has
    /// restarted.
    Gone,
    /// Too many exports are open.
    TooMany,
    /// The results of the site differ from those of so many others that it gives none.
    Diverged(Divergence),
}

/// The state of the space that an export contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalState {
    /// Number of final operations, whose effects the export contains.
    pub finals: u64,
    /// Digest of these operations and their results.
    pub digest: u64,
    /// Number of operations that may have changed something, that the site had delivered when the
    /// client asked for the export, and that are not final.
    pub left_out: u64,
}

/// The exports of a worker.
#[derive(Debug, Default)]
pub struct FinalExports {
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    /// Registers that are left.
    left: Registers<KeyValue>,
    /// The key whose content is partly sent, its content, and the last element that was sent.
    rest: Option<(Key, Outcome, Value)>,
    /// Number of the next page.
    next: u64,
    ends: Monotonic,
}

impl FinalExports {
    /// Begins an export. Returns whether that is possible.
    pub fn begin(
        &mut self,
        now: Monotonic,
        id: u64,
        lasts: Duration,
        registers: Registers<KeyValue>,
    ) -> bool {
        self.expire(now);
        self.open.remove(&id);
        if self.open.len() >= MOST {
            return false;
        }
        self.open.insert(id, Open { left: registers, rest: None, next: 0, ends: now.after(lasts) });
        true
    }

    /// Returns the next page of an export.
    pub fn page(&mut self, now: Monotonic, id: u64, number: u64) -> FinalAnswer {
        self.expire(now);
        match self.open.get_mut(&id).filter(|open| open.next == number) {
            Some(open) => open.page(),
            None => FinalAnswer::Gone,
        }
    }

    /// Ends an export.
    pub fn end(&mut self, id: u64) {
        self.open.remove(&id);
    }

    /// Drops the exports whose time is over.
    pub fn expire(&mut self, now: Monotonic) {
        self.open.retain(|_, open| now < open.ends);
    }
}

impl Open {
    fn page(&mut self) -> FinalAnswer {
        self.next += 1;
        let (mut entries, mut room, mut keys) = (Vec::new(), PAGE_BYTES, 0);
        while room > 0 && keys < PAGE_KEYS {
            let (key, content, after) = match self.rest.take() {
                Some((key, content, after)) => (key, content, Some(after)),
                None => match self.left.take(1).pop() {
                    Some((name, _)) if !is_key(&name) => continue,
                    Some((name, value)) => match value.content() {
                        Some(content) => (Key::from(name), content, None),
                        None => continue,
                    },
                    None => break,
                },
            };
            keys += 1;
            let (some, last) = part(&content, after.as_ref(), &mut room);
            room = room.saturating_sub(key.len() + OVERHEAD);
            entries.extend(some.map(|some| (key.clone(), some)));
            self.rest = last.map(|last| (key, content, last));
        }
        FinalAnswer::Page(entries, self.rest.is_some() || !self.left.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use solera_data::Op;

    use super::*;

    /// Returns the value that operations create.
    fn value(ops: &[Op]) -> KeyValue {
        let mut value = KeyValue::default();
        for op in ops {
            value.execute(op).unwrap();
        }
        value
    }

    fn text(number: usize) -> Value {
        Value::from(format!("{number:060}").into_bytes())
    }

    fn registers() -> Registers<KeyValue> {
        let strings = (0..2 * PAGE_KEYS).map(|i| (format!("k{i}"), value(&[Op::Set(text(i))])));
        let set = Op::SetAdd((0..3000).map(text).collect());
        let hash = Op::HashSet((0..3000).map(|i| (text(i), text(i))).collect());
        let others = [
            ("set".to_owned(), value(&[set])),
            ("hash".to_owned(), value(&[hash])),
            ("number".to_owned(), value(&[Op::IncrBy(-7)])),
            ("\0solera:module:2:d".to_owned(), value(&[Op::Set(text(0))])),
        ];
        strings.chain(others).map(|(name, value)| (name.into_bytes(), value)).collect()
    }

    const AT: Monotonic = Monotonic(0);
    const LASTS: Duration = Duration::from_secs(1);

    #[test]
    fn pages_are_short_and_together_hold_each_key_once_and_no_module() {
        let mut exports = FinalExports::default();
        assert!(exports.begin(AT, 1, LASTS, registers()));
        let (mut strings, mut members, mut fields) = (BTreeMap::new(), Vec::new(), Vec::new());
        for number in 0.. {
            let FinalAnswer::Page(entries, more) = exports.page(AT, 1, number) else {
                panic!("there is a page {number}")
            };
            let mut size = 0;
            for (key, content) in entries {
                match content {
                    Outcome::Bulk(value) => {
                        size += value.len();
                        assert_eq!(strings.insert(key, value), None);
                    }
                    Outcome::Members(some) => {
                        size += some.iter().map(|it| it.len()).sum::<usize>();
                        members.extend(some);
                    }
                    Outcome::Pairs(some) => {
                        size += some.iter().map(|(a, b)| a.len() + b.len()).sum::<usize>();
                        fields.extend(some);
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!(size <= PAGE_BYTES + 200, "{size}");
            if !more {
                break;
            }
        }
        assert_eq!(strings.len(), 2 * PAGE_KEYS + 1);
        assert_eq!(strings[&Key::from(&b"number"[..])], Value::from(&b"-7"[..]));
        assert_eq!(strings[&Key::from(&b"k3"[..])], text(3));
        assert_eq!(members, (0..3000).map(text).collect::<Vec<_>>());
        assert_eq!(fields, (0..3000).map(|i| (text(i), text(i))).collect::<Vec<_>>());
    }

    #[test]
    fn an_export_has_each_page_once_and_ends() {
        let mut exports = FinalExports::default();
        assert_eq!(exports.page(AT, 1, 0), FinalAnswer::Gone);
        assert!(exports.begin(AT, 1, LASTS, registers()));
        assert_eq!(exports.page(AT, 1, 1), FinalAnswer::Gone, "it is not the next one");
        assert!(matches!(exports.page(AT, 1, 0), FinalAnswer::Page(_, true)));
        assert_eq!(exports.page(AT, 1, 0), FinalAnswer::Gone, "it was lost");
        for id in 2..=4 {
            assert!(exports.begin(AT, id, LASTS, registers()));
        }
        assert!(!exports.begin(AT, 5, LASTS, registers()), "there are four");
        exports.end(2);
        assert!(exports.begin(AT, 5, LASTS, registers()));
        let later = AT.after(LASTS);
        assert_eq!(exports.page(later, 1, 1), FinalAnswer::Gone, "its time is over");
        assert!(exports.open.is_empty());
    }
}
