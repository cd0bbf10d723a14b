//! `bardo log` with the audit log of a real swap: one of its calls, following new entries, and the findings of `verify`
//! after the database was edited, deleted, reordered or truncated.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::{bardo, run};

/// Timeout for a line on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Home with a swap, and the entries of its audit log.
fn recorded() -> (Fixture, Vec<Value>) {
    let fixture = Fixture::new();
    let (answer, exit) = fixture.swap(json!({}), &[]);
    assert_eq!((&answer["status"], exit), (&json!("success"), 0), "{answer}");
    let trail = lines(fixture.home.path(), &[]);
    assert!(trail.len() >= 6, "{trail:#?}");
    (fixture, trail)
}

fn lines(home: &Path, more: &[&str]) -> Vec<Value> {
    let (out, err, code) = run(bardo(home).args(["log", "--json"]).args(more));
    assert_eq!((err.as_str(), code), ("", 0), "{out}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ledger(home: &Path) -> PathBuf {
    let mut all = fs::read_dir(home.join("data/ledger")).unwrap().map(|entry| entry.unwrap().path().join("ledger.db"));
    let one = all.find(|path| path.exists()).expect("a ledger");
    assert!(!all.any(|path| path.exists()), "one ledger alone");
    one
}

/// Home with a copy of the data directory.
fn copied(from: &Path) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let (path, to) = (entry.path(), to.join(entry.file_name()));
            if path.is_dir() {
                copy(&path, &to);
            } else {
                fs::copy(&path, &to).unwrap();
            }
        }
    }
    let home = tempfile::tempdir().unwrap();
    copy(&from.join("data"), &home.path().join("data"));
    home
}

fn verify(home: &Path, more: &[&str]) -> (String, i32) {
    let (out, err, code) = run(bardo(home).args(["log", "verify"]).args(more));
    assert_eq!(err, "");
    (out, code)
}

/// A newer ledger of other chains must not be read in place of the one that the flags name.
#[test]
fn the_log_of_the_named_chains_is_read() {
    let (desk, _) = recorded();
    let own = ledger(desk.home.path());
    let other = own.parent().unwrap().with_file_name("devnet-other");
    fs::create_dir(&other).unwrap();
    for entry in fs::read_dir(own.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, other.join(path.file_name().unwrap())).unwrap();
        }
    }
    let read = |flags: &[&str]| {
        let (out, err, _) = run(bardo(desk.home.path()).args(flags).args(["log", "verify"]));
        format!("{out}{err}")
    };
    let newest = read(&[]);
    assert!(newest.contains("devnet-other"), "{newest}");
    let named = read(&["--rpc", &desk.given]);
    assert!(named.contains(own.to_str().unwrap()) && !named.contains("devnet-other"), "{named}");
}

#[test]
fn any_change_of_the_audit_log_is_detected() {
    let (fixture, trail) = recorded();
    let home = fixture.home.path();
    let (said, code) = verify(home, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with(&format!("good: {} entries", trail.len())), "{said}");
    let last = trail.len();
    let head = trail[last - 1]["hash"].as_str().unwrap();
    assert!(said.contains(&format!("head    {head}\n")), "{said}");
    assert_eq!(verify(home, &["--head", head]).1, 0);

    let swapped = "UPDATE audit_entry SET seq = 9999 WHERE seq = 2; UPDATE audit_entry SET seq = 2 WHERE seq = 3;
                   UPDATE audit_entry SET seq = 3 WHERE seq = 9999;";
    let cut = format!("DELETE FROM audit_entry WHERE seq > {}", last - 2);
    for (sql, fault, said) in [
        (
            "UPDATE audit_entry SET body = body || ' ' WHERE seq = 1",
            json!({"fault": "changed", "seq": 1}),
            "entry 1 was changed: its content does not match its hash".to_owned(),
        ),
        (
            "DELETE FROM audit_entry WHERE seq = 3",
            json!({"fault": "missing", "from": 3, "to": 3}),
            "entries 3 to 3 are missing".to_owned(),
        ),
        (
            swapped,
            json!({"fault": "unlinked", "seq": 2}),
            "entry 2 does not follow the one before it: one of the two was changed, moved or inserted".to_owned(),
        ),
        (
            cut.as_str(),
            json!({"fault": "cut", "ends": last - 2, "anchored": last}),
            format!("the log was truncated: it ends at entry {}, but entry {last} was written", last - 2),
        ),
    ] {
        let home = copied(home);
        let database = ledger(home.path());
        let changed = Connection::open(&database).unwrap();
        changed.execute_batch(sql).unwrap();
        assert!(changed.total_changes() > 0, "{sql}");
        drop(changed);
        let (told, code) = verify(home.path(), &[]);
        assert_eq!(code, 1, "{sql}: {told}");
        assert!(told.starts_with(&format!("NOT GOOD: {}\n", database.display())), "{told}");
        assert!(told.lines().any(|line| line.trim() == said), "{sql}: {told}");
        let (told, code) = verify(home.path(), &["--json"]);
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&told["good"], code), (&json!(false), 1), "{sql}");
        assert!(told["report"]["faults"].as_array().unwrap().contains(&fault), "{sql}: {told}");
        // It can still be read.
        assert!(lines(home.path(), &[]).len() >= last - 2, "{sql}");
    }
    // Truncated together with the anchor: only a head that was stored elsewhere reveals it.
    let earlier = copied(home);
    let database = ledger(earlier.path());
    Connection::open(&database).unwrap().execute_batch(&cut).unwrap();
    let (seq, hash) = (last - 2, trail[last - 3]["hash"].as_str().unwrap());
    fs::write(database.with_extension("audit-head"), format!("{seq:020} {hash}\n")).unwrap();
    assert_eq!(verify(earlier.path(), &[]).1, 0, "by itself it is a good one");
    let (told, code) = verify(earlier.path(), &["--head", head]);
    assert_eq!(code, 1);
    assert!(told.contains(&format!("no entry has the hash {head}")), "{told}");
    // Without an audit log there is no entry with that head.
    let empty = tempfile::tempdir().unwrap();
    let (_, err, code) = run(bardo(empty.path()).args(["log", "verify", "--head", head]));
    assert!(code == 1 && err.contains("there is no audit log"), "{code} {err}");
    assert_eq!(run(bardo(empty.path()).args(["log", "verify"])).2, 0);
}

#[test]
fn one_call_is_shown_alone() {
    let (fixture, before) = recorded();
    let (answer, exit) =
        fixture.call("token_approve", &json!({"token": "DAI", "amount": "5", "chain": "ethereum"}), &[]);
    assert_eq!(exit, 0, "{answer}");
    let call = answer["call_id"].as_str().unwrap();
    let whole = lines(fixture.home.path(), &[]);
    let shown = lines(fixture.home.path(), &["--call", call]);
    let (spans, alone): (Vec<_>, Vec<_>) = shown.into_iter().partition(|one| one.get("span").is_some());
    let of_it: Vec<_> = whole.iter().filter(|one| one["call_id"] == call).cloned().collect();
    assert_eq!(alone, of_it);
    assert!(alone.len() >= 4 && alone.len() <= whole.len() - before.len(), "{alone:#?}");
    assert!(alone.iter().any(|one| one["kind"] == "tx:signed"), "{alone:#?}");
    // Human-readable output: one line each, and one above the spans.
    let (out, _, _) = run(bardo(fixture.home.path()).args(["log", "--call", call]));
    assert_eq!(out.lines().count(), alone.len() + 1 + spans.len(), "{out}");
    assert_eq!(out.lines().nth(alone.len()), Some("Spans"), "{out}");
    assert!(lines(fixture.home.path(), &["--call", "00000000000000000000000000"]).is_empty());
    let (_, _, code) = run(bardo(fixture.home.path()).args(["log", "--call", "nonsense"]));
    assert_eq!(code, 2);
}

#[test]
fn log_follow_shows_new_entries() {
    let (fixture, before) = recorded();
    let mut following = Command::new(env!("CARGO_BIN_EXE_bardo"))
        .env_clear()
        .env("BARDO_HOME", fixture.home.path())
        .args(["log", "--follow", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (shown, seen) = mpsc::channel();
    let out = BufReader::new(following.stdout.take().unwrap());
    let reading = std::thread::spawn(move || {
        for line in out.lines() {
            if shown.send(serde_json::from_str::<Value>(&line.unwrap()).unwrap()).is_err() {
                return;
            }
        }
    });
    let next = |count: usize| -> Vec<Value> {
        (0..count).map(|_| seen.recv_timeout(PATIENCE).expect("a line, and it goes on")).collect()
    };
    assert_eq!(next(before.len()), before);
    assert!(seen.try_recv().is_err(), "nothing more until something happens");
    let (answer, exit) =
        fixture.call("token_approve", &json!({"token": "DAI", "amount": "5", "chain": "ethereum"}), &[]);
    assert_eq!(exit, 0, "{answer}");
    let since = lines(fixture.home.path(), &[]).split_off(before.len());
    assert_eq!(next(since.len()), since);
    assert!(since.iter().any(|one| one["call_id"] == answer["call_id"]), "{since:#?}");
    following.kill().unwrap();
    following.wait().unwrap();
    reading.join().unwrap();
}

/// Content of the log files whose names begin with `prefix`.
fn logged(home: &Path, prefix: &str) -> String {
    let files = fs::read_dir(home.join("data/logs")).unwrap().map(|entry| entry.unwrap());
    let ours = files.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    ours.map(|entry| fs::read_to_string(entry.path()).unwrap()).collect()
}

/// Steps from a call to its receipt, each with the step that encloses it.
const STEPS: [(&str, &str); 13] = [
    ("prepare", "call"),
    ("preview", "call"),
    ("checks", "preview"),
    ("simulate", "checks"),
    ("approve", "call"),
    ("commit", "call"),
    ("checks", "commit"),
    ("reserve", "commit"),
    ("sign", "commit"),
    ("broadcast", "commit"),
    ("receipt", "commit"),
    ("verify", "commit"),
    ("settle", "commit"),
];

#[test]
fn the_spans_of_one_call_are_shown_with_their_durations_even_where_nothing_is_logged() {
    let fixture = Fixture::new();
    let params = json!({"token": "DAI", "amount": "5", "chain": "ethereum"}).to_string();
    let mut command = bardo(fixture.home.path());
    command.env("BARDO_LOG", "error").args(["call", "token_approve", &params, "--rpc", &fixture.given]);
    let (out, err, code) = run(&mut command);
    assert_eq!((err.as_str(), code), ("", 0), "{out}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    let call = answer["call_id"].as_str().unwrap();
    let shown = lines(fixture.home.path(), &["--call", call]);
    let (spans, entries): (Vec<_>, Vec<_>) = shown.into_iter().partition(|one| one.get("span").is_some());
    let number = |span: &Value, name: &str| span[name].as_u64().unwrap();
    let within = |inner: &Value, outer: &Value| {
        let end = |span: &Value| number(span, "began_us") + number(span, "duration_us");
        // The two figures come from two clocks.
        number(inner, "began_us") >= number(outer, "began_us") && end(inner) <= end(outer) + 5_000
    };
    for (step, around) in STEPS {
        let outer = spans.iter().filter(|span| span["span"] == around);
        let found = outer.filter(|outer| {
            spans.iter().any(|inner| {
                inner["span"] == step && number(inner, "depth") == number(outer, "depth") + 1 && within(inner, outer)
            })
        });
        assert!(found.count() > 0, "no {step} in {around}: {spans:#?}");
    }
    let of = |name: &str| spans.iter().find(|span| span["span"] == name).unwrap();
    let body = |kind: &str| &entries.iter().find(|entry| entry["kind"] == kind).unwrap()["body"];
    assert_eq!(spans[0]["fields"], json!({"tool": "token_approve", "status": "success"}));
    for step in ["sign", "broadcast", "receipt"] {
        let (fields, signed) = (&of(step)["fields"], body("tx:signed"));
        assert_eq!((&fields["tx_hash"], &fields["chain_id"]), (&signed["hash"], &signed["chain_id"]), "{step}");
    }
    for step in ["preview", "approve", "commit", "settle"] {
        assert_eq!(of(step)["fields"]["permit_id"], body("permit:consumed")["permit_id"], "{step}");
    }
    assert!(number(of("receipt"), "duration_us") > 0);
    assert_eq!(logged(fixture.home.path(), "bardo."), "", "the log itself holds errors alone");
    // Another call has no entries.
    assert!(lines(fixture.home.path(), &["--call", "00000000000000000000000000"]).is_empty());
}

#[test]
fn no_secret_is_in_a_log_of_everything_in_either_format() {
    // A credential in an endpoint's URL; the development mnemonic and its signing key.
    const CANARY: &str = "canary7f3a91";
    let secrets = [CANARY, "test test test", "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"];
    let fixture = Fixture::new();
    let rpc = format!("ethereum={}/?key={CANARY}", fixture.devnet.url(0));
    let params = json!({"token": "DAI", "amount": "5", "chain": "ethereum"}).to_string();
    for format in ["json", "text"] {
        let home = tempfile::tempdir().unwrap();
        let mut command = bardo(home.path());
        command.env("BARDO_LOG", "trace").args(["call", "token_approve", &params, "--rpc", &rpc]);
        let (out, err, code) = run(command.args(["--log-format", format]));
        assert_eq!(code, 0, "{out}{err}");
        let answer: Value = serde_json::from_str(&out).unwrap();
        let (log, spans) = (logged(home.path(), "bardo."), logged(home.path(), "spans."));
        assert!(log.contains("close") && spans.contains("receipt"), "{log}{spans}");
        for (name, text) in [("log", &log), ("spans", &spans)] {
            for secret in secrets {
                let lines: Vec<_> = text.lines().filter(|line| line.contains(secret)).take(3).collect();
                assert!(lines.is_empty(), "{secret} in the {name} as {format}: {lines:#?}");
            }
        }
        if format == "json" {
            let log: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let ended = |line: &&Value| line["fields"]["message"] == "close" && line["span"]["name"] == "sign";
            let signed = log.iter().find(ended).expect("the end of the span in which it was signed");
            assert_eq!(signed["spans"][0]["call_id"], answer["call_id"], "{signed}");
            assert!(signed["fields"]["time.busy"].is_string() && signed["span"]["tx_hash"].is_string(), "{signed}");
        }
    }
}

/// A stop that is set before anything was signed leaves an audit log that is as good as any other.
#[test]
fn a_halt_in_a_folder_that_has_only_keys_leaves_a_good_audit_log() {
    let home = tempfile::tempdir().unwrap();
    let new = "keys new trading --password-fd 3";
    let (_, err, code) = crate::keys::with_secrets(home.path(), new, "correct horse battery\n", "");
    assert_eq!(code, 0, "{err}");
    assert_eq!(run(bardo(home.path()).args(["halt"])).2, 0);
    let (said, code) = verify(home.path(), &["--network", "sepolia"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("good: 1 entry") && said.contains("ledger/real/ledger.db"), "{said}");
    // No devnet has a ledger here.
    let (_, err, code) = run(bardo(home.path()).args(["log", "verify", "--network", "devnet"]));
    assert_eq!((err.as_str(), code), ("bardo: nothing has been recorded yet\n", 0));
}
