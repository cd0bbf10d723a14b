"""A brain that attacks its console. It reads its targets from `go.json` beside it, and writes the result of each
attack into the folder `out` beside it: `name -> null` for a failed attack, or else its gain."""
import ctypes, fcntl, json, os, signal, socket, struct, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, 'out')
libc = ctypes.CDLL(None, use_errno=True)
results, reasons = {}, {}
INHERITED = []
for number in range(3, 1024):
    try:
        os.fstat(number)
        INHERITED.append(number)
    except OSError:
        pass


def say(**line):
    print(json.dumps(line), flush=True)


def hear(wanted):
    while True:
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        line = json.loads(line)
        if line['type'] == wanted:
            return line


def attack(name, how):
    try:
        got = how()
        results[name] = 'succeeded' if got is None else str(got)[:200]
    except BaseException as error:
        results[name] = None
        reasons[name] = '%s: %s' % (type(error).__name__, str(error)[:120])


def call(number, *arguments):
    """A system call by its number; raises OSError on failure."""
    came = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(argument) for argument in arguments])
    if came == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return came


def write(path, text='x', flags=os.O_WRONLY):
    file = os.open(path, flags, 0o600)
    os.write(file, text.encode())
    os.close(file)


def read(path):
    with open(path, 'rb') as file:
        return file.read(64)


def connect(family, kind, place):
    with socket.socket(family, kind) as one:
        one.connect(place)


def inject(path):
    file = os.open(path, os.O_RDWR | os.O_NOCTTY)
    for letter in b'a\r':
        fcntl.ioctl(file, 0x5412, bytes([letter]))


def standard(request, argument):
    """Makes the request on each standard descriptor: one success is enough."""
    problem = None
    for file in range(3):
        try:
            return fcntl.ioctl(file, request, argument)
        except OSError as error:
            # ENOTTY: the answer of a pipe if the request was not refused.
            if error.errno == 25:
                return 'not refused: reached the descriptor'
            problem = error
    raise problem


def memory(pid):
    with open('/proc/%d/mem' % pid, 'r+b', 0) as file:
        return file


def vm_read(pid):
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
    remote = (ctypes.c_size_t * 2)(0x400000, 8)
    return call(310, pid, ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0)


def killed(number, *arguments):
    """A call that should end the calling process."""
    child = os.fork()
    if child == 0:
        try:
            call(number, *arguments)
            os._exit(0)
        except OSError:
            os._exit(7)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        raise PermissionError('ended by signal %d' % os.WTERMSIG(status))
    return 'went on: %d' % status


def link(kind, target, name):
    path = os.path.join(os.environ['TMPDIR'], name)
    kind(target, path)
    return read(path)


def run(*command, **environment):
    came = subprocess.run(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    if came.returncode:
        raise RuntimeError(came.stderr.decode(errors='replace')[-120:])


hear('hello')
while not os.path.exists(os.path.join(HERE, 'go.json')):
    time.sleep(0.02)
go = json.load(open(os.path.join(HERE, 'go.json')))
console, tty, home = go['console'], go['tty'], go['home']
data, config = os.path.join(home, 'data'), os.path.join(home, 'config.toml')
above = os.path.join('..', *['..'] * 12)

attack('tty_open', lambda: write('/dev/tty'))
attack('tty_inject', lambda: inject('/dev/tty'))
attack('pts_write', lambda: write(tty, '\x1b[2J\x1b[HPAINTED-OVER'))
attack('pts_read', lambda: os.read(os.open(tty, os.O_RDONLY | os.O_NONBLOCK), 1))
attack('pts_inject', lambda: inject(tty))
attack('ptmx', lambda: os.open('/dev/ptmx', os.O_RDWR))
attack('sti', lambda: standard(0x5412, b'a'))
attack('linux', lambda: standard(0x541C, b'\x03'))
attack('high_bits', lambda: call(16, 0, 0x5412 | 1 << 32, id(b'a')) if os.uname().machine == 'x86_64' else 1 / 0)
for who, pid in (('console', console), ('supervisor', os.getppid())):
    attack(who + '_mem', lambda: memory(pid))
    for name in ('environ', 'maps', 'cmdline', 'status', 'stat', 'mountinfo'):
        attack('%s_%s' % (who, name), lambda: read('/proc/%d/%s' % (pid, name)))
    attack(who + '_fds', lambda: os.listdir('/proc/%d/fd' % pid))
    attack(who + '_root', lambda: os.listdir('/proc/%d/root/' % pid))
    attack(who + '_cwd', lambda: os.listdir('/proc/%d/cwd/' % pid))
    attack(who + '_fd0', lambda: os.open('/proc/%d/fd/0' % pid, os.O_RDWR))
    attack(who + '_kill', lambda: os.kill(pid, signal.SIGCONT))
    attack(who + '_limits', lambda: __import__('resource').prlimit(pid, __import__('resource').RLIMIT_NOFILE, (8, 8)))
    attack(who + '_priority', lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
    attack(who + '_ptrace', lambda: call(101, 16, pid, 0, 0))
    attack(who + '_vm', lambda: vm_read(pid))
attack('kill_group', lambda: os.killpg(console, signal.SIGCONT))
attack('kill_all', lambda: os.kill(1, 0))
attack('unix_path', lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, go['socket']))
attack('unix_datagram', lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
attack('unix_abstract', lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, go['abstract']))
attack('unix_pair', lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', go['socket']))
attack('netlink', lambda: socket.socket(16, socket.SOCK_RAW))
attack('vsock', lambda: socket.socket(40, socket.SOCK_STREAM))
attack('tmux', lambda: run('tmux', '-S', go['socket'], 'send-keys', 'a'))
for name, path in (('key', go['key']), ('ledger', go['ledger']), ('config', config)):
    attack(name + '_read', lambda: read(path))
    attack(name + '_write', lambda: write(path))
    attack(name + '_truncate', lambda: os.truncate(path, 0))
    attack(name + '_open_truncate', lambda: os.open(path, os.O_RDONLY | os.O_TRUNC))
    attack(name + '_remove', lambda: os.remove(path))
    attack(name + '_rename', lambda: os.rename(path, os.path.join(os.environ['TMPDIR'], name)))
    attack(name + '_mode', lambda: os.chmod(path, 0o666))
    attack(name + '_times', lambda: os.utime(path, (1, 1)))
    attack(name + '_attribute', lambda: os.setxattr(path, 'user.x', b'1'))
    attack(name + '_owner', lambda: os.chown(path, os.getuid(), os.getgid()))
    attack(name + '_symlink', lambda: link(os.symlink, path, name + '-symbolic'))
    attack(name + '_hardlink', lambda: link(os.link, path, name + '-hard'))
    attack(name + '_dots', lambda: read(os.path.join(os.environ['TMPDIR'], above) + path))
    attack(name + '_self_root', lambda: read('/proc/self/root' + path))
    attack(name + '_relative', lambda: (os.chdir('/'), read(path[1:])))
    attack(name + '_path_only', lambda: read('/proc/self/fd/%d' % os.open(path, os.O_PATH)))
attack('data_list', lambda: os.listdir(data))
attack('home_list', lambda: os.listdir(home))
attack('data_create', lambda: write(os.path.join(data, 'x'), flags=os.O_WRONLY | os.O_CREAT))
attack('stop_file', lambda: write(os.path.join(data, 'STOP'), flags=os.O_WRONLY | os.O_CREAT))
attack('home_create', lambda: write(os.path.join(home, 'policy-devnet.toml'), flags=os.O_WRONLY | os.O_CREAT))
attack('data_mode', lambda: os.chmod(data, 0o777))
attack('bardo_resume', lambda: run(go['bardo'], 'resume', BARDO_HOME=home))
attack('bardo_launcher', lambda: run(go['bardo'], '__run-confined', '{}'))
attack('io_uring', lambda: call(425, 1, 0))
attack('setuid', lambda: os.setuid(1000))
attack('setsid', os.setsid)
attack('setpgid', lambda: os.setpgid(0, 0))
attack('unshare', lambda: call(272, 0x10000000))
attack('namespace', lambda: call(56, 0x10000000 | 17, 0, 0, 0, 0))
attack('clone3', lambda: call(435, 0, 0))
attack('mount', lambda: call(165, 0, 0, 0, 0, 0))
attack('chroot', lambda: os.chroot('/'))
attack('mknod', lambda: os.mknod(os.path.join(os.environ['TMPDIR'], 'tty'), 0o20600, os.makedev(5, 0)))
attack('bpf', lambda: call(321, 0, 0, 0))
attack('keyctl', lambda: call(250, 0, -3, 0, 0, 0))
attack('userfaultfd', lambda: call(323, 0))
attack('perf', lambda: call(298, 0, 0, -1, -1, 0))
attack('pidfd_getfd', lambda: call(438, call(434, console, 0), 0, 0))
attack('kcmp', lambda: call(312, console, os.getpid(), 0, 0, 0))
for name, number in (('shmget', 29), ('shmat', 30), ('shmctl', 31), ('semget', 64), ('semop', 65), ('semctl', 66),
                     ('msgget', 68), ('msgsnd', 69), ('msgrcv', 70), ('msgctl', 71), ('semtimedop', 220)):
    # A new object of 4096 bytes, or the existing object with id 4096.
    attack('ipc_' + name, lambda: call(number, 0 if name.endswith('get') else 4096, 4096, 0o600, 0, 0))
NAME = ctypes.create_string_buffer(b'bardo-attack')
attack('ipc_mq_open', lambda: call(240, ctypes.addressof(NAME), os.O_RDWR | os.O_CREAT, 0o600, 0))
attack('ipc_mq_unlink', lambda: call(241, ctypes.addressof(NAME)))
attack('x32', lambda: killed(0x40000000 + 41, 1, 1, 0))
results['descriptors'] = INHERITED
results['environment'] = sorted(os.environ)
results['reasons'] = reasons
with open(os.path.join(OUT, 'part'), 'w') as file:
    json.dump(results, file)
os.rename(os.path.join(OUT, 'part'), os.path.join(OUT, 'results.json'))
hear('bye')
