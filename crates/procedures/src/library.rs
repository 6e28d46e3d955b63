//! Modules that were decoded before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use solera_data::Value;

use crate::module::{InvalidModule, Module};

/// Maximum number of modules that are kept decoded.
const MOST: usize = 64;

/// Decoded and verified modules, by digest. What they contain does not depend on it: a module is
/// used only if its register has the same bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Library(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    modules: BTreeMap<Arc<str>, Entry>,
    /// Number of uses.
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    bytes: Value,
    module: Arc<Module>,
    /// Number of the last use.
    used: u64,
}

impl Library {
    /// Returns the module with these bytes.
    ///
    /// # Errors
    /// If they are not a module.
    pub(crate) fn decode(
        &self,
        digest: &Arc<str>,
        bytes: Value,
    ) -> Result<Arc<Module>, InvalidModule> {
        if let Some(module) = self.known().find(digest, &bytes) {
            return Ok(module);
        }
        let module = Arc::new(Module::decode(&bytes)?);
        self.known().add(Arc::clone(digest), bytes, Arc::clone(&module));
        Ok(module)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn find(&mut self, digest: &str, bytes: &Value) -> Option<Arc<Module>> {
        self.uses += 1;
        let entry = self.modules.get_mut(digest).filter(|entry| same(&entry.bytes, bytes))?;
        entry.used = self.uses;
        Some(Arc::clone(&entry.module))
    }

    fn add(&mut self, digest: Arc<str>, bytes: Value, module: Arc<Module>) {
        if self.modules.len() >= MOST && !self.modules.contains_key(&digest) {
            let oldest = self.modules.iter().min_by_key(|(_, entry)| entry.used);
            if let Some(oldest) = oldest.map(|(digest, _)| Arc::clone(digest)) {
                self.modules.remove(&oldest);
            }
        }
        self.modules.insert(digest, Entry { bytes, module, used: self.uses });
    }
}

/// Compares bytes. Those of one register are usually shared.
fn same(one: &[u8], other: &[u8]) -> bool {
    std::ptr::eq(one, other) || one == other
}

#[cfg(test)]
mod tests {
    use solera_language::compile::compile;

    use super::*;

    fn module(source: &str) -> Module {
        Module::new(source, Arc::new(compile(source).program.unwrap())).unwrap()
    }

    #[test]
    fn a_module_is_used_only_with_its_own_bytes() {
        let library = Library::default();
        let digest: Arc<str> = "d".into();
        let [one, other] = ["store a : causal;", "store b : causal;"].map(module);
        for _ in 0..2 {
            for module in [&one, &other] {
                let decoded = library.decode(&digest, module.encode().into()).unwrap();
                assert_eq!(*decoded, *module);
            }
        }
    }

    #[test]
    fn only_the_modules_used_last_are_kept() {
        let library = Library::default();
        let bytes = Value::from(module("store a : causal;").encode());
        let get = |number: usize| {
            let digest: Arc<str> = number.to_string().into();
            library.decode(&digest, bytes.clone()).unwrap()
        };
        let first = get(0);
        for number in 1..=2 * MOST {
            get(number);
            assert!(Arc::ptr_eq(&first, &get(0)), "{number}");
        }
        let known = library.known();
        assert_eq!(known.modules.len(), MOST);
        assert!(known.modules.contains_key("128") && !known.modules.contains_key("1"));
    }
}
