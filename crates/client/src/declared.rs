//! Spaces as the cluster declares them.

use solera_levels::Level;
use solera_resp::Value;

use crate::error::Error;

/// Declaration of a space, as SOLERA.SPACES returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Name.
    pub name: String,
    /// Prefix of its keys.
    pub prefix: String,
    /// Level; `None` if it is not a level of the lattice.
    pub level: Option<Level>,
    /// Type of its keys; `None` if they may have any.
    pub of_type: Option<String>,
    /// Error tolerance, in parts per million; `None` if it has no error bound.
    pub tolerance_ppm: Option<u32>,
    /// Weakest level at which its keys may be read; `None` if the space sets none.
    pub at_least: Option<Level>,
}

impl Declared {
    /// Checks that the space has the type `wanted`, or no type if `or_none`.
    ///
    /// # Errors
    /// [`Error::Policy`].
    pub fn expect_type(&self, wanted: &str, or_none: bool) -> Result<(), Error> {
        match self.of_type.as_deref() {
            None if or_none => Ok(()),
            Some(declared) if declared == wanted => Ok(()),
            None => Err(self.refuse(&format!("declares no type, and not '{wanted}'"))),
            Some(other) => Err(self.refuse(&format!("has type '{other}', not '{wanted}'"))),
        }
    }

    /// Returns the strongest level at which its keys can be read; `None` if that is no level of the
    /// lattice.
    pub(crate) fn strongest_read(&self) -> Option<Level> {
        match self.level {
            // Sites can be asked for all updates of a key whose updates commute.
            Some(Level::Causal) if self.of_type.is_some() => Some(Level::Linearizable),
            level => level,
        }
    }

    /// Returns the error for a use that contradicts the declaration.
    pub(crate) fn refuse(&self, reason: &str) -> Error {
        Error::Policy(format!("space '{}' {reason}", self.name))
    }

    /// Parses the reply to SOLERA.SPACES.
    pub(crate) fn parse(reply: &Value) -> Option<Vec<Declared>> {
        let Value::Array(spaces) = reply else { return None };
        spaces.iter().map(Declared::parse_one).collect()
    }

    fn parse_one(entry: &Value) -> Option<Declared> {
        let Value::Map(pairs) = entry else { return None };
        let text = |wanted: &str| {
            let found = pairs.iter().find(|(name, _)| *name == Value::Bulk(wanted.into()))?;
            match &found.1 {
                Value::Bulk(bytes) => String::from_utf8(bytes.clone()).ok(),
                _ => None,
            }
        };
        Some(Declared {
            name: text("name")?,
            prefix: text("prefix")?,
            level: text("level")?.parse().ok(),
            of_type: text("type"),
            tolerance_ppm: match text("error") {
                None => None,
                Some(tolerance) => Some(ppm(&tolerance)?),
            },
            at_least: match text("at-least") {
                None => None,
                Some(level) => Some(level.parse().ok()?),
            },
        })
    }
}

/// Parses a percentage such as `0.5%`.
fn ppm(percentage: &str) -> Option<u32> {
    let percents: f64 = percentage.strip_suffix('%')?.parse().ok()?;
    Some((percents * 10_000.0).round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_parts_per_million() {
        for (text, parts) in [("5%", 50_000), ("0.5%", 5_000), ("0.0001%", 1), ("100%", 1_000_000)]
        {
            assert_eq!(ppm(text), Some(parts), "{text}");
        }
        assert_eq!(ppm("5"), None);
    }
}
