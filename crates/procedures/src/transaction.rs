//! Execution of transactions of modules.

use std::sync::Arc;

use solera_creek::Access;
use solera_program::codec::Codec;
use solera_program::ir::{Program, Transaction};
use solera_program::run::{Failure, FailureKind, Names, Refusal, Run, Step, Tapes, spell};
use solera_program::value::Value;

use crate::call::Call;
use crate::failure::{CallError, line};
use crate::module::Module;
use crate::objects::{Objects, Stop};
use crate::shown::Shown;
use crate::value::KeyValue;

/// Executes a call: all phases in order, as one operation. If it fails, it changes nothing.
pub(crate) fn execute(
    call: &Call,
    module: &Module,
    registers: &mut dyn Access<KeyValue>,
) -> Result<Shown, CallError> {
    let program = module.program();
    let found = program.transactions.iter().position(|found| found.name == call.transaction);
    let index = found
        .ok_or_else(|| CallError::UnknownTransaction { name: Arc::clone(&call.transaction) })?;
    let transaction = &program.transactions[index];
    let args = arguments(program, transaction, call)?;
    let mut objects = Objects::new(registers, &call.scope, program, call.limits.fuel);
    let (mut tapes, mut result) = (Tapes::new(), Value::Unit);
    for phase in 0..transaction.phases.len() {
        let run = Run::new(
            Arc::clone(program),
            index,
            phase,
            args.clone(),
            tapes.clone(),
            Names { prefix: Arc::clone(&call.names) },
            call.limits,
        );
        let mut run = run.map_err(|failure| CallError::of_program(failure, module.source()))?;
        let finished = follow(&mut run, &mut objects, call, module)?;
        tapes.extend(finished.tapes);
        result = finished.result.unwrap_or(result);
    }
    if call.read_only && objects.have_changed() {
        return Err(CallError::Writes { transaction: Arc::clone(&call.transaction) });
    }
    let shown = Shown::of(program, &result, &transaction.result);
    let shown = shown.map_err(|problem| CallError::Damaged { problem })?;
    objects.commit();
    Ok(shown)
}

/// Runs a phase to its end.
fn follow(
    run: &mut Run,
    objects: &mut Objects<'_>,
    call: &Call,
    module: &Module,
) -> Result<solera_program::run::Finished, CallError> {
    let of_program = |failure: Failure| CallError::of_program(failure, module.source());
    let mut step = run.start();
    loop {
        step = match step {
            Step::Finished(finished) => return Ok(finished),
            Step::Failed(failure) => return Err(of_program(failure)),
            Step::Custom(custom) => {
                let store = &module.program().stores[usize::from(custom.store.0)];
                let name = &store.operations[usize::from(custom.operation)].name;
                run.resume(Err(Refusal::Other(format!("it has no operation `{name}`"))))
            }
            Step::Remote(remote) => match objects.perform(&remote) {
                Ok(value) => run.resume(Ok(value)),
                Err(Stop::Refused(refusal)) => run.resume(Err(refusal)),
                Err(Stop::Fuel) => {
                    let kind = FailureKind::Fuel { limit: call.limits.fuel };
                    return Err(of_program(run.stopped(kind)));
                }
                Err(Stop::Denied(reason)) => {
                    let place = run.stopped(FailureKind::NothingThere).place;
                    let line = line(remote.span, module.source());
                    return Err(CallError::Denied { reason, place, line });
                }
            },
        };
    }
}

/// Decodes the arguments by the types of the parameters.
fn arguments(
    program: &Program,
    transaction: &Transaction,
    call: &Call,
) -> Result<Vec<Value>, CallError> {
    let params = &transaction.params;
    if call.arguments.len() != params.len() {
        let expected = params.iter().map(|(name, ty)| format!("{name}: {}", spell(program, ty)));
        return Err(CallError::ArgumentCount {
            transaction: Arc::clone(&transaction.name),
            expected: expected.collect::<Vec<_>>().join(", "),
            parameters: params.len(),
            found: call.arguments.len(),
        });
    }
    let codec = Codec::new(program);
    let decode = |((number, (name, ty)), bytes): ((usize, &(Arc<str>, _)), &solera_data::Value)| {
        let value = codec.argument(bytes, ty).map_err(|error| error.to_string());
        let checked = value.and_then(|value| call.limits.check_argument(&value).map(|()| value));
        checked.map_err(|problem| CallError::Argument { number, name: Arc::clone(name), problem })
    };
    (1..).zip(params).zip(&call.arguments).map(decode).collect()
}
