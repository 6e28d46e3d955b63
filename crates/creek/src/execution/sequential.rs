//! Sequential execution of operations in the current order (Creek Alg. 1 l. 42–47, 58–76).

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Executed, Progress};
use crate::ids::OperationId;
use crate::object::{Procedures, RegisterKey, StateObject, Undo};
use crate::order::Order;
use crate::request::Request;

/// Executed operations that are not final, and the state after them.
#[derive(Debug)]
pub(crate) struct Sequential<P: Procedures> {
    /// State after them (Alg. 1 l. 4).
    object: StateObject<P::Value>,
    /// In the order of their execution (Alg. 1 l. 8, `executed`, then `toBeRolledBack` reversed).
    executed: VecDeque<Execution<P>>,
    /// Number of executed operations that are at their place in the current order. Later ones are
    /// to be rolled back (Alg. 1 l. 8, `toBeRolledBack`).
    in_order: usize,
    /// Number of executions so far.
    pub(crate) executions: u64,
    /// Operations that have been executed since the last look at them.
    pub(crate) newly: Vec<OperationId>,
}

/// An executed operation.
#[derive(Debug)]
struct Execution<P: Procedures> {
    request: Arc<Request<P::Operation>>,
    /// `None` for an operation without effect.
    response: Option<Arc<P::Response>>,
    undo: Undo<P::Value>,
}

impl<P: Procedures> Sequential<P> {
    pub(crate) fn new() -> Sequential<P> {
        Sequential {
            object: StateObject::new(),
            executed: VecDeque::new(),
            in_order: 0,
            executions: 0,
            newly: Vec::new(),
        }
    }

    /// Notes that the order has changed from a place on (Creek Alg. 1 l. 42–47): executions at this
    /// place and later ones are out of order.
    pub(crate) fn change_from(&mut self, place: usize) {
        self.in_order = self.in_order.min(place);
    }

    /// Notes that a tentative operation was added (Creek Alg. 1 l. 42–47). Returns the number of
    /// executed operations that must follow it. The cost is proportional to this number.
    pub(crate) fn make_room(
        &mut self,
        order: &Order<P::Operation>,
        request: &Request<P::Operation>,
    ) -> usize {
        let before = self.in_order;
        let follows = |executed: &Execution<P>| order.precedes(request, &executed.request);
        while self.in_order > order.committed().len() && follows(&self.executed[self.in_order - 1])
        {
            self.in_order -= 1;
        }
        before - self.in_order
    }

    /// Rolls back one operation or executes one.
    pub(crate) fn step(&mut self, procedures: &P, order: &Order<P::Operation>) -> Progress<P> {
        if self.executed.len() > self.in_order
            && let Some(last) = self.executed.pop_back()
        {
            // Creek Alg. 1 l. 58–61.
            self.object.rollback(last.undo);
            return Progress::RolledBack;
        }
        // Creek Alg. 1 l. 62–76.
        let before = self.executed.back().map(|last| &*last.request);
        let Some(request) = order.at(self.in_order, before) else { return Progress::Idle };
        let (response, undo) = match &request.operation {
            Some(operation) => {
                let (response, undo) = self.object.execute(procedures, operation);
                (Some(Arc::new(response)), undo)
            }
            None => (None, Undo::nothing()),
        };
        self.executed.push_back(Execution {
            request: Arc::clone(request),
            response: response.clone(),
            undo,
        });
        self.in_order += 1;
        self.executions += 1;
        self.newly.push(request.id);
        let request = Arc::clone(request);
        Progress::Executed { request, response, again: false, settled: true }
    }

    /// Returns whether all operations are executed in order.
    pub(crate) fn is_idle(&self, order: &Order<P::Operation>) -> bool {
        let before = self.executed.back().map(|last| &*last.request);
        self.executed.len() == self.in_order && order.at(self.in_order, before).is_none()
    }

    /// Executes an operation that only reads. All operations must be executed in order.
    pub(crate) fn last(&mut self, procedures: &P, operation: &P::Operation) -> P::Response {
        let (response, undo) = self.object.execute(procedures, operation);
        self.object.rollback(undo);
        response
    }

    /// Removes and returns the first executed operation if it is at its place.
    pub(crate) fn take_first(&mut self) -> Option<Executed<P>> {
        self.in_order = self.in_order.checked_sub(1)?;
        let first = self.executed.pop_front()?;
        Some((first.request, first.response))
    }

    /// Returns the number of executed operations that are at their place.
    pub(crate) fn in_order(&self) -> usize {
        self.in_order
    }

    /// Returns the registers after the final operations.
    pub(crate) fn final_registers(&self) -> Vec<(RegisterKey, P::Value)> {
        let undos = self.executed.iter().rev().map(|executed| &executed.undo);
        self.object.before(undos).into_iter().collect()
    }

    /// Returns the number of keys after the executed operations, and the bytes of all registers.
    pub(crate) fn size(&self) -> (usize, usize) {
        let registers = self.object.registers();
        let keys = registers.values().keys().filter(|name| P::is_key(name)).count();
        (keys, registers.bytes())
    }

    /// Sets a register of the state after the final operations. Nothing may have been executed.
    pub(crate) fn restore(&mut self, key: RegisterKey, value: P::Value) {
        self.object.set(key, Some(value));
    }
}

#[cfg(test)]
mod tests {
    use solera_random::Random;
    use solera_time::{SiteId, Timestamp};

    use super::*;
    use crate::context::Context;
    use crate::ids::OperationId;
    use crate::object::Access;

    /// Appends a number to a list, and returns the list.
    #[derive(Debug)]
    struct Append;

    impl Procedures for Append {
        type Operation = u64;
        type Value = Vec<u64>;
        type Response = Vec<u64>;

        fn execute(&self, number: &u64, registers: &mut dyn Access<Vec<u64>>) -> Vec<u64> {
            let mut list = registers.read(b"list").unwrap_or_default();
            list.push(*number);
            registers.write(b"list", Some(list.clone()));
            list
        }

        fn is_read_only(&self, _: &u64) -> bool {
            false
        }
    }

    fn request(timestamp: u64, event: u64) -> Arc<Request<u64>> {
        let id = OperationId { site: SiteId(0), run: 1, event };
        let timestamp = Timestamp(timestamp);
        Arc::new(Request {
            id,
            timestamp,
            operation: Some(event),
            context: Context::default(),
            cast: None,
            previous: None,
        })
    }

    fn events<'a>(requests: impl Iterator<Item = &'a Arc<Request<u64>>>) -> Vec<u64> {
        requests.map(|request| request.id.event).collect()
    }

    #[test]
    fn alg_1_l_42_to_76_the_state_is_that_of_the_order_however_it_changes_in_between() {
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let (mut order, mut execution) = (Order::new(), Sequential::new());
            let mut finals = Vec::new();
            for event in 1..60 {
                let requests: Vec<_> = order.tentative().cloned().collect();
                if random.chance(80) || requests.is_empty() {
                    let request = request(1 + random.below(200), event);
                    let executed = events(execution.executed.iter().map(|it| &it.request));
                    let kept = execution.in_order();
                    order.insert(Arc::clone(&request));
                    let moved = execution.make_room(&order, &request);
                    let now = events(order.committed().iter().chain(order.tentative()));
                    let same = executed.iter().zip(&now).take_while(|(a, b)| a == b).count();
                    assert_eq!(kept - moved, kept.min(same));
                } else {
                    let context = random.draw();
                    let request = &requests[random.index(requests.len())];
                    let changed =
                        order.commit(request, |id| context >> (id.event % 64) & 1 == 1).changed;
                    execution.change_from(changed.unwrap_or(usize::MAX));
                }
                for _ in 0..random.below(4) {
                    if let Progress::Executed { response, .. } = execution.step(&Append, &order) {
                        let now = events(order.committed().iter().chain(order.tentative()));
                        let expected = [&finals[..], &now[..execution.in_order()]].concat();
                        assert_eq!(response.as_deref(), Some(&expected));
                    }
                }
                while execution.in_order() > 0
                    && let Some(request) = order.make_final()
                {
                    execution.take_first();
                    finals.push(request.id.event);
                    let list = execution.final_registers().pop().map(|(_, list)| list);
                    assert_eq!(list.as_ref(), Some(&finals));
                }
            }
            while !matches!(execution.step(&Append, &order), Progress::Idle) {}
            assert!(execution.is_idle(&order));
            let executed = events(execution.executed.iter().map(|it| &it.request));
            assert_eq!(executed, events(order.committed().iter().chain(order.tentative())));
        }
    }
}
