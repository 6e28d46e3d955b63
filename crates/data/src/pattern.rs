//! Redis' patterns of keys: `*`, `?`, `[a-c]`, `[^a]`, and `\` before a literal byte.

/// Returns whether a pattern matches all of `text`. The time is at most proportional to the product
/// of their lengths.
pub fn matches(mut pattern: &[u8], mut text: &[u8]) -> bool {
    // Place to continue if the rest does not match: the last star then matches one more byte.
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            again = Some((rest, text));
            pattern = rest;
            continue;
        }
        let stepped = match (pattern.is_empty(), text) {
            (true, []) => return true,
            (false, [byte, rest @ ..]) => one(pattern, *byte).map(|pattern| (pattern, rest)),
            _ => None,
        };
        if let Some(step) = stepped {
            (pattern, text) = step;
            continue;
        }
        match again {
            Some((after_star, [_, rest @ ..])) => {
                again = Some((after_star, rest));
                (pattern, text) = (after_star, rest);
            }
            _ => return false,
        }
    }
}

/// Returns whether a pattern matches some text that begins with `start`.
pub fn meets(pattern: &[u8], start: &[u8]) -> bool {
    let mut rests = Vec::new();
    reach(pattern, &mut rests);
    for byte in start {
        let mut next = Vec::new();
        for rest in rests {
            match rest {
                [b'*', ..] => reach(rest, &mut next),
                _ => one(rest, *byte).into_iter().for_each(|after| reach(after, &mut next)),
            }
        }
        rests = next;
    }
    !rests.is_empty()
}

/// Adds the rest of a pattern, and its rests where leading stars match nothing.
fn reach<'p>(mut rest: &'p [u8], rests: &mut Vec<&'p [u8]>) {
    while !rests.iter().any(|known| known.len() == rest.len()) {
        rests.push(rest);
        match rest {
            [b'*', after @ ..] => rest = after,
            _ => return,
        }
    }
}

/// Returns the rest of the pattern after its first element, if that element matches the byte.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => class(rest, byte),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (*literal == byte).then_some(rest),
        [] => None,
    }
}

/// Returns the same for a class, after its opening bracket. As in Redis, an unclosed class ends
/// with the pattern.
fn class(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    let (negated, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut found = false;
    loop {
        match rest {
            [] => break,
            [b']', after @ ..] => {
                rest = after;
                break;
            }
            [b'\\', literal, after @ ..] => {
                found |= *literal == byte;
                rest = after;
            }
            [low, b'-', high, after @ ..] => {
                found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                rest = after;
            }
            [literal, after @ ..] => {
                found |= *literal == byte;
                rest = after;
            }
        }
    }
    (found != negated).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::{matches, meets};

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("*", "abc", true),
            ("cart:*", "cart:", true),
            ("cart:*", "cart", false),
            ("*:a:*", "x:a:b:a:", true),
            ("*a*b", "xaxbxb", true),
            ("*a*b", "xaxbx", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("h[ae]llo", "hello", true),
            ("h[^e]llo", "hello", false),
            ("h[c-a]llo", "hbllo", true),
            ("[\\]]", "]", true),
            ("[a", "a", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("a", "ab", false),
            ("ab", "a", false),
            ("[", "x", false),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_take_forever() {
        let (pattern, text) = ("*a".repeat(100), "a".repeat(10_000));
        assert!(!matches((pattern + "b").as_bytes(), text.as_bytes()));
    }

    #[test]
    fn a_pattern_meets_what_some_text_of_it_begins_with() {
        for (pattern, start, expected) in [
            ("*", "log:", true),
            ("log:*", "log:", true),
            ("log:bob*", "log:", true),
            ("l*g:*x", "log:", true),
            ("l?g", "log:", false),
            ("lo[a-h]:*", "log:", true),
            ("lo[^g]:*", "log:", false),
            ("mail:*", "log:", false),
            ("log", "log:", false),
            ("x", "", true),
            ("*:", "log:", true),
        ] {
            assert_eq!(meets(pattern.as_bytes(), start.as_bytes()), expected, "{pattern} {start}");
        }
    }
}
