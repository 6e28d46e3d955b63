//! Compiled modules as registers.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_machine::codec;
use solera_program::ir::{Code, Program, VERSION};
use solera_program::value::Value;
use solera_program::verify::verify;

/// Beginning of the names of registers that hold modules. They are not keys of users.
const MODULES: &[u8] = b"\0solera:module:";

/// Returns whether a register is a key, and not a module. What lists or counts keys leaves the
/// others out.
pub fn is_key(register: &[u8]) -> bool {
    !register.starts_with(MODULES)
}

/// Returns the name of the register for a module. A build with another representation of programs
/// uses other registers, and sites install the module for it anew.
pub(crate) fn register_of(digest: &str) -> Vec<u8> {
    [MODULES, format!("{VERSION}:{digest}").as_bytes()].concat()
}

/// A compiled module with its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Module {
    source: Arc<str>,
    program: Arc<Program>,
}

/// Error of bytes or a program that are no module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidModule(String);

impl fmt::Display for InvalidModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidModule {}

impl Module {
    /// Creates a module that can be executed.
    ///
    /// # Errors
    /// If the program is malformed, or contains a NaN other than the one that programs compute.
    pub fn new(source: &str, program: Arc<Program>) -> Result<Module, InvalidModule> {
        let module = Module { source: source.into(), program };
        module.validate()?;
        Ok(module)
    }

    /// Decodes a module.
    ///
    /// # Errors
    /// If the bytes are not a module that [`new`](Self::new) accepts.
    pub fn decode(bytes: &[u8]) -> Result<Module, InvalidModule> {
        let module = match codec::take::<Module>(bytes) {
            Some((module, [])) => module,
            _ => return Err(InvalidModule("its encoding is damaged".to_owned())),
        };
        module.validate()?;
        Ok(module)
    }

    /// Encodes it as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        codec::append(self, &mut bytes);
        bytes
    }

    fn validate(&self) -> Result<(), InvalidModule> {
        verify(&self.program).map_err(|malformed| InvalidModule(malformed.to_string()))?;
        let functions = self.program.functions.iter().map(|function| &function.code);
        let phases = self.program.transactions.iter().flat_map(|transaction| &transaction.phases);
        let mut all = functions.chain(phases.map(|phase| &phase.code));
        match all.all(has_canonical_floats) {
            true => Ok(()),
            false => Err(InvalidModule("a constant is a NaN of another form".to_owned())),
        }
    }

    /// Returns the source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the compiled program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }
}

/// Returns whether every NaN among the constants is the one that programs compute. Otherwise sites
/// on different processors could compare values differently.
fn has_canonical_floats(code: &Code) -> bool {
    code.constants.iter().all(is_canonical)
}

fn is_canonical(value: &Value) -> bool {
    match value {
        Value::Float(number) => !number.is_nan() || number.to_bits() == f64::NAN.to_bits(),
        Value::Option(of) => of.as_deref().is_none_or(is_canonical),
        Value::List(of) | Value::Struct(of) => of.iter().all(is_canonical),
        Value::Set(of) => of.iter().all(is_canonical),
        Value::Map(of) => of.iter().all(|(key, of)| is_canonical(key) && is_canonical(of)),
        _ => true,
    }
}
