//! Order placement: the order is recorded together with its reserved spending, signed once every check passes, stored,
//! and only then submitted.

use alloy::eips::{BlockId, BlockNumberOrTag};
use alloy::primitives::{Address, B256, Bytes, Signature};
use alloy::providers::Provider as _;
use serde_json::json;

use super::assess::Assessment;
use super::capability::Capability;
use super::commit::ReservedSpend;
use super::sign::ON_PAPER;
use super::{Pipeline, PipelineRefusal, PreparedAction};
use crate::account::SignError;
use crate::audit::{self, AuditError, AuditKind, LogEntry};
use crate::chain_snapshot::SnapshotReader;
use crate::orders::OrderState;
use crate::orders::Orders;
use crate::orders::record::{self, OrderFigures, OrderRecord, OrderStage};
use crate::proposal::BridgeArrival;
use crate::signing_payload::SigningPayload;
use crate::simulate;
use crate::typed::TypedMessage;
use crate::value::{UnknownValue, ValuedAmount};
use bardo_base::error::ErrorCode;
use bardo_base::fabric::CardToken;
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::signer::signer_of;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use bardo_store::StoreError;
use golem_chain::network::KnownContract;
use golem_chain::provider::ProviderError;
use golem_chain::token::{self, TokenId, TokenInfo};

/// Reason why an order was not placed.
pub(super) struct PlacementError {
    pub code: ErrorCode,
    pub why: String,
    /// True if it counts as a failure for the failure breaker; false if the order was withdrawn.
    pub failed: bool,
    /// True if a signature may exist nevertheless.
    pub unclear: bool,
}

impl PlacementError {
    fn before(code: ErrorCode, why: impl ToString) -> Self {
        Self { code, why: why.to_string(), failed: false, unclear: false }
    }
}

impl Pipeline {
    /// Connects the service that submits and follows signed orders. Without it no order is signed. Later calls have no
    /// effect.
    pub fn connect_orders(&self, orders: Orders) {
        // The first connection stays, so that only one place follows orders.
        let _first = self.inner.orders.set(orders);
    }

    /// Returns the service that submits and follows signed orders, if one is connected.
    pub fn orders(&self) -> Option<&Orders> {
        self.inner.orders.get()
    }

    /// Returns the Keccak-256 hash of the code that settles the order of `payload`, on `block`; `None` without an order
    /// or without code.
    pub(super) async fn settling_code(
        &self,
        reader: &SnapshotReader,
        payload: &SigningPayload,
        block: BlockId,
    ) -> Result<Option<B256>, PipelineRefusal> {
        let Some((_, settler)) = payload.order().and_then(|order| simulate::settler(&order.message)) else {
            return Ok(None);
        };
        let code = reader.client.agreed().get_code_at(settler).block_id(block).await.map_err(ProviderError::from);
        let code = code?;
        Ok((!code.is_empty()).then(|| alloy::primitives::keccak256(code)))
    }

    /// Returns the least amount that a bridge order or deposit delivers on another chain, at the lowest price there;
    /// `None` without one.
    pub(super) async fn arrival(&self, payload: &SigningPayload) -> Result<Option<ValuedAmount>, UnknownValue> {
        let arrival = payload.proposal().bridged();
        let Some(BridgeArrival { chain_id, token: claimed, at_least, .. }) = arrival else { return Ok(None) };
        let reader = self.reader(*chain_id).map_err(|refusal| UnknownValue::because(refusal.message))?;
        // Without a pool there, nobody could fill the deposit.
        if payload.proposal().arrival.is_some()
            && reader.network().book.contract(KnownContract::AcrossSpokePool).is_none()
        {
            let what = format_args!("the address book of {} has no Across SpokePool", reader.network());
            return Err(UnknownValue::because(what));
        }
        let token = described(&reader, claimed).await?;
        let spreads = reader.spreads(&[token.id], &[]).await;
        let price = spreads.get(token.id)?.all.lowest;
        let amount = TokenAmount::new(*at_least, token.decimals).map_err(UnknownValue::because)?;
        let usd = Usd::value_of(amount, price, Rounding::Down).map_err(UnknownValue::because)?;
        Ok(Some(ValuedAmount { token, amount: *at_least, usd }))
    }

    /// Returns the figures to record about the order before it is signed; `None` without an order.
    pub(super) async fn order_figures(
        &self,
        payload: &SigningPayload,
        assessment: &Assessment,
    ) -> Result<Option<OrderFigures>, PipelineRefusal> {
        let proposal = payload.proposal();
        let Some(order) = &proposal.order else { return Ok(None) };
        if self.orders().is_none_or(|orders| !orders.accepts(proposal.chain_id, &order.message)) {
            let why = "no service is connected that accepts this order: a rehearsal has one with --residents, a live \
                       network with a key of the Trading API";
            return Err(PipelineRefusal::new(ErrorCode::ChainUnsupported, why));
        }
        let nothing = || PipelineRefusal::new(ErrorCode::ValidationFailed, "the order does not name its trade");
        let from_block = assessment.inputs.simulation.as_ref().map(|simulated| simulated.pinned.number);
        let from_block = from_block.ok_or_else(nothing)?;
        let given = &proposal.outflows.first().ok_or_else(nothing)?.token;
        let figures = match (&order.arrival, proposal.inflows.first()) {
            (Some(arrival), _) => {
                let reader = self.reader(arrival.chain_id)?;
                let head = reader.client.agreed().get_block_by_number(BlockNumberOrTag::Latest).await;
                let head = head.map_err(ProviderError::from)?;
                let headless = || {
                    let why = "the destination chain has no latest block";
                    PipelineRefusal::new(ErrorCode::ChainUnreachable, why)
                };
                let head = head.ok_or_else(headless)?.header;
                let height = head.number;
                let token = [(arrival.token.id, arrival.token.clone())].into_iter().collect();
                let balances = reader.balances(payload.account(), &token, BlockId::hash(head.hash)).await;
                let balances = balances?;
                OrderFigures {
                    expected_outcome: proposal.expected_outcome.clone(),
                    token_in: asset(given),
                    token_out: asset(&arrival.token),
                    quoted_out: arrival.expected,
                    from_block,
                    arrival_from_block: Some(height),
                    arrival_before: balances.get(&arrival.token.id).map(|(_, amount)| *amount),
                }
            }
            (None, Some(inflow)) => OrderFigures {
                expected_outcome: proposal.expected_outcome.clone(),
                token_in: asset(given),
                token_out: asset(&inflow.token),
                quoted_out: inflow.expected,
                from_block,
                arrival_from_block: None,
                arrival_before: None,
            },
            (None, None) => return Err(nothing()),
        };
        Ok(Some(figures))
    }

    /// Signs the order of a plan whose transactions are done, stores its signature, and submits it.
    #[tracing::instrument(level = "debug", skip_all, fields(permit_id = %prepared.preview.permit.permit_id))]
    pub(super) async fn place_order(
        &self,
        prepared: &PreparedAction,
        assessment: &Assessment,
        gas: Usd,
    ) -> Result<OrderRecord, PlacementError> {
        let PreparedAction { preview, account, .. } = prepared;
        let payload = &preview.payload;
        let stopped = || self.inner.rules.stop() != assessment.inputs.stop;
        let (Some(capability), Some(order), Some(orders)) =
            (Capability::of_order(payload.clone()), payload.order(), self.orders())
        else {
            return Err(PlacementError::before(ErrorCode::ValidationFailed, "there is no order to sign"));
        };
        let Some((hash, _)) = record::identity(&order.message) else {
            return Err(PlacementError::before(ErrorCode::ValidationFailed, "the message to sign is not an order"));
        };
        if self.inner.paper.is_some() {
            return Err(PlacementError::before(ErrorCode::WalletNotConfigured, ON_PAPER));
        }
        if stopped() {
            return Err(PlacementError::before(ErrorCode::Halted, "a stop was set before it was signed"));
        }
        self.step(payload, step_of(&order.message));
        let signature = match sign(account.sign_order(capability).await, payload, order.signer) {
            Ok(signature) => signature,
            Err(not_placed) => {
                if not_placed.unclear {
                    // Somebody may have a signature, so the order counts as submitted until its deadline.
                    let now = self.inner.clock.now_millis();
                    let stages = (OrderStage::Reserved, OrderStage::Refused);
                    let status = OrderState::failed(&order.message);
                    let kept = self
                        .inner
                        .store
                        .write(move |transaction| record::advance(transaction, hash, stages, status, now));
                    // If this write fails, the order stays reserved, and so does its spending.
                    let _kept: Result<bool, StoreError> = kept.await;
                }
                return Err(not_placed);
            }
        };
        failpoint::reach(Failpoint::OrderSigned);
        if stopped() {
            return Err(PlacementError::before(ErrorCode::Halted, "a stop was set before it was submitted"));
        }
        let clock = self.inner.clock.clone();
        let (call_id, golem_id) = (payload.proposal().call_id, payload.proposal().golem_id.clone());
        let body = json!({
            "permit_id": preview.permit.permit_id, "order": hash, "chain_id": payload.proposal().chain_id,
            "by": account.kind().as_str(), "expected_outcome": payload.proposal().expected_outcome,
        });
        let stored = self.inner.store.write(move |transaction| -> Result<bool, AuditError> {
            let now = clock.now_millis();
            let stored = record::store_signature(transaction, hash, &signature, gas, now)?;
            if stored {
                let entry =
                    LogEntry { kind: AuditKind::OrderSigned, call_id: Some(call_id), golem_id: &golem_id, body: &body };
                audit::append(transaction, now, &entry)?;
            }
            failpoint::reach(Failpoint::OrderInsideStore);
            Ok(stored)
        });
        match stored.await {
            Ok(true) => failpoint::reach(Failpoint::OrderStored),
            Ok(false) => return Err(PlacementError::before(ErrorCode::StoreUnavailable, "the order was not stored")),
            Err(error) => {
                // The row may or may not be on disk, but the order was not submitted.
                return Err(PlacementError {
                    code: ErrorCode::StoreUnavailable,
                    why: error.to_string(),
                    failed: false,
                    unclear: true,
                });
            }
        }
        self.step(payload, "Submitting to filler network");
        let placed = orders.submit(hash).await;
        placed.map_err(|error| PlacementError {
            code: ErrorCode::StoreUnavailable,
            why: error.to_string(),
            failed: false,
            unclear: true,
        })
    }

    /// Builds the order record that is stored in the reserving transaction.
    pub(super) fn record_of(
        &self,
        prepared: &PreparedAction,
        figures: OrderFigures,
        held: &ReservedSpend,
        now: u64,
    ) -> Option<OrderRecord> {
        let preview = &prepared.preview;
        let proposal = preview.payload.proposal();
        let message = preview.payload.order()?.message.clone();
        let (hash, _) = record::identity(&message)?;
        Some(OrderRecord {
            hash,
            permit_id: preview.permit.permit_id,
            call_id: proposal.call_id,
            golem_id: proposal.golem_id.clone(),
            chain_id: proposal.chain_id,
            account: proposal.account,
            status: OrderState::pending(&message),
            message,
            signature: None,
            stage: OrderStage::Reserved,
            figures,
            card: None,
            reservation: held.reservation,
            spent: held.spent,
            gas: Usd::ZERO,
            created_at: now,
            signed_at: None,
            maybe_seen: false,
        })
    }
}

/// Progress step for signing this kind of order.
fn step_of(message: &TypedMessage) -> &'static str {
    match message {
        TypedMessage::CrossChainOrder { .. } => "Signing intent",
        TypedMessage::UniswapxOrder { .. }
        | TypedMessage::Permit2Allowance { .. }
        | TypedMessage::Permit2Transfer { .. } => "Signing Permit2",
    }
}

/// Returns the account's signature if it is a valid one by `signer` over the order of `payload`.
fn sign(answer: Result<Bytes, SignError>, payload: &SigningPayload, signer: Address) -> Result<Bytes, PlacementError> {
    let signature = match answer {
        Ok(signature) => signature,
        Err(error) => {
            let (code, failed, unclear) = (error.code(), error.is_failure(), matches!(error, SignError::Unclear(_)));
            return Err(PlacementError { code, why: error.to_string(), failed, unclear });
        }
    };
    let digest = payload.order().map(|order| order.message.digest(payload.proposal().chain_id));
    let found = digest.zip(Signature::from_raw(&signature).ok());
    let found = found.and_then(|(digest, signature)| signer_of(&signature, &digest));
    if found == Some(signer) {
        return Ok(signature);
    }
    let why = "the account signed a different message";
    Err(PlacementError { failed: true, ..PlacementError::before(ErrorCode::PermitMismatch, why) })
}

async fn described(reader: &SnapshotReader, claimed: &TokenInfo) -> Result<TokenInfo, UnknownValue> {
    let TokenId::Erc20(address) = claimed.id else {
        return Err(UnknownValue::because("an order cannot deliver the native token of another chain"));
    };
    let read =
        token::read(&[address], reader.network(), reader.client.agreed()).await.map_err(UnknownValue::because)?;
    match read.into_iter().next() {
        Some(Ok(real)) if real == *claimed => Ok(real),
        Some(Ok(_)) => {
            Err(UnknownValue::because(format_args!("the proposal's description of {address} differs from its chain's")))
        }
        Some(Err(error)) => Err(UnknownValue::because(error)),
        None => Err(UnknownValue::because(format_args!("{address} could not be read"))),
    }
}

/// Token description as transaction cards show it.
pub(super) fn asset(token: &TokenInfo) -> CardToken {
    let address = match token.id {
        TokenId::Native => Address::ZERO,
        TokenId::Erc20(address) => address,
    };
    CardToken { symbol: token.symbol.clone(), address, decimals: token.decimals }
}
