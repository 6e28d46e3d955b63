//! Consistency policies (IPA §3.3).

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use solera_ipa::level::LevelMarker;
use solera_ipa::{At, Interval, Rushed};
use solera_levels::Level;
use solera_resp::Value;

use super::Declared;
use crate::client::Client;
use crate::error::Error;

/// Longest bound that a site accepts, in milliseconds.
const LONGEST: u128 = 60_000;

/// The whole value, in parts per million.
const MOST_PPM: u32 = 1_000_000;

/// How a read is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// At this level or a stronger one.
    At(Level),
    /// At the strongest level that arrives within this time.
    Within(Duration),
    /// At the strongest level that arrives within a time, but not at a weaker level than this one,
    /// even if it takes longer.
    AtWithin(Level, Duration),
}

/// Policy for reads of any type.
pub trait Policy: Copy + Send + Sync {
    /// Type of the result of a read that returns a `T`.
    type Read<T>;

    /// Returns how reads are executed.
    fn wanted(&self) -> Wanted;

    /// Labels a value that was read at a level. Returns `None` if this policy does not permit the
    /// level.
    fn label<T>(&self, value: T, level: Level) -> Option<Self::Read<T>>;

    /// Checks that a space permits the policy.
    ///
    /// # Errors
    /// [`Error::Policy`].
    fn check(&self, space: &Declared) -> Result<(), Error> {
        has_levels(space)
    }
}

/// Policy for reads of numbers.
pub trait CountPolicy: Copy + Send + Sync {
    /// Type of the result.
    type Count;

    /// Runs `command`, which reads the number under a key and is given without the key.
    ///
    /// # Errors
    /// See [`Client::command`]; also errors of SOLERA.READ and SOLERA.INTERVAL.
    fn count(
        &self,
        client: &mut Client,
        key: &str,
        command: &str,
    ) -> impl Future<Output = Result<Self::Count, Error>> + Send;

    /// Checks that a space permits the policy.
    ///
    /// # Errors
    /// [`Error::Policy`].
    fn check(&self, space: &Declared) -> Result<(), Error>;
}

/// Reads at level `L` or a stronger one return an [`At<T, L>`]. If the space sets a stronger level
/// as the weakest one, reads have that level. The type of the result stays the same.
///
/// ```
/// use solera::ipa::{Consistency, level};
///
/// let strong = Consistency::<level::Linearizable>::new();
/// # let _ = strong;
/// ```
pub struct Consistency<L>(PhantomData<L>);

impl<L: LevelMarker> Consistency<L> {
    /// Creates the policy.
    pub const fn new() -> Self {
        Consistency(PhantomData)
    }
}

impl<L: LevelMarker> Default for Consistency<L> {
    fn default() -> Self {
        Consistency::new()
    }
}

impl<L> Clone for Consistency<L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Consistency<L> {}

impl<L: LevelMarker> fmt::Debug for Consistency<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Consistency({})", L::LEVEL)
    }
}

impl<L: LevelMarker + Send + Sync> Policy for Consistency<L> {
    type Read<T> = At<T, L>;

    fn wanted(&self) -> Wanted {
        Wanted::At(L::LEVEL)
    }

    fn label<T>(&self, value: T, level: Level) -> Option<At<T, L>> {
        level.at_least(L::LEVEL).then(|| At::new(value))
    }

    fn check(&self, space: &Declared) -> Result<(), Error> {
        has_levels(space)?;
        match space.strongest_read() {
            Some(level) if !level.at_least(L::LEVEL) => {
                Err(space.refuse(&format!("has level {level}, not {}", L::LEVEL)))
            }
            _ => Ok(()),
        }
    }
}

/// Reads return the strongest value that arrives within this time, or else the first one, as a
/// [`Rushed<T>`]. The time is counted from the call: the client subtracts the shortest round trip
/// of the connection so far, and the site, which counts whole milliseconds from 1 to 60,000, does
/// the rest. If the connection becomes slower, reads take longer than the bound by the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyBound(pub Duration);

impl Policy for LatencyBound {
    type Read<T> = Rushed<T>;

    fn wanted(&self) -> Wanted {
        Wanted::Within(self.0)
    }

    fn label<T>(&self, value: T, level: Level) -> Option<Rushed<T>> {
        Rushed::labelled(value, level)
    }
}

impl LatencyBound {
    /// Returns the bound with a weakest level, which holds even if it takes longer.
    pub const fn at_least<L: LevelMarker>(self) -> LatencyBoundAtLeast<L> {
        LatencyBoundAtLeast { bound: self, level: PhantomData }
    }
}

/// Reads return the strongest value that arrives within a [`LatencyBound`] and is of level `L` or
/// stronger: if none arrives in time, the read takes longer. The result is a [`Rushed<T>`], of
/// which [`Rushed::at_least`] with level `L` always returns the value.
///
/// ```
/// use std::time::Duration;
///
/// use solera::ipa::{LatencyBound, level};
///
/// let soon = LatencyBound(Duration::from_millis(50)).at_least::<level::Causal>();
/// # let _ = soon;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyBoundAtLeast<L> {
    pub(super) bound: LatencyBound,
    level: PhantomData<L>,
}

impl<L: LevelMarker + Send + Sync> Policy for LatencyBoundAtLeast<L> {
    type Read<T> = Rushed<T>;

    fn wanted(&self) -> Wanted {
        Wanted::AtWithin(L::LEVEL, self.bound.0)
    }

    fn label<T>(&self, value: T, level: Level) -> Option<Rushed<T>> {
        Rushed::labelled(value, level).filter(|value| value.level().at_least(L::LEVEL))
    }

    fn check(&self, space: &Declared) -> Result<(), Error> {
        Policy::check(&Consistency::<L>::new(), space)
    }
}

impl<P: Policy> CountPolicy for P {
    type Count = P::Read<i64>;

    async fn count(
        &self,
        client: &mut Client,
        key: &str,
        command: &str,
    ) -> Result<P::Read<i64>, Error> {
        client.read_under(self, key, &[command.as_bytes()], count).await
    }

    fn check(&self, space: &Declared) -> Result<(), Error> {
        Policy::check(self, space)
    }
}

/// Reads return an [`Interval`] that contains the number, if it fits into 64 bits. Its width is at
/// most this part of its bound that is nearer to 0. The space declares the same tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorTolerance {
    ppm: u32,
}

impl ErrorTolerance {
    /// Creates a tolerance from whole percents, from 1 to 100. No value can be opened with another
    /// one.
    pub const fn percent(percents: u32) -> Self {
        ErrorTolerance { ppm: percents.saturating_mul(10_000) }
    }

    /// Creates a tolerance from parts per million, from 1 to 1,000,000: 5000 are 0.5%.
    pub const fn parts_per_million(ppm: u32) -> Self {
        ErrorTolerance { ppm }
    }
}

impl fmt::Display for ErrorTolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.ppm) / 10_000.0)
    }
}

impl CountPolicy for ErrorTolerance {
    type Count = Interval<i64>;

    async fn count(
        &self,
        client: &mut Client,
        key: &str,
        _command: &str,
    ) -> Result<Interval<i64>, Error> {
        client.interval(key).await
    }

    fn check(&self, space: &Declared) -> Result<(), Error> {
        if !(1..=MOST_PPM).contains(&self.ppm) {
            return Err(Error::Policy(format!(
                "an error tolerance is more than 0% and at most 100%, not {self}"
            )));
        }
        match space.tolerance_ppm {
            Some(declared) if declared == self.ppm => Ok(()),
            Some(declared) => {
                let declared = ErrorTolerance { ppm: declared };
                Err(space.refuse(&format!("has an error tolerance of {declared}, not {self}")))
            }
            None => Err(space.refuse(&format!("has no error bound, and not one of {self}"))),
        }
    }
}

impl Client {
    /// Runs a command that reads one key, such as `HGET field`, under a policy: for data types
    /// of one's own. The command is given without the key; `decode` converts its reply. A level is
    /// raised to the weakest one that the space permits.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// use solera::ipa::{LatencyBound, Rushed};
    /// use solera::{Client, Error, Value};
    ///
    /// /// Returns the e-mail address of a user, as recent as 50 ms permit.
    /// async fn address(client: &mut Client, user: &str) -> Result<Rushed<String>, Error> {
    ///     let soon = LatencyBound(Duration::from_millis(50));
    ///     let decode = |reply| match reply {
    ///         Value::Bulk(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
    ///         Value::Null => Ok("unknown".to_owned()),
    ///         other => Err(Error::unexpected(&other)),
    ///     };
    ///     client.read_under(&soon, user, &[b"HGET", b"address"], decode).await
    /// }
    /// ```
    ///
    /// # Errors
    /// See [`Client::command`]; also errors of SOLERA.READ and of `decode`.
    pub async fn read_under<P: Policy, T>(
        &mut self,
        policy: &P,
        key: &str,
        command: &[&[u8]],
        decode: impl FnOnce(Value) -> Result<T, Error>,
    ) -> Result<P::Read<T>, Error> {
        let (value, level) = match policy.wanted() {
            Wanted::At(level) => self.read_at(level, key, command).await?,
            Wanted::Within(bound) => self.read_within(bound, key, command).await?,
            Wanted::AtWithin(least, bound) => {
                self.read_at_within(least, bound, key, command).await?
            }
        };
        let refused = || Error::Policy(format!("the value of '{key}' has level {level}"));
        policy.label(decode(value)?, level).ok_or_else(refused)
    }

    /// Reads at a level, or at the weakest one that the space permits.
    async fn read_at(
        &mut self,
        level: Level,
        key: &str,
        command: &[&[u8]],
    ) -> Result<(Value, Level), Error> {
        let least = self.declared(key).await?.at_least;
        let level = least.map_or(level, |least| level.meet(least));
        self.read(b"AT", level.name(), key, command).await
    }

    async fn read_within(
        &mut self,
        bound: Duration,
        key: &str,
        command: &[&[u8]],
    ) -> Result<(Value, Level), Error> {
        let left = bound.saturating_sub(self.round_trip());
        let ms = left.as_millis().clamp(1, LONGEST).to_string();
        self.read(b"WITHIN", &ms, key, command).await
    }

    async fn read_at_within(
        &mut self,
        least: Level,
        bound: Duration,
        key: &str,
        command: &[&[u8]],
    ) -> Result<(Value, Level), Error> {
        // Below the strongest level of a space, sites read at levels causal and eventual only. So
        // there is nothing to choose from if causal is too weak.
        if Level::Causal.at_least(least) {
            let read = self.read_within(bound, key, command).await?;
            if read.1.at_least(least) {
                return Ok(read);
            }
        }
        self.read_at(least, key, command).await
    }

    /// Sends SOLERA.READ. Returns the command's reply and the level of the read.
    async fn read(
        &mut self,
        how: &[u8],
        value: &str,
        key: &str,
        command: &[&[u8]],
    ) -> Result<(Value, Level), Error> {
        let mut request = vec![&b"SOLERA.READ"[..], key.as_bytes(), how, value.as_bytes()];
        request.extend(command);
        let mut reply = self.call(&request).await?;
        let read = match &mut reply {
            Value::Array(parts) => match &mut parts[..] {
                [value, Value::Bulk(level)] => {
                    let level = std::str::from_utf8(level).ok().and_then(|it| it.parse().ok());
                    level.map(|level| (std::mem::replace(value, Value::Null), level))
                }
                _ => None,
            },
            _ => None,
        };
        read.ok_or_else(|| Error::unexpected(&reply))
    }

    /// Returns an interval that contains the value of a counter or the size of a set with a bound.
    ///
    /// # Errors
    /// See [`Client::command`]; also errors of SOLERA.INTERVAL.
    pub async fn interval(&mut self, key: &str) -> Result<Interval<i64>, Error> {
        let reply = self.call(&[b"SOLERA.INTERVAL", key.as_bytes()]).await?;
        let bounds = match &reply {
            Value::Array(bounds) => match bounds[..] {
                [Value::Integer(min), Value::Integer(max)] => Interval::new(min, max).ok(),
                _ => None,
            },
            _ => None,
        };
        bounds.ok_or_else(|| Error::unexpected(&reply))
    }
}

/// Checks that the level of a read of a space can be chosen.
fn has_levels(space: &Declared) -> Result<(), Error> {
    match space.level {
        Some(Level::Linearizable | Level::Por | Level::Causal | Level::Eventual) => Ok(()),
        Some(level) => Err(space.refuse(&format!("has level {level}, which no read can change"))),
        None => Err(space.refuse("has no level of the lattice")),
    }
}

/// Returns a reply as a number. A counter that does not exist is 0.
fn count(reply: Value) -> Result<i64, Error> {
    let number = match &reply {
        Value::Null => Some(0),
        Value::Integer(number) => Some(*number),
        Value::Bulk(digits) => std::str::from_utf8(digits).ok().and_then(|it| it.parse().ok()),
        _ => None,
    };
    number.ok_or_else(|| Error::unexpected(&reply))
}
