//! Multiversion execution (Creek §4.4): an operation is executed again only if something that it
//! has read is not what it would read now.
//!
//! Each write of an operation that is not final creates a version of a register, at the place of
//! the operation in the order. An operation reads, of each register, the last version before its
//! place. It records what it has read. When versions appear, change, disappear or move, the
//! operations that have read the register after them are compared with what they would read now.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use solera_machine::Without;

use super::{Executed, Moved, Progress};
use crate::config::Rule;
use crate::object::{Access, Procedures, RegisterKey};
use crate::order::Place;
use crate::registers::Registers;
use crate::request::Request;

/// Name of a register, shared by everything that refers to it.
type Name = Arc<[u8]>;

/// An operation with its former and its present place.
type Relocation<P> = (Place, Place, Arc<Request<<P as Procedures>::Operation>>);

/// Values of registers; `None` for a register without one.
type Values<V> = BTreeMap<Name, Option<V>>;

/// The operations that are not final, with what they have read and written.
#[derive(Debug)]
pub(crate) struct Versions<P: Procedures> {
    /// Registers after the final operations.
    base: Registers<Name, P::Value>,
    operations: BTreeMap<Place, Operation<P>>,
    registers: BTreeMap<Name, Register<P::Value>>,
    /// Places of operations that must be executed, for the first time or again.
    stale: BTreeSet<Place>,
    /// The rule that a test takes out.
    without: Without<Rule>,
}

#[derive(Debug)]
struct Operation<P: Procedures> {
    request: Arc<Request<P::Operation>>,
    /// The last execution.
    executed: Option<Execution<P>>,
}

/// An execution of an operation.
#[derive(Debug)]
struct Execution<P: Procedures> {
    response: Option<Arc<P::Response>>,
    /// What it has read of other operations.
    reads: Values<P::Value>,
    /// What it has written.
    writes: BTreeSet<Name>,
}

/// Versions of a register that are not final, and the operations that have read it.
#[derive(Debug)]
struct Register<V> {
    versions: BTreeMap<Place, Option<V>>,
    readers: BTreeSet<Place>,
}

/// Access of an operation to the versions before its place.
struct Snapshot<'a, P: Procedures> {
    versions: &'a Versions<P>,
    place: Place,
    reads: RefCell<Values<P::Value>>,
    writes: Values<P::Value>,
}

impl<V> Default for Register<V> {
    fn default() -> Register<V> {
        Register { versions: BTreeMap::new(), readers: BTreeSet::new() }
    }
}

impl<V> Register<V> {
    /// Returns the last version before a place; `None` if there is none.
    fn before(&self, place: Place) -> Option<&Option<V>> {
        self.versions.range(..place).next_back().map(|(_, value)| value)
    }

    /// Returns the readers that see a version at this place, or would if there was one.
    fn readers_of(&self, place: Place) -> impl Iterator<Item = Place> + '_ {
        let after = (Bound::Excluded(place), Bound::Unbounded);
        let next = self.versions.range(after).next().map(|(next, _)| *next);
        // The operation that writes the next version reads this one.
        self.readers
            .range(after)
            .copied()
            .take_while(move |reader| next.is_none_or(|it| *reader <= it))
    }
}

impl<P: Procedures> Access<P::Value> for Snapshot<'_, P> {
    fn read(&self, key: &[u8]) -> Option<P::Value> {
        if let Some(value) = self.writes.get(key).or(self.reads.borrow().get(key)) {
            return value.clone();
        }
        let value = self.versions.read(key, self.place);
        self.reads.borrow_mut().insert(self.versions.name(key), value.clone());
        value
    }

    fn write(&mut self, key: &[u8], value: Option<P::Value>) {
        let name = self.versions.name(key);
        self.writes.insert(name, value);
    }
}

impl<P: Procedures> Versions<P> {
    pub(crate) fn new(without: Without<Rule>) -> Versions<P> {
        Versions {
            base: Registers::new(),
            operations: BTreeMap::new(),
            registers: BTreeMap::new(),
            stale: BTreeSet::new(),
            without,
        }
    }

    /// Returns the shared name of a register.
    fn name(&self, key: &[u8]) -> Name {
        let known = self.registers.get_key_value(key).map(|(name, _)| name);
        let known = known.or_else(|| self.base.values().get_key_value(key).map(|(name, _)| name));
        known.map_or_else(|| Arc::from(key), Arc::clone)
    }

    /// Returns what an operation at a place reads of a register.
    fn read(&self, key: &[u8], place: Place) -> Option<P::Value> {
        match self.registers.get(key).and_then(|register| register.before(place)) {
            Some(version) => version.clone(),
            None => self.base.values().get(key).cloned(),
        }
    }

    /// Adds an operation. Returns whether the operation after it was executed.
    pub(crate) fn insert(&mut self, place: Place, request: Arc<Request<P::Operation>>) -> bool {
        self.operations.insert(place, Operation { request, executed: None });
        self.stale.insert(place);
        let mut after = self.operations.range((Bound::Excluded(place), Bound::Unbounded));
        after.next().is_some_and(|(_, operation)| operation.executed.is_some())
    }

    /// Moves operations to other places, in this order. The new places are before those of all
    /// operations that do not move, and after those of committed ones. An operation that has no
    /// place yet gets one.
    pub(crate) fn relocate(&mut self, moves: &[Relocation<P>]) -> Moved {
        let mut affected: BTreeSet<(Place, Name)> = BTreeSet::new();
        let mut moved = Moved::Nothing;
        for (from, to, request) in moves {
            let Some(operation) = self.operations.remove(from) else {
                self.insert(*to, Arc::clone(request));
                continue;
            };
            // If nothing lies between the places, everybody reads what it has read.
            let between = (Bound::Excluded(*to), Bound::Excluded(*from));
            let jumps = self.operations.range(between).next().is_some();
            if self.stale.remove(from) {
                self.stale.insert(*to);
            }
            if operation.executed.is_some() {
                moved =
                    if jumps || moved == Moved::Reordered { Moved::Reordered } else { Moved::Kept };
            }
            if let Some(executed) = &operation.executed {
                let affected = jumps.then_some(&mut affected);
                self.move_execution(executed, (*from, *to), affected);
            }
            self.operations.insert(*to, operation);
            // Readers that are listed by a former place are listed again by the present one.
            let former = affected.range((*from, Arc::from([].as_slice()))..);
            let former = former.take_while(|(reader, _)| reader == from);
            for (_, name) in former.cloned().collect::<Vec<_>>() {
                affected.remove(&(*from, Arc::clone(&name)));
                affected.insert((*to, name));
            }
        }
        if self.without.keeps(Rule::ValidateMoves) {
            affected.into_iter().for_each(|(reader, name)| self.check(reader, &name));
        }
        moved
    }

    /// Moves the versions and reads of an execution to another place. Adds to `affected` who may
    /// read another value of which register then.
    fn move_execution(
        &mut self,
        executed: &Execution<P>,
        (from, to): (Place, Place),
        mut affected: Option<&mut BTreeSet<(Place, Name)>>,
    ) {
        for name in &executed.writes {
            let Some(register) = self.registers.get_mut(name) else { continue };
            if let Some(affected) = &mut affected {
                affected.extend(register.readers_of(from).map(|it| (it, Arc::clone(name))));
            }
            if let Some(version) = register.versions.remove(&from) {
                register.versions.insert(to, version);
            }
            if let Some(affected) = &mut affected {
                affected.extend(register.readers_of(to).map(|it| (it, Arc::clone(name))));
            }
        }
        for name in executed.reads.keys() {
            let Some(register) = self.registers.get_mut(name) else { continue };
            register.readers.remove(&from);
            register.readers.insert(to);
            if let Some(affected) = &mut affected {
                affected.insert((to, Arc::clone(name)));
            }
        }
    }

    /// Marks an operation as stale if it would read another value of a register now.
    fn check(&mut self, place: Place, name: &Name) {
        let executed = self.operations.get(&place).and_then(|it| it.executed.as_ref());
        let Some(had) = executed.and_then(|executed| executed.reads.get(name)) else { return };
        let counts = had.is_some() || self.without.keeps(Rule::ValidateAbsence);
        if counts && *had != self.read(name, place) {
            self.stale.insert(place);
        }
    }

    /// Executes the first stale operation.
    pub(crate) fn step(&mut self, procedures: &P) -> Progress<P> {
        let Some(place) = self.stale.pop_first() else { return Progress::Idle };
        let operation = &self.operations[&place];
        let request = Arc::clone(&operation.request);
        let (response, reads, writes) = match &request.operation {
            Some(operation) => {
                let (response, reads, writes) = self.execute(procedures, place, operation);
                (Some(Arc::new(response)), reads, writes)
            }
            None => (None, Values::new(), Values::new()),
        };
        let before = self.operations.get_mut(&place).and_then(|it| it.executed.take());
        let again = before.is_some();
        let (had_read, had_written) =
            before.map_or_else(Default::default, |before| (before.reads, before.writes));
        for name in had_read.keys().filter(|name| !reads.contains_key(*name)) {
            self.change_register(name, |register| {
                register.readers.remove(&place);
            });
        }
        for name in reads.keys() {
            self.registers.entry(Arc::clone(name)).or_default().readers.insert(place);
        }
        let written: BTreeSet<Name> = writes.keys().cloned().collect();
        for name in had_written.difference(&written) {
            self.change_version(place, name, None);
        }
        for (name, value) in writes {
            self.change_version(place, &name, Some(value));
        }
        if let Some(operation) = self.operations.get_mut(&place) {
            let response = response.clone();
            operation.executed = Some(Execution { response, reads, writes: written });
        }
        Progress::Executed { request, response, again }
    }

    /// Executes an operation on the versions before a place.
    fn execute(
        &self,
        procedures: &P,
        place: Place,
        operation: &P::Operation,
    ) -> (P::Response, Values<P::Value>, Values<P::Value>) {
        let (reads, writes) = (RefCell::default(), BTreeMap::new());
        let mut snapshot = Snapshot { versions: self, place, reads, writes };
        let response = procedures.execute(operation, &mut snapshot);
        (response, snapshot.reads.into_inner(), snapshot.writes)
    }

    /// Sets or removes the version that an operation has written, and checks those that read it.
    fn change_version(&mut self, place: Place, name: &Name, value: Option<Option<P::Value>>) {
        let register = self.registers.entry(Arc::clone(name)).or_default();
        if register.versions.get(&place) == value.as_ref() {
            return;
        }
        match value {
            Some(value) => register.versions.insert(place, value),
            None => register.versions.remove(&place),
        };
        let readers: Vec<Place> = register.readers_of(place).collect();
        if self.without.keeps(Rule::ValidateWrites) {
            readers.into_iter().for_each(|reader| self.check(reader, name));
        }
        self.change_register(name, |_| ());
    }

    /// Changes a register, and forgets it if nothing refers to it any more.
    fn change_register(&mut self, name: &Name, change: impl FnOnce(&mut Register<P::Value>)) {
        let Some(register) = self.registers.get_mut(name) else { return };
        change(register);
        if register.versions.is_empty() && register.readers.is_empty() {
            self.registers.remove(name);
        }
    }

    /// Returns whether nothing is stale.
    pub(crate) fn is_idle(&self) -> bool {
        self.stale.is_empty()
    }

    /// Makes the first operation final, and returns its request and response. Returns `None` if it
    /// is stale. It must be committed.
    pub(crate) fn take_first(&mut self) -> Option<Executed<P>> {
        let (place, _) = self.operations.first_key_value()?;
        if self.stale.contains(place) {
            return None;
        }
        let (place, operation) = self.operations.pop_first()?;
        let executed = operation.executed?;
        for name in executed.reads.keys() {
            self.change_register(name, |register| {
                register.readers.remove(&place);
            });
        }
        // Every other operation comes later, and reads of the base what it read of the version.
        for name in &executed.writes {
            let version = self.registers.get_mut(name).and_then(|it| it.versions.remove(&place));
            match version {
                Some(Some(value)) => drop(self.base.insert(Arc::clone(name), value)),
                Some(None) => drop(self.base.remove(name)),
                None => {}
            }
            self.change_register(name, |_| ());
        }
        Some((operation.request, executed.response))
    }

    /// Executes an operation that only reads after all others. Nothing may be stale.
    pub(crate) fn last(&self, procedures: &P, operation: &P::Operation) -> P::Response {
        self.execute(procedures, Place::End, operation).0
    }

    /// Returns the registers after the final operations.
    pub(crate) fn final_registers(&self) -> Vec<(RegisterKey, P::Value)> {
        self.base.values().iter().map(|(name, value)| (name.to_vec(), value.clone())).collect()
    }

    /// Returns the number of registers after the final operations, and their bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.base.values().len(), self.base.bytes())
    }

    /// Sets a register of the state after the final operations. No operation may be there.
    pub(crate) fn restore(&mut self, key: RegisterKey, value: P::Value) {
        self.base.insert(Arc::from(key), value);
    }
}

#[cfg(test)]
mod tests {
    use solera_random::Random;
    use solera_time::{SiteId, Timestamp};

    use super::*;
    use crate::context::Context;
    use crate::ids::OperationId;
    use crate::order::Order;

    /// Reads registers, and writes a number that depends on what was read to others, or removes
    /// them. Fails, without a write, if the sum of what was read is a multiple of five.
    #[derive(Debug)]
    struct Mix;

    impl Procedures for Mix {
        type Operation = (Vec<u8>, Vec<u8>, u64);
        type Value = u64;
        type Response = Result<u64, u64>;

        fn execute(
            &self,
            (reads, writes, number): &Self::Operation,
            registers: &mut dyn Access<u64>,
        ) -> Self::Response {
            let read = |key: &u8| registers.read(&[*key]).unwrap_or(3);
            let sum = reads.iter().map(read).sum::<u64>();
            if !reads.is_empty() && sum % 5 == 0 {
                return Err(sum);
            }
            for key in writes {
                let value = (sum + number) % 7;
                registers.write(&[*key], (value > 0).then_some(value));
            }
            Ok(sum)
        }

        fn is_read_only(&self, (_, writes, _): &Self::Operation) -> bool {
            writes.is_empty()
        }
    }

    type OneRequest = Arc<Request<<Mix as Procedures>::Operation>>;
    type Requests = Vec<OneRequest>;

    /// Executes operations in order. Returns their responses and the registers after them.
    fn run(base: &BTreeMap<Vec<u8>, u64>, order: &Requests) -> (Vec<Result<u64, u64>>, Base) {
        struct Plain(Base);
        impl Access<u64> for Plain {
            fn read(&self, key: &[u8]) -> Option<u64> {
                self.0.get(key).copied()
            }
            fn write(&mut self, key: &[u8], value: Option<u64>) {
                match value {
                    Some(value) => self.0.insert(key.to_vec(), value),
                    None => self.0.remove(key),
                };
            }
        }
        let mut plain = Plain(base.clone());
        let operations = order.iter().filter_map(|request| request.operation.as_ref());
        let responses = operations.map(|it| Mix.execute(it, &mut plain)).collect();
        (responses, plain.0)
    }

    type Base = BTreeMap<Vec<u8>, u64>;

    fn request(random: &mut Random, event: u64, keys: u64) -> OneRequest {
        let id = OperationId { site: SiteId(0), run: 1, event };
        let some = |random: &mut Random| -> Vec<u8> {
            (0..random.below(3)).map(|_| random.below(keys) as u8).collect()
        };
        let operation = (some(random), some(random), random.below(50));
        let timestamp = Timestamp(event + random.below(12));
        let operation = (random.below(9) > 0).then_some(operation);
        Arc::new(Request {
            id,
            timestamp,
            operation,
            context: Context::default(),
            cast: None,
            previous: None,
        })
    }

    /// Changes an order at random, and compares the last responses with a sequential execution of
    /// the order that it has become. Returns the number of executions, and of operations that would
    /// have been executed again if all after a change were.
    fn compare(seed: u64) -> (u64, u64) {
        let mut random = Random::new(seed);
        let (mut order, mut versions) = (Order::new(), Versions::<Mix>::new(Without::default()));
        let mut base = Base::new();
        let mut last: BTreeMap<OperationId, Result<u64, u64>> = BTreeMap::new();
        let (mut executions, mut literal) = (0, 0);
        let keys = 1 + random.below(12);
        for event in 1..60 {
            let tentative: Requests = order.tentative().cloned().collect();
            match random.below(10) {
                0 if !tentative.is_empty() => {
                    let request = &tentative[random.index(tentative.len())];
                    let context = random.draw();
                    let commit = order.commit(request, |id| context >> (id.event % 64) & 1 == 1);
                    literal += commit.changed.map_or(0, |_| tentative.len() as u64);
                    versions.relocate(&commit.moved);
                }
                1 => {
                    while !order.committed().is_empty()
                        && let Some((request, response)) = versions.take_first()
                    {
                        assert_eq!(order.make_final().map(|it| it.id), Some(request.id));
                        let (responses, after) = run(&base, &vec![Arc::clone(&request)]);
                        assert_eq!(response.as_deref(), responses.first(), "seed {seed}");
                        base = after;
                        last.remove(&request.id);
                    }
                    let registers: Base = versions.final_registers().into_iter().collect();
                    assert_eq!(registers, base, "seed {seed}");
                }
                _ => {
                    let request = request(&mut random, event, keys);
                    let place = order.insert(Arc::clone(&request));
                    literal += 1 + order.tentative_after(&request).count() as u64;
                    versions.insert(place, request);
                }
            }
            let rests = random.one_in(3);
            let mut steps = if rests { usize::MAX } else { random.index(6) };
            while steps > 0
                && let Progress::Executed { request, response, .. } = versions.step(&Mix)
            {
                steps -= 1;
                executions += 1;
                last.extend(response.map(|response| (request.id, *response)));
            }
            if rests {
                assert!(versions.is_idle());
                let all = order.committed().iter().chain(order.tentative());
                let all: Requests = all.filter(|it| it.operation.is_some()).cloned().collect();
                let (responses, after) = run(&base, &all);
                let found: Vec<_> = all.iter().map(|request| last[&request.id]).collect();
                assert_eq!(found, responses, "seed {seed}");
                for key in 0..keys as u8 {
                    let read = versions.last(&Mix, &(vec![key], vec![], 0));
                    let value = after.get(&[key][..]).copied().unwrap_or(3);
                    assert_eq!(read.unwrap_or_else(|sum| sum), value, "seed {seed}");
                }
            }
        }
        let kept = versions.registers.values().filter(|it| !it.versions.is_empty());
        let written = versions.operations.values().filter_map(|it| it.executed.as_ref());
        let written: BTreeSet<&Name> = written.flat_map(|it| &it.writes).collect();
        assert_eq!(kept.count(), written.len(), "versions belong to operations that are not final");
        (executions, literal)
    }

    #[test]
    fn the_last_responses_are_those_of_a_sequential_execution() {
        let (mut executions, mut literal) = (0, 0);
        for seed in 0..3_000 {
            let counts = compare(seed);
            executions += counts.0;
            literal += counts.1;
        }
        assert!(executions * 2 < literal, "{executions} executions instead of {literal}");
    }
}
