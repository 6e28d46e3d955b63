//! Comparisons in wall-clock time: alternating pairs, and the median of their ratios.
//!
//! Other programs on the machine slow both measurements of a pair about equally, and the median
//! ignores the pairs that they disturbed.

/// Number of pairs of a comparison whose result is reported.
pub(crate) const PAIRS: usize = 10;
/// Number of pairs of a trial comparison.
pub(crate) const FEW_PAIRS: usize = 3;

/// Measures two variants, 0 and 1, in alternating pairs. The variant that is first in one pair is
/// second in the next.
///
/// # Errors
/// Fails with the first error of `measure`.
pub(crate) fn alternate<T, E>(
    pairs: usize,
    mut measure: impl FnMut(usize, usize) -> Result<T, E>,
) -> Result<Vec<[T; 2]>, E> {
    let pair = |number: usize| {
        let first = measure(number, number % 2)?;
        let second = measure(number, 1 - number % 2)?;
        Ok(if number.is_multiple_of(2) { [first, second] } else { [second, first] })
    };
    (0..pairs).map(pair).collect()
}

/// Returns the median; for an even count, the mean of the middle two; NaN without values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count => (values[(count - 1) / 2] + values[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_alternate_and_keep_their_order() {
        let mut order = Vec::new();
        let pairs = alternate(PAIRS, |pair, arm| {
            order.push(arm);
            Ok::<_, ()>((pair, arm))
        });
        let pairs = pairs.unwrap();
        assert_eq!(order[..6], [0, 1, 1, 0, 0, 1]);
        assert_eq!(pairs.len(), PAIRS);
        assert!(pairs.iter().enumerate().all(|(at, pair)| *pair == [(at, 0), (at, 1)]));
        assert_eq!(alternate(1, |_, arm| if arm == 1 { Err("no") } else { Ok(()) }), Err("no"));
    }

    #[test]
    fn a_median_ignores_outliers() {
        assert_eq!(median([3.0, 1.0, 1000.0]), 3.0);
        assert_eq!(median([1.0, 4.0, 2.0, 1000.0]), 3.0);
        assert!(median([]).is_nan());
    }
}
