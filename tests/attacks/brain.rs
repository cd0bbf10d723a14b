//! A brain process that tries to act as the operator.
//!
//! `programs/hostile.py` makes every attempt in one run inside the real console on a pseudo-terminal; each case here
//! checks the results of some attempts. Other cases run a small program of their own.

use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::{Value, json};

use crate::real_network::{PASSWORD, RealNetwork};

/// Timeout, long enough for the slowest machine.
const TIMEOUT: Duration = Duration::from_secs(120);
const BARDO: &str = env!("CARGO_BIN_EXE_bardo");
const SECRET: &str = "BARDO_TEST_SECRET_VALUE";

/// Data root, and a separate folder for brain programs in which they can write only to `out`.
pub struct Fixture {
    pub home: tempfile::TempDir,
    programs: tempfile::TempDir,
}

impl Fixture {
    pub fn new(golem: &str) -> Self {
        let (home, programs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let out = programs.path().join("out");
        std::fs::create_dir(&out).unwrap();
        let config = format!("network = \"devnet\"\n[golem]\nwrite = [{out:?}]\n{golem}\n");
        std::fs::write(home.path().join("config.toml"), config).unwrap();
        Self { home, programs }
    }

    fn out(&self, name: &str) -> PathBuf {
        self.programs.path().join("out").join(name)
    }

    fn program(&self, name: &str, text: &str) -> PathBuf {
        let file = self.programs.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    }

    /// Headless run with this command as its brain.
    fn run(&self, brain: &str) -> Command {
        let mut command = Command::new(BARDO);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("BARDO_HOME", self.home.path());
        command.env("HOME", std::env::var_os("HOME").unwrap());
        command.args(["golem", "run", "--headless", "--brain", &format!("process:{brain}")]);
        command.stdin(Stdio::null());
        command
    }

    /// Headless run with a Python program of these lines as its brain.
    fn python(&self, lines: &str) -> Command {
        self.run(&format!("python3 {}", self.program("brain.py", &format!("{HEAD}{lines}")).display()))
    }
}

/// First lines of every Python program: the protocol's messages, and results in files.
const HEAD: &str = "import json, os, socket, sys, time\n\
    OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'out')\n\
    def say(**line): print(json.dumps(line), flush=True)\n\
    def hear(wanted):\n    while True:\n        line = sys.stdin.readline()\n        if not line: sys.exit(0)\n\
    \x20       line = json.loads(line)\n        if line['type'] == wanted: return line\n\
    def tell(name, what):\n    with open(os.path.join(OUT, 'part'), 'w') as file: json.dump(what, file)\n\
    \x20   os.rename(os.path.join(OUT, 'part'), os.path.join(OUT, name))\n\
    hear('tick')\n";

/// Runs a command; returns its output, also as one text.
fn run_to_end(command: &mut Command) -> (Output, String) {
    let output = command.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output, text)
}

/// Waits until `found` returns a value. `what` describes it for the error.
pub fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < TIMEOUT, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn read_json(path: &Path) -> Option<Value> {
    std::fs::read(path).ok().map(|bytes| serde_json::from_slice(&bytes).unwrap())
}

/// Console on a pseudo-terminal.
pub struct Console {
    child: Box<dyn portable_pty::Child + Send + Sync>,
    tty: PathBuf,
    screen: Arc<Mutex<vt100::Parser>>,
    pub pair: portable_pty::PtyPair,
}

impl Console {
    pub fn open(fixture: &Fixture, brain: &str, variables: &[(&str, &str)]) -> Self {
        Self::open_with(fixture, brain, variables, &[])
    }

    /// Opens a console with additional arguments.
    fn open_with(fixture: &Fixture, brain: &str, variables: &[(&str, &str)], arguments: &[String]) -> Self {
        let size = PtySize { rows: 44, cols: 120, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(BARDO);
        command.env("BARDO_HOME", fixture.home.path());
        command.env("TERM", "xterm-256color");
        for (name, value) in variables {
            command.env(name, value);
        }
        command.cwd(fixture.programs.path());
        command.args(arguments);
        command.args(["--brain", &format!("process:{brain}")]);
        let tty = pair.master.tty_name().unwrap();
        let child = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(cells(44), cells(120), 0)));
        let sink = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                sink.lock().unwrap().process(&buffer[..count]);
            }
        });
        Self { child, tty, screen, pair }
    }

    pub fn shown(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// First line of the screen, which only Bardo writes.
    fn header(&self) -> String {
        self.shown().lines().next().unwrap_or_default().to_owned()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Results of a run of `hostile.py`, and the state afterwards.
struct HostileRun {
    results: Value,
    /// Text on the console's screen.
    shown: String,
    /// True if configuration, key and ledger are unchanged.
    config_kept: bool,
    /// True if the stop is unchanged and the data folder has no new file.
    data_kept: bool,
    /// Number of connections that arrived at the test's sockets.
    connections: usize,
    console_alive: bool,
}

static HOSTILE_RUN: LazyLock<Option<HostileRun>> = LazyLock::new(|| {
    if !has("python3") {
        return None;
    }
    let fixture = Fixture::new(&format!("read = [{:?}]\n", Path::new(BARDO).parent().unwrap()));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attacks/programs/hostile.py");
    let script = fixture.program("hostile.py", &std::fs::read_to_string(script).unwrap());
    let sockets = tempfile::tempdir().unwrap();
    let (path, abstract_name) = (sockets.path().join("default"), format!("bardo-attack-{}", std::process::id()));
    let listeners = [
        UnixListener::bind(&path).unwrap(),
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap(),
    ];
    let data = fixture.home.path().join("data");
    std::fs::create_dir_all(data.join("keys")).unwrap();
    std::fs::write(data.join("keys/main.json"), "a key").unwrap();
    std::fs::write(data.join("ledger-of-old.db"), "a ledger").unwrap();
    let config = std::fs::read_to_string(fixture.home.path().join("config.toml")).unwrap();
    let variables = [("BARDO_SECRET", SECRET), ("OTHER_SECRET", SECRET), ("BARDO_MODEL_KEY", SECRET)];
    let mut console = Console::open(&fixture, &format!("python3 {}", script.display()), &variables);
    until("the console runs", || console.shown().contains("RUNNING").then_some(()));
    // A stop for the program to lift.
    let mut halt = Command::new(BARDO);
    halt.args(["halt", "--reason", "attacked"]).env_clear().env("BARDO_HOME", fixture.home.path());
    let (output, said) = run_to_end(&mut halt);
    assert!(output.status.success(), "{said}");
    let stop = std::fs::read(data.join("STOP")).unwrap();
    let go = json!({
        "console": console.child.process_id().unwrap(), "tty": console.tty, "home": fixture.home.path(), "bardo": BARDO,
        "socket": path, "abstract": format!("\0{abstract_name}"), "key": data.join("keys/main.json"),
        "ledger": data.join("ledger-of-old.db"),
    });
    std::fs::write(fixture.programs.path().join("part"), go.to_string()).unwrap();
    std::fs::rename(fixture.programs.path().join("part"), fixture.programs.path().join("go.json")).unwrap();
    let results = until("the attacks' results", || {
        let ended = console.child.try_wait().unwrap();
        assert!(ended.is_none(), "the console ended: {ended:?}");
        read_json(&fixture.out("results.json"))
    });
    let connections = listeners.iter().filter(|listener| {
        listener.set_nonblocking(true).unwrap();
        listener.accept().is_ok()
    });
    let unchanged = |name: &str, text: &str, path: PathBuf| {
        let found = std::fs::metadata(&path).unwrap();
        let times = found.mtime() > 1;
        let same = std::fs::read_to_string(&path).unwrap() == text && times && found.mode() & 0o777 != 0o666;
        assert!(same, "{name} was changed");
        same
    };
    let config_kept = unchanged("config", &config, fixture.home.path().join("config.toml"))
        && unchanged("key", "a key", data.join("keys/main.json"))
        && unchanged("ledger", "a ledger", data.join("ledger-of-old.db"));
    Some(HostileRun {
        connections: connections.count(),
        config_kept,
        data_kept: !data.join("x").exists() && std::fs::read(data.join("STOP")).unwrap() == stop,
        shown: console.shown(),
        console_alive: console.child.try_wait().unwrap().is_none(),
        results,
    })
});

fn cells(count: u16) -> std::num::NonZero<u16> {
    std::num::NonZero::new(count).unwrap()
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Asserts that every attempt whose name has this prefix was refused, and that there were at least `least` attempts.
fn assert_refused(prefix: &str, least: usize) {
    let Some(run) = &*HOSTILE_RUN else { return };
    let tried: Vec<_> = run.results.as_object().unwrap().iter().filter(|(name, _)| name.starts_with(prefix)).collect();
    assert!(tried.len() >= least, "{prefix}: only {} attempts", tried.len());
    for (name, result) in tried {
        assert!(result.is_null(), "{name}: {result}");
        // A misspelt attempt would fail as well, but for another reason.
        let reason = run.results["reasons"][name].as_str().unwrap();
        let is_refusal = ["PermissionError", "signal 31", "RuntimeError", "Errno 38", "Errno 18"]
            .iter()
            .any(|word| reason.contains(word));
        assert!(is_refusal, "{name} failed for another reason: {reason}");
    }
}

#[test]
fn it_neither_reads_nor_writes_the_controlling_terminal() {
    assert_refused("tty_", 2);
    assert_refused("sti", 1);
    assert_refused("linux", 1);
    assert_refused("high_bits", 1);
}

/// Session and controlling terminal of a process, from `/proc`.
fn session_and_terminal(process: u64) -> (u64, i64) {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // Fields after the name, which may contain anything: state, parent, group, session, terminal.
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    (fields[3].parse().unwrap(), fields[4].parse().unwrap())
}

#[test]
fn it_and_its_supervisor_run_in_their_own_session_without_a_terminal() {
    if !has("python3") {
        return;
    }
    let fixture = Fixture::new("");
    let lines = "tell('found', [os.getpid(), os.getppid()])\nhear('bye')\n";
    let brain = format!("python3 {}", fixture.program("brain.py", &format!("{HEAD}{lines}")).display());
    let console = Console::open(&fixture, &brain, &[]);
    let found = until("its processes", || read_json(&fixture.out("found")));
    let [brain, supervisor] = [0, 1].map(|place| found[place].as_u64().unwrap());
    let (session, terminal) = session_and_terminal(console.child.process_id().unwrap().into());
    assert_ne!(terminal, 0, "the console has a terminal");
    for process in [brain, supervisor] {
        assert_eq!(session_and_terminal(process), (supervisor, 0), "the console's session is {session}");
    }
}

#[test]
fn other_processes_of_the_user_cannot_read_the_consoles_memory() {
    use std::os::unix::fs::chown;
    use std::os::unix::process::CommandExt as _;

    let fixture = Fixture::new("");
    let mut command = fixture.run("sleep 600");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // Root can read every process, so the protection shows only to another user.
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        let nobody = 65_534;
        for path in [fixture.home.path(), &fixture.home.path().join("config.toml"), fixture.programs.path()] {
            chown(path, Some(nobody), Some(nobody)).unwrap();
        }
        command.uid(nobody).gid(nobody);
    }
    let mut golem = command.spawn().unwrap();
    until("its ledger", || fixture.home.path().join("data/ledger").exists().then_some(()));
    let owner_of = |process: u32| std::fs::metadata(format!("/proc/{process}/mem")).map(|found| found.uid());
    let owner = owner_of(golem.id());
    // The process that supervises the brain is a child of the console.
    let supervisor = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", golem.id())).ok()?;
        let children = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
        let children: Vec<u32> = children.flat_map(|text| numbers(&text)).collect();
        let is_supervisor = |process: &u32| {
            let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            line.windows(14).any(|part| part == b"__run-confined")
        };
        children.into_iter().find(is_supervisor)
    };
    let found = until("its supervisor", supervisor);
    // The supervisor protects its memory first after its start. The console must be ended even if it does not.
    let deadline = Instant::now() + TIMEOUT;
    while owner_of(found).is_ok_and(|owner| owner != 0) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let owner_of_supervisor = owner_of(found);
    golem.kill().unwrap();
    golem.wait().unwrap();
    assert_eq!((owner.unwrap(), owner_of_supervisor.unwrap()), (0, 0));
}

fn numbers(text: &str) -> Vec<u32> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn it_cannot_open_the_consoles_terminal_by_name() {
    assert_refused("pts_", 3);
    assert_refused("ptmx", 1);
    let Some(run) = &*HOSTILE_RUN else { return };
    assert!(!run.shown.contains("PAINTED-OVER"), "{}", run.shown);
}

#[test]
fn it_reads_nothing_of_the_consoles_process() {
    assert_refused("console_mem", 1);
    for name in ["environ", "maps", "cmdline", "status", "fds", "root", "cwd", "fd0"] {
        assert_refused(&format!("console_{name}"), 1);
    }
}

#[test]
fn it_reads_nothing_of_its_supervisor() {
    assert_refused("supervisor_mem", 1);
    for name in ["environ", "maps", "fds", "root", "cwd", "fd0", "ptrace", "vm"] {
        assert_refused(&format!("supervisor_{name}"), 1);
    }
}

#[test]
fn it_cannot_trace_any_process() {
    for name in ["console_ptrace", "console_vm", "pidfd_getfd", "kcmp"] {
        assert_refused(name, 1);
    }
}

#[test]
fn it_cannot_signal_the_console_or_change_its_limits() {
    for name in ["console_kill", "supervisor_kill", "kill_group", "kill_all", "console_limits", "console_priority"] {
        assert_refused(name, 1);
    }
    assert!(HOSTILE_RUN.as_ref().is_none_or(|run| run.console_alive));
}

#[test]
fn it_cannot_connect_to_unix_sockets_of_other_programs() {
    assert_refused("unix_", 4);
    assert_refused("netlink", 1);
    assert_refused("vsock", 1);
    assert_eq!(HOSTILE_RUN.as_ref().map_or(0, |run| run.connections), 0, "a connection arrived");
}

#[test]
fn it_neither_reads_nor_changes_key_files() {
    assert_refused("key_", 14);
}

#[test]
fn it_neither_reads_nor_changes_the_ledger() {
    assert_refused("ledger_", 14);
}

#[test]
fn it_neither_reads_nor_changes_the_configuration() {
    assert_refused("config_", 14);
    assert!(HOSTILE_RUN.as_ref().is_none_or(|run| run.config_kept));
}

#[test]
fn it_cannot_write_a_stop_file_or_anything_else_in_bardos_folders() {
    for name in ["data_", "home_", "stop_file"] {
        assert_refused(name, 1);
    }
    assert!(HOSTILE_RUN.as_ref().is_none_or(|run| run.data_kept));
}

#[test]
fn a_bardo_process_that_it_starts_cannot_change_the_stop() {
    assert_refused("bardo_", 2);
    assert!(HOSTILE_RUN.as_ref().is_none_or(|run| run.data_kept));
}

#[test]
fn it_cannot_use_other_kernel_interfaces() {
    let calls = ["io_uring", "setsid", "setpgid", "unshare", "namespace", "clone3", "mount", "chroot", "mknod", "bpf"];
    for name in calls.into_iter().chain(["keyctl", "userfaultfd", "perf"]) {
        assert_refused(name, 1);
    }
    #[cfg(target_arch = "x86_64")]
    assert_refused("x32", 1);
}

#[test]
fn it_leaves_no_shared_memory_behind_and_cannot_read_that_of_others() {
    assert_refused("ipc_", 13);
}

#[test]
fn deeply_nested_folders_do_not_crash_the_console() {
    if !has("python3") {
        return;
    }
    let fixture = Fixture::new("");
    // Each folder is moved into a new one: building downwards, the kernel would walk all of them for every new one.
    let lines = "scratch = os.environ['TMPDIR']\nos.chdir(scratch)\nos.mkdir('top')\nfor _ in range(20000):\n    os.mkdir('new')\n\
        \x20   os.rename('top', 'new/d')\n    os.rename('new', 'top')\n\
        tell('scratch', scratch)\nsay(type='done')\nhear('bye')\n";
    let brain = format!("python3 {}", fixture.program("brain.py", &format!("{HEAD}{lines}")).display());
    let mut console = Console::open(&fixture, &brain, &[]);
    let scratch = until("the nested folders", || read_json(&fixture.out("scratch")));
    let scratch = PathBuf::from(scratch.as_str().unwrap());
    until("the scratch folder removed", || {
        let ended = console.child.try_wait().unwrap();
        assert!(ended.is_none(), "the console ended: {ended:?}");
        (!scratch.exists()).then_some(())
    });
}

/// Script in a folder that does not belong to the program, removed on drop.
struct Planted(PathBuf);

impl Drop for Planted {
    fn drop(&mut self) {
        let _removed = if self.0.is_dir() { std::fs::remove_dir_all(&self.0) } else { std::fs::remove_file(&self.0) };
    }
}

#[test]
fn a_script_in_a_foreign_or_shared_folder_cannot_read_the_files_beside_it() {
    // Only root can create the script there. Unit tests of `confinement::plan` cover the definition of such a folder.
    if !has("python3") || std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let name = format!("bardo-attack-{}", std::process::id());
    let home = Path::new("/home").join(&name);
    let state = Path::new("/var/lib").join(format!("{name}.py"));
    std::fs::create_dir_all(&home).unwrap();
    let _planted = [Planted(home.clone()), Planted(state.clone())];
    std::fs::write(home.join("secret"), "s").unwrap();
    for (script, folder, beside) in
        [(home.join("bot.py"), home.clone(), home.join("secret")), (state, "/var/lib".into(), "/var/lib/dpkg".into())]
    {
        let fixture = Fixture::new("");
        let lines = format!(
            "OUT = {:?}\ndef tried(what):\n    try: return bool(what() or True)\n    except OSError: return False\n\
             tell('found', [tried(lambda: os.listdir({folder:?})), tried(lambda: os.open({beside:?}, os.O_RDONLY)),\n\
             \x20   tried(lambda: open(__file__).read())])\nsay(type='done')\nhear('bye')\n",
            fixture.programs.path().join("out"),
        );
        std::fs::write(&script, format!("{HEAD}{lines}")).unwrap();
        let (output, said) = run_to_end(&mut fixture.run(&format!("python3 {}", script.display())));
        assert!(output.status.success(), "{said}");
        assert_eq!(read_json(&fixture.out("found")), Some(json!([false, false, true])), "{}", script.display());
    }
}

#[test]
fn it_gains_no_rights_by_changing_user_ids() {
    assert_refused("setuid", 1);
}

#[test]
fn it_receives_no_secret_from_the_environment() {
    let Some(run) = &*HOSTILE_RUN else { return };
    let names: Vec<&str> = run.results["environment"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(names.contains(&"PATH") && names.contains(&"TMPDIR"), "{names:?}");
    let secret = names.iter().filter(|name| name.starts_with("BARDO") || name.contains("SECRET"));
    assert_eq!(secret.count(), 0, "{names:?}");
}

#[test]
fn it_inherits_no_open_files_of_the_console_or_its_shell() {
    let Some(run) = &*HOSTILE_RUN else { return };
    assert_eq!(run.results["descriptors"], json!([]));
    // Including descriptors that a careless shell leaves open.
    let fixture = Fixture::new("");
    std::fs::write(fixture.home.path().join("secret"), "s").unwrap();
    let lines = "found = []\nfor number in range(3, 256):\n    try:\n        os.fstat(number)\n        found.append(number)\n\
        \x20   except OSError: pass\ntell('found', found)\nsay(type='done')\nhear('bye')\n";
    let bardo = fixture.python(lines);
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 7<\"$BARDO_HOME/secret\" 9<>/dev/null; exec \"$@\"", "sh"]);
    shell.arg(bardo.get_program()).args(bardo.get_args()).env_clear().stdin(Stdio::null());
    shell.envs(bardo.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let (output, said) = run_to_end(&mut shell);
    assert!(output.status.success(), "{said}");
    assert_eq!(read_json(&fixture.out("found")), Some(json!([])));
}

/// Processes that double-fork and try to leave the session, for either way in which Bardo ends.
fn survivors(kill: bool) {
    if !has("python3") {
        return;
    }
    let fixture = Fixture::new("");
    let lines = "born = []\nfor leave in (lambda: None, os.setsid, lambda: os.setpgid(0, 0)):\n    back, out = os.pipe()\n\
        \x20   if os.fork() == 0:\n        try: leave()\n        except OSError: pass\n        if os.fork() == 0:\n\
        \x20           os.write(out, b'%d' % os.getpid())\n            for file in range(0, 9):\n\
        \x20               try: os.close(file)\n                except OSError: pass\n            time.sleep(600)\n\
        \x20       os._exit(0)\n    born.append(int(os.read(back, 20)))\ntell('born', born + [os.getpid(), os.getppid()])\n\
        end = os.path.join(OUT, 'end')\nwhile not os.path.exists(end): time.sleep(0.02)\nsay(type='done')\nhear('bye')\n";
    let mut bardo = fixture.python(lines).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let born = until("its children", || read_json(&fixture.out("born")));
    let runs = |id: &u64| {
        let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
        state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
    };
    let born: Vec<u64> = born.as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    assert_eq!(born.iter().filter(|id| runs(id)).count(), 5);
    if kill {
        bardo.kill().unwrap();
    } else {
        std::fs::write(fixture.out("end"), "").unwrap();
    }
    bardo.wait().unwrap();
    until("the end of all that it started", || (!born.iter().any(runs)).then_some(()));
}

#[test]
fn processes_that_it_started_end_with_bardo() {
    survivors(false);
}

#[test]
fn processes_that_it_started_end_with_a_killed_bardo() {
    survivors(true);
}

#[test]
fn a_program_in_a_protected_folder_is_not_started() {
    let fixture = Fixture::new("");
    let inside = fixture.home.path().join("brain.py");
    std::fs::write(&inside, "").unwrap();
    let linked = fixture.programs.path().join("linked.py");
    std::os::unix::fs::symlink(&inside, &linked).unwrap();
    for script in [inside, linked] {
        let (output, said) = run_to_end(&mut fixture.run(&format!("sh {}", script.display())));
        assert!(!output.status.success() && said.contains("the brain must not access"), "{said}");
    }
}

#[test]
fn the_configuration_cannot_open_the_protected_folders() {
    for (key, path) in [("read", ""), ("read", "data"), ("write", "data/keys"), ("write", ".."), ("read", "/")] {
        let fixture = Fixture::new("");
        std::fs::create_dir_all(fixture.home.path().join("data/keys")).unwrap();
        let place = fixture.home.path().join(path);
        std::fs::write(fixture.home.path().join("config.toml"), format!("[golem]\n{key} = [{place:?}]\n")).unwrap();
        let (output, said) = run_to_end(&mut fixture.run("sh -c true"));
        assert!(!output.status.success() && said.contains("the brain must not access"), "{key} {path}: {said}");
    }
    let fixture = Fixture::new("environment = [\"BARDO_MODEL_KEY\"]");
    let (output, said) = run_to_end(&mut fixture.run("sh -c true"));
    assert!(!output.status.success() && said.contains("golem.environment"), "{said}");
}

#[test]
fn without_network_no_connection_is_possible() {
    if !has("python3") {
        return;
    }
    for (network, wanted) in [(true, true), (false, false)] {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let fixture = Fixture::new(&format!("network = {network}\n"));
        let lines = format!(
            "def tried(what):\n    try: return bool(what() or True)\n    except OSError: return False\n\
             tell('found', [tried(lambda: socket.create_connection(('127.0.0.1', {port})).close()),\n\
             \x20   tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),\n\
             \x20   tried(lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM))])\nsay(type='done')\nhear('bye')\n"
        );
        let (output, said) = run_to_end(&mut fixture.python(&lines));
        assert!(output.status.success(), "{said}");
        assert_eq!(read_json(&fixture.out("found")), Some(json!([wanted, wanted, wanted])), "network = {network}");
    }
}

#[test]
fn an_ordinary_python_program_works_confined() {
    if !has("python3") {
        return;
    }
    let fixture = Fixture::new("environment = [\"STRATEGY\"]");
    fixture.program("helper.py", "NUMBER = 7\n");
    let lines = "import asyncio, helper, sqlite3, ssl, subprocess, tempfile, threading\n\
        with tempfile.TemporaryFile() as file: file.write(b'x')\nasyncio.run(asyncio.sleep(0))\nssl.create_default_context()\n\
        sqlite3.connect(os.path.join(os.environ['TMPDIR'], 'a.db')).execute('create table a (b)')\n\
        thread = threading.Thread(target=lambda: None)\nthread.start()\nthread.join()\n\
        made = subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True).stdout\n\
        tell('found', [helper.NUMBER, made.decode().strip(), os.environ['STRATEGY'], os.environ['TMPDIR']])\n\
        say(type='done')\nhear('bye')\n";
    let (output, said) = run_to_end(fixture.python(lines).env("STRATEGY", "slow"));
    assert!(output.status.success(), "{said}");
    let found = read_json(&fixture.out("found")).unwrap();
    assert_eq!(found.as_array().unwrap()[..3], [json!(7), json!("1"), json!("slow")]);
    let scratch = PathBuf::from(found[3].as_str().unwrap());
    until("the scratch folder removed", || (!scratch.exists()).then_some(()));
}

#[test]
fn an_ordinary_node_program_works_confined() {
    if !has("node") {
        return;
    }
    let fixture = Fixture::new("");
    fixture.program("helper.js", "exports.number = 7\n");
    let text = "const fs = require('fs'), path = require('path'), { execFileSync } = require('child_process')\n\
        const say = (line) => process.stdout.write(JSON.stringify(line) + '\\n')\n\
        require('readline').createInterface({ input: process.stdin }).on('line', (text) => {\n\
        \x20 if (JSON.parse(text).type === 'bye') process.exit(0)\n  if (JSON.parse(text).type !== 'tick') return\n\
        \x20 fs.writeFileSync(path.join(require('os').tmpdir(), 'x'), 'x')\n\
        \x20 const made = execFileSync(process.execPath, ['-e', 'console.log(1)']).toString().trim()\n\
        \x20 fs.writeFileSync(path.join(__dirname, 'out', 'found'), JSON.stringify([require('./helper').number, made]))\n\
        \x20 say({ type: 'done' })\n})\n";
    let script = fixture.program("brain.js", text);
    let (output, said) = run_to_end(&mut fixture.run(&format!("node {}", script.display())));
    assert!(output.status.success(), "{said}");
    assert_eq!(read_json(&fixture.out("found")), Some(json!([7, "1"])));
}

#[cfg(debug_assertions)]
#[test]
fn a_real_network_rejects_a_brain_that_the_system_cannot_isolate() {
    let fixture = Fixture::new("");
    let run = |allow: &str, arguments: &[&str]| {
        let config = format!("[golem]\nbrain = \"process:sh -c true\"\n{allow}\n");
        std::fs::write(fixture.home.path().join("config.toml"), config).unwrap();
        let mut command = Command::new(BARDO);
        command.env_clear().env("BARDO_HOME", fixture.home.path()).env("BARDO_TEST_NO_LANDLOCK", "1");
        run_to_end(command.args(arguments).stdin(Stdio::null()))
    };
    let real = ["--network", "sepolia", "--rpc", "sepolia=http://127.0.0.1:9"];
    let (output, said) = run("", &real);
    assert!(!output.status.success() && said.contains("brain not isolated"), "{said}");
    assert!(said.contains("golem.allow_unisolated_brain = true"), "{said}");
    let (_, said) = run("allow_unisolated_brain = true", &real);
    assert!(!said.contains("brain not isolated"), "{said}");
    let (_, said) = run("", &["doctor"]);
    assert!(said.contains("brain not isolated"), "{said}");
}

#[cfg(debug_assertions)]
#[test]
fn the_launcher_starts_no_process_that_it_cannot_isolate() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    for (allow_unisolated, starts) in [(false, false), (true, true)] {
        let specification = json!({
            "parent": std::process::id(), "program": "/bin/sh", "arguments": ["-c", format!("> {started:?}")],
            "read": ["/"], "write": [folder.path()], "network": false, "allow_unisolated": allow_unisolated,
            "simulate_absent": true,
        });
        for role in ["__enter-confined", "__run-confined"] {
            let mut launcher = Command::new(BARDO);
            launcher.env_clear().args([role, &specification.to_string()]).stdin(Stdio::null());
            let output = launcher.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(said.contains("brain not isolated"), !starts, "{role}: {said}");
            assert_eq!(std::fs::remove_file(&started).is_ok(), starts, "{role}: {said}");
            assert_eq!(output.status.success(), starts, "{role}: {said}");
        }
    }
}

#[cfg(debug_assertions)]
#[test]
fn the_header_shows_that_the_brain_is_not_isolated() {
    let fixture = Fixture::new("");
    let console = Console::open(&fixture, "sleep 600", &[("BARDO_TEST_NO_LANDLOCK", "1")]);
    until("the header", || console.header().contains("brain not isolated").then_some(()));
    let console = Console::open(&fixture, "sleep 600", &[]);
    until("the console runs", || console.header().contains("RUNNING").then_some(()));
    assert!(!console.shown().contains("not isolated"), "{}", console.shown());
}

#[cfg(debug_assertions)]
#[test]
fn requests_of_a_brain_without_isolation_need_the_keys_password() {
    if !has("python3") {
        return;
    }
    let (network, fixture) = (RealNetwork::start(31), Fixture::new(""));
    network.settle_in(fixture.home.path(), "[golem]\nallow_unisolated_brain = true");
    let lines = "params = dict(token_in='USDC', token_out='WETH', amount='50', chain='mine', prefer_uniswapx=False)\n\
        say(type='call', id='1', tool='preview_action', params=dict(kind='swap', params=params))\n\
        offered = hear('result')['response']['data']\n\
        params = dict(permit_id=offered['permit_id'], simulation_hash=offered['simulation_hash'])\n\
        say(type='call', id='2', tool='commit_action', params=params)\nhear('bye')\n";
    let brain = format!("python3 {}", fixture.program("brain.py", &format!("{HEAD}{lines}")).display());
    let variables = [("BARDO_TEST_NO_LANDLOCK", "1")];
    let console = Console::open_with(&fixture, &brain, &variables, &network.arguments());
    let mut keys = console.pair.master.take_writer().unwrap();
    let mut typed = |text: &str, then: &str| {
        keys.write_all(text.as_bytes()).unwrap();
        keys.flush().unwrap();
        until(then, || console.shown().contains(then).then_some(()));
    };
    let opens = || console.shown().contains("password of the key main").then_some(());
    until("the password that opens the key", opens);
    typed(&format!("{PASSWORD}\r"), "WAITS FOR YOU (a)");
    assert!(console.header().contains("brain not isolated"), "{}", console.shown());
    typed("a", "nothing is selected");
    // A new dialog ignores keys for a moment.
    std::thread::sleep(Duration::from_secs(2));
    typed("a", "selected: approve once");
    // Everything that a program can do that types on this keyboard.
    typed("\r", "password of your key");
    assert_eq!(network.sends(), 0, "{}", console.shown());
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(network.sends(), 0, "{}", console.shown());
    keys.write_all(PASSWORD.as_bytes()).unwrap();
    keys.flush().unwrap();
    // An Enter inside a paste does not count as the operator's.
    std::thread::sleep(Duration::from_secs(1));
    keys.write_all(b"\r").unwrap();
    keys.flush().unwrap();
    until("the signed transaction", || (network.sends() > 0).then_some(()));
}
