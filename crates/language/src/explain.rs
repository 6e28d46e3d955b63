//! Explains a compiled program: the level of every value, the phases as code, the values passed
//! between them, and where witnesses are written and why. The output is text, an SVG drawing, a
//! Mermaid flowchart, or data for other programs.

mod code;
mod mermaid;
mod names;
mod surface;
mod svg;
mod term;
mod text;
mod walks;

use serde::Serialize;
use solera_levels::Level;
use solera_program::span::Position;
use solera_program::types::Type;

use crate::compile::{Compiled, Explained};
use crate::flat::{Step, StepKind, Var};
use crate::split::{PhasePlan, Planned};
pub use mermaid::mermaid;
use names::Names;
pub use svg::svg;
pub use text::text;

/// Explanation of a transaction.
#[derive(Clone, Debug, Serialize)]
pub struct Transaction {
    /// Its name.
    pub name: String,
    /// Its name, parameters and result, as in the source.
    pub signature: String,
    /// Levels of its variables and reads, in the order of the text.
    pub levels: Vec<Labelled>,
    /// Its phases, in the order of execution.
    pub phases: Vec<Phase>,
    /// Stores that get witnesses, and the reason.
    pub witnesses: Witnesses,
    /// Number of endorsements.
    pub endorsements: usize,
}

/// A variable or an expression with its level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Labelled {
    /// Its line, from 1.
    pub line: usize,
    /// Its column, from 1, in characters.
    pub column: usize,
    /// Its source text.
    pub text: String,
    /// Its level.
    pub level: String,
    /// Whether it has this level because of an endorsement.
    pub endorsed: bool,
}

/// A phase.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// Its number, from 1.
    pub number: usize,
    /// Its store; `None` if it only computes.
    pub store: Option<String>,
    /// Level of its store.
    pub level: Option<String>,
    /// The weakest level built into Solera that its store may be bound to.
    #[serde(skip)]
    pub built_in: Option<Level>,
    /// Whether it reads values for endorsement, before anything is written.
    pub endorsing: bool,
    /// Whether it may change its store.
    pub writes: bool,
    /// Whether it writes witnesses for its changes.
    pub witnesses: bool,
    /// Summary, in one or two sentences.
    pub summary: String,
    /// Code of the phase.
    pub code: Vec<String>,
    /// Values that it passes to later phases.
    pub hands: Vec<Handed>,
}

impl Phase {
    /// Returns whether the phase passes values to the phase that follows it.
    fn passes_to_next(&self) -> bool {
        self.hands.iter().any(|handed| handed.to == self.number + 1)
    }

    /// Returns the colour of the phase's level: the stronger, the warmer. A level that a program
    /// adds has the colour of the built-in level above it.
    fn colour(&self) -> &'static str {
        match self.built_in {
            Some(Level::Linearizable) => "#f6c9b8",
            Some(Level::Por | Level::PcPsi) => "#f8dfae",
            Some(Level::Quorum | Level::LocalQuorum) => "#f6efb0",
            Some(Level::Causal) => "#c4d9f7",
            Some(Level::Speculative) => "#dccff5",
            Some(Level::Eventual) => "#cdebd3",
            None => "#e4e7ec",
        }
    }
}

/// Values that one phase passes to a later one.
#[derive(Clone, Debug, Serialize)]
pub struct Handed {
    /// The number of the later phase.
    pub to: usize,
    /// The values.
    pub values: Vec<HandedValue>,
}

/// A variable whose values are passed on.
#[derive(Clone, Debug, Serialize)]
pub struct HandedValue {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub ty: String,
    /// Whether there is one value per loop iteration.
    pub each_turn: bool,
}

/// Stores in which witnesses are written.
#[derive(Clone, Debug, Serialize)]
pub struct Witnesses {
    /// The stores; empty if no witnesses are needed.
    pub stores: Vec<String>,
    /// The reason.
    pub reason: String,
}

/// Explains the transactions of a program. The result is empty if the program has errors.
pub fn transactions(compiled: &Compiled, source: &str) -> Vec<Transaction> {
    let explain = |transaction| About { compiled, transaction, source }.explain();
    compiled.transactions.iter().map(explain).collect()
}

/// A transaction with the data needed to explain it.
struct About<'a> {
    compiled: &'a Compiled,
    transaction: &'a Explained,
    source: &'a str,
}

impl About<'_> {
    fn explain(&self) -> Transaction {
        let mut names = Names::of(&self.transaction.checkable.body, &self.compiled.declarations);
        let phases = 0..self.transaction.split.phases.len();
        Transaction {
            name: self.transaction.checkable.name.clone(),
            signature: self.signature(),
            levels: self.levels(),
            phases: phases.map(|phase| self.phase(phase, &mut names)).collect(),
            witnesses: self.witnesses(),
            endorsements: self.transaction.flows.endorsements,
        }
    }

    fn signature(&self) -> String {
        let known = &self.compiled.declarations;
        let one = &self.transaction.checkable;
        let param = |(name, ty): &(String, Type)| format!("{name}: {}", known.show(ty));
        let params: Vec<_> = one.params.iter().map(param).collect();
        let head = format!("{}({})", one.name, params.join(", "));
        match one.result {
            Type::Unit => head,
            _ => format!("{head} -> {}", known.show(&one.result)),
        }
    }

    /// Returns the level of every named variable, and of every value that is read from stores or
    /// endorsed.
    fn levels(&self) -> Vec<Labelled> {
        let known = &self.compiled.declarations;
        let one = self.transaction;
        let mut endorsed = vec![false; one.checkable.body.vars.len()];
        each_step(&one.checkable.body.steps, &mut |step| {
            if let StepKind::Endorse(dst, ..) = step.kind {
                endorsed[dst.0 as usize] = true;
            }
        });
        let mut rows = Vec::new();
        for (index, info) in one.checkable.body.vars.iter().enumerate() {
            let label = one.flows.labels[index];
            let named = info.name.as_deref();
            let made = named.is_none() && (label.slots == 0 || !info.purpose.is_empty());
            if made || info.ty == Type::Unit {
                continue;
            }
            let Position { line, column } = Position::of(self.source, info.span.start);
            rows.push(Labelled {
                line,
                column,
                text: named.map_or_else(|| self.snippet(info.span.range()), str::to_owned),
                level: known.level_name(label.level).to_owned(),
                endorsed: endorsed[index],
            });
        }
        // Among rows at one position, endorsements come first.
        rows.sort_by_key(|row| (row.line, row.column, row.text.clone(), !row.endorsed));
        rows.dedup_by(|next, row| Labelled { endorsed: row.endorsed, ..next.clone() } == *row);
        rows
    }

    /// Returns a range of the source as one line, shortened if it is long.
    fn snippet(&self, range: std::ops::Range<usize>) -> String {
        let text = self.source.get(range).unwrap_or_default();
        let line: Vec<_> = text.split_whitespace().collect();
        let line = line.join(" ");
        match line.char_indices().nth(48) {
            Some((cut, _)) => format!("{}…", &line[..cut]),
            None => line,
        }
    }

    fn phase(&self, index: usize, names: &mut Names) -> Phase {
        let known = &self.compiled.declarations;
        let plan = &self.transaction.split.phases[index];
        let store = plan.store.map(|store| known.store_info(store));
        let weakest = |level| known.lattice.accepts(level).last().copied();
        // The code is generated first, so that variables are named in reading order.
        let code = code::lines(self, index, names);
        Phase {
            number: index + 1,
            store: store.map(|store| store.name.clone()),
            level: store.map(|store| known.level_name(store.level).to_owned()),
            built_in: store.and_then(|store| weakest(store.level)),
            endorsing: plan.endorsing,
            writes: plan.mutates,
            witnesses: plan.witnesses,
            summary: self.summary(index),
            code,
            hands: self.hands(index, names),
        }
    }

    fn hands(&self, index: usize, names: &mut Names) -> Vec<Handed> {
        let known = &self.compiled.declarations;
        let body = &self.transaction.checkable.body;
        let split = &self.transaction.split;
        let mut in_loops = Vec::new();
        tapes_in_loops(&split.phases[index].steps, false, &mut in_loops);
        let mut value = |var: Var| HandedValue {
            name: names.of_var(var),
            ty: known.show(&body.vars[var.0 as usize].ty),
            each_turn: in_loops.contains(&var),
        };
        let mut hands = Vec::new();
        for later in index + 1..split.phases.len() {
            let values: Vec<_> = split.handed(index, later).into_iter().map(&mut value).collect();
            if !values.is_empty() {
                hands.push(Handed { to: later + 1, values });
            }
        }
        hands
    }

    fn summary(&self, index: usize) -> String {
        let split = &self.transaction.split;
        let plan = &split.phases[index];
        let store = plan.store.map(|store| &*self.compiled.declarations.store_info(store).name);
        let mut summary = match (store, plan.endorsing, reads(plan), plan.mutates) {
            (None, ..) if split.phases.len() == 1 => return "Uses no store.".to_owned(),
            (None, ..) => {
                "Computes values that may fail and are too weak to undo earlier writes".to_owned()
            }
            (Some(store), true, ..) => {
                format!("Reads `{store}` for endorsed values, before any write")
            }
            (Some(store), _, true, true) => format!("Reads and writes `{store}`"),
            (Some(store), _, false, true) => format!("Writes `{store}`"),
            (Some(store), ..) => format!("Reads `{store}`"),
        };
        let earlier: Vec<_> = (0..index)
            .filter(|earlier| !split.handed(*earlier, index).is_empty())
            .map(|earlier| (earlier + 1).to_string())
            .collect();
        if !earlier.is_empty() {
            let phases = if earlier.len() == 1 { "phase" } else { "phases" };
            summary.push_str(&format!(", using the results of {phases} {}", earlier.join(" and ")));
        }
        if split.result_phase == index && self.transaction.checkable.result != Type::Unit {
            summary.push_str(", and computes the result");
        }
        summary.push('.');
        if plan.mutates && index + 1 < split.phases.len() {
            summary.push_str(&format!(" This is committed before phase {} begins.", index + 2));
        }
        summary
    }

    fn witnesses(&self) -> Witnesses {
        let known = &self.compiled.declarations;
        let plans = &self.transaction.split.phases;
        let written = |atomic: bool| {
            let stores = plans.iter().filter(|plan| plan.mutates).filter_map(|plan| plan.store);
            let stores = stores.map(|store| known.store_info(store));
            let names = stores.filter(|store| store.atomic == atomic).map(|store| &*store.name);
            names.collect::<Vec<_>>()
        };
        let reason = match (written(true).as_slice(), written(false).as_slice()) {
            ([], []) => "nothing is written".into(),
            ([], loose) => {
                let are = if loose.len() == 1 { "is" } else { "are" };
                format!("{} {are} not atomic", loose.join(" and "))
            }
            ([one], []) => format!("{one} alone is written"),
            ([one], loose) => {
                let loose = loose.join(" and ");
                format!("of the written stores only {one} is atomic, not {loose}")
            }
            _ => {
                "all are written, and each is atomic by itself; none among stores that one transaction \
                 can span: spaces of one Solera that are all of level pcpsi, or all of other levels"
                    .into()
            }
        };
        let due = plans.iter().filter(|plan| plan.witnesses).filter_map(|plan| plan.store);
        Witnesses {
            stores: due.map(|store| known.store_info(store).name.clone()).collect(),
            reason,
        }
    }
}

/// Calls `visit` for every step, including those in branches and loops.
fn each_step<'a>(steps: &'a [Step], visit: &mut impl FnMut(&'a Step)) {
    for step in steps {
        visit(step);
        match &step.kind {
            StepKind::If(_, then, other) => {
                each_step(then, visit);
                each_step(other, visit);
            }
            StepKind::Loop { before, body, .. } => {
                each_step(before, visit);
                each_step(body, visit);
            }
            _ => {}
        }
    }
}

/// Calls `visit` for every planned step, including those in branches and loops.
fn each_planned<'a>(steps: &'a [Planned], visit: &mut impl FnMut(&'a Planned)) {
    for step in steps {
        visit(step);
        match step {
            Planned::If(_, then, other, _) => {
                each_planned(then, visit);
                each_planned(other, visit);
            }
            Planned::Loop { before, body, .. } => {
                each_planned(before, visit);
                each_planned(body, visit);
            }
            Planned::Do(..) | Planned::Advance(..) => {}
        }
    }
}

/// Collects the variables whose values are kept for later phases within a loop.
fn tapes_in_loops(steps: &[Planned], in_loop: bool, found: &mut Vec<Var>) {
    for step in steps {
        match step {
            Planned::Do(step, Some(_)) if in_loop => found.extend(step.dst()),
            Planned::Do(..) | Planned::Advance(..) => {}
            Planned::If(_, then, other, _) => {
                tapes_in_loops(then, in_loop, found);
                tapes_in_loops(other, in_loop, found);
            }
            Planned::Loop { before, body, .. } => {
                tapes_in_loops(before, true, found);
                tapes_in_loops(body, true, found);
            }
        }
    }
}

/// Returns whether a phase reads from its store.
fn reads(plan: &PhasePlan) -> bool {
    let mut reads = false;
    each_planned(&plan.steps, &mut |planned| {
        if let Planned::Do(step, _) = planned {
            reads |= match &step.kind {
                StepKind::Remote(remote) => !remote.op.mutates(),
                // A custom operation may return a value, so it counts as a read.
                StepKind::Custom(_) => true,
                _ => false,
            };
        }
    });
    reads
}
