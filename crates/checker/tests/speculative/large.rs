//! A large history: sharing of runs keeps the judge fast.

use std::collections::VecDeque;

use solera_checker::speculative::{
    Claim, History, Operation, OperationId, Origin, Outcome, Procedure, Reply, ReplyKind, Strength,
    Value, check,
};

/// Returns a history of one replica. Every 200th operation is strong, and commits all before it.
fn large(operations: usize) -> History {
    let mut history = History::default();
    let mut tentative: VecDeque<OperationId> = VecDeque::new();
    let mut totals = vec![0; 100];
    for number in 0..operations {
        let id = OperationId { site: 0, run: 1, event: number as u64 + 1 };
        let strong = number % 200 == 199;
        let key = number * 7 % 100;
        totals[key] += 1;
        let order = Claim {
            committed: history.order.len(),
            tentative: tentative.iter().copied().collect(),
        };
        let kind = if strong { ReplyKind::Tentative } else { ReplyKind::Weak };
        let at = number as u64;
        let result = Outcome::Value(Some(Value::Int(totals[key])));
        history.operations.push(Operation {
            session: Some(number as u64 % 50),
            origin: Origin::Broadcast(id),
            strength: if strong { Strength::Strong } else { Strength::Weak },
            procedure: Procedure::Add(format!("key{key}"), 1),
            invoked: at,
            replies: vec![Reply { kind, at, order, result }],
        });
        tentative.push_back(id);
        if strong {
            history.order.extend(tentative.drain(..));
        }
    }
    history.order.extend(tentative);
    history
}

#[test]
fn a_large_history_is_judged() {
    let size = std::env::var("OPERATIONS").map_or(4_000, |size| size.parse().unwrap());
    let mut history = large(size);
    let begin = std::time::Instant::now();
    assert_eq!(check(&history), []);
    println!("{:?}", begin.elapsed());
    history.operations[size / 2].replies[0].result = Outcome::Done;
    assert_eq!(check(&history).len(), 1);
}
