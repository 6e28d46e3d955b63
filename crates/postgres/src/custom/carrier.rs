//! Encoding of the language's values as SQL values, in PostgreSQL's binary format.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;

use bytes::BytesMut;
use solera_program::codec::Codec;
use solera_program::ir::Program;
use solera_program::types::Type;
use solera_program::value::{Handle, Value};
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type as SqlType};

/// SQL encoding of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Bool,
    Text,
    Bytes,
    Json,
    Jsonb,
    Array(Box<Carrier>),
}

/// Returns the encoding of a type's values in an SQL type, if there is one.
pub(crate) fn carrier(ty: &Type, sql: &SqlType) -> Option<Carrier> {
    if let Kind::Domain(of) = sql.kind() {
        return carrier(ty, of);
    }
    match ty {
        // NULL cannot distinguish an empty option from one that holds an empty option.
        Type::Option(of) if !matches!(**of, Type::Option(_)) => return carrier(of, sql),
        Type::Int if *sql == SqlType::INT2 => return Some(Carrier::Int2),
        Type::Int if *sql == SqlType::INT4 => return Some(Carrier::Int4),
        Type::Int if *sql == SqlType::INT8 => return Some(Carrier::Int8),
        Type::Float if *sql == SqlType::FLOAT4 => return Some(Carrier::Float4),
        Type::Float if *sql == SqlType::FLOAT8 => return Some(Carrier::Float8),
        Type::Bool if *sql == SqlType::BOOL => return Some(Carrier::Bool),
        Type::Bytes if *sql == SqlType::BYTEA => return Some(Carrier::Bytes),
        Type::String | Type::Handle(..) => {
            let texts = [SqlType::TEXT, SqlType::VARCHAR, SqlType::BPCHAR, SqlType::NAME];
            let is_text = texts.contains(sql) || matches!(sql.kind(), Kind::Enum(_));
            return is_text.then_some(Carrier::Text);
        }
        Type::List(of) | Type::Set(of) => {
            if let Kind::Array(member) = sql.kind() {
                let of = carrier(of, member)?;
                // SQL has no arrays of arrays, but arrays of two dimensions.
                return (!matches!(of, Carrier::Array(_))).then(|| Carrier::Array(Box::new(of)));
            }
        }
        Type::Map(..) | Type::Struct(_) | Type::Option(_) => {}
        _ => return None,
    }
    match *sql {
        SqlType::JSON => Some(Carrier::Json),
        SqlType::JSONB => Some(Carrier::Jsonb),
        _ => None,
    }
}

/// Version of PostgreSQL's binary format of `jsonb`.
const JSONB_VERSION: u8 = 1;

impl Carrier {
    /// Encodes a value of the type as a parameter.
    pub(crate) fn encode(
        &self,
        program: &Program,
        value: &Value,
        ty: &Type,
    ) -> Result<Param, String> {
        if let (Carrier::Array(of), Type::List(ty) | Type::Set(ty)) = (self, ty) {
            let values: Vec<&Value> = match value {
                Value::List(values) => values.iter().collect(),
                Value::Set(values) => values.iter().collect(),
                other => return Err(format!("{} is no list", other.kind())),
            };
            let one = |value: &&Value| of.bytes(program, value, ty).map(Raw);
            return Ok(Param::Array(values.iter().map(one).collect::<Result<_, _>>()?));
        }
        if let (Carrier::Array(_), Type::Option(of), Value::Option(held)) = (self, ty, value) {
            return match held {
                Some(held) => self.encode(program, held, of),
                None => Ok(Param::One(Raw(None))),
            };
        }
        self.bytes(program, value, ty).map(|bytes| Param::One(Raw(bytes)))
    }

    /// Encodes a value; `None` for NULL.
    fn bytes(
        &self,
        program: &Program,
        value: &Value,
        ty: &Type,
    ) -> Result<Option<Vec<u8>>, String> {
        let too_large = || format!("{} does not fit the parameter's type", describe(value));
        let bytes = match (self, value) {
            (_, Value::Option(None)) => return Ok(None),
            (_, Value::Option(Some(held))) => match ty {
                Type::Option(of) => return self.bytes(program, held, of),
                _ => return Err("an option was not expected".to_owned()),
            },
            (Carrier::Int2, Value::Int(number)) => {
                i16::try_from(*number).map_err(|_| too_large())?.to_be_bytes().to_vec()
            }
            (Carrier::Int4, Value::Int(number)) => {
                i32::try_from(*number).map_err(|_| too_large())?.to_be_bytes().to_vec()
            }
            (Carrier::Int8, Value::Int(number)) => number.to_be_bytes().to_vec(),
            (Carrier::Float4, Value::Float(number)) => {
                let narrow = *number as f32;
                if !number.is_nan() && f64::from(narrow).to_bits() != number.to_bits() {
                    return Err(too_large());
                }
                narrow.to_be_bytes().to_vec()
            }
            (Carrier::Float8, Value::Float(number)) => number.to_be_bytes().to_vec(),
            (Carrier::Bool, Value::Bool(truth)) => vec![u8::from(*truth)],
            (Carrier::Bytes, Value::Bytes(bytes)) => bytes.to_vec(),
            (Carrier::Text, Value::String(text) | Value::Handle(Handle { key: text, .. })) => {
                if text.contains('\0') {
                    return Err("PostgreSQL cannot store a text with a zero byte".to_owned());
                }
                text.as_bytes().to_vec()
            }
            (Carrier::Json | Carrier::Jsonb, value) => {
                let json = Codec::new(program).encode(value, ty);
                let mut json = json.map_err(|error| error.to_string())?;
                if *self == Carrier::Jsonb {
                    json.insert(0, JSONB_VERSION);
                }
                json
            }
            (_, other) => return Err(format!("{} was not expected", other.kind())),
        };
        Ok(Some(bytes))
    }

    /// Decodes a value of the type.
    pub(crate) fn decode(
        &self,
        program: &Program,
        bytes: Option<&[u8]>,
        ty: &Type,
        sql: &SqlType,
    ) -> Result<Value, String> {
        if let Type::Option(of) = ty
            && !matches!(**of, Type::Option(_))
        {
            return match bytes {
                Some(_) => self.decode(program, bytes, of, sql).map(Value::some),
                None => Ok(Value::NONE),
            };
        }
        let bytes = bytes.ok_or("it is NULL, but its type is not an option")?;
        let codec = Codec::new(program);
        let read = |bytes| codec.decode(bytes, ty).map_err(|error| error.to_string());
        let number = |number: f64| {
            let text = number.to_string();
            codec.decode(text.as_bytes(), &Type::Float).map_err(|error| error.to_string())
        };
        match self {
            Carrier::Int2 => Ok(Value::Int(fixed(bytes).map(i16::from_be_bytes)?.into())),
            Carrier::Int4 => Ok(Value::Int(fixed(bytes).map(i32::from_be_bytes)?.into())),
            Carrier::Int8 => Ok(Value::Int(fixed(bytes).map(i64::from_be_bytes)?)),
            Carrier::Float4 => number(fixed(bytes).map(f32::from_be_bytes)?.into()),
            Carrier::Float8 => number(fixed(bytes).map(f64::from_be_bytes)?),
            Carrier::Bool => Ok(Value::Bool(fixed::<1>(bytes)? != [0])),
            Carrier::Text | Carrier::Bytes | Carrier::Json => read(bytes),
            Carrier::Jsonb => match bytes.split_first() {
                Some((&JSONB_VERSION, json)) => read(json),
                _ => Err("its format of jsonb is not known".to_owned()),
            },
            Carrier::Array(of) => of.elements(program, bytes, ty, sql),
        }
    }

    fn elements(
        &self,
        program: &Program,
        bytes: &[u8],
        ty: &Type,
        sql: &SqlType,
    ) -> Result<Value, String> {
        let sql = base(sql);
        let (Kind::Array(member), Type::List(of) | Type::Set(of)) = (sql.kind(), ty) else {
            return Err("an array was not expected".to_owned());
        };
        let found = Vec::<Raw>::from_sql(sql, bytes).map_err(|error| error.to_string())?;
        let values = found.iter().map(|raw| self.decode(program, raw.0.as_deref(), of, member));
        collected(ty, values)
    }
}

/// Collects values as a list or set of a type.
pub(super) fn collected(
    ty: &Type,
    values: impl Iterator<Item = Result<Value, String>>,
) -> Result<Value, String> {
    match ty {
        Type::Set(_) => Ok(Value::Set(Arc::new(values.collect::<Result<BTreeSet<_>, _>>()?))),
        _ => Ok(Value::List(Arc::new(values.collect::<Result<Vec<_>, _>>()?))),
    }
}

fn base(sql: &SqlType) -> &SqlType {
    match sql.kind() {
        Kind::Domain(of) => base(of),
        _ => sql,
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], String> {
    bytes.try_into().map_err(|_| format!("it has {} bytes instead of {N}", bytes.len()))
}

fn describe(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        other => other.kind().to_owned(),
    }
}

/// An encoded parameter.
#[derive(Debug)]
pub(crate) enum Param {
    One(Raw),
    Array(Vec<Raw>),
}

/// A value in the binary format; `None` for NULL.
#[derive(Debug)]
pub(crate) struct Raw(pub(crate) Option<Vec<u8>>);

type BoxError = Box<dyn Error + Sync + Send>;

impl ToSql for Param {
    fn to_sql(&self, ty: &SqlType, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        match self {
            Param::One(raw) => raw.to_sql(ty, out),
            Param::Array(raws) => raws.to_sql(base(ty), out),
        }
    }

    /// Returns `true`, because the type was checked before.
    fn accepts(_: &SqlType) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

impl ToSql for Raw {
    fn to_sql(&self, _: &SqlType, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        match &self.0 {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &SqlType) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &SqlType, raw: &'a [u8]) -> Result<Raw, BoxError> {
        Ok(Raw(Some(raw.to_vec())))
    }

    fn from_sql_null(_: &SqlType) -> Result<Raw, BoxError> {
        Ok(Raw(None))
    }

    fn accepts(_: &SqlType) -> bool {
        true
    }
}
