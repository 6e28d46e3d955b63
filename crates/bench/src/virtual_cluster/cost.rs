//! Costs of steps: a table of counted instructions and system calls, and two measured factors.
//!
//! `solera papers calibrate` creates the table, which is built into the program. The busy time of a
//! virtual core thus depends only on its work, not on other programs or on the machine that runs
//! the experiment.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use solera_config::Baseline;

use super::shape::name_of;
use super::step::Class;

/// Version of the table's format.
const VERSION: u64 = 3;
/// Names of the tables of Occult with two stamps for each of two sites, and of its baseline.
pub(crate) const OCCULT: &str = "Occult";
pub(crate) const OCCULT_EVENTUAL: &str = "Occult eventual";
const SHIPPED: &str = include_str!("costs.json");

/// Costs of a class of steps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) kind: String,
    pub(crate) size: u8,
    pub(crate) outputs: u8,
    /// Number of counted steps.
    pub(crate) times: u64,
    /// Average number of instructions of a step.
    pub(crate) instructions: f64,
}

/// The table of costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Costs {
    /// Date and machine of the measurement of the factors.
    pub(crate) measured: String,
    pub(crate) factors: Factors,
    pub(crate) host: Host,
    /// Steps, by the protocol's name.
    pub(crate) steps: BTreeMap<String, Vec<Counted>>,
}

/// Factors that convert counts to times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Factors {
    pub(crate) ns_per_instruction: f64,
    pub(crate) ns_per_system_call: f64,
}

impl Factors {
    /// Returns the time in nanoseconds.
    pub(crate) fn time(self, instructions: f64, system_calls: u64) -> f64 {
        instructions * self.ns_per_instruction + system_calls as f64 * self.ns_per_system_call
    }
}

/// Instructions of a host, in addition to its machines.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Host {
    /// For a batch of a client, without its commands.
    pub(crate) request: f64,
    /// For each command of a batch.
    pub(crate) command: f64,
    /// Additionally for each command that writes a value.
    pub(crate) write: f64,
    /// For a message from one worker of its process to another.
    pub(crate) hop: f64,
}

impl Host {
    /// Returns the instructions for a batch of a client.
    pub(crate) fn round(self, commands: usize, writes: usize) -> f64 {
        self.request + commands as f64 * self.command + writes as f64 * self.write
    }
}

impl Costs {
    /// Returns the built-in table.
    pub(crate) fn shipped() -> Arc<Costs> {
        Arc::new(Costs::read(SHIPPED).expect("a test reads the table that ships"))
    }

    /// Parses a table; `None` if it has another version.
    pub(crate) fn read(text: &str) -> Option<Costs> {
        let table: Value = serde_json::from_str(text).ok()?;
        if table["version"].as_u64() != Some(VERSION) {
            return None;
        }
        let number = |name: &str| table[name].as_f64();
        let variants = table["steps"].as_object()?.iter().map(|(variant, rows)| {
            let rows: Option<Vec<Counted>> = rows.as_array()?.iter().map(row).collect();
            Some((variant.clone(), rows?))
        });
        Some(Costs {
            measured: table["measured"].as_str()?.to_owned(),
            factors: Factors {
                ns_per_instruction: number("ns_per_instruction")?,
                ns_per_system_call: number("ns_per_system_call")?,
            },
            host: Host {
                request: number("request")?,
                command: number("command")?,
                write: number("write")?,
                hop: number("hop")?,
            },
            steps: variants.collect::<Option<_>>()?,
        })
    }

    /// Formats the table as a file, with a line for each class of steps.
    pub(crate) fn write(&self) -> String {
        let Costs { measured, factors, host, steps } = self;
        let Factors { ns_per_instruction, ns_per_system_call } = factors;
        let Host { request, command, write, hop } = host;
        let mut out = format!(
            "{{\n\"version\": {VERSION},\n\"measured\": {},\n\"ns_per_instruction\": {ns_per_instruction:.4},\n\
             \"ns_per_system_call\": {ns_per_system_call:.0},\n\"request\": {request:.0},\n\"command\": {command:.0},\n\
             \"write\": {write:.0},\n\"hop\": {hop:.0},\n\"steps\": {{\n",
            json!(measured)
        );
        let variant = |(name, rows): (&String, &Vec<Counted>)| {
            let row = |Counted { kind, size, outputs, times, instructions }: &Counted| {
                format!("  [{}, {size}, {outputs}, {times}, {instructions:.0}]", json!(kind))
            };
            let rows: Vec<String> = rows.iter().map(row).collect();
            format!("{}: [\n{}\n]", json!(name), rows.join(",\n"))
        };
        out.push_str(&steps.iter().map(variant).collect::<Vec<_>>().join(",\n"));
        out.push_str("\n}\n}\n");
        out
    }

    /// Returns the costs of the steps of a variant of UniStore, and of the protocols that run
    /// beside it.
    pub(crate) fn of(&self, variant: Baseline) -> Rates {
        self.of_tables(&[name_of(variant), solera_primary::PROTOCOL.name])
    }

    /// Returns the costs of the steps of Occult, or of its eventually consistent baseline.
    pub(crate) fn of_occult(&self, is_eventual: bool) -> Rates {
        self.of_tables(&[if is_eventual { OCCULT_EVENTUAL } else { OCCULT }])
    }

    fn of_tables(&self, tables: &[&str]) -> Rates {
        let mut steps: BTreeMap<String, Vec<(u8, u8, f64)>> = BTreeMap::new();
        for row in tables.iter().filter_map(|table| self.steps.get(*table)).flatten() {
            let classes = steps.entry(row.kind.clone()).or_default();
            classes.push((row.size, row.outputs, row.instructions));
        }
        Rates { factors: self.factors, host: self.host, steps }
    }

    /// Returns, for each protocol and kind, the ratio between the cost of the steps counted in
    /// `other` and their cost by this table, and the kind's share of all instructions there. Omits
    /// kinds with a small change or a small share.
    pub(crate) fn drift(&self, other: &Costs, change: f64, share: f64) -> Vec<Drift> {
        let mut drifts = Vec::new();
        for (variant, rows) in &other.steps {
            let cost = |row: &Counted| row.times as f64 * row.instructions;
            let all: f64 = rows.iter().map(cost).sum();
            let mut kinds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
            for row in rows {
                let (now, then) = kinds.entry(&row.kind).or_default();
                let class = Class { kind: &row.kind, size: row.size, outputs: row.outputs };
                let before = self.steps.get(variant).map_or(0.0, |rows| nearest(rows, class));
                *now += cost(row);
                *then += row.times as f64 * before;
            }
            let drifted = kinds.into_iter().map(|(kind, (now, then))| Drift {
                variant: variant.clone(),
                kind: kind.to_owned(),
                ratio: now / then,
                share: now / all,
            });
            drifts.extend(drifted.filter(|it| {
                it.share >= share && !((1.0 - change)..=(1.0 + change)).contains(&it.ratio)
            }));
        }
        drifts
    }
}

/// A kind of steps whose cost differs from the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Drift {
    variant: String,
    kind: String,
    ratio: f64,
    share: f64,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Drift { variant, kind, ratio, share } = self;
        write!(
            f,
            "{variant}: a step of '{kind}' takes {ratio:.2} times the instructions of the table; such steps take \
             {:.0}% of all instructions",
            100.0 * share
        )
    }
}

fn nearest(rows: &[Counted], class: Class<'_>) -> f64 {
    let of_kind = rows.iter().filter(|row| row.kind == class.kind);
    let classes = of_kind.map(|row| (row.size, row.outputs, row.instructions));
    closest(classes, class).map_or(0.0, |(_, _, instructions)| instructions)
}

/// Returns the class that is closest in size and outputs; of two, the one that was counted first.
fn closest(
    classes: impl Iterator<Item = (u8, u8, f64)>,
    class: Class<'_>,
) -> Option<(u8, u8, f64)> {
    classes.min_by_key(|(size, outputs, _)| {
        u32::from(size.abs_diff(class.size)) + u32::from(outputs.abs_diff(class.outputs))
    })
}

fn row(row: &Value) -> Option<Counted> {
    let number = |place: usize| row.get(place)?.as_u64();
    Some(Counted {
        kind: row.get(0)?.as_str()?.to_owned(),
        size: u8::try_from(number(1)?).ok()?,
        outputs: u8::try_from(number(2)?).ok()?,
        times: number(3)?,
        instructions: row.get(4)?.as_f64()?,
    })
}

/// Formats the cost of a step of each kind, by protocol.
impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Costs { measured, factors, host, steps } = self;
        let Factors { ns_per_instruction, ns_per_system_call } = factors;
        let Host { request, command, write, hop } = host;
        writeln!(
            f,
            "Costs: {ns_per_instruction} ns for an instruction, {ns_per_system_call} ns for a system call ({measured}); \
             {request} instructions for what a client sends together, {command} for each command of it, {write} more for each that writes, and {hop} for \
             each message between workers of a process, beside the machine's. A step of a machine takes, in instructions by classes of its size and outputs, least to most:"
        )?;
        for (variant, rows) in steps {
            let mut kinds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
            for Counted { kind, instructions, .. } in rows {
                let (least, most) = kinds.entry(kind).or_insert((*instructions, *instructions));
                (*least, *most) = (least.min(*instructions), most.max(*instructions));
            }
            let kinds: Vec<String> = kinds
                .into_iter()
                .map(|(kind, (least, most))| match least == most {
                    true => format!("{kind} {least:.0}"),
                    false => format!("{kind} {least:.0}–{most:.0}"),
                })
                .collect();
            writeln!(f, "  {variant}: {}", kinds.join(", "))?;
        }
        Ok(())
    }
}

/// Costs of the steps of one protocol.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) factors: Factors,
    pub(crate) host: Host,
    steps: BTreeMap<String, Vec<(u8, u8, f64)>>,
}

impl Rates {
    /// Returns the instructions of a step, and whether its class is in the table. If it is not,
    /// returns the instructions of the closest class of the kind, or zero for a kind that was never
    /// counted.
    pub(crate) fn step(&self, class: Class<'_>) -> (f64, bool) {
        let classes = self.steps.get(class.kind).into_iter().flatten().copied();
        match closest(classes, class) {
            Some((size, outputs, instructions)) => {
                (instructions, (size, outputs) == (class.size, class.outputs))
            }
            None => (0.0, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::calibrate::VARIANTS;
    use super::*;

    fn table(instructions: f64) -> Costs {
        let row = |kind: &str, size, outputs, instructions| Counted {
            kind: kind.to_owned(),
            size,
            outputs,
            times: 10,
            instructions,
        };
        let rows = vec![row("commit", 3, 1, instructions), row("commit", 6, 1, 9000.0)];
        Costs {
            measured: "2026, here".to_owned(),
            factors: Factors { ns_per_instruction: 0.25, ns_per_system_call: 900.0 },
            host: Host { request: 3000.0, command: 500.0, write: 900.0, hop: 700.0 },
            steps: BTreeMap::from([("UniStore".to_owned(), rows)]),
        }
    }

    #[test]
    fn the_built_in_table_covers_all_protocols() {
        let costs = Costs::shipped();
        for variant in VARIANTS {
            let class = Class { kind: "operate get", size: 0, outputs: 1 };
            assert!(costs.of(variant).step(class).0 > 0.0, "{}", name_of(variant));
        }
        let Factors { ns_per_instruction, ns_per_system_call } = costs.factors;
        assert!(ns_per_instruction > 0.0 && ns_per_system_call > 0.0);
    }

    #[test]
    fn a_written_table_can_be_read() {
        let costs = table(4000.0);
        assert_eq!(Costs::read(&costs.write()), Some(costs.clone()));
        assert_eq!(Costs::read(&costs.write().replace("\"version\": 3", "\"version\": 2")), None);
        assert_eq!(Costs::read("{}"), None);
    }

    #[test]
    fn a_class_that_was_not_counted_costs_as_much_as_the_closest() {
        let rates = table(4000.0).of(Baseline::UniStore);
        let step = |kind, size, outputs| rates.step(Class { kind, size, outputs });
        assert_eq!(step("commit", 3, 1), (4000.0, true));
        assert_eq!(step("commit", 4, 1), (4000.0, false));
        assert_eq!(step("commit", 7, 2), (9000.0, false));
        assert_eq!(step("begin", 0, 1), (0.0, false));
        assert_eq!(rates.factors.time(rates.host.round(2, 1), 2), 4900.0 * 0.25 + 1800.0);
    }

    #[test]
    fn drift_is_reported_for_kinds_with_large_changes() {
        let (before, now) = (table(4000.0), table(5000.0));
        let drifts = before.drift(&now, 0.05, 0.01);
        let [drift] = drifts.as_slice() else { panic!("{drifts:?}") };
        assert_eq!(drift.ratio, 14_000.0 / 13_000.0);
        assert_eq!(before.drift(&now, 0.1, 0.01), []);
        assert_eq!(before.drift(&before, 0.0, 0.0), []);
    }
}
