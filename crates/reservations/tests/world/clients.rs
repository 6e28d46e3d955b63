//! Clients: transactions that take tokens, and reads.

use std::collections::BTreeMap;
use std::time::Duration;

use solera_machine::{Guard, GuardAnswer, GuardQuestion, Guarded, PromiseId, RequestId, Verdict};
use solera_reservations::{Cannot, Claim, Command, Key, PROTOCOL, Response, TakeId, Tokens};
use solera_time::Vector;

use super::{EXACT_MS, MS, SPENT, UNHEARD, World};

/// Step of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for tokens that it takes itself.
    Taking,
    /// It waits for the tokens that its guard takes.
    Reserving,
    /// It has its tokens, and asks for the promise at this time.
    Holding(u64),
    /// It has asked for the promise.
    Asking,
    /// It may commit, and decides at this time.
    Promised(u64),
    /// It is committed, and the site applies it at this time.
    Decided(u64),
    /// The guard has not acknowledged the end.
    Ending,
    Done,
}

pub(crate) struct Tx {
    pub(crate) site: usize,
    /// Whether its guard takes the tokens.
    reserves: bool,
    pub(crate) updates: Vec<(Key, i64, Option<TakeId>)>,
    pub(crate) state: State,
    commits: bool,
    /// Whether the request for the answer of the guard is on its way.
    asked: bool,
}

/// Purpose of a request.
#[derive(Clone, Debug)]
enum Purpose {
    Take { tx: usize, place: usize, must: bool },
    Reserve { tx: usize, must: bool },
    Promise(usize),
    End(usize),
    Read { site: usize, key: Key, begin: u64, must: bool },
}

#[derive(Default)]
pub(crate) struct Clients {
    pub(crate) transactions: Vec<Tx>,
    /// First transaction that may not be done.
    first: usize,
    requests: BTreeMap<RequestId, (usize, Purpose)>,
    next: u64,
    pub(crate) committed: usize,
    pub(crate) refused: usize,
    pub(crate) cannot: BTreeMap<String, usize>,
    /// Number of exact answers to the last reads.
    pub(crate) exact: usize,
    /// Whether takes and reads must succeed.
    pub(crate) must_succeed: bool,
}

/// How long clients wait, in virtual time of the site.
pub(crate) const PATIENCE: Duration = Duration::from_millis(300);

impl World {
    fn request(&mut self, site: usize, purpose: Purpose, command: Command) {
        self.clients.next += 1;
        let request = RequestId(self.clients.next);
        self.clients.requests.insert(request, (site, purpose));
        self.command(site, request, command);
    }

    /// Begins operations at random.
    pub(crate) fn begin_operations(&mut self) {
        for site in 0..self.nodes.len() {
            if self.is_gone(site) {
                continue;
            }
            if self.random.chance(self.load) {
                self.begin_transaction(site);
            }
            if self.random.chance(self.load) {
                let key = self.some_key();
                self.read(site, key);
            }
        }
    }

    fn some_key(&mut self) -> Key {
        let all = self.keys.len();
        let place = if self.random.chance(50) { self.hot } else { self.random.index(all) };
        self.keys[place].clone()
    }

    pub(crate) fn read(&mut self, site: usize, key: Key) {
        let (begin, must) = (self.truth.next_moment(), self.clients.must_succeed);
        let purpose = Purpose::Read { site, key: key.clone(), begin, must };
        self.request(site, purpose, Command::Interval { key, within: PATIENCE });
    }

    fn begin_transaction(&mut self, site: usize) {
        let count = if self.random.one_in(6) { 2 } else { 1 };
        let mut updates = Vec::new();
        for _ in 0..count {
            let key = self.some_key();
            let size = 1 + self.random.below(3) * self.random.below(3);
            // Nobody waits for a large update of a site that has failed.
            let large = !self.shape.stops && self.random.one_in(60);
            let size = if large { 40 } else { size };
            let up = self.random.chance(self.rise);
            let amount = if up { size as i64 } else { -(size as i64) };
            updates.push((key, amount));
        }
        self.begin_updates(site, updates);
    }

    pub(crate) fn begin_updates(&mut self, site: usize, updates: Vec<(Key, i64)>) {
        let tx = self.clients.transactions.len();
        let begin = self.truth.next_moment();
        for (key, amount) in &updates {
            self.truth.update(key, (tx, *amount), begin);
        }
        let updates: Vec<_> =
            updates.into_iter().map(|(key, amount)| (key, amount, None)).collect();
        let commits = !self.random.one_in(8);
        let reserves = self.random.chance(40);
        let must = self.clients.must_succeed;
        self.clients.transactions.push(Tx {
            site,
            reserves,
            updates: updates.clone(),
            state: if reserves { State::Reserving } else { State::Taking },
            commits,
            asked: false,
        });
        if updates.len() == 1 && self.random.chance(30) && self.spend(tx) {
            return;
        }
        if reserves {
            let (id, guards) = (promise_id(tx), self.guards_of(tx));
            let snapshot = Vector::zero(self.nodes.len());
            let question = GuardQuestion::Reserve { id, guards, snapshot };
            self.request(site, Purpose::Reserve { tx, must }, Command::Guard(question));
            if self.faulty && self.random.one_in(40) {
                // The client gives up before the answer, or after it.
                self.clients.transactions[tx].commits = false;
                self.clients.transactions[tx].state = State::Ending;
                self.truth.abort(tx);
                self.end(tx);
            }
            return;
        }
        for (place, (key, amount, _)) in updates.into_iter().enumerate() {
            let command = Command::Take { key, amount, within: PATIENCE };
            self.request(site, Purpose::Take { tx, place, must }, command);
        }
    }

    /// Commits an update at once, if the site has the tokens. Returns whether the update is done.
    fn spend(&mut self, tx: usize) -> bool {
        let transaction = &self.clients.transactions[tx];
        let (site, commits) = (transaction.site, transaction.commits);
        let (key, amount, _) = transaction.updates[0].clone();
        if !self.takes_inputs(site) {
            return false;
        }
        let reading = self.reading(site);
        let machine = &mut self.nodes[site].machine;
        let Some(spent) = machine.spend(reading, &key, Tokens::of(amount)) else { return false };
        self.clients.transactions[tx].state = State::Done;
        if self.nodes[site].doomed && self.random.chance(50) {
            // The commit is not durable.
            self.truth.abort(tx);
            self.crash(site);
        } else if commits {
            let delay = match self.faulty && self.random.one_in(4) {
                true => self.random.below(200 * MS),
                false => self.random.below(3 * MS),
            };
            let position = self.append_later(site, vec![(key.clone(), amount)], delay);
            self.nodes[site].machine.note_commit(spent, position);
            self.clients.committed += 1;
            self.truth.commit(site, &key, amount);
            if !self.random.one_in(80) {
                self.truth.acknowledge(tx);
            }
            *self.rare.entry(SPENT).or_default() += 1;
            if self.faulty && self.random.one_in(25) {
                self.crash(site);
            }
        } else {
            self.nodes[site].machine.give_back_spent(reading, spent);
            self.truth.abort(tx);
            self.collect(site);
        }
        true
    }

    /// Returns the guards of a transaction.
    fn guards_of(&self, tx: usize) -> Guarded {
        let transaction = &self.clients.transactions[tx];
        let mut claims: Vec<(Key, Claim)> = Vec::new();
        if transaction.reserves {
            let mut sums: BTreeMap<&Key, Tokens> = BTreeMap::new();
            for (key, amount, _) in &transaction.updates {
                let sum = sums.entry(key).or_default();
                *sum = sum.plus(Tokens::of(*amount));
            }
            claims.extend(sums.into_iter().map(|(key, sum)| (key.clone(), Claim::Tokens(sum))));
        } else {
            let taken = transaction.updates.iter();
            claims.extend(taken.map(|(key, _, take)| (key.clone(), Claim::Take(take.unwrap()))));
        }
        let guard = |(key, claim): (Key, Claim)| Guard {
            key,
            protocol: PROTOCOL.number,
            claim: claim.encode(),
        };
        claims.into_iter().map(guard).collect()
    }

    pub(crate) fn on_reply(&mut self, request: RequestId, response: Response) {
        let Some((_, purpose)) = self.clients.requests.remove(&request) else { return };
        match (purpose, response) {
            (Purpose::Take { tx, place, .. }, Response::Taken(id)) => self.on_taken(tx, place, id),
            (Purpose::Take { tx, place, must }, Response::Cannot(reason)) => {
                let state = &mut self.clients.transactions[tx].state;
                if *state == State::Taking {
                    *state = State::Done;
                    self.truth.abort(tx);
                }
                let name = name_of(&reason);
                if must {
                    let tx = &self.clients.transactions[tx];
                    let (key, amount, _) = &tx.updates[place];
                    let key = String::from_utf8_lossy(key);
                    let text = format!(
                        "{} ms: site {}: {amount} of {key}: {reason:?}",
                        self.now / MS,
                        tx.site
                    );
                    self.unfinished.push(text);
                }
                *self.clients.cannot.entry(name).or_default() += 1;
            }
            (Purpose::Reserve { tx, must }, Response::Guard(GuardAnswer::Verdict(verdict))) => {
                self.on_reserved(tx, must, verdict);
            }
            (Purpose::Promise(tx), Response::Guard(GuardAnswer::Verdict(verdict))) => {
                self.on_verdict(tx, &verdict);
            }
            (Purpose::End(tx), Response::Guard(GuardAnswer::Ended)) => {
                self.clients.transactions[tx].state = State::Done;
            }
            (Purpose::Read { site, key, begin, .. }, Response::Interval { least, greatest }) => {
                self.truth.answer(site, &key, begin, (least, greatest));
                let last = self.now >= EXACT_MS * MS;
                self.clients.exact += usize::from(last && least == greatest);
            }
            (Purpose::Read { site, key, must, .. }, Response::Cannot(reason)) => {
                if must {
                    let key = String::from_utf8_lossy(&key);
                    self.unfinished.push(format!("site {site}: a read of {key}: {reason:?}"));
                }
                let name = format!("read {}", name_of(&reason));
                *self.clients.cannot.entry(name).or_default() += 1;
            }
            (purpose, response) => panic!("{response:?} to {purpose:?}"),
        }
    }

    fn on_reserved(&mut self, tx: usize, must: bool, verdict: Verdict) {
        let at = self.some_time();
        let transaction = &mut self.clients.transactions[tx];
        if transaction.state != State::Reserving {
            return;
        }
        match verdict {
            Verdict::Promised => transaction.state = State::Holding(at),
            Verdict::Later { .. } => panic!("no key of this world has rights"),
            Verdict::Refused(refusal) => {
                transaction.state = State::Done;
                self.truth.abort(tx);
                let text = format!("{} ms: {refusal:?}", self.now / MS);
                self.unfinished.extend(must.then_some(text));
                *self.clients.cannot.entry("refused reservation".into()).or_default() += 1;
            }
        }
    }

    /// Returns a time until which a transaction holds its tokens.
    fn some_time(&mut self) -> u64 {
        let hoards = self.faulty && self.random.one_in(15);
        let delay = match hoards {
            true => self.random.below(400 * MS),
            false => self.random.below(12 * MS),
        };
        self.now + delay
    }

    fn on_taken(&mut self, tx: usize, place: usize, id: TakeId) {
        let at = self.some_time();
        let transaction = &mut self.clients.transactions[tx];
        let site = transaction.site;
        transaction.updates[place].2 = Some(id);
        if transaction.state != State::Taking {
            // Another token was not to be had.
            let key = transaction.updates[place].0.clone();
            if self.random.chance(70) {
                self.command(site, UNHEARD, Command::GiveBack { key, take: id });
            }
            return;
        }
        if transaction.updates.iter().all(|(_, _, take)| take.is_some()) {
            transaction.state = State::Holding(at);
        }
    }

    fn on_verdict(&mut self, tx: usize, verdict: &Verdict) {
        let delay = match self.faulty && self.random.one_in(10) {
            true => self.random.below(500 * MS),
            false => self.random.below(10 * MS),
        };
        let transaction = &mut self.clients.transactions[tx];
        transaction.asked = false;
        if transaction.state != State::Asking {
            return;
        }
        if *verdict == Verdict::Promised {
            transaction.state = State::Promised(self.now + delay);
        } else {
            self.clients.refused += 1;
            transaction.state = State::Done;
            self.truth.abort(tx);
        }
    }

    /// Continues transactions whose time has come.
    pub(crate) fn continue_transactions(&mut self) {
        let transactions = &self.clients.transactions;
        let done = |tx: &&Tx| tx.state == State::Done;
        self.clients.first += transactions[self.clients.first..].iter().take_while(done).count();
        for tx in self.clients.first..self.clients.transactions.len() {
            let transaction = &self.clients.transactions[tx];
            let (site, state) = (transaction.site, transaction.state);
            if self.is_gone(site) {
                continue;
            }
            match state {
                State::Holding(at) if at <= self.now && !self.is_down(site) => {
                    self.clients.transactions[tx].state = State::Asking;
                    self.ask_guard(tx);
                }
                State::Asking if !transaction.asked && !self.is_down(site) => self.ask_guard(tx),
                State::Promised(at) if at <= self.now && !self.is_down(site) => self.decide(tx),
                State::Decided(at) if at <= self.now && self.is_up(site) => {
                    let updates = transaction.updates.iter();
                    let updates = updates.map(|(key, amount, _)| (key.clone(), *amount)).collect();
                    self.apply(site, updates);
                    self.clients.transactions[tx].state = State::Ending;
                    self.end(tx);
                }
                State::Ending if !transaction.asked && !self.is_down(site) => self.end(tx),
                _ => {}
            }
        }
    }

    fn ask_guard(&mut self, tx: usize) {
        let transaction = &mut self.clients.transactions[tx];
        transaction.asked = true;
        let site = transaction.site;
        let guards = self.guards_of(tx);
        let question = GuardQuestion::Promise { id: promise_id(tx), guards };
        self.request(site, Purpose::Promise(tx), Command::Guard(question));
    }

    /// The coordinator decides.
    fn decide(&mut self, tx: usize) {
        let transaction = &mut self.clients.transactions[tx];
        if !transaction.commits {
            transaction.state = State::Ending;
            self.truth.abort(tx);
            return self.end(tx);
        }
        let delay = match self.faulty && self.random.one_in(10) {
            true => self.random.below(300 * MS),
            false => self.random.below(4 * MS),
        };
        transaction.state = State::Decided(self.now + delay);
        self.clients.committed += 1;
        let site = transaction.site;
        for (key, amount, _) in transaction.updates.clone() {
            self.truth.commit(site, &key, amount);
        }
        // Some clients never learn it.
        if !self.random.one_in(80) {
            self.truth.acknowledge(tx);
        }
    }

    fn end(&mut self, tx: usize) {
        let transaction = &mut self.clients.transactions[tx];
        transaction.asked = true;
        let (site, committed) = (transaction.site, transaction.commits);
        let question = GuardQuestion::End { id: promise_id(tx), committed };
        self.request(site, Purpose::End(tx), Command::Guard(question));
    }

    /// The process of a site has ended: its clients get no answers, and its coordinators repeat
    /// their questions to the guard.
    pub(crate) fn lose_requests(&mut self, site: usize) {
        let lost = self.clients.requests.iter().filter(|(_, (of, _))| *of == site);
        let lost: Vec<RequestId> = lost.map(|(request, _)| *request).collect();
        for request in lost {
            match self.clients.requests.remove(&request) {
                Some((_, Purpose::Take { tx, .. })) => {
                    let state = &mut self.clients.transactions[tx].state;
                    if *state == State::Taking {
                        *state = State::Done;
                        self.truth.abort(tx);
                    }
                }
                Some((_, Purpose::Reserve { tx, .. })) => {
                    // Its coordinator aborts it, and notifies the guard.
                    let transaction = &mut self.clients.transactions[tx];
                    if transaction.state == State::Reserving {
                        transaction.commits = false;
                        transaction.state = State::Ending;
                        self.truth.abort(tx);
                    }
                }
                Some((_, Purpose::Promise(tx) | Purpose::End(tx))) => {
                    self.clients.transactions[tx].asked = false;
                }
                _ => {}
            }
        }
    }
}

fn promise_id(tx: usize) -> PromiseId {
    PromiseId { coordinator: 0, sequence: tx as u64 + 1 }
}

fn name_of(reason: &Cannot) -> String {
    let text = format!("{reason:?}");
    text.split([' ', '{']).next().unwrap_or_default().to_owned()
}
