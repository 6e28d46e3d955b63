//! Execution of procedures.

use std::sync::Arc;
use std::time::Duration;

use solera_creek::{Access, Procedures};
use solera_data::{Op, Outcome, Value};

use crate::call::Call;
use crate::failure::CallError;
use crate::library::Library;
use crate::module::{InvalidModule, is_key, register_of};
use crate::procedure::{Procedure, Returned};
use crate::shown::Shown;
use crate::value::KeyValue;
use crate::{keys, transaction};

/// Time in which a command, and a transaction of a module, occupies a core in virtual time.
const COMMAND: Duration = Duration::from_micros(1);
const CALL: Duration = Duration::from_micros(50);

/// Executes the procedures of a speculative space. Registers have the names of keys, except those
/// that hold modules ([`is_key`](crate::is_key)).
#[derive(Clone, Debug, Default)]
pub struct SpaceProcedures {
    library: Library,
}

impl Procedures for SpaceProcedures {
    type Operation = Procedure;
    type Value = KeyValue;
    type Response = Returned;

    fn execute(&self, procedure: &Procedure, registers: &mut dyn Access<KeyValue>) -> Returned {
        match procedure {
            Procedure::Keys { expects, steps } => keys::execute(expects, steps, registers),
            Procedure::Install { digest, module } => {
                let installed = self.install(digest, module, registers);
                installed.map_or_else(Returned::Failed, |()| Returned::Installed)
            }
            Procedure::Call(call) => {
                let result = self.call(call, registers);
                result.map_or_else(Returned::Failed, Returned::Result)
            }
        }
    }

    fn is_read_only(&self, procedure: &Procedure) -> bool {
        procedure.is_read_only()
    }

    fn is_short(&self, procedure: &Procedure) -> bool {
        match procedure {
            Procedure::Keys { expects, steps } => expects.len() + steps.len() <= 1,
            Procedure::Install { .. } | Procedure::Call(_) => false,
        }
    }

    fn is_key(register: &[u8]) -> bool {
        is_key(register)
    }

    fn cost(&self, procedure: &Procedure) -> Duration {
        match procedure {
            Procedure::Keys { expects, steps } => COMMAND * (expects.len() + steps.len()) as u32,
            Procedure::Install { .. } | Procedure::Call(_) => CALL,
        }
    }
}

impl SpaceProcedures {
    fn install(
        &self,
        digest: &Arc<str>,
        module: &Value,
        registers: &mut dyn Access<KeyValue>,
    ) -> Result<(), CallError> {
        let register = register_of(digest);
        if registers.read(&register).is_some() {
            return Ok(());
        }
        self.library.decode(digest, module.clone()).map_err(damaged)?;
        registers.write(&register, Some(KeyValue::of_bytes(module.clone())));
        Ok(())
    }

    fn call(&self, call: &Call, registers: &mut dyn Access<KeyValue>) -> Result<Shown, CallError> {
        let stored = registers.read(&register_of(&call.digest));
        let Some(Ok(Outcome::Bulk(bytes))) = stored.map(|value| value.read(&Op::Get)) else {
            return Err(CallError::UnknownModule { digest: Arc::clone(&call.digest) });
        };
        let module = self.library.decode(&call.digest, bytes).map_err(damaged)?;
        transaction::execute(call, &module, registers)
    }
}

fn damaged(error: InvalidModule) -> CallError {
    CallError::Damaged { problem: error.to_string() }
}
