//! Codes of syntax errors, which `docs/reference/diagnostics.md` explains.

pub(crate) const UNKNOWN_CHARACTER: &str = "E0001";
pub(crate) const OPEN_COMMENT: &str = "E0002";
pub(crate) const OPEN_STRING: &str = "E0003";
pub(crate) const BAD_ESCAPE: &str = "E0004";
pub(crate) const BAD_NUMBER: &str = "E0005";
pub(crate) const UNEXPECTED: &str = "E0006";
pub(crate) const MISSING_SEMICOLON: &str = "E0007";
pub(crate) const NOT_CLOSED: &str = "E0008";
pub(crate) const NOT_OPENED: &str = "E0009";
pub(crate) const KEYWORD_AS_NAME: &str = "E0010";
pub(crate) const FOREIGN_OPERATOR: &str = "E0011";
pub(crate) const FOREIGN_WORD: &str = "E0012";
pub(crate) const CHAINED_COMPARISON: &str = "E0013";
pub(crate) const ASSIGNMENT_AS_VALUE: &str = "E0014";
pub(crate) const STRUCT_IN_CONDITION: &str = "E0015";
pub(crate) const MISSING_BRACES: &str = "E0016";
pub(crate) const COMMA_BETWEEN_STATEMENTS: &str = "E0017";
pub(crate) const NOT_A_PLACE: &str = "E0018";
pub(crate) const TOO_DEEP: &str = "E0019";
pub(crate) const TOO_LARGE: &str = "E0020";
pub(crate) const RESULT_WITHOUT_ARROW: &str = "E0021";
pub(crate) const NO_PATTERN: &str = "E0022";
