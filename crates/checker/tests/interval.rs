//! The judge of intervals, compared with a search through all orders, and its small bad histories.

use solera_checker::interval::{History, Operation, Read, Update, check};

const STATES: usize = 100_000;

fn update(amount: i128, begin: u64, end: u64) -> Update {
    Update { amount, begin, end: Some(end) }
}

fn unknown(amount: i128, begin: u64) -> Update {
    Update { amount, begin, end: None }
}

fn read((least, greatest): (i128, i128), begin: u64, end: u64) -> Read {
    Read { least, greatest, begin, end }
}

fn is_valid(start: i128, updates: &[Update], reads: &[Read]) -> bool {
    is_valid_above(None, start, updates, reads)
}

fn is_valid_above(floor: Option<i128>, start: i128, updates: &[Update], reads: &[Read]) -> bool {
    let history = History { start, updates: updates.to_vec(), reads: reads.to_vec(), floor };
    let checked = check(&history, STATES);
    assert_ne!(checked, Ok(false), "{history:?}");
    checked.is_ok()
}

#[test]
fn an_acknowledged_update_is_in_later_answers() {
    assert!(!is_valid(10, &[update(1, 1, 2)], &[read((9, 10), 3, 4)]));
    assert!(is_valid(10, &[update(1, 1, 2)], &[read((9, 10), 2, 4)]));
    assert!(is_valid(10, &[update(1, 1, 2)], &[read((11, 11), 3, 4)]));
}

#[test]
fn an_update_is_in_no_earlier_answer() {
    assert!(!is_valid(10, &[update(1, 3, 4)], &[read((11, 12), 1, 2)]));
}

#[test]
fn a_value_that_was_seen_remains() {
    let updates = [update(1, 1, 9)];
    assert!(!is_valid(10, &updates, &[read((11, 11), 2, 3), read((10, 10), 4, 5)]));
    assert!(is_valid(10, &updates, &[read((10, 10), 2, 3), read((11, 11), 4, 5)]));
    // This is the same with overlapping reads.
    assert!(is_valid(10, &updates, &[read((11, 11), 2, 4), read((10, 10), 4, 5)]));
}

#[test]
fn increments_and_decrements_have_one_order_for_all_reads() {
    let updates = [update(1, 1, 9), update(-1, 1, 9)];
    let ninth = read((9, 9), 2, 3);
    assert!(is_valid(10, &updates, &[ninth]));
    assert!(is_valid(10, &updates, &[ninth, read((10, 10), 4, 5)]));
    assert!(!is_valid(10, &updates, &[ninth, read((11, 11), 4, 5)]));
    // A read needs a moment between two updates that both end before it.
    assert!(is_valid(10, &[update(1, 1, 4), update(-1, 1, 4)], &[read((9, 9), 2, 6)]));
    assert!(is_valid(10, &[update(1, 1, 4), update(-1, 1, 5)], &[read((11, 11), 2, 6)]));
}

#[test]
fn an_unknown_outcome_is_possible_at_any_later_moment_or_never() {
    let updates = [unknown(5, 2)];
    assert!(is_valid(10, &updates, &[read((10, 10), 100, 101)]));
    assert!(is_valid(10, &updates, &[read((15, 15), 100, 101)]));
    assert!(is_valid(10, &updates, &[read((10, 10), 3, 4), read((15, 15), 5, 6)]));
    assert!(!is_valid(10, &updates, &[read((15, 15), 3, 4), read((10, 10), 5, 6)]));
    assert!(!is_valid(10, &updates, &[read((15, 15), 0, 1)]));
}

#[test]
fn no_update_leaves_a_value_below_the_floor() {
    let is_valid = |updates: &[Update]| is_valid_above(Some(0), 2, updates, &[]);
    assert!(is_valid(&[update(-1, 1, 2), update(-1, 1, 2)]));
    assert!(!is_valid(&[update(-1, 1, 2), update(-2, 1, 2)]));
    assert!(!is_valid(&[update(-3, 1, 2), update(5, 3, 4)]));
    assert!(is_valid(&[update(-3, 1, 4), update(5, 3, 4)]));
    assert!(is_valid(&[update(-3, 4, 5), unknown(1, 3)]));
    assert!(is_valid(&[unknown(-3, 1)]));
    // A decrement takes effect after the increment on which it depends, and a read sees both.
    let updates = [update(5, 1, 9), update(-3, 1, 4)];
    assert!(is_valid_above(Some(0), 2, &updates, &[read((4, 4), 5, 6)]));
    assert!(!is_valid_above(Some(0), 2, &updates, &[read((2, 2), 5, 6)]));
    // Beyond the limit, sums are compared.
    let updates: Vec<Update> = (0..20).map(|place| unknown(1 << place, 1)).collect();
    let history = |spent: i128| {
        let (updates, reads) = ([&updates[..], &[update(-spent, 2, 3)]].concat(), Vec::new());
        History { start: 0, updates, reads, floor: Some(0) }
    };
    assert_eq!(check(&history(77_777), 100), Ok(false));
    assert!(check(&history(1 << 20), 100).is_err());
}

#[test]
fn updates_take_effect_once_and_as_a_whole() {
    assert!(!is_valid(0, &[update(3, 1, 9)], &[read((1, 2), 2, 3)]));
    assert!(!is_valid(0, &[update(3, 1, 9)], &[read((6, 6), 2, 3)]));
}

#[test]
fn numbers_at_the_limits_are_judged() {
    let far = update(i128::MAX, 1, 2);
    assert!(is_valid(i128::MAX, &[far, far], &[read((i128::MAX, i128::MAX), 3, 4)]));
    assert!(!is_valid(0, &[far], &[read((i128::MIN, 0), 3, 4)]));
}

#[test]
fn beyond_the_limit_only_bounds_are_compared() {
    let updates: Vec<Update> = (0..20).map(|place| unknown(1 << place, 1)).collect();
    let history = |reads: &[Read]| History {
        start: 0,
        updates: updates.clone(),
        reads: reads.to_vec(),
        floor: None,
    };
    assert_eq!(check(&history(&[read((77_777, 77_777), 2, 3)]), 100), Ok(false));
    let impossible = read((-7, -1), 2, 3);
    let violation = check(&history(&[impossible]), 100).unwrap_err();
    assert_eq!(violation.operation, Operation::Read(impossible));
}

/// Tries all orders.
fn by_brute_force(history: &History) -> bool {
    let count = history.updates.len() + history.reads.len();
    extend(history, &mut Vec::new(), count)
}

/// Returns the beginning and the end of an operation. Updates come first.
fn times(history: &History, place: usize) -> (u64, u64) {
    match history.updates.get(place) {
        Some(update) => (update.begin, update.end.unwrap_or(u64::MAX)),
        None => {
            let read = history.reads[place - history.updates.len()];
            (read.begin, read.end)
        }
    }
}

fn extend(history: &History, order: &mut Vec<usize>, count: usize) -> bool {
    let left: Vec<usize> = (0..count).filter(|place| !order.contains(place)).collect();
    // Updates with an unknown outcome may have no effect.
    if left.iter().all(|place| times(history, *place).1 == u64::MAX) {
        return true;
    }
    let amounts = order.iter().filter_map(|place| history.updates.get(*place));
    let value: i128 = history.start + amounts.map(|update| update.amount).sum::<i128>();
    for next in &left {
        // No operation that has ended before it begins may follow it.
        if left.iter().any(|other| times(history, *other).1 < times(history, *next).0) {
            continue;
        }
        if let Some(read) = next.checked_sub(history.updates.len()).map(|at| history.reads[at])
            && !(read.least..=read.greatest).contains(&value)
        {
            continue;
        }
        if let (Some(floor), Some(update)) = (history.floor, history.updates.get(*next))
            && value + update.amount < floor
        {
            continue;
        }
        order.push(*next);
        let found = extend(history, order, count);
        order.pop();
        if found {
            return true;
        }
    }
    false
}

/// A small generator (xorshift), because the crate uses no other.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) % below
}

#[test]
fn the_judge_agrees_with_all_orders_of_small_histories() {
    let mut state = 0x2545_f491_4f6c_dd1d;
    let mut counts = [0, 0];
    for _ in 0..6_000 {
        let floor = draw(&mut state, 2).is_multiple_of(2).then_some(-1);
        let mut history = History { floor, ..History::default() };
        for _ in 0..1 + draw(&mut state, 4) {
            let begin = draw(&mut state, 8);
            let end = (!draw(&mut state, 5).is_multiple_of(5)).then(|| begin + draw(&mut state, 6));
            let amount = i128::from(draw(&mut state, 5)) - 2;
            history.updates.push(Update { amount, begin, end });
        }
        for _ in 0..1 + draw(&mut state, 3) {
            let begin = draw(&mut state, 8);
            let least = i128::from(draw(&mut state, 7)) - 3;
            let greatest = least + i128::from(draw(&mut state, 2));
            history.reads.push(Read { least, greatest, begin, end: begin + draw(&mut state, 5) });
        }
        let expected = by_brute_force(&history);
        let found = check(&history, STATES);
        assert_eq!(found, if expected { Ok(true) } else { found.clone() }, "{history:?}");
        assert_eq!(found.is_ok(), expected, "{history:?}");
        counts[usize::from(expected)] += 1;
    }
    assert!(counts.iter().all(|count| *count > 1_000), "{counts:?}");
}
