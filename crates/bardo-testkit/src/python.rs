//! Detection of Python for tests that need it.

use std::process::Command;

/// True if Python is available. Without it the test reports that and ends; `BARDO_PYTHON` makes it mandatory.
pub fn python() -> bool {
    let there = Command::new("python3").arg("--version").output().is_ok_and(|told| told.status.success());
    assert!(there || std::env::var_os("BARDO_PYTHON").is_none(), "there is no python3");
    if !there {
        eprintln!("skipped: no python3 on this machine");
    }
    there
}
