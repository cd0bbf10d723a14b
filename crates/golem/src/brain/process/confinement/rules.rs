//! Landlock and seccomp rules. Everything that is not listed here keeps the system's defaults.

use super::launch::LaunchSpecification;
use super::{Isolation, IsolationMeasure, LaunchError};

#[cfg(target_os = "linux")]
pub(super) use linux::{available, restrict};

/// Reports that nothing is enforced: only Linux has both mechanisms.
#[cfg(not(target_os = "linux"))]
pub(super) fn available(_: bool) -> Isolation {
    Isolation::without([IsolationMeasure::Files, IsolationMeasure::SystemCalls, IsolationMeasure::Signals])
}

/// Restricts nothing on this system.
#[cfg(not(target_os = "linux"))]
pub(super) fn restrict(_: &LaunchSpecification) -> Result<Isolation, LaunchError> {
    Ok(available(false))
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;

    use landlock::{
        ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
        RulesetStatus, Scope, path_beneath_rules,
    };
    use libc::c_long;
    use rustix::thread::{CapabilitySet, CapabilitySets};
    use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
        TargetArch, apply_filter, sock_filter,
    };

    use super::super::error::SeccompError;
    use super::super::plan::DEVICES;
    use super::{Isolation, IsolationMeasure, LaunchError, LaunchSpecification};

    /// Newest Landlock ABI whose rights are used if the kernel supports them.
    const NEWEST: ABI = ABI::V10;
    /// Oldest Landlock ABI that prevents truncating files.
    const OLDEST: ABI = ABI::V3;
    /// First Landlock ABI that scopes signals and abstract sockets.
    const SCOPED: ABI = ABI::V6;

    /// Returns the measures that the kernel supports, found by creating rule sets without applying them.
    pub(in super::super) fn available(simulated_absent: bool) -> Isolation {
        let hard = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let files = hard().handle_access(AccessFs::from_all(OLDEST)).and_then(Ruleset::create).is_ok();
        let signals = hard().scope(Scope::from_all(SCOPED)).and_then(Ruleset::create).is_ok();
        let calls = target().is_some() && std::path::Path::new("/proc/sys/kernel/seccomp/actions_avail").exists();
        let measures = [
            (IsolationMeasure::Files, files && !simulated_absent),
            (IsolationMeasure::SystemCalls, calls),
            (IsolationMeasure::Signals, signals && !simulated_absent),
        ];
        Isolation::without(measures.into_iter().filter(|(_, has)| !has).map(|(measure, _)| measure))
    }

    /// Drops the rights of this process and its descendants, irreversibly. Returns the measures in force.
    ///
    /// # Errors
    /// Returns a description if capabilities, privileges or Landlock rules cannot be set.
    pub(in super::super) fn restrict(specification: &LaunchSpecification) -> Result<Isolation, LaunchError> {
        let mut missing = available(specification.simulate_absent()).missing().to_vec();
        drop_capabilities()?;
        rustix::thread::set_no_new_privs(true).map_err(LaunchError::Privileges)?;
        if !missing.contains(&IsolationMeasure::Files) {
            files(specification)?;
        }
        if !missing.contains(&IsolationMeasure::SystemCalls) && system_calls(specification.network).is_err() {
            missing.push(IsolationMeasure::SystemCalls);
        }
        Ok(Isolation::without(missing))
    }

    /// Drops all capabilities, so that a program run by root has no special powers.
    fn drop_capabilities() -> Result<(), LaunchError> {
        for bit in 0..u64::BITS {
            // This fails without CAP_SETPCAP and for unknown capabilities; there is then nothing to drop.
            let _kept = rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit));
        }
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets).map_err(LaunchError::Capabilities)
    }

    fn files(specification: &LaunchSpecification) -> Result<(), LaunchError> {
        let read = AccessFs::from_read(NEWEST);
        // The process cannot create devices or sockets, and cannot execute what it has written.
        let write = AccessFs::from_write(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock)
            | AccessFs::ReadFile
            | AccessFs::ReadDir;
        let write = write & !BitFlags::from(AccessFs::IoctlDev) & !BitFlags::from(AccessFs::ResolveUnix);
        let devices = AccessFs::ReadFile | AccessFs::WriteFile;
        let mut rules = Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))
            .and_then(|rules| rules.scope(Scope::from_all(NEWEST)))
            .map_err(LaunchError::Landlock)?;
        if !specification.network {
            rules = rules.handle_access(AccessNet::from_all(NEWEST)).map_err(LaunchError::Landlock)?;
        }
        let status = rules
            .create()
            .and_then(|rules| rules.add_rules(path_beneath_rules(&specification.read, read)))
            .and_then(|rules| rules.add_rules(path_beneath_rules(&specification.write, write)))
            .and_then(|rules| rules.add_rules(path_beneath_rules(DEVICES, devices)))
            .and_then(landlock::RulesetCreated::restrict_self)
            .map_err(LaunchError::Landlock)?;
        match status.ruleset {
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
            RulesetStatus::NotEnforced => Err(LaunchError::NotEnforced),
        }
    }

    fn target() -> Option<TargetArch> {
        std::env::consts::ARCH.try_into().ok()
    }

    /// System calls that are refused with any arguments.
    const REFUSED: &[c_long] = &[
        // Access to other processes.
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_process_madvise,
        libc::SYS_process_mrelease,
        libc::SYS_kcmp,
        libc::SYS_pidfd_getfd,
        libc::SYS_move_pages,
        libc::SYS_migrate_pages,
        // Leaving the process group, which is used to kill everything together.
        libc::SYS_setsid,
        libc::SYS_setpgid,
        // io_uring can create sockets that no filter sees.
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        // Shared memory, semaphores and message queues outlive the program, and their ids expose those of other
        // programs.
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_shmctl,
        libc::SYS_semget,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_semctl,
        libc::SYS_msgget,
        libc::SYS_msgsnd,
        libc::SYS_msgrcv,
        libc::SYS_msgctl,
        libc::SYS_mq_open,
        libc::SYS_mq_unlink,
        // Kernel keyrings and kernel internals.
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_keyctl,
        libc::SYS_userfaultfd,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_fanotify_init,
        libc::SYS_open_by_handle_at,
        libc::SYS_kexec_load,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_acct,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_reboot,
        libc::SYS_quotactl,
        libc::SYS_syslog,
        libc::SYS_vhangup,
        // Changes of the file system view.
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_mount_setattr,
        libc::SYS_setns,
        libc::SYS_unshare,
        // Landlock does not cover modes, owners, attributes and times of files outside the allow-list.
        libc::SYS_fchmod,
        libc::SYS_fchmodat,
        libc::SYS_fchmodat2,
        libc::SYS_fchown,
        libc::SYS_fchownat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_fremovexattr,
        libc::SYS_utimensat,
        SYS_SETXATTRAT,
        SYS_REMOVEXATTRAT,
        SYS_FILE_SETATTR,
    ];

    // These numbers are the same on every architecture; libc does not name them yet.
    const SYS_SETXATTRAT: c_long = 463;
    const SYS_REMOVEXATTRAT: c_long = 466;
    const SYS_FILE_SETATTR: c_long = 469;

    /// Older forms of these calls, which newer architectures lack.
    #[cfg(target_arch = "x86_64")]
    const REFUSED_HERE: &[c_long] = &[
        libc::SYS_chmod,
        libc::SYS_chown,
        libc::SYS_lchown,
        libc::SYS_utime,
        libc::SYS_utimes,
        libc::SYS_futimesat,
        libc::SYS_iopl,
        libc::SYS_ioperm,
        libc::SYS_kexec_file_load,
        libc::SYS_uselib,
    ];
    #[cfg(not(target_arch = "x86_64"))]
    const REFUSED_HERE: &[c_long] = &[];

    /// Terminal requests that inject input, select or redirect: TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD, TIOCSCTTY.
    const TERMINAL_REQUESTS: &[u64] = &[0x5412, 0x541C, 0x541D, 0x5423, 0x540E];

    /// All `CLONE_NEW…` flags of `clone`.
    const NEW_NAMESPACES: &[i32] = &[
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];

    type Rules = BTreeMap<i64, Vec<SeccompRule>>;

    /// Builds a rule that matches if all of these 32-bit arguments match.
    fn with(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
        let conditions = conditions.iter().map(|(argument, operator, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
        });
        SeccompRule::new(conditions.collect::<Result<_, _>>()?)
    }

    fn rules(network: bool) -> Result<Rules, seccompiler::BackendError> {
        let mut rules: Rules = REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
        let terminal = TERMINAL_REQUESTS.iter().map(|request| with(&[(1, Eq, *request)]));
        rules.insert(libc::SYS_ioctl, terminal.collect::<Result<_, _>>()?);
        let (inet, inet6) = (libc::AF_INET as u64, libc::AF_INET6 as u64);
        // Only Internet families are allowed: no AF_UNIX, AF_NETLINK, AF_VSOCK or AF_PACKET.
        let sockets = if network { vec![with(&[(0, Ne, inet), (0, Ne, inet6)])?] } else { Vec::new() };
        rules.insert(libc::SYS_socket, sockets);
        // A connected pair is private to the program, except for datagram sockets, which can send to any address.
        const TYPE: SeccompCmpOp = MaskedEq(0xf);
        let pairs = [
            with(&[(0, Ne, libc::AF_UNIX as u64)])?,
            with(&[(1, TYPE, libc::SOCK_DGRAM as u64)])?,
            with(&[(1, TYPE, libc::SOCK_RAW as u64)])?,
        ];
        rules.insert(libc::SYS_socketpair, pairs.into());
        let namespaces = NEW_NAMESPACES.iter().map(|flag| with(&[(0, MaskedEq(*flag as u64), *flag as u64)]));
        rules.insert(libc::SYS_clone, namespaces.collect::<Result<_, _>>()?);
        // Limits and priorities of other processes of the same user.
        rules.insert(libc::SYS_prlimit64, vec![with(&[(0, Ne, 0)])?]);
        rules.insert(libc::SYS_setpriority, vec![with(&[(0, Ne, 0)])?, with(&[(1, Ne, 0)])?]);
        rules.insert(libc::SYS_sched_setscheduler, vec![with(&[(0, Ne, 0)])?]);
        rules.insert(libc::SYS_sched_setparam, vec![with(&[(0, Ne, 0)])?]);
        rules.insert(libc::SYS_sched_setattr, vec![with(&[(0, Ne, 0)])?]);
        Ok(rules)
    }

    fn system_calls(network: bool) -> Result<(), SeccompError> {
        let arch = target().ok_or(SeccompError::Architecture)?;
        let filter = |rules: Rules, errno: i32| -> Result<BpfProgram, seccompiler::BackendError> {
            // Calls of another architecture kill the process.
            SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno.unsigned_abs()), arch)
                .and_then(TryInto::try_into)
        };
        let refused = filter(rules(network)?, libc::EPERM)?;
        // The flags of clone3 are in memory that no filter can read. Without it, libraries fall back to clone.
        let absent = filter(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?;
        for program in [&refused, &absent] {
            apply_filter(program)?;
        }
        #[cfg(target_arch = "x86_64")]
        apply_filter(&without_x32())?;
        Ok(())
    }

    /// Kills a process that makes an x32 system call. The other filters do not know these numbers: they have bit 30 set
    /// and the same architecture.
    #[cfg(target_arch = "x86_64")]
    fn without_x32() -> BpfProgram {
        const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        const JUMP_IF_SET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
        const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
        let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
        vec![
            step(LOAD_NUMBER, 0, 0, 0),
            step(JUMP_IF_SET, 0, 1, 0x4000_0000),
            step(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
            step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        ]
    }
}
