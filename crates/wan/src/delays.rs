//! Delays between a client and a server.

use std::time::Duration;

use solera_random::Random;

/// Longest delay; more is a mistake.
const MOST: Duration = Duration::from_secs(60);

/// Delays of a connection. Each direction takes half of a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    rtt: Duration,
    jitter: Duration,
}

impl Delays {
    /// Creates delays with round trips of `rtt` and a random addition of up to `jitter`.
    ///
    /// # Errors
    /// If one of them is longer than a minute.
    pub fn new(rtt: Duration, jitter: Duration) -> Result<Delays, DelaysError> {
        match rtt.max(jitter) > MOST {
            true => Err(DelaysError),
            false => Ok(Delays { rtt, jitter }),
        }
    }

    /// Returns the time that TCP takes until the server has accepted a connection and received the
    /// first bytes: three one-way delays.
    pub(crate) fn opening(self) -> Duration {
        self.rtt * 3 / 2
    }
}

/// Error of a round trip or a jitter of more than a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a round trip and its jitter are at most {} ms each", MOST.as_millis())]
pub struct DelaysError;

/// Delays of one direction of a connection.
#[derive(Debug)]
pub(crate) struct OneWay {
    delays: Delays,
    random: Random,
}

impl OneWay {
    pub(crate) fn new(delays: Delays, seed: u64) -> OneWay {
        OneWay { delays, random: Random::new(seed) }
    }

    /// Returns the delay of the next bytes.
    pub(crate) fn draw(&mut self) -> Duration {
        let share = self.random.draw() as f64 / u64::MAX as f64;
        (self.delays.rtt + self.delays.jitter.mul_f64(share)) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_takes_half_a_round_trip_and_up_to_half_the_jitter() {
        let ms = Duration::from_millis;
        let mut way = OneWay::new(Delays::new(ms(80), ms(10)).unwrap(), 7);
        let drawn: Vec<_> = (0..1000).map(|_| way.draw()).collect();
        let (least, most) = (*drawn.iter().min().unwrap(), *drawn.iter().max().unwrap());
        assert!(ms(40) <= least && least < ms(41), "{least:?}");
        assert!(ms(44) < most && most <= ms(45), "{most:?}");
        assert_eq!(Delays::new(ms(60_001), ms(0)), Err(DelaysError));
        assert_eq!(Delays::new(ms(0), ms(60_001)), Err(DelaysError));
    }
}
