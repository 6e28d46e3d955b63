//! Creates the table of costs: runs a virtual cluster under callgrind, with a separate function for
//! each class of steps.

use std::process::{Command, Stdio};
use std::time::Duration;

use solera_config::Baseline;
use solera_data::{Key, Op, Value};
use solera_levels::Level;
use solera_unistore::Kind;

use super::cluster::VirtualCluster;
use super::cost::{Costs, Counted, OCCULT, OCCULT_EVENTUAL};
use super::counted::read_callgrind;
use super::host;
use super::meter::{Counting, Meter};
use super::occult;
use super::occult::clients::Sessions;
use super::shape::{Shape, name_of};
use super::source::{Source, Step, Transaction};
use crate::error::BenchError;
use crate::random::Random;
use crate::tally::Class;

/// Protocols of the experiments.
pub(crate) const VARIANTS: [Baseline; 6] = [
    Baseline::UniStore,
    Baseline::Strong,
    Baseline::RedBlue,
    Baseline::Causal,
    Baseline::Uniform,
    Baseline::CureFt,
];

/// Numbers of clients, and the measured times: few and many clients, for small and large batches.
const LOADS: [(usize, Duration); 3] = [
    (24, Duration::from_millis(300)),
    (96, Duration::from_millis(200)),
    (288, Duration::from_millis(100)),
];
const THINK: Duration = Duration::from_millis(10);

/// One table of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// The steps of a variant of UniStore.
    Variant(Baseline),
    /// The steps of `primary`, which runs beside UniStore.
    Primary,
    /// The steps of Occult, with sessions of this kind.
    Occult(Sessions),
}

impl Table {
    pub(crate) fn all() -> impl Iterator<Item = Table> {
        let occult = [Sessions::Causal, Sessions::Eventual].map(Table::Occult);
        VARIANTS.into_iter().map(Table::Variant).chain([Table::Primary]).chain(occult)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Table::Variant(variant) => name_of(variant),
            Table::Primary => solera_primary::PROTOCOL.name,
            Table::Occult(Sessions::Eventual) => OCCULT_EVENTUAL,
            Table::Occult(_) => OCCULT,
        }
    }

    /// Returns whether steps of this kind are counted in this table.
    fn has(self, kind: &str) -> bool {
        self != Table::Primary || kind.starts_with(self.name())
    }
}

/// Creates a table. Reports progress to `report`.
///
/// # Errors
/// Fails if a tool cannot be run, or if the program under it fails.
pub(crate) fn calibrate(report: &dyn Fn(&str)) -> Result<Costs, BenchError> {
    let mut costs = Costs { measured: here(), ..Costs::default() };
    for table in Table::all() {
        report(&format!("counting the steps of {}", table.name()));
        costs.steps.insert(table.name().to_owned(), count(table)?);
    }
    let counted = host::complete(&mut costs, report);
    counted.map_err(|error| BenchError::Start(error.to_string()))?;
    Ok(costs)
}

/// Counts the steps of a table in a child process under callgrind.
fn count(table: Table) -> Result<Vec<Counted>, BenchError> {
    let failed = |error: &dyn std::fmt::Display| {
        BenchError::Start(format!("counting the steps of {}: {error}", table.name()))
    };
    let name = format!("solera-calibrate-{}-{}", std::process::id(), table.name());
    let file = std::env::temp_dir().join(name);
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", file.display()));
    // Callgrind demangles the names of functions, so they need no decoding here.
    command.arg("--demangle=yes").arg(program);
    command.args(["papers", "calibrate", "--steps", table.name()]).stdin(Stdio::null());
    let output = command.output().map_err(|error| failed(&format!("valgrind: {error}")))?;
    let counted = std::fs::read_to_string(&file);
    // A file that cannot be removed remains in the temporary directory.
    let _ = std::fs::remove_file(&file);
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr)));
    }
    let counted = counted.map_err(|error| failed(&error))?;
    let classes = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows = read_callgrind(&counted).into_iter().zip(classes.lines());
    let rows = rows.filter(|((times, _), _)| *times > 0).filter_map(|((times, all), line)| {
        let mut words = line.split('\t');
        Some(Counted {
            kind: words.next()?.to_owned(),
            size: words.next()?.parse().ok()?,
            outputs: words.next()?.parse().ok()?,
            times,
            instructions: all as f64 / times as f64,
        })
    });
    let mut rows: Vec<Counted> = rows.filter(|row| table.has(&row.kind)).collect();
    rows.sort_by(|a, b| (&a.kind, a.size, a.outputs).cmp(&(&b.kind, b.size, b.outputs)));
    match rows.is_empty() {
        false => Ok(rows),
        true => Err(failed(&"callgrind has not met the functions that are counted")),
    }
}

/// Runs the counted cluster twice; see [`Counting`]. Returns a line for each class of steps: its
/// kind, size and outputs.
pub(crate) fn steps(table: Table) -> String {
    let counting = run_clusters(table, Counting::default());
    assert!(!counting.is_full(), "there are more classes of steps than functions to count them");
    let counting = run_clusters(table, counting.second_run());
    let line = |class: super::step::Class<'_>| {
        format!("{}\t{}\t{}\n", class.kind, class.size, class.outputs)
    };
    counting.classes().into_iter().map(line).collect()
}

/// Runs clusters of several shapes: steps differ between a single worker and several workers and
/// sites.
fn run_clusters(table: Table, counting: Counting) -> Counting {
    let (variant, primary) = match table {
        Table::Variant(variant) => (variant, false),
        Table::Primary => (Baseline::UniStore, true),
        Table::Occult(sessions) => return occult::count(sessions, counting),
    };
    let shared = Shape { variant, primary, cores_per_node: 2, ..Shape::three_sites(16, 4) };
    let alone = Shape { variant, primary, ..Shape::one_site(16, 1) };
    [shared, alone].into_iter().fold(counting, |counting, shape| {
        let mut cluster = VirtualCluster::new(shape, Meter::Counting(counting), Mixed, THINK);
        for (clients, window) in LOADS {
            cluster.set_clients(clients);
            if primary {
                cluster.flood(clients / 12);
            }
            cluster.measure(Duration::ZERO, window);
        }
        match cluster.into_meter() {
            Meter::Counting(counting) => counting,
            Meter::Table(_) => unreachable!("the meter was created to count"),
        }
    })
}

/// Transactions of one to five operations of the kinds that the experiments use, 30% of which
/// update; 10% are strong.
struct Mixed;

const KEYS: u64 = 300;
const UPDATE: Kind = Kind { number: 1, conflicts: 1 << 1 };
const READ: Kind = Kind { number: 0, conflicts: 0 };

fn text(length: usize) -> Value {
    vec![b'v'; length].as_slice().into()
}

fn field(number: u64) -> Value {
    format!("field{number}").as_bytes().into()
}

fn key(table: &str, number: u64) -> Key {
    format!("calibrate:{table}:{number}").as_bytes().into()
}

impl Source for Mixed {
    fn load(&self) -> Vec<(Key, Op)> {
        let fields = || (0..5).map(|number| (field(number), text(20))).collect();
        let members = || (0..5).map(field).collect();
        let of = |number| {
            [
                (key("string", number), Op::Set(text(100))),
                (key("counter", number), Op::IncrBy(1)),
                (key("hash", number), Op::HashSet(fields())),
                (key("set", number), Op::SetAdd(members())),
            ]
        };
        (0..KEYS).flat_map(of).collect()
    }

    fn next(&mut self, random: &mut Random) -> Transaction {
        let (updates, strong) = (random.chance(30), random.chance(10));
        let level = if strong { Level::Por } else { Level::Causal };
        let count = random.within(1, 5);
        let steps = (0..count).map(|_| {
            let (key, op) = operation(random, updates);
            Step { key, op, level, kind: if updates { UPDATE } else { READ } }
        });
        let steps: Vec<Step> = steps.collect();
        let class = match (strong, updates) {
            (true, _) => Class::Strong,
            (false, true) => Class::Causal,
            (false, false) => Class::Read,
        };
        Transaction { class, rounds: vec![steps] }
    }
}

fn operation(random: &mut Random, updates: bool) -> (Key, Op) {
    let number = random.below(KEYS);
    let one = field(random.below(5));
    let other_way = random.chance(50);
    let (table, op) = match (random.below(4), updates, other_way) {
        (0, true, _) => ("string", Op::Set(text(100))),
        (0, false, _) => ("string", Op::Get),
        (1, true, _) => ("counter", Op::IncrBy(1)),
        (1, false, _) => ("counter", Op::Get),
        (2, true, true) => ("hash", Op::HashSet(vec![(one, text(20))])),
        (2, true, false) => ("hash", Op::HashIncrBy(b"count".as_slice().into(), 1)),
        (2, false, true) => ("hash", Op::HashGetAll),
        (2, false, false) => ("hash", Op::HashGet(one)),
        (_, true, _) => ("set", Op::SetAdd(vec![one])),
        (_, false, true) => ("set", Op::SetMembers),
        (_, false, false) => ("set", Op::Exists),
    };
    (key(table, number), op)
}

/// Returns the machine and the date.
fn here() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model
        .map_or("a processor of unknown make", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = solera_node::utc(since_epoch.unwrap_or_default().as_millis() as u64);
    format!("{}, {model}", now.get(..10).unwrap_or(&now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_run_repeats_the_first() {
        let first = run_clusters(Table::Primary, Counting::default());
        let classes = first.classes();
        let second = run_clusters(Table::Primary, first.second_run());
        assert!(second.is_complete(), "each step of the first run has its step in the second");
        assert_eq!(second.classes(), classes);
    }
}
