//! Notifications of the desktop: over a bus of these tests, which speaks the D-Bus specification's protocol, honestly and
//! otherwise. Only a build with the feature has the channel.

#[cfg(not(feature = "desktop-alerts"))]
#[test]
fn a_build_without_the_feature_says_so_before_a_session_starts() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), "[alerts]\ndesktop = true\n").unwrap();
    for (arguments, exit) in [(&["alerts", "test", "desktop"][..], 1), (&["serve"], 2)] {
        let (out, err, code) = super::run(super::bardo(home.path()).args(arguments));
        assert_eq!((out.as_str(), code), ("", exit), "{err}");
        assert!(err.contains("built without it: build it with --features desktop-alerts"), "{err}");
    }
}

#[cfg(all(feature = "desktop-alerts", target_os = "linux"))]
mod bus {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::{Duration, Instant};

    use tempfile::TempDir;

    use crate::{bardo, run};

    /// Types of messages, by the D-Bus specification.
    const METHOD_CALL: u8 = 1;
    const METHOD_RETURN: u8 = 2;
    const ERROR: u8 = 3;
    /// Codes of header fields, by the D-Bus specification.
    const ERROR_NAME: u8 = 4;
    const REPLY_SERIAL: u8 = 5;
    const DESTINATION: u8 = 6;
    const SENDER: u8 = 7;
    const SIGNATURE: u8 = 8;

    /// Behaviours of the notification server.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Server {
        Shows,
        /// Answers with an error, whose long text has control characters and a secret-looking colour sequence.
        Refuses,
        /// Answers with a text instead of the notification's number.
        AnswersNonsense,
        Stalls,
        /// Is not there: the bus answers for it.
        Absent,
        /// Ends the connection.
        Leaves,
        /// Accepts the connection, and does not even greet.
        Silent,
    }

    /// Arguments of `Notify` that matter here.
    #[derive(Debug)]
    struct Notification {
        app: String,
        replaces: u32,
        summary: String,
        body: String,
    }

    /// Position in a little-endian message.
    struct Reader<'a> {
        bytes: &'a [u8],
        at: usize,
    }

    impl Reader<'_> {
        fn align(&mut self, to: usize) {
            self.at = self.at.next_multiple_of(to);
        }

        fn byte(&mut self) -> u8 {
            self.at += 1;
            self.bytes[self.at - 1]
        }

        fn number(&mut self) -> u32 {
            self.align(4);
            self.at += 4;
            u32::from_le_bytes(self.bytes[self.at - 4..self.at].try_into().unwrap())
        }

        fn text(&mut self) -> String {
            let length = self.number() as usize;
            self.ended_text(length)
        }

        fn signature(&mut self) -> String {
            let length = usize::from(self.byte());
            self.ended_text(length)
        }

        fn ended_text(&mut self, length: usize) -> String {
            let text = std::str::from_utf8(&self.bytes[self.at..self.at + length]).unwrap().to_owned();
            self.at += length + 1;
            text
        }
    }

    fn put_number(message: &mut Vec<u8>, number: u32) {
        message.resize(message.len().next_multiple_of(4), 0);
        message.extend(number.to_le_bytes());
    }

    fn put_text(message: &mut Vec<u8>, text: &str) {
        put_number(message, u32::try_from(text.len()).unwrap());
        message.extend(text.bytes());
        message.push(0);
    }

    /// One header field: its code, its type, its value.
    fn put_field(fields: &mut Vec<u8>, code: u8, kind: u8, value: impl FnOnce(&mut Vec<u8>)) {
        fields.resize(fields.len().next_multiple_of(8), 0);
        fields.extend([code, 1, kind, 0]);
        value(fields);
    }

    /// A reply with a body of one value.
    fn reply(to: u32, sender: &str, error: Option<&str>, kind: u8, body: &[u8]) -> Vec<u8> {
        let mut fields = Vec::new();
        put_field(&mut fields, REPLY_SERIAL, b'u', |fields| put_number(fields, to));
        put_field(&mut fields, SENDER, b's', |fields| put_text(fields, sender));
        put_field(&mut fields, DESTINATION, b's', |fields| put_text(fields, ":1.7"));
        put_field(&mut fields, SIGNATURE, b'g', |fields| fields.extend([1, kind, 0]));
        if let Some(name) = error {
            put_field(&mut fields, ERROR_NAME, b's', |fields| put_text(fields, name));
        }
        // No reply is expected to a reply; the protocol's version is 1.
        let mut message = vec![b'l', if error.is_some() { ERROR } else { METHOD_RETURN }, 1, 1];
        put_number(&mut message, u32::try_from(body.len()).unwrap());
        put_number(&mut message, to + 1);
        put_number(&mut message, u32::try_from(fields.len()).unwrap());
        message.extend(fields);
        message.resize(message.len().next_multiple_of(8), 0);
        message.extend(body);
        message
    }

    fn with_text(text: &str) -> Vec<u8> {
        let mut body = Vec::new();
        put_text(&mut body, text);
        body
    }

    /// Text of a hostile server: it clears the screen, and does not end.
    fn hostile_text() -> String {
        format!("\u{1b}[2J\u{202e}no room {}", "x".repeat(100_000))
    }

    /// Holds one conversation as the bus, and as the notification server behind it, until the client leaves.
    fn converse(stream: UnixStream, server: Server, shown: &Sender<Notification>) -> Option<()> {
        if server == Server::Silent {
            std::thread::sleep(Duration::from_secs(60));
            return None;
        }
        let mut writer = stream.try_clone().ok()?;
        let mut stream = BufReader::new(stream);
        let mut nul = [1];
        stream.read_exact(&mut nul).ok()?;
        assert_eq!(nul, [0], "the conversation begins with a zero byte");
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).ok()?;
            match line.trim_end() {
                "BEGIN" => break,
                "NEGOTIATE_UNIX_FD" => writer.write_all(b"AGREE_UNIX_FD\r\n").ok()?,
                text if text.starts_with("AUTH EXTERNAL") => {
                    writer.write_all(b"OK 0123456789abcdef0123456789abcdef\r\n").ok()?;
                }
                other => panic!("no part of the protocol: {other:?}"),
            }
        }
        loop {
            let mut head = [0; 16];
            stream.read_exact(&mut head).ok()?;
            assert_eq!((head[0], head[3]), (b'l', 1), "byte order and version");
            let at = |from: usize| u32::from_le_bytes(head[from..from + 4].try_into().unwrap());
            let (body_length, serial, fields_length) = (at(4) as usize, at(8), at(12) as usize);
            let mut rest = vec![0; fields_length.next_multiple_of(8) + body_length];
            stream.read_exact(&mut rest).ok()?;
            if head[1] != METHOD_CALL {
                continue;
            }
            let mut fields = Reader { bytes: &rest[..fields_length], at: 0 };
            let (mut member, mut destination, mut signature) = (String::new(), String::new(), String::new());
            while fields.at < fields_length {
                fields.align(8);
                let code = fields.byte();
                let value = match fields.signature().as_str() {
                    "s" | "o" => fields.text(),
                    "g" => fields.signature(),
                    "u" => fields.number().to_string(),
                    other => panic!("unexpected type of a header field: {other}"),
                };
                match code {
                    3 => member = value,
                    DESTINATION => destination = value,
                    SIGNATURE => signature = value,
                    _ => {}
                }
            }
            let bus = "org.freedesktop.DBus";
            let answer = match (destination.as_str(), member.as_str()) {
                ("org.freedesktop.DBus", "Hello") => reply(serial, bus, None, b's', &with_text(":1.7")),
                ("org.freedesktop.Notifications", "Notify") => {
                    assert_eq!(signature, "susssasa{sv}i", "the desktop notifications specification");
                    let mut body = Reader { bytes: &rest[fields_length.next_multiple_of(8)..], at: 0 };
                    let (app, replaces, _icon) = (body.text(), body.number(), body.text());
                    let (summary, text) = (body.text(), body.text());
                    shown.send(Notification { app, replaces, summary, body: text }).ok()?;
                    match server {
                        Server::Shows => reply(serial, ":1.3", None, b'u', &41_u32.to_le_bytes()),
                        Server::Refuses => {
                            let name = "org.freedesktop.DBus.Error.LimitsExceeded";
                            reply(serial, ":1.3", Some(name), b's', &with_text(&hostile_text()))
                        }
                        Server::AnswersNonsense => reply(serial, ":1.3", None, b's', &with_text(&hostile_text())),
                        Server::Absent => {
                            let name = "org.freedesktop.DBus.Error.ServiceUnknown";
                            let why = "The name is not activatable";
                            reply(serial, bus, Some(name), b's', &with_text(why))
                        }
                        Server::Leaves => return None,
                        Server::Stalls | Server::Silent => continue,
                    }
                }
                other => panic!("unexpected call: {other:?}"),
            };
            writer.write_all(&answer).ok()?;
        }
    }

    /// A bus in `home`, whose notifications go to the returned end.
    fn start_bus(home: &TempDir, server: Server) -> Receiver<Notification> {
        let listener = UnixListener::bind(home.path().join("bus")).unwrap();
        let (shown, notifications) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shown) = (stream.unwrap(), shown.clone());
                std::thread::spawn(move || converse(stream, server, &shown));
            }
        });
        notifications
    }

    fn home(more: &str) -> TempDir {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config.toml"), format!("[alerts]\ndesktop = true\n{more}\n")).unwrap();
        home
    }

    fn address(home: &Path) -> String {
        format!("unix:path={}", home.join("bus").display())
    }

    /// Sends the message for trying; returns what is printed.
    fn test_alert(home: &TempDir) -> (String, String, i32) {
        run(bardo(home.path())
            .env("DBUS_SESSION_BUS_ADDRESS", address(home.path()))
            .args(["alerts", "test", "desktop"]))
    }

    #[test]
    fn a_notification_arrives_with_its_whole_text() {
        let home = home("");
        let shown = start_bus(&home, Server::Shows);
        let (out, err, code) = test_alert(&home);
        assert_eq!((out.as_str(), code), ("sent  desktop     this machine's desktop  → shown\n", 0), "{err}");
        let notification = shown.recv_timeout(Duration::from_secs(5)).unwrap();
        assert_eq!((notification.app.as_str(), notification.replaces), ("Bardo", 0));
        assert_eq!(notification.summary, "Bardo: This is a test of Bardo's alerts.");
        let last = "Nothing can be approved through this message, and replies are not read.";
        assert!(notification.body.contains("\nWhere: no network\nAt: "), "{notification:?}");
        assert!(notification.body.ends_with(last), "{notification:?}");
    }

    /// Runs `bardo serve` until it is dropped.
    struct Served(Child);

    impl Drop for Served {
        fn drop(&mut self) {
            let _ended = self.0.kill();
            let _ended = self.0.wait();
        }
    }

    #[test]
    fn a_session_reports_a_stop_without_its_markup_and_without_secrets() {
        let home = home(
            "detail = \"full\"\nrules = [\"stop\"]\ntelegram_chat = \"1\"\ntelegram_api_url = \"http://127.0.0.1:9\"\n\
             telegram_token_file = \"TOKEN\"",
        );
        let file = home.path().join("token");
        std::fs::write(&file, "7001:CANARY-token_of-a-bot").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let config = home.path().join("config.toml");
        let text = std::fs::read_to_string(&config).unwrap().replace("TOKEN", &file.display().to_string());
        std::fs::write(&config, text).unwrap();
        let shown = start_bus(&home, Server::Shows);
        let mut command = Command::new(env!("CARGO_BIN_EXE_bardo"));
        command.args(["--brain", "operator", "serve"]).env_clear().env("BARDO_HOME", home.path());
        command.env("DBUS_SESSION_BUS_ADDRESS", address(home.path())).stdin(Stdio::null()).stdout(Stdio::null());
        let mut served = Served(command.stderr(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(served.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("serving at"), "{line}");
        let reason = "<b>now</b> & <a href=\"https://evil.example\">here</a>";
        let (_, err, code) = run(bardo(home.path()).args(["halt", "--reason", reason]));
        assert_eq!(code, 0, "{err}");
        let notification = shown.recv_timeout(Duration::from_secs(120)).unwrap();
        assert_eq!(notification.summary, "Bardo: A stop was raised: halt.");
        let escaped = "&lt;b&gt;now&lt;/b&gt; &amp; &lt;a href=\"https://evil.example\"&gt;here&lt;/a&gt;";
        assert!(notification.body.contains(escaped), "{notification:?}");
        assert!(!notification.body.contains(['<', '>']), "{notification:?}");
        assert!(!format!("{notification:?}").contains("CANARY"), "{notification:?}");
    }

    /// Sends to `server`; checks that the failure is reported in time, in one short line that starts with `why`.
    fn fails(server: Option<Server>, why: &str, within: Duration) {
        let home = home("");
        let _shown = server.map(|server| start_bus(&home, server));
        let began = Instant::now();
        let (out, err, code) = test_alert(&home);
        assert!(began.elapsed() < within, "{server:?} took {:?}", began.elapsed());
        assert_eq!(code, 1, "{server:?}: {out}{err}");
        let expected = format!("FAIL  desktop     this machine's desktop  → {why}");
        assert!(out.starts_with(&expected), "{server:?}: {out:?}");
        assert!(out.chars().count() < 450 && out.lines().count() == 1, "{server:?}: {} characters", out.len());
        assert!(!out.contains(['\u{1b}', '\u{202e}']), "{server:?}: {out:?}");
    }

    #[test]
    fn a_desktop_that_fails_is_reported_in_one_line() {
        let quickly = Duration::from_secs(8);
        fails(None, "the desktop shows no notifications: ", quickly);
        let limits = "the desktop shows no notifications: org.freedesktop.DBus.Error.LimitsExceeded: ";
        fails(Some(Server::Refuses), limits, quickly);
        fails(Some(Server::AnswersNonsense), "the desktop shows no notifications: ", quickly);
        let unknown = "the desktop shows no notifications: org.freedesktop.DBus.Error.ServiceUnknown: ";
        fails(Some(Server::Absent), unknown, quickly);
        fails(Some(Server::Leaves), "the desktop shows no notifications: ", quickly);
    }

    #[test]
    fn a_desktop_that_does_not_answer_is_given_up() {
        std::thread::scope(|scope| {
            for server in [Server::Stalls, Server::Silent] {
                scope.spawn(move || fails(Some(server), "the desktop does not answer", Duration::from_secs(30)));
            }
        });
    }
}
