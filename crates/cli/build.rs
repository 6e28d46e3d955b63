//! Records the profile of the build for `solera costs`, and makes the binary of the profile
//! `release` smaller.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Cargo's variable PROFILE has only two values. The folder of outputs is
    // TARGET/PROFILE/build/NAME/out.
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    let folder = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    let profile = folder.and_then(|name| name.to_str()).unwrap_or("unknown");
    println!("cargo::rustc-env=SOLERA_PROFILE={profile}");
    if profile == "release" && links_with_lld() {
        // Keeps one copy of functions with equal machine code, mostly generic ones.
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
        if glibc_unpacks_relocations() {
            println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        }
    }
}

/// Whether rustc links by its own LLD, as it does by default on x86-64 Linux from version 1.90 on.
/// Other linkers may refuse LLD's options.
fn links_with_lld() -> bool {
    const TARGET: &str = "x86_64-unknown-linux-gnu";
    let is_target = |name| env::var(name).is_ok_and(|value| value == TARGET);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if !is_target("TARGET") || !is_target("HOST") || flags.contains("link") {
        return false;
    }
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    output_of(&rustc, &["--print", "sysroot"]).is_some_and(|sysroot| {
        let tools = Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET);
        tools.join("bin/gcc-ld/ld.lld").exists()
    })
}

/// Whether this machine's glibc loads binaries with packed relative relocations, as it does from
/// version 2.36 on. The profile `release` is for the machine that builds it.
fn glibc_unpacks_relocations() -> bool {
    let version = output_of("getconf", &["GNU_LIBC_VERSION"]);
    let minor = version.as_deref().and_then(|version| version.trim().strip_prefix("glibc 2."));
    minor.and_then(|minor| minor.parse().ok()).is_some_and(|minor: u32| minor >= 36)
}

fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    String::from_utf8(output.stdout).ok()
}
