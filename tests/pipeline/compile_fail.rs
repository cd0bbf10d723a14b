//! Programs that must not compile: a signature without a capability, a capability created outside the pipeline, one
//! used twice, one copied. Each case in `compile_fail/` states its expected error on its second line; one case must
//! compile, so that a broken harness is noticed.
//!
//! The cases are compiled with the library that this test was built with, which takes a second each; a separate build
//! would compile all dependencies again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder of built libraries, and the newest build of this one: the one that cargo made for this test.
fn library() -> (PathBuf, PathBuf) {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let built = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("libbardo-") && name.ends_with(".rlib")
    });
    let newest = built.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    (folder, newest.expect("the library this test is linked with"))
}

/// Compiles one case; returns the compiler's messages and the success.
fn compile(case: &Path, scratch: &Path) -> (bool, String) {
    let (folder, library) = library();
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition", "2024", "--crate-type", "bin", "--emit", "metadata", "--cap-lints", "allow"])
        .arg("-o")
        .arg(scratch.join("case.rmeta"))
        .arg("--extern")
        .arg(format!("bardo={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", folder.display()))
        .arg(case)
        .output()
        .expect("a compiler");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn code_that_bypasses_the_capability_does_not_compile() {
    let scratch = tempfile::tempdir().unwrap();
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_fail");
    let (mut failing, mut passing) = (0, 0);
    for entry in fs::read_dir(cases).unwrap() {
        let case = entry.unwrap().path();
        let text = fs::read_to_string(&case).unwrap();
        let wanted = text.lines().nth(1).and_then(|line| line.strip_prefix("//@ ")).expect("what is expected");
        let (compiles, said) = compile(&case, scratch.path());
        if wanted == "compiles" {
            assert!(compiles, "{}:\n{said}", case.display());
            passing += 1;
            continue;
        }
        assert!(!compiles, "{} compiles", case.display());
        assert!(said.contains(wanted), "{}: expected {wanted:?}, and the compiler says\n{said}", case.display());
        // That one error and no other.
        assert_eq!(said.matches("\nerror").count() + usize::from(said.starts_with("error")), 2, "{said}");
        failing += 1;
    }
    assert_eq!((failing, passing), (8, 1));
}
