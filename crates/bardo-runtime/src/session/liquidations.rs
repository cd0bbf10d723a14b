//! Liquidations of the account's debts in lending markets, as they happen and while Bardo was not running: read from the
//! pools' events, reported once, and written to the audit log. They are nobody's action here, and not trades.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, B256};
use alloy::providers::Provider as _;
use serde_json::json;

use super::state::SessionState;
use bardo_base::error::ToolError;
use bardo_base::fabric::{EventKind, LendingLiquidated};
use bardo_safety::audit::{self, AuditError, AuditKind, AuditLog, AuditNote};
use golem_chain::network::NetworkKind;
use golem_chain::provider::ProviderError;
use golem_protocols::aave::market::MarketContracts;
use golem_tools::engine::ConnectedChain;
use golem_tools::lending::liquidations::{LOOKBACK_BLOCKS, liquidations};

/// Interval between two looks on devnets.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The same on other networks, whose endpoints limit the number of requests.
const POLL_INTERVAL_REMOTE: Duration = Duration::from_secs(30);

/// Number of newest blocks that are left out on networks other than devnets: a reorganisation may still replace them.
const UNSETTLED: u64 = 2;

/// Identity of an event: chain, transaction and place in its block.
type ReportedEvent = (u64, B256, u64);

/// Reports every liquidation until the session ends.
pub(super) async fn follow(state: Arc<SessionState>) {
    let Some(account) = state.sources.world.account.filter(|_| !state.watch_only) else { return };
    let chains: Vec<&ConnectedChain> =
        state.sources.world.chains().iter().filter(|chain| MarketContracts::of(chain.network()).is_ok()).collect();
    if chains.is_empty() {
        return;
    }
    // Registered from the beginning, so that the time of its reaction in a scenario does not depend on the speed of the
    // machine.
    let _attendance = state.sources.clock.attend();
    let devnet = chains.iter().all(|chain| chain.network().kind == NetworkKind::Devnet);
    let (mut seen, mut reported) = (BTreeMap::new(), BTreeSet::new());
    loop {
        for chain in &chains {
            let chain_id = chain.network().chain_id;
            match state.note_liquidations(chain, account, seen.get(&chain_id).copied(), &mut reported).await {
                Ok(newest) => drop(seen.insert(chain_id, newest)),
                // Read again from the same block.
                Err(error) => tracing::debug!(chain_id, %error, "cannot look for liquidations"),
            }
        }
        state.sources.clock.pause(if devnet { POLL_INTERVAL } else { POLL_INTERVAL_REMOTE }).await;
    }
}

impl SessionState {
    /// Reports the liquidations after block `seen`, and returns the newest block that was read.
    async fn note_liquidations(
        &self,
        chain: &ConnectedChain,
        account: Address,
        seen: Option<u64>,
        reported: &mut BTreeSet<ReportedEvent>,
    ) -> Result<u64, ToolError> {
        let head = chain.client.agreed().get_block_number().await.map_err(ProviderError::from)?;
        let unsettled = if chain.network().kind == NetworkKind::Devnet { 0 } else { UNSETTLED };
        let last = head.saturating_sub(unsettled);
        let first = seen.map_or(last.saturating_sub(LOOKBACK_BLOCKS), |seen| seen.saturating_add(1));
        if first > last {
            // A devnet that was rolled back makes these blocks again.
            return Ok(last);
        }
        for found in liquidations(chain, account, (first, last)).await?.found {
            if reported.insert((found.chain_id, found.tx_hash, found.log_index)) && !self.is_recorded(&found) {
                self.report_liquidation(account, found).await;
            }
        }
        Ok(last)
    }

    /// True if an earlier session has reported it.
    fn is_recorded(&self, found: &LendingLiquidated) -> bool {
        let same = |body: &serde_json::Value| {
            body["chain_id"] == json!(found.chain_id)
                && body["tx_hash"] == json!(found.tx_hash)
                && body["log_index"] == json!(found.log_index)
        };
        let recorded = self
            .sources
            .ledger
            .store
            .read(|connection| audit::newest_body(connection, &[AuditKind::LendingLiquidated], same));
        match recorded {
            Ok(body) => body.is_some(),
            Err(error) => {
                let error: AuditError = error;
                tracing::warn!(%error, "unknown whether a liquidation was reported before; reporting it");
                false
            }
        }
    }

    async fn report_liquidation(&self, account: Address, found: LendingLiquidated) {
        let body = json!({
            "account": account,
            "chain_id": found.chain_id,
            "block": found.block,
            "tx_hash": found.tx_hash,
            "log_index": found.log_index,
            "collateral": found.collateral,
            "taken": found.taken.to_string(),
            "taken_usd": found.taken_usd,
            "debt": found.debt,
            "covered": found.covered.to_string(),
            "covered_usd": found.covered_usd,
            "liquidator": found.liquidator,
        });
        let audit_log = AuditLog::new(self.sources.ledger.store.clone(), self.sources.clock.clone());
        let golem_id = self.golem_id.clone();
        let note = AuditNote { kind: AuditKind::LendingLiquidated, call_id: None, golem_id, body };
        if let Err(error) = audit_log.record(note).await {
            tracing::warn!(%error, "cannot record a liquidation in the audit log");
        }
        self.stats().remark(&format!("{found}, in block {} of chain {}", found.block, found.chain_id));
        self.emit(None, EventKind::LendingLiquidated(Box::new(found)));
    }
}
