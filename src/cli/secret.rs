//! Input of secrets from a person or another program: a hidden prompt, or a file descriptor.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};

use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, read as next_event};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use zeroize::Zeroizing;

use super::CommandFailure;
use bardo_base::secret::{LONGEST_SECRET, Password};
use bardo_safety::custody::{SHORTEST_PASSWORD, for_a_new_key};

/// Reads a secret: the first line of descriptor `fd`, or input at a prompt.
pub(super) fn read(fd: Option<u32>, what: &str) -> Result<Zeroizing<String>, CommandFailure> {
    match fd {
        Some(fd) => from_descriptor(fd, what),
        None => from_prompt(what),
    }
}

/// Reads a password for encryption. A prompt asks for it twice.
pub(super) fn new_password(fd: Option<u32>, what: &str) -> Result<Password, CommandFailure> {
    let asked = match fd {
        Some(_) => what.to_owned(),
        None => format!("{what}, at least {SHORTEST_PASSWORD} characters"),
    };
    let password = for_a_new_key(password(&read(fd, &asked)?))?;
    if fd.is_none() && !password.is(&self::password(&from_prompt("repeat it")?)) {
        return Err("the two passwords differ: nothing was created".into());
    }
    Ok(password)
}

pub(super) fn password(text: &Zeroizing<String>) -> Password {
    Password::new(text.as_str().to_owned())
}

/// Reads several secrets: one line each from descriptor `fd`, or input at consecutive prompts.
pub(super) fn read_all(fd: Option<u32>, what: &[String]) -> Result<Vec<Zeroizing<String>>, CommandFailure> {
    let Some(fd) = fd.filter(|_| !what.is_empty()) else { return what.iter().map(|what| from_prompt(what)).collect() };
    // Opened once, since a file that is opened again starts at its first line.
    let file = open(fd, "passwords")?;
    what.iter().map(|what| line(&file, fd, what)).collect()
}

fn from_descriptor(fd: u32, what: &str) -> Result<Zeroizing<String>, CommandFailure> {
    line(&open(fd, what)?, fd, what)
}

fn failed(fd: u32, what: &str, error: &dyn std::fmt::Display) -> CommandFailure {
    CommandFailure::usage(format!("cannot read the {what} from descriptor {fd}: {error}"))
}

fn open(fd: u32, what: &str) -> Result<File, CommandFailure> {
    // Opening by path avoids unsafe code and gives the same pipe or file.
    let file = File::open(format!("/dev/fd/{fd}")).map_err(|error| failed(fd, what, &error))?;
    if file.is_terminal() {
        return Err(failed(fd, what, &"it is a terminal, which would show it; remove the option to be asked"));
    }
    Ok(file)
}

/// Reads the next line of a descriptor.
fn line(file: &File, fd: u32, what: &str) -> Result<Zeroizing<String>, CommandFailure> {
    let failed = |error: &dyn std::fmt::Display| failed(fd, what, error);
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST_SECRET + 1));
    let mut file = file.take(LONGEST_SECRET as u64 + 1);
    // One byte at a time, since the bytes after the line are for other readers.
    loop {
        let mut byte = [0u8; 1];
        match file.read(&mut byte).map_err(|error| failed(&error))? {
            0 => break,
            _ if byte == *b"\n" => break,
            _ => bytes.extend_from_slice(&byte),
        }
    }
    if bytes.len() > LONGEST_SECRET {
        return Err(failed(&format!("it is longer than {LONGEST_SECRET} bytes")));
    }
    if bytes.ends_with(b"\r") {
        bytes.pop();
    }
    if bytes.is_empty() {
        return Err(failed(&"it is empty"));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| failed(&"it is not UTF-8 text"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Guard that restores the terminal's mode on drop.
struct RawModeGuard;

impl RawModeGuard {
    fn enter() -> io::Result<Self> {
        enable_raw_mode()?;
        Ok(Self)
    }
}

impl Drop for RawModeGuard {
    fn drop(&mut self) {
        // There is no way to recover from a terminal that refuses.
        let _ = disable_raw_mode();
        let _ = writeln!(io::stderr());
    }
}

fn from_prompt(what: &str) -> Result<Zeroizing<String>, CommandFailure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let text =
            format!("no terminal is available to ask for the {what}: pass it through a file descriptor (see --help)");
        return Err(CommandFailure::usage(text));
    }
    // Raw mode must start before the prompt; otherwise early input would be displayed.
    let _raw = RawModeGuard::enter()?;
    eprint!("{what}: ");
    io::stderr().flush()?;
    // Full capacity from the start, so that growing leaves no copies in memory.
    let mut typed = Zeroizing::new(String::with_capacity(LONGEST_SECRET));
    loop {
        let Event::Key(key) = next_event()? else { continue };
        if key.kind != KeyEventKind::Press {
            continue;
        }
        let held = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Enter => return Ok(typed),
            KeyCode::Char('c' | 'd') if held => return Err("stopped at the prompt: nothing was changed".into()),
            KeyCode::Esc => return Err("stopped at the prompt: nothing was changed".into()),
            KeyCode::Char('u') if held => typed.clear(),
            KeyCode::Backspace => {
                typed.pop();
            }
            KeyCode::Char(letter) if !held && typed.len() + letter.len_utf8() <= LONGEST_SECRET => typed.push(letter),
            _ => {}
        }
    }
}
