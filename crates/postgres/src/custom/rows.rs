//! Decodes the rows of a statement as an operation's result.

use std::collections::BTreeMap;
use std::sync::Arc;

use solera_program::ir::Program;
use solera_program::run::spell;
use solera_program::types::Type;
use solera_program::value::Value;
use tokio_postgres::{Column, Row};

use super::carrier::{Carrier, Raw, carrier, collected};
use super::declared::Problem;
use crate::failure::cause;
use crate::statement::Rows;

/// Encoding of a result in rows.
#[derive(Debug)]
pub(super) enum Answer {
    /// The result is empty.
    Nothing,
    /// The result is the number of changed rows.
    Count,
    /// The result is whether any row was changed.
    Any,
    /// One row is the result.
    One(Shape),
    /// One row is the result; no row, or NULL, is the empty option.
    Optional(Shape),
    /// The rows form a list or set.
    Rows(Shape, Type),
    /// The rows form a map of keys and values.
    Entries(Shape, Shape),
}

/// Encoding of a value in a row.
#[derive(Debug)]
pub(super) enum Shape {
    Column(ColumnEncoding),
    /// A struct, with one column for each field.
    Fields(Vec<ColumnEncoding>),
}

/// Encoding of a value in a column.
#[derive(Debug)]
pub(super) struct ColumnEncoding {
    column: usize,
    carrier: Carrier,
    ty: Type,
}

impl Answer {
    /// Returns the encoding of a result of a type in these columns.
    pub(super) fn of(program: &Program, ty: &Type, columns: &[Column]) -> Result<Answer, Problem> {
        let shape = |of: &Type| shape(program, ty, of, columns);
        match ty {
            Type::Unit => Ok(Answer::Nothing),
            Type::Int if columns.is_empty() => Ok(Answer::Count),
            Type::Bool if columns.is_empty() => Ok(Answer::Any),
            _ if columns.is_empty() => Err(Problem::NoColumns { declared: spell(program, ty) }),
            Type::Option(of) => Ok(Answer::Optional(shape(of)?)),
            Type::List(of) | Type::Set(of) => match shape(of) {
                Ok(one) => Ok(Answer::Rows(one, ty.clone())),
                // One row may contain all values as an array or JSON.
                Err(problem) => shape(ty).map(Answer::One).map_err(|_| problem),
            },
            Type::Map(key, of) => match columns {
                [first, second] => {
                    let key = place(program, 0, key, first)?;
                    let of = place(program, 1, of, second)?;
                    Ok(Answer::Entries(Shape::Column(key), Shape::Column(of)))
                }
                [_] => shape(ty).map(Answer::One),
                _ => Err(wrong_number(program, ty, 2, columns)),
            },
            ty => shape(ty).map(Answer::One),
        }
    }

    /// Decodes the result.
    pub(super) fn read(&self, program: &Program, answer: &Rows) -> Result<Value, String> {
        let rows = &answer.rows;
        let all = |shape: &'_ Shape| {
            rows.iter().map(|row| shape.read(program, row)).collect::<Vec<_>>().into_iter()
        };
        match (self, rows.as_slice()) {
            (Answer::Nothing, _) => Ok(Value::Unit),
            (Answer::Count, _) => {
                Ok(Value::Int(i64::try_from(answer.affected).unwrap_or(i64::MAX)))
            }
            (Answer::Any, _) => Ok(Value::Bool(answer.affected > 0)),
            (Answer::One(shape), [row]) => shape.read(program, row),
            (Answer::One(_), []) => {
                Err("it has found no row; if that is possible, declare its result as an option"
                    .to_owned())
            }
            (Answer::Optional(shape), [row]) if !shape.is_null(row)? => {
                shape.read(program, row).map(Value::some)
            }
            (Answer::Optional(_), [] | [_]) => Ok(Value::NONE),
            (Answer::One(_) | Answer::Optional(_), rows) => {
                Err(format!("it returns {} rows instead of one", rows.len()))
            }
            (Answer::Rows(shape, ty), _) => collected(ty, all(shape)),
            (Answer::Entries(key, of), _) => {
                let pairs = all(key).zip(all(of)).map(|(key, of)| Ok::<_, String>((key?, of?)));
                Ok(Value::Map(Arc::new(pairs.collect::<Result<BTreeMap<_, _>, _>>()?)))
            }
        }
    }
}

/// Returns the encoding of a value of type `ty` in a row, within a result of type `declared`.
fn shape(
    program: &Program,
    declared: &Type,
    ty: &Type,
    columns: &[Column],
) -> Result<Shape, Problem> {
    if let ([only], Type::Struct(_)) = (columns, ty)
        && let Ok(place) = place(program, 0, ty, only)
    {
        return Ok(Shape::Column(place));
    }
    if let Type::Struct(id) = ty {
        let fields = &program.structs[usize::from(id.0)].fields;
        let one = |(name, ty): &(Arc<str>, Type)| {
            let found = columns.iter().position(|column| *column.name() == **name);
            let at = found.ok_or_else(|| Problem::NoColumn {
                declared: spell(program, declared),
                field: name.to_string(),
            })?;
            place(program, at, ty, &columns[at])
        };
        let places = fields.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        if columns.len() != places.len() {
            return Err(wrong_number(program, declared, places.len(), columns));
        }
        return Ok(Shape::Fields(places));
    }
    match columns {
        [only] => place(program, 0, ty, only).map(Shape::Column),
        _ => Err(wrong_number(program, declared, 1, columns)),
    }
}

fn place(
    program: &Program,
    column: usize,
    ty: &Type,
    found: &Column,
) -> Result<ColumnEncoding, Problem> {
    let carrier = carrier(ty, found.type_()).ok_or_else(|| Problem::Column {
        name: found.name().to_owned(),
        declared: spell(program, ty),
        found: found.type_().name().to_owned(),
    })?;
    Ok(ColumnEncoding { column, carrier, ty: ty.clone() })
}

fn wrong_number(program: &Program, ty: &Type, needed: usize, columns: &[Column]) -> Problem {
    Problem::Columns { declared: spell(program, ty), needed, found: columns.len() }
}

impl Shape {
    fn read(&self, program: &Program, row: &Row) -> Result<Value, String> {
        match self {
            Shape::Column(place) => place.read(program, row),
            Shape::Fields(places) => {
                let fields = places.iter().map(|place| place.read(program, row));
                Ok(Value::Struct(Arc::new(fields.collect::<Result<_, _>>()?)))
            }
        }
    }

    /// Returns whether the value is one column that is NULL.
    fn is_null(&self, row: &Row) -> Result<bool, String> {
        match self {
            Shape::Column(place) => Ok(place.raw(row)?.0.is_none()),
            Shape::Fields(_) => Ok(false),
        }
    }
}

impl ColumnEncoding {
    fn raw(&self, row: &Row) -> Result<Raw, String> {
        row.try_get(self.column).map_err(|error| cause(&error))
    }

    fn read(&self, program: &Program, row: &Row) -> Result<Value, String> {
        let column = row.columns().get(self.column);
        let column = column.ok_or_else(|| "a column is missing".to_owned())?;
        let raw = self.raw(row)?;
        let read = self.carrier.decode(program, raw.0.as_deref(), &self.ty, column.type_());
        read.map_err(|why| format!("the column `{}`: {why}", column.name()))
    }
}
