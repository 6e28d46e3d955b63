//! Workers that crash, start from their disks, and write checkpoints.

use solera_host::Log;
use solera_machine::Address;
use solera_membership::SiteStatus;

use super::creeks::last_finals;
use super::{Due, SiteState, World, WorldEvent};
use crate::faults::Fault;
use crate::faults::disks::DiskFault;
use crate::queue::MS;
use crate::storage::Refusal;

impl World {
    pub(super) fn crash(&mut self, site: usize) {
        if !self.runs(site) {
            return;
        }
        self.tally.count("crashes of sites");
        self.stop(site, SiteState::Crashed);
        self.lose(site, site);
        for address in self.addresses_of(site) {
            self.kill(address, true);
        }
    }

    pub(super) fn restart(&mut self, site: usize) {
        if self.states[site] != SiteState::Crashed {
            return;
        }
        if self.now - self.stopped_at[site] > 2 * self.lost_after {
            self.tally.count("sites that were away for long");
        }
        self.states[site] =
            if self.generations[site] == 0 { SiteState::Up } else { SiteState::Joining };
        for address in self.addresses_of(site) {
            self.start(address);
        }
    }

    /// Kills a worker, with or without a power loss of its machine.
    pub(super) fn kill(&mut self, address: Address, power: bool) {
        self.count_state(address);
        let Some(storage) = self.storages.get_mut(&address) else { return };
        let generation = storage.starts;
        let worker = self.workers.remove(&address);
        let ran = worker.is_some();
        storage.crash(worker, power);
        self.end_links(address);
        self.scheduled.remove(&address);
        if ran {
            let last = self.now + self.random.within(0, 200_000);
            self.final_arrivals.insert((address, generation), last);
            self.events.push(WorldEvent::WorkerDown(address));
        }
    }

    /// Counts the states in which workers crash.
    fn count_state(&mut self, address: Address) {
        let Some(worker) = self.workers.get(&address) else { return };
        if !self.storages.contains_key(&address) {
            return;
        }
        let status = worker.machine().unistore().status();
        let some = |wanted| status.members().which(wanted).next().is_some();
        let joining = self.is_joining(address.site.index());
        for (state, what) in [
            (status.open_transactions() > 0, "crashes with open transactions"),
            (status.prepared_transactions() > 0, "crashes with prepared transactions"),
            (status.unconfirmed_decisions() > 0, "crashes with unconfirmed decisions"),
            (worker.has_undurable(), "crashes with unsynced records"),
            (worker.is_saving(), "crashes within a checkpoint"),
            (joining, "crashes while joining"),
            (!joining && some(SiteStatus::Joining), "crashes while another site joins"),
            (!joining && some(SiteStatus::Leaving), "crashes while another site leaves"),
        ] {
            if state {
                self.tally.count(what);
            }
        }
    }

    /// Starts a worker from its disk, if its site is not down as a whole.
    pub(super) fn start(&mut self, address: Address) {
        let site = address.site.index();
        if !self.runs(site) || self.workers.contains_key(&address) {
            return;
        }
        let config = self.site_config(address);
        let Some(storage) = self.storages.get_mut(&address) else { return };
        match storage.start(&config, self.now) {
            Ok(started) => {
                if let Some(torn) = &started.recovered.torn {
                    self.tally.count("torn tails");
                    self.trace.write(self.now, format_args!("{address:?}: {torn}"));
                }
                if self.now > 0 {
                    self.tally.count("restarts");
                }
                if self.overtaken.has(address, started.recovered.snapshot) {
                    self.tally.count("occult: starts from checkpoints that writes had overtaken");
                }
                let recovered = &started.recovered;
                self.trace.write(self.now, format_args!("{address:?} starts from {recovered:?}"));
                for _ in &started.undone {
                    self.tally.count("commits undone");
                }
                self.events.extend(
                    started.undone.into_iter().map(|event| WorldEvent::Undone(address, event)),
                );
                self.booted.insert(address, self.now);
                if !self.is_joining(site) {
                    let uniform_vec =
                        started.worker.machine().unistore().status().view().uniform_vec;
                    self.claims[site].join(&uniform_vec);
                }
                let finals = started.worker.machine().creek().map(last_finals);
                self.show_start(address, started.shown, finals);
                self.workers.insert(address, started.worker);
                self.begin_links(address);
                self.show_copies(address);
                self.carry_out(address);
            }
            Err(Refusal::NotNow) => {
                self.tally.count("starts that failed for now");
                let at = self.now + self.random.within(1, 100) * MS;
                self.push(
                    at,
                    Due::Fault(Fault::Disk(site, address.worker.into(), DiskFault::Start)),
                );
            }
            Err(Refusal::Damaged(damage)) => {
                self.tally.count("damage refused");
                self.trace.write(self.now, format_args!("{address:?} is damaged: {damage}"));
                self.destroy(site);
            }
            Err(Refusal::Lost { unseeable: true, .. }) => {
                self.tally.count("damage that cannot be seen");
                self.trace.write(self.now, format_args!("{address:?} has lost its last batch"));
                self.destroy(site);
            }
            Err(Refusal::Lost { promised, found, .. }) => {
                self.events.push(WorldEvent::Lost(format!(
                    "{address:?} has records up to {found} of the {promised} that were durable"
                )));
                self.destroy(site);
            }
        }
    }

    /// Starts a worker that does not run, and restarts one whose disk has failed.
    pub(super) fn start_again(&mut self, address: Address) {
        let failing = self.workers.get(&address).is_some_and(|worker| worker.refuses().is_some());
        if failing && self.runs(address.site.index()) {
            self.kill(address, false);
        }
        self.start(address);
    }

    /// Has a worker's process die soon, and start from the checkpoint that it has written.
    fn crash_after_checkpoint(&mut self, address: Address) {
        let at = self.now + self.random.within(1, 60) * MS;
        let power = self.random.chance(50);
        for (at, fault) in [(at, DiskFault::Crash { power }), (at + 20 * MS, DiskFault::Start)] {
            let fault = Fault::Disk(address.site.index(), address.worker.into(), fault);
            self.push(at, Due::Fault(fault));
        }
    }

    /// Writes the next part of a worker's checkpoint. Returns whether there was one.
    pub(super) fn checkpoint(&mut self, address: Address, keys: usize) -> bool {
        if !self.storages.contains_key(&address) {
            return false;
        }
        let Some(worker) = self.workers.get_mut(&address) else { return false };
        if !worker.is_saving() {
            worker.begin_checkpoint();
            self.overtaken.begin(address, worker.log().map(Log::last).unwrap_or_default());
        }
        let part = worker.save(keys);
        if matches!(part, Some((_, solera_site::Part::Occult(_)))) {
            self.overtaken.note_part(address);
        }
        let is_whole = part.is_none() || !worker.is_saving();
        let is_overtaken = is_whole && self.overtaken.end(address);
        let power_fails = self.power_fails_at_checkpoints && is_whole && worker.has_undurable();
        if self.trace.is_on() {
            self.trace.write(self.now, format_args!("{address:?} saves {part:?}"));
        }
        self.look_after(address);
        if is_overtaken && self.random.chance(20) {
            self.crash_after_checkpoint(address);
        }
        if power_fails {
            self.tally.count("losses of power at a checkpoint");
            self.kill(address, true);
            let start = Fault::Disk(address.site.index(), address.worker.into(), DiskFault::Start);
            self.push(self.now + 20 * MS, Due::Fault(start));
        }
        part.is_some()
    }
}
