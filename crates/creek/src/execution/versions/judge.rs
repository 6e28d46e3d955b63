//! Judge of the causes of revised responses, for tests. It lists the versions that an operation
//! reads whenever a client gets a response, and compares the lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use solera_random::Random;

use super::Versions;
use super::tests::Mix;
use crate::execution::store::{Name, Version};
use crate::ids::OperationId;
use crate::order::OrderPlace;

/// A version: whether it sets the register, and its number.
type Change = (bool, Option<u64>);

/// Versions of a register by their writers, each with its place.
type View = BTreeMap<OperationId, (OrderPlace, Change)>;

/// What an operation reads of each register.
type Views = BTreeMap<Name, (Option<u64>, View)>;

/// Final operations with what they have written, in order.
pub(super) type Finals = Vec<(OperationId, BTreeMap<Name, Change>)>;

/// What a client has got.
struct Seen {
    response: Option<Result<u64, u64>>,
    views: Views,
    /// Number of the last operation then.
    last: u64,
}

/// Lets clients get responses, and judges the causes of revised ones.
#[derive(Default)]
pub(super) struct Judge {
    seen: BTreeMap<OrderPlace, Seen>,
    /// Number of causes so far.
    pub(super) revised: u64,
}

impl Judge {
    /// Forgets the operations of a former run.
    pub(super) fn begin(&mut self) {
        self.seen.clear();
    }

    /// In a third of all calls, judges the causes of all responses that differ from those that
    /// clients have got, and lets clients get some responses. Everything must be executed.
    pub(super) fn look(
        &mut self,
        random: &mut Random,
        versions: &mut Versions<Mix>,
        finals: &Finals,
    ) {
        if !random.one_in(3) {
            return;
        }
        let ids = versions.operations.values().map(|it| it.request.id.event);
        let last = ids.chain(finals.iter().map(|(id, _)| id.event)).max().unwrap_or(0);
        let is_tentative = |place: &OrderPlace| matches!(place, OrderPlace::Tentative(_));
        let places: Vec<_> = versions.operations.keys().copied().filter(is_tentative).collect();
        for place in places {
            let executed = versions.operations[&place].executed.as_ref().expect("all are executed");
            let response = executed.response.as_deref().copied();
            let views = views(versions, finals, place);
            let seen = self.seen.get(&place).filter(|seen| seen.response != response);
            if let Some(seen) = seen {
                self.revised += 1;
                seen.judge(versions.cause(place).expect("all changes are known"), &views);
            }
            if random.one_in(2) {
                versions.note_seen(place);
                self.seen.insert(place, Seen { response, views, last });
            }
        }
    }
}

impl Seen {
    fn judge(&self, cause: OperationId, views: &Views) {
        let differing = self.views.iter().filter_map(|(name, (value, view))| {
            let (present, now) = views.get(name)?;
            (present != value).then_some((view, now))
        });
        let differing: Vec<_> = differing.collect();
        let change = |view: &View| view.get(&cause).map(|(_, change)| *change);
        let at = differing.iter().filter(|(view, now)| change(view) != change(now));
        let at = at.filter_map(|(view, now)| now.get(&cause).or_else(|| view.get(&cause)));
        let at = at.map(|(place, _)| *place).min();
        let at = at.unwrap_or_else(|| panic!("{cause} is no cause: {differing:?}"));
        // Operations that have arrived since are causes, too, and must not be earlier.
        for (_, now) in &differing {
            for (id, (place, _)) in now.iter().filter(|(id, _)| id.event > self.last) {
                assert!(at <= *place, "{id} is before {cause}: {differing:?}");
            }
        }
    }
}

/// Returns the versions that an operation reads, the final ones included.
fn views(versions: &Versions<Mix>, finals: &Finals, place: OrderPlace) -> Views {
    let executed = versions.operations[&place].executed.as_ref().expect("all are executed");
    let view = |name: &Name| {
        let present = versions
            .store
            .places_before(name, place)
            .map(|at| (versions.operations[&at].request.id, (at, change(versions, name, at))));
        let positions = (1..).map(OrderPlace::Committed);
        let finals: Vec<_> = finals.iter().zip(positions).collect();
        let finals = finals.into_iter().rev();
        let finals = finals.filter_map(|((id, it), at)| Some((*id, (at, *it.get(name)?))));
        let mut view = View::new();
        for (id, version) in present.chain(finals) {
            view.insert(id, version);
            if version.1.0 {
                break;
            }
        }
        view
    };
    let reads = executed.reads.iter();
    reads.map(|(name, had)| (Arc::clone(name), (had.as_deref().copied(), view(name)))).collect()
}

/// Returns the place of the first operation, and what it has written.
pub(super) fn first_writes(
    versions: &Versions<Mix>,
) -> Option<(OrderPlace, BTreeMap<Name, Change>)> {
    let (place, operation) = versions.operations.first_key_value()?;
    let names = operation.executed.iter().flat_map(|it| it.writes.keys());
    let written = names.map(|name| (Arc::clone(name), change(versions, name, *place)));
    Some((*place, written.collect()))
}

fn change(versions: &Versions<Mix>, name: &Name, place: OrderPlace) -> Change {
    match versions.store.version(name, place).expect("an operation has written it") {
        Version::Set(value) => (true, value.as_deref().copied()),
        Version::Merge(change, _) => (false, Some(*change)),
    }
}
