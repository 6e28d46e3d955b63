//! An ambush of five sites: two fail for good, so that the operations of an unfinished slot are in
//! a promise and nowhere else.
//!
//! The leader and another site, the acceptor, are cut off from the others, so that operations reach
//! the acceptor alone, and it alone accepts their slots. The leader fails. A third site stops for a
//! while, so that the next leader needs the promise of the acceptor, which fails when it has sent
//! it. The streams are exchanged seldom, so that they have no time to help.

use solera_consensus::Message as Agreement;
use solera_creek::Message;

use super::World;
use super::procedures::Operation;

pub(crate) enum Ambush {
    /// Begins when a site leads.
    From(u64),
    /// The leader fails at a time.
    Cut { leader: usize, acceptor: usize, until: u64 },
    /// The acceptor fails when it has sent its promise.
    Promise { acceptor: usize },
}

impl World {
    /// Continues the ambush.
    pub(crate) fn lie_in_ambush(&mut self) {
        match self.ambush {
            Some(Ambush::From(from)) if self.now >= from => self.cut_leader(),
            Some(Ambush::Cut { leader, acceptor, until }) if self.now >= until => {
                self.kill(leader);
                self.network.heal_all();
                let sites = 0..self.nodes.len();
                let sleeper = sites.into_iter().find(|site| ![leader, acceptor].contains(site));
                if let Some(site) = sleeper.filter(|site| self.nodes[*site].is_up) {
                    self.nodes[site].crash(self.now + 500);
                    self.free_all(site);
                }
                self.ambush = Some(Ambush::Promise { acceptor });
            }
            _ => {}
        }
    }

    fn cut_leader(&mut self) {
        let up = self.nodes.iter().filter(|node| node.is_up).count();
        let leader = self.nodes.iter().position(|node| node.is_up && node.machine.leads());
        let Some(leader) = leader.filter(|_| up == self.nodes.len()) else { return };
        let acceptor = (leader + 1 + self.random.index(4)) % 5;
        self.network.heal_all();
        let until = self.now + 40 + self.random.below(50);
        for site in (0..5).filter(|site| ![leader, acceptor].contains(site)) {
            self.network.cut(leader, site, until);
            self.network.cut(acceptor, site, until);
        }
        self.ambush = Some(Ambush::Cut { leader, acceptor, until });
    }

    pub(crate) fn kill(&mut self, site: usize) {
        self.nodes[site].crash(0);
        self.nodes[site].is_dead = true;
        self.free_all(site);
    }

    /// Strikes when a message has been sent.
    pub(crate) fn strike(&mut self, site: usize, message: &Message<Operation>) {
        let Some(Ambush::Promise { acceptor }) = self.ambush else { return };
        let Message::Consensus(Agreement::Promise { part, parts, bodies, .. }) = message else {
            return;
        };
        if site == acceptor && part + 1 == *parts && !bodies.is_empty() {
            self.kill(site);
            self.ambush = None;
            *self.history.rare.entry("world: a site failed after its promise").or_default() += 1;
        }
    }
}
