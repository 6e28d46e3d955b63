//! The context of a member while it handles one input.

use std::collections::VecDeque;

use solera_election::{Electorate, Electors};
use solera_machine::RarePath;
use solera_time::{Monotonic, SiteId};

use crate::config::{Config, Rule};
use crate::ids::CastId;
use crate::message::{Message, Output};
use crate::predicate::Predicate;
use crate::record::Record;

pub(crate) struct Step<'a, B> {
    pub(crate) now: Monotonic,
    pub(crate) config: &'a Config,
    pub(crate) electors: &'a Electors,
    /// Sites that will join, with their generations.
    pub(crate) learners: &'a [(SiteId, u32)],
    pub(crate) predicate: &'a dyn Predicate<B>,
    pub(crate) outputs: &'a mut VecDeque<Output<B>>,
}

impl<'a, B> Step<'a, B> {
    /// Returns the members that elect a leader, with this member's timing.
    pub(crate) fn electorate(&self) -> Electorate<'a> {
        Electorate {
            me: self.me(),
            electors: self.electors,
            now: self.now,
            patience: self.config.timing.leader_timeout,
            retry: self.config.timing.retry,
        }
    }

    pub(crate) fn me(&self) -> SiteId {
        self.config.me
    }

    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.config.keeps(rule)
    }

    /// Returns whether the predicates of all ids hold.
    pub(crate) fn holds(&self, ids: &[CastId]) -> bool {
        ids.iter().all(|id| self.predicate.holds(*id))
    }

    pub(crate) fn send(&mut self, to: SiteId, message: Message<B>) {
        if to != self.me() {
            self.outputs.push_back(Output::Send { to, message });
        }
    }

    /// Sends to all other members.
    pub(crate) fn send_others(&mut self, message: Message<B>)
    where
        B: Clone,
    {
        for site in self.electors.others(self.me()) {
            self.send(site, message.clone());
        }
    }

    pub(crate) fn record(&mut self, record: Record) {
        self.outputs.push_back(Output::Record(record));
    }

    /// Reports that a rare path was taken.
    pub(crate) fn reach(&mut self, path: RarePath) {
        self.outputs.push_back(Output::Reached(path));
    }
}
