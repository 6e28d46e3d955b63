//! Reproduces the experiments of papers, for `solera papers`.
//!
//! | module | subject |
//! |---|---|
//! | `calibrate` | the table of costs of virtual clusters |
//! | `creek` | Creek §6, Figure 1 and the variations of §6.3 |
//! | `ipa` | IPA §5, Figures 5 to 9 and 11 |
//! | `mixt` | MixT §8, Figures 15 to 17 |
//! | `network` | emulated delays between clients and servers |
//! | `occult` | Occult §2 and §8, Figures 2 and 6 to 9 |
//! | `page`, `plot` | HTML pages and plots |
//! | `predict` | whether virtual clusters predict real ones |
//! | `processes` | clusters of real processes |
//! | `side_by_side` | experiments that use all cores |
//! | `turns` | how a saturated protocol slows the other protocols of its worker |
//! | `unistore` | UniStore §8, Figures 3 to 6 |

pub mod calibrate;
pub mod creek;
pub mod ipa;
pub mod mixt;
mod network;
pub mod occult;
mod page;
mod plot;
pub mod predict;
mod processes;
mod side_by_side;
pub mod turns;
pub mod unistore;

use std::fmt;

use serde_json::{Value, json};

pub use page::Page;
use plot::Plot;

/// Scale of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Under two minutes on two cores.
    Quick,
    /// Up to twenty minutes.
    Full,
}

impl Effort {
    /// Returns what this scale needs.
    fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Effort::Quick => quick,
            Effort::Full => full,
        }
    }
}

/// A number of a paper, with ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Figure of the paper.
    pub figure: &'static str,
    /// Description of the number.
    pub quantity: String,
    /// The paper's number, if it states one.
    pub paper: Option<f64>,
    /// Our measurement.
    pub ours: f64,
    /// Minimum and maximum of the rounds, if there were several; they show how much `ours` varies.
    pub rounds: Option<(f64, f64)>,
    /// Unit of all these numbers.
    pub unit: &'static str,
    /// Whether our own target is met; `None` without a target.
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
        let (quantity, paper) = (quantity.into(), paper.into());
        Row { figure, quantity, paper, ours, rounds: None, unit, met: None }
    }

    /// Returns the rows of wanted figures, and of sections, in the order of the paper.
    pub(crate) fn of_figures(mut rows: Vec<Row>, is_wanted: impl Fn(u8) -> bool) -> Vec<Row> {
        rows.retain(|row| {
            let number = row.figure.strip_prefix("Fig. ").and_then(|number| number.parse().ok());
            number.is_none_or(&is_wanted)
        });
        rows.sort_by_key(|row| row.figure);
        rows
    }

    /// Adds the results of the rounds.
    pub(crate) fn of_rounds(self, rounds: impl IntoIterator<Item = f64>) -> Row {
        let rounds: Vec<f64> = rounds.into_iter().filter(|round| round.is_finite()).collect();
        let least = rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Row { rounds: (rounds.len() > 1).then_some((least, most)), ..self }
    }

    /// Formats the rounds; empty if there was only one.
    fn formatted_rounds(&self) -> String {
        self.rounds.map_or_else(String::new, |(least, most)| format!("{least:.2} to {most:.2}"))
    }

    /// Sets our own target: at least this.
    pub(crate) fn at_least(self, target: f64) -> Row {
        Row { met: Some(self.ours >= target), ..self }
    }

    /// Sets our own target: at most this.
    pub(crate) fn at_most(self, target: f64) -> Row {
        Row { met: Some(self.ours <= target), ..self }
    }

    fn json(&self) -> Value {
        let Row { figure, quantity, paper, ours, rounds, unit, met } = self;
        let mut row = json!({
            "figure": figure,
            "quantity": quantity,
            "paper": paper,
            "ours": ours,
            "unit": unit,
        });
        if let Some((least, most)) = rounds {
            row["rounds"] = json!([least, most]);
        }
        if let Some(met) = met {
            row["met"] = json!(met);
        }
        row
    }
}

/// Results of one part of a paper's experiments, or of several.
#[derive(Default)]
struct Findings {
    rows: Vec<Row>,
    plots: Vec<Plot>,
    notes: Vec<String>,
}

impl Findings {
    /// Adds the results of another part.
    fn take(&mut self, part: Findings) {
        self.rows.extend(part.rows);
        self.plots.extend(part.plots);
        self.notes.extend(part.notes);
    }
}

impl FromIterator<Findings> for Findings {
    fn from_iter<I: IntoIterator<Item = Findings>>(parts: I) -> Findings {
        let mut all = Findings::default();
        parts.into_iter().for_each(|part| all.take(part));
        all
    }
}

/// Results of a paper's experiments.
#[derive(Clone, Debug)]
pub struct Results {
    /// Short name of the paper.
    pub paper: &'static str,
    /// The paper's numbers, with ours.
    pub rows: Vec<Row>,
    /// Page with the numbers and plots.
    pub page: Page,
    /// Table of costs of the virtual clusters, if any were used.
    pub costs: Option<String>,
}

impl Results {
    /// Returns the results as JSON.
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        json!({ "paper": self.paper, "rows": rows })
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.quantity.chars().count()).max().unwrap_or(0);
        writeln!(
            f,
            "{:8} {:width$} {:>9} {:>9} {:6} {:17} target",
            "", "", "paper", "ours", "unit", "single rounds"
        )?;
        for row in &self.rows {
            let paper = row.paper.map_or_else(|| "-".to_owned(), |paper| paper.to_string());
            let met = match row.met {
                None => "",
                Some(true) => "met",
                Some(false) => "MISSED",
            };
            let Row { figure, quantity, ours, unit, .. } = row;
            let rounds = row.formatted_rounds();
            let line = format!(
                "{figure:8} {quantity:width$} {paper:>9} {ours:>9.2} {unit:6} {rounds:17} {met}"
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        match &self.costs {
            Some(costs) => write!(f, "\n{costs}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_a_target_omit_whether_it_is_met() {
        let row = Row::new("Fig. 3", "throughput over REDBLUE", 1.72, 1.9, "ratio");
        assert_eq!(row.json().get("met"), None);
        assert_eq!(row.clone().at_least(1.72).json()["met"], json!(true));
        assert_eq!(row.clone().at_least(2.0).json()["met"], json!(false));
        assert_eq!(row.at_most(1.9).json()["met"], json!(true));
        let row = Row::new("Fig. 3", "latency", None, 1.0, "ms");
        assert_eq!(row.json()["paper"], Value::Null);
    }

    #[test]
    fn rows_show_the_range_of_their_rounds() {
        let row = Row::new("Fig. 3", "latency", None, 1.0, "ms");
        assert_eq!(row.clone().of_rounds([1.0]).json().get("rounds"), None, "there is one");
        let row = row.of_rounds([1.25, 0.75, f64::NAN, 1.0]);
        assert_eq!(row.json()["rounds"], json!([0.75, 1.25]));
        assert_eq!(row.formatted_rounds(), "0.75 to 1.25");
    }
}
