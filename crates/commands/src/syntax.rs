//! The arguments of a command, derived from its syntax in the table.

/// An argument, or several that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Kind of its values.
    pub kind: ArgumentKind,
    /// Whether it may be missing.
    pub optional: bool,
    /// Whether more of the same may follow.
    pub multiple: bool,
}

/// Kind of the values of an [`Argument`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A word that is written as it is, such as `AT`, or a choice of words.
    Token(&'static str),
    /// A value, by its name.
    Value(&'static str),
    /// Arguments that follow one another.
    Block(Vec<Argument>),
}

/// Returns the arguments that a syntax such as `key [AT level] …` describes.
pub(crate) fn arguments(syntax: &'static str) -> Vec<Argument> {
    let mut found: Vec<Argument> = Vec::new();
    let mut rest = syntax.trim_start();
    while !rest.is_empty() {
        let (item, length) = match rest.starts_with('[') {
            true => bracketed(rest),
            false => word(rest),
        };
        rest = rest[length..].trim_start();
        match (item, found.last_mut()) {
            (None, Some(last)) => last.multiple = true,
            (None, None) => {}
            (Some(item), _) => found.push(item),
        }
    }
    found
}

/// Returns the first word, and its length; no argument for an ellipsis.
fn word(rest: &'static str) -> (Option<Argument>, usize) {
    let length = rest.find(' ').unwrap_or(rest.len());
    let word = &rest[..length];
    if word == "…" {
        return (None, length);
    }
    let kind = match word.chars().any(char::is_lowercase) {
        true => ArgumentKind::Value(word),
        false => ArgumentKind::Token(word),
    };
    (Some(Argument { kind, optional: false, multiple: false }), length)
}

/// Returns the arguments in brackets at the beginning, as one that is optional, and their length.
fn bracketed(rest: &'static str) -> (Option<Argument>, usize) {
    let mut depth = 0_usize;
    let is_end = |(_, symbol): &(usize, char)| {
        depth = match symbol {
            '[' => depth + 1,
            ']' => depth - 1,
            _ => depth,
        };
        depth == 0
    };
    let end = rest.char_indices().find(is_end).map_or(rest.len(), |(end, _)| end);
    let mut inner = arguments(&rest[1..end]);
    let optional = match inner.len() {
        0 => None,
        1 => inner.pop().map(|argument| Argument { optional: true, ..argument }),
        _ => {
            let kind = ArgumentKind::Block(inner);
            Some(Argument { kind, optional: true, multiple: false })
        }
    };
    (optional, (end + 1).min(rest.len()))
}

#[cfg(test)]
mod tests {
    use super::ArgumentKind::{Block, Token, Value};
    use super::*;
    use crate::COMMANDS;

    fn one(kind: ArgumentKind) -> Argument {
        Argument { kind, optional: false, multiple: false }
    }

    #[test]
    fn a_syntax_is_divided_into_arguments() {
        let argument = Argument { optional: true, multiple: true, kind: Value("argument") };
        let command = Block(vec![one(Value("command")), argument]);
        let expected = [
            one(Value("key")),
            one(Token("AT")),
            one(Value("level|WITHIN")),
            one(Value("ms")),
            Argument { optional: true, ..one(command) },
        ];
        assert_eq!(arguments("key AT level|WITHIN ms [command [argument …]]"), expected);
        assert_eq!(arguments("key …"), [Argument { multiple: true, ..one(Value("key")) }]);
        assert_eq!(arguments(""), []);
    }

    /// Redis' clients show an argument by its words, so together they must show the syntax.
    #[test]
    fn the_arguments_of_each_command_contain_the_words_of_its_syntax() {
        fn words(arguments: &[Argument], found: &mut Vec<&'static str>) {
            for argument in arguments {
                match &argument.kind {
                    Token(word) | Value(word) => found.push(word),
                    Block(inner) => words(inner, found),
                }
                if argument.multiple {
                    found.push("…");
                }
            }
        }
        for command in COMMANDS {
            let mut found = Vec::new();
            words(&command.syntax(), &mut found);
            let is_bracket = |symbol: char| "[]".contains(symbol);
            let plain = command.arguments.replace(is_bracket, " ");
            let expected: Vec<&str> = plain.split_whitespace().collect();
            assert_eq!(found, expected, "{}", command.name);
        }
    }
}
