//! Whether there is a Python for what is written in it. Shared by tests through `#[path]`.

use std::process::Command;

/// Whether there is a Python here. Without one the test says so and ends; where `BARDO_PYTHON` is set there has to be one.
pub fn python() -> bool {
    let there = Command::new("python3").arg("--version").output().is_ok_and(|told| told.status.success());
    assert!(there || std::env::var_os("BARDO_PYTHON").is_none(), "there is no python3");
    if !there {
        eprintln!("skipped: no python3 on this machine");
    }
    there
}
