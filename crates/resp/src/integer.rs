/// Parses a decimal integer as strictly as Redis: an optional minus sign, no leading zeros, no
/// spaces, within 64 bits.
pub fn parse_integer(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, bytes),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut magnitude: u64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Appends a decimal integer.
pub fn write_integer(out: &mut Vec<u8>, number: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut magnitude = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (magnitude % 10) as u8;
        magnitude /= 10;
        if magnitude == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_as_strict_as_in_redis() {
        for (text, number) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("1a", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), number, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for number in [0, 1, -1, 10, 99, -100, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            write_integer(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
            assert_eq!(parse_integer(&out), Some(number));
        }
    }
}
