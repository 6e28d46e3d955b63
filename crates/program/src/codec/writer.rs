//! Encodes values as canonical JSON.

use std::borrow::Cow;

use data_encoding::HEXLOWER;

use super::Form;
use crate::ir::Program;
use crate::types::Type;
use crate::value::{Handle, Value};

pub(super) struct Writer<'a> {
    pub(super) program: &'a Program,
    pub(super) form: Form,
    pub(super) out: Vec<u8>,
}

/// Formats a float.
pub(super) fn float(number: f64) -> String {
    // The shortest text that parses to the same number. `Debug` gives large and small numbers an
    // exponent.
    format!("{number:?}")
}

impl Writer<'_> {
    /// Writes a value, which must have the type.
    pub(super) fn json(&mut self, value: &Value, ty: &Type) {
        match (value, ty) {
            (Value::Bool(truth), _) => self.raw(if *truth { "true" } else { "false" }),
            (Value::Int(number), _) => self.raw(&number.to_string()),
            (Value::Float(number), _) if number.is_finite() => self.raw(&float(*number)),
            (Value::Float(number), _) => self.string(&float(*number)),
            (Value::String(text), _) => self.string(text),
            (Value::Bytes(bytes), _) => self.hex(bytes),
            (Value::Handle(handle), _) => {
                let text = self.handle(handle).into_owned();
                self.string(&text);
            }
            (Value::Option(Some(value)), Type::Option(of)) => self.array([&**value], of),
            (Value::List(values), Type::List(of)) => self.array(values.iter(), of),
            (Value::Set(values), Type::Set(of)) => self.array(values.iter(), of),
            (Value::Map(entries), Type::Map(key, of)) => {
                self.between(('[', ']'), entries.iter(), |writer, (k, v)| {
                    writer.raw("[");
                    writer.json(k, key);
                    writer.raw(",");
                    writer.json(v, of);
                    writer.raw("]");
                });
            }
            (Value::Struct(values), Type::Struct(id)) => {
                let program = self.program;
                let fields = &program.structs[usize::from(id.0)].fields;
                self.between(('{', '}'), fields.iter().zip(&**values), |writer, field| {
                    let ((name, ty), value) = field;
                    writer.string(name);
                    writer.raw(":");
                    writer.json(value, ty);
                });
            }
            // `Unit`, and an option without a value.
            _ => self.raw("null"),
        }
    }

    pub(super) fn handle<'h>(&self, handle: &'h Handle) -> Cow<'h, str> {
        match self.form {
            Form::Stored => Cow::Borrowed(&handle.key),
            Form::Call => Cow::Owned(handle.to_string()),
        }
    }

    fn array<'v>(&mut self, values: impl IntoIterator<Item = &'v Value>, of: &Type) {
        self.between(('[', ']'), values, |writer, value| writer.json(value, of));
    }

    fn between<T>(
        &mut self,
        (open, close): (char, char),
        items: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T),
    ) {
        self.raw(open.encode_utf8(&mut [0; 4]));
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.raw(",");
            }
            each(self, item);
        }
        self.raw(close.encode_utf8(&mut [0; 4]));
    }

    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn string(&mut self, text: &str) {
        self.raw("\"");
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c < ' ' || c == '"' || c == '\\') {
            self.raw(&rest[..at]);
            let byte = rest.as_bytes()[at];
            match byte {
                b'"' => self.raw("\\\""),
                b'\\' => self.raw("\\\\"),
                b'\n' => self.raw("\\n"),
                b'\r' => self.raw("\\r"),
                b'\t' => self.raw("\\t"),
                control => self.raw(&format!("\\u{control:04x}")),
            }
            rest = &rest[at + 1..];
        }
        self.raw(rest);
        self.raw("\"");
    }

    fn hex(&mut self, bytes: &[u8]) {
        self.raw("\"");
        self.raw(&HEXLOWER.encode(bytes));
        self.raw("\"");
    }
}
