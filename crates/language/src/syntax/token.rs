//! Tokens of a program.

use solera_program::span::Span;

/// A token with its span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
    /// Whether it is the first token of its line.
    pub(crate) first: bool,
}

macro_rules! tokens {
    (
        loose { $($(#[$doc:meta])* $loose:ident,)* }
        keywords { $($keyword:ident $word:literal,)* }
        marks { $($mark:ident $sign:literal,)* }
    ) => {
        /// Kinds of tokens.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum TokenKind {
            $($(#[$doc])* $loose,)*
            $($keyword,)*
            $($mark,)*
        }

        impl TokenKind {
            /// Returns its spelling, if the kind has only one.
            pub(crate) fn text(self) -> Option<&'static str> {
                match self {
                    $(TokenKind::$loose => None,)*
                    $(TokenKind::$keyword => Some($word),)*
                    $(TokenKind::$mark => Some($sign),)*
                }
            }

            /// Returns the keyword with this spelling.
            pub(crate) fn keyword(word: &str) -> Option<TokenKind> {
                match word {
                    $($word => Some(TokenKind::$keyword),)*
                    _ => None,
                }
            }

            pub(crate) fn is_keyword(self) -> bool {
                matches!(self, $(TokenKind::$keyword)|*)
            }

            /// Punctuation and operators. Longer ones come before those that are prefixes of them.
            pub(crate) const MARKS: &[(&str, TokenKind)] = &[$(($sign, TokenKind::$mark),)*];
        }
    };
}

tokens! {
    loose {
        Ident,
        /// `_` alone.
        Underscore,
        Int,
        Float,
        String,
        Bytes,
        /// Invalid input, which was reported.
        Unknown,
        /// The end of the text.
        End,
    }
    keywords {
        Abort "abort",
        Break "break",
        Continue "continue",
        Else "else",
        Endorse "endorse",
        False "false",
        Fn "fn",
        For "for",
        If "if",
        In "in",
        Level "level",
        Match "match",
        New "new",
        Return "return",
        Store "store",
        Struct "struct",
        Transaction "transaction",
        True "true",
        Var "var",
        While "while",
    }
    marks {
        EqEq "==",
        NotEq "!=",
        LessEq "<=",
        GreaterEq ">=",
        AndAnd "&&",
        OrOr "||",
        Arrow "->",
        FatArrow "=>",
        PlusEq "+=",
        MinusEq "-=",
        StarEq "*=",
        SlashEq "/=",
        PercentEq "%=",
        // Not part of the language, but common in others.
        PlusPlus "++",
        ColonColon "::",
        DotDot "..",
        Amp "&",
        Pipe "|",
        Question "?",
        Eq "=",
        Bang "!",
        Less "<",
        Greater ">",
        Plus "+",
        Minus "-",
        Star "*",
        Slash "/",
        Percent "%",
        At "@",
        Dot ".",
        Comma ",",
        Semicolon ";",
        Colon ":",
        OpenParen "(",
        CloseParen ")",
        OpenBracket "[",
        CloseBracket "]",
        OpenBrace "{",
        CloseBrace "}",
    }
}

impl TokenKind {
    /// Returns whether declarations begin with it.
    pub(crate) fn begins_item(self) -> bool {
        use TokenKind::{Fn, Level, Store, Struct, Transaction};
        matches!(self, Level | Store | Struct | Fn | Transaction)
    }

    /// Returns whether statements, and nothing else, begin with it.
    pub(crate) fn begins_statement(self) -> bool {
        use TokenKind::{Abort, Break, Continue, For, If, Match, Return, Var, While};
        matches!(self, Var | If | While | For | Match | Return | Break | Continue | Abort)
    }

    /// Returns whether expressions begin with it.
    pub(crate) fn begins_expression(self) -> bool {
        use TokenKind::{
            Bang, Bytes, Endorse, False, Float, Ident, Int, Minus, New, OpenBracket, OpenParen,
            Star, String, True,
        };
        matches!(
            self,
            Ident
                | Int
                | Float
                | String
                | Bytes
                | True
                | False
                | Endorse
                | New
                | OpenParen
                | OpenBracket
                | Minus
                | Bang
                | Star
        )
    }
}
