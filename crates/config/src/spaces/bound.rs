//! Types of the keys of a space, and bounds of their values.

use std::fmt;
use std::time::Duration;

/// Type of all keys of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceType {
    /// Whole numbers that only increments and decrements change.
    Counter,
    /// Counters that decrements cannot make negative.
    BoundedCounter,
    /// Bounded counters from which sites take identifiers that are never given twice.
    Pool,
    /// Sets.
    Set,
    /// Lists: hashes whose fields are stamps, with an element each.
    List,
}

/// Types, in the order of messages.
const TYPES: [SpaceType; 5] = [
    SpaceType::Counter,
    SpaceType::BoundedCounter,
    SpaceType::Pool,
    SpaceType::Set,
    SpaceType::List,
];

impl SpaceType {
    /// Returns the name in `solera.toml`.
    pub fn name(self) -> &'static str {
        match self {
            SpaceType::Counter => "counter",
            SpaceType::BoundedCounter => "bounded-counter",
            SpaceType::Pool => "pool",
            SpaceType::Set => "set",
            SpaceType::List => "list",
        }
    }

    /// Returns whether decrements cannot make a value negative.
    pub fn is_bounded(self) -> bool {
        match self {
            SpaceType::Counter | SpaceType::Set | SpaceType::List => false,
            SpaceType::BoundedCounter | SpaceType::Pool => true,
        }
    }

    /// Returns the type with this name.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(crate) fn named(name: &str) -> Result<SpaceType, String> {
        if let Some(found) = TYPES.into_iter().find(|it| it.name() == name) {
            return Ok(found);
        }
        let (last, others) = TYPES.split_last().expect("there are types");
        let others = others.iter().map(|it| format!("'{it}'")).collect::<Vec<_>>().join(", ");
        let choice = format!("the type may be {others} or '{last}'");
        Err(format!("there is no type '{name}'; {choice}"))
    }
}

impl fmt::Display for SpaceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bound of the value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyBound {
    /// Intervals of the value within a tolerance.
    Error(ErrorBound),
    /// Intervals of the number of elements within a tolerance.
    Size(ErrorBound),
    /// The value does not become negative.
    Hard,
}

/// Error bound of the counters or sets of a space: the greatest width of the intervals that
/// SOLERA.INTERVAL returns. All nodes must have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorBound {
    /// Greatest width, in millionths of the bound of the interval that is nearer to 0. From 1 to
    /// 1,000,000.
    pub tolerance_ppm: u32,
    /// Time for which a site keeps the tokens of a key that it does not update.
    pub lease: Duration,
}

impl ErrorBound {
    /// Default of [`ErrorBound::lease`].
    pub const LEASE: Duration = Duration::from_secs(5);

    /// Returns the tolerance as `solera.toml` writes it, such as `0.5%`.
    pub fn tolerance(&self) -> String {
        tolerance_of(self.tolerance_ppm)
    }

    /// Returns the tolerance that a text such as `0.5%` means, in millionths.
    ///
    /// # Errors
    /// A description of the error.
    pub(crate) fn parse_tolerance(text: &str) -> Result<u32, String> {
        let Some(number) = text.strip_suffix('%') else {
            return Err(format!("error is a percentage such as \"5%\" or \"0.5%\", not '{text}'"));
        };
        let number = number.trim_end();
        let (sign, digits) = match number.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", number),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !are_digits(whole) || !are_digits(fraction) {
            return Err(format!("error is a percentage such as \"5%\" or \"0.5%\", not '{text}'"));
        }
        let fraction = fraction.trim_end_matches('0');
        let is_zero = fraction.is_empty() && whole.bytes().all(|digit| digit == b'0');
        if is_zero || !sign.is_empty() {
            return Err(format!(
                "error is more than 0%, not '{text}': for exact values, use a space of level 'linearizable'"
            ));
        }
        if fraction.len() > DECIMALS {
            return Err(format!(
                "error is a multiple of {}, a millionth, which '{text}' is not",
                tolerance_of(1)
            ));
        }
        let scaled = format!("{whole}{fraction:0<DECIMALS$}");
        match scaled.parse() {
            Ok(ppm @ 1..=MOST_PPM) => Ok(ppm),
            _ => Err(format!("error is at most 100%, not '{text}'")),
        }
    }
}

/// Number of decimals of a percentage that is a multiple of a millionth.
const DECIMALS: usize = 4;
const MOST_PPM: u32 = 1_000_000;

fn tolerance_of(ppm: u32) -> String {
    let (whole, rest) = (ppm / 10_000, ppm % 10_000);
    let text = format!("{whole}.{rest:0DECIMALS$}");
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

impl fmt::Display for ErrorBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}, lease {} ms", self.tolerance(), self.lease.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_is_written_as_it_is_read() {
        for (text, ppm, written) in [
            ("5%", 50_000, "5%"),
            ("0.5%", 5_000, "0.5%"),
            ("100%", 1_000_000, "100%"),
            ("100.000000%", 1_000_000, "100%"),
            ("10 %", 100_000, "10%"),
            ("0.0001%", 1, "0.0001%"),
            ("012.34%", 123_400, "12.34%"),
        ] {
            assert_eq!(ErrorBound::parse_tolerance(text), Ok(ppm), "{text}");
            assert_eq!(tolerance_of(ppm), written);
        }
    }

    #[test]
    fn what_is_no_tolerance_is_rejected_with_the_reason() {
        let (form, zero) = ("error is a percentage such as", "error is more than 0%, not ");
        let (fine, most) = ("error is a multiple of 0.0001%, a millionth", "error is at most 100%");
        for (text, reason) in [
            ("", form),
            ("5", form),
            ("%", form),
            ("5%%", form),
            ("+5%", form),
            (".5%", form),
            ("5.%", form),
            ("1e2%", form),
            ("five%", form),
            ("5 % of it", form),
            ("0%", zero),
            ("0.000%", zero),
            ("-5%", zero),
            ("-0%", zero),
            ("0.00001%", fine),
            ("5.00005%", fine),
            ("101%", most),
            ("100.0001%", most),
            ("99999999999999999999%", most),
        ] {
            let error = ErrorBound::parse_tolerance(text).unwrap_err();
            assert!(error.starts_with(reason), "{text}: {error}");
        }
    }
}
