//! Outputs of the machine, and its open questions.

use std::collections::{BTreeMap, VecDeque};

use solera_machine::{AskId, PartitionId, PromiseId, RarePath, Records, RequestId};
use solera_time::{Monotonic, SiteId};

use crate::agreed::Key;
use crate::command::{Cannot, Question, Response, TakeId};
use crate::config::Config;
use crate::counts::Counts;
use crate::message::{Body, Event, Message, Output};
use crate::numbers::Nonce;
use crate::record::Record;
use crate::rights::Gift;
use crate::waiter::Waiter;

/// Subject of an open question. There is at most one question for each but gifts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A renewal, or the site's own admission.
    Right,
    /// The exclusion of another site.
    Exclusion,
    /// The record of a key.
    Key(Key),
    /// The end of an epoch of a key.
    End(Key),
    /// A gift of rights.
    Gift(Key, Gift),
}

/// End of the wait of a reservation for the tokens of one guard. The machine passes it on at the
/// end of its step.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) id: PromiseId,
    /// Number of the guard among those of the transaction.
    pub(crate) place: usize,
    pub(crate) key: Key,
    pub(crate) outcome: Result<TakeId, Cannot>,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    outputs: VecDeque<Output>,
    pub(crate) settled: VecDeque<Settled>,
    open: BTreeMap<AskId, (PartitionId, Subject)>,
    /// Whether a partition is used again that nobody used.
    pub(crate) woken: bool,
    /// Partitions with something to do before the next tick of the timer, and when.
    soon: BTreeMap<PartitionId, Monotonic>,
    /// Number of questions and nonces so far.
    numbers: u64,
    /// Numbers of events, without what the site holds.
    pub(crate) counts: Counts,
}

/// A step of the machine: its time, configuration and outputs.
pub(crate) struct Step<'a> {
    pub(crate) config: &'a Config,
    pub(crate) now: Monotonic,
    pub(crate) out: &'a mut Outbox,
}

impl Outbox {
    pub(crate) fn pop(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.outputs.is_empty()
    }

    /// Returns when a partition has something to do before the next tick of the timer.
    pub(crate) fn soon(&self) -> Option<Monotonic> {
        self.soon.values().min().copied()
    }

    /// Removes and returns the partitions that have something to do now.
    pub(crate) fn take_soon(&mut self, now: Monotonic) -> Vec<PartitionId> {
        let due = self.soon.iter().filter(|(_, at)| **at <= now);
        let due: Vec<PartitionId> = due.map(|(partition, _)| *partition).collect();
        self.soon.retain(|_, at| *at > now);
        due
    }

    /// Closes a question. Returns its subject; `None` if it is not open.
    pub(crate) fn close(&mut self, ask: AskId) -> Option<(PartitionId, Subject)> {
        self.open.remove(&ask)
    }
}

impl Step<'_> {
    pub(crate) fn record(&mut self, record: &Record) {
        if self.config.journal {
            let mut records = Records::default();
            records.push_with(|bytes| record.encode(bytes));
            self.out.outputs.push_back(Output::Records(records));
        }
    }

    pub(crate) fn send(&mut self, partition: PartitionId, to: SiteId, body: Body) {
        let to = self.config.topology.owner(to, partition);
        let message = Message { partition, body };
        self.out.outputs.push_back(Output::Send { to, message });
    }

    pub(crate) fn reply(&mut self, request: RequestId, response: Response) {
        self.out.outputs.push_back(Output::Reply { request, response, last: true });
    }

    pub(crate) fn refuse(&mut self, request: RequestId, reason: Cannot) {
        self.reply(request, Response::Cannot(reason));
    }

    /// Notifies a client or a reservation that its wait for tokens has ended.
    pub(crate) fn settle(&mut self, waiter: Waiter, key: &Key, outcome: Result<TakeId, Cannot>) {
        if let Err(reason) = &outcome {
            self.out.counts.note_refusal(reason);
        }
        match waiter {
            Waiter::Client(request) => self.reply(
                request,
                match outcome {
                    Ok(take) => Response::Taken(take),
                    Err(reason) => Response::Cannot(reason),
                },
            ),
            Waiter::Reservation(id, place) => {
                self.out.settled.push_back(Settled { id, place, key: key.clone(), outcome });
            }
        }
    }

    pub(crate) fn trace(&mut self, event: Event) {
        self.out.outputs.push_back(Output::Trace(event));
    }

    pub(crate) fn rare(&mut self, path: RarePath) {
        self.trace(Event::Rare(path));
    }

    pub(crate) fn ask(&mut self, partition: PartitionId, subject: Subject, question: Question) {
        self.out.numbers += 1;
        let ask = AskId(self.out.numbers);
        self.out.open.insert(ask, (partition, subject));
        self.out.outputs.push_back(Output::Ask { ask, question });
    }

    /// Has the machine look after a partition at a time or earlier.
    pub(crate) fn wake_at(&mut self, at: Monotonic, partition: PartitionId) {
        let soon = self.out.soon.entry(partition).or_insert(at);
        *soon = at.min(*soon);
    }

    pub(crate) fn nonce(&mut self) -> Nonce {
        self.out.numbers += 1;
        // A later generation of the site has no journal of the earlier ones.
        let process = u64::from(self.config.generation) << 40 | self.config.incarnation;
        Nonce { process, number: self.out.numbers }
    }
}
