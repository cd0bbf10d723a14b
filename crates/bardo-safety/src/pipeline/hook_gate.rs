//! Deposits in V4 pools with a hook: the hook is evaluated on the pinned block, a hostile one blocks, and any other that takes part in
//! swaps or changes of liquidity needs approval. Only a hook that the pool manager never calls there passes alone: what simulations do
//! not find, they do not exclude.
//!
//! Not here: the simulations (see `golem_protocols::uniswap::hook`).

use alloy::eips::BlockId;
use alloy::providers::Provider as _;

use crate::chain_snapshot::SnapshotReader;
use crate::simulate::DeclarationFault;
use crate::value::UnknownValue;
use bardo_abi::uniswap_v4::PoolKey;
use bardo_base::fabric::CheckReason;
use bardo_base::model::RuleName;
use bardo_base::text::SafeText;
use golem_chain::fork::Fork;
use golem_protocols::uniswap::discovery::PoolReader;
use golem_protocols::uniswap::hook::{HookFinding, HookReport, HookVerdict, trial};
use golem_protocols::uniswap::positions::PositionPool;

/// Maximum length of one line about a hook, in characters.
const MAX_LINE: usize = 200;

/// Evaluates the hook of the pool that a deposit goes to; `None` for a pool without a hook.
pub(super) async fn evaluated(
    reader: &SnapshotReader,
    fork: &Fork,
    place: Option<PositionPool>,
) -> Option<Result<HookReport, UnknownValue>> {
    match place? {
        PositionPool::Keyed(key) if !key.hooks.is_zero() => Some(evaluate(reader, fork, &key).await),
        PositionPool::Keyed(_) | PositionPool::Contract(_) => None,
    }
}

async fn evaluate(reader: &SnapshotReader, fork: &Fork, key: &PoolKey) -> Result<HookReport, UnknownValue> {
    let block = BlockId::hash(fork.pinned().hash);
    let provider = reader.client.agreed();
    let pools = PoolReader::new(provider.clone(), reader.network()).map_err(UnknownValue::because)?;
    let pool = pools.hooked_pool(key, block).await.map_err(UnknownValue::because)?;
    let pool = pool.ok_or_else(|| UnknownValue::because("the pool was never given a price"))?;
    let code = provider.get_code_at(key.hooks).block_id(block).await.map_err(UnknownValue::because)?;
    trial::evaluate(fork, &pool, &code).await.map_err(UnknownValue::because)
}

/// Returns the fault of a deposit in a pool whose hook is hostile.
pub(super) fn faults(hook: Option<&Result<HookReport, UnknownValue>>) -> Option<DeclarationFault> {
    let report = hook?.as_ref().ok().filter(|report| report.verdict == HookVerdict::Hostile)?;
    let harms = report.findings.iter().filter(|finding| finding.harms()).map(HookFinding::to_string);
    let found = harms.collect::<Vec<_>>().join("; ");
    let fault =
        DeclarationFault::new(RuleName::PoolHook, "a pool whose hook takes nothing and lets liquidity out", found);
    Some(fault.passing("a pool without such a hook"))
}

/// Returns the reason why a deposit in a pool with a hook needs approval; `None` if it does not.
pub(super) fn asks(hook: Option<&Result<HookReport, UnknownValue>>) -> Option<CheckReason> {
    match hook? {
        Ok(report) => match report.verdict {
            HookVerdict::Inert | HookVerdict::Hostile => None,
            HookVerdict::NoHarmFound => Some(CheckReason::HookTakesPart),
            HookVerdict::Unknown => {
                let line = |finding: &HookFinding| SafeText::clean(&finding.to_string(), MAX_LINE);
                Some(CheckReason::HookUnknown { open: report.findings.iter().map(line).collect() })
            }
        },
        Err(why) => Some(CheckReason::HookNotEvaluated { why: SafeText::clean(&why.to_string(), MAX_LINE) }),
    }
}
