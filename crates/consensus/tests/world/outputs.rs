//! Outputs of members, which wait until the journal is durable.

use solera_consensus::Output;

use super::node::{Entry, Held};
use super::{Event, Letter, MS, World};

impl World {
    /// Carries out the outputs of a member, and lets it continue until there are none.
    pub(crate) fn carry_out(&mut self, site: u8) {
        let now = self.clock(site);
        let mut lacks = None;
        loop {
            let Some(node) = self.nodes.get_mut(&site) else { return };
            let mut changed = false;
            while let Some(output) = node.member.poll_output() {
                match output {
                    Output::Send { to, message } => {
                        let letter = Letter::Consensus(message);
                        node.held.push((node.journal.len(), Held::Send(to.0, letter)));
                    }
                    Output::Record(record) => node.journal.push(Entry::Record(record)),
                    Output::Deliver { slot, ids } => {
                        for id in &ids {
                            let (holds, body) =
                                (node.streams.delivers(*id), node.streams.body(*id));
                            self.judge.integrity(site, *id, holds, body);
                            node.streams.deliver(*id);
                        }
                        node.held.push((node.journal.len(), Held::Deliver(slot.0, ids)));
                        changed = true;
                    }
                    Output::Accepted { .. } => panic!("a member reports what it accepts"),
                    Output::Bodies(bodies) => {
                        for body in bodies {
                            changed |= node.take(now, body);
                        }
                    }
                    Output::Lacks { site: donor, .. } => lacks = Some(donor.0),
                    Output::Leader(_) => *self.reached.entry("a leader is named").or_default() += 1,
                    Output::Reached(path) => *self.reached.entry(path.0).or_default() += 1,
                }
            }
            if !changed {
                break;
            }
            node.member.recheck(now, &node.streams);
        }
        self.sync(site);
        self.flush(site);
        if let Some(donor) = lacks.filter(|donor| self.nodes.contains_key(donor)) {
            if self.generations[site as usize] == 0 && self.members().contains(&site) {
                self.judge.fail(format!("site {site} lacks slots that others have forgotten"));
            }
            self.fetch(site, donor);
        }
    }

    fn sync(&mut self, site: u8) {
        let Some(node) = self.nodes.get(&site) else { return };
        let (upto, incarnation) = (node.journal.len(), node.incarnation);
        if upto > node.durable {
            let delay = self.random.below(2 * MS);
            self.at(delay, Event::Sync(site, incarnation, upto));
        }
    }

    /// Lets the outputs leave for which the journal is durable.
    pub(crate) fn flush(&mut self, site: u8) {
        while let Some(node) = self.nodes.get_mut(&site) {
            if node.held.first().is_none_or(|(wait, _)| *wait > node.durable) {
                return;
            }
            match node.held.remove(0).1 {
                Held::Deliver(slot, ids) => self.judge.deliver(site, slot, &ids),
                Held::Installed(delivered) => {
                    self.judge.delivered.insert(site, delivered);
                }
                Held::Send(to, letter) => {
                    if let Letter::Consensus(message) = &letter {
                        self.judge.send(site, message);
                    }
                    let strikes = self.strikes(site, &letter);
                    self.post(site, to, letter);
                    if strikes {
                        return self.strike(site);
                    }
                }
            }
        }
    }

    /// Makes the journal durable up to a length.
    pub(crate) fn synced(&mut self, site: u8, upto: usize) {
        let Some(node) = self.nodes.get_mut(&site) else { return };
        node.durable = node.durable.max(upto);
        self.flush(site);
    }
}
