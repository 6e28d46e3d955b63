//! State of a key at a site, besides its record.

use std::collections::{BTreeMap, VecDeque};

use solera_machine::RequestId;
use solera_time::{Monotonic, SiteId};

use crate::command::{Cannot, Expiry, TakeId};
use crate::message::Need;
use crate::numbers::{Epoch, Nonce, Position, Term, Tokens, Version};
use crate::rights::Rights;
use crate::waiter::Waiter;

/// Tokens that a transaction has taken, and that its guard has not promised yet.
#[derive(Clone, Debug)]
pub(crate) struct Take {
    pub(crate) epoch: Epoch,
    pub(crate) tokens: Tokens,
    /// Term of the site's right when it was taken. Decrements depend on it.
    pub(crate) term: Option<Term>,
    /// The tokens are taken back at this time.
    pub(crate) until: Monotonic,
}

/// A request for tokens that waits.
#[derive(Clone, Debug)]
pub(crate) struct WaitingTake {
    pub(crate) waiter: Waiter,
    pub(crate) tokens: Tokens,
    pub(crate) since: Monotonic,
    pub(crate) until: Monotonic,
}

/// Kind of result that a read requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadKind {
    Interval,
    Holders,
}

/// A read that waits, with the last reason.
#[derive(Clone, Debug)]
pub(crate) struct WaitingRead {
    pub(crate) request: RequestId,
    pub(crate) kind: ReadKind,
    pub(crate) until: Monotonic,
    pub(crate) reason: Option<Cannot>,
}

/// Updates of this site that a reader may lack, with their sum.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unseen {
    updates: VecDeque<(Position, Tokens)>,
    increments: u128,
    decrements: u128,
}

impl Unseen {
    pub(crate) fn push(&mut self, position: Position, tokens: Tokens) {
        self.updates.push_back((position, tokens));
        self.increments += u128::from(tokens.increments);
        self.decrements += u128::from(tokens.decrements);
    }

    /// Forgets the updates up to a position.
    fn forget(&mut self, upto: Position) {
        while let Some((position, tokens)) = self.updates.front().copied()
            && position <= upto
        {
            self.updates.pop_front();
            self.increments -= u128::from(tokens.increments);
            self.decrements -= u128::from(tokens.decrements);
        }
    }

    fn sum(&self) -> Tokens {
        let cut = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
        Tokens { increments: cut(self.increments), decrements: cut(self.decrements) }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Position, Tokens)> + '_ {
        self.updates.iter().copied()
    }
}

impl FromIterator<(Position, Tokens)> for Unseen {
    fn from_iter<I: IntoIterator<Item = (Position, Tokens)>>(updates: I) -> Unseen {
        let mut unseen = Unseen::default();
        updates.into_iter().for_each(|(position, tokens)| unseen.push(position, tokens));
        unseen
    }
}

/// Questions to the other sites with tokens, when they give them up.
#[derive(Clone, Debug)]
pub(crate) struct Expiries {
    pub(crate) nonce: Nonce,
    /// When the questions were sent last.
    pub(crate) sent: Monotonic,
    /// Requests of clients, and the times until which they wait.
    pub(crate) requests: Vec<(RequestId, Monotonic)>,
    /// Answers, and when they arrived.
    pub(crate) heard: BTreeMap<SiteId, (Expiry, Monotonic)>,
}

/// State of a key. What is durable comes first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter {
    /// Sum of the updates that the site has, of all sites.
    pub(crate) value: i128,
    /// Last end of each holder that the site has seen: the epoch and the position of the entry.
    pub(crate) ended: BTreeMap<SiteId, (Epoch, Position)>,
    /// Updates of this site that a reader may lack.
    pub(crate) unseen: Unseen,
    /// Epoch under which, and under earlier ones, the site gives no promises.
    pub(crate) stopped: Epoch,
    /// Floors that decrements respect, each with the version from which on it is in the record.
    pub(crate) floors: Vec<(Version, Option<i64>)>,
    /// Tokens of open promises, by epoch. The machine has the promises.
    pub(crate) promised: BTreeMap<Epoch, Tokens>,

    taken: BTreeMap<TakeId, Take>,
    taken_tokens: Tokens,
    pub(crate) takes: VecDeque<WaitingTake>,
    pub(crate) reads: Vec<WaitingRead>,
    /// Questions to the sites with tokens, while clients wait for the answers.
    pub(crate) expiries: Option<Expiries>,
    /// When the site last used a token. `None` until the first timer after a restart.
    pub(crate) used: Option<Monotonic>,
    /// Whether an answer to a question about the key's record, or to one about an end, is awaited.
    pub(crate) asking: bool,
    pub(crate) ending: bool,
    /// The copy must reach this version before the next change of the key's record: an earlier one
    /// would conflict.
    pub(crate) wait_for: Version,
    /// When the timer visits the key next.
    pub(crate) due: Option<Monotonic>,
    /// When the site may next ask others for each of the [`Need`]s.
    pub(crate) next_needs: BTreeMap<Need, Monotonic>,
    /// Sites that wait for reports about the key, each with the time until which it does.
    pub(crate) eager: BTreeMap<SiteId, Monotonic>,
    /// Since when a reader waits for the end of the site's epochs, while transactions still use
    /// them.
    pub(crate) awaits_end: Option<Monotonic>,
    /// When a reader last waited because of tokens, although the value permits some.
    pub(crate) narrowed: Option<Monotonic>,
    /// Whether another site needs tokens while this one may have more than its share.
    pub(crate) shrinks: bool,
    /// Version with the proposal of a higher floor, and what the site had when it found the value
    /// not to be below it.
    pub(crate) raise_basis: Option<(Version, Vec<Position>)>,
    /// Whether all tokens that the site could get for the head of `takes` do not fit.
    pub(crate) wants_room: bool,
    /// Rights, if decrements of the key need them. The tally is durable.
    pub(crate) rights: Rights,
}

impl Counter {
    /// Returns the tokens that transactions of the site hold. Each may lead to an update.
    pub(crate) fn in_hand(&self) -> Tokens {
        self.taken_tokens.plus(self.promised_tokens())
    }

    pub(crate) fn promised_tokens(&self) -> Tokens {
        self.promised.values().fold(Tokens::default(), |sum, tokens| sum.plus(*tokens))
    }

    pub(crate) fn unseen_tokens(&self) -> Tokens {
        self.unseen.sum()
    }

    pub(crate) fn waiting_tokens(&self) -> Tokens {
        self.takes.iter().fold(Tokens::default(), |sum, take| sum.plus(take.tokens))
    }

    /// Forgets the updates that all readers have seen.
    pub(crate) fn recycle(&mut self, seen: Position) {
        self.unseen.forget(seen);
    }

    pub(crate) fn take(&mut self, id: TakeId, take: Take) {
        self.taken_tokens = self.taken_tokens.plus(take.tokens);
        self.taken.insert(id, take);
    }

    pub(crate) fn taken(&self, id: TakeId) -> Option<&Take> {
        self.taken.get(&id)
    }

    pub(crate) fn give_back(&mut self, id: TakeId) -> Option<Take> {
        let take = self.taken.remove(&id)?;
        self.taken_tokens = self.taken_tokens.minus(take.tokens);
        Some(take)
    }

    /// Takes back all tokens whose time is over.
    pub(crate) fn take_back(&mut self, now: Monotonic) {
        let over = self.taken.iter().filter(|(_, take)| take.until <= now);
        for id in over.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.give_back(id);
        }
    }

    /// Returns whether transactions hold tokens of this epoch or an earlier one that no guard has
    /// promised.
    pub(crate) fn holds_takes(&self, epoch: Epoch) -> bool {
        self.taken.values().any(|take| take.epoch <= epoch)
    }

    /// Returns the sites that wait for reports about the key, and forgets those that have waited
    /// too long.
    pub(crate) fn eager_at(&mut self, now: Monotonic) -> impl Iterator<Item = SiteId> + '_ {
        self.eager.retain(|_, until| now < *until);
        self.eager.keys().copied()
    }

    /// Returns whether a promise is open under this epoch or an earlier one.
    pub(crate) fn has_promised(&self, epoch: Epoch) -> bool {
        self.promised.range(..=epoch).next().is_some()
    }

    pub(crate) fn promise(&mut self, epoch: Epoch, tokens: Tokens) {
        let of_epoch = self.promised.entry(epoch).or_default();
        *of_epoch = of_epoch.plus(tokens);
    }

    pub(crate) fn end_promise(&mut self, epoch: Epoch, tokens: Tokens) {
        if let Some(of_epoch) = self.promised.get_mut(&epoch) {
            *of_epoch = of_epoch.minus(tokens);
            if of_epoch.is_none() {
                self.promised.remove(&epoch);
            }
        }
    }

    pub(crate) fn last_end(&self, site: SiteId) -> Epoch {
        self.ended.get(&site).map_or(Epoch(0), |(epoch, _)| *epoch)
    }

    /// Returns whether a client or a guard waits for something about the key.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.takes.is_empty() || !self.reads.is_empty() || self.expiries.is_some()
    }

    /// Returns when the first and the last of the taken tokens are taken back.
    pub(crate) fn first_take_ends(&self) -> Option<Monotonic> {
        self.taken.values().map(|take| take.until).min()
    }

    pub(crate) fn last_take_ends(&self) -> Option<Monotonic> {
        self.taken.values().map(|take| take.until).max()
    }
}
