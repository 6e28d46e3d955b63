//! Records the profile of the build for `solera costs`.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Cargo's variable PROFILE has only two values. The folder of outputs is
    // TARGET/PROFILE/build/NAME/out.
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    let folder = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    let profile = folder.and_then(|name| name.to_str()).unwrap_or("unknown");
    println!("cargo::rustc-env=SOLERA_PROFILE={profile}");
}
