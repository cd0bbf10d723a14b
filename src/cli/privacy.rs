//! What this process holds is nobody else's: keys, passwords and the environment's secrets lie in its memory, and
//! programs of the same user may otherwise read it, a Golem's brain among them. It also keeps keys out of core dumps.

/// Has the system refuse other programs of this user the memory and the environment of this one. Where that cannot be
/// had, it runs all the same: `bardo doctor` says so.
pub(super) fn keep_memory_private() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "other programs of this user can read this one's memory");
    }
}

/// Whether [`keep_memory_private`] holds.
pub(super) fn is_memory_private() -> bool {
    #[cfg(target_os = "linux")]
    let private = rustix::process::dumpable_behavior() == Ok(rustix::process::DumpableBehavior::NotDumpable);
    #[cfg(not(target_os = "linux"))]
    let private = false;
    private
}
