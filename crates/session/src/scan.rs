//! Going through a partition in one snapshot, page by page.
//!
//! A page says where the next one begins, in terms of keys and elements, so that any page can be
//! asked for at any time. What is kept between pages only spares looking again.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use solera_config::Spaces;
use solera_data::{Key, Outcome, Value};
use solera_machine::{Now, PartitionId};
use solera_time::{Monotonic, Vector};
use solera_unistore::Replica;

/// A page ends when it has so many bytes. It is short, because nobody else is served meanwhile.
const PAGE_BYTES: usize = 64 * 1024;
/// Or when so many keys were looked at.
const PAGE_KEYS: usize = 1024;
/// What a key, an element or a field counts beside its bytes.
const OVERHEAD: usize = 16;
/// So many keys are listed at once: one walk over the partition for each so many.
const LISTED: usize = 64 * 1024;
/// What nobody has asked for in so long is not kept.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Where a page begins: after a key, or in the middle of it, after an element or a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The key.
    pub key: Key,
    /// The element or field, if the page begins within the key.
    pub element: Option<Value>,
}

impl Cursor {
    /// Some bytes for a client to give back.
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

    /// The inverse; `None` for what it never yields.
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

/// A page that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The partition.
    pub partition: PartitionId,
    /// That of an open transaction.
    pub snapshot: Vector,
    /// Nothing is the beginning.
    pub from: Option<Cursor>,
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// Keys and what they hold. A large set or hash comes in parts, which follow one another.
    pub entries: Vec<(Key, Outcome)>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

impl Page {
    /// Whether it holds what pages hold. One of another node may be anything.
    pub fn is_sound(&self) -> bool {
        self.entries.iter().all(|(_, content)| {
            matches!(content, Outcome::Bulk(_) | Outcome::Members(_) | Outcome::Pairs(_))
        })
    }
}

/// What a worker keeps between the pages of a scan; of the latest only.
#[derive(Debug, Default)]
pub struct Scans {
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    partition: PartitionId,
    snapshot: Vector,
    /// The key that was last told of, or looked at.
    after: Option<Key>,
    /// The keys after it; not all if `more`.
    keys: VecDeque<Key>,
    more: bool,
    /// What `after` holds, while not all of that is told.
    whole: Option<Outcome>,
    used: Monotonic,
}

impl Scans {
    /// The next page of a partition of the replica's. `None` while the replica does not have all of
    /// the snapshot.
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
            replica.content(&ask.snapshot, spaces.level_of(key), key)
        };
        let mut page = Page::default();
        let mut room = PAGE_BYTES;
        let whole = kept.whole.take();
        if let Some(Cursor { key, element: Some(element) }) = &ask.from
            && let Some(whole) = whole.or_else(|| read(replica, key))
        {
            page.next = kept.tell(&mut page.entries, &mut room, whole, Some(element));
        }
        let mut looked = 0;
        while page.next.is_none() {
            let Some(key) = kept.pop(replica) else { return Some(page) };
            let content = read(replica, &key);
            kept.after = Some(key.clone());
            looked += 1;
            if let Some(content) = content {
                page.next = kept.tell(&mut page.entries, &mut room, content, None);
            }
            if page.next.is_none() && (room == 0 || looked == PAGE_KEYS) {
                page.next = Some(Cursor { key, element: None });
            }
        }
        kept.used = now.monotonic;
        self.kept = Some(kept);
        Some(page)
    }

    /// Drops what nobody seems to come back for.
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

    /// Adds what the current key holds after an element, as far as there is room; what does not fit
    /// into a page is told in parts. Returns where to go on with the same key, if not all is told.
    fn tell(
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

/// As much of a content as there is room for, at least one element, and the last element if that is
/// not the end.
fn part(
    content: &Outcome,
    after: Option<&Value>,
    room: &mut usize,
) -> (Option<Outcome>, Option<Value>) {
    let is_told =
        |element: &Value| after.is_some_and(|after| element.cmp(after) != Ordering::Greater);
    match content {
        Outcome::Members(members) => {
            let rest = &members[members.partition_point(is_told)..];
            let (part, cut) = fitting(rest, room, |member| member.len());
            let last = part.last().filter(|_| cut).cloned();
            ((!part.is_empty()).then(|| Outcome::Members(part.to_vec())), last)
        }
        Outcome::Pairs(pairs) => {
            let rest = &pairs[pairs.partition_point(|(field, _)| is_told(field))..];
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

/// The first items for which there is room, at least one, and whether others follow.
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
    fn cursors_are_read_back_and_others_refused() {
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

    /// More keys than a page may look at, and keys that do not fit into a page.
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

    /// All pages; what is kept between them is dropped before those that `forgets` says.
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
    fn a_page_can_be_asked_for_at_any_time() {
        let mut replica = replica();
        let expected = pages(&mut replica, |_| false);
        assert_eq!(pages(&mut replica, |_| true), expected);
        assert_eq!(pages(&mut replica, |page| page % 3 == 0), expected);
    }
}
