//! Runs the steps of a virtual cluster's machines, and returns their costs.

use std::collections::BTreeMap;

use solera_machine::{Now, Wire};
use solera_site::{Message, Output};

use super::cost::Rates;
use super::counted::{FUNCTIONS, function};
use super::step::{About, Class, Engine, MachineStep, WIRE, logarithm, run};

/// Assumed instructions of each step while steps are counted: the counted run must not depend on
/// the resulting table.
pub(crate) const FLAT: f64 = 20_000.0;

/// Source of the costs of steps.
pub(crate) enum Meter {
    /// Costs by the table.
    Table(Rates),
    /// A constant cost, while classes are counted.
    Counting(Counting),
}

/// Costs charged within a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Charged {
    /// Numbers of steps and their instructions, by kind.
    pub(crate) steps: BTreeMap<&'static str, (u64, f64)>,
    /// Number of steps whose class is not in the table.
    pub(crate) inexact: u64,
    /// Instructions of hosts in addition to their machines.
    pub(crate) host: f64,
    /// Number of messages between workers of a process.
    pub(crate) hops: u64,
    pub(crate) system_calls: u64,
}

impl Charged {
    pub(crate) fn add(&mut self, other: &Charged) {
        for (kind, (steps, instructions)) in &other.steps {
            let sum = self.steps.entry(kind).or_default();
            *sum = (sum.0 + steps, sum.1 + instructions);
        }
        self.inexact += other.inexact;
        self.host += other.host;
        self.hops += other.hops;
        self.system_calls += other.system_calls;
    }

    fn step(&mut self, kind: &'static str, (instructions, exact): (f64, bool)) {
        let sum = self.steps.entry(kind).or_default();
        *sum = (sum.0 + 1, sum.1 + instructions);
        self.inexact += u64::from(!exact);
    }

    /// Returns the share of steps whose class is not in the table.
    pub(crate) fn inexact_share(&self) -> f64 {
        let steps: u64 = self.steps.values().map(|(steps, _)| steps).sum();
        self.inexact as f64 / steps.max(1) as f64
    }

    /// Returns the instructions of machines.
    pub(crate) fn of_machines(&self) -> f64 {
        let machines = self.steps.iter().filter(|(kind, _)| **kind != WIRE);
        machines.map(|(_, (_, instructions))| instructions).sum()
    }
}

/// Classes of steps. A first run finds them. In a second, identical run, the steps of each class
/// run in a function of their own, so that callgrind counts them separately. Two runs are necessary
/// because the outputs of a step are known only after it.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    numbers: BTreeMap<Class<'static>, usize>,
    /// Class of each step of the first run.
    steps: Vec<u8>,
    /// Index of the next step of the second run.
    at: Option<usize>,
}

impl Counting {
    /// Prepares the second run after the first.
    pub(crate) fn second_run(self) -> Counting {
        Counting { at: Some(0), ..self }
    }

    /// Returns the classes, by the numbers of their functions.
    pub(crate) fn classes(&self) -> Vec<Class<'static>> {
        let mut classes: Vec<_> =
            self.numbers.iter().map(|(class, number)| (*number, *class)).collect();
        classes.sort_unstable();
        classes.into_iter().map(|(_, class)| class).collect()
    }

    /// Returns whether the second run had as many steps as the first.
    #[cfg(test)]
    pub(crate) fn is_complete(&self) -> bool {
        self.at == Some(self.steps.len())
    }

    /// Returns whether there are more classes than functions, that is, whether some could not be
    /// distinguished.
    pub(crate) fn is_full(&self) -> bool {
        self.numbers.len() > FUNCTIONS
    }

    /// Runs a step. `class` returns its class afterwards.
    pub(crate) fn step<T>(
        &mut self,
        run: impl FnOnce() -> T,
        class: impl FnOnce(&T) -> Class<'static>,
    ) -> T {
        let Some(at) = &mut self.at else {
            let done = run();
            let next = self.numbers.len();
            let number = *self.numbers.entry(class(&done)).or_insert(next);
            self.steps.push(number.min(FUNCTIONS - 1) as u8);
            return done;
        };
        let number = self.steps.get(*at).copied().unwrap_or(u8::MAX);
        *at += 1;
        let (mut run, mut done) = (Some(run), None);
        function(usize::from(number))(&mut || done = run.take().map(|run| run()));
        done.expect("the function has run the step")
    }
}

impl Meter {
    /// Runs a step, and returns its instructions.
    pub(crate) fn step(
        &mut self,
        engine: &mut Engine,
        now: Now,
        (about, step): (About, MachineStep),
        outputs: &mut Vec<Output>,
        charged: &mut Charged,
    ) -> f64 {
        match self {
            Meter::Table(rates) => {
                run(engine, now, step, outputs);
                let cost = rates.step(about.class(outputs));
                charged.step(about.kind, cost);
                cost.0
            }
            Meter::Counting(counting) => {
                let step = move || {
                    run(engine, now, step, outputs);
                    outputs
                };
                counting.step(step, |outputs| about.class(outputs));
                FLAT
            }
        }
    }

    /// Returns the instructions for encoding a message for another process, or for decoding it
    /// there: half of both.
    pub(crate) fn wire(
        &mut self,
        engine: &mut Engine,
        now: Now,
        message: &Message,
        charged: &mut Charged,
    ) -> f64 {
        let bytes = message.encoded_bytes() as u64;
        match self {
            Meter::Table(rates) => {
                let class = Class { kind: WIRE, size: logarithm(bytes), outputs: 0 };
                let (both, exact) = rates.step(class);
                charged.step(WIRE, (both / 2.0, exact));
                both / 2.0
            }
            Meter::Counting(counting) => {
                let about = About { kind: WIRE, size: bytes };
                let step = MachineStep::Wire(Box::new(message.clone()));
                let run = || run(engine, now, step, &mut Vec::new());
                counting.step(run, |()| about.class(&[]));
                FLAT / 2.0
            }
        }
    }

    /// Returns the instructions of a host for a batch of a client.
    pub(crate) fn round(&self, commands: usize, writes: usize) -> f64 {
        match self {
            Meter::Table(rates) => rates.host.round(commands, writes),
            Meter::Counting(_) => FLAT,
        }
    }

    /// Returns the instructions of a host for a message between workers of its process.
    pub(crate) fn hop(&self) -> f64 {
        match self {
            Meter::Table(rates) => rates.host.hop,
            Meter::Counting(_) => 0.0,
        }
    }

    /// Returns the time that this work takes on a core of this machine, in nanoseconds.
    pub(crate) fn time(&self, instructions: f64, system_calls: u64) -> f64 {
        match self {
            Meter::Table(rates) => rates.factors.time(instructions, system_calls),
            Meter::Counting(_) => instructions,
        }
    }
}
