//! Custom operations: checks statements against the declarations, encodes parameters, and decodes
//! rows.
//!
//! | declared | in SQL |
//! |---|---|
//! | `int` | `int2`, `int4`, `int8` |
//! | `float` | `float4`, `float8` |
//! | `bool` | `bool` |
//! | `string`, a handle's key | `text`, `varchar`, `char(n)`, `name`, an enum |
//! | `bytes` | `bytea` |
//! | `option<T>` | as `T`; none is NULL |
//! | `list<T>`, `set<T>` of these | an array, or `json`, `jsonb` |
//! | other types | `json`, `jsonb`, as [`Codec`](solera_program::codec::Codec) writes them |
//!
//! A domain counts as its base type. The result of a statement is one of these: nothing, whatever
//! the rows; one row of one column, or of the columns of a struct; no row or one row for an option;
//! rows for a list, a set or a map. A statement without columns returns an `int`, the number of
//! rows that it has changed, or a `bool`, whether it has changed any.

mod carrier;
mod declared;
mod held;
mod rows;

use solera_mixt::store::StoreError;
use solera_program::ir::{Operation, OperationParam, Program};
use solera_program::run::spell;
use solera_program::value::Value;
use tokio_postgres::Statement;

pub(crate) use self::carrier::Param;
use self::carrier::{Carrier, carrier};
pub(crate) use self::declared::statement_kind;
use self::declared::writing_word;
pub use self::declared::{CheckError, Problem};
pub(crate) use self::held::held;
use self::held::value_type;
use self::rows::Answer;
use crate::statement::Rows;

/// Encodings of the parameters and of the result of a call.
#[derive(Debug)]
pub(crate) struct Plan {
    params: Vec<Carrier>,
    answer: Answer,
}

/// The statement that a space has for an operation.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    statement: Result<Statement, StoreError>,
    /// The word with which the statement begins, if it can only write.
    writes: Option<String>,
}

impl Bound {
    /// Creates the entry of a statement, which the server has prepared or refused.
    pub(crate) fn new(sql: &str, statement: Result<Statement, StoreError>) -> Bound {
        Bound { statement, writes: writing_word(sql) }
    }
}

/// Checks a statement against the declaration of an operation, and returns how to call it.
pub(crate) fn check(
    program: &Program,
    operation: &Operation,
    bound: Option<&Bound>,
) -> Result<(Plan, Statement), Problem> {
    let bound = bound.ok_or(Problem::NotBound)?;
    let statement = bound.statement.as_ref();
    let statement = statement.map_err(|error| Problem::Unprepared(error.clone()))?;
    if let Some(word) = bound.writes.as_ref().filter(|_| !operation.mutates) {
        return Err(Problem::Writes { word: word.clone() });
    }
    let (declared, taken) = (operation.params.len(), statement.params().len());
    if declared != taken {
        return Err(Problem::Params { declared, taken });
    }
    let params = operation.params.iter().zip(statement.params()).map(|(param, taken)| {
        let ty = value_type(param);
        let found = ty.as_ref().and_then(|ty| carrier(ty, taken));
        found.ok_or_else(|| Problem::Param {
            name: param.name.to_string(),
            declared: spell(program, ty.as_deref().unwrap_or(&param.ty)),
            taken: taken.name().to_owned(),
        })
    });
    let params = params.collect::<Result<_, _>>()?;
    let answer = Answer::of(program, &operation.result, statement.columns())?;
    Ok((Plan { params, answer }, statement.clone()))
}

impl Plan {
    /// Encodes the arguments as parameters.
    pub(crate) fn encode(
        &self,
        program: &Program,
        operation: &Operation,
        args: &[Value],
    ) -> Result<Vec<Param>, StoreError> {
        let all = operation.params.iter().zip(args).zip(&self.params);
        let one = |((param, arg), carrier): ((&OperationParam, _), &Carrier)| {
            let ty = value_type(param).expect("the check rejects other parameters");
            carrier.encode(program, arg, &ty).map_err(|why| {
                let (operation, param) = (&operation.name, &param.name);
                StoreError::Refused(format!("`{param}` of the operation `{operation}`: {why}"))
            })
        };
        all.map(one).collect()
    }

    /// Decodes the rows.
    pub(crate) fn decode(&self, program: &Program, answer: &Rows) -> Result<Value, String> {
        self.answer.read(program, answer)
    }
}
