use crate::{bardo, run};

#[test]
fn help_and_version_are_results() {
    let home = tempfile::tempdir().unwrap();
    let (out, err, code) = run(bardo(home.path()).arg("--help"));
    assert_eq!((err.as_str(), code), ("", 0));
    assert!(out.contains("doctor") && out.contains("--rpc <CHAIN=URL>"), "{out}");
    let (out, _, code) = run(bardo(home.path()).arg("--version"));
    assert_eq!((out.as_str(), code), (concat!("bardo ", env!("CARGO_PKG_VERSION"), "\n"), 0));
}

#[test]
fn invalid_arguments_are_usage_errors_with_empty_stdout() {
    let home = tempfile::tempdir().unwrap();
    for arguments in [
        &["dokter"][..],
        &["--nonsense"],
        &["config"],
        &["config", "show", "extra"],
        &["--rpc", "http://127.0.0.1:1/key-secret", "config", "show"],
        &["--rpc", "ethereum=ftp://127.0.0.1/key-secret", "config", "show"],
    ] {
        let (out, err, code) = run(bardo(home.path()).args(arguments));
        assert_eq!((out.as_str(), code), ("", 2), "{arguments:?}: {err}");
        assert!(!err.is_empty() && !err.contains("secret"), "{err}");
    }
}

/// `bardo … 2>&1 | head`: the reader has closed before any output.
#[cfg(unix)]
#[test]
fn a_closed_stderr_causes_no_panic() {
    let home = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bardo"));
    let ended = command.env_clear().env("BARDO_HOME", home.path()).arg("log").stderr(writer).status().unwrap();
    // An empty log is reported on stderr and is not a failure; a panic would exit with 101.
    assert_eq!(ended.code(), Some(0));
}
