//! What a member or coordinator has at hand while it handles one input.

use std::collections::VecDeque;

use solera_machine::{Address, Now, RarePath};
use solera_time::{HybridClock, SiteId, Timestamp};

use crate::config::{Config, Configuration};
use crate::election::Electorate;
use crate::ids::{GroupId, TransactionId};
use crate::message::{Body, Message, Output, Record};
use crate::outcomes::Outcomes;

/// What a worker's part of the service has counted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that came again, or too late to count: of terms that are over, or about
    /// transactions that are decided.
    pub ignored: u64,
    /// Votes for which keys were kept free, because the transaction had been aborted before.
    pub reserved: u64,
    /// Transactions that waited for one that had been aborted before.
    pub waited: u64,
}

pub(crate) struct Step<'a, W> {
    pub(crate) now: Now,
    pub(crate) config: &'a Config,
    pub(crate) configuration: &'a Configuration,
    pub(crate) clock: &'a mut HybridClock,
    pub(crate) outputs: &'a mut VecDeque<Output<W>>,
    pub(crate) counts: &'a mut Counts,
    /// Messages to this very worker.
    pub(crate) loopback: &'a mut VecDeque<Message<W>>,
    /// Of transactions that members here have forgotten.
    pub(crate) outcomes: &'a mut Outcomes<TransactionId>,
}

impl<'a, W> Step<'a, W> {
    /// The members that elect a leader.
    pub(crate) fn electorate(&self) -> Electorate<'a> {
        Electorate {
            me: self.me(),
            configuration: self.configuration,
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
            self.outputs.push_back(Output::Send { to, message });
        }
    }

    /// To the member of a group at a site.
    pub(crate) fn send_member(&mut self, group: GroupId, site: SiteId, body: Body<W>) {
        self.send(self.config.member(group, site), group, body);
    }

    /// To all members of a group at other sites.
    pub(crate) fn send_others(&mut self, group: GroupId, body: Body<W>)
    where
        W: Clone,
    {
        for site in self.configuration.others(self.me()) {
            self.send_member(group, site, body.clone());
        }
    }

    pub(crate) fn record(&mut self, record: Record<W>) {
        self.outputs.push_back(Output::Record(record));
    }

    /// Notes that a rare path is taken.
    pub(crate) fn reach(&mut self, path: RarePath) {
        self.outputs.push_back(Output::Reached(path));
    }

    pub(crate) fn clock(&mut self) -> Timestamp {
        self.clock.read(self.now.physical)
    }
}
