//! Tells how a program is understood: the label of every variable, the phases as code, what is handed on
//! between them, and where witnesses are written and why.

mod code;

use std::fmt::Write;

use crate::compile::{Compiled, Explained};
use crate::flat::Var;
use crate::span::Position;
use crate::types::Type;

/// The explanation of a program as text. Empty if it has errors.
pub fn text(compiled: &Compiled, source: &str) -> String {
    let mut out = String::new();
    for (index, transaction) in compiled.transactions.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let about = About { compiled, transaction, source };
        about.write(&mut out);
    }
    out
}

/// One transaction, and what is needed to tell about it.
struct About<'a> {
    compiled: &'a Compiled,
    transaction: &'a Explained,
    source: &'a str,
}

impl About<'_> {
    fn write(&self, out: &mut String) {
        let known = &self.compiled.declarations;
        let one = self.transaction;
        let params = one.checkable.params.iter();
        let params: Vec<_> =
            params.map(|(name, ty)| format!("{name}: {}", known.show(ty))).collect();
        let result = known.show(&one.checkable.result);
        let _ =
            writeln!(out, "transaction {}({}) -> {result}", one.checkable.name, params.join(", "));
        self.labels(out);
        for phase in 0..one.split.phases.len() {
            self.phase(phase, out);
        }
        let _ = writeln!(out, "\n  {}", self.witnesses());
    }

    /// The level of every variable that has a name, and of what is read from stores.
    fn labels(&self, out: &mut String) {
        let known = &self.compiled.declarations;
        let one = self.transaction;
        let mut rows: Vec<[String; 3]> = Vec::new();
        for (index, info) in one.checkable.body.vars.iter().enumerate() {
            let label = one.flows.labels[index];
            let named = info.name.as_deref();
            let made = named.is_none() && (label.slots == 0 || !info.purpose.is_empty());
            if made || info.ty == Type::Unit {
                continue;
            }
            let text = match named {
                Some(name) => name.to_owned(),
                None => self.snippet(info.span.range()),
            };
            let at = Position::of(self.source, info.span.start).to_string();
            let row = [at, text, known.level_name(label.level).to_owned()];
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        if rows.is_empty() {
            return;
        }
        let width =
            |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let (at, text) = (width(0), width(1));
        let _ = writeln!(out, "\n  levels");
        for row in &rows {
            let _ = writeln!(out, "    {:<at$}  {:<text$}  {}", row[0], row[1], row[2]);
        }
    }

    /// A stretch of the source in one line, cut where it is long.
    fn snippet(&self, range: std::ops::Range<usize>) -> String {
        let text = self.source.get(range).unwrap_or_default();
        let line: Vec<_> = text.split_whitespace().collect();
        let line = line.join(" ");
        match line.char_indices().nth(48) {
            Some((cut, _)) => format!("{}…", &line[..cut]),
            None => line,
        }
    }

    fn phase(&self, index: usize, out: &mut String) {
        let known = &self.compiled.declarations;
        let split = &self.transaction.split;
        let plan = &split.phases[index];
        let store = plan.store.map(|store| known.store_info(store));
        let title = match store {
            Some(store) => format!("{} ({})", store.name, known.level_name(store.level)),
            None => "no store".to_owned(),
        };
        let kind = match (plan.endorsing, plan.mutates, store) {
            (true, ..) => ", reads what is endorsed",
            (_, false, Some(_)) => ", reads only",
            _ => "",
        };
        let _ = writeln!(out, "\n  phase {}: {title}{kind}", index + 1);
        for line in code::lines(self, index) {
            let _ = writeln!(out, "    {line}");
        }
        for later in index + 1..split.phases.len() {
            let handed = split.handed(index, later);
            if !handed.is_empty() {
                let names: Vec<_> = handed.iter().map(|var| self.name(*var)).collect();
                let _ = writeln!(out, "    hands to phase {}: {}", later + 1, names.join(", "));
            }
        }
    }

    /// The name of a variable; one that the compiler made is named by its number.
    fn name(&self, var: Var) -> String {
        match &self.transaction.checkable.body.vars[var.0 as usize].name {
            Some(name) if name.contains(' ') => name.replace("the ", ""),
            Some(name) => name.clone(),
            None => {
                let info = &self.transaction.checkable.body.vars[var.0 as usize];
                let purpose = if info.purpose.is_empty() { "t" } else { info.purpose };
                format!("{purpose}{}", var.0)
            }
        }
    }

    fn witnesses(&self) -> String {
        let known = &self.compiled.declarations;
        let written = |atomic: bool| {
            let plans = self.transaction.split.phases.iter().filter(|plan| plan.mutates);
            let stores = plans.filter_map(|plan| plan.store).map(|store| known.store_info(store));
            let names = stores.filter(|store| store.atomic == atomic).map(|store| &*store.name);
            names.collect::<Vec<_>>()
        };
        match (written(true).as_slice(), written(false).as_slice()) {
            ([], []) => "no witnesses: nothing is written".into(),
            ([], loose) => format!(
                "no witnesses: {} {} not atomic",
                loose.join(" and "),
                if loose.len() == 1 { "is" } else { "are" }
            ),
            ([one], []) => format!("no witnesses: {one} alone is written"),
            ([one], loose) => {
                format!(
                    "no witnesses: of what is written only {one} is atomic, not {}",
                    loose.join(" and ")
                )
            }
            (some, _) => format!(
                "witnesses in {}: all are written, and each is atomic by itself; none where they are \
                 spaces of one Solera, which share a snapshot",
                some.join(" and ")
            ),
        }
    }
}
