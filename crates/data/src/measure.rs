use crate::{Effect, Op};

/// Number that a bound of a key is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The key's string, as a number.
    Value,
    /// The number of elements of the key's set.
    Size,
}

/// Most by which a change raises and lowers a number, whatever other changes come before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Most by which it raises the number.
    pub up: u64,
    /// Most by which it lowers the number.
    pub down: u64,
}

impl Span {
    /// Returns whether the change leaves the number as it is.
    pub fn is_none(&self) -> bool {
        *self == Span::default()
    }

    fn of(amount: i64) -> Span {
        match amount {
            0.. => Span { up: amount.unsigned_abs(), down: 0 },
            _ => Span { up: 0, down: amount.unsigned_abs() },
        }
    }
}

impl Measure {
    /// Returns the span of an effect; `None` if the effect changes anything else than the number.
    ///
    /// An added element that is in the set already raises its size, too, where another site removes
    /// the element concurrently. So each named element counts.
    pub fn of_effect(self, effect: &Effect) -> Option<Span> {
        match self {
            Measure::Value => effect.increment().map(Span::of),
            Measure::Size => {
                let set = effect.set_change()?;
                let stays = |element| set.adds(element);
                let removed = set.removed.iter().filter(|element| !stays(element.as_bytes()));
                Some(Span { up: set.added.len() as u64, down: removed.count() as u64 })
            }
        }
    }

    /// Returns the span of an update, at least that of its effect on any key; `None` if the update
    /// may change anything else than the number.
    pub fn of_op(self, op: &Op) -> Option<Span> {
        match (self, op) {
            (Measure::Value, Op::IncrBy(amount)) => Some(Span::of(*amount)),
            (Measure::Size, Op::SetAdd(elements)) => {
                Some(Span { up: elements.len() as u64, down: 0 })
            }
            (Measure::Size, Op::SetRemove(elements)) => {
                Some(Span { up: 0, down: elements.len() as u64 })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{State, Value, View, execute};

    fn elements(names: &[&str]) -> Vec<Value> {
        names.iter().map(|name| Value::from(*name)).collect()
    }

    fn effect(ops: &[Op]) -> Effect {
        let absent = State::default();
        ops.iter().fold(Effect::default(), |before, op| {
            let own = (before != Effect::default()).then_some(&before);
            let done = execute(op, &View::new(&absent).own(own)).unwrap().1.unwrap_or_default();
            before.then(done)
        })
    }

    #[test]
    fn each_named_element_counts_once() {
        let (add, remove) =
            (|e: &[&str]| Op::SetAdd(elements(e)), |e: &[&str]| Op::SetRemove(elements(e)));
        let some = |up, down| Some(Span { up, down });
        for (ops, span) in [
            (vec![add(&["a", "b", "a"])], some(2, 0)),
            (vec![add(&["a"]), add(&["a", "b"])], some(2, 0)),
            (vec![add(&["a", "b"]), remove(&["a"])], some(1, 1)),
            (vec![add(&["a"]), remove(&["a"]), add(&["a"])], some(1, 0)),
            (vec![add(&["a"]), Op::Delete], None),
            (vec![Op::IncrBy(2)], None),
        ] {
            assert_eq!(Measure::Size.of_effect(&effect(&ops)), span, "{ops:?}");
            // A site takes tokens for an operation before it knows the effect.
            for op in &ops {
                let of_effect = Measure::Size.of_effect(&effect(std::slice::from_ref(op)));
                let (Some(before), Some(after)) = (Measure::Size.of_op(op), of_effect) else {
                    continue;
                };
                assert!(before.up >= after.up && before.down >= after.down, "{op:?}");
            }
        }
        let counted = |op: &Op| Measure::Value.of_effect(&effect(std::slice::from_ref(op)));
        assert_eq!(counted(&Op::IncrBy(i64::MIN)), some(0, 1 << 63));
        assert_eq!(counted(&Op::IncrBy(5)), some(5, 0));
        assert_eq!(counted(&add(&["a"])), None);
        assert_eq!(counted(&Op::Set("5".into())), None);
    }
}
