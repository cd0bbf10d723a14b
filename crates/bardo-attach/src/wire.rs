//! Lines of the protocol between a served session and its consoles.

use std::fmt;
use std::io::{Error, ErrorKind};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};
use zeroize::{Zeroize as _, Zeroizing};

use bardo_base::model::StopLevel;
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_session::handle::{AddressedCommand, SessionCommand};

/// Version of the protocol. Consoles and sessions of different versions refuse each other.
pub const VERSION: u32 = 1;

/// Maximum length of a console's greeting, in bytes.
pub const MAX_HELLO: u64 = 1 << 10;

/// Maximum length of a line from a console, in bytes.
pub const MAX_FROM_CONSOLE: u64 = 1 << 20;

/// Maximum length of a line from a session, in bytes. A full history of events is the longest.
pub const MAX_FROM_SESSION: u64 = 64 << 20;

/// Rights of an attached console.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rights {
    /// Every command of the session protocol.
    Operate,
    /// Queries, stops, and second approvals: anyone who watches may stop signing, and only an operator lifts that. A second
    /// approval is a signature, which counts through any connection.
    Watch,
}

impl Rights {
    /// True if a console with these rights may send `command`.
    pub fn allow(self, command: &SessionCommand) -> bool {
        match command {
            SessionCommand::Look { .. } | SessionCommand::Hold => true,
            SessionCommand::Raise { level, .. } => match level {
                StopLevel::Pause | StopLevel::ExitOnly | StopLevel::Halt => true,
                // They do more than stop: one offers to sell everything, the other ends session keys for good.
                StopLevel::Flatten | StopLevel::Revoke => self == Self::Operate,
            },
            // The signature decides, not the connection that it comes through.
            SessionCommand::ApproveSecond { .. } => true,
            SessionCommand::Call { .. }
            | SessionCommand::Offer { .. }
            | SessionCommand::Commit { .. }
            | SessionCommand::Cancel { .. }
            | SessionCommand::Answer { .. }
            | SessionCommand::ReleaseHold
            | SessionCommand::AskToLower { .. }
            | SessionCommand::AskToLeavePaper
            | SessionCommand::EnterPaper
            | SessionCommand::AskToResetBreaker
            | SessionCommand::Say { .. }
            | SessionCommand::RevokeGrant { .. }
            | SessionCommand::Rebroadcast { .. }
            | SessionCommand::Label { .. }
            | SessionCommand::Devnet(_)
            | SessionCommand::Replay(_)
            | SessionCommand::Scenario { .. }
            | SessionCommand::Step
            | SessionCommand::Leave(_) => self == Self::Operate,
        }
    }
}

/// First line of a console.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Version of the console's protocol.
    pub bardo: u32,
    /// Token of the serving session, from its file.
    pub token: String,
    /// Rights that the console wants.
    pub rights: Rights,
}

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hello").field("bardo", &self.bardo).field("rights", &self.rights).finish_non_exhaustive()
    }
}

impl Drop for Hello {
    fn drop(&mut self) {
        self.token.zeroize();
    }
}

/// First line of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Greeting {
    /// The console is attached with these rights.
    Welcome {
        /// Rights of the console.
        rights: Rights,
    },
    /// The console is not attached.
    Refused {
        /// Reason for the refusal.
        why: SafeText,
    },
}

/// Command of a console.
#[derive(Debug)]
pub struct FromConsole {
    /// Command with the Golem that it concerns.
    pub sent: AddressedCommand,
}

/// Written form of [`FromConsole`]: a password travels beside its answer, since an answer is never serialized with it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    sent: AddressedCommand,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    password: Option<Typed>,
}

/// Password on the wire, wiped from memory on drop.
struct Typed(Zeroizing<String>);

impl Serialize for Typed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Typed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Zeroizing::new(String::deserialize(deserializer)?)))
    }
}

impl FromConsole {
    /// Writes the command as one line.
    ///
    /// # Errors
    /// An error if the command cannot be written as JSON.
    pub fn to_line(&self) -> Result<Zeroizing<String>, serde_json::Error> {
        let password = match &self.sent.command {
            SessionCommand::Answer { password: Some(password), .. } => {
                Some(Typed(Zeroizing::new(String::from_utf8_lossy(password.expose()).into_owned())))
            }
            _ => None,
        };
        let written = Written { sent: self.sent.clone(), password };
        // Room for the longest password, so that no copy of it is left behind where the text grows.
        let mut line = Zeroizing::new(Vec::with_capacity(16 << 10));
        serde_json::to_writer(&mut *line, &written)?;
        line.push(b'\n');
        Ok(Zeroizing::new(String::from_utf8_lossy(&line).into_owned()))
    }

    /// Parses one line.
    ///
    /// # Errors
    /// An error if the line is not a command, or if a password stands beside a command that takes none.
    pub fn parse(line: &str) -> Result<Self, serde_json::Error> {
        let Written { mut sent, password: typed } = serde_json::from_str(line)?;
        match (&mut sent.command, typed) {
            (_, None) => {}
            (SessionCommand::Answer { password, .. }, Some(typed)) => {
                *password = Some(Password::new(typed.0.to_string()))
            }
            (_, Some(_)) => return Err(serde::de::Error::custom("a password stands beside a command that takes none")),
        }
        Ok(Self { sent })
    }
}

/// Reads one line of at most `limit` bytes; `None` at the end of the stream.
///
/// # Errors
/// The stream's error; [`ErrorKind::InvalidData`] for a longer line, an unfinished one, or one that is not UTF-8.
pub async fn read_line(
    from: &mut (impl AsyncBufRead + Unpin),
    limit: u64,
) -> std::io::Result<Option<Zeroizing<String>>> {
    let mut bytes = Zeroizing::new(Vec::new());
    let read = from.take(limit).read_until(b'\n', &mut bytes).await?;
    if read == 0 {
        return Ok(None);
    }
    if bytes.pop() != Some(b'\n') {
        return Err(Error::new(ErrorKind::InvalidData, "a line is too long or unfinished"));
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Some(Zeroizing::new(text.to_owned()))),
        Err(_) => Err(Error::new(ErrorKind::InvalidData, "a line is not UTF-8")),
    }
}

/// Parses a line as one JSON value.
///
/// # Errors
/// [`ErrorKind::InvalidData`] with the parser's message.
pub fn parse<T: DeserializeOwned>(line: &str) -> std::io::Result<T> {
    serde_json::from_str(line).map_err(|error| Error::new(ErrorKind::InvalidData, error.to_string()))
}

/// Writes a value as one line.
///
/// # Errors
/// [`ErrorKind::InvalidData`] if the value cannot be written as JSON.
pub fn line_of(value: &impl Serialize) -> std::io::Result<String> {
    let mut line = serde_json::to_string(value).map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
    line.push('\n');
    Ok(line)
}
