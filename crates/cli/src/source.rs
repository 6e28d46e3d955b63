//! Reads sources of the MixT language from files and standard input.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read};

use solera_language::diagnostic::{Diagnostic, Severity};
use solera_language::render::render;
use solera_language::syntax::MAX_SOURCE;

/// A source text and its name.
pub(crate) struct Source {
    /// Name in diagnostics.
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Source {
    /// Reads a file, or standard input for `-`. The error is a message for users.
    pub(crate) fn read(file: &str) -> Result<Source, String> {
        let name = if file == "-" { "<stdin>" } else { file };
        let cannot = |error: io::Error| format!("cannot read {name}: {error}");
        let mut bytes = Vec::new();
        // The compiler rejects longer sources, so reading one byte too many is enough.
        let most = MAX_SOURCE as u64 + 1;
        if file == "-" {
            io::stdin().take(most).read_to_end(&mut bytes).map_err(cannot)?;
        } else {
            if fs::metadata(file).map_err(cannot)?.is_dir() {
                return Err(format!("{name} is a directory; name the files in it"));
            }
            File::open(file).map_err(cannot)?.take(most).read_to_end(&mut bytes).map_err(cannot)?;
        }
        if bytes.len() > MAX_SOURCE {
            return Err(format!(
                "{name} is longer than {MAX_SOURCE} bytes, the maximum size of a source"
            ));
        }
        match solera_language::syntax::text(&bytes) {
            Ok(text) => Ok(Source { name: name.to_owned(), text: text.to_owned() }),
            Err(error) => Err(format!("cannot read {name}: {error}")),
        }
    }

    /// Prints the compiler's diagnostics on standard error.
    pub(crate) fn report(&self, diagnostics: &[Diagnostic]) {
        let color = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let rendered = render(diagnostics, &self.name, &self.text, color);
        if !rendered.is_empty() {
            print_error!("{rendered}");
        }
    }
}

/// Returns the numbers of errors and warnings.
pub(crate) fn count(diagnostics: &[Diagnostic]) -> (usize, usize) {
    let errors = diagnostics.iter().filter(|one| one.severity == Severity::Error).count();
    (errors, diagnostics.len() - errors)
}
