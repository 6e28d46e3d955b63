//! Operators who move homes while sessions use them.

use std::collections::BTreeSet;

use solera_data::Key;
use solera_occult::{Command, Move, ShardId};
use solera_time::SiteId;

use super::{Doing, OccultSessions};
use crate::world::{SiteState, World};

impl OccultSessions {
    /// Requests that the session's worker moves the homes of some shards.
    pub(super) fn move_some_homes(&mut self, world: &mut World, index: usize, homes: usize) {
        let at = self.sessions[index].at;
        let shards = world.occults().next().map_or(1, |(_, occult)| occult.config().shards);
        let first = self.random.below(usize::from(shards)) as u16;
        let last = (first + self.random.below(3) as u16).min(shards - 1);
        let to = vec![SiteId(self.random.below(homes) as u8)];
        let shards = vec![(ShardId(first), ShardId(last))];
        let next = Move { shards, from: None, to, forced: false };
        self.ask(world, index, Doing::Move, vec![(at, Command::Move(next))]);
    }

    /// Returns whether the session's worker has carried out all moves that the session has seen.
    pub(super) fn knows_moves(&self, world: &World, index: usize) -> bool {
        let session = &self.sessions[index];
        epoch_of(world, session.at).is_none_or(|epoch| epoch >= session.epoch)
    }

    /// Returns whether the session has seen a move that only lost sites have carried out.
    pub(super) fn is_ahead_of_all(&self, world: &World, index: usize) -> bool {
        let epochs = world.occults().map(|(_, occult)| occult.homes().epoch());
        epochs.max().is_none_or(|epoch| epoch < self.sessions[index].epoch)
    }

    /// Notes the number of moves that the session's worker has carried out.
    pub(super) fn note_moves(&mut self, world: &World, index: usize) {
        let session = &mut self.sessions[index];
        session.epoch = epoch_of(world, session.at).unwrap_or(0).max(session.epoch);
    }
}

fn epoch_of(world: &World, worker: solera_machine::Address) -> Option<u64> {
    world.occults().find(|(at, _)| *at == worker).map(|(_, occult)| occult.homes().epoch())
}

/// The home of a key at the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyHome {
    /// The home.
    pub(super) site: SiteId,
    /// Whether it was the home from the beginning.
    pub(super) is_first: bool,
    /// Whether the home is up and has all data. The data of a moving shard arrives only after
    /// transactions are decided, and any home may have to decide them; so all homes must be up
    /// then.
    pub(super) is_up: bool,
    /// Whether a transaction is undecided there, because the home that decides it is lost.
    pub(super) is_held: bool,
}

impl KeyHome {
    pub(super) fn of(world: &World, key: &Key) -> Option<KeyHome> {
        let (_, occult) = world.occults().next()?;
        let (shard, homes) = (occult.config().shard_of(key), occult.homes());
        let (site, is_first) = (homes.home(shard), homes.former(shard).is_empty());
        let is_up = |site: SiteId| world.state(site.index()) == SiteState::Up;
        let is_up = match is_first {
            true => is_up(site),
            false => ShardId::all(homes.shards()).all(|shard| {
                let mut former = homes.former(shard).iter();
                is_up(homes.home(shard)) && former.all(|former| is_up(former.site))
            }),
        };
        let mut at_home = world.occults().filter(|(address, _)| address.site == site);
        let is_held = at_home.any(|(_, occult)| occult.unfinished().0 > 0);
        Some(KeyHome { site, is_first, is_up, is_held })
    }
}

/// Returns a problem if workers have carried out different moves.
pub(super) fn differences(world: &World) -> Option<String> {
    let epochs: BTreeSet<u64> = world.occults().map(|(_, it)| it.homes().epoch()).collect();
    (epochs.len() > 1).then(|| format!("workers have carried out different moves: {epochs:?}"))
}
