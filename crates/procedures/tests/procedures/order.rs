//! Sites that execute the same procedures in tentative orders that change agree on what they have
//! returned and written, whichever executor they use.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use solera_creek::{
    Command, Config, Creek, Executor, Level, Message, OperationId, Output, Response,
};
use solera_data::{Key, Op, Value as Bytes};
use solera_machine::{Address, Input, Machine, Now, RequestId, Topology};
use solera_procedures::{Call, Procedure, Returned, Right, SpaceProcedures, next_element};
use solera_random::Random;
use solera_time::{Monotonic, Physical, SiteId};

use crate::registers::Registers;
use crate::space::{PREFIX, Space, call, install};

const SITES: usize = 3;
const OPERATIONS: u64 = 60;
const ORDERS: &str = include_str!("../../../../examples/orders.mixt");
/// Phases on two stores, new objects, and a failure after a write.
const MOVES: &str = "store goods : linearizable;
store money : speculative;
struct Account { owner: string, balance: int }
transaction open(all: handle<list<handle<Account> in money>> in goods, owner: string) -> int {
    var account = new Account { owner, balance: 3 } in money;
    all.push(account);
    return all.size();
}
transaction pay(all: handle<list<handle<Account> in money>> in goods, from: int, sum: int) -> int {
    var account = all.at(from).or_fail();
    account.balance = account.balance - sum;
    if account.balance < 0 { abort account.owner + \" owes \" + string(-account.balance); }
    return account.balance;
}
";

type OfSpace = Creek<SpaceProcedures>;

struct Cluster {
    machines: Vec<OfSpace>,
    /// Messages by sender and receiver.
    sent: Vec<Vec<VecDeque<Message<Procedure>>>>,
    invoked: BTreeMap<RequestId, Procedure>,
    ids: BTreeMap<OperationId, RequestId>,
    stable: BTreeMap<u64, (OperationId, Returned)>,
    /// Number of responses that replaced another one.
    revised: usize,
    now: u64,
}

fn member(site: usize) -> Address {
    Address { site: SiteId(site as u8), worker: 0 }
}

impl Cluster {
    fn new(random: &mut Random) -> Cluster {
        let topology = Arc::new(Topology { partitions: 1, workers: vec![1; SITES] });
        let machine = |site| {
            let mut config = Config::new(member(site), Arc::clone(&topology));
            config.executor = match site {
                0 => Executor::Sequential,
                1 => Executor::Multiversion,
                _ if random.one_in(2) => Executor::Sequential,
                _ => Executor::Multiversion,
            };
            Creek::new(config, SpaceProcedures::default())
        };
        Cluster {
            machines: (0..SITES).map(machine).collect(),
            sent: vec![vec![VecDeque::new(); SITES]; SITES],
            invoked: BTreeMap::new(),
            ids: BTreeMap::new(),
            stable: BTreeMap::new(),
            revised: 0,
            now: 1,
        }
    }

    fn now(&self) -> Now {
        Now { monotonic: Monotonic(self.now * 1_000_000), physical: Physical(self.now * 1_000) }
    }

    fn invoke(&mut self, site: usize, operation: Procedure, level: Level) {
        let request = RequestId(self.invoked.len() as u64);
        self.invoked.insert(request, operation.clone());
        let command = Command::Invoke { operation, level, track: true };
        let now = self.now();
        self.machines[site].handle(now, Input::Client { request, command });
        self.collect(site);
    }

    fn deliver(&mut self, from: usize, to: usize) {
        let Some(message) = self.sent[from][to].pop_front() else { return };
        let now = self.now();
        let input = Input::Message { from: member(from), generation: 0, message };
        self.machines[to].handle(now, input);
        self.collect(to);
    }

    fn tick(&mut self, millis: u64) {
        self.now += millis;
        let now = self.now();
        for site in 0..SITES {
            if self.machines[site].next_deadline().is_some_and(|due| due <= now.monotonic) {
                self.machines[site].on_deadline(now);
                self.collect(site);
            }
        }
    }

    fn collect(&mut self, site: usize) {
        while let Some(output) = self.machines[site].poll_output() {
            match output {
                Output::<SpaceProcedures>::Send { to, message } => {
                    self.sent[site][to.site.index()].push_back(message);
                }
                Output::<SpaceProcedures>::Reply { request, response, .. } => {
                    self.reply(request, response);
                }
                _ => {}
            }
        }
    }

    fn reply(&mut self, request: RequestId, response: Response<Returned>) {
        match response {
            Response::Tentative(tentative) => {
                if let Some(id) = tentative.id {
                    self.ids.insert(id, request);
                }
            }
            Response::Revised(_) => self.revised += 1,
            Response::Stable { id, position, response } => {
                self.ids.insert(id, request);
                self.stable.insert(position, (id, response));
            }
            other => panic!("{other:?}"),
        }
    }

    /// Lets everything become final.
    fn settle(&mut self) {
        for _ in 0..300 {
            self.tick(20);
            for from in 0..SITES {
                for to in 0..SITES {
                    for _ in 0..self.sent[from][to].len() {
                        self.deliver(from, to);
                    }
                }
            }
        }
    }

    fn registers(&self, site: usize) -> Registers {
        self.machines[site].final_registers().into_iter().collect()
    }
}

fn draw(random: &mut Random, number: u64) -> Procedure {
    let product = ["pens", "ink"][random.index(2)];
    let count = (random.below(6)).to_string();
    let amount = (random.below(3) + 1).to_string();
    let accounts = random.below(4).to_string();
    let call = match random.below(12) {
        0 => return install(ORDERS),
        1 => return install(MOVES),
        2 | 3 => {
            let key = |name: &str| Key::from(format!("{PREFIX}{name}").as_str());
            let pushed = Bytes::from(number.to_string().as_str());
            let steps = vec![
                (key("list"), Op::HashSet(vec![(next_element(0), pushed)])),
                (key("list"), Op::HashNewest(3)),
                (key("pens"), Op::IncrBy(2)),
                (key("ink"), Op::IncrBy(-1)),
            ];
            return Procedure::of_steps(steps);
        }
        4 => call(ORDERS, "restock", &[product, &count]),
        5 => call(ORDERS, "orders", &["log"]),
        6..9 => call(ORDERS, "order", &[product, "log", "Ann", &amount]),
        9 => call(MOVES, "open", &["accounts", &format!("owner{number}")]),
        _ => call(MOVES, "pay", &["accounts", &accounts, &amount]),
    };
    let mut call = Call { names: format!("tx{number}").into(), ..call };
    if random.one_in(10) {
        call.scope.rights = vec![Right { pattern: "shop:pens".into(), operations: u64::MAX }];
    }
    Procedure::Call(Box::new(call))
}

/// What has occurred, with its number.
type Tally = BTreeMap<&'static str, usize>;

fn kind(returned: &Returned) -> &'static str {
    match returned {
        Returned::Outcomes(_) => "outcomes",
        Returned::Changed => "changed",
        Returned::Installed => "installed",
        Returned::Result(_) => "result",
        Returned::Failed(error) => error.code(),
    }
}

/// Runs a cluster, and counts final responses by kind, and revised ones.
fn run(seed: u64, tally: &mut Tally) {
    let mut random = Random::new(seed);
    let mut cluster = Cluster::new(&mut random);
    let mut number = 0;
    while number < OPERATIONS {
        match random.below(10) {
            0..3 => {
                number += 1;
                let level = if random.one_in(4) { Level::Strong } else { Level::Weak };
                let procedure = draw(&mut random, number);
                cluster.invoke(random.index(SITES), procedure, level);
            }
            3 => cluster.tick(random.below(40)),
            _ => cluster.deliver(random.index(SITES), random.index(SITES)),
        }
    }
    cluster.settle();
    let mut space = Space::default();
    let history: Vec<OperationId> = cluster.machines[0].history().map(|(id, _)| id).collect();
    for (position, id) in (1..).zip(&history) {
        // Operations of the sites themselves have no effect.
        let Some(request) = cluster.ids.get(id) else { continue };
        let returned = space.execute(&cluster.invoked[request]);
        *tally.entry(kind(&returned)).or_default() += 1;
        assert_eq!(cluster.stable.get(&position), Some(&(*id, returned)), "seed {seed}: {id}");
    }
    assert_eq!(cluster.stable.len(), cluster.invoked.len(), "seed {seed}: responses are missing");
    for site in 0..SITES {
        assert_eq!(cluster.registers(site), space.registers, "seed {seed}: site {site}");
    }
    *tally.entry("revised").or_default() += cluster.revised;
}

#[test]
fn all_sites_agree_with_an_execution_in_the_final_order() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| {
        let (from, to) = seeds.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    let mut tally = Tally::new();
    seeds.unwrap_or(0..200).for_each(|seed| run(seed, &mut tally));
    for kind in ["outcomes", "installed", "result", "NOMODULE", "FAILED", "NOPERM", "revised"] {
        assert!(tally.get(kind).is_some_and(|count| *count > 100), "{kind}: {tally:?}");
    }
}
