//! The highest load that a scheme sustains.

use super::measured::Measured;
use super::setting::Setting;
use super::world::run;
use super::{Laboratory, name_of};
use crate::error::BenchError;

/// Factor between loads until one is sustained and another one is not.
const STEP: f64 = 1.3;
/// Load below which no load is sustained.
const LEAST: f64 = 10.0;

/// Result of a search.
pub(super) struct Searched {
    /// The run with the highest sustained load.
    pub(super) peak: Measured,
    /// The other runs with sustained loads.
    pub(super) lower: Vec<Measured>,
}

impl Searched {
    /// Returns the operations per second at the peak.
    pub(super) fn peak(&self) -> f64 {
        self.peak.throughput()
    }
}

impl Laboratory<'_> {
    /// Finds the highest load that is sustained. Begins at the load of the setting.
    pub(super) fn search(&self, setting: &Setting) -> Result<Searched, BenchError> {
        let precision = self.effort.pick(1.05, 1.02);
        let mut sustained: Vec<Measured> = Vec::new();
        let (mut low, mut high) = (None, None);
        let mut load = setting.load;
        while load >= LEAST {
            let measured = run(&self.at(setting, load))?;
            if measured.is_sustained() {
                low = Some(load);
                sustained.push(measured);
            } else {
                high = Some(load);
            }
            load = match (low, high) {
                (Some(low), Some(high)) if high / low <= precision => break,
                (Some(low), Some(high)) if self.is_late() => {
                    let name = name_of(setting.scheme);
                    let found = format!("the peak of {name} is between {low:.0}/s and {high:.0}/s");
                    (self.report)(&format!("no time is left for a closer look: {found}"));
                    break;
                }
                (Some(low), Some(high)) => (low * high).sqrt(),
                (Some(low), None) => low * STEP,
                (None, _) => load / STEP,
            };
        }
        // Each sustained load is higher than those before it, unless it is the first.
        sustained.sort_by(|one, other| one.setting.load.total_cmp(&other.setting.load));
        match sustained.pop() {
            Some(peak) => Ok(Searched { peak, lower: sustained }),
            None => Err(BenchError::Transaction(format!(
                "{:?} does not sustain {LEAST} operations per second",
                setting.scheme
            ))),
        }
    }
}
