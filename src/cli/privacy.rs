//! Memory protection. This process has keys, passwords and the environment's secrets in its memory, and other programs
//! of the same user could read it, including a Golem's brain. The protection also keeps keys out of core dumps.

/// Makes the operating system deny other programs of this user access to the memory and environment of this process. A
/// failure is not fatal; `bardo doctor` reports it.
pub(super) fn keep_memory_private() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "other processes of this user can read this one's memory");
    }
}

/// Returns true if [`keep_memory_private`] is in effect.
pub(super) fn is_memory_private() -> bool {
    #[cfg(target_os = "linux")]
    let private = rustix::process::dumpable_behavior() == Ok(rustix::process::DumpableBehavior::NotDumpable);
    #[cfg(not(target_os = "linux"))]
    let private = false;
    private
}
