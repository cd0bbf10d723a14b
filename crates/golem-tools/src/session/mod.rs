//! Session keys: what acts for the wallet within an owner's delegation, and the end of it.

mod permission;
pub mod session_get_keys;
pub mod session_provision_key;
pub mod session_revoke_key;

pub(crate) use permission::selector;
