//! Reservations and promises of the guard, and updates without a promise.

use std::time::Duration;

use solera_machine::{Guard, GuardAnswer, GuardQuestion, Guarded, PromiseId, Verdict};
use solera_reservations::{
    Claim, Command, Entry, PROTOCOL, Position, Question, Response, Rule, TakeId, Tokens,
};
use solera_time::Vector;

use crate::host::*;

fn tokens(increments: u64, decrements: u64) -> Claim {
    Claim::Tokens(Tokens { increments, decrements })
}

fn guards(claim: Claim) -> Guarded {
    Guard { key: KEY.to_vec(), protocol: PROTOCOL.number, claim: claim.encode() }.into()
}

impl Host {
    fn reserve(&mut self, sequence: u64, claim: Claim) -> Option<Verdict> {
        let id = PromiseId { coordinator: 0, sequence };
        let snapshot = Vector::zero(SITES);
        self.verdict(GuardQuestion::Reserve { id, guards: guards(claim), snapshot })
    }

    fn promise(&mut self, sequence: u64, claim: Claim) -> Option<Verdict> {
        let id = PromiseId { coordinator: 0, sequence };
        self.verdict(GuardQuestion::Promise { id, guards: guards(claim) })
    }

    fn verdict(&mut self, question: GuardQuestion) -> Option<Verdict> {
        self.command(Command::Guard(question)).map(|response| match response {
            Response::Guard(GuardAnswer::Verdict(verdict)) => verdict,
            other => panic!("{other:?}"),
        })
    }

    fn end(&mut self, sequence: u64, committed: bool) {
        let id = PromiseId { coordinator: 0, sequence };
        self.command(Command::Guard(GuardQuestion::End { id, committed }));
    }

    fn answers(&self) -> Vec<Verdict> {
        let answers = self.replies.iter().filter_map(|reply| match reply {
            Response::Guard(GuardAnswer::Verdict(verdict)) => Some(verdict.clone()),
            _ => None,
        });
        answers.collect()
    }
}

#[test]
fn a_reservation_waits_for_tokens_and_becomes_a_promise() {
    let mut host = Host::new(0, None);
    assert_eq!(host.reserve(1, tokens(2, 0)), None);
    host.grant((4, 0));
    assert_eq!(host.answers(), [Verdict::Promised]);
    // Two of the four are left.
    assert_eq!(host.reserve(2, tokens(3, 0)), None);
    assert_eq!(host.promise(1, tokens(2, 0)), Some(Verdict::Promised));
    let (promised, id) =
        (host.machine.promises().next(), PromiseId { coordinator: 0, sequence: 1 });
    assert_eq!(promised, Some(id));
    // The other one stops waiting, so that its end lets nobody wait behind it.
    host.end(2, false);
    assert_eq!(host.reserve(3, tokens(2, 0)), Some(Verdict::Promised));
    host.end(3, false);
    assert_eq!(host.reserve(4, tokens(2, 0)), Some(Verdict::Promised), "3 gave back its tokens");
}

#[test]
fn a_reservation_without_tokens_is_refused_with_the_reason() {
    let mut host = Host::new(0, None);
    let reason = |verdict: Option<Verdict>| match verdict {
        Some(Verdict::Refused(refusal)) => refusal.reason,
        other => panic!("{other:?}"),
    };
    let mut late = |claim| {
        host.replies.clear();
        assert_eq!(host.reserve(1, claim), None);
        host.wait(host.config.timing.patience);
        reason(host.answers().pop())
    };
    assert!(late(tokens(1, 0)).contains("no tokens in time"));
    assert!(late(tokens(9, 0)).contains("more than the 8 tokens"));
    let guard = Guard { key: KEY.to_vec(), protocol: PROTOCOL.number, claim: vec![7] };
    let id = PromiseId { coordinator: 0, sequence: 2 };
    let (guards, snapshot) = (guard.into(), Vector::zero(SITES));
    let junk = host.verdict(GuardQuestion::Reserve { id, guards, snapshot });
    assert!(reason(junk).contains("cannot be read"));
    // A claim that names its tokens needs no others, and its promise is judged.
    let unknown = Claim::Take(TakeId(foreign()));
    assert_eq!(host.reserve(3, unknown), Some(Verdict::Promised));
    assert!(reason(host.promise(3, unknown)).contains("taken back"));
}

#[test]
fn a_promise_without_its_reservation_is_refused() {
    let mut host = Host::new(0, None);
    host.grant((4, 0));
    assert_eq!(host.reserve(1, tokens(2, 0)), Some(Verdict::Promised));
    assert!(matches!(host.promise(1, tokens(1, 0)), Some(Verdict::Refused(_))), "other guards");
    assert_eq!(host.reserve(2, tokens(4, 0)), Some(Verdict::Promised), "1 gave back its tokens");
    host.restart();
    assert!(matches!(host.promise(2, tokens(4, 0)), Some(Verdict::Refused(_))));
    assert_eq!(host.promise(3, tokens(0, 0)), Some(Verdict::Promised), "it needs none");
}

#[test]
fn a_spent_token_counts_until_the_stream_contains_the_update() {
    let read = || Command::Interval { key: KEY.to_vec(), within: Duration::ZERO };
    let between = |least, greatest| Some(Response::Interval { least, greatest });
    for (without, before) in [(None, 101), (Some(Rule::CountSpent), 100)] {
        let mut host = Host::new(0, without);
        host.stream(1, (0, 10), vec![(10, Entry::Update(100))]);
        host.wait(Duration::from_millis(10));
        host.commit_asked(is_renewal);
        host.grant((2, 0));
        let spent =
            host.machine.spend(host.reading(), KEY, Tokens::of(1)).expect("there is a token");
        host.machine.note_commit(spent, Position(10));
        assert_eq!(host.command(read()), between(100, before), "{without:?}");
        if without.is_some() {
            continue;
        }
        // The other token may be spent, too, and given back.
        let spent =
            host.machine.spend(host.reading(), KEY, Tokens::of(1)).expect("there is another token");
        assert!(host.machine.spend(host.reading(), KEY, Tokens::of(1)).is_none());
        host.machine.give_back_spent(host.reading(), spent);
        host.stream(0, (0, 10), vec![(10, Entry::Update(1))]);
        assert_eq!(host.command(read()), between(101, 101));
        // The update is not seen by others yet.
        assert!(host.machine.spend(host.reading(), KEY, Tokens::of(2)).is_none());
        let nothing =
            host.machine.spend(host.reading(), KEY, Tokens::of(0)).expect("it needs no token");
        host.machine.note_commit(nothing, Position(20));
        let last = host.machine.spend(host.reading(), KEY, Tokens::of(1)).expect("one is left");
        host.machine.give_back_spent(host.reading(), last);
        assert!(
            host.machine.spend(host.reading(), KEY, Tokens::of(-1)).is_none(),
            "it has no decrements"
        );
    }
}

#[test]
fn nobody_spends_tokens_for_which_another_waits() {
    let mut host = Host::new(0, None);
    host.grant((2, 0));
    assert!(host.take(3).is_none());
    assert!(host.machine.spend(host.reading(), KEY, Tokens::of(1)).is_none());
}

#[test]
fn a_decrement_is_spent_during_the_lease_alone() {
    let (mut host, take) = decrementer(None);
    host.command(Command::GiveBack { key: KEY.to_vec(), take });
    let spent = host.machine.spend(host.reading(), KEY, Tokens::of(-1)).expect("there are tokens");
    host.machine.give_back_spent(host.reading(), spent);
    host.now = host.now.after(Duration::from_secs(5));
    assert!(host.machine.spend(host.reading(), KEY, Tokens::of(-1)).is_none());
}

#[test]
fn an_update_that_is_not_in_the_stream_counts_after_a_restart() {
    let read = || Command::Interval { key: KEY.to_vec(), within: Duration::ZERO };
    for (without, greatest) in [(None, 102), (Some(Rule::RestoreCommits), 100)] {
        let mut host = Host::new(0, without);
        host.stream(1, (0, 10), vec![(10, Entry::Update(100))]);
        host.grant((4, 0));
        let spent =
            host.machine.spend(host.reading(), KEY, Tokens::of(2)).expect("there are tokens");
        host.machine.note_commit(spent, Position(20));
        host.restart();
        host.machine.restore_commit(KEY, Tokens::of(2), Position(20));
        host.wait(Duration::from_millis(10));
        host.commit_asked(is_renewal);
        let answer = Some(Response::Interval { least: 100, greatest });
        assert_eq!(host.command(read()), answer, "{without:?}");
        // The epoch does not end before the update is in the stream.
        host.wait(Duration::from_secs(1));
        let ends = |host: &Host| {
            host.asked.iter().filter(|(_, it)| matches!(it, Question::End { .. })).count()
        };
        assert_eq!(ends(&host), usize::from(without.is_some()), "{without:?}");
        host.stream(0, (0, 20), vec![(20, Entry::Update(2))]);
        host.wait(Duration::from_secs(1));
        assert_eq!(ends(&host), 1);
    }
}
