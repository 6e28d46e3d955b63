//! Sets of operations as ranges of events, one list of ranges for each stream.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{OperationId, StreamId};

/// A set of operations: a dotted version vector (Creek §4.2, Alg. 1 l. 7).
///
/// Its size depends on the number of streams and of gaps in them, not on the number of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    streams: BTreeMap<StreamId, Ranges>,
}

/// Events of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
struct Ranges {
    /// First and last event of each range, in order. Between two ranges lies at least one event
    /// that is in none.
    ranges: Vec<(u64, u64)>,
}

impl Context {
    /// Returns whether the set contains an operation.
    pub fn contains(&self, id: OperationId) -> bool {
        self.streams.get(&id.stream()).is_some_and(|ranges| ranges.contains(id.event))
    }

    /// Adds an operation. Returns whether the set lacked it.
    pub fn insert(&mut self, id: OperationId) -> bool {
        let lacked = !self.contains(id);
        if lacked {
            self.insert_range(id.stream(), id.event, id.event);
        }
        lacked
    }

    /// Adds the events from `first` to `last` of a stream.
    pub fn insert_range(&mut self, stream: StreamId, first: u64, last: u64) {
        if first <= last {
            self.streams.entry(stream).or_default().insert(first, last);
        }
    }

    /// Removes an operation.
    pub fn remove(&mut self, id: OperationId) {
        if let Some(ranges) = self.streams.get_mut(&id.stream()) {
            ranges.remove(id.event);
            if ranges.ranges.is_empty() {
                self.streams.remove(&id.stream());
            }
        }
    }

    /// Adds all operations of another set.
    pub fn union(&mut self, other: &Context) {
        for (stream, ranges) in &other.streams {
            let mine = self.streams.entry(*stream).or_default();
            ranges.ranges.iter().for_each(|(first, last)| mine.insert(*first, *last));
        }
    }

    /// Returns an operation of `other` that this set lacks; `None` if `other` is a subset.
    pub fn first_missing(&self, other: &Context) -> Option<OperationId> {
        other.streams.iter().find_map(|(stream, theirs)| {
            let event = match self.streams.get(stream) {
                Some(mine) => mine.first_missing(theirs),
                None => theirs.ranges.first().map(|(first, _)| *first),
            };
            event.map(|event| stream.at(event))
        })
    }

    /// Returns whether this set contains all operations of `other`.
    pub fn covers(&self, other: &Context) -> bool {
        self.first_missing(other).is_none()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Returns the greatest event of a stream.
    pub(crate) fn last(&self, stream: StreamId) -> Option<OperationId> {
        let (_, event) = self.streams.get(&stream)?.ranges.last()?;
        Some(stream.at(*event))
    }

    /// Returns the greatest event of each stream, in the order of streams.
    pub fn heads(&self) -> impl Iterator<Item = (StreamId, u64)> + '_ {
        let last = |ranges: &Ranges| ranges.ranges.last().map(|(_, last)| *last);
        self.streams.iter().filter_map(move |(stream, it)| Some((*stream, last(it)?)))
    }
}

impl FromIterator<OperationId> for Context {
    fn from_iter<I: IntoIterator<Item = OperationId>>(ids: I) -> Context {
        let mut context = Context::default();
        ids.into_iter().for_each(|id| {
            context.insert(id);
        });
        context
    }
}

impl Ranges {
    /// Returns the number of ranges that end before `event`.
    fn before(&self, event: u64) -> usize {
        self.ranges.partition_point(|(_, last)| *last < event)
    }

    fn contains(&self, event: u64) -> bool {
        self.ranges.get(self.before(event)).is_some_and(|(first, _)| *first <= event)
    }

    fn insert(&mut self, first: u64, last: u64) {
        // Ranges that overlap the new one or touch it become one with it.
        let from = self.before(first.saturating_sub(1));
        let upto = self.ranges.partition_point(|(start, _)| *start <= last.saturating_add(1));
        let merged = self.ranges[from..upto].iter();
        let all = merged.fold((first, last), |(a, b), (c, d)| (a.min(*c), b.max(*d)));
        self.ranges.splice(from..upto, [all]);
    }

    fn remove(&mut self, event: u64) {
        let at = self.before(event);
        let Some(&(first, last)) = self.ranges.get(at).filter(|(first, _)| *first <= event) else {
            return;
        };
        let left = (first < event).then(|| (first, event - 1));
        let right = (event < last).then(|| (event + 1, last));
        self.ranges.splice(at..=at, left.into_iter().chain(right));
    }

    fn first_missing(&self, other: &Ranges) -> Option<u64> {
        other.ranges.iter().find_map(|(first, last)| {
            let covering = self.ranges.get(self.before(*first)).filter(|(start, _)| start <= first);
            match covering {
                None => Some(*first),
                Some((_, end)) => (end < last).then(|| end + 1),
            }
        })
    }
}

impl From<Ranges> for Vec<(u64, u64)> {
    fn from(ranges: Ranges) -> Vec<(u64, u64)> {
        ranges.ranges
    }
}

/// Rejects lists that are empty, out of order, or have ranges that could be one.
impl TryFrom<Vec<(u64, u64)>> for Ranges {
    type Error = &'static str;

    fn try_from(ranges: Vec<(u64, u64)>) -> Result<Ranges, &'static str> {
        let ordered = ranges.iter().all(|(first, last)| first <= last);
        let apart = ranges.windows(2).all(|pair| pair[0].1.saturating_add(1) < pair[1].0);
        if ranges.is_empty() || !ordered || !apart {
            return Err("ranges of a context are not in order");
        }
        Ok(Ranges { ranges })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use solera_machine::codec;
    use solera_random::Random;
    use solera_time::SiteId;

    use super::*;

    fn random_id(random: &mut Random) -> OperationId {
        let stream = StreamId { site: SiteId(random.below(3) as u8), run: 1 + random.below(2) };
        stream.at(1 + random.below(12))
    }

    fn random_set(random: &mut Random) -> (Context, BTreeSet<OperationId>) {
        let (mut context, mut set) = (Context::default(), BTreeSet::new());
        for _ in 0..random.below(60) {
            let id = random_id(random);
            match random.below(4) {
                0 => {
                    context.remove(id);
                    set.remove(&id);
                }
                1 => {
                    let last = id.event + random.below(4);
                    context.insert_range(id.stream(), id.event, last);
                    set.extend((id.event..=last).map(|event| id.stream().at(event)));
                }
                _ => assert_eq!(context.insert(id), set.insert(id)),
            }
        }
        (context, set)
    }

    fn all_ids() -> impl Iterator<Item = OperationId> {
        let streams = (0..3).flat_map(|site| [1, 2].map(|run| (site, run)));
        streams.flat_map(|(site, run)| {
            (0..20).map(move |event| StreamId { site: SiteId(site), run }.at(event))
        })
    }

    #[test]
    fn contexts_are_sets() {
        for seed in 0..2_000 {
            let mut random = Random::new(seed);
            let (a, model_a) = random_set(&mut random);
            let (b, model_b) = random_set(&mut random);
            assert!(all_ids().all(|id| a.contains(id) == model_a.contains(&id)));
            assert_eq!(a, model_a.iter().copied().collect());
            assert_eq!(a.is_empty(), model_a.is_empty());
            assert_eq!(a.covers(&b), model_a.is_superset(&model_b));
            assert_eq!(a.first_missing(&b), model_b.difference(&model_a).next().copied());
            let mut union = a.clone();
            union.union(&b);
            assert_eq!(union, model_a.union(&model_b).copied().collect());
            let heads: BTreeMap<_, _> = model_a.iter().map(|id| (id.stream(), id.event)).collect();
            assert!(a.heads().eq(heads));
            let mut bytes = Vec::new();
            codec::append(&a, &mut bytes);
            assert_eq!(codec::take::<Context>(&bytes), Some((a, &[][..])));
        }
    }

    #[test]
    fn decoding_rejects_ranges_out_of_order() {
        let valid = vec![(1, 3), (5, u64::MAX)];
        assert!(Ranges::try_from(valid).is_ok());
        for bad in [vec![], vec![(2, 1)], vec![(1, 3), (4, 5)], vec![(5, 6), (1, 2)]] {
            assert!(Ranges::try_from(bad).is_err());
        }
        let mut all = Ranges::try_from(vec![(1, u64::MAX)]).unwrap();
        all.insert(u64::MAX, u64::MAX);
        assert_eq!(all.ranges, [(1, u64::MAX)]);
    }
}
