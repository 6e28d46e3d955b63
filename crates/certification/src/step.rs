//! The context of a member or coordinator while it handles one input.

use std::collections::VecDeque;

use solera_election::Electorate;
use solera_machine::{Address, Now, RarePath};
use solera_time::{HybridClock, SiteId, Timestamp};

use crate::config::{Config, Configuration};
use crate::ids::{GroupId, TransactionId};
use crate::message::{Body, Message, Output, Record};
use crate::outcomes::Outcomes;

/// Counters of a worker's part of the service since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that were ignored: duplicates, messages of earlier terms, and messages about
    /// transactions that are already decided.
    pub ignored: u64,
    /// Votes that reserved keys for a retry, because the transaction had been aborted before.
    pub reserved: u64,
    /// Transactions that waited for a retry with an older claim.
    pub waited: u64,
}

pub(crate) struct Step<'a, W> {
    pub(crate) now: Now,
    pub(crate) config: &'a Config,
    pub(crate) configuration: &'a Configuration,
    pub(crate) clock: &'a mut HybridClock,
    pub(crate) outputs: &'a mut VecDeque<Output<W>>,
    pub(crate) counts: &'a mut Counts,
    /// Messages from this worker to itself.
    pub(crate) loopback: &'a mut VecDeque<Message<W>>,
    /// Outcomes of transactions that members here have forgotten.
    pub(crate) outcomes: &'a mut Outcomes<TransactionId>,
}

impl<'a, W> Step<'a, W> {
    /// Returns the members that elect a leader, with this member's timing.
    pub(crate) fn electorate(&self) -> Electorate<'a> {
        Electorate {
            me: self.me(),
            electors: &self.configuration.electors,
            now: self.now.monotonic,
            patience: self.config.timing.leader_timeout,
            retry: self.config.timing.retry,
        }
    }

    pub(crate) fn me(&self) -> SiteId {
        self.config.me.site
    }

    pub(crate) fn send(&mut self, to: Address, group: GroupId, body: Body<W>) {
        let message = Message { group, body };
        if to == self.config.me {
            self.loopback.push_back(message);
        } else {
            self.outputs.push_back(Output::Send { to, message: Box::new(message) });
        }
    }

    /// Sends to the member of a group at a site.
    pub(crate) fn send_member(&mut self, group: GroupId, site: SiteId, body: Body<W>) {
        self.send(self.config.member(group, site), group, body);
    }

    /// Sends to all members of a group at other sites.
    pub(crate) fn send_others(&mut self, group: GroupId, body: Body<W>)
    where
        W: Clone,
    {
        for site in self.configuration.electors.others(self.me()) {
            self.send_member(group, site, body.clone());
        }
    }

    pub(crate) fn record(&mut self, record: Record<W>) {
        self.outputs.push_back(Output::Record(Box::new(record)));
    }

    /// Reports that a rare path was taken.
    pub(crate) fn reach(&mut self, path: RarePath) {
        self.outputs.push_back(Output::Reached(path));
    }

    pub(crate) fn clock(&mut self) -> Timestamp {
        self.clock.read(self.now.physical)
    }
}
