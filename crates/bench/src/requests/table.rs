//! Table of the costs of requests, and its comparison with an earlier table.

use std::fmt;

use super::kind::Kind;

/// Heading above the table in a document.
const HEADING: &str = "## Instructions and system calls per request";
/// Relative increase of a count that is tolerated.
const TOLERANCE: f64 = 0.02;

/// Costs of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// The request.
    pub kind: Kind,
    /// Instructions of all threads in user mode, including the client's.
    pub instructions: f64,
    /// System calls of a server that receives requests over TCP.
    pub system_calls: f64,
}

/// Costs of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// One row for each kind.
    pub rows: Vec<Counted>,
}

/// Error while a table is read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The document has no such table.
    #[error("there is no table below '{HEADING}'")]
    None,
    /// A row of the table cannot be read.
    #[error(
        "a row should be a request, its instructions and its system calls, as in '| GET | 4,000 \
         | 3.0 |'; this is '{0}'"
    )]
    Row(String),
}

impl Table {
    /// Reads the table of a Markdown document.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn read(document: &str) -> Result<Table, TableError> {
        let (_, section) = document.split_once(HEADING).ok_or(TableError::None)?;
        let lines = section.lines().skip_while(|line| !line.starts_with("|--"));
        let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
        let rows: Vec<Counted> = rows.map(row).collect::<Result<_, _>>()?;
        if rows.is_empty() { Err(TableError::None) } else { Ok(Table { rows }) }
    }

    /// Compares with an earlier table: one line for each count that is worse, or that the earlier
    /// table lacks.
    pub fn worse_than(&self, earlier: &Table) -> Vec<String> {
        self.compare(earlier, |now, then, stray| now > then * (1.0 + TOLERANCE) + stray)
    }

    /// Compares with an earlier table: one line for each count that is better, which shows that the
    /// earlier table is out of date.
    pub fn better_than(&self, earlier: &Table) -> Vec<String> {
        self.compare(earlier, |now, then, stray| now < then * (1.0 - TOLERANCE) - stray)
    }

    fn compare(&self, earlier: &Table, differs: fn(f64, f64, f64) -> bool) -> Vec<String> {
        let lines = self.rows.iter().flat_map(|now| {
            let then = earlier.rows.iter().find(|then| then.kind == now.kind);
            let Some(then) = then else {
                return vec![format!("{}: the table has no such row", now.kind)];
            };
            let counts = [
                ("instructions", now.instructions, then.instructions, 0.0),
                ("system calls", now.system_calls, then.system_calls, now.kind.stray_calls()),
            ];
            let different =
                counts.into_iter().filter(|(_, now, then, stray)| differs(*now, *then, *stray));
            let line = |(name, count, before, _): (&str, f64, f64, f64)| {
                let change = 100.0 * (count / before - 1.0);
                format!("{}: {count:.1} {name} in place of {before:.1} ({change:+.1}%)", now.kind)
            };
            different.map(line).collect::<Vec<_>>()
        });
        lines.collect()
    }
}

fn row(line: &str) -> Result<Counted, TableError> {
    let wrong = || TableError::Row(line.to_owned());
    let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
    let [name, instructions, system_calls, ..] = cells.as_slice() else { return Err(wrong()) };
    let number = |cell: &str| {
        let number = cell.replace(',', "").parse::<f64>().ok();
        number.filter(|number| number.is_finite()).ok_or_else(wrong)
    };
    let kind = name.parse().map_err(|_| wrong())?;
    Ok(Counted { kind, instructions: number(instructions)?, system_calls: number(system_calls)? })
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| request | instructions | system calls |\n|---|---|---|")?;
        for Counted { kind, instructions, system_calls } in &self.rows {
            let instructions = grouped(instructions.round() as u64);
            writeln!(f, "| {kind} | {instructions} | {system_calls:.1} |")?;
        }
        Ok(())
    }
}

/// Formats a number with a comma before each group of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(instructions: f64, system_calls: f64) -> Table {
        Table { rows: vec![Counted { kind: Kind::Mset, instructions, system_calls }] }
    }

    #[test]
    fn a_printed_table_can_be_read() {
        let shown = table(1_234_567.4, 2.25);
        let document = format!("# Benchmarks\n\n{HEADING}\n2026, so measured.\n\n{shown}\nMore.\n");
        assert_eq!(Table::read(&document), Ok(table(1_234_567.0, 2.2)));
        assert_eq!(Table::read("# Benchmarks\n"), Err(TableError::None));
        let wrong = document.replace("MSET of ten", "MSET of nine");
        assert!(matches!(Table::read(&wrong), Err(TableError::Row(_))));
        let wrong = document.replace("2.2", "few");
        assert!(matches!(Table::read(&wrong), Err(TableError::Row(_))));
    }

    #[test]
    fn a_count_is_worse_if_it_grows_by_more_than_two_percent() {
        let earlier = table(10_000.0, 3.0);
        assert_eq!(table(10_199.0, 3.0).worse_than(&earlier), Vec::<String>::new());
        let worse = table(10_201.0, 3.0).worse_than(&earlier);
        assert_eq!(worse, ["MSET of ten: 10201.0 instructions in place of 10000.0 (+2.0%)"]);
        assert_eq!(table(10_000.0, 3.15).worse_than(&earlier), Vec::<String>::new());
        assert_eq!(table(10_000.0, 4.0).worse_than(&earlier).len(), 1);
        assert_eq!(table(9_000.0, 3.0).worse_than(&earlier), Vec::<String>::new());
        assert_eq!(table(9_000.0, 3.0).better_than(&earlier).len(), 1);
        assert_eq!(earlier.worse_than(&Table::default()).len(), 1, "the row is new");
        let [mut now, mut then] = [table(1.0, 40.0), table(1.0, 20.0)];
        (now.rows[0].kind, then.rows[0].kind) = (Kind::Call, Kind::Call);
        assert_eq!(
            now.worse_than(&then),
            Vec::<String>::new(),
            "its threads wake one another or not"
        );
    }
}
