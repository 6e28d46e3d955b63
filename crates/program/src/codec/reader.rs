//! Decodes JSON to values of known types.

use std::collections::{BTreeMap, BTreeSet};
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
            return Err(self.unexpected("the end"));
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
                self.expect(b'[', ty)?;
                let value = self.value(of, level + 1)?;
                self.expect(b']', ty)?;
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
            let at = reader.at;
            if values.insert(reader.value(of, level + 1)?) {
                return Ok(());
            }
            Err(reader.instead_of("an element that was not there before", at))
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
        // An object is natural for people. Stores keep one form only, the array of pairs.
        let is_object =
            *key == Type::String && self.form == Form::Call && self.peek() == Some(b'{');
        let brackets = if is_object { (b'{', b'}') } else { (b'[', b']') };
        self.items(brackets, ty, |reader| {
            reader.space();
            let at = reader.at;
            let (key, value) = if is_object {
                let key = Value::string(reader.string(ty)?);
                reader.expect(b':', ty)?;
                (key, reader.value(of, level + 1)?)
            } else {
                reader.expect(b'[', ty)?;
                let key = reader.value(key, level + 1)?;
                reader.expect(b',', ty)?;
                let value = reader.value(of, level + 1)?;
                reader.expect(b']', ty)?;
                (key, value)
            };
            if entries.insert(key, value).is_none() {
                return Ok(());
            }
            Err(reader.instead_of("a key that was not there before", at))
        })?;
        Ok(Value::Map(Arc::new(entries)))
    }

    fn object(&mut self, ty: &Type, id: StructId, level: u8) -> Result<Value, CodecError> {
        let fields = &self.codec.program.structs[usize::from(id.0)].fields;
        let mut values: Vec<Option<Value>> = vec![None; fields.len()];
        self.items((b'{', b'}'), ty, |reader| {
            reader.space();
            let at = reader.at;
            let name = reader.string(ty)?;
            let found = fields.iter().position(|(field, _)| **field == *name);
            let free = found.filter(|index| values[*index].is_none());
            let Some(index) = free else {
                let expected = spell(reader.codec.program, ty);
                return Err(reader.instead_of(&format!("a field of {expected}, each once"), at));
            };
            reader.expect(b':', ty)?;
            values[index] = Some(reader.value(&fields[index].1, level + 1)?);
            Ok(())
        })?;
        let mut all = Vec::with_capacity(fields.len());
        for ((name, _), value) in fields.iter().zip(values) {
            all.push(value.ok_or_else(|| CodecError::Unexpected {
                expected: format!("the field `{name}` of {}", spell(self.codec.program, ty)),
                found: "the end of the object".to_owned(),
                offset: self.at,
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
        self.expect(open, ty)?;
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
            self.expect(b',', ty)?;
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

    fn string(&mut self, ty: &Type) -> Result<String, CodecError> {
        self.expect(b'"', ty)?;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = rest.find(['"', '\\']) else {
                self.at = self.text.len();
                return Err(self.unexpected("the end of a string"));
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

    fn expect(&mut self, byte: u8, ty: &Type) -> Result<(), CodecError> {
        if self.peek() != Some(byte) {
            let expected = spell(self.codec.program, ty);
            return Err(self.unexpected(&format!("`{}` of {expected}", char::from(byte))));
        }
        self.at += 1;
        Ok(())
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
            found: excerpt(&self.text.as_bytes()[at..]),
            offset: at,
        }
    }
}
