//! A program in a pseudo-terminal, and what its terminal shows.

use std::io::{Read, Write};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, SlavePty, native_pty_system};

/// What empties the terminal.
const CLEAR: &[u8] = b"\x1b[2J";
/// What begins and ends an update that a terminal is to show as a whole.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";
/// How long a condition may take before the test gives up: long enough for the slowest machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// What was read so far.
struct Seen {
    parser: vt100::Parser,
    raw: Vec<u8>,
    /// How much of it the terminal shows: an update that has begun is not shown before its end.
    shown: usize,
}

impl Seen {
    /// Shows what is whole; at the end of everything, all.
    fn show(&mut self, ended: bool) {
        let first = |bytes: &[u8], words: &[u8]| bytes.windows(words.len()).position(|window| window == words);
        loop {
            let rest = &self.raw[self.shown..];
            let whole = match first(rest, BEGIN) {
                Some(0) => match first(rest, END) {
                    Some(end) => end + END.len(),
                    None if ended => rest.len(),
                    None => 0,
                },
                Some(begin) => begin,
                None if ended => rest.len(),
                // The end may be the beginning of a beginning.
                None => rest.len() - (1..BEGIN.len()).rev().find(|&part| rest.ends_with(&BEGIN[..part])).unwrap_or(0),
            };
            if whole == 0 {
                return;
            }
            self.parser.process(&self.raw[self.shown..self.shown + whole]);
            self.shown += whole;
        }
    }
}

/// A running program and its terminal.
pub struct Pty {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    tty: PathBuf,
    seen: Arc<Mutex<Seen>>,
    // Kept open, so that the terminal outlives the program and can be asked for its modes.
    _slave: Box<dyn SlavePty + Send>,
    // Where the program works, unless it was told: what it writes beside itself is nobody else's.
    _folder: tempfile::TempDir,
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

/// Where `bytes` stand for the last time.
fn last(raw: &[u8], bytes: &[u8]) -> Option<usize> {
    raw.windows(bytes.len()).rposition(|window| window == bytes)
}

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).unwrap()
}

impl Pty {
    /// Starts this test binary's harness with a script.
    pub fn script(script: &str, columns: u16, rows: u16) -> Self {
        Self::script_in(script, &[], columns, rows)
    }

    /// The same with these variables.
    pub fn script_in(script: &str, variables: &[(&str, &str)], columns: u16, rows: u16) -> Self {
        let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
        command.args(["harness::harness", "--exact", "--nocapture", "--quiet"]);
        command.env(super::harness::SCRIPT, script);
        Self::start_in(command, variables, columns, rows)
    }

    /// Starts any program.
    pub fn start(command: CommandBuilder, columns: u16, rows: u16) -> Self {
        Self::start_in(command, &[], columns, rows)
    }

    fn start_in(mut command: CommandBuilder, variables: &[(&str, &str)], columns: u16, rows: u16) -> Self {
        command.env("TERM", "xterm-256color");
        command.env("COLORTERM", "truecolor");
        for absent in ["NO_COLOR", "NO_MOTION", "COLORFGBG", "RUST_BACKTRACE"] {
            command.env_remove(absent);
        }
        for (name, value) in variables {
            command.env(name, value);
        }
        let folder = tempfile::tempdir().unwrap();
        if command.get_cwd().is_none() {
            command.cwd(folder.path());
        }
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let tty = pair.master.tty_name().unwrap();
        let child = pair.slave.spawn_command(command).unwrap();
        let writer = pair.master.take_writer().unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let parser = vt100::Parser::new(cells(rows), cells(columns), 0);
        let seen = Arc::new(Mutex::new(Seen { parser, raw: Vec::new(), shown: 0 }));
        let sink = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let mut seen = sink.lock().unwrap();
                seen.raw.extend_from_slice(&buffer[..count]);
                seen.show(false);
            }
            sink.lock().unwrap().show(true);
        });
        Self { child, master: pair.master, writer, tty, seen, _slave: pair.slave, _folder: folder }
    }

    /// Waits until the terminal shows what `holds` asks for.
    pub fn until(&self, what: &str, holds: impl Fn(&vt100::Screen) -> bool) {
        let start = Instant::now();
        loop {
            {
                let seen = self.seen.lock().unwrap();
                if holds(seen.parser.screen()) {
                    return;
                }
                assert!(start.elapsed() < PATIENCE, "waited in vain: {what}\n{}", seen.parser.screen().contents());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the bytes written so far are as `holds` asks.
    pub fn until_written(&self, what: &str, holds: impl Fn(&[u8]) -> bool) {
        let start = Instant::now();
        while !holds(&self.raw()) {
            assert!(start.elapsed() < PATIENCE, "waited in vain: {what}\n{}", self.contents());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the terminal shows `words`.
    pub fn until_shown(&self, words: &str) {
        self.until(words, |screen| screen.contents().contains(words));
    }

    /// Waits until `read` finds something on the terminal, which may stand half drawn until then.
    pub fn known<T>(&self, what: &str, read: impl Fn(&str) -> Option<T>) -> T {
        let found = std::cell::Cell::new(None);
        self.until(what, |screen| {
            let read = read(&screen.contents());
            let known = read.is_some();
            found.set(read);
            known
        });
        found.into_inner().unwrap()
    }

    /// Waits until the terminal no longer shows `words`.
    pub fn until_gone(&self, words: &str) {
        self.until(&format!("no {words}"), |screen| !screen.contents().contains(words));
    }

    /// What the terminal shows.
    pub fn contents(&self) -> String {
        self.seen.lock().unwrap().parser.screen().contents()
    }

    /// Every byte the program wrote.
    pub fn raw(&self) -> Vec<u8> {
        self.seen.lock().unwrap().raw.clone()
    }

    /// Types.
    pub fn type_keys(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    /// Gives the terminal another size.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.seen.lock().unwrap().parser.screen_mut().set_size(cells(rows), cells(columns));
        let before = self.raw().len();
        self.master.resize(size(columns, rows)).unwrap();
        // Another size is drawn from nothing; until then what is typed is meant for the picture before.
        self.until_written("a picture of the new size", |raw| {
            raw[before..].windows(CLEAR.len()).any(|window| window == CLEAR)
        });
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        let id = self.child.process_id().unwrap().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Waits until everything that a program that stands still has written was read.
    pub fn until_drained(&self) {
        // A terminal shows nothing of a NUL, and ours writes none: it comes after all that was written before.
        let nul = |raw: &[u8]| raw.iter().filter(|byte| **byte == 0).count();
        let before = nul(&self.raw());
        let mut tty = std::fs::OpenOptions::new().write(true).open(&self.tty).unwrap();
        tty.write_all(&[0]).unwrap();
        self.until_written("the end of what was written", |raw| nul(raw) > before);
    }

    /// Waits until the program stands still: continuing it before it has stopped would be lost on it.
    pub fn until_stopped(&self) {
        let id = self.child.process_id().unwrap().to_string();
        self.until("a stopped process", |_| {
            let state = Command::new("ps").args(["-o", "stat=", "-p", &id]).output().unwrap().stdout;
            state.starts_with(b"T")
        });
    }

    /// Waits for the program's end.
    pub fn ended(&mut self) -> ExitStatus {
        self.ended_after(|_| {})
    }

    /// The same, doing something each time that it has not ended yet.
    pub fn ended_after(&mut self, mut meanwhile: impl FnMut(&mut Self)) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            meanwhile(self);
            if start.elapsed() >= PATIENCE {
                self.child.kill().unwrap();
                panic!("it does not end\n{}", self.contents());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until everything that was switched on is off again: by the emulator, by the bytes, by the tty itself.
    /// A terminal on which nothing was ever switched on is not meant: what is waited for must have been there.
    pub fn until_whole(&self) {
        for (on, off) in [(b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?1004h", b"\x1b[?1004l")] {
            self.until_written("a mode on and off again", |raw| last(raw, off) > last(raw, on));
        }
        self.until("a whole terminal", |screen| {
            !screen.alternate_screen()
                && !screen.hide_cursor()
                && !screen.bracketed_paste()
                && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
        });
        self.until_written("no open update", |raw| last(raw, b"\x1b[?2026l") >= last(raw, b"\x1b[?2026h"));
        let start = Instant::now();
        // Raw mode goes last, a moment after the bytes above.
        while !self.is_cooked() {
            assert!(start.elapsed() < PATIENCE, "the tty is still raw");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the tty edits lines and echoes, as a shell expects.
    fn is_cooked(&self) -> bool {
        let output = Command::new("stty").arg("-F").arg(&self.tty).arg("-a").output().unwrap();
        let modes = String::from_utf8(output.stdout).unwrap();
        let has = |mode: &str| modes.split([' ', ';', '\n']).any(|word| word == mode);
        has("icanon") && has("echo") && has("isig")
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // Already ended in every test that went well.
        let _ = self.child.kill();
    }
}
