//! Faults of links, sites, clocks and disks.

use solera_machine::{Address, RequestId};
use solera_occult::{Command, ShardId};
use solera_site::Message;
use solera_time::SiteId;

use super::links::Links;
use super::{Due, SiteState, Worker, World, WorldEvent};
use crate::faults::Fault;
use crate::faults::ambush::{Ambush, AmbushFault};
use crate::faults::disks::DiskFault;

impl World {
    /// Returns the ambush that waits for this message, and its victim.
    pub(super) fn spring(
        &mut self,
        from: Address,
        to: Address,
        message: &Message,
    ) -> Option<(Ambush, usize)> {
        let found = self.ambushes.iter().enumerate().find_map(|(at, ambush)| {
            let victim = ambush.victim(from, to, message)?.index();
            (self.states[victim] == SiteState::Up).then_some((at, victim))
        });
        found.map(|(at, victim)| (self.ambushes.remove(at), victim))
    }

    /// Strikes the victim of an ambush. The message was between it and the site `other`.
    pub(super) fn strike_in_ambush(&mut self, ambush: Ambush, victim: usize, other: usize) {
        self.trace.write(self.now, format_args!("{ambush:?} of site {victim}"));
        self.tally.count(ambush.name());
        match ambush.fault {
            AmbushFault::Stop(long) if self.storages.is_empty() => {
                self.stop(victim, SiteState::Paused);
                self.push(self.now + long, Due::Fault(Fault::Resume(victim)));
            }
            AmbushFault::Stop(long) => {
                self.crash(victim);
                self.push(self.now + long, Due::Fault(Fault::Restart(victim)));
            }
            AmbushFault::Isolate(long) => {
                for other in (0..self.states.len()).filter(|other| *other != victim) {
                    self.strike(Fault::Cut(victim, other));
                    self.push(self.now + long, Due::Fault(Fault::Restore(victim, other)));
                }
            }
            AmbushFault::Destroy => self.destroy(victim),
            AmbushFault::MoveLeaders(site) => self.move_leaders(site),
            AmbushFault::Overtake(long) => {
                self.strike(Fault::Cut(victim, other));
                self.push(self.now + long, Due::Fault(Fault::Restore(victim, other)));
                self.move_leaders(victim);
            }
        }
    }

    /// Has an operator at some site request that all groups are led from another one.
    fn move_leaders(&mut self, to: usize) {
        let Some(root) = self.root_beside(to) else { return };
        self.tally.count("leaders moved");
        for address in self.addresses_of(root.site.index()) {
            let now = self.now_at(address);
            if let Some(worker) = self.workers.get_mut(&address) {
                worker.machine_mut().unistore_mut().move_leaders(now, SiteId(to as u8));
            }
            self.carry_out(address);
        }
    }

    pub(super) fn strike(&mut self, fault: Fault) {
        self.trace.write(self.now, format_args!("fault {fault:?}"));
        match fault {
            Fault::Cut(a, b) => {
                self.tally.count("links cut");
                self.lose(a, b);
                self.cuts[a][b] += 1;
                self.cuts[b][a] += 1;
            }
            Fault::Restore(a, b) => {
                self.cuts[a][b] = self.cuts[a][b].saturating_sub(1);
                self.cuts[b][a] = self.cuts[b][a].saturating_sub(1);
            }
            Fault::Reset(a, b) => {
                self.tally.count("connections broken");
                self.lose(a, b);
            }
            Fault::Break(a, b) => self.break_link(a, b),
            Fault::Mute(a, b) => {
                self.mute.insert((a, b));
            }
            Fault::Pause(site) => self.stop(site, SiteState::Paused),
            Fault::Resume(site) => self.resume(site),
            Fault::Crash(site) => self.crash(site),
            Fault::Restart(site) => self.restart(site),
            Fault::Checkpoint(site, worker) => {
                let address = Address { site: SiteId(site as u8), worker: worker as u8 };
                let keys = self.random.within(1, 8) as usize;
                // Parts of Occult are written slowly, so that writes overtake them.
                if !self.overtaken.is_half_way(address) || self.random.chance(25) {
                    self.checkpoint(address, keys);
                }
            }
            Fault::Disk(site, worker, fault) => {
                let address = Address { site: SiteId(site as u8), worker: worker as u8 };
                self.strike_disk(address, fault);
            }
            Fault::Destroy(site) => self.destroy(site),
            Fault::Remove(site) => self.remove(site),
            Fault::RemoveAgain(site, generation) if self.generations[site] == generation => {
                self.remove(site)
            }
            Fault::RemoveAgain(..) => {}
            Fault::Add(site) => self.add(site),
            Fault::Ambush(ambush) => self.ambushes.push(ambush),
            Fault::MoveLeaders(site) => self.move_leaders(site),
            Fault::Jump(site, worker, by) => {
                let address = Address { site: SiteId(site as u8), worker: worker as u8 };
                self.tally.count("clocks that jumped");
                *self.skew.get_or_insert_with(address, i64::default) += by;
            }
            Fault::Slow(site, worker, by) => {
                let address = Address { site: SiteId(site as u8), worker: worker as u8 };
                self.slow.insert(address, by);
                if by > 0 {
                    self.tally.count("slow workers");
                }
            }
            Fault::SlowShard(site, shard, delay_ms) => self.slow_shard(site, shard, delay_ms),
        }
    }

    /// Delays the writes of a shard of Occult at a site's replica, as `solera fault slow` does.
    fn slow_shard(&mut self, site: usize, shard: u16, delay_ms: u64) {
        let site = SiteId(site as u8);
        let shard = ShardId(shard);
        let owner = |worker: &Worker| {
            let occult = worker.machine().occult()?;
            Some(occult.config().owner(site, shard))
        };
        let Some(address) = self.workers.iter().find_map(|(_, worker)| owner(worker)) else {
            return;
        };
        let command = Command::Slow { shard, delay_ms };
        // Its reply has no receiver.
        if self.example_command(address, RequestId(u64::MAX), command.into(), false) && delay_ms > 0
        {
            self.tally.count("slow shards");
        }
    }

    /// Loses the messages under way between two sites, in both directions.
    pub(super) fn lose(&mut self, a: usize, b: usize) {
        self.epochs[a][b] += 1;
        self.epochs[b][a] += 1;
        self.break_links(a, b);
    }

    pub(super) fn stop(&mut self, site: usize, state: SiteState) {
        let now = self.states[site];
        let paused = state == SiteState::Paused;
        if now == SiteState::Destroyed
            || (paused && matches!(now, SiteState::Crashed | SiteState::Joining))
        {
            return;
        }
        match state {
            SiteState::Paused => self.tally.count("paused sites"),
            SiteState::Destroyed => self.tally.count("destroyed sites"),
            _ => {}
        }
        self.stopped_at[site] = self.now;
        self.states[site] = state;
        for other in (0..self.states.len()).filter(|other| *other != site) {
            self.lose(site, other);
        }
        self.events.push(WorldEvent::SiteDown(site));
    }

    pub(super) fn resume(&mut self, site: usize) {
        if self.states[site] != SiteState::Paused {
            return;
        }
        self.states[site] = SiteState::Up;
        let (mine, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.deferred)
            .into_iter()
            .partition(|(_, to, ..)| to.site.index() == site);
        self.deferred = others;
        let addresses: Vec<_> =
            self.workers.keys().filter(|address| address.site.index() == site).copied().collect();
        for address in addresses {
            self.scheduled.remove(&address);
            self.schedule_deadline(address);
        }
        // Messages that arrived during the pause come before those that are under way.
        for (from, to, message, incarnations) in mine {
            let (epoch, generation) = (self.epochs[site][site], self.generations[site]);
            self.deliver(from, to, message, generation, epoch, incarnations);
        }
        // Steps of another paused site are deferred again.
        for step in self.links.as_mut().map_or_else(Vec::new, Links::take_deferred) {
            self.link_step(step);
        }
    }

    fn strike_disk(&mut self, address: Address, fault: DiskFault) {
        let site = address.site.index();
        let Some(storage) = self.storages.get_mut(&address) else { return };
        match fault {
            // For a paused process it would be unclear whether it died.
            DiskFault::Crash { power } => {
                if self.runs(site) && self.workers.contains_key(&address) {
                    self.tally.count("crashes of workers");
                    self.kill(address, power);
                }
            }
            DiskFault::Start => self.start_again(address),
            DiskFault::PowerFails { calls } => storage.fail_power_after(calls),
            DiskFault::Fill { room } => {
                self.tally.count("full disks");
                storage.fill(room);
            }
            DiskFault::Fail(call, skip) => storage.fail_call(call, skip),
            DiskFault::Slow(by) => {
                self.tally.count("slow disks");
                storage.slow = by;
            }
            DiskFault::Heal => {
                storage.heal();
                self.start_again(address);
            }
            DiskFault::Rot => {
                let place = storage.rot(&mut self.random);
                self.tally.count("rotten bits");
                self.trace.write(self.now, format_args!("{address:?} rots: {place:?}"));
            }
            DiskFault::Misdirect => {
                let place = storage.misdirect(&mut self.random);
                self.tally.count("misdirected writes");
                self.trace.write(self.now, format_args!("{address:?} misdirects: {place:?}"));
            }
            DiskFault::Checkpoint => {
                self.tally.count("whole checkpoints");
                while self.checkpoint(address, 3) {}
            }
        }
    }
}
