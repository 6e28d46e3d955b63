//! Scans of a partition in one snapshot, page by page.
//!
//! The cursor of a page consists of a key and an element, so that any page can be requested at any
//! time. The state kept between pages only saves repeated lookups.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use solera_config::Spaces;
use solera_data::{BOUNDS, Key, Outcome, Value};
use solera_machine::{Now, PartitionId};
use solera_time::{Monotonic, Vector};
use solera_unistore::Replica;

/// A page ends at this size. Pages are short because the worker serves nobody else meanwhile.
pub(crate) const PAGE_BYTES: usize = 64 * 1024;
/// A page also ends after this number of keys.
pub(crate) const PAGE_KEYS: usize = 1024;
/// Bytes that a key, an element or a field counts in addition to its length.
pub(crate) const OVERHEAD: usize = 16;
/// Number of keys listed at once. Each list takes one walk over the partition.
const LISTED: usize = 64 * 1024;
/// Time after which unused state of a scan is dropped.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// The beginning of a page: after a key, or within it, after an element or a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The key.
    pub key: Key,
    /// The element or field, if the page begins within the key.
    pub element: Option<Value>,
}

impl Cursor {
    /// Encodes the cursor as opaque bytes for a client to send back.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let element = self.element.as_ref().map(Value::as_bytes);
        let mut bytes = match element {
            None => b"k".to_vec(),
            Some(_) => format!("e{}:", self.key.len()).into_bytes(),
        };
        bytes.extend_from_slice(&self.key);
        bytes.extend_from_slice(element.unwrap_or_default());
        bytes
    }

    /// Decodes the bytes of [`Cursor::encode`]. Returns `None` for other bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Cursor> {
        let (first, rest) = bytes.split_first()?;
        match first {
            b'k' => Some(Cursor { key: rest.into(), element: None }),
            b'e' => {
                let colon = rest.iter().position(|byte| *byte == b':')?;
                let length: usize = std::str::from_utf8(&rest[..colon]).ok()?.parse().ok()?;
                let (key, element) = rest[colon + 1..].split_at_checked(length)?;
                Some(Cursor { key: key.into(), element: Some(element.into()) })
            }
            _ => None,
        }
    }
}

/// A request for a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The partition.
    pub partition: PartitionId,
    /// Snapshot of an open transaction.
    pub snapshot: Vector,
    /// Beginning of the page; `None` for the first page.
    pub from: Option<Cursor>,
}

/// A page of a scan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// Keys and their contents. A large set or hash comes in parts, which follow one another.
    pub entries: Vec<(Key, Outcome)>,
    /// Beginning of the next page, if there is one.
    pub next: Option<Cursor>,
}

impl Page {
    /// Returns whether the entries are of the types that pages hold. A page from another node may
    /// contain anything.
    pub fn is_sound(&self) -> bool {
        self.entries.iter().all(|(_, content)| {
            matches!(content, Outcome::Bulk(_) | Outcome::Members(_) | Outcome::Pairs(_))
        })
    }
}

/// State that a worker keeps between the pages of the latest scan.
#[derive(Debug, Default)]
pub struct Scans {
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    partition: PartitionId,
    snapshot: Vector,
    /// The last key that was sent or looked at.
    after: Option<Key>,
    /// Keys after it; not all of them if `more` is set.
    keys: VecDeque<Key>,
    more: bool,
    /// Content of `after`, while not all of it is sent.
    whole: Option<Outcome>,
    used: Monotonic,
}

impl Scans {
    /// Returns the next page of a partition of the replica, without the keys that are of no use in
    /// another cluster. Returns `None` while the replica does
    /// not have all of the snapshot.
    pub fn page(
        &mut self,
        replica: &mut Replica,
        spaces: &Spaces,
        now: Now,
        ask: &Ask,
    ) -> Option<Page> {
        if !replica.covers(now, &ask.snapshot) {
            return None;
        }
        let mut kept = match self.kept.take() {
            Some(kept) if kept.is_at(ask) => kept,
            _ => Kept::at(ask, replica),
        };
        let read = |replica: &Replica, key: &Key| {
            let is_data = !key.as_bytes().starts_with(BOUNDS.as_bytes());
            is_data.then(|| replica.content(&ask.snapshot, spaces.level_of(key), key)).flatten()
        };
        let mut page = Page::default();
        let mut room = PAGE_BYTES;
        let whole = kept.whole.take();
        if let Some(Cursor { key, element: Some(element) }) = &ask.from
            && let Some(whole) = whole.or_else(|| read(replica, key))
        {
            page.next = kept.append(&mut page.entries, &mut room, whole, Some(element));
        }
        let mut looked = 0;
        while page.next.is_none() {
            let Some(key) = kept.pop(replica) else { return Some(page) };
            let content = read(replica, &key);
            kept.after = Some(key.clone());
            looked += 1;
            if let Some(content) = content {
                page.next = kept.append(&mut page.entries, &mut room, content, None);
            }
            if page.next.is_none() && (room == 0 || looked == PAGE_KEYS) {
                page.next = Some(Cursor { key, element: None });
            }
        }
        kept.used = now.monotonic;
        self.kept = Some(kept);
        Some(page)
    }

    /// Drops the state of a scan that has not been used for ten seconds.
    pub fn forget_idle(&mut self, now: Monotonic) {
        if self.kept.as_ref().is_some_and(|kept| now.since(kept.used) >= KEPT_FOR) {
            self.kept = None;
        }
    }
}

impl Kept {
    fn at(ask: &Ask, replica: &Replica) -> Kept {
        let after = ask.from.as_ref().map(|cursor| cursor.key.clone());
        let keys = replica.keys_after(ask.partition, after.as_ref(), LISTED);
        Kept {
            partition: ask.partition,
            snapshot: ask.snapshot,
            after,
            more: keys.len() == LISTED,
            keys: keys.into(),
            whole: None,
            used: Monotonic(0),
        }
    }

    fn is_at(&self, ask: &Ask) -> bool {
        self.partition == ask.partition
            && self.snapshot == ask.snapshot
            && self.after.as_ref() == ask.from.as_ref().map(|cursor| &cursor.key)
    }

    fn pop(&mut self, replica: &Replica) -> Option<Key> {
        if self.keys.is_empty() && self.more {
            let keys = replica.keys_after(self.partition, self.after.as_ref(), LISTED);
            (self.more, self.keys) = (keys.len() == LISTED, keys.into());
        }
        self.keys.pop_front()
    }

    /// Appends the content of the current key after an element, as far as it fits into the page;
    /// the rest follows in later pages. Returns the cursor within the same key if something is
    /// left.
    fn append(
        &mut self,
        entries: &mut Vec<(Key, Outcome)>,
        room: &mut usize,
        content: Outcome,
        after: Option<&Value>,
    ) -> Option<Cursor> {
        let key = self.after.clone()?;
        let (part, last) = part(&content, after, room);
        *room = room.saturating_sub(key.len() + OVERHEAD);
        entries.extend(part.map(|part| (key.clone(), part)));
        let element = Some(last?);
        self.whole = Some(content);
        Some(Cursor { key, element })
    }
}

/// Returns the part of a content for which there is room, but at least one element. If elements
/// remain, it also returns the last element of the part.
pub(crate) fn part(
    content: &Outcome,
    after: Option<&Value>,
    room: &mut usize,
) -> (Option<Outcome>, Option<Value>) {
    let is_sent =
        |element: &Value| after.is_some_and(|after| element.cmp(after) != Ordering::Greater);
    match content {
        Outcome::Members(members) => {
            let rest = &members[members.partition_point(is_sent)..];
            let (part, cut) = fitting(rest, room, |member| member.len());
            let last = part.last().filter(|_| cut).cloned();
            ((!part.is_empty()).then(|| Outcome::Members(part.to_vec())), last)
        }
        Outcome::Pairs(pairs) => {
            let rest = &pairs[pairs.partition_point(|(field, _)| is_sent(field))..];
            let (part, cut) = fitting(rest, room, |(field, value)| field.len() + value.len());
            let last = part.last().filter(|_| cut).map(|(field, _)| field.clone());
            ((!part.is_empty()).then(|| Outcome::Pairs(part.to_vec())), last)
        }
        Outcome::Bulk(value) => {
            *room = room.saturating_sub(value.len());
            (Some(content.clone()), None)
        }
        _ => (None, None),
    }
}

/// Returns the first items for which there is room, but at least one, and whether others follow.
fn fitting<'a, T>(items: &'a [T], room: &mut usize, size: impl Fn(&T) -> usize) -> (&'a [T], bool) {
    let mut count = 0;
    while count < items.len() && (count == 0 || *room > 0) {
        *room = room.saturating_sub(size(&items[count]) + OVERHEAD);
        count += 1;
    }
    (&items[..count], count < items.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use solera_data::Op;
    use solera_levels::Level;
    use solera_machine::{Address, Topology};
    use solera_time::{Physical, SiteId};
    use solera_unistore::{Config, Pasts};

    use super::*;

    #[test]
    fn cursors_are_decoded_and_other_bytes_rejected() {
        for (key, element) in [("", None), ("k", None), ("a:b", Some("")), ("", Some("e:1"))] {
            let element = element.map(Value::from);
            let cursor = Cursor { key: key.into(), element };
            assert_eq!(Cursor::decode(&cursor.encode()), Some(cursor));
        }
        for bytes in ["", "0", "e", "e:", "ex:k", "e3:ab", "e-1:ab", "e99999999999999999999:k"] {
            assert_eq!(Cursor::decode(bytes.as_bytes()), None, "{bytes}");
        }
    }

    fn now(ms: u64) -> Now {
        Now { monotonic: Monotonic(ms * 1_000_000), physical: Physical(1_800_000_000_000_000) }
    }

    /// Creates a replica with more keys than a page may look at, and keys that do not fit into a
    /// page.
    fn replica() -> Replica {
        let topology = Arc::new(Topology { partitions: 1, workers: vec![1] });
        let mut replica =
            Replica::new(Config::new(Address { site: SiteId(0), worker: 0 }, topology), 1);
        let long = |i: usize| Value::from(format!("{i:0100}").as_str());
        let mut run = |key: &str, op: Op| {
            let pasts = &mut Pasts::none(1);
            let done =
                replica.execute_at_once(now(1), pasts, Level::Causal, key.as_bytes(), &op).unwrap();
            done.unwrap();
        };
        for i in 0..2 * PAGE_KEYS {
            run(&format!("k{i}"), Op::Set(long(i)));
        }
        run("set", Op::SetAdd((0..2000).map(long).collect()));
        run("hash", Op::HashSet((0..2000).map(|i| (long(i), long(i))).collect()));
        run("huge", Op::Set(Value::from(vec![b'x'; 3 * PAGE_BYTES])));
        replica
    }

    /// Reads all pages. The kept state is dropped before the pages for which `forgets` returns
    /// true.
    fn pages(replica: &mut Replica, forgets: impl Fn(usize) -> bool) -> Vec<Page> {
        let (mut scans, mut pages) = (Scans::default(), Vec::<Page>::new());
        loop {
            let from = pages.last().map(|page| page.next.clone().unwrap());
            let snapshot = Vector::top(1);
            let ask = Ask { partition: PartitionId(0), snapshot, from };
            if forgets(pages.len()) {
                scans.forget_idle(now(1_000_000).monotonic);
                assert!(scans.kept.is_none());
            }
            let page = scans.page(replica, &Spaces::default(), now(2), &ask).unwrap();
            pages.push(page);
            if pages.last().is_some_and(|page| page.next.is_none()) {
                assert!(scans.kept.is_none(), "nothing is kept after the end");
                return pages;
            }
        }
    }

    #[test]
    fn pages_are_short_and_together_hold_everything_once() {
        let mut replica = replica();
        let pages = pages(&mut replica, |_| false);
        let size = |outcome: &Outcome| match outcome {
            Outcome::Members(members) => members.iter().map(|member| member.len()).sum(),
            Outcome::Pairs(pairs) => pairs.iter().map(|(a, b)| a.len() + b.len()).sum(),
            Outcome::Bulk(value) => value.len(),
            other => panic!("{other:?}"),
        };
        for page in &pages {
            let sizes: Vec<usize> = page.entries.iter().map(|(_, content)| size(content)).collect();
            let huge = sizes.contains(&(3 * PAGE_BYTES));
            assert!(huge || sizes.iter().sum::<usize>() <= PAGE_BYTES + 200, "{sizes:?}");
        }
        let entries: Vec<_> = pages.iter().flat_map(|page| &page.entries).collect();
        let strings = entries.iter().filter(|(_, content)| matches!(content, Outcome::Bulk(_)));
        assert_eq!(strings.count(), 2 * PAGE_KEYS + 1);
        let (mut members, mut pairs) = (Vec::new(), Vec::new());
        for (_, content) in entries {
            match content {
                Outcome::Members(some) => members.extend(some.clone()),
                Outcome::Pairs(some) => pairs.extend(some.clone()),
                _ => {}
            }
        }
        assert_eq!((members.len(), pairs.len()), (2000, 2000));
        assert!(members.is_sorted_by(|a, b| a < b) && pairs.is_sorted_by(|(a, _), (b, _)| a < b));
    }

    #[test]
    fn a_page_can_be_requested_at_any_time() {
        let mut replica = replica();
        let expected = pages(&mut replica, |_| false);
        assert_eq!(pages(&mut replica, |_| true), expected);
        assert_eq!(pages(&mut replica, |page| page % 3 == 0), expected);
    }
}
