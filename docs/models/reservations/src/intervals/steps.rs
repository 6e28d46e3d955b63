//! Steps of the protocol. Each checks its own conditions.

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A transaction takes a token.
    Take(Site, Kind),
    /// All steps of a transaction at once, in scenarios about other steps.
    Update(Site, Kind),
    /// The guard promises to allow the commit of the transaction at this position.
    Promise(Site, usize),
    /// The coordinator decides to commit. The client may have the answer from now on.
    Decide(Site, usize),
    /// The site applies the commit: the update enters the stream.
    Apply(Site, usize),
    /// The transaction aborts, or the guard refuses.
    Abort(Site, usize),
    /// The site stops under an epoch: it is idle, or its lease ends by its own clock.
    End(Site, Epoch),
    /// The site receives the next entry of a stream.
    Receive(Site, Site),
    /// The site receives the next version of the record, and confirms it.
    Copy(Site),
    /// The reader's clock shows that its lease has ended.
    Lapse(Site),
    /// A read begins, and reads the clock. Used without `CheckAfter` alone.
    Look(Site),
    /// The site restarts.
    Restart(Site),
    // Strong transactions.
    Renew(Site),
    Exclude(Site),
    /// The site pins its reports, to sponsor an admission.
    Offer(Site),
    Withdraw(Site),
    Admit {
        site: Site,
        sponsor: Site,
    },
    Request(Site, [u8; 2]),
    Reclaim(Site, Epoch),
    ProposeFloor(u8),
    RaiseFloor(Site),
    LowerFloor(u8),
    /// All readers lose the right: their leases have ended.
    Close,
    /// All remaining sites become readers.
    Found,
    /// The members have agreed how much of the stream of a removed site remains.
    Remove(Site),
}
use Action::*;

impl Intervals {
    /// Takes a step. Returns whether its conditions hold.
    pub fn step(&self, state: &mut State, action: Action) -> bool {
        match action {
            Take(site, kind) => self.take(state, site, kind),
            Update(site, kind) => {
                let position = state.transactions[site].len();
                self.take(state, site, kind)
                    && self.promise(state, site, position)
                    && advance(state, site, position, Phase::Decided)
                    && apply(state, site, position)
            }
            Promise(site, position) => self.promise(state, site, position),
            Decide(site, position) => advance(state, site, position, Phase::Decided),
            Apply(site, position) => apply(state, site, position),
            Abort(site, position) => {
                let open = state.transactions[site].get(position);
                let may = open.is_some_and(|transaction| transaction.phase != Phase::Decided);
                if may {
                    state.transactions[site].remove(position);
                }
                may
            }
            End(site, epoch) => self.end(state, site, epoch),
            Receive(site, origin) => {
                let more = usize::from(state.known[site][origin]) < state.streams[origin].len();
                state.known[site][origin] += u8::from(more);
                more
            }
            Copy(site) => {
                let more = usize::from(state.copies[site]) + 1 < state.history.len();
                state.copies[site] += u8::from(more);
                more
            }
            Lapse(site) => state.leases[site].take().is_some(),
            Look(site) => {
                let changes = state.looked[site] != state.leases[site];
                state.looked[site] = state.leases[site];
                changes && state.looked[site].is_some()
            }
            Restart(site) => self.restart(state, site),
            _ => self.strong(state, action),
        }
    }

    fn strong(&self, state: &mut State, action: Action) -> bool {
        match action {
            Renew(site) => renew(state, site),
            Exclude(site) => self.exclude(state, site),
            Offer(site) => self.offer(state, site),
            Withdraw(site) => {
                let own = state.copies[site];
                let ended = state.pins[site].and_then(|pin| pin.ended);
                let may = ended.is_some_and(|ended| ended <= own) && self.has(Rule::EndOffers);
                if may {
                    state.pins[site] = None;
                }
                may
            }
            Admit { site, sponsor } => self.admit(state, site, sponsor),
            Request(site, tokens) => self.grant(state, site, tokens),
            Reclaim(site, epoch) => self.reclaim(state, site, epoch),
            ProposeFloor(floor) => {
                let mut record = state.latest().clone();
                let may = record.raise.is_none() && floor > record.floor;
                record.raise = Some((floor, state.history.len() as Version));
                may && change(state, record)
            }
            RaiseFloor(site) => self.raise_floor(state, site),
            LowerFloor(floor) => {
                let mut record = state.latest().clone();
                let may = floor < record.floor && record.raise.is_none();
                record.floor = floor;
                may && self.fits(&record) && change(state, record)
            }
            Close => self.close(state),
            Found => self.found(state),
            Remove(site) => self.remove(state, site),
            _ => false,
        }
    }

    fn take(&self, state: &mut State, site: Site, kind: Kind) -> bool {
        if state.latest().removed == Some(site) {
            return false;
        }
        let Some(grant) = self.usable(state, site) else { return false };
        if self.free(state, grant, kind) == 0 {
            return false;
        }
        if kind == Decrement && !self.fits_floor(state, site) {
            return false;
        }
        let right = self.right(state, site).filter(|_| kind == Decrement);
        let term = right.map_or(0, |right| right.term);
        let transaction = Transaction { kind, epoch: grant.epoch, term, phase: Phase::Taken };
        state.transactions[site].push(transaction);
        true
    }

    /// The check at commit (H6): the site has not stopped under the epoch. A decrement also needs
    /// the right to answer intervals, and the same one as when its token was taken.
    fn promise(&self, state: &mut State, site: Site, position: usize) -> bool {
        let Some(transaction) = state.transactions[site].get(position).copied() else {
            return false;
        };
        let ended = has_ended(&state.streams[site], transaction.epoch);
        let right = self.right(state, site).map(|right| right.term);
        let leased = right.is_some() && state.leases[site] == right;
        let same = right == Some(transaction.term) || !self.has(Rule::TermAtCommit);
        let permitted = leased && same || !self.has(Rule::LeaseAtCommit);
        (!ended || !self.has(Rule::CheckAtCommit))
            && (transaction.kind == Increment || permitted)
            && advance(state, site, position, Phase::Promised)
    }

    /// A site stops under an epoch when no promise is open under it (H7).
    fn end(&self, state: &mut State, site: Site, epoch: Epoch) -> bool {
        let promised = state.transactions[site].iter().any(|transaction| {
            matches!(transaction.phase, Phase::Promised | Phase::Decided)
                && transaction.epoch <= epoch
        });
        let granted =
            state.copy(site).grants.iter().any(|grant| grant.site == site && grant.epoch == epoch);
        let may = granted
            && self.has(Rule::EndWhenIdle)
            && state.latest().removed != Some(site)
            && !has_ended(&state.streams[site], epoch)
            && (!promised || !self.has(Rule::EndAfterPromises));
        may && append(state, site, Entry::Ended(epoch))
    }

    /// Takes, and the lease, are volatile. Copies, promises, pins and streams are durable (L1).
    fn restart(&self, state: &mut State, site: Site) -> bool {
        state.transactions[site].retain(|transaction| transaction.phase != Phase::Taken);
        state.leases[site] = None;
        if !self.has(Rule::LeaseIsVolatile) {
            state.leases[site] = state.copy(site).readers[site].map(|reader| reader.term);
        }
        if !self.has(Rule::DurableCopies) {
            state.copies[site] = 0;
        }
        if !self.has(Rule::DurablePromises) {
            let promised = state.transactions[site].iter_mut();
            let promised = promised.filter(|transaction| transaction.phase == Phase::Promised);
            promised.for_each(|transaction| transaction.phase = Phase::Lost);
        }
        if !self.has(Rule::DurablePins) {
            state.pins[site] = None;
        }
        true
    }

    /// A ready reader excludes one whose lease has certainly ended (S3). The excluder's clock
    /// measures longer than the lease since it has learned of the last renewal.
    fn exclude(&self, state: &mut State, site: Site) -> bool {
        let mut record = state.latest().clone();
        let Some(reader) = record.readers[site] else { return false };
        let lapsed = state.leases[site] != Some(reader.term) || !self.has(Rule::WaitForLease);
        let other = self.sites().any(|other| other != site && self.is_ready(state, other));
        record.readers[site] = None;
        lapsed && other && self.has(Rule::Exclude) && change(state, record)
    }

    /// Whether a site has the right in the latest version, and uses it.
    pub fn is_ready(&self, state: &State, site: Site) -> bool {
        let right = self.right(state, site);
        let latest = state.latest().readers[site];
        right.is_some_and(|right| latest.is_some_and(|latest| latest.term == right.term))
    }

    /// A ready reader offers what it has seen to a site without the right (S4).
    fn offer(&self, state: &mut State, site: Site) -> bool {
        let Some(right) = self.right(state, site) else { return false };
        if state.pins[site].is_some() {
            return false;
        }
        state.pins[site] = Some(Pin { seen: state.known[site], term: right.term, ended: None });
        true
    }

    fn admit(&self, state: &mut State, site: Site, sponsor: Site) -> bool {
        let mut record = state.latest().clone();
        let Some(pin) = state.pins[sponsor] else { return false };
        let offered = record.readers[sponsor].is_some_and(|reader| reader.term == pin.term);
        let open = pin.ended.is_none();
        if record.readers[site].is_some() || record.removed == Some(site) || !offered || !open {
            return false;
        }
        record.terms[site] += 1;
        let (term, version) = (record.terms[site], state.history.len() as Version);
        record.readers[site] = Some(Reader { term, since: pin.seen, sponsor, version });
        state.leases[site] = Some(term);
        change(state, record)
    }

    /// Grants tokens, if all tokens fit the floor (S1).
    fn grant(&self, state: &mut State, site: Site, tokens: [u8; 2]) -> bool {
        let mut record = state.latest().clone();
        record.epochs[site] += 1;
        record.grants.push(Grant { site, epoch: record.epochs[site], tokens });
        self.fits(&record) && record.removed != Some(site) && change(state, record)
    }

    /// Removes a grant when there are readers, and each has seen that its site has stopped (S2).
    fn reclaim(&self, state: &mut State, site: Site, epoch: Epoch) -> bool {
        let mut record = state.latest().clone();
        let may = self.sites().filter(|reader| record.readers[*reader].is_some()).all(|reader| {
            let seen = usize::from(self.pinned(state, reader)[site]);
            let stream = &state.streams[site];
            let gone = state.copy(reader).removed == Some(site) && seen >= stream.len();
            gone || has_ended(&stream[..seen.min(stream.len())], epoch)
        });
        let count = record.grants.len();
        record.grants.retain(|grant| grant.site != site || grant.epoch != epoch);
        let removes = record.grants.len() < count;
        let may = may && record.closed.is_none() || !self.has(Rule::ReclaimAfterEnd);
        removes && may && change(state, record)
    }

    /// Raises the floor when all holders of decrements respect the new one, and the value is above
    /// it whatever they do (S5).
    fn raise_floor(&self, state: &mut State, site: Site) -> bool {
        let mut record = state.latest().clone();
        let Some((floor, version)) = record.raise else { return false };
        let mut holders = record.grants.iter().filter(|grant| grant.tokens[1] > 0);
        let respected = holders.all(|grant| state.copies[grant.site] >= version);
        let leased = self.right(state, site).map(|right| right.term) == state.leases[site]
            && state.leases[site].is_some();
        let above = self.least_value(state, site) >= i16::from(floor);
        let may = (respected || !self.has(Rule::RaiseAfterHolders))
            && (above || !self.has(Rule::RaiseBelowValue))
            && leased;
        record.floor = floor;
        record.raise = None;
        may && change(state, record)
    }

    /// Takes the right from all readers, when their leases have certainly ended (S7).
    fn close(&self, state: &mut State) -> bool {
        let mut record = state.latest().clone();
        let leased = self.sites().any(|site| {
            let term = record.readers[site].map(|reader| reader.term);
            term.is_some() && state.leases[site] == term
        });
        let open = record.closed.is_none();
        record.readers = Default::default();
        record.closed = Some(state.history.len() as Version);
        open && (!leased || !self.has(Rule::CloseAfterLeases)) && change(state, record)
    }

    /// Gives the right to all sites, when no token is left that somebody may use (S7).
    fn found(&self, state: &mut State) -> bool {
        let mut record = state.latest().clone();
        let Some(closed) = record.closed.take() else { return false };
        let running = |site: &Site| record.removed != Some(*site);
        let ended = |site: Site| {
            let mut grants = record.grants.iter().filter(|grant| grant.site == site);
            grants.all(|grant| has_ended(&state.streams[site], grant.epoch))
        };
        let confirmed = self.sites().filter(running).all(|site| state.copies[site] >= closed);
        let over = self.sites().filter(running).all(ended);
        if !(confirmed && over) && self.has(Rule::FoundAfterEnds) {
            return false;
        }
        let since = std::array::from_fn(|site| state.streams[site].len() as u8);
        let version = state.history.len() as Version;
        for site in self.sites().filter(|site| state.latest().removed != Some(*site)) {
            record.terms[site] += 1;
            let term = record.terms[site];
            record.readers[site] = Some(Reader { term, since, sponsor: site, version });
        }
        record.grants.clear();
        change(state, record)
    }

    /// Removes a site that has no right any more: what no member has is lost (S6).
    fn remove(&self, state: &mut State, site: Site) -> bool {
        let mut record = state.latest().clone();
        let excluded = record.readers[site].is_none() || !self.has(Rule::RemoveAfterExclusion);
        if !excluded || record.removed.is_some() {
            return false;
        }
        let others = self.sites().filter(|other| *other != site);
        let cut = others.map(|other| state.known[other][site]).max().unwrap_or(0);
        state.lost = sum(&state.streams[site][usize::from(cut)..]);
        state.streams[site].truncate(cut.into());
        state.known[site][site] = cut;
        state.transactions[site].clear();
        record.removed = Some(site);
        if !self.has(Rule::CountUntilCut) {
            record.grants.retain(|grant| grant.site != site);
        }
        change(state, record)
    }
}

fn advance(state: &mut State, site: Site, position: usize, to: Phase) -> bool {
    let from = |phase| match to {
        Phase::Promised => phase == Phase::Taken,
        _ => matches!(phase, Phase::Promised | Phase::Lost),
    };
    let transaction = state.transactions[site].get_mut(position);
    transaction.filter(|transaction| from(transaction.phase)).is_some_and(|transaction| {
        transaction.phase = to;
        true
    })
}

fn apply(state: &mut State, site: Site, position: usize) -> bool {
    let transaction = state.transactions[site].get(position).copied();
    let Some(transaction) = transaction.filter(|other| other.phase == Phase::Decided) else {
        return false;
    };
    state.transactions[site].remove(position);
    append(state, site, Entry::Update(transaction.kind))
}

fn append(state: &mut State, site: Site, entry: Entry) -> bool {
    state.streams[site].push(entry);
    state.known[site][site] += 1;
    true
}

/// Renews the lease, from when the renewal was sent, and ends an offer of the site (S4).
fn renew(state: &mut State, site: Site) -> bool {
    let Some(reader) = state.latest().readers[site] else { return false };
    let latest = state.history.len() as Version - 1;
    let offers = state.pins[site].is_some_and(|pin| pin.ended.is_none());
    if let Some(pin) = state.pins[site].as_mut().filter(|_| offers) {
        pin.ended = Some(latest);
    }
    let lapsed = state.leases[site] != Some(reader.term);
    state.leases[site] = Some(reader.term);
    lapsed || offers
}

/// Commits a strong transaction that changes the record.
fn change(state: &mut State, record: Record) -> bool {
    state.history.push(record);
    true
}
