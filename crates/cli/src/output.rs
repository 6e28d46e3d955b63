//! Writes to standard output. A write error makes the command fail.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

/// First error of writing to standard output.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// Prints a line to standard output. [`finish`] reports an error at the end of the command.
macro_rules! output {
    ($($text:tt)*) => {
        $crate::output::line(::std::format_args!($($text)*))
    };
}

/// Prints a line to standard error. Where that fails, nothing is left to report it to.
macro_rules! print_error {
    ($($text:tt)*) => {
        $crate::output::error_line(::std::format_args!($($text)*))
    };
}

/// Prints a line to standard error.
pub(crate) fn error_line(text: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Prints a line to standard output.
pub(crate) fn line(text: Arguments<'_>) {
    note(writeln!(io::stdout(), "{text}"));
}

/// Prints bytes, which need not be text, as a line to standard output.
pub(crate) fn bytes(line: &[u8]) {
    note(io::stdout().write_all(&[line, b"\n"].concat()));
}

/// Notes the result of writing to standard output.
pub(crate) fn note(written: io::Result<()>) {
    if let Err(error) = written {
        // Later errors have the same cause.
        let _ = FAILED.set(error);
    }
}

/// Returns whether output could not be written, other than because its reader closed the pipe.
pub(crate) fn has_failed() -> bool {
    note(io::stdout().flush());
    FAILED.get().is_some_and(|error| error.kind() != ErrorKind::BrokenPipe)
}

/// Returns the exit code of a command that has ended with `code`: a failure if its output could not
/// be written. It is not a failure if a reader such as `head` closes the pipe early.
pub(crate) fn finish(code: ExitCode) -> ExitCode {
    let failed = has_failed();
    match FAILED.get() {
        Some(error) if failed => {
            print_error!("solera: cannot write to standard output: {error}");
            if code == ExitCode::SUCCESS { ExitCode::FAILURE } else { code }
        }
        _ => code,
    }
}
