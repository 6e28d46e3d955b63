//! Clients, which invoke operations in an open loop, and what they observe.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use solera_creek::{Command, Level, OperationId, Procedures, Response};
use solera_machine::RequestId;
use solera_random::Random;
use solera_tpcc::{Mix, Tpcc};

use super::measured::{Accuracy, Class, Measured};
use super::replica::{Answer, FinalOf, Input};

/// All clients.
pub(super) struct Clients {
    mix: Mix,
    tpcc: Tpcc,
    random: Random,
    /// Mean time between two operations at one replica, in nanoseconds.
    gap: f64,
    /// Whether clients invoke operations.
    is_open: bool,
    /// Times of the invocations that are measured.
    window: Range<u64>,
    /// Operations, by their requests.
    invoked: Vec<Invoked>,
    /// Number of the request for each operation.
    requests: BTreeMap<OperationId, usize>,
    /// Number of operations that update.
    updates: u64,
    /// Number of operations that only read and have no reply.
    reading: u64,
    /// Number of operations without a reply.
    waiting: u64,
    /// Number of operations that the machines have refused.
    refused: u64,
    /// Final operations, in order.
    finals: Vec<FinalOf>,
}

/// An operation of a client.
struct Invoked {
    at: u64,
    class: Class,
    /// Time that its execution takes.
    cost: Duration,
    /// Time until the first reply, and its response.
    first: Option<(u64, solera_tpcc::Response)>,
    /// Time until the stable reply, and its response if it differs from that of the first reply.
    stable: Option<(u64, Option<solera_tpcc::Response>)>,
}

impl Clients {
    pub(super) fn new(mix: Mix, tpcc: Tpcc, gap: f64, random: Random) -> Clients {
        Clients {
            mix,
            tpcc,
            random,
            gap,
            is_open: true,
            window: u64::MAX..u64::MAX,
            invoked: Vec::new(),
            requests: BTreeMap::new(),
            updates: 0,
            reading: 0,
            waiting: 0,
            refused: 0,
            finals: Vec::new(),
        }
    }

    /// Draws the time until the next operation at a replica, so that operations form a Poisson
    /// process.
    pub(super) fn gap(&mut self) -> u64 {
        // From 0 to 1, without 0.
        let share = ((self.random.draw() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (-share.ln() * self.gap) as u64
    }

    /// Draws the next operation. Returns `None` when the load has ended.
    pub(super) fn invoke(&mut self, now: u64) -> Option<Input> {
        if !self.is_open {
            return None;
        }
        let operation = self.mix.draw(1 + now / 1000, &mut self.random);
        let class = Class::of(&operation);
        let level = if class == Class::Strong { Level::Strong } else { Level::Weak };
        match class {
            Class::ReadOnly => self.reading += 1,
            Class::Update | Class::Strong => self.updates += 1,
        }
        self.waiting += 1;
        let request = RequestId(self.invoked.len() as u64);
        let cost = self.tpcc.cost(&operation);
        self.invoked.push(Invoked { at: now, class, cost, first: None, stable: None });
        Some(Input::Client { request, command: Command::Invoke { operation, level, track: false } })
    }

    /// Takes a reply.
    pub(super) fn answered(&mut self, request: RequestId, answer: Answer, now: u64) {
        let number = request.0 as usize;
        let Some(invoked) = self.invoked.get_mut(number) else { return };
        let is_first = invoked.first.is_none();
        let (took, class) = (now - invoked.at, invoked.class);
        let id = match answer {
            Response::Tentative(tentative) | Response::Revised(tentative) => {
                invoked.first.get_or_insert((took, tentative.response));
                tentative.id
            }
            Response::Stable { id, response, .. } => {
                let differs = invoked.first.as_ref().is_some_and(|first| first.1 != response);
                invoked.stable = Some((took, differs.then(|| response.clone())));
                invoked.first.get_or_insert((took, response));
                Some(id)
            }
            Response::Busy => {
                self.refused += 1;
                None
            }
            Response::Forgotten { .. }
            | Response::Lost { .. }
            | Response::Unknown { .. }
            | Response::Reached => None,
            Response::Diverged(divergence) => panic!("the sites differ: {divergence:?}"),
        };
        if let Some(id) = id {
            self.requests.insert(id, number);
        }
        if is_first {
            self.waiting -= 1;
            self.reading -= u64::from(class == Class::ReadOnly);
        }
    }

    /// Takes operations that are final at one replica, in order.
    pub(super) fn take_finals(&mut self, finals: Vec<FinalOf>) {
        self.finals.extend(finals);
    }

    pub(super) fn begin_window(&mut self, now: u64) {
        self.window.start = now;
    }

    /// Ends the window and the load.
    pub(super) fn end(&mut self, now: u64) {
        self.window.end = now;
        self.is_open = false;
    }

    /// Returns the number of operations that are not done, if `finals` updates are final.
    pub(super) fn backlog(&self, finals: u64) -> u64 {
        self.updates - finals.min(self.updates) + self.reading
    }

    /// Returns whether an operation has no reply.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Reports what the clients have observed.
    ///
    /// # Errors
    /// Fails if a stable reply is not the final response, if an update is not final, or if the
    /// machines have refused operations.
    pub(super) fn report(self, measured: &mut Measured) -> Result<(), String> {
        if self.refused > 0 {
            return Err(format!("{} operations were refused", self.refused));
        }
        let mut finals = 0;
        for it in &self.finals {
            let Some(request) = self.requests.get(&it.request.id) else { continue };
            let invoked = &self.invoked[*request];
            finals += u64::from(invoked.class != Class::ReadOnly);
            let (Some(response), Some((_, first))) = (&it.response, &invoked.first) else {
                return Err(format!("{} has no response", it.request.id));
            };
            let is_accurate = **response == *first;
            let is_stable_exact = match &invoked.stable {
                Some((_, Some(stable))) => **response == *stable,
                Some((_, None)) => is_accurate,
                None => true,
            };
            if !is_stable_exact {
                return Err(format!("the stable reply to {} is not final", it.request.id));
            }
            if self.window.contains(&invoked.at) {
                measured.of_mut(invoked.class).accuracy.add(is_accurate);
            }
        }
        if finals != self.updates {
            return Err(format!("{finals} of {} updates are final", self.updates));
        }
        for invoked in self.invoked.iter().filter(|it| self.window.contains(&it.at)) {
            let of = measured.of_mut(invoked.class);
            of.count += 1;
            if let Some((took, _)) = &invoked.first {
                let took = Duration::from_nanos(*took);
                of.first.record(took);
                of.beyond.record(took.saturating_sub(invoked.cost));
            }
            if let Some((took, _)) = &invoked.stable {
                of.stable.record(Duration::from_nanos(*took));
            }
        }
        measured.operations = self.invoked.len() as u64;
        let is_ordered = |it: &&FinalOf| it.request.operation.is_some();
        measured.ordered = self.finals.iter().filter(is_ordered).count() as u64;
        Ok(())
    }
}

impl Accuracy {
    fn add(&mut self, is_accurate: bool) {
        self.all += 1;
        self.accurate += u64::from(is_accurate);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use solera_creek::{Context, Digest, Request, Scheme, Tentative};
    use solera_time::{SiteId, Timestamp};
    use solera_tpcc::Response as Found;

    use super::*;
    use crate::papers::creek::setting::Setting;

    /// Reports an update with a tentative reply, a stable reply and a final response.
    fn report(replies: [u32; 3]) -> Result<Accuracy, String> {
        let (tpcc, mix) = (Tpcc::new(1), Mix::new(1));
        let mut clients = Clients::new(mix, tpcc, 1.0, Random::new(1));
        clients.begin_window(0);
        let operation = loop {
            let Some(Input::Client { command: Command::Invoke { operation, .. }, .. }) =
                clients.invoke(0)
            else {
                panic!("clients invoke operations");
            };
            if Class::of(&operation) != Class::ReadOnly {
                break operation;
            }
            clients = Clients { invoked: Vec::new(), reading: 0, waiting: 0, ..clients };
        };
        let class = Class::of(&operation);
        let id = OperationId { site: SiteId(0), run: 1, event: 1 };
        let [first, stable, response] = replies.map(Found::StockLevel);
        let tentative = Tentative { id: Some(id), response: first, claim: None, cause: None };
        clients.answered(RequestId(0), Response::Tentative(tentative), 1);
        let stable = Response::Stable { id, position: 1, response: stable };
        clients.answered(RequestId(0), stable, 2);
        clients.end(1);
        let request = Request {
            id,
            timestamp: Timestamp::ZERO,
            operation: Some(operation),
            context: Context::default(),
            cast: None,
            previous: None,
        };
        let (request, response) = (Arc::new(request), Some(Arc::new(response)));
        let digest = Digest::default();
        clients.take_finals(vec![FinalOf { position: 1, request, response, digest }]);
        let mut measured = Measured::new(&Setting::of(Scheme::Creek, 1.0), Vec::new());
        clients.report(&mut measured)?;
        Ok(measured.of_mut(class).accuracy)
    }

    #[test]
    fn a_first_reply_may_be_wrong_and_a_stable_one_may_not() {
        assert_eq!(report([1, 1, 1]), Ok(Accuracy { all: 1, accurate: 1 }));
        assert_eq!(report([1, 2, 2]), Ok(Accuracy { all: 1, accurate: 0 }));
        assert!(report([1, 1, 2]).unwrap_err().contains("is not final"));
        assert!(report([1, 2, 1]).unwrap_err().contains("is not final"));
    }
}
