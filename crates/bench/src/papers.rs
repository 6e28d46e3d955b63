//! The experiments of papers, run again: `solera papers`.
//!
//! | module | subject |
//! |---|---|
//! | `mixt` | MixT §8, Figures 15 to 17 |
//! | `page`, `plot` | what is written for people |
//! | `processes` | clusters of real processes |
//! | `side_by_side` | experiments that use all cores |
//! | `unistore` | UniStore §8, Figures 3 to 6 |

pub mod mixt;
mod page;
mod plot;
mod processes;
mod side_by_side;
pub mod unistore;

use std::fmt;

use serde_json::{Value, json};

pub use page::Page;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Under two minutes on two cores.
    Quick,
    /// Up to twenty minutes.
    Full,
}

/// One number of a paper, and ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Where it stands in the paper.
    pub figure: &'static str,
    /// What it is.
    pub quantity: String,
    /// The paper's number, if it tells one.
    pub paper: Option<f64>,
    /// What was measured.
    pub ours: f64,
    /// Of both.
    pub unit: &'static str,
    /// Whether our own target holds, where there is one.
    pub met: Option<bool>,
}

impl Row {
    pub(crate) fn new(
        figure: &'static str,
        quantity: impl Into<String>,
        paper: impl Into<Option<f64>>,
        ours: f64,
        unit: &'static str,
    ) -> Row {
        Row { figure, quantity: quantity.into(), paper: paper.into(), ours, unit, met: None }
    }

    /// With a target of our own: at least this.
    pub(crate) fn at_least(self, target: f64) -> Row {
        Row { met: Some(self.ours >= target), ..self }
    }

    /// The same: at most this.
    pub(crate) fn at_most(self, target: f64) -> Row {
        Row { met: Some(self.ours <= target), ..self }
    }

    fn json(&self) -> Value {
        let Row { figure, quantity, paper, ours, unit, met } = self;
        let mut row = json!({
            "figure": figure,
            "quantity": quantity,
            "paper": paper,
            "ours": ours,
            "unit": unit,
        });
        if let Some(met) = met {
            row["met"] = json!(met);
        }
        row
    }
}

/// What was measured for a paper.
#[derive(Clone, Debug)]
pub struct Results {
    /// The paper's short name.
    pub paper: &'static str,
    /// Its numbers, and ours.
    pub rows: Vec<Row>,
    /// The same with plots, for people.
    pub page: Page,
}

impl Results {
    /// For programs.
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        json!({ "paper": self.paper, "rows": rows })
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.quantity.chars().count()).max().unwrap_or(0);
        writeln!(f, "{:8} {:width$} {:>9} {:>9} {:6} target", "", "", "paper", "ours", "unit")?;
        for row in &self.rows {
            let paper = row.paper.map_or_else(|| "-".to_owned(), |paper| paper.to_string());
            let met = match row.met {
                None => "",
                Some(true) => "met",
                Some(false) => "MISSED",
            };
            let Row { figure, quantity, ours, unit, .. } = row;
            let line =
                format!("{figure:8} {quantity:width$} {paper:>9} {ours:>9.2} {unit:6} {met}");
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_a_target_say_nothing_of_one() {
        let row = Row::new("Fig. 3", "throughput over REDBLUE", 1.72, 1.9, "ratio");
        assert_eq!(row.json().get("met"), None);
        assert_eq!(row.clone().at_least(1.72).json()["met"], json!(true));
        assert_eq!(row.clone().at_least(2.0).json()["met"], json!(false));
        assert_eq!(row.at_most(1.9).json()["met"], json!(true));
        let row = Row::new("Fig. 3", "latency", None, 1.0, "ms");
        assert_eq!(row.json()["paper"], Value::Null);
    }
}
