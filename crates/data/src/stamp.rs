//! Names of the elements of lists.
//!
//! A list is a hash. The field of each element is a stamp: the time at which the element was
//! appended, and a random number, so that elements of different sites have different names.

use crate::Value;

/// Number of digits of each half of a stamp.
const DIGITS: usize = 16;

/// Returns the stamp of a time in microseconds since 1970 and a random number. The order of stamps
/// as bytes is that of their times.
pub fn stamp(time_us: u64, random: u64) -> Value {
    format!("{time_us:0DIGITS$x}-{random:0DIGITS$x}").as_str().into()
}

/// Returns the time of a stamp; `None` if the field's name is no stamp.
pub fn time_of_stamp(field: &[u8]) -> Option<u64> {
    let digits = is_stamp(field).then(|| std::str::from_utf8(&field[..DIGITS]).ok())??;
    u64::from_str_radix(digits, 16).ok()
}

/// Returns whether a field's name has the form of a stamp.
pub fn is_stamp(field: &[u8]) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    field.len() == 2 * DIGITS + 1
        && field[DIGITS] == b'-'
        && field[..DIGITS].iter().all(is_digit)
        && field[DIGITS + 1..].iter().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_recognised_and_have_the_order_of_their_times() {
        let mut stamps = [0, 1, 0x10, 1 << 52, u64::MAX].map(|time| stamp(time, u64::MAX - time));
        assert!(stamps.iter().all(|stamp| is_stamp(stamp)), "{stamps:?}");
        assert!(stamps.is_sorted());
        let times: Vec<_> = stamps.iter().filter_map(|stamp| time_of_stamp(stamp)).collect();
        assert_eq!(times, [0, 1, 0x10, 1 << 52, u64::MAX]);
        stamps.reverse();
        assert!(!stamps.is_sorted());
    }

    #[test]
    fn other_names_are_no_stamps() {
        let stamp = stamp(7, 11).to_string();
        assert_eq!(stamp, "0000000000000007-000000000000000b");
        for other in ["", "-", "f", &stamp[1..], &format!("{stamp}0")] {
            assert!(!is_stamp(other.as_bytes()), "{other}");
            assert_eq!(time_of_stamp(other.as_bytes()), None, "{other}");
        }
        for (at, byte) in [(0, b'g'), (0, b'A'), (16, b'0'), (17, b'-'), (32, b' ')] {
            let mut other = stamp.clone().into_bytes();
            other[at] = byte;
            assert!(!is_stamp(&other), "{}", other.escape_ascii());
        }
    }
}
