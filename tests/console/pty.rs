//! A program in a pseudo-terminal, and the contents of its screen.

use std::io::{Read, Write};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, SlavePty, native_pty_system};

/// Escape sequence that clears the screen.
const CLEAR: &[u8] = b"\x1b[2J";
/// Escape sequences that begin and end a synchronized update.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";
/// Timeout of a condition, long enough for the slowest machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Output that was read so far.
struct Seen {
    parser: vt100::Parser,
    raw: Vec<u8>,
    /// Number of bytes that the terminal shows: an update is not shown before its end.
    shown: usize,
}

impl Seen {
    /// Shows complete updates; after the program's end, everything.
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
                // The last bytes may be the beginning of a begin sequence.
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
    // Kept open, so that the terminal outlives the program and its modes can be read.
    _slave: Box<dyn SlavePty + Send>,
    // Default working directory, so that files written there do not collide.
    _folder: tempfile::TempDir,
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

/// Last position of `bytes`.
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

    /// Starts the harness with these environment variables.
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

    /// Waits until the screen satisfies `holds`.
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

    /// Waits until the written bytes satisfy `holds`.
    pub fn until_written(&self, what: &str, holds: impl Fn(&[u8]) -> bool) {
        let start = Instant::now();
        while !holds(&self.raw()) {
            assert!(start.elapsed() < PATIENCE, "waited in vain: {what}\n{}", self.contents());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the screen shows `words`.
    pub fn until_shown(&self, words: &str) {
        self.until(words, |screen| screen.contents().contains(words));
    }

    /// Waits until `read` finds a value on the screen, which may be incomplete until then.
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

    /// Waits until the screen no longer shows `words`.
    pub fn until_gone(&self, words: &str) {
        self.until(&format!("no {words}"), |screen| !screen.contents().contains(words));
    }

    /// Text of the screen.
    pub fn contents(&self) -> String {
        self.seen.lock().unwrap().parser.screen().contents()
    }

    /// Every byte that the program wrote.
    pub fn raw(&self) -> Vec<u8> {
        self.seen.lock().unwrap().raw.clone()
    }

    /// Types these keys.
    pub fn type_keys(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    /// Resizes the terminal.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.seen.lock().unwrap().parser.screen_mut().set_size(cells(rows), cells(columns));
        let before = self.raw().len();
        self.master.resize(size(columns, rows)).unwrap();
        // A resize redraws everything; earlier keys would apply to the previous picture.
        self.until_written("a picture of the new size", |raw| {
            raw[before..].windows(CLEAR.len()).any(|window| window == CLEAR)
        });
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        let id = self.child.process_id().unwrap().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Waits until all output of a stopped program was read.
    pub fn until_drained(&self) {
        // A terminal shows nothing for a NUL, and the program writes none: it arrives after all earlier output.
        let nul = |raw: &[u8]| raw.iter().filter(|byte| **byte == 0).count();
        let before = nul(&self.raw());
        let mut tty = std::fs::OpenOptions::new().write(true).open(&self.tty).unwrap();
        tty.write_all(&[0]).unwrap();
        self.until_written("the end of what was written", |raw| nul(raw) > before);
    }

    /// Waits until the program is stopped: a signal to continue would be lost before that.
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

    /// Waits for the program's end, and calls `meanwhile` until then.
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

    /// Waits until every terminal mode is switched off again: in the emulator, in the bytes, and in the tty itself. The
    /// modes must have been switched on before.
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
        // Raw mode is reset last, a moment after the bytes above.
        while !self.is_cooked() {
            assert!(start.elapsed() < PATIENCE, "the tty is still raw");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// True if the tty edits lines and echoes, as a shell expects.
    fn is_cooked(&self) -> bool {
        let output = Command::new("stty").arg("-F").arg(&self.tty).arg("-a").output().unwrap();
        let modes = String::from_utf8(output.stdout).unwrap();
        let has = |mode: &str| modes.split([' ', ';', '\n']).any(|word| word == mode);
        has("icanon") && has("echo") && has("isig")
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // Already ended in every successful test.
        let _ = self.child.kill();
    }
}
