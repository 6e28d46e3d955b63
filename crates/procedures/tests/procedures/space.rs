//! A space that executes procedures one after another.

use std::sync::Arc;

use solera_creek::Procedures;
use solera_data::{Fingerprint, Key, Op, Value as Bytes};
use solera_language::compile::compile;
use solera_procedures::{
    Call, CallError, KeyResult, Module, Procedure, Returned, Right, Scope, Shown, SpaceProcedures,
};
use solera_program::run::Limits;

use crate::registers::Registers;

/// Prefix of the keys of the space.
pub(crate) const PREFIX: &str = "shop:";

pub(crate) fn digest(source: &str) -> Arc<str> {
    let mut digest = Fingerprint::default();
    digest.add(source.as_bytes());
    format!("{:016x}", digest.finish()).into()
}

pub(crate) fn module(source: &str) -> Module {
    let compiled = compile(source);
    let program = compiled.program.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
    Module::new(source, Arc::new(program)).unwrap()
}

/// Returns the procedure that installs a source.
pub(crate) fn install(source: &str) -> Procedure {
    Procedure::Install { digest: digest(source), module: module(source).encode().into() }
}

/// Returns a call with all rights.
pub(crate) fn call(source: &str, transaction: &str, arguments: &[&str]) -> Call {
    Call {
        module: "m".into(),
        digest: digest(source),
        transaction: transaction.into(),
        arguments: arguments.iter().map(|text| Bytes::from(*text)).collect(),
        read_only: false,
        names: "tx".into(),
        limits: Limits::default(),
        scope: Scope {
            prefix: PREFIX.into(),
            except: vec!["shop:other:".into()],
            rights: vec![Right::everything()],
        },
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    pub(crate) registers: Registers,
    procedures: SpaceProcedures,
}

impl Space {
    /// Creates a space in which a module is installed.
    pub(crate) fn with(source: &str) -> Space {
        let mut space = Space::default();
        assert_eq!(space.execute(&install(source)), Returned::Installed);
        space
    }

    pub(crate) fn execute(&mut self, procedure: &Procedure) -> Returned {
        self.procedures.execute(procedure, &mut self.registers)
    }

    /// Executes a call, which must change nothing if it fails.
    pub(crate) fn call(&mut self, call: Call) -> Result<Shown, CallError> {
        let before = self.registers.clone();
        let procedure = Procedure::Call(Box::new(call));
        match self.execute(&procedure) {
            Returned::Result(shown) => Ok(shown),
            Returned::Failed(error) => {
                assert_eq!(self.registers, before, "{error}");
                Err(error)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Executes a call that must succeed.
    pub(crate) fn run(&mut self, source: &str, transaction: &str, arguments: &[&str]) -> Shown {
        self.call(call(source, transaction, arguments)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Executes an operation on a key of the space.
    pub(crate) fn on_key(&mut self, key: &str, op: Op) -> KeyResult {
        let key = Key::from(format!("{PREFIX}{key}").as_str());
        match self.execute(&Procedure::of_steps(vec![(key, op)])) {
            Returned::Outcomes(mut outcomes) => outcomes.remove(0),
            other => panic!("{other:?}"),
        }
    }
}
