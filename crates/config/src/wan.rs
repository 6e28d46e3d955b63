//! Delays between sites.

use std::time::Duration;

use serde::Deserialize;
use solera_commands::{counted, similar};

use crate::malformed;

/// Regions of the built-in matrix.
const REGIONS: [&str; 5] = ["virginia", "california", "frankfurt", "ireland", "brazil"];

/// Typical round trips between them, in milliseconds.
const AWS_RTT_MS: [[u64; 5]; 5] = [
    [0, 61, 90, 67, 115],
    [61, 0, 147, 130, 172],
    [90, 147, 0, 26, 202],
    [67, 130, 26, 0, 178],
    [115, 172, 202, 178, 0],
];

/// Round-trip times between sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wan {
    /// Names for sites that the configuration does not name: one per row, or none.
    pub names: Vec<String>,
    /// Round trips in milliseconds.
    pub rtt_ms: Vec<Vec<u64>>,
}

/// Error of delays that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WanError {
    /// Neither a built-in name nor a readable file.
    #[error(
        "'{name}' is neither 'aws', 'lan' nor 'none', and as a file it cannot be read: {error}{}",
        .near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default()
    )]
    Unreadable {
        /// Name that was given.
        name: String,
        /// Reason for which the file cannot be read.
        error: String,
        /// Built-in name that may be meant.
        near: Option<&'static str>,
    },
    /// The file is malformed.
    #[error("{0}: {1}; the file looks like: rtt_ms = [[0, 61], [61, 0]]")]
    Malformed(String, String),
    /// The delays cover fewer sites than the cluster has.
    #[error("the delays of '{name}' cover {}, and the cluster has {sites}", counted(*.covered, "site"))]
    TooFewSites {
        /// Name of the delays.
        name: String,
        /// Number of sites that they cover.
        covered: usize,
        /// Number of sites of the cluster.
        sites: usize,
    },
    /// The length of a row differs from the number of rows.
    #[error("row {} of rtt_ms has {}, and there are {}: both must be the number of sites", .row + 1, counted(*.has, "number"), counted(*.rows, "row"))]
    Ragged {
        /// Row, from 0.
        row: usize,
        /// Length of the row.
        has: usize,
        /// Number of rows.
        rows: usize,
    },
    /// The numbers of names and rows differ.
    #[error("there are {} and {} of rtt_ms; name each row's site, or none", counted(*.names, "name"), counted(*.rows, "row"))]
    Names {
        /// Number of names.
        names: usize,
        /// Number of rows.
        rows: usize,
    },
    /// The matrix is not symmetric, or not zero on the diagonal.
    #[error(
        "the round trip between sites {} and {} must be the same both ways, and 0 from a site to \
         itself",
        .0 + 1,
        .1 + 1
    )]
    Contradictory(usize, usize),
    /// A round trip is longer than a minute.
    #[error("the round trip between sites {} and {} is more than a minute", .0 + 1, .1 + 1)]
    TooSlow(usize, usize),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WanFile {
    rtt_ms: Vec<Vec<u64>>,
    #[serde(default)]
    names: Vec<String>,
}

impl Wan {
    /// Returns the delays of `name`: `aws` (round trips between five regions), `lan` (1 ms),
    /// `none`, or a file.
    ///
    /// # Errors
    /// See [`WanError`].
    pub fn named(name: &str, sites: usize) -> Result<Wan, WanError> {
        let uniform = |ms| {
            let row = |a| (0..sites).map(|b| if a == b { 0 } else { ms }).collect();
            Wan { names: Vec::new(), rtt_ms: (0..sites).map(row).collect() }
        };
        match name {
            "none" => Ok(uniform(0)),
            "lan" => Ok(uniform(1)),
            "aws" => {
                Wan { names: Wan::regions(), rtt_ms: AWS_RTT_MS.map(|row| row.to_vec()).to_vec() }
                    .checked(name, sites)
            }
            file => {
                let text = std::fs::read_to_string(file).map_err(|error| WanError::Unreadable {
                    name: file.to_owned(),
                    error: error.to_string(),
                    near: similar(file, ["aws", "lan", "none"]),
                })?;
                let wan: WanFile = toml::from_str(&text).map_err(|error| {
                    let line = error.span().map(|span| malformed::line_of(&text, span.start));
                    let at = line.map_or(String::new(), |line| format!(", line {line}"));
                    WanError::Malformed(format!("{file}{at}"), malformed::reason(&text, &error))
                })?;
                Wan { names: wan.names, rtt_ms: wan.rtt_ms }.checked(name, sites)
            }
        }
    }

    /// Returns the regions of the built-in delays.
    pub(crate) fn regions() -> Vec<String> {
        REGIONS.map(str::to_owned).to_vec()
    }

    fn checked(mut self, name: &str, sites: usize) -> Result<Wan, WanError> {
        let rows = self.rtt_ms.len();
        if let Some(row) = self.rtt_ms.iter().position(|row| row.len() != rows) {
            return Err(WanError::Ragged { row, has: self.rtt_ms[row].len(), rows });
        }
        if !self.names.is_empty() && self.names.len() != rows {
            return Err(WanError::Names { names: self.names.len(), rows });
        }
        if rows < sites {
            return Err(WanError::TooFewSites { name: name.to_owned(), covered: rows, sites });
        }
        self.rtt_ms.truncate(sites);
        for row in &mut self.rtt_ms {
            row.truncate(sites);
        }
        for a in 0..sites {
            for b in 0..sites {
                if self.rtt_ms[a][b] != self.rtt_ms[b][a] || (a == b && self.rtt_ms[a][b] != 0) {
                    return Err(WanError::Contradictory(a, b));
                }
                if self.rtt_ms[a][b] > 60_000 {
                    return Err(WanError::TooSlow(a, b));
                }
            }
        }
        Ok(self)
    }

    /// Returns the delay of a message from one site to another: half the round trip.
    pub fn one_way(&self, from: usize, to: usize) -> Duration {
        Duration::from_micros(self.rtt_ms[from][to] * 500)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_delays_are_those_of_such_regions() {
        let wan = Wan::named("aws", 5).unwrap();
        assert_eq!(wan.rtt_ms[0][1], 61);
        let all = wan.rtt_ms.iter().flatten().copied().filter(|rtt| *rtt > 0);
        assert_eq!((all.clone().min(), all.max()), (Some(26), Some(202)));
        let few = WanError::TooFewSites { name: "aws".to_owned(), covered: 5, sites: 6 };
        assert_eq!(Wan::named("aws", 6), Err(few));
    }

    #[test]
    fn a_misspelt_name_is_suggested() {
        for (name, end) in [("asw", "; did you mean 'aws'?"), ("far/away", "(os error 2)")] {
            let error = Wan::named(name, 3).unwrap_err().to_string();
            assert!(error.ends_with(end), "{error}");
        }
    }

    #[test]
    fn contradictory_delays_are_refused() {
        let wan = |rtt_ms| Wan { names: vec![], rtt_ms }.checked("file", 2);
        assert_eq!(wan(vec![vec![0, 1], vec![2, 0]]), Err(WanError::Contradictory(0, 1)));
        assert_eq!(wan(vec![vec![1, 1], vec![1, 0]]), Err(WanError::Contradictory(0, 0)));
        assert_eq!(wan(vec![vec![0, 1]]), Err(WanError::Ragged { row: 0, has: 2, rows: 1 }));
    }

    #[test]
    fn names_must_fit_the_matrix() {
        let wan = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Wan { names, rtt_ms: vec![vec![0, 1], vec![1, 0]] }.checked("file", 2)
        };
        assert_eq!(wan(&["a"]), Err(WanError::Names { names: 1, rows: 2 }));
        assert_eq!(wan(&["a", "b", "c"]), Err(WanError::Names { names: 3, rows: 2 }));
        assert!(wan(&["a", "b"]).is_ok() && wan(&[]).is_ok());
    }
}
