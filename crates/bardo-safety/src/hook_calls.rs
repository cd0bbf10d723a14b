//! Deployments of V4 hooks: one call of the deterministic deployment proxy with one of Bardo's templates, byte by byte, at an address
//! that states exactly the template's permissions. Nothing else is ever deployed.

use crate::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use alloy::primitives::{Address, U256};
use bardo_base::model::CapabilityTier;
use golem_chain::network::{AddressBook, KnownContract};
pub use golem_protocols::uniswap::hook::template::DEPLOYMENT_PROXY;
use golem_protocols::uniswap::hook::template::HookDeployment;

/// First bytes of every salt. Lists of contracts and PolicyCage name functions by the first bytes of calldata, and that of the
/// proxy begins with the salt.
pub const SALT_TAG: [u8; 4] = *b"Bard";

/// First number from which salts with [`SALT_TAG`] are tried.
pub fn first_salt() -> U256 {
    U256::from(u32::from_be_bytes(SALT_TAG)) << 224
}

/// Reason why a deployment is not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HookRuleError {
    /// The deployment proxy is called by another kind of action, or by a tool without the privilege.
    #[error("contracts can only be deployed by a privileged hook tool")]
    Beside,
    /// Another contract is called.
    #[error("a hook is deployed through the deterministic deployment proxy, on a network with Uniswap V4")]
    Elsewhere,
    /// The plan moves something, or does more.
    #[error("a deployment is one call that moves nothing, sends no value and leaves no allowance")]
    DoesMore,
    /// The code is none of the templates, or its address states other permissions.
    #[error("the code is not, byte by byte, one of the hook templates at an address with exactly its permissions")]
    Code,
}

/// Returns true for a call that only this module may judge.
pub fn concerns(leg: &PlanLeg, proposal: &Proposal) -> bool {
    proposal.intent == ProposalIntent::Hook || leg.to == DEPLOYMENT_PROXY
}

/// Decodes a deployment; returns it with its future address.
///
/// # Errors
/// [`HookRuleError`] if the call must not be signed.
pub fn decode(
    leg: &PlanLeg,
    proposal: &Proposal,
    book: &AddressBook,
) -> Result<(HookDeployment, Address), HookRuleError> {
    if proposal.intent != ProposalIntent::Hook || proposal.tool.capability != CapabilityTier::Privileged {
        return Err(HookRuleError::Beside);
    }
    let manager = book.contract(KnownContract::V4PoolManager).filter(|_| leg.to == DEPLOYMENT_PROXY);
    let manager = manager.ok_or(HookRuleError::Elsewhere)?;
    let does_more = proposal.legs.len() != 1
        || leg.purpose != LegPurpose::Main
        || !leg.value.is_zero()
        || !leg.slots.is_empty()
        || !proposal.outflows.is_empty()
        || !proposal.inflows.is_empty()
        || !proposal.allowances.is_empty()
        || proposal.recipients.iter().any(|one| *one != proposal.account)
        || proposal.trade.is_some()
        || proposal.order.is_some()
        || proposal.replaces.is_some();
    if does_more {
        return Err(HookRuleError::DoesMore);
    }
    let (deployment, salt, address) = HookDeployment::of_calldata(&leg.data, manager).ok_or(HookRuleError::Code)?;
    if salt.starts_with(&SALT_TAG) { Ok((deployment, address)) } else { Err(HookRuleError::Code) }
}

/// Returns the deployment that a proposal consists of; `None` for any other action, and for one that must not be signed.
pub fn plan(proposal: &Proposal, book: &AddressBook) -> Option<(HookDeployment, Address)> {
    decode(proposal.legs.first()?, proposal, book).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proposal::Outflow;
    use crate::sample;
    use alloy::primitives::Bytes;
    use bardo_base::model::ToolMeta;

    const ACCOUNT: Address = Address::repeat_byte(0x11);
    const MANAGER: Address = Address::repeat_byte(0x44);

    fn book() -> AddressBook {
        let mut book = AddressBook::default();
        book.set("v4PoolManager", MANAGER);
        book
    }

    fn data() -> Bytes {
        let (salt, _) = HookDeployment::Counting.mine(MANAGER, first_salt()).unwrap();
        HookDeployment::Counting.calldata(MANAGER, salt)
    }

    fn proposal(to: Address, data: impl Into<Bytes>) -> Proposal {
        let made = sample::proposal(ACCOUNT, ProposalIntent::Hook, sample::leg(to, data));
        let tool = ToolMeta { capability: CapabilityTier::Privileged, ..made.tool };
        Proposal { tool, ..made }
    }

    fn judged(proposal: &Proposal) -> Result<(HookDeployment, Address), HookRuleError> {
        decode(&proposal.legs[0], proposal, &book())
    }

    #[test]
    fn a_template_is_deployed_byte_by_byte_and_by_a_privileged_tool_only() {
        let honest = proposal(DEPLOYMENT_PROXY, data());
        assert_eq!(judged(&honest).unwrap().0, HookDeployment::Counting);
        for at in [0, 31, 40, data().len() - 1] {
            let mut bytes = data().to_vec();
            bytes[at] ^= 1;
            assert_eq!(judged(&proposal(DEPLOYMENT_PROXY, bytes)), Err(HookRuleError::Code), "byte {at}");
        }
        assert_eq!(judged(&proposal(DEPLOYMENT_PROXY, Bytes::new())), Err(HookRuleError::Code));
        let (salt, _) = HookDeployment::Counting.mine(MANAGER, U256::ZERO).unwrap();
        let untagged = HookDeployment::Counting.calldata(MANAGER, salt);
        assert_eq!(judged(&proposal(DEPLOYMENT_PROXY, untagged)), Err(HookRuleError::Code), "a salt without the tag");
        assert_eq!(judged(&proposal(MANAGER, data())), Err(HookRuleError::Elsewhere));
        let plain = sample::proposal(ACCOUNT, ProposalIntent::Hook, sample::leg(DEPLOYMENT_PROXY, data()));
        assert_eq!(judged(&plain), Err(HookRuleError::Beside), "a tool without the privilege");
        let swap = Proposal { intent: ProposalIntent::Swap, ..honest.clone() };
        assert_eq!(judged(&swap), Err(HookRuleError::Beside));
        assert!(concerns(&swap.legs[0], &swap));
        for change in [
            (|one| one.legs[0].value = U256::ONE) as fn(&mut Proposal),
            |one| one.legs.push(one.legs[0].clone()),
            |one| one.legs[0].purpose = LegPurpose::CleanUp,
            |one| one.recipients.push(MANAGER),
            |one| {
                let token = sample::token(MANAGER, "T", 18);
                one.outflows.push(Outflow { token, amount: U256::ONE });
            },
        ] {
            let mut more = honest.clone();
            change(&mut more);
            assert_eq!(judged(&more), Err(HookRuleError::DoesMore));
        }
    }
}
