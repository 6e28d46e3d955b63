//! Sites that execute transactions at snapshots, exchange them in causal order, fold and settle.

use proptest::prelude::*;
use solera_data::{Context, Dot, Effect, Op, OpError, Outcome, State, Value, View, execute};
use solera_time::{Origin, SiteId, Timestamp, Vector};

/// A step of a random history.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A site executes operations as one transaction at a snapshot. For each site, `ages` states
    /// how far the snapshot lags: 0 is the newest known state, 255 the oldest allowed.
    Execute { site: usize, ages: Vec<u8>, ops: Vec<Op> },
    /// A site receives the next transaction of another site, if it has everything that this
    /// transaction observed.
    Deliver { at: usize, from: usize },
    /// A site gives up older snapshots, and folds the transactions that all remaining snapshots
    /// contain.
    Fold { site: usize, ages: Vec<u8> },
    /// A site merges what is causally stable.
    Settle(usize),
}

/// A committed transaction on the only key.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) dot: Dot,
    /// The snapshot at which it executed.
    pub(crate) observed: Vector,
    /// Its operations that had an effect.
    pub(crate) ops: Vec<Op>,
    pub(crate) effect: Effect,
}

impl Transaction {
    pub(crate) fn context(&self) -> Context<'_> {
        Context { dot: self.dot, observed: &self.observed }
    }

    fn commit_vec(&self) -> Vector {
        self.observed.with(self.dot.origin, self.dot.ts)
    }

    /// Returns whether a snapshot contains the transaction.
    pub(crate) fn is_within(&self, snapshot: &Vector) -> bool {
        snapshot.covers(&self.commit_vec())
    }
}

/// A replica of the key in two forms: a base with pending effects, which answers at any snapshot,
/// and a state to which transactions are folded at once in the order of arrival.
pub(crate) struct Site {
    base: State,
    /// Transactions that are not in the base, ordered by dot.
    pending: Vec<usize>,
    pub(crate) arrived: State,
    known: Vector,
    /// Lower bound of every later snapshot.
    floor: Vector,
}

pub(crate) struct World {
    pub(crate) transactions: Vec<Transaction>,
    pub(crate) sites: Vec<Site>,
}

impl World {
    pub(crate) fn new(sites: usize) -> Self {
        let site = || Site {
            base: State::new(),
            pending: Vec::new(),
            arrived: State::new(),
            known: Vector::zero(sites),
            floor: Vector::zero(sites),
        };
        World { transactions: Vec::new(), sites: (0..sites).map(|_| site()).collect() }
    }

    pub(crate) fn run(&mut self, step: &Step) {
        match step {
            Step::Execute { site, ages, ops } => self.execute(*site, ages, ops),
            Step::Deliver { at, from } => {
                self.deliver(*at, *from);
            }
            Step::Fold { site, ages } => {
                let floor = self.snapshot(*site, ages);
                self.sites[*site].floor = floor;
                self.fold(*site);
            }
            Step::Settle(site) => self.settle(*site),
        }
    }

    /// Returns a snapshot that a site may use now.
    pub(crate) fn snapshot(&self, site: usize, ages: &[u8]) -> Vector {
        let Site { floor, known, .. } = &self.sites[site];
        let mut snapshot = *known;
        for (id, age) in SiteId::all(self.sites.len()).zip(ages) {
            let span = known[id].0 - floor[id].0;
            snapshot[id] = Timestamp(known[id].0 - span * u64::from(*age) / 255);
        }
        snapshot
    }

    /// Applies `read` to the version of the key at a snapshot.
    pub(crate) fn at<R>(&self, site: usize, snap: &Vector, read: impl Fn(&View<'_>) -> R) -> R {
        let all = self.sites[site].pending.iter().map(|t| &self.transactions[*t]);
        let pending: Vec<(&Effect, Context<'_>)> = all
            .clone()
            .filter(|t| t.is_within(snap))
            .map(|transaction| (&transaction.effect, transaction.context()))
            .collect();
        let unseen: Vec<Dot> = all
            .filter(|t| !t.is_within(snap) && t.dot.ts <= snap[t.dot.origin])
            .map(|transaction| transaction.dot)
            .collect();
        read(&View::with_pending(&self.sites[site].base, &pending, &unseen))
    }

    /// Returns the transactions that a snapshot contains.
    pub(crate) fn within(&self, snap: &Vector) -> Vec<&Transaction> {
        self.transactions.iter().filter(|transaction| transaction.is_within(snap)).collect()
    }

    /// Executes operations one after another in one transaction. Returns those with an effect, and
    /// all their effects combined into one.
    pub(crate) fn compose(view: &View<'_>, ops: &[Op]) -> (Vec<Op>, Option<Effect>) {
        let (mut own, mut done): (Option<Effect>, Vec<Op>) = (None, Vec::new());
        for op in ops {
            if let Ok((_, Some(effect))) = execute(op, &view.own(own.as_ref())) {
                done.push(op.clone());
                own = Some(own.take().unwrap_or_default().then(effect));
            }
        }
        (done, own)
    }

    fn execute(&mut self, site: usize, ages: &[u8], ops: &[Op]) {
        let observed = self.snapshot(site, ages);
        let (ops, effect) = self.at(site, &observed, |view| Self::compose(view, ops));
        let Some(effect) = effect else { return };
        let id = SiteId(site as u8);
        let ts = Timestamp(observed.max_entry().max(self.sites[site].known[id]).0 + 1);
        self.transactions.push(Transaction { dot: Dot::of(id, ts), observed, ops, effect });
        self.receive(site, self.transactions.len() - 1);
    }

    fn deliver(&mut self, at: usize, from: usize) -> bool {
        let (known, origin) = (self.sites[at].known, Origin::Site(SiteId(from as u8)));
        let of_origin = |t: &Transaction| t.dot.origin == origin && t.dot.ts > known[origin];
        match self.transactions.iter().position(of_origin) {
            Some(t) if at != from && known.covers(&self.transactions[t].observed) => {
                self.receive(at, t);
                true
            }
            _ => false,
        }
    }

    fn receive(&mut self, at: usize, t: usize) {
        let (transaction, site) = (&self.transactions[t], &mut self.sites[at]);
        site.arrived.apply(&transaction.effect, transaction.context());
        site.known.raise(transaction.dot.origin, transaction.dot.ts);
        let before = |other: &usize| self.transactions[*other].dot < transaction.dot;
        let place = site.pending.partition_point(before);
        site.pending.insert(place, t);
    }

    fn fold(&mut self, at: usize) {
        let Site { base, pending, floor, .. } = &mut self.sites[at];
        pending.retain(|t| {
            let transaction = &self.transactions[*t];
            if transaction.is_within(floor) {
                base.apply(&transaction.effect, transaction.context());
            }
            !transaction.is_within(floor)
        });
    }

    /// Settles at a site the transactions that are folded there and that every transaction which
    /// can still be folded there has observed.
    fn settle(&mut self, at: usize) {
        for t in 0..self.transactions.len() {
            let commit_vec = self.transactions[t].commit_vec();
            let site = &self.sites[at];
            let to_come = |t: &&Transaction| t.dot.ts > site.known[t.dot.origin];
            let stable = self.sites.iter().all(|site| site.known.covers(&commit_vec))
                && !site.pending.contains(&t)
                && site.pending.iter().all(|t| self.transactions[*t].observed.covers(&commit_vec))
                && self.transactions.iter().filter(to_come).all(|t| t.observed.covers(&commit_vec));
            if !stable {
                continue;
            }
            self.sites.iter_mut().for_each(|site| site.floor.join(&commit_vec));
            let (transaction, site) = (&self.transactions[t], &mut self.sites[at]);
            site.base.settle(&transaction.effect, transaction.dot);
            site.arrived.settle(&transaction.effect, transaction.dot);
        }
        (0..self.sites.len()).for_each(|site| self.fold(site));
    }

    /// Delivers all transactions to all sites.
    pub(crate) fn deliver_all(&mut self) {
        let sites = self.sites.len();
        let pairs = || (0..sites).flat_map(|at| (0..sites).map(move |from| (at, from)));
        while pairs().fold(false, |moved, (at, from)| self.deliver(at, from) || moved) {}
    }
}

/// Returns the operations that read everything a client can read of a key.
pub(crate) fn all_reads() -> Vec<Op> {
    let mut reads = vec![Op::Get, Op::Exists, Op::Type];
    reads.extend([Op::SetMembers, Op::SetLen, Op::HashGetAll]);
    reads.extend([1, 2, u64::MAX].map(Op::HashNewest));
    reads.extend(ELEMENTS.map(|element| Op::SetContains(element.into())));
    reads.extend(FIELDS.map(|field| Op::HashGet(field.into())));
    reads.push(Op::HashGetMany(FIELDS.map(Value::from).to_vec()));
    reads
}

/// Returns the answers to [`all_reads`].
pub(crate) fn answers(view: &View<'_>) -> Vec<Result<Outcome, OpError>> {
    all_reads().iter().map(|op| execute(op, view).map(|(outcome, _)| outcome)).collect()
}

const ELEMENTS: [&str; 3] = ["x", "y", "z"];
/// Names of two fields, and one as that of an element of a list.
const FIELDS: [&str; 3] = ["f", "g", "0005e9d2a4b3c0f1-00000000deadbeef"];

fn any_of(texts: impl Into<Vec<&'static str>>) -> impl Strategy<Value = Value> {
    prop::sample::select(texts.into()).prop_map(Value::from)
}

fn any_op() -> impl Strategy<Value = Op> {
    let (element, field) = (|| any_of(ELEMENTS), || any_of(FIELDS));
    let text = || any_of(["a", "7", "-3", "b"]);
    prop_oneof![
        3 => text().prop_map(Op::Set),
        2 => Just(Op::Delete),
        4 => (-5i64..9).prop_map(Op::IncrBy),
        4 => prop::collection::vec(element(), 1..3).prop_map(Op::SetAdd),
        3 => prop::collection::vec(element(), 1..3).prop_map(Op::SetRemove),
        3 => prop::collection::vec((field(), text()), 1..4).prop_map(Op::HashSet),
        3 => (field(), -5i64..9).prop_map(|(field, by)| Op::HashIncrBy(field, by)),
        2 => prop::collection::vec(field(), 1..3).prop_map(Op::HashDelete),
    ]
}

pub(crate) fn any_ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(any_op(), 1..5)
}

/// Generates the age of a snapshot for each site; most are fresh.
pub(crate) fn any_ages(sites: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![3 => Just(0), 2 => any::<u8>()], sites)
}

fn any_step(sites: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..sites, any_ages(sites), any_ops())
            .prop_map(|(site, ages, ops)| Step::Execute { site, ages, ops }),
        10 => (0..sites, 0..sites).prop_map(|(at, from)| Step::Deliver { at, from }),
        2 => (0..sites, any_ages(sites)).prop_map(|(site, ages)| Step::Fold { site, ages }),
        2 => (0..sites).prop_map(Step::Settle),
    ]
}

/// Generates a number of sites and a random history.
pub(crate) fn any_history() -> impl Strategy<Value = (usize, Vec<Step>)> {
    (1usize..5).prop_flat_map(|sites| {
        prop::collection::vec(any_step(sites), 1..50).prop_map(move |steps| (sites, steps))
    })
}
