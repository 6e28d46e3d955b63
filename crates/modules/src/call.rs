//! Execution of SOLERA.CALL.

use std::fmt::Display;

use solera_commands::similar;
use solera_mixt::coordinator::{Coordinator, TransactionId};
use solera_mixt::executor;
use solera_mixt::outcome::{Limits, Outcome, Why};
use solera_mixt::record::Record;
use solera_mixt::recovery;
use solera_mixt::rights::Users;
use solera_mixt::typed::Host as _;
use solera_node::{Caller, Local};
use solera_program::codec::Codec;
use solera_program::ir::{Instr, Program, Transaction};
use solera_program::run::spell;
use solera_program::span::Position;
use solera_program::value::Value;
use solera_session::CallLevel;
use solera_spaces::System;

use crate::library::Compiled;
use crate::own::Own;
use crate::{Answered, Shared, answer, binding, connections, registry, speculative};

/// Calls a transaction of a loaded module.
pub(crate) async fn call(
    shared: &Shared,
    local: &Local,
    caller: Caller,
    (name, transaction): (&str, &str),
    (args, level): (&[Vec<u8>], Option<CallLevel>),
) -> Answered {
    let entry = registry::entry(&caller, name).await?;
    let compiled = shared.library.get(&caller, &entry.digest).await?;
    let module = compiled.module.clone();
    let program = module.program().clone();
    let Some(index) = module.transaction(transaction) else {
        let names: Vec<_> = program.transactions.iter().map(|found| &*found.name).collect();
        let all = names.join(", ");
        let hint = match similar(transaction, names) {
            Some(near) => format!("did you mean '{near}'? It has {all}"),
            None => format!("it has {all}"),
        };
        return Err(format!(
            "NOTRANSACTION module '{name}' has no transaction '{}'; {hint}",
            transaction.escape_debug()
        ));
    };
    if speculative::is_bound(&module, &entry.binds, local)? {
        let compiled = (&compiled, &*entry.digest);
        return speculative::call(shared, local, &caller, compiled, (name, index), (args, level))
            .await;
    }
    if level.is_some() {
        return Err(format!(
            "ERR WEAK and STRONG are for modules whose stores are a space of level speculative, and '{name}' has others"
        ));
    }
    let limits = &shared.settings.limits;
    let args = arguments(&program, &program.transactions[index], args, limits)?;
    let own = Own::of_caller(local, Some(caller));
    let bindings = binding::bind(&module, &entry.binds, &own, &shared.stores)?;
    let id = TransactionId::new(System.random());
    let known = (shared.library.all(), shared.settings.limits);
    let coordinator = Coordinator::new((module, index), args, bindings, id, known, clock_ms());
    let coordinator = coordinator.map_err(|why| answer::failure(&why, &compiled.source))?;
    run(shared, local, own, coordinator, (&compiled, index), Started::Now).await
}

/// Resumes an incomplete transaction from its ticket.
pub(crate) async fn resume(
    shared: &Shared,
    local: &Local,
    caller: Caller,
    ticket: &str,
) -> Answered {
    let record = registry::ticket(&caller, ticket).await?;
    let record = Record::decode(&record).map_err(|error| format!("ERR {error}"))?;
    let own = |user: &std::sync::Arc<str>| local.user() == Some(&**user);
    let user = record.user(local.cluster());
    if local.is_guarded() && !local.may_coordinate() && !user.is_some_and(own) {
        return Err(
            "NOPERM the ticket is that of another user; a user with the right +solera.phase may resume it"
                .to_owned(),
        );
    }
    go_on(shared, local, caller, record, None).await
}

/// Resumes a transaction in the name of the users in its record.
pub(crate) async fn go_on(
    shared: &Shared,
    local: &Local,
    caller: Caller,
    record: Record,
    users: Option<Users>,
) -> Answered {
    let compiled = shared.library.get(&caller, record.module()).await?;
    let index = compiled.module.transaction(record.transaction());
    let index = index.ok_or_else(|| "ERR the ticket's transaction is unknown".to_owned())?;
    let limits = shared.settings.limits;
    let coordinator = Coordinator::resume(record, shared.library.all(), limits, clock_ms());
    let coordinator = coordinator.map_err(|error| format!("ERR {error}"))?;
    let own = Own::of_caller(local, Some(caller));
    run(shared, local, own, coordinator, (&compiled, index), Started::Before { caller: users })
        .await
}

fn clock_ms() -> u64 {
    executor::Clock::now_ms(&System)
}

/// Parses the arguments by the types of the parameters.
fn arguments(
    program: &Program,
    transaction: &Transaction,
    args: &[Vec<u8>],
    limits: &Limits,
) -> Result<Vec<Value>, String> {
    let params = &transaction.params;
    if args.len() != params.len() {
        let expected = params.iter().map(|(name, ty)| format!("{name}: {}", spell(program, ty)));
        let expected = expected.collect::<Vec<_>>().join(", ");
        return Err(format!(
            "BADARG '{}' takes {} argument{} ({expected}), not {}",
            transaction.name,
            params.len(),
            if params.len() == 1 { "" } else { "s" },
            args.len()
        ));
    }
    let codec = Codec::new(program);
    let read = (1..).zip(params).zip(args).map(|((number, (name, ty)), bytes)| {
        let bad = |why: &dyn Display| format!("BADARG argument {number} (`{name}`): {why}");
        let value = codec.argument(bytes, ty).map_err(|error| bad(&error))?;
        limits.check_argument(&value).map_err(|error| bad(&error))?;
        Ok(value)
    });
    read.collect()
}

/// Start of a transaction.
enum Started {
    Now,
    /// Begun by an earlier call. If an administrator completes the transaction in place of its
    /// `caller`, and it remains incomplete, it still belongs to the caller.
    Before {
        caller: Option<Users>,
    },
}

/// Runs a transaction to its end.
async fn run(
    shared: &Shared,
    local: &Local,
    own: Own,
    mut coordinator: Coordinator,
    (compiled, index): (&Compiled, usize),
    started: Started,
) -> Answered {
    let mut connections = connections(own, &shared.stores);
    let mut outcome = executor::run(&mut coordinator, &mut connections, &System).await;
    let resumed = matches!(started, Started::Before { .. });
    if let (Started::Before { caller: Some(caller) }, Outcome::Incomplete { ticket, .. }) =
        (started, &mut outcome)
    {
        *ticket = ticket.take().map(|record| Box::new(record.in_names_of(caller)));
    }
    let ticket = coordinator.id().to_string();
    let left = coordinator.garbage();
    let place = coordinator.phase().map(|phase| place(compiled, index, phase));
    let place = place.unwrap_or_default();
    shared.upkeep.add_garbage(left);
    coordinator.given_up().into_iter().for_each(|ticket| shared.upkeep.give_up(ticket));
    match outcome {
        Outcome::Done { result, .. } => {
            if resumed {
                // The ticket is no longer needed. If it remains, resuming it has no effect.
                let _ = forget(local, &ticket).await;
            }
            let program = compiled.module.program();
            let transaction = &program.transactions[index];
            Ok(answer::reply(program, &result, &transaction.result))
        }
        Outcome::Failed(Why::Denied { phase, database, reason }) => {
            let place = phase.map(|phase| self::place(compiled, index, phase)).unwrap_or_default();
            let text = match reason.starts_with("NOPERM ") {
                true => reason,
                false => format!("FAILED `{database}` denies it: {reason}"),
            };
            Err(format!("{text}{place}; nothing was changed"))
        }
        Outcome::Failed(why) => Err(answer::failure(&why, &compiled.source)),
        Outcome::Incomplete { ticket: Some(record), committed, why }
            if writes(compiled, index) == committed.len() =>
        {
            let text = "NORESULT all its writes have taken effect, but its result";
            if record.failed().is_some() {
                let _ = forget(local, &ticket).await;
                // The failure cannot be repaired. If only one group writes, there is also no record
                // to remove.
                if coordinator.plan().recorded {
                    shared.upkeep.add_garbage(recovery::forget(*record).into_iter().collect());
                }
                let why = answer::explain(&why, &compiled.source);
                return Err(format!("{text} cannot be returned: {why}"));
            }
            let then = match keep(local, &ticket, &record).await {
                Ok(()) => format!("; SOLERA.CALL RESUME {ticket} requests it again"),
                Err(_) => String::new(),
            };
            Err(format!("{text} is not known yet: {why}{place}{then}"))
        }
        Outcome::Incomplete { ticket: Some(record), why, .. } if record.failed().is_some() => {
            let _ = forget(local, &ticket).await;
            let why = answer::explain(&why, &compiled.source);
            Err(format!(
                "INCOMPLETE a part of it has taken effect, and the rest never can: {why}; SOLERA.CALL \
                 FORGET {ticket} gives it up after you have dealt with its effects"
            ))
        }
        Outcome::Incomplete { ticket: Some(ref record), .. } => {
            let kept = keep(local, &ticket, record).await;
            shared.upkeep.give_up((**record).clone());
            let then = who_completes(&ticket, kept.is_ok(), outcome.denied().is_some());
            Err(format!("INCOMPLETE {outcome}{place}; {then}"))
        }
        Outcome::Incomplete { why: Why::Completed, .. } => Err(format!("UNKNOWN {outcome}")),
        Outcome::Incomplete { ticket: None, .. } => Err(format!("UNKNOWN {outcome}{place}")),
    }
}

/// Describes how a transaction that committed in part will be completed.
fn who_completes(ticket: &str, kept: bool, denied: bool) -> String {
    match (kept, denied) {
        (true, true) => format!(
            "SOLERA.CALL RESUME {ticket} completes it, or Solera by itself, once that is permitted; \
             an administrator with the right +solera.phase completes it with rights of their own (SOLERA.CALL \
             COMPLETE), or gives it up (FORGET)"
        ),
        (true, false) => format!("SOLERA.CALL RESUME {ticket} completes it, or Solera by itself"),
        // The record is in the store if any part of it was written.
        (false, _) => "it is completed when its stores can be reached again".to_owned(),
    }
}

/// Formats the place of a phase in the source: the line of its first statement that uses a store.
pub(crate) fn place(compiled: &Compiled, index: usize, phase: usize) -> String {
    let transaction = &compiled.module.program().transactions[index];
    let code = &transaction.phases[phase].code;
    let asks = |instr: &Instr| matches!(instr, Instr::Remote { .. } | Instr::Custom { .. });
    let first = code.instructions.iter().position(asks).unwrap_or(0);
    let name = &transaction.name;
    match code.spans.get(first) {
        Some(span) => {
            let line = Position::of(&compiled.source, span.start).line;
            format!(" (in transaction `{name}`, in the phase from line {line} on)")
        }
        None => format!(" (in transaction `{name}`)"),
    }
}

/// Returns the number of phases of a transaction that write.
fn writes(compiled: &Compiled, index: usize) -> usize {
    let transaction = &compiled.module.program().transactions[index];
    transaction.phases.iter().filter(|phase| phase.mutates).count()
}

async fn keep(local: &Local, ticket: &str, record: &Record) -> Result<(), String> {
    let caller = local.call()?;
    registry::keep_ticket(&caller, ticket, &record.encode()).await
}

async fn forget(local: &Local, ticket: &str) -> Result<(), String> {
    let caller = local.call()?;
    registry::forget_ticket(&caller, ticket).await
}

#[cfg(test)]
mod tests {
    use solera_language::compile::compile;

    use super::*;

    #[test]
    fn a_phase_is_named_by_its_first_line() {
        let source = "store mail : causal; store audit : eventual;\n\
            transaction t(a: handle<counter> in mail, b: handle<counter> in audit) {\n\
              var n = 1;\n\
              a.add(n);\n\
              b.add(n); }";
        let compiled = crate::library::compile("m", source).unwrap();
        let line = |phase| place(&compiled, 0, phase);
        assert_eq!(line(0), " (in transaction `t`, in the phase from line 4 on)");
        assert_eq!(line(1), " (in transaction `t`, in the phase from line 5 on)");
    }

    #[test]
    fn arguments_that_no_program_can_use_are_rejected() {
        let source = "store mail : causal; \
             transaction put(r: handle<register<string>> in mail, x: string) { r.set(x); }";
        let program = compile(source).program.unwrap();
        let mut limits = Limits::default();
        limits.phase.value_bytes = 1_000;
        let read = |bytes: usize| {
            let args = [b"k".to_vec(), vec![b'x'; bytes]];
            arguments(&program, &program.transactions[0], &args, &limits)
        };
        assert!(read(984).is_ok());
        let why = "BADARG argument 2 (`x`): it takes 1001 bytes, and a value may take 1000 at most";
        assert_eq!(read(985), Err(why.to_owned()));
        let args = [b"k".to_vec(), b"a\xffb".to_vec()];
        let read = arguments(&program, &program.transactions[0], &args, &limits);
        let why =
            "BADARG argument 2 (`x`): expected string, found `a\u{fffd}b`, which is not UTF-8";
        assert_eq!(read, Err(why.to_owned()));
        for key in ["", "mail:"] {
            let args = [key.as_bytes().to_vec(), b"x".to_vec()];
            let read = arguments(&program, &program.transactions[0], &args, &limits);
            let why = "BADARG argument 1 (`r`): a handle's key must not be empty";
            assert_eq!(read, Err(why.to_owned()), "{key}");
        }
    }
}
