//! Decodes JSON to values of known types.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use data_encoding::HEXLOWER_PERMISSIVE;

use super::{Codec, CodecError, Form, excerpt};
use crate::nesting::MAX_NESTING;
use crate::run::arithmetic::float;
use crate::run::spell;
use crate::types::{StructId, Type};
use crate::value::Value;

pub(super) struct Reader<'a> {
    codec: &'a Codec<'a>,
    text: &'a str,
    form: Form,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(codec: &'a Codec<'a>, text: &'a str, form: Form) -> Reader<'a> {
        Reader { codec, text, form, at: 0 }
    }

    /// Decodes a value; fails if anything follows it.
    pub(super) fn whole(mut self, ty: &Type) -> Result<Value, CodecError> {
        let value = self.value(ty, 0)?;
        if self.peek().is_some() {
            return Err(self.unexpected("the end of the value"));
        }
        Ok(value)
    }

    fn value(&mut self, ty: &Type, level: u8) -> Result<Value, CodecError> {
        if level > MAX_NESTING {
            return Err(CodecError::TooDeep);
        }
        match ty {
            Type::Unit => self.word("null", ty).map(|()| Value::Unit),
            Type::Bool if self.peek() == Some(b't') => {
                self.word("true", ty).map(|()| Value::Bool(true))
            }
            Type::Bool => self.word("false", ty).map(|()| Value::Bool(false)),
            Type::Int => self.number(ty, |text| text.parse().ok().map(Value::Int)),
            Type::Float => self.float(ty),
            Type::String => self.string(ty).map(Value::string),
            Type::Bytes => self.bytes(ty),
            Type::Handle(_, store) => {
                let text = self.string(ty)?;
                self.codec.handle(&text, *store, self.form)
            }
            Type::Option(_) if self.peek() == Some(b'n') => {
                self.word("null", ty).map(|()| Value::NONE)
            }
            Type::Option(of) => {
                self.open(b'[', ty)?;
                let value = self.value(of, level + 1)?;
                self.expect("]", ty)?;
                Ok(Value::some(value))
            }
            Type::List(of) => self.list(ty, of, level),
            Type::Set(of) => self.set(ty, of, level),
            Type::Map(key, of) => self.map(ty, (key, of), level),
            Type::Struct(id) => self.object(ty, *id, level),
            Type::Unknown => Err(self.unexpected(&spell(self.codec.program, ty))),
        }
    }

    fn list(&mut self, ty: &Type, of: &Type, level: u8) -> Result<Value, CodecError> {
        let mut values = Vec::new();
        self.items((b'[', b']'), ty, |reader| {
            values.push(reader.value(of, level + 1)?);
            Ok(())
        })?;
        Ok(Value::List(Arc::new(values)))
    }

    fn set(&mut self, ty: &Type, of: &Type, level: u8) -> Result<Value, CodecError> {
        let mut values = BTreeSet::new();
        self.items((b'[', b']'), ty, |reader| {
            reader.space();
            let at = reader.at;
            if values.insert(reader.value(of, level + 1)?) {
                return Ok(());
            }
            Err(reader.repeated("element", at..reader.at))
        })?;
        Ok(Value::Set(Arc::new(values)))
    }

    fn map(
        &mut self,
        ty: &Type,
        (key, of): (&Type, &Type),
        level: u8,
    ) -> Result<Value, CodecError> {
        let mut entries = BTreeMap::new();
        let is_object = self.takes_object(key) && self.peek() == Some(b'{');
        let brackets = if is_object { (b'{', b'}') } else { (b'[', b']') };
        self.items(brackets, ty, |reader| {
            reader.space();
            let mut at = reader.at;
            let after_key;
            let (key, value) = if is_object {
                let key = Value::string(reader.name("key", ty)?);
                after_key = reader.at;
                reader.expect(":", ty)?;
                (key, reader.value(of, level + 1)?)
            } else {
                if reader.peek() != Some(b'[') {
                    let expected = spell(reader.codec.program, ty);
                    return Err(reader.unexpected(&format!("a pair `[key, value]` of {expected}")));
                }
                reader.at += 1;
                reader.space();
                at = reader.at;
                let key = reader.value(key, level + 1)?;
                after_key = reader.at;
                reader.expect(",", ty)?;
                let value = reader.value(of, level + 1)?;
                reader.expect("]", ty)?;
                (key, value)
            };
            if entries.insert(key, value).is_none() {
                return Ok(());
            }
            Err(reader.repeated("key", at..after_key))
        })?;
        Ok(Value::Map(Arc::new(entries)))
    }

    fn object(&mut self, ty: &Type, id: StructId, level: u8) -> Result<Value, CodecError> {
        let fields = &self.codec.program.structs[usize::from(id.0)].fields;
        let mut values: Vec<Option<Value>> = vec![None; fields.len()];
        self.space();
        let start = self.at;
        self.items((b'{', b'}'), ty, |reader| {
            reader.space();
            let at = reader.at;
            let name = reader.name("field", ty)?;
            let Some(index) = fields.iter().position(|(field, _)| **field == *name) else {
                let shown = spell(reader.codec.program, ty);
                let quoted = excerpt(&reader.text.as_bytes()[at..reader.at]);
                let problem = format!("{shown} has no field {quoted}");
                return Err(CodecError::Invalid { problem, offset: at });
            };
            if values[index].is_some() {
                return Err(reader.repeated("field", at..reader.at));
            }
            reader.expect(":", ty)?;
            values[index] = Some(reader.value(&fields[index].1, level + 1)?);
            Ok(())
        })?;
        let mut all = Vec::with_capacity(fields.len());
        for ((name, _), value) in fields.iter().zip(values) {
            all.push(value.ok_or_else(|| CodecError::Invalid {
                problem: format!(
                    "the field `{name}` of {} is missing",
                    spell(self.codec.program, ty)
                ),
                offset: start,
            })?);
        }
        Ok(Value::Struct(Arc::new(all)))
    }

    /// Reads items separated by commas, up to the closing bracket.
    fn items(
        &mut self,
        (open, close): (u8, u8),
        ty: &Type,
        mut each: impl FnMut(&mut Self) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        self.open(open, ty)?;
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(());
        }
        loop {
            each(self)?;
            if self.peek() == Some(close) {
                self.at += 1;
                return Ok(());
            }
            if self.peek() != Some(b',') {
                let (close, shown) = (char::from(close), spell(self.codec.program, ty));
                return Err(self.unexpected(&format!("`,` or `{close}` in {shown}")));
            }
            self.at += 1;
        }
    }

    fn float(&mut self, ty: &Type) -> Result<Value, CodecError> {
        if self.peek() != Some(b'"') {
            return self
                .number(ty, |text| text.parse().ok().filter(|n: &f64| n.is_finite()).map(float));
        }
        let at = self.at;
        let text = self.string(ty)?;
        match text.as_str() {
            "NaN" => Ok(Value::Float(f64::NAN)),
            "inf" => Ok(Value::Float(f64::INFINITY)),
            "-inf" => Ok(Value::Float(f64::NEG_INFINITY)),
            _ => Err(self.instead_of("float", at)),
        }
    }

    fn number(
        &mut self,
        ty: &Type,
        parse: impl FnOnce(&str) -> Option<Value>,
    ) -> Result<Value, CodecError> {
        self.space();
        let rest = &self.text[self.at..];
        let belongs = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        let value =
            parse(&rest[..end]).ok_or_else(|| self.unexpected(&spell(self.codec.program, ty)))?;
        self.at += end;
        Ok(value)
    }

    fn bytes(&mut self, ty: &Type) -> Result<Value, CodecError> {
        let at = self.at;
        let text = self.string(ty)?;
        match HEXLOWER_PERMISSIVE.decode(text.as_bytes()) {
            Ok(bytes) => Ok(Value::Bytes(bytes.into())),
            Err(_) => Err(self.instead_of("bytes as pairs of hexadecimal digits", at)),
        }
    }

    /// Decodes the name of a field, or a key of an object.
    fn name(&mut self, what: &str, ty: &Type) -> Result<String, CodecError> {
        if self.peek() != Some(b'"') {
            let shown = spell(self.codec.program, ty);
            return Err(self.unexpected(&format!("a {what} of {shown} in double quotes")));
        }
        self.string(ty)
    }

    fn string(&mut self, ty: &Type) -> Result<String, CodecError> {
        if self.peek() != Some(b'"') {
            let shown = spell(self.codec.program, ty);
            return Err(self.unexpected(&format!("{shown} in double quotes")));
        }
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = rest.find(['"', '\\']) else {
                self.at = self.text.len();
                return Err(self.unexpected("`\"` at the end of a string"));
            };
            out.push_str(&rest[..end]);
            self.at += end + 1;
            if rest.as_bytes()[end] == b'"' {
                return Ok(out);
            }
            out.push(self.escape()?);
        }
    }

    /// Decodes the escape after a backslash.
    fn escape(&mut self) -> Result<char, CodecError> {
        let found = self.text.as_bytes().get(self.at).copied();
        let plain = match found {
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.unexpected("an escape of JSON")),
        };
        self.at += 1;
        Ok(plain)
    }

    /// Decodes four hexadecimal digits, or twice four for a UTF-16 surrogate pair.
    fn unicode(&mut self) -> Result<char, CodecError> {
        let first = self.unit()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first).ok_or_else(|| self.unexpected("a character"));
        }
        if !self.text[self.at..].starts_with("\\u") {
            return Err(self.unexpected("the second half of a character"));
        }
        self.at += 2;
        let second = self.unit()?;
        let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400);
        low.and_then(|low| char::from_u32(0x10000 + ((first - 0xd800) << 10) + low))
            .ok_or_else(|| self.unexpected("the second half of a character"))
    }

    fn unit(&mut self) -> Result<u32, CodecError> {
        let digits = self.text.get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.bytes().all(|c| c.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.unexpected("four hexadecimal digits"))?;
        self.at += 4;
        Ok(unit)
    }

    fn word(&mut self, word: &str, ty: &Type) -> Result<(), CodecError> {
        self.space();
        if !self.text[self.at..].starts_with(word) {
            return Err(self.unexpected(&spell(self.codec.program, ty)));
        }
        self.at += word.len();
        Ok(())
    }

    fn expect(&mut self, sign: &str, ty: &Type) -> Result<(), CodecError> {
        if self.peek() != sign.bytes().next() {
            let shown = spell(self.codec.program, ty);
            return Err(self.unexpected(&format!("`{sign}` in {shown}")));
        }
        self.at += sign.len();
        Ok(())
    }

    /// Reads the bracket that begins a value. If there is another byte, the error describes the
    /// forms of the type.
    fn open(&mut self, bracket: u8, ty: &Type) -> Result<(), CodecError> {
        let found = self.peek();
        if found == Some(bracket) {
            self.at += 1;
            return Ok(());
        }
        let pairs = "an array of pairs (`[[key, value], …]`)";
        let forms = match ty {
            Type::Option(_) => "`null` or an array of one value (`[value]`)".to_owned(),
            Type::Struct(_) => "a JSON object (`{…}`)".to_owned(),
            Type::Map(key, _) if self.takes_object(key) => {
                format!("a JSON object (`{{…}}`) or {pairs}")
            }
            Type::Map(key, _) if found == Some(b'{') && **key != Type::String => {
                format!("{pairs}, because an object has only strings as keys")
            }
            Type::Map(..) => pairs.to_owned(),
            _ => "a JSON array (`[…]`)".to_owned(),
        };
        Err(self.unexpected(&format!("{} as {forms}", spell(self.codec.program, ty))))
    }

    /// Returns whether an object is accepted for a map with such keys. Stores keep one form only,
    /// the array of pairs.
    fn takes_object(&self, key: &Type) -> bool {
        *key == Type::String && self.form == Form::Call
    }

    /// Returns the error for an element, a key or a field that occurs twice, at this range.
    fn repeated(&self, what: &str, range: Range<usize>) -> CodecError {
        let offset = range.start;
        let found = excerpt(&self.text.as_bytes()[range]);
        CodecError::Invalid { problem: format!("the {what} {found} is repeated"), offset }
    }

    /// Returns the next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        self.at += rest.iter().take_while(blank).count();
    }

    fn unexpected(&self, expected: &str) -> CodecError {
        self.instead_of(expected, self.at)
    }

    fn instead_of(&self, expected: &str, at: usize) -> CodecError {
        CodecError::Unexpected {
            expected: expected.to_owned(),
            found: match &self.text.as_bytes()[at..] {
                [] if at > 0 => "the end of the text".to_owned(),
                rest => excerpt(rest),
            },
            offset: at,
        }
    }
}
