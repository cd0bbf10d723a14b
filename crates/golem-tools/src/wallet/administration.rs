//! Scope `admin:wallet`: tools that create wallets or write the policy file.

use crate::engine::{CallContext, WalletAdministration};
use bardo_base::error::{ErrorCode, ToolError};

/// Name of the scope.
pub(super) const SCOPE: &str = "admin:wallet";

/// Access with the scope `admin:wallet`, which only the operator's own command has.
///
/// # Errors
/// `APPROVAL_REQUIRED` for everyone else: an agent, a running session, a rehearsal.
pub(super) fn administration(context: &CallContext) -> Result<&dyn WalletAdministration, ToolError> {
    let granted = context.world.administration.as_deref().filter(|_| context.golem_id().is_operator());
    granted.ok_or_else(|| {
        let tool = context.meta().name;
        let what = format_args!("{tool} needs the scope {SCOPE}, which only the operator's own command has");
        ToolError::new(ErrorCode::ApprovalRequired, what)
            .suggest(format_args!("The operator runs `bardo call {tool}` on a terminal."))
            .detail("scope", SCOPE)
    })
}
